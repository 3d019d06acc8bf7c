"""Note entries: the text people see in ``git log --notes``, made to survive git's own concatenation."""

from __future__ import annotations

import re

from gitbaton.codec.text import plain
from gitbaton.model import Checkpoint, Oid
from gitbaton.values import value

MAX_ENTRIES = 50
MAX_BYTES = 1 << 20
OLDER = b"older entries: git baton log --all\n"
_OLDER_LINE = re.compile(rb"^older entries: git baton log --all(?:\r?\n|\Z)", re.MULTILINE)
_START = re.compile(rb"^checkpoint ([0-9a-f]{64}|[0-9a-f]{40})\r?$", re.MULTILINE)
_LEADING = re.compile(rb"\A(?:\r*\n)+")
_GAP = re.compile(rb"\n(?:[ \t\r]*\n)+")


@value
class Note:
    """A note taken apart: ``preamble`` is text that is not ours, ``entries`` are (id, bytes), newest first; ``older`` says
    that entries were dropped from it before."""

    preamble: bytes = b""
    entries: tuple[tuple[Oid, bytes], ...] = ()
    older: bool = False

    def with_entry(self, oid: Oid, text: bytes) -> Note:
        """This note with one more entry on top; an entry of that id is replaced."""
        rest = tuple(e for e in self.entries if e[0] != oid)
        return Note(preamble=self.preamble, entries=((oid, text), *rest), older=self.older)

    def render(self) -> bytes:
        """The note's bytes: the newest 50 entries, as far as they fit into 1 MiB, and a line that says where the rest is."""
        parts = [self.preamble] if self.preamble else []
        room = MAX_BYTES
        for _, text in self.entries[:MAX_ENTRIES]:
            room -= len(text)
            if room < 0:
                break
            parts.append(text)
        if self.older or len(self.entries) > len(parts) - bool(self.preamble):
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
    """A note's entries, whoever concatenated or doubled them: the first of each id counts. An entry ends at an empty line;
    other text is kept as it is, before the entries, once."""
    rest = _OLDER_LINE.sub(b"", raw)
    starts = list(_START.finditer(rest))
    ends = [m.start() for m in starts[1:]] + [len(rest)]
    other = [rest[: starts[0].start()] if starts else rest]
    entries: dict[Oid, bytes] = {}
    for found, end in zip(starts, ends, strict=False):
        text, *after = _GAP.split(rest[found.start() : end], maxsplit=1)
        entries.setdefault(found.group(1).decode(), text.replace(b"\r\n", b"\n").rstrip(b"\r\n") + b"\n")
        other += after
    return Note(preamble=_together(other), entries=tuple(entries.items()), older=rest != raw)


def _together(texts: list[bytes]) -> bytes:
    """Texts that are not ours, one after the other; what stands there already is left out."""
    whole = b""
    for text in texts:
        kept = _LEADING.sub(b"", text).rstrip(b"\r\n")  # whole lines: what stands after a lone \r must not begin one
        if kept and b"\n\n" + kept + b"\n\n" not in b"\n" + whole + b"\n":
            whole += b"\n" + kept + b"\n"
    return whole.removeprefix(b"\n")
