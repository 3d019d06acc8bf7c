"""Note entries: the text people see in ``git log --notes``, made to survive git's own concatenation."""

from __future__ import annotations

import re

from gitbaton.codec.text import plain
from gitbaton.model import Checkpoint, Oid
from gitbaton.values import value

MAX_ENTRIES = 50
OLDER = b"older entries: git baton log --all\n"
_START = re.compile(rb"^checkpoint ([0-9a-f]{64}|[0-9a-f]{40})$", re.MULTILINE)


@value
class Note:
    """A note taken apart: ``preamble`` is text that is not ours, ``entries`` are (id, bytes), newest first."""

    preamble: bytes = b""
    entries: tuple[tuple[Oid, bytes], ...] = ()

    def with_entry(self, oid: Oid, text: bytes) -> Note:
        """This note with one more entry on top; an entry of that id is replaced."""
        rest = tuple(e for e in self.entries if e[0] != oid)
        return Note(preamble=self.preamble, entries=((oid, text), *rest))

    def render(self) -> bytes:
        """The note's bytes: the newest 50 entries, and a line that says where the rest is."""
        parts = [self.preamble] if self.preamble else []
        parts += [text for _, text in self.entries[:MAX_ENTRIES]]
        if len(self.entries) > MAX_ENTRIES:
            parts.append(OLDER)
        return b"\n".join(parts)


def entry(oid: Oid, checkpoint: Checkpoint) -> bytes:
    """The entry of one checkpoint. No line of a value can begin an entry, and no line is empty or ends in a blank."""
    fields = [("track", checkpoint.track), ("step", checkpoint.step), ("validation", checkpoint.validation)]
    fields += [("next", checkpoint.next_cmd), ("note", checkpoint.note)]
    fields += [("decision", text) for text in checkpoint.decisions]
    fields += [(f"extra.{key}", text) for key, text in checkpoint.extra]
    lines = [f"checkpoint {oid}"]
    for name, text in fields:
        kept = [line.rstrip() for line in plain(text, keep="\n\t").split("\n")]
        kept = [line for line in kept if line]
        if kept:
            lines.append(f"{name}: {kept[0]}")
            lines += ["\t" + line for line in kept[1:]]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def parse_note(raw: bytes) -> Note:
    """A note's entries, whoever concatenated or doubled them; the first of each id counts, unknown text is kept."""
    starts = [(m.start(), m.group(1).decode()) for m in _START.finditer(raw)]
    ends = [start for start, _ in starts[1:]] + [len(raw)] * bool(starts)
    entries: dict[Oid, bytes] = {}
    for (start, oid), end in zip(starts, ends, strict=True):
        entries.setdefault(oid, _tidy(raw[start:end]))
    return Note(preamble=_tidy(raw[: starts[0][0]] if starts else raw), entries=tuple(entries.items()))


def _tidy(text: bytes) -> bytes:
    """``text`` without our own trailing line and with exactly one newline at its end."""
    text = text.strip(b"\n")
    if text == OLDER.rstrip(b"\n"):
        return b""
    text = text.removesuffix(b"\n" + OLDER.rstrip(b"\n")).strip(b"\n")
    return text + b"\n" if text else b""
