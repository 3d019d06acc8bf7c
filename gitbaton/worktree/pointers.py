"""Pointers: small blobs that a clean filter, or another tool, puts in place of content that it keeps outside of git."""

from __future__ import annotations

import re

MOST = 1024  # bytes of a pointer, as git-lfs has it
LFS, ANNEX, DVC, OTHER = "lfs", "annex", "dvc", "other"
_LFS = re.compile(rb"version https?://[^\n]+/spec/v1\n(?:[a-z0-9.-]+ [^\n]*\n)*?oid sha256:([0-9a-f]{64})\n")
_ANNEX = re.compile(rb"/annex/objects/|[^\n]*\.git/(?:modules/[^\n]*/)?annex/objects/[^\n]*\Z")  # a pointer; a link
_HELD = b"gitbaton held 1\n"  # our own stand-in for what passed no filter
_DIGEST = re.compile(rb"(?<![0-9a-zA-Z])[0-9a-f]{32,}(?![0-9a-zA-Z])")


def kept_by(path: bytes, data: bytes) -> str:
    """What keeps the content that a blob at a path points to: LFS, ANNEX, DVC, or OTHER where it only looks like a pointer, to
    be believed behind a filter alone; empty where it points to nothing."""
    if len(data) > MOST or b"\0" in data or data.startswith(_HELD):
        return ""
    if _LFS.match(data):
        return LFS
    if _ANNEX.match(data):
        return ANNEX
    digest = _DIGEST.search(data) is not None
    if digest and path.endswith((b".dvc", b"dvc.lock")) and b"outs:" in data:
        return DVC
    return OTHER if digest else ""


def lfs_oid(data: bytes) -> str:
    """The id by which git-lfs knows the content of a pointer; empty where it is none of its."""
    found = _LFS.match(data)
    return found[1].decode("ascii") if found else ""
