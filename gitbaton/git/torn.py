"""Torn loose objects: a power cut leaves some, and git takes any file for the object."""

from __future__ import annotations

import os
import zlib

from gitbaton.git.objects import Algorithm, digest
from gitbaton.system.groups import boot

STAMP = "boot"  # in our folder of the common directory
_CHUNK = 1 << 20


def is_whole(path: str) -> bool:
    """Whether a loose object's file holds as many bytes as it says; also where there is none, or it may not be read."""
    try:
        with open(path, "rb") as file:
            inflate, size, wanted = zlib.decompressobj(), 0, -1
            while data := inflate.unconsumed_tail or file.read(_CHUNK):
                part = inflate.decompress(data, _CHUNK)
                if wanted < 0:
                    head, _, part = part.partition(b"\0")
                    wanted = int(head.rpartition(b" ")[2])
                size += len(part)
                if inflate.eof:
                    break
            return inflate.eof and size == wanted
    except (zlib.error, ValueError):
        return False
    except OSError:
        return True


def is_hollow(path: str) -> bool:
    """Whether a file is empty or begins with zeros, as the ones do whose bytes a power cut took: one look, not a proof."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(1) in (b"", b"\0")
    except PermissionError:
        return False


def is_known(folder: str) -> bool:
    """Whether all that git wrote since this machine was started is known to be whole, as a stamp in a folder of ours says; also
    where nothing tells one start from another."""
    try:
        with open(os.path.join(folder, STAMP), encoding="ascii") as file:
            return file.read() == boot()
    except (OSError, ValueError):
        return not boot()


def index_is_torn(path: str, algorithm: Algorithm) -> bool:
    """Whether an index does not end with the digest of what it holds, which git itself does not look at. One that git wrote
    without a digest is not."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return False
    width = len(digest(algorithm, b""))
    return bool(raw[-width:].strip(b"\0")) and digest(algorithm, raw[:-width]) != raw[-width:]
