"""Pins: checkpoints that no prune removes, here or in any clone that hears of it."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.baton import Baton
from gitbaton.errors import NoAnswerError, UsageError
from gitbaton.model import Oid, Stored
from gitbaton.store.meta import MOST_TURNS, Meta
from gitbaton.store.refs import META
from gitbaton.store.revision import Revision
from gitbaton.values import replace


def set_pin(baton: Baton, name: str, *, pinned: bool) -> tuple[Stored, bool]:
    """Pin the checkpoint that a name means, or take its pin back: the checkpoint, and whether that changed anything.

    Raises NotFoundError, AmbiguousNameError; RecordError when what is pinned cannot be read; UsageError for a safety
    checkpoint, which lies in no track; NoAnswerError for one pinned too often.
    """
    stored = baton.resolve(name)
    if stored.checkpoint.kind == "safety":
        raise UsageError(f"'{baton.short(stored.id)}' is a safety checkpoint; they stay for 14 days and cannot be pinned")
    with baton.repo.lock((META,)):
        baton.store.settle()
        revision = Revision(baton.store)
        if revision.meta.pinned(stored.id) == pinned:
            return stored, False
        revision.meta = turned(revision.meta, stored.id)
        revision.apply()
    return stored, True


def turned(meta: Meta, oid: Oid) -> Meta:
    """What is pinned, with one more turn for a checkpoint: a pin becomes none, and none a pin. Pure. Raises NoAnswerError."""
    if meta.pins.get(oid, 0) >= MOST_TURNS:
        raise NoAnswerError(f"checkpoint {oid} was pinned and unpinned too often: it stays as it is")
    pins: Mapping[Oid, int] = {**meta.pins, oid: meta.pins.get(oid, 0) + 1}
    return replace(meta, pins=pins)
