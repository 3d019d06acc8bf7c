"""Strategies: checkpoints of every shape that a writer may store, with texts that try to forge what is around them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st

from gitbaton.base.model import (
    Agent,
    Carried,
    Checkpoint,
    Decided,
    FileState,
    Flag,
    Here,
    IndexState,
    Operation,
    Skipped,
    Standing,
    Turn,
    Withdrawn,
    WorktreeId,
)
from gitbaton.base.values import replace

OID = "0123456789abcdef0123456789abcdef01234567"
WHEN = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
HOSTILE = [
    "\n}\n",
    "\n\n{",
    '"}',
    "\\",
    "\\u0041",
    "\x1b[2J",
    "\u202e",
    "\u2028",
    "\x85",
    "\x00",
    "\r\n",
    "\ufeff",
    "checkpoint " + OID,
]
TEXT = st.one_of(
    st.text(max_size=80),
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=10)), max_size=6).map("".join),
)
SEEN = TEXT.filter(lambda t: any(c.isprintable() and not c.isspace() for c in t))
PATH = st.one_of(TEXT, st.binary(max_size=20).map(os.fsdecode))
KEY = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
SHA = st.sampled_from([OID, OID[:24] + OID])
COUNT = st.integers(0, 1 << 40)
TIME = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))

FILES = st.builds(
    FileState,
    tree=SHA,
    index=st.builds(
        IndexState,
        tree=SHA,
        flags=st.lists(st.builds(Flag, path=PATH, bits=st.sampled_from(["a", "s", "i", "as", "asi"])), max_size=3).map(tuple),
        flags_more=COUNT,
        unmerged=COUNT,
    ),
    operation=st.none()
    | st.builds(
        Operation,
        kind=st.sampled_from(["merge", "rebase", "bisect"]),
        head=st.none() | SHA,
        onto=st.none() | SHA,
        refs=st.dictionaries(TEXT, PATH, max_size=2).map(lambda d: tuple(d.items())),
    ),
    changed=COUNT,
    skipped=st.lists(st.builds(Skipped, path=PATH, reason=st.just("too-large")), max_size=3).map(tuple),
    skipped_more=COUNT,
    worktree=st.builds(WorktreeId, path=PATH, created=TIME),
)
HERE = st.builds(Here, at=SHA, top=SHA)
CARRIED = st.builds(
    Carried,
    id=SHA,
    step=SEEN,
    created=TIME,
    branch=st.none() | PATH,
    head=SHA,
    tree=st.none() | SHA,
    turns=COUNT,
    operation=st.none() | st.sampled_from(["merge", "rebase"]),
    foreign=st.booleans(),
    restored=st.none() | HERE,
)
EDITED = st.lists(PATH, min_size=1, max_size=2).map(tuple)
TURN = st.builds(Turn, began=st.none() | SHA, ended=st.none() | SHA)
TURN |= st.builds(Turn, head=st.none() | SHA, edited=EDITED, edited_more=COUNT)


def standing(decisions: Sequence[str]) -> st.SearchStrategy[Standing]:
    """What may stand of words with these decisions."""
    numbers = st.lists(st.integers(1, 1_000_000), min_size=len(decisions), max_size=len(decisions), unique=True).map(sorted)
    one = st.tuples(st.none() | TIME, st.lists(PATH, max_size=2).map(tuple), st.booleans())
    made = st.tuples(numbers, st.lists(one, min_size=len(decisions), max_size=len(decisions))).map(
        lambda both: tuple(Decided(number=n, made=m, about=a, foreign=f) for n, (m, a, f) in zip(*both, strict=True))
    )
    gone = st.builds(Withdrawn, number=st.integers(1, 1_000_000), digest=st.just("0123456789abcdef"), at=st.none() | TIME)
    return st.builds(
        Standing,
        decisions=made,
        withdrawn=st.lists(gone, max_size=2).map(tuple),
        last=st.integers(0, 1_000_000),
        note=TEXT,
        extra=st.lists(KEY, max_size=2).map(tuple),
    )


CHECKPOINTS = st.builds(
    Checkpoint,
    track=st.just("main"),
    step=SEEN,
    note=TEXT,
    next_cmd=TEXT,
    validation=st.sampled_from(["green", "pending", "failed"]),
    decisions=st.lists(TEXT, max_size=3).map(tuple),
    label=st.none() | SEEN,
    kind=st.sampled_from(["manual", "auto", "safety"]),
    branch=st.none() | PATH,
    head=st.none() | SHA,
    created=TIME,
    extra=st.dictionaries(KEY, TEXT, max_size=3).map(lambda d: tuple(d.items())),
    agent=st.none() | st.builds(Agent, name=TEXT, session=st.none() | TEXT, transcript=st.none() | TEXT),
    carried=st.none() | CARRIED,
    files=st.none() | FILES,
    previous=st.none() | SHA,
    turn=st.none() | TURN,
).flatmap(lambda c: st.just(c) | standing(c.decisions).map(lambda found: replace(c, standing=found)))
