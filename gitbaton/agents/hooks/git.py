"""Git's hooks: warn of drift, carry notes over rewrites. Whatever goes wrong, git's command succeeds."""

from __future__ import annotations

import os
import sys

from gitbaton.agents.hooks.guard import log
from gitbaton.base import terminal
from gitbaton.base.codec import Note, bare, in_quotes, parse_note, plain
from gitbaton.base.errors import RefConflictError
from gitbaton.base.model import Head, Oid, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import title_of
from gitbaton.checkpoints.store.state import paused
from gitbaton.checkpoints.survey import Surveyor
from gitbaton.git import questions
from gitbaton.git.objects import OID

WAIT = 2.0
PATIENCE = 5.0  # seconds that one git call may take while somebody waits for a checkout
_TRIES = 5
# What HEAD's reflog says of moves that are steps of something else, or that post-rewrite will explain in a moment.
_STEPS = {"post-checkout": ("rebase", "pull"), "post-commit": ("commit (amend)", "rebase", "cherry-pick", "revert")}


def drift_lines(baton: Baton, event: str) -> list[str]:
    """Return what a hook says about the current track: at most three lines, one after a commit, none at home.

    ``baton.warn`` is ``head`` (the default), ``always`` (after each commit, too) or ``never``.
    """
    warn = baton.repo.settings().get("baton.warn", ["head"])[-1].lower()
    track = baton.current()
    if track is None or warn == "never" or (event == "post-commit" and warn != "always") or paused(baton.repo, baton.clock()):
        return []
    stored = baton.store.tip(track)
    if stored is None or questions.last_move(baton.repo).startswith(_STEPS.get(event, ("rebase",))):
        return []
    stored = baton.here(stored)
    live = Surveyor(baton.store, baton.settings.short).live(stored)
    if not live.drift.moved:
        baton.repo.expect(live.head.oid)  # rewritten, and at home all the same: be quiet next time
        return []
    if event == "post-commit":
        return [f"warning: checkpoint {in_quotes(_step(stored))} of track {in_quotes(track)} is behind: {live.drift}"]
    c = stored.checkpoint
    track, then, now = c.track, _place(baton, Head(branch=c.branch, oid=c.head)), _place(baton, live.head)
    lines = [
        f"warning: HEAD has left the checkpoint {in_quotes(_step(stored))} of track {in_quotes(track)}, taken on {then}",
        f"warning: HEAD is now {now}: {live.drift}",
    ]
    muted = not baton.repo.boolean("advice.batondrift", default=True)
    return lines if muted else [*lines, "hint: git baton resume --live"]


def _step(stored: Stored) -> str:
    said = plain(title_of(stored.checkpoint).split("\n", 1)[0])[:60]
    return f"> {said}" if stored.foreign_words else said


def _place(baton: Baton, head: Head) -> str:
    return f"{bare(head.branch) if head.branch else 'detached'} {baton.abbreviate(head.oid)}".rstrip()


def carry(baton: Baton, pairs: list[tuple[Oid, Oid]]) -> None:
    """Copy our notes from rewritten commits to their successors where git did not. Raises BatonError."""
    from gitbaton.checkpoints.store.join import put_notes

    with baton.repo.lock((), wait=WAIT):
        questions.trim_rewrites(baton.repo)
        for left in reversed(range(_TRIES)):
            try:
                notes = {commit: note.render() for commit, note in _missing(baton, pairs).items()}
                put_notes(baton.store, notes, int(baton.clock().timestamp()))
                return
            except RefConflictError:  # git itself writes notes without our lock
                if not left:
                    raise


def _missing(baton: Baton, pairs: list[tuple[Oid, Oid]]) -> dict[Oid, Note]:
    """The notes of successors that lack entries of what they replace, with those entries."""
    store = baton.store
    tree = store.notes_tree()[1]
    wanted: dict[Oid, Note] = {}
    for old, new in pairs:
        have = wanted.get(new) or parse_note(store.note(new, tree))
        before = parse_note(store.note(old, tree))
        known = {oid for oid, _ in have.entries}
        missing = tuple(e for e in before.entries if e[0] not in known)
        if missing:
            older = have.older or before.older
            preamble = have.preamble or before.preamble
            wanted[new] = Note(preamble=preamble, entries=(*have.entries, *missing), older=older)
    return wanted


def read_pairs(text: bytes) -> list[tuple[Oid, Oid]]:
    """The ``old new`` lines that git gives to post-rewrite."""
    rows = (line.split(" ") for line in text.decode("ascii", "replace").splitlines())
    return [(r[0], r[1]) for r in rows if len(r) >= 2 and OID.match(r[0]) and OID.match(r[1])]


def run(words: list[str]) -> None:
    """``git baton hook git EVENT ARGS``: what it says, on standard output. Never raises and never fails.

    What went wrong is in ``<common dir>/baton/log``.
    """
    baton: Baton | None = None
    try:
        event = words[0] if words else ""
        baton = Baton(door="binary")
        baton.repo.git.timeout = PATIENCE
        if event == "prepare-commit-msg":
            from gitbaton.agents.hooks.trailers import sign

            sign(baton, words[1], os.environ)
        elif event == "post-rewrite":
            carry(baton, read_pairs(sys.stdin.buffer.read(8 << 20)))
        elif event in ("post-checkout", "post-commit", "post-merge"):
            for line in drift_lines(baton, event):
                terminal.say(line)
            sys.stdout.flush()
    except Exception as error:
        if baton is not None:
            log(baton.repo, f"hook git {' '.join(words)}: {type(error).__name__}: {error}")
