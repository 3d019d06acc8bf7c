"""Redaction report: what was redacted in a checkpoint, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitbaton.model import Checkpoint
from gitbaton.secrets.patterns import compiled
from gitbaton.values import value

_KIND = r"\[redacted:([a-z][a-z0-9-]{1,30})\]"


@value
class Redacted:
    """One secret that a placeholder stands for now: the field that held it, and its kind."""

    field: str
    kind: str


def differences(old: Checkpoint, new: Checkpoint) -> tuple[Redacted, ...]:
    """The placeholders that ``new``, the redacted ``old``, has and ``old`` has not."""
    found = []
    for (said, before), (field, after) in zip(_words(old), _words(new), strict=True):
        if said != field:
            found.append(Redacted(field=field, kind=field.split(".")[2]))
        had = compiled(_KIND).findall(before)
        for kind in compiled(_KIND).findall(after):
            if kind in had:
                had.remove(kind)
            else:
                found.append(Redacted(field=field, kind=kind))
    return tuple(found)


def told(redacted: Sequence[Redacted]) -> str:
    """One line: how many secrets, in which fields and of which kinds."""
    count = "a secret" if len(redacted) == 1 else f"{len(redacted)} secrets"
    return f"redacted {count}: {', '.join(f'{r.field} ({r.kind})' for r in redacted)}"


def _words(c: Checkpoint) -> Iterator[tuple[str, str]]:
    yield from (("step", c.step), ("note", c.note), ("next_cmd", c.next_cmd))
    yield from ((f"decision {number}", text) for number, text in enumerate(c.decisions, 1))
    yield "label", c.label or ""
    yield from ((f"extra.{key}", text) for key, text in c.extra)
    yield "carried.step", c.carried.step if c.carried else ""
