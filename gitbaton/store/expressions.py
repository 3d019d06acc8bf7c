"""Expressions of ``log --grep``: matched by the C library's ``regcomp`` and ``regexec``, as git matches them."""

from __future__ import annotations

import ctypes
import os
import re

from gitbaton.codec import plain
from gitbaton.errors import UsageError

_EXTENDED, _ICASE = 1, 2  # REG_EXTENDED and REG_ICASE of glibc, musl and the BSDs
_ROOM = 128  # times eight bytes, for a regex_t: 64 in all there
_PLAIN = re.compile(r"[A-Za-z0-9 _]+\Z")


class Expression:
    """A text to look for as ``git log`` reads it: a ``basic`` or ``extended`` expression, or a ``fixed`` string. Raises
    UsageError."""

    def __init__(self, text: str, form: str = "basic", *, ignore_case: bool = False) -> None:
        self.fixed = text if form == "fixed" or _PLAIN.match(text) else None
        self.ignore_case = ignore_case
        if self.fixed is not None:
            return
        self._c, self._compiled = ctypes.CDLL(None), (ctypes.c_longlong * _ROOM)()
        flags = (_EXTENDED if form == "extended" else 0) | (_ICASE if ignore_case else 0)
        code = self._c.regcomp(self._compiled, os.fsencode(text), flags)
        if code:
            said = ctypes.create_string_buffer(200)
            self._c.regerror(code, self._compiled, said, len(said))
            raise UsageError(f"'{plain(text)}' is not a regular expression: {os.fsdecode(said.value)}")

    def search(self, line: str) -> bool:
        """Whether it occurs in a line."""
        if self.fixed is not None:
            return self.fixed.lower() in line.lower() if self.ignore_case else self.fixed in line
        data = line.encode("utf-8", "surrogateescape").replace(b"\0", b"?")
        return not self._c.regexec(self._compiled, data, 0, None, 0)

    def may_be_in(self, raw: bytes) -> bool:
        """Whether it can occur in words that were encoded as JSON; only of plain letters and digits that is known."""
        if self.fixed is None or not _PLAIN.match(self.fixed):
            return True
        plain_word = self.fixed.encode("ascii")
        return plain_word.lower() in raw.lower() if self.ignore_case else plain_word in raw
