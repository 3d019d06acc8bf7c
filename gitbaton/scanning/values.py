"""Results of a scan."""

from __future__ import annotations

from gitbaton.model import Oid
from gitbaton.store import Problem
from gitbaton.values import value

NOT_SCANNED = "not-scanned"  # the kind of a hit that is a text over the limit: what nobody looked at is never passed over


@value
class Hit:
    """Where a secret stands; never the secret itself.

    ``checkpoint``: the one whose words these are, or that brought the file in first; None where none did. ``commit``: the
    commit that holds it, as far as there is one. ``path`` and ``line`` (from 1): in a file; ``line`` is 0 for words, whose
    ``path`` is ``step``, ``note``, ``extra.KEY``, ... or ``message`` for a commit's own text. ``kind``: what it looks like,
    or NOT_SCANNED. ``shown``: its first characters, where they are no secret. ``blob``: the file's contents; ``held``: where
    what is stored was looked at, the checkpoints of all tracks that hold them, newest first.
    """

    checkpoint: Oid | None
    commit: Oid | None
    path: str
    line: int
    kind: str
    shown: str = ""
    blob: Oid | None = None
    held: tuple[Oid, ...] = ()

    @property
    def where(self) -> str:
        """``path:line``, or the name of the words."""
        return f"{self.path}:{self.line}" if self.line else self.path


@value
class Report:
    """What a scan of what is stored has found, how many checkpoints it looked at, and what it could not read."""

    hits: tuple[Hit, ...]
    checkpoints: int
    problems: tuple[Problem, ...]
