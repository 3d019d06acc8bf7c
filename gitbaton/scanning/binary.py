"""Text in binary files: what a person could read there, with line numbers. Pure."""

from __future__ import annotations

import re

_LEAST = 16  # no secret that is known by its form is shorter
_READ, _OTHER, _NUL = b"r", b"-", b"0"
_CLASS = bytes(ord(_READ if n in b"\t\n\r" or 32 <= n < 127 else _OTHER if n else _NUL) for n in range(256))
_RUN = re.compile(rb"r{%d,}" % _LEAST)
_WIDE = re.compile(rb"(?:[\t\n\r -~]\0){%d,}" % _LEAST)
# In the row of a table one value stands right behind the other, so that nothing says where a key begins and ends.
_ALONE = re.compile(rb"(?:AKIA|ASIA|ABIA|ACCA)(?=[A-Z]{0,15}[0-9])[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}")
_BEGINS = re.compile(rb"(?<=[0-9A-Za-z_])(?:sk-(?=proj-|svcacct-|[A-Za-z0-9]{32})|gl[a-z]{2,5}-|npm_|hf_|gsk_|pplx-|xai-)")


def readable(data: bytes) -> bytes:
    """The runs of readable characters in a binary file, of one or two bytes each, apart from each other; its line feeds are
    kept, so that a line of the result is one of the file's."""
    said = data.translate(_CLASS)
    if (_READ + _NUL) * _LEAST in said:
        data = _WIDE.sub(lambda match: b"\0" + match.group()[::2] + b"\0", data)
        said = data.translate(_CLASS)
    parts, done = [], 0
    for match in _RUN.finditer(said):
        start, end = match.span()
        parts += [b"\n" * data.count(b"\n", done, start), data[start:end]]
        done = end
    text = b"\0".join(parts)
    return _BEGINS.sub(rb"\0\g<0>", _ALONE.sub(rb"\0\g<0>\0", text))
