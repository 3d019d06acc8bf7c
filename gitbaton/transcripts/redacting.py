"""Redact a conversation: one line comes out for each that goes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

from gitbaton.errors import ScanError
from gitbaton.transcripts.files import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b

    from gitbaton.secrets import Redactor

MARK = b"[redacted:"  # begins whatever stands for a secret


def redacted(redactor: Redactor | Remembering, raw: Iterable[bytes]) -> Iterator[bytes]:
    """Each line, with its end, as it may be stored and shown. Raises ScanError."""
    for line in raw:
        clean = redactor.line(line)
        if clean is not line and (clean.count(b"\n"), clean[-1:]) != (line.count(b"\n"), line[-1:]):
            raise ScanError("redaction made other lines of a conversation")
        yield clean


def clean(redactor: Redactor, data: bytes) -> bytes:
    """A whole conversation as it may be shown. Raises ScanError."""
    return b"".join(redacted(redactor, BytesIO(data)))


class Remembering:
    """A redactor that looks at no line twice: who has to begin anew, because another was first, is done soon."""

    def __init__(self, redactor: Redactor) -> None:
        self._look, self._known = redactor.line, dict[bytes, bytes]()

    def line(self, raw: bytes) -> bytes:
        """As the redactor's."""
        found = self._known.get(raw)
        if found is None:
            found = self._known[raw] = self._look(raw)
        return found


class Fresh:
    """The lines between two places of a file, redacted. ``read`` and ``made`` count their bytes before and after, and
    ``hashed`` takes in those that were read."""

    def __init__(self, redactor: Remembering, fd: int, start: int, end: int, hashed: blake2b) -> None:
        self._redactor, self._fd, self._start, self._end = redactor, fd, start, end
        self.hashed, self.read, self.made = hashed, 0, 0

    def __iter__(self) -> Iterator[bytes]:
        for line in redacted(self._redactor, self._raw()):
            self.made += len(line)
            yield line

    def _raw(self) -> Iterator[bytes]:
        for line in lines(self._fd, self._start, self._end):
            self.hashed.update(line)
            self.read += len(line)
            yield line
