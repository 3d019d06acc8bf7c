"""Pins: checkpoints that no prune removes, here or in any clone that hears of it."""

from __future__ import annotations

import re
import unicodedata

from gitbaton.baton import Baton
from gitbaton.codec import in_quotes, plain
from gitbaton.errors import AmbiguousNameError, NoAnswerError, NotFoundError, UsageError
from gitbaton.model import Oid, Stored
from gitbaton.render import in_shell
from gitbaton.store.meta import MOST_BYTES, MOST_TURNS, Meta
from gitbaton.store.refs import META
from gitbaton.store.revision import Revision
from gitbaton.values import replace

_SPELLED = re.compile(
    r"[-@].*|.*(?:~[0-9]*|\^[0-9]*)|.*@\{.*|[0-9a-f]{4,64}|refs/.*"
)  # what names.resolve reads as something else, or an option


def set_pin(baton: Baton, name: str, *, pinned: bool, called: str | None = None) -> tuple[Stored, bool]:
    """Pin the checkpoint that a name means, and let it be ``called`` so, or take its pin and name back: the checkpoint, and
    whether that changed anything.

    Raises NotFoundError, AmbiguousNameError; RecordError when what is pinned cannot be read; UsageError for a safety
    checkpoint, which lies in no track, and for a name that cannot be one; NoAnswerError for one pinned too often, and where
    another checkpoint is called so.
    """
    stored = baton.resolve(name)
    if stored.checkpoint.kind == "safety":
        raise UsageError(f"'{baton.short(stored.id)}' is a safety checkpoint; they stay for 14 days and cannot be pinned")
    called = None if called is None else _free(baton, stored, called)
    with baton.repo.lock((META,)):
        baton.store.settle()
        revision = Revision(baton.store)
        if called is not None and any(name == called and oid != stored.id for oid, name in revision.meta.names.items()):
            raise NoAnswerError(f"{in_quotes(called)} means another checkpoint")  # named just now, by somebody else
        if revision.meta.pinned(stored.id) == pinned and called in (None, revision.meta.names.get(stored.id)):
            return stored, False
        revision.meta = turned(revision.meta, stored.id, called)
        revision.apply()
    return stored, True


def turned(meta: Meta, oid: Oid, called: str | None = None) -> Meta:
    """What is pinned, with one more turn for a checkpoint: a pin becomes none, and none a pin; where it is to be ``called``
    so, it is pinned afterwards. Pure. Raises NoAnswerError."""
    count = meta.pins.get(oid, 0) + (2 if called and meta.pinned(oid) else 1)
    if count > MOST_TURNS:
        raise NoAnswerError(f"checkpoint {oid} was pinned and unpinned too often: it stays as it is")
    names = {other: name for other, name in meta.names.items() if other != oid} | ({oid: called} if called else {})
    return replace(meta, pins={**meta.pins, oid: count}, names=names)


def _free(baton: Baton, stored: Stored, called: str) -> str:
    """A name as it is stored, for a checkpoint: no secret is in it, and no other checkpoint is called so."""
    name = unicodedata.normalize("NFC", baton.redactor.text(called.strip()))
    if not name.isprintable() or plain(name) != name or not 0 < len(name.encode("utf-8", "replace")) <= MOST_BYTES:
        raise UsageError(f"a name is one line of 1 to {MOST_BYTES} bytes")
    if _SPELLED.fullmatch(name):
        raise UsageError(f"a checkpoint cannot be called {in_quotes(name)}: that is read as something else")
    if name in baton.store.chains()[0] or name in baton.store.strange():
        raise NoAnswerError(f"{in_quotes(name)} is a track", f"to look: git baton log --track {in_shell(name)}")
    try:
        other = baton.lead(name)
    except NotFoundError:
        return name
    except AmbiguousNameError:
        raise NoAnswerError(f"{in_quotes(name)} means other checkpoints") from None
    if other.id != stored.id:
        raise NoAnswerError(
            f"{in_quotes(name)} means another checkpoint: {baton.short(other.id)}", f"to look: git baton show {in_shell(name)}"
        )
    return name
