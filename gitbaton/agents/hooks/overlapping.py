"""Overlaps for an agent: which of them its prompt tells, in the little time that there is."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable

from gitbaton.agents.hooks.guard import DeadlineError, deadline
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import load
from gitbaton.checkpoints.overlap import LiveTrack, OverlapFile, Overlaps, live, overlaps, sentence
from gitbaton.git.repo import Repo

SECONDS = 0.15  # for pairs that are not known yet
_ROWS = 8  # files that are told at once
_KEPT = 300  # overlaps of which a session remembers that it was told


def overlapping(
    repo: Repo, track: str | None, told: str, complain: Callable[[str], None], seconds: float = SECONDS
) -> tuple[tuple[str, ...], str, bool]:
    """Return a line for each file in which the track of this work tree overlaps with another live one, of those that were not
    ``told`` yet as they are; a word for each that was told then; and whether pairs are left for which ``seconds`` were no time.
    Raises BatonError."""
    settings = load(repo, complain)
    if not settings.overlap:
        return (), told, False
    baton, known, found = Baton(repo=repo, settings=settings), list[LiveTrack](), Overlaps()
    own = baton.chosen(track)
    try:
        with deadline(seconds):
            known += live(baton, {own} if baton.store.own_tip(own) is not None else ())
            if any(one.name == own and one.place == repo.layout.root for one in known):
                found = overlaps(baton, known, {own})
    except DeadlineError:
        repo.close()
        found = overlaps(baton, known, {own}, most=0)
        found = found if found.waiting else Overlaps(waiting=((own, ""),))
    before, rows, left = told.split(), list[str](), 0
    words = list[str]()
    for one in found.of(own):
        for file in one.files:
            word = _word(one.other, file)
            if word not in before and len(rows) == _ROWS:
                left += 1  # named at the next prompt
                continue
            words.append(word)
            if word in before:
                continue
            mark = "> " if one.other.stored.foreign_words else ""
            rows.append(mark + baton.redactor.text(sentence(file, one.other, baton.clock())))
    rows += [f"and {left} more"] if left else []
    return tuple(rows), " ".join(dict.fromkeys([*before, *words][-_KEPT:])), bool(found.waiting)


def _word(other: LiveTrack, file: OverlapFile) -> str:
    """A short word for an overlap as it is: it is another one once the other track has changed the file again."""
    words = "\0".join((other.name, file.mine.path, file.other.entry or ""))
    return f"{crc32(words.encode('utf-8', 'surrogateescape')):08x}"
