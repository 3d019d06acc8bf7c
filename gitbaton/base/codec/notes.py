"""Note entries: the text people see in ``git log --notes``, made to survive git's own concatenation."""

from __future__ import annotations

import re
from collections.abc import Callable

from gitbaton.base.codec.words import stable
from gitbaton.base.model import Checkpoint, Oid
from gitbaton.base.values import value

MAX_ENTRIES = 50
MAX_BYTES = 1 << 20
WHOLE = 3  # entries of a track in a note; those below say their step only
OLDER = b"older entries: git baton log --all\n"
_OLDER_LINE = rb"(?m)^older entries: git baton log --all(?:\r?\n|\Z)"
_START = rb"(?m)^checkpoint ([0-9a-f]{64}|[0-9a-f]{40})\r?$"
_LEADING = rb"\A(?:\r*\n)+"
_GAP = rb"\n(?:[ \t\r]*\n)+"
_SAID_ABOVE = rb"checkpoint [0-9a-f]+\n(?:step: .*\n)?\Z"
_TRACK = rb"(?m)^track: .*\n"
_STEP = rb"(?m)^step: .*\n"


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

    def render(self, full: Callable[[Oid, bytes], bytes] | None = None) -> bytes:
        """The note's bytes: the newest 50 entries, as far as they fit into 1 MiB, and a line that says where the rest is.

        Of each track the newest three stay whole, and the others are short. ``full`` makes a short one whole again where it is
        among the newest three now, from its id and its text.
        """
        parts = [self.preamble] if self.preamble else []
        counts: dict[str, int] = {}
        above, room, done = "", MAX_BYTES, 0
        for oid, text in self.entries[:MAX_ENTRIES]:
            track = track_in(text)
            counts[track] = count = counts.get(track, 0) + 1
            follows = bool(track) and track == above and count > WHOLE
            if track and count > WHOLE:
                text = re.sub(_TRACK, b"", short(text)) if follows else short(text)
            elif full is not None and text == short(text):
                text = full(oid, text)
            room -= len(text)
            if room < 0:
                break
            if follows and count > WHOLE + 1:
                parts[-1] += text
            else:
                parts.append(text)
            above, done = track, done + 1
        if self.older or len(self.entries) > done:
            parts.append(OLDER)
        return b"\n".join(parts)


def entry(oid: Oid, checkpoint: Checkpoint) -> bytes:
    """The entry of one checkpoint. No line of a value can begin an entry, and no line is empty or ends in a blank."""
    fields = [
        ("track", checkpoint.track),
        ("step", checkpoint.step),
        ("validation", checkpoint.validation),
        ("next", checkpoint.next_cmd),
        ("note", checkpoint.note),
        *(("decision", text) for text in checkpoint.decisions),
        *((f"extra.{key}", text) for key, text in checkpoint.extra),
    ]
    lines = [f"checkpoint {oid}"]
    for name, text in fields:
        kept = list(filter(None, (line.rstrip() for line in stable(text, keep="\n\t").split("\n"))))
        if kept:
            lines.append(f"{name}: {kept[0]}")
            lines += ["\t" + line for line in kept[1:]]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def track_in(text: bytes) -> str:
    """The track that an entry of a note is of, as it says; empty where it says none."""
    return text.partition(b"\ntrack: ")[2].partition(b"\n")[0].decode("utf-8", "replace")


def short(text: bytes) -> bytes:
    """Shorten an entry below the newest three of its track to its id, its track, and the first line of its step."""
    lines = (found[0] for pattern in (_TRACK, _STEP) if (found := re.search(pattern, text)))
    return text.partition(b"\n")[0] + b"\n" + b"".join(lines)


def parse_note(raw: bytes) -> Note:
    """Read a note's entries, also where they were concatenated or doubled: of each id the first counts, and before it the first
    that is not short. An entry ends at an empty line; one that says no track is of the track of the entry above; other text is
    kept as it is, before the entries, once."""
    rest = re.sub(_OLDER_LINE, b"", raw)
    starts = list(re.finditer(_START, rest))
    ends = [m.start() for m in starts[1:]] + [len(rest)]
    other = [rest[: starts[0].start()] if starts else rest]
    entries: dict[Oid, bytes] = {}
    above: list[bytes] = []
    for found, end in zip(starts, ends, strict=False):
        text, *after = re.split(_GAP, rest[found.start() : end], maxsplit=1)
        text, oid = text.replace(b"\r\n", b"\n").rstrip(b"\r\n") + b"\n", found.group(1).decode()
        if above and re.match(_SAID_ABOVE, text):
            text = text.replace(b"\n", b"\n" + above[0], 1)
        above = re.findall(_TRACK, text)
        entries[oid] = min(entries.get(oid, text), text, key=lambda text: text == short(text))
        other += after
    return Note(preamble=_together(other), entries=tuple(entries.items()), older=rest != raw)


def _together(texts: list[bytes]) -> bytes:
    """Texts that are not ours, one after the other; what stands there already is left out."""
    whole = b""
    for text in texts:
        kept = re.sub(_LEADING, b"", text).rstrip(b"\r\n")  # whole lines: what stands after a lone \r must not begin one
        if kept and b"\n\n" + kept + b"\n\n" not in b"\n" + whole + b"\n":
            whole += b"\n" + kept + b"\n"
    return whole.removeprefix(b"\n")
