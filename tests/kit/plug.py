"""A recorder of what a command does to its disk: every name, byte and sync of it and of all its children, by ``strace``.

The recording begins with the folder as it lies there, which counts as on disk, and is checked at its end: carried out whole,
it must give the folder that the command left. Files are known by numbers, so that a name is one thing and what it names
another. What is written through shared memory (``mmap``) no system call tells; where a file was mapped so, its last bytes
count as written at the end, and ``mapped`` names it. Calls count in the order in which they ended: of two threads that append
at once, a trace does not tell which came first, and a program that is recorded does not let them. What plug does not understand
is an error, and never left out.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kit.powercut import whole as joined
from tests.kit.repos import Outcome

CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,lseek,read,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,"
    "copy_file_range,sendfile,ioctl,mmap,fsync,fdatasync,sync,syncfs,sync_file_range,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat,chmod,fchmod,fchmodat,clone,clone3,fork,vfork,chdir,fchdir"
)
_LINE = re.compile(
    r"^(?P<who>\d+) +(?P<when>\d+\.\d+) (?P<name>\w+)\((?P<args>.*)\) += (?P<result>(?:0x)?[0-9a-f]+)(?P<at><.*>)?"
)
_FD = re.compile(r"^(?P<fd>\d+)<(?P<path>(?:\\x[0-9a-f]{2})*)>")
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<base>(?:\\x[0-9a-f]{2})*)>, )?"(?P<path>(?:\\x[0-9a-f]{2})*)"')
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_HERE = re.compile(r"AT_FDCWD<((?:\\x[0-9a-f]{2})*)>")
FOLDER, FILE, LINK = "folder", "file", "link"
GONE = 0


@dataclass
class Node:
    """A file, folder or link: ``data`` are its bytes before the command, or what a link points at; ``when`` and ``then``: its
    time before and after, in nanoseconds; ``inode``: its number before."""

    kind: str
    data: bytes = b""
    mode: int = 0o644
    when: int = 0
    then: int = 0
    inode: int = 0


@dataclass(frozen=True)
class Op:
    """One thing that was done, at some second. ``name``: places (folder, name) and what each then names, 0 for nothing, and
    whether something else went by it; ``write``: bytes at a place of a file; ``size``; ``mode``; ``sync`` of a file or folder,
    of its bytes only, or of everything (0); ``begun``: the bytes of a file are on their way; ``closed``: one that was emptied;
    ``said``: the command itself wrote to its output."""

    kind: str
    file: int = 0
    when: float = 0.0
    names: tuple[tuple[int, str, int], ...] = ()
    over: int = 0
    offset: int = 0
    data: bytes = b""
    only_data: bool = False


@dataclass
class Recording:
    """What a command did: the disk before it, the things it did in order, and how it ended."""

    top: Path
    nodes: dict[int, Node]
    before: dict[tuple[int, str], int]
    ops: list[Op]
    ended: Outcome
    paths: dict[int, list[str]] = field(default_factory=dict)
    mapped: list[str] = field(default_factory=list)

    def said(self) -> int:
        """The number of things done when the command had said the last of what it said; all of them where it said nothing."""
        return max((number + 1 for number, op in enumerate(self.ops) if op.kind == "said"), default=len(self.ops))


@dataclass
class _Open:
    """An open file: where the next byte goes, and how."""

    file: int
    at: int = 0
    append: bool = False
    direct: bool = False


def needs_strace() -> None:
    """Skip the test where nothing can be recorded."""
    if shutil.which("strace") is None:
        pytest.skip("no strace: what a command brings to disk cannot be recorded")
    done = subprocess.run(["strace", "-f", "-o", os.devnull, "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:100]}")


def record(top: Path, cwd: Path, *argv: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Recording:
    """Run a program with all its children, and record what they do below ``top``."""
    needs_strace()
    top = Path(os.path.realpath(top))
    trace = top.parent / "trace"
    made = _Tracer(top)
    begun = ["strace", "-f", "--seccomp-bpf", "-ttt", "-y", "-xx", "-s", "100000000", "-o", os.fspath(trace)]
    begun += ["-e", f"trace={CALLS}", "-e", "raw=read", "-e", "signal=none"]  # of what is read, only how much
    done = subprocess.run([*begun, *argv], cwd=cwd, env={**os.environ, **(env or {})}, input=stdin, capture_output=True)
    ended = Outcome(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    made.carry_out(trace.read_text("ascii"))
    trace.unlink()
    made.check()
    return Recording(top, made.nodes, made.before, made.ops, ended, made.paths, sorted(made.mapped))


def baton(top: Path, cwd: Path, *words: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Recording:
    """Record ``git baton``, as a process from its start."""
    return record(top, cwd, sys.executable, "-m", "gitbaton", *words, env=env, stdin=stdin)


class _Tracer:
    """Follows a trace, and keeps the disk as processes see it."""

    def __init__(self, top: Path) -> None:
        self.top = os.fspath(top)
        self.nodes: dict[int, Node] = {1: Node(FOLDER)}
        self.names: dict[tuple[int, str], int] = {}
        self.bytes: dict[int, bytearray] = {}
        self.paths: dict[int, list[str]] = {1: [""]}
        self.ops: list[Op] = []
        self.mapped: set[str] = set()
        self.opened: dict[int, dict[int, _Open]] = {}
        self.cwd: dict[int, str] = {}
        self.newest: dict[int, _Open] = {}
        self.emptied: set[int] = set()
        self.first = 0
        self.when = 0.0
        self._scan()
        self.before = dict(self.names)

    # The disk before, and paths.

    def _scan(self) -> None:
        known: dict[int, int] = {}
        todo = [(1, self.top)]
        while todo:
            number, folder = todo.pop()
            for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                found = entry.stat(follow_symlinks=False)
                if found.st_ino in known:
                    self._put(number, entry.name, known[found.st_ino])
                    continue
                new = self._new(read(entry.path, found), number, entry.name)
                if stat.S_ISDIR(found.st_mode):
                    todo.append((new, entry.path))
                elif found.st_nlink > 1:
                    known[found.st_ino] = new

    def _new(self, node: Node, folder: int, name: str) -> int:
        number = self._unnamed()
        self.nodes[number], self.bytes[number] = node, bytearray(node.data)
        self._put(folder, name, number)
        return number

    def _unnamed(self) -> int:
        number = len(self.nodes) + 1
        self.nodes[number], self.bytes[number], self.paths[number] = Node(FILE), bytearray(), []
        return number

    def _put(self, folder: int, name: str, number: int) -> None:
        self.names[folder, name] = number
        path = os.path.join(self.paths[folder][-1], name)
        if path not in self.paths.setdefault(number, []):
            self.paths[number].append(path)

    def _inside(self, path: str) -> bool:
        return path.startswith(f"{self.top}/") or path == self.top

    def _place(self, path: str) -> tuple[int, str]:
        """The folder and the name of a path; links on the way are followed."""
        number, parts = 1, [part for part in os.path.relpath(path, self.top).split("/") if part != "."]
        for place, part in enumerate(parts[:-1]):
            number = self.names[number, part]
            if self.nodes[number].kind == LINK:
                here = os.path.join(self.top, *parts[:place])
                to = os.path.normpath(os.path.join(here, os.fsdecode(bytes(self.bytes[number])), *parts[place + 1 :]))
                return self._place(to)
        return number, parts[-1] if parts else ""

    def _number(self, path: str) -> int:
        if path == self.top:
            return 1
        try:
            return self.names.get(self._place(path), GONE)
        except KeyError:
            return GONE

    # The trace.

    def carry_out(self, trace: str) -> None:
        """Carry out every line."""
        lines = [match for match in map(_LINE.match, joined(trace)) if match]
        parents: dict[int, tuple[int, bool]] = {}
        for line in lines:
            if line["name"] in ("clone", "clone3", "fork", "vfork"):
                parents.setdefault(int(line["result"], 0), (int(line["who"]), "CLONE_FILES" in line["args"]))
        for line in lines:
            who = int(line["who"])
            if who not in self.opened:
                self._begin(who, parents)
            self.when = float(line["when"])
            here = _HERE.search(line["args"])
            if here:
                self.cwd[who] = _text(here[1])
            method = getattr(self, f"_do_{line['name']}", None)
            if method is not None:
                method(who, line["args"], int(line["result"], 0), line["at"] or "")

    def _begin(self, who: int, parents: Mapping[int, tuple[int, bool]]) -> None:
        if who not in parents:
            self.first = self.first or who
            self.opened[who] = {}
            return
        parent, shared = parents[who]
        if parent not in self.opened:
            self._begin(parent, parents)
        self.opened[who] = self.opened[parent] if shared else dict(self.opened[parent])
        if parent in self.cwd:
            self.cwd[who] = self.cwd[parent]

    def _add(self, kind: str, file: int = 0, **more: object) -> None:
        self.ops.append(Op(kind, file, self.when, **more))  # type: ignore[arg-type]

    def _path(self, who: int, args: str, at: int = 0) -> str:
        found = list(_NAME.finditer(args))[at]
        base = _text(found["base"]) if found["base"] is not None else self.cwd.get(who, "/")
        return os.path.normpath(os.path.join(base, _text(found["path"])))

    def _file(self, who: int, args: str) -> _Open | None:
        """The open file that a call is about, where it is one of ours."""
        match = _FD.match(args)
        if match is None:
            return None
        path, fd = _text(match["path"]), int(match["fd"])
        if not self._inside(path):
            return None
        known = self.opened[who].get(fd)
        number = self._number(path) if not args[match.end() :].startswith("(deleted)") else GONE
        if number == GONE or (known is not None and known.file == number):
            return known
        found = self.newest.get(number) or _Open(number)
        self.opened[who][fd] = found
        return found

    def _do_open(self, who: int, args: str, result: int, at: str) -> None:
        match = _FD.match(f"{result}{at}")
        self.opened[who].pop(result, None)
        path = _text(match["path"]) if match else ""
        if not self._inside(path):
            return
        number = self._unnamed() if "O_TMPFILE" in args else self._number(path)
        if number == GONE:
            assert "O_CREAT" in args, f"{path} is opened and was never made"
            folder, name = self._place(path)
            number = self._new(Node(FILE), folder, name)
            self.bytes[number] = bytearray()
            self._add("name", number, names=((folder, name, number),))
        elif "O_TRUNC" in args and self.bytes[number]:
            self._size(number, 0)
        known = _Open(number, append="O_APPEND" in args, direct="O_SYNC" in args or "O_DSYNC" in args)
        self.opened[who][result] = self.newest[number] = known

    _do_openat = _do_open

    def _do_creat(self, who: int, args: str, result: int, at: str) -> None:
        self._do_open(who, f"{args}, O_CREAT|O_TRUNC", result, at)

    def _do_close(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        match = _FD.match(args)
        if match:
            self.opened[who].pop(int(match["fd"]), None)
        if known is not None and known.file in self.emptied:
            self._add("closed", known.file)

    def _do_dup(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        self.opened[who].pop(result, None)
        if known is not None:
            self.opened[who][result] = known

    _do_dup2 = _do_dup3 = _do_dup

    def _do_lseek(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            known.at = result

    def _do_read(self, who: int, args: str, result: int, at: str) -> None:
        known = self.opened[who].get(int(args.partition(",")[0], 0))
        if known is not None:
            known.at += result

    def _do_chdir(self, who: int, args: str, result: int, at: str) -> None:
        self.cwd[who] = self._path(who, args)

    def _do_fchdir(self, who: int, args: str, result: int, at: str) -> None:
        match = _FD.match(args)
        if match:
            self.cwd[who] = _text(match["path"])

    def _do_write(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is None:
            if who == self.first and args.startswith("1<"):
                self._add("said", data=_data(args, result))
            return
        start = len(self.bytes[known.file]) if known.append else known.at
        self._write(known, start, _data(args, result))
        known.at = start + result

    _do_writev = _do_write

    def _do_pwrite64(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            self._write(known, int(args.rpartition(", ")[2]), _data(args, result))

    _do_pwritev = _do_pwrite64

    def _do_pwritev2(self, who: int, args: str, result: int, at: str) -> None:
        self._do_pwrite64(who, args.rpartition(", ")[0], result, at)

    def _write(self, known: _Open, start: int, data: bytes) -> None:
        held = self.bytes[known.file]
        if len(held) < start:
            held.extend(bytes(start - len(held)))
        held[start : start + len(data)] = data
        self._add("write", known.file, offset=start, data=data)
        if known.direct:
            self._add("sync", known.file, only_data=True)

    def _do_sendfile(self, who: int, args: str, result: int, at: str) -> None:
        known, source = self._file(who, args), args.split(", ", 1)[1]
        if known is None or not result:
            return
        match = _FD.match(source)
        assert match is not None
        given = self._file(who, source)
        held = bytes(self.bytes[given.file]) if given is not None else Path(_text(match["path"])).read_bytes()
        start = given.at if given is not None and ", NULL" in source else known.at
        self._write(known, known.at, held[start : start + result])
        known.at += result
        if given is not None:
            given.at = start + result

    def _do_copy_file_range(self, who: int, args: str, result: int, at: str) -> None:
        found = re.match(r"(\d+<.*?>), NULL, (\d+<.*?>), NULL, ", args)
        assert found, "copy_file_range with places: plug must learn of it"
        if result:
            self._do_sendfile(who, f"{found[2]}, {found[1]}, NULL, {result}", result, at)

    def _do_ioctl(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args) if "FICLONE" in args else None
        if known is not None:
            source = _FD.match(args.rpartition(", ")[2])
            assert source is not None
            self._write(known, 0, Path(_text(source["path"])).read_bytes())

    def _do_mmap(self, who: int, args: str, result: int, at: str) -> None:
        words = args.split(", ")
        known = self._file(who, words[4]) if "MAP_SHARED" in words[3] and "PROT_WRITE" in words[2] else None
        if known is not None:
            self.mapped.add(self.paths[known.file][-1])

    def _size(self, number: int, size: int) -> None:
        held = self.bytes[number]
        if size == 0:
            self.emptied.add(number)
        del held[size:]
        held.extend(bytes(size - len(held)))
        self._add("size", number, offset=size)

    def _do_ftruncate(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            self._size(known.file, int(args.rpartition(", ")[2]))

    def _do_truncate(self, who: int, args: str, result: int, at: str) -> None:
        path = self._path(who, args)
        if self._inside(path):
            self._size(self._number(path), int(args.rpartition(", ")[2]))

    def _do_fallocate(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            _, mode, offset, length = args.rsplit(", ", 3)
            assert mode in ("0", "FALLOC_FL_KEEP_SIZE"), mode
            end = int(offset) + int(length)
            if mode == "0" and end > len(self.bytes[known.file]):
                self._size(known.file, end)

    def _do_fsync(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            self._add("sync", known.file)

    def _do_fdatasync(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            self._add("sync", known.file, only_data=True)

    def _do_sync(self, who: int, args: str, result: int, at: str) -> None:
        self._add("sync")

    def _do_syncfs(self, who: int, args: str, result: int, at: str) -> None:
        if self._file(who, args) is not None:
            self._add("sync")

    def _do_sync_file_range(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None and "WRITE" in args:
            self._add("begun", known.file)

    def _do_rename(self, who: int, args: str, result: int, at: str) -> None:
        old, new = self._path(who, args), self._path(who, args, 1)
        if not self._inside(old) and not self._inside(new):
            return
        assert self._inside(old) and self._inside(new), f"{old} -> {new} crosses the border of what is recorded"
        source, target = self._place(old), self._place(new)
        number, other = self.names[source], self.names.get(target, GONE)
        if number == other:
            return
        if "RENAME_EXCHANGE" in args:
            self.names[source] = other
            self._put(*target, number)
            self._add("name", number, names=((*source, other), (*target, number)))
            return
        del self.names[source]
        self._put(*target, number)
        self._add("name", number, names=((*source, GONE), (*target, number)), over=other)

    _do_renameat = _do_renameat2 = _do_rename

    def _do_link(self, who: int, args: str, result: int, at: str) -> None:
        old, new = self._path(who, args), self._path(who, args, 1)
        if self._inside(new):
            fd = re.fullmatch(r"/proc/self/fd/(\d+)", old)  # of one that was opened without a name
            number, target = self.opened[who][int(fd[1])].file if fd else self._number(old), self._place(new)
            self._put(*target, number)
            self._add("name", number, names=((*target, number),))

    _do_linkat = _do_link

    def _do_unlink(self, who: int, args: str, result: int, at: str) -> None:
        path = self._path(who, args)
        if self._inside(path):
            place = self._place(path)
            number = self.names.pop(place)
            self._add("name", number, names=((*place, GONE),), over=number)

    _do_unlinkat = _do_rmdir = _do_unlink

    def _do_mkdir(self, who: int, args: str, result: int, at: str) -> None:
        self._made(self._path(who, args), Node(FOLDER))

    _do_mkdirat = _do_mkdir

    def _do_symlink(self, who: int, args: str, result: int, at: str) -> None:
        to = _TEXT.search(args)
        assert to is not None
        self._made(self._path(who, args, 1), Node(LINK, bytes.fromhex(to[1].replace("\\x", ""))))

    _do_symlinkat = _do_symlink

    def _made(self, path: str, node: Node) -> None:
        if self._inside(path):
            place = self._place(path)
            number = self._new(node, *place)
            self._add("name", number, names=((*place, number),))

    def _do_chmod(self, who: int, args: str, result: int, at: str) -> None:
        path = self._path(who, args)
        if self._inside(path):
            self._add("mode", self._number(path), offset=int(args.rsplit(", ")[1 if args.startswith('"') else 2], 8))

    _do_fchmodat = _do_chmod

    def _do_fchmod(self, who: int, args: str, result: int, at: str) -> None:
        known = self._file(who, args)
        if known is not None:
            self._add("mode", known.file, offset=int(args.rpartition(", ")[2], 8))

    # The end.

    def check(self) -> None:
        """What was carried out is what is there; what only memory told is taken from there."""
        found: set[tuple[int, str]] = set()
        old = set(self.before.values())
        todo = [(1, self.top)]
        while todo:
            number, folder = todo.pop()
            for entry in list(os.scandir(folder)):
                place = (number, entry.name)
                inside = self.names.get(place)
                assert inside is not None, f"{entry.path}: nobody was seen making it"
                found.add(place)
                node = read(entry.path, entry.stat(follow_symlinks=False))
                assert node.kind == self.nodes[inside].kind, entry.path
                if node.kind == FOLDER:
                    todo.append((inside, entry.path))
                elif node.data != self.bytes[inside]:
                    assert os.path.relpath(entry.path, self.top) in self.mapped, f"{entry.path}: not what was seen written"
                    self._add("write", inside, data=node.data)
                self.nodes[inside].then = node.when
                if inside not in old:
                    self.nodes[inside].mode = node.mode
        gone = {place for place in self.names if place not in found and self._reached(place[0], found)}
        assert not gone, f"nobody was seen removing {sorted(name for _, name in gone)}"

    def _reached(self, folder: int, found: Iterable[tuple[int, str]]) -> bool:
        return folder == 1 or any(self.names[place] == folder for place in found)


def read(path: str, found: os.stat_result) -> Node:
    """A file, folder or link as it lies there."""
    if stat.S_ISDIR(found.st_mode):
        return Node(FOLDER, mode=stat.S_IMODE(found.st_mode), when=found.st_mtime_ns)
    if stat.S_ISLNK(found.st_mode):
        return Node(LINK, os.fsencode(os.readlink(path)), when=found.st_mtime_ns)
    assert stat.S_ISREG(found.st_mode), f"{path} is neither file nor folder nor link"
    return Node(FILE, Path(path).read_bytes(), stat.S_IMODE(found.st_mode), found.st_mtime_ns, inode=found.st_ino)


def _text(raw: str) -> str:
    return os.fsdecode(bytes.fromhex(raw.replace("\\x", "")))


def _data(args: str, count: int) -> bytes:
    """What a call wrote, of one buffer or several."""
    found: Sequence[tuple[str, str]] = _TEXT.findall(args)
    assert not any(cut for _, cut in found), "strace left bytes out"
    data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text, _ in found)[:count]
    assert len(data) == count
    return data
