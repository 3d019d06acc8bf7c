"""How an edit of whole threads is carried out: drafted while others put, moved when the log has nothing of what it removes."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress

from gitbaton.errors import BatonError, GitError, RefConflictError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import RefChange
from gitbaton.threads.core import Core
from gitbaton.threads.flush import PATIENCE, WAIT, Failed, Place, bring, drain, freeze, settle
from gitbaton.threads.late import Object
from gitbaton.threads.values import Entry, Id
from gitbaton.threads.view import Line, View

_ROUNDS = 3  # see flush


class Draft:
    """What an edit comes to: refs that move, objects that they need, and folders of refs that are to be empty. ``parts`` are
    what earlier drafts of the same edit came to, by line."""

    def __init__(self, core: Core, parts: dict[Place, Part] | None = None) -> None:
        self.core = core
        self.parts = parts if parts is not None else {}
        self.changes: list[RefChange] = []
        self.objects: list[Object] = []
        self.folders: list[str] = []

    def line(self, thread: str, namespace: str) -> tuple[Line, View]:
        """A line and what git has of it now."""
        line = self.core.line(thread, namespace)
        return line, self.core.shelf.look(line)

    def move(self, line: Line, view: View, tip: Id | None, late: Id | None) -> None:
        """Have a line's refs point elsewhere."""
        for ref, old, new in ((line.ref, view.tip, tip), (line.late, view.late_tip, late)):
            if old != new:
                self.changes.append(RefChange(name=ref, old=old.hex() if old else None, new=new.hex() if new else None))

    def lines(self, prefixes: Iterable[str], *known: str) -> list[tuple[str, str]]:
        """Threads and namespaces of refs below prefixes; ``known`` as for ``Core.named``."""
        return sorted({*self.core.named(self.core.shelf.names(*prefixes), *known)})

    def once(self, names: Place, work: Callable[[Part, Line], None], *others: Id | None) -> None:
        """Draft what becomes of one line by ``work``, or take what it came to when the line, and ``others``, were the same."""
        line, view = self.line(*names)
        tips, part = (view.tip, view.late_tip, *others), self.parts.get(names)
        if part is None or part.tips != tips:
            part = self.parts[names] = Part(self.core, view, tips, part)
            work(part, line)
            part.before = None
        self.changes += part.changes
        self.objects += part.objects


class Part(Draft):
    """What an edit comes to for one line, whose refs point at ``tips``; ``before`` is what it came to when they pointed
    elsewhere, ``gone`` the checkpoints that it removes, ``made`` what the refs are to point at."""

    def __init__(self, core: Core, view: View, tips: tuple[Id | None, ...], before: Part | None) -> None:
        super().__init__(core)
        self.view, self.tips, self.before = view, tips, before
        self.gone: dict[str, Entry | None] = {}
        self.made = view.tip, view.late_tip

    def move(self, line: Line, view: View, tip: Id | None, late: Id | None) -> None:
        """See Draft."""
        super().move(line, view, tip, late)
        self.made = tip, late


def edit(core: Core, plan: Callable[[Draft], None], touched: Container[str] | None = None, gone: Container[str] = ()) -> None:
    """Carry out what ``plan`` drafts, in one transaction; from the start again where somebody moves a ref meanwhile. ``gone``
    are the threads that it deletes, ``touched`` those that it needs whole: the error of one that cannot be brought into git is
    raised, with nothing changed. None: those of all threads are raised when it is done."""
    if core.wal.readonly:
        raise GitError(f"'{core.folder}' cannot be written")
    try:
        failed = drain(core)[1]  # most of it, while others put
    except BatonError:
        if not gone:
            raise
        failed = {}
    _refuse(failed, touched)
    parts: dict[Place, Part] = {}
    with core.wal.flushing(WAIT):
        ahead = Draft(core, parts)
        if not gone:
            plan(ahead)
        made = {item[1] for item in ahead.objects}
        with core.shelf.packs.write(ahead.objects):
            for _ in range(_ROUNDS):
                with core.wal.lock(), core.careful():
                    done = _brought(core, gone)
                    if done is not None:
                        failed = done
                        _refuse(failed, touched)
                        _move(core, plan, parts, made)
                        break
    if done is None:
        raise RefConflictError("the threads cannot be edited: what is put meanwhile cannot be brought into git")
    for error in failed.values() if touched is None else ():
        raise error


def _refuse(failed: Failed, touched: Container[str] | None) -> None:
    for (thread, _), error in failed.items():
        if touched is not None and thread in touched:
            raise error


def _brought(core: Core, gone: Container[str]) -> Failed | None:
    """Bring what came since into git, and have the log let go of it, and of all that it has of threads ``gone``: whoever is
    killed from here on leaves such a thread whole or not at all. The lines that cannot be brought, with nothing else in the
    log; None: once more, now that they are known. With the log's lock held."""
    core.catch_up()
    frozen, sealed, carried = freeze(core, gone)
    going = [each for each in frozen if each.line.thread in gone]
    views, failed = bring(core, [each for each in frozen if each.line.thread not in gone], None)
    with suppress(BatonError):
        views += bring(core, going, None)[0]
    if failed.keys() <= carried:
        for each in going:
            each.line.view = None
        settle(core, views, sealed)
    elif views or going:
        core.stuck = failed
        return None
    return failed


def _move(core: Core, plan: Callable[[Draft], None], parts: dict[Place, Part], made: Container[Id]) -> None:
    """Move the refs as is planned now; the objects ``made`` are there. With the log's lock held."""
    end = time.monotonic() + PATIENCE
    while True:
        draft = Draft(core, parts)
        plan(draft)
        with core.shelf.packs.write([item for item in draft.objects if item[1] not in made]):
            try:
                if draft.changes:
                    core.shelf.move(draft.changes)
                if draft.folders:
                    core.shelf.gone(draft.folders)
                break
            except RefConflictError:
                if time.monotonic() > end:
                    raise
        clear_stale_locks(core.repo.layout.common_dir, [change.name for change in draft.changes])
        time.sleep(0.01)
    core.wal.bump()
    core.epoch = core.wal.epoch
    core.shelf.epoch += 1
