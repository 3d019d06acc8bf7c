"""A disk that forgets what nobody had it keep: the writes of a process as strace recorded them, and what of them is sure to be
there after a power cut at any moment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

CALLS = "write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,unlink,unlinkat"
_CALL = re.compile(r"^(?:\d+ +)?(?P<name>[a-z0-9]+)\((?P<args>.*)\) += (?P<result>\d+)")
_FD = re.compile(r"^\d+<(?P<path>[^>]*?)(?: \(deleted\))?>")
_NAMES = re.compile(r'(?:(?P<at>AT_FDCWD|\d+)(?:<(?P<base>[^>]*)>)?, )?"(?P<path>[^"]*)"')
_BEGUN = re.compile(r"^(?P<who>\d+) +(?P<call>.*?) *<unfinished \.\.\.>$")
_ENDED = re.compile(r"^(?P<who>\d+) +(?:\d+\.\d+ )?<\.\.\. \w+ resumed>(?P<rest>.*)")
_TEXT = re.compile(r'"(?P<text>[^"]*)"')


@dataclass
class Disk:
    """Files by path as a process sees them (``now``), and as they are sure to be on disk (``kept``): a name when its folder
    was brought there, what a file holds when the file was. A file is known by a number; ``clean`` are those whose bytes are
    there. ``text``: what was written into each."""

    now: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    clean: set[int] = field(default_factory=set)
    text: dict[int, str] = field(default_factory=dict)
    count: int = 0

    def new(self, path: str) -> int:
        self.count += 1
        self.now[path] = self.count
        return self.count

    def wrote(self, path: str, text: str) -> None:
        number = self.now.get(path) or self.new(path)
        self.clean.discard(number)
        self.text[number] = self.text.get(number, "") + text

    def synced(self, path: str) -> None:
        if path in self.now and self.now[path] in self.text:
            self.clean.add(self.now[path])
            return
        below = {p: n for p, n in self.now.items() if os.path.dirname(p) == path}
        gone = [p for p in self.kept if os.path.dirname(p) == path and p not in below]
        self.kept |= below
        for name in gone:
            del self.kept[name]

    def sure(self, path: str) -> bool:
        """Whether a file of this path, as it is now, is there after a power cut, and every folder above it that is new."""
        number = self.now.get(path)
        if number is None:
            return True  # it was there before
        above = os.path.dirname(path)
        return self.kept.get(path) == number and (number in self.clean or number not in self.text) and self.sure(above)


def whole(trace: str) -> Iterator[str]:
    """The calls of a trace in the order in which they ended: those that other threads interrupted are put together."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        first, rest = _BEGUN.match(line), _ENDED.match(line)
        if first is not None:
            begun[first["who"]] = first["call"]
        elif rest is None:
            yield line
        elif rest["who"] in begun:
            yield f"{rest['who']} {begun.pop(rest['who'])}{rest['rest']}"


def replay(trace: str, disk: Disk, here: str) -> Iterator[tuple[str, str]]:
    """Carry out a trace line by line, of processes that stand ``here``; after each call that counts, ``write``, ``fsync`` or
    ``name``, and the path that it was about."""
    for line in whole(trace):
        match = _CALL.match(line)
        if match is None:
            continue
        name, args = match["name"], match["args"]
        if name in ("write", "pwrite64", "fsync", "fdatasync"):
            fd, text = _FD.match(args), _TEXT.search(args)
            if fd is None or not fd["path"].startswith("/"):
                continue
            if "write" in name:
                disk.wrote(fd["path"], text["text"] if text else "")
            else:
                disk.synced(fd["path"])
            yield name.removeprefix("p").removesuffix("64").replace("fdatasync", "fsync"), fd["path"]
            continue
        paths = [os.path.join(found["base"] or here, found["path"]) for found in _NAMES.finditer(args)]
        if name.startswith("mkdir"):
            disk.new(paths[0])
        elif name.startswith("unlink"):
            disk.now.pop(paths[0], None)
        elif paths[0] in disk.now:
            number = disk.now[paths[0]] if name.startswith("link") else disk.now.pop(paths[0])
            disk.now[paths[1]] = number
            yield "name", paths[1]
