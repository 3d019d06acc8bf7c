"""Subagents in work trees of their own: captured where one starts and ends there, on a track below its parent's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from gitbaton.agents.client import client
from gitbaton.agents.records import record_of
from gitbaton.agents.values import Event
from gitbaton.baton import Baton
from gitbaton.codec import check_new_track, first_line
from gitbaton.git.questions import current_ref, worktrees
from gitbaton.hooks import auto
from gitbaton.store import CURRENT, track_of
from gitbaton.store.read import DETACHED
from gitbaton.store.sessions import Session, opening
from gitbaton.system.files import read_regular

_HEAD = 256 << 10  # bytes of a subagent's records in which its task stands


def keep(baton: Baton, event: Event, project: str) -> None:
    """Take a checkpoint of a subagent's work tree at its start or its end; none of one that holds what the parent's HEAD does,
    nor in another repository than that of ``project``, the work tree of its parent. Raises BatonError."""
    repo, top = baton.repo, os.path.realpath(project)
    found = next((git_dir for _, git_dir, root in worktrees(repo) if root and os.path.realpath(root) == top), None)
    if found is None:
        return
    branch = current_ref(repo, found, "HEAD").removeprefix("refs/heads/")
    track = track_of(current_ref(repo, found, CURRENT)) or branch or DETACHED
    head = repo.git.run("rev-parse", "-q", "--verify", "HEAD", env={"GIT_DIR": found}).out.decode("ascii", "replace").strip()
    child = auto.Child(head=head or None)
    auto.take(baton, event, Session(), lambda: _track(baton, track), _said(event, baton.redactor.text), child=child)


def _track(baton: Baton, parent: str) -> str:
    """The track of this work tree, else the next one below the parent's."""
    current = baton.store.current()
    if current is not None:
        return current
    mine = re.compile(rf"{re.escape(parent)}/agent-([1-9][0-9]{{0,8}})")
    numbers = (int(found[1]) for name in baton.store.chains()[0] if (found := mine.fullmatch(name)))
    return check_new_track(f"{parent}/agent-{max(numbers, default=0) + 1}")


def _said(event: Event, redact: Callable[[str], str]) -> str:
    """What the checkpoint says: what kind of subagent it is, and at its end what it was told to do."""
    kind = event.who or "subagent"
    if event.moment == "child-start":
        return f"subagent started: {opening(kind, redact)}"
    return f"subagent ended: {opening(_task(event) or kind, redact)}"


def _task(event: Event) -> str:
    """The first line of what a subagent was told, as its own records have it; empty where they do not."""
    of = client(event.agent)
    try:
        data = read_regular(event.transcript or "", _HEAD, follow=True)
    except (OSError, ValueError):
        return ""
    for line in data.split(b"\n")[:20]:
        record = record_of(line)
        if of is not None and record is not None and (task := first_line(of.task(record))):
            return task
    return ""
