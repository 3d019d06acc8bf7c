"""Size limits of objects that are read whole: a few bytes from a remote may inflate to anything."""

from __future__ import annotations

from gitbaton.errors import GitError
from gitbaton.git.objects import Kind

LARGEST = 1 << 30  # bytes of a blob
LONGEST = 128 << 20  # bytes of a commit or tree


def check_size(oid: str, kind: Kind, size: int) -> None:
    """Raise GitError for an object that is too large to be read."""
    most = LARGEST if kind == "blob" else LONGEST
    if size > most:
        raise GitError(f"object {oid} is too large: {size:,} bytes, where a {kind} may have {most:,}")
