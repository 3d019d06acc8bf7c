"""Sealed files: lines of what is known, that may be thrown away. They stand after a digest of all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import read_or_none
from gitbaton.git.objects import hasher
from gitbaton.git.repo import Repo, clear_left, drop, put

MANY = 1000
"""Records from which on it is worth it to keep what is known of them."""
_TOGETHER = 1000  # lines that are encoded at a time


def read_lines(path: str, header: str) -> list[str]:
    """Return the lines of a file with this header; none of one that is not there, or not as it was written."""
    data = read_or_none(path) or b""
    head, rows = data[: (at := data.find(b"\n") + 1)], memoryview(data)[at:]
    with suppress(UnicodeDecodeError):
        coding = "ascii" if data.isascii() else "utf-8"  # the one is sooner decoded
        return str(rows, coding, "surrogatepass").split("\n")[:-1] if head == _seal(header, (rows,), len(rows)) + b"\n" else []
    return []


def write_lines(repo: Repo, path: str, header: str, lines: Iterable[str], *, mode: int = 0o666) -> None:
    """Write such a file whole or not at all; of several writers one wins. Raises OSError and BatonError."""
    clear_left(repo, path)
    kept = [*lines]
    seal = _seal(header, _pieces(kept), sum(map(len, kept)))
    put(repo, path, chain([seal + b"\n"], _pieces(kept)), fresh=f".{os.getpid()}", mode=mode)


def sift(repo: Repo, path: str, header: str, stays: Callable[[str], bool], *, mode: int = 0o666) -> None:
    """Keep of such a file the lines that stay; where there is none of them, or that cannot be written, the file goes. Never
    raises."""
    lines = read_lines(path, header)
    kept = [*filter(stays, lines)]
    with suppress(OSError, BatonError):
        if len(kept) < len(lines) and kept:
            write_lines(repo, path, header, kept, mode=mode)
        if kept:
            return
    discard(repo, path)


def discard(repo: Repo, path: str) -> None:
    """Remove such a file. Never raises."""
    with suppress(OSError):
        drop(repo, path)


def _pieces(lines: Sequence[str]) -> Iterator[bytes]:
    for start in range(0, len(lines), _TOGETHER):
        yield "".join(f"{line}\n" for line in lines[start : start + _TOGETHER]).encode("utf-8", "surrogatepass")


def _seal(header: str, pieces: Iterable[bytes | memoryview], size: int) -> bytes:
    whole = hasher("sha1", size)
    for piece in pieces:
        whole.update(piece)
    return f"{header} {whole.digest().hex()}".encode("ascii")
