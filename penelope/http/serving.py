"""The port that a server listens on, and how Hypercorn serves it.

Source: contract, section 1; section 8 ("Stops and starts").
"""

import errno
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from penelope.errors import PortTaken

if TYPE_CHECKING:
    from hypercorn.config import Config


@contextmanager
def listening(host: str, port: int, setting: str) -> Iterator[socket.socket]:
    """Bind the port, which takes no connection yet.

    Args:
        setting: what says which port it is, for the message.

    Raises:
        PortTaken: it cannot be bound; the message says why.
    """
    address = host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address, port))
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                raise PortTaken(f"port {port} of {host} is taken: set {setting} to another") from exc
            raise PortTaken(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
        yield bound


def server_config(grace_s: float) -> "Config":
    """How Hypercorn serves.

    Args:
        grace_s: seconds that requests get to end at a stop.
    """
    from hypercorn.config import Config  # not needed to bind the port, which comes long before

    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.graceful_timeout = grace_s
    config.include_server_header = False
    config.keep_alive_timeout = 20.0
    config.backlog = 1024
    config.h11_max_incomplete_size = 32 * 1024
    return config


def drop_connections(number: int) -> None:
    """Shut down the connections that are still open on our port."""
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == number:
            try:
                with socket.fromfd(connection.fd, socket.AF_INET, socket.SOCK_STREAM) as held:
                    held.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
