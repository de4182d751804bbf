"""A name server on a real socket, and how a process is made to ask it and no other.

Each name has a list of look-ups; each look-up a list of addresses, IPv4 and IPv6. The last one is answered again and
again. A name that is not there does not exist; one of `None` is never answered.
"""

import ipaddress
import os
import shutil
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import trio

ADDRESS: Final = (
    f"127.53.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"  # another run beside this one has its own
)
PORT: Final = 53  # the system's resolver knows no other
A, AAAA, IN = 1, 28, 1


@dataclass
class NameServer:
    """Attributes:
    names: what is answered, see the module.
    asked: how often each was looked up.
    """

    names: dict[str, list[list[str]] | None] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            await udp.bind((ADDRESS, PORT))
            task_status.started()
            while True:
                question, asker = await udp.recvfrom(4096)
                answer = self._answered(question)
                if answer is not None:
                    await udp.sendto(answer, asker)

    def _answered(self, question: bytes) -> bytes | None:
        name, kind, end = _read(question)
        if kind == A:  # of each look-up one
            self.asked[name] += 1
        if name not in self.names:
            return question[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0) + question[12:end]  # NXDOMAIN
        look_ups = self.names[name]
        if look_ups is None:
            return None
        addresses = look_ups[min(max(self.asked[name], 1), len(look_ups)) - 1]
        records = [_record(address) for address in addresses if (":" in address) == (kind == AAAA)]
        head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
        return head + question[12:end] + b"".join(records)


def _read(question: bytes) -> tuple[str, int, int]:
    """The name that is asked for, the kind of its addresses, and where that ends."""
    at, labels = 12, list[str]()
    while size := question[at]:
        labels.append(question[at + 1 : at + 1 + size].decode("ascii").lower())
        at += 1 + size
    (kind,) = struct.unpack(">H", question[at + 1 : at + 3])
    return ".".join(labels), kind, at + 5


def _record(address: str) -> bytes:
    packed = ipaddress.ip_address(address).packed
    kind = AAAA if len(packed) == 16 else A
    return struct.pack(">HHHIH", 0xC00C, kind, IN, 0, len(packed)) + packed  # lives 0 s


def asks_it(folder: Path) -> Sequence[str]:
    """The words before a command's that make it ask the name server; else the test is skipped."""
    settings = folder / "resolv.conf"
    settings.write_text(f"nameserver {ADDRESS}\noptions timeout:1 attempts:1\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    words = ("unshare", "--mount", "sh", "-c", script, os.fspath(settings))
    if (
        shutil.which("unshare") is None
        or subprocess.run([*words, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to make a mount namespace, for a resolver of its own")
    return words
