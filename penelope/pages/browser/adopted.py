"""A process that was started elsewhere, as asyncio has those that it started itself.

Asyncio-flavoured.
"""

import asyncio
import subprocess
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

Made = tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]


class _Adopted(BaseSubprocessTransport):
    """Asyncio's own transport, which each system's has to tell how to start a process, and nothing else."""

    def _start(  # its arguments are asyncio's
        self, args: Any, shell: Any, stdin: Any, stdout: Any, stderr: Any, bufsize: Any, **kwargs: Any
    ) -> None:
        self._proc = kwargs["process"]


async def adopt(
    process: "subprocess.Popen[bytes]",
    words: Sequence[str],
    protocol_factory: Callable[[], asyncio.SubprocessProtocol],
) -> Made:
    """As `loop.subprocess_exec` of these words, with pipes for stdin and stdout; the transport owns them from now on.

    Args:
        process: with unbuffered pipes.
    """
    loop = asyncio.get_running_loop()
    protocol, connected = protocol_factory(), loop.create_future()
    pipe = subprocess.PIPE
    transport = _Adopted(
        loop, protocol, list(words), False, pipe, pipe, None, 0, waiter=connected, process=process
    )
    threading.Thread(
        target=_tell_end, args=(process, transport, loop), name="penelope-driver-end", daemon=True
    ).start()
    try:
        await connected
    except BaseException:
        transport.close()
        raise
    return transport, protocol


def _tell_end(
    process: "subprocess.Popen[bytes]", transport: _Adopted, loop: asyncio.AbstractEventLoop
) -> None:
    """In a thread, as asyncio itself has it where there is no better way; it lasts as long as the process."""
    code = process.wait()
    with suppress(RuntimeError):  # the loop is closed: nobody wants to know
        loop.call_soon_threadsafe(transport._process_exited, code)
