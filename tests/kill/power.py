"""A power cut, as a model: of all that was written, the disk has what was synced, and of the rest whatever it likes.

`strace` tells each call that changes a file, a name or a folder, and each sync, in their order. A `Disk` plays them,
and shows for any moment what a disk may hold that loses power then. As strict as POSIX: a file's sync makes its bytes
durable, not its name; a name is durable once its folder is synced.
"""

import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SECTOR: Final = 512
CALLS: Final = (
    "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,ftruncate,truncate,"
    "fallocate,unlink,unlinkat,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,rmdir,copy_file_range,sendfile,splice"
)
_HEX: Final = r"(?:\\x[0-9a-f]{2})*"
_LINE: Final = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)(?:<.*)?(?: E\w+ .*)?$")
_DESCRIPTOR: Final = re.compile(rf"(\d+)<({_HEX})>")
_TEXT: Final = re.compile(rf'"({_HEX})"')


@dataclass(frozen=True, slots=True)
class Event:
    """One call that succeeded.

    Attributes:
        what: `write`, `truncate`, `create`, `unlink`, `rename`, `mkdir`, `sync` or `mark`.
        path: that it is about; of a rename, the old one.
        to: of a rename.
        data: of a write or mark.
        number: a write's offset, a truncation's size.
    """

    what: str
    path: str
    to: str = ""
    data: bytes = b""
    number: int = 0


def strace() -> str | None:
    """The program, if it is there and is allowed to trace."""
    program = shutil.which("strace")
    if program is None:
        return None
    tried = subprocess.run([program, "-o", "/dev/null", "true"], capture_output=True, check=False)
    return program if tried.returncode == 0 else None


def traced(
    program: str, command: Sequence[str], log: Path, root: Path, marks: Path, **more: object
) -> list[Event]:
    """Run a command, which has one thread that writes, and tell what it did below `root`.

    Args:
        log: where the trace goes.
        marks: the file whose writes are marks.
        more: for `subprocess.run`.
    """
    tracing = [program, "-f", "-y", "-xx", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(log)]
    subprocess.run([*tracing, *command], check=True, **more)  # type: ignore[call-overload]
    return list(_events(log.read_text().splitlines(), str(root), str(marks)))


def _events(lines: list[str], root: str, marks: str) -> Iterator[Event]:
    exists: set[str] = {root}
    positions: dict[int, int] = {}
    main = lines[0].partition(" ")[0]
    hidden = root.encode().hex(" ").replace(" ", "\\x")  # as the trace writes it
    for line in lines:
        found = _LINE.match(line)
        if found is None or line.partition(" ")[0] != main:
            # An exit, a signal, another process. The order of what two threads do would be no one's to tell.
            assert hidden not in line, f"another thread, or a line that is not understood: {line[:300]}"
            continue
        call, arguments, result = found[1], found[2], int(found[3])
        if result < 0:
            continue
        here = [(int(number), _decoded(path)) for number, path in _DESCRIPTOR.findall(arguments)]
        texts = [_bytes(text) for text in _TEXT.findall(arguments)]
        yield from _event(call, arguments, result, here, texts, root, marks, exists, positions)


def _event(  # noqa: C901  # a case for each call
    call: str,
    arguments: str,
    result: int,
    here: list[tuple[int, str]],
    texts: list[bytes],
    root: str,
    marks: str,
    exists: set[str],
    positions: dict[int, int],
) -> Iterator[Event]:
    match call, here, texts:
        case (("open" | "openat"), _, [raw]):
            path = raw.decode()
            positions[result] = 0
            if _below(path, root):
                if "O_CREAT" in arguments and path not in exists:
                    exists.add(path)
                    yield Event("create", path)
                if "O_TRUNC" in arguments:
                    yield Event("truncate", path)
        case "write", [(number, path)], [data]:
            if path == marks:
                yield Event("mark", path, data=data)
            elif _below(path, root):
                yield Event("write", path, data=data[:result], number=positions[number])
                positions[number] += result
        case "pwrite64", [(_, path)], [data]:
            if _below(path, root):
                yield Event("write", path, data=data[:result], number=int(arguments.rpartition(",")[2]))
        case (("fsync" | "fdatasync"), [(_, path)], _):
            if _below(path, root):
                yield Event("sync", path)
        case "ftruncate", [(_, path)], _:
            if _below(path, root):
                yield Event("truncate", path, number=int(arguments.rpartition(",")[2]))
        case "unlink", _, [raw]:
            if _below(raw.decode(), root):
                exists.discard(raw.decode())
                yield Event("unlink", raw.decode())
        case "mkdir", _, [raw]:
            if _below(raw.decode(), root):
                exists.add(raw.decode())
                yield Event("mkdir", raw.decode())
        case "rename", _, [old, new]:
            if _below(old.decode(), root):
                exists.discard(old.decode())
                exists.add(new.decode())
                yield Event("rename", old.decode(), to=new.decode())
        case _:
            paths = [path for _, path in here] + [raw.decode(errors="replace") for raw in texts]
            assert not any(_below(path, root) for path in paths), f"the model does not know {call} of {paths}"


def _below(path: str, root: str) -> bool:
    """The wal-index is left out: it is shared memory, and made anew after a cut."""
    return (path == root or path.startswith(f"{root}/")) and not path.endswith("-shm")


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _decoded(text: str) -> str:
    return _bytes(text).decode()


@dataclass(slots=True)
class _File:
    """`synced` is what a sync made durable, `pending` what came since."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class _Folder:
    """The same for names: each leads to a file, or to a folder by its path."""

    synced: dict[str, "_File | str"] = field(default_factory=dict)
    now: dict[str, "_File | str"] = field(default_factory=dict)
    pending: list[Event] = field(default_factory=list)
    made: dict[int, "_File | str"] = field(default_factory=dict)


class Disk:
    """What was written below `root`, which is there already and stays.

    Attributes:
        marks: those so far.
    """

    def __init__(self, root: str) -> None:
        self.marks: list[bytes] = []
        self._root = root
        self._folders: dict[str, _Folder] = {root: _Folder()}

    def play(self, event: Event) -> None:
        folder, _, name = event.path.rpartition("/")
        match event.what:
            case "mark":
                self.marks.append(event.data)
            case "sync" if event.path in self._folders:
                self._sync_folder(self._folders[event.path])
            case "sync":
                file = self._file(event.path)
                file.synced = _applied(file.synced, file.pending)
                file.pending = []
            case "write" | "truncate":
                self._file(event.path).pending.append(event)
            case "mkdir":
                self._folders[event.path] = _Folder()
                self._change(folder, event, name, event.path)
            case "create":
                self._change(folder, event, name, _File())
            case "unlink":
                del self._folders[folder].now[name]
                self._folders[folder].pending.append(event)
            case "rename":
                other = self._folders[folder]
                assert event.to.rpartition("/")[0] == folder, "the model does not move between folders"
                other.now[event.to.rpartition("/")[2]] = other.now.pop(name)
                other.pending.append(event)
            case _:
                raise AssertionError(event.what)

    def _file(self, path: str) -> _File:
        folder, _, name = path.rpartition("/")
        file = self._folders[folder].now[name]
        assert isinstance(file, _File)
        return file

    def _change(self, path: str, event: Event, name: str, entry: "_File | str") -> None:
        folder = self._folders[path]
        folder.now[name] = entry
        folder.made[id(event)] = entry
        folder.pending.append(event)

    def _sync_folder(self, folder: _Folder) -> None:
        folder.synced = dict(folder.now)
        folder.pending.clear()
        folder.made.clear()

    def cut(self, target: Path, dice: random.Random | None) -> None:
        """Write down what is left if the power goes now.

        Args:
            dice: of what was not synced, which part got there nevertheless; None: nothing.
        """
        self._write_folder(self._root, target, dice)

    def _write_folder(self, path: str, target: Path, dice: random.Random | None) -> None:
        target.mkdir()
        folder = self._folders[path]
        names = dict(folder.synced)
        # Names change in their order: each file system that has a journal for them does so.
        for event in folder.pending[: dice.randint(0, len(folder.pending)) if dice else 0]:
            name = event.path.rpartition("/")[2]
            if event.what == "unlink":
                names.pop(name)
            elif event.what == "rename":
                names[event.to.rpartition("/")[2]] = names.pop(name)
            else:
                names[name] = folder.made[id(event)]
        for name, entry in names.items():
            if isinstance(entry, str):
                self._write_folder(entry, target / name, dice)
            else:
                (target / name).write_bytes(_applied(entry.synced, entry.pending, dice, partly=True))


def _applied(
    synced: bytearray, pending: list[Event], dice: random.Random | None = None, *, partly: bool = False
) -> bytearray:
    """The bytes once what is pending got there: all of it; or a part, none without dice, sectors of a write apart."""
    content = bytearray(synced)
    for event in pending:
        if partly and (dice is None or dice.random() < 0.5):
            continue
        if event.what == "truncate":
            content[event.number :] = bytes(max(0, event.number - len(content)))
            continue
        for at in range(0, len(event.data), SECTOR):
            if partly and dice is not None and dice.random() < 0.1:
                continue
            piece, where = event.data[at : at + SECTOR], event.number + at
            content.extend(bytes(max(0, where + len(piece) - len(content))))
            content[where : where + len(piece)] = piece
    return content
