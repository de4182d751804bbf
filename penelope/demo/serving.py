"""The addresses that the demo's applications listen on."""

import socket

from hypercorn.config import Config

from penelope.errors import PortTaken

# Cancelling ends the handlers at once, which matters for /hang and /drip: they would never end by themselves.
GRACE_S = 0.0


def listening(host: str, port: int) -> Config:
    """What Hypercorn needs to serve on this address. Port 0 takes a free one.

    Raises:
        PortTaken: the address cannot be bound. The message is the one line to show.
    """
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = GRACE_S
    # Bound here, not by Hypercorn, whose error would come out of its nurseries as a group.
    config.bind = [f"fd://{_bound(host, port).detach()}"]
    return config


def free_port(host: str) -> int:
    """A port that is free now; nothing holds it for the caller."""
    with _bound(host, 0) as bound:
        return int(bound.getsockname()[1])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise PortTaken(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return listening
