"""The message of a chain's commit: subject, empty line, canonical JSON."""

from __future__ import annotations

from gitbaton.codec.text import MAX_BYTES, first_line
from gitbaton.errors import RecordError

ROOT_MESSAGE = b"gitbaton root 1\n"
_SUBJECT_BYTES = 72


def message(step: str, raw: bytes) -> bytes:
    """The commit message that carries a checkpoint's canonical bytes ``raw`` under the first line of its step."""
    cut = (first_line(step) or "?").encode("utf-8", "replace")[:_SUBJECT_BYTES].decode("utf-8", "ignore")
    return cut.rstrip().encode("utf-8") + b"\n\n" + raw


def payload(text: bytes) -> bytes:
    """The canonical bytes inside a commit message: from the first empty line to the first ``}`` at column 0.

    Later paragraphs are reserved and not returned. Raises RecordError when there are none.
    """
    start = text.find(b"\n\n")
    end = text.find(b"\n}\n", start) if start >= 0 else -1
    if end < 0 or not text.startswith(b"{", start + 2):
        raise RecordError("commit message holds no checkpoint")
    if end - start > MAX_BYTES:
        raise RecordError(f"record of {end - start} bytes is over the limit of {MAX_BYTES}")
    return text[start + 2 : end + 3]
