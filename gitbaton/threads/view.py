"""What one process knows of threads: entries of the log that are not in git yet; and `Shelf`, which reads their refs and moves
them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from weakref import WeakValueDictionary

from gitbaton.codec import in_quotes
from gitbaton.errors import RecordError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import RefChange
from gitbaton.git.packs import Mark, Packs, RefWatch
from gitbaton.git.publish import Durable
from gitbaton.git.repo import Repo
from gitbaton.threads.chain import Chain, Entries, Late
from gitbaton.threads.codec import Entry, Id, Row
from gitbaton.threads.commits import names_data
from gitbaton.threads.names import late_ref, ref_of

Batch = tuple[int, tuple[Row, ...], bool]
"""Writes as the log has them: the record's number, the rows, and whether they replace."""


class Held:
    """Checkpoints that git has not: by id, with their records' numbers, and the ids in order. Nothing is taken out."""

    __slots__ = ("order", "puts")

    def __init__(self, puts: dict[str, tuple[int, Entry]]) -> None:
        self.puts, self.order = puts, sorted(puts)


class Line:
    """One thread in one namespace: ``held`` and ``rows``, by the checkpoint's id, are what git has not; ``view`` is what git
    had at the last look, None where nobody has looked; ``names`` is what its commits say of the two.

    Changed under the log's lock only, and readers hold no lock: whoever takes something out of memory puts another ``held``
    or list in its place, after ``view`` has it or is out of date; and readers look at memory before they look at ``view``.
    """

    __slots__ = ("held", "late", "late_path", "names", "namespace", "path", "ref", "rows", "thread", "view")

    def __init__(self, thread: str, namespace: str) -> None:
        self.thread, self.namespace = thread, namespace
        self.ref, self.late = ref_of(thread, namespace), late_ref(thread, namespace)
        self.names = names_data(thread, namespace)
        self.path = self.late_path = b""
        self.held = Held({})
        self.rows: dict[str, list[Batch]] = {}
        self.view: View | None = None

    @property
    def puts(self) -> dict[str, tuple[int, Entry]]:
        """The checkpoints that git has not, by id."""
        return self.held.puts


class View:
    """A line's chain and late writes. ``known`` are checkpoints of this very chain by their id, while something else has
    them: the cache of entries, or whoever read one."""

    __slots__ = ("chain", "epoch", "head", "known", "late", "late_mark", "late_tip", "mark", "tip")

    def __init__(self, chain: Chain, late: Late, known: WeakValueDictionary[str, Entry]) -> None:
        self.chain, self.late, self.known = chain, late, known
        self.tip, self.late_tip = chain.tip, late.tip
        self.head = chain.head()
        self.epoch = -1
        self.mark: Mark | None = None
        self.late_mark: Mark | None = None

    def find(self, id: str) -> Entry | None:
        """A checkpoint of the chain."""
        found = self.known.get(id)
        if found is None and self.head is not None and id <= self.head.id:
            found = self.chain.find(id)
            if found is not None:
                self.known[id] = found
        return found


class Shelf:
    """The objects and refs of threads in one repository. Safe in several threads."""

    def __init__(self, repo: Repo, *, cache: int) -> None:
        self.repo = repo
        self.packs = Packs(repo, cache=cache // 2)
        self.refs = RefWatch(repo)
        self.entries = Entries(cache // 2)
        self.epoch = 0
        self._durable = Durable(repo)

    def place(self, line: Line) -> Line:
        """Say where the files of a new line's refs are."""
        line.path, line.late_path = self.refs.path(line.ref), self.refs.path(line.late)
        return line

    def view(self, line: Line) -> View:
        """What git has of a line now. Raises GitError or RecordError when it cannot be read."""
        return self.fresh(line) or self.look(line)

    def fresh(self, line: Line) -> View | None:
        """What git had of a line at the last look, if nothing has moved since."""
        view = line.view
        if view is not None and view.epoch == self.epoch and self.refs.mark(line.path) == view.mark:
            if view.late_mark is None:
                if not os.access(line.late_path, os.F_OK):
                    return view
            elif self.refs.mark(line.late_path) == view.late_mark:
                return view
        return None

    def look(self, line: Line) -> View:
        """Look at a line's refs anew."""
        epoch, old = self.epoch, line.view
        mark, tip = self.tip(line.ref)
        late_mark, late_tip = self.tip(line.late)
        try:
            view = self.make(tip, late_tip, old)
        except RecordError as error:
            raise RecordError(f"ref {in_quotes(line.ref)}: {error.message}", *error.hints) from None
        view.epoch, view.mark = epoch, mark
        # None: it has no file of its own, and the appearance of one is what is looked for.
        view.late_mark = None if late_tip is None and late_mark and len(late_mark) != 3 else late_mark or (-1,)
        line.view = view
        return view

    def tip(self, ref: str) -> tuple[Mark | None, Id | None]:
        """A mark of a ref and the commit that it points at."""
        mark, oid = self.refs.look(ref)
        return mark, bytes.fromhex(oid) if oid else None

    def make(self, tip: Id | None, late_tip: Id | None, old: View | None = None) -> View:
        """The view of two tips, with what ``old`` knows of the same chain."""
        same = old if old is not None and old.tip == tip else None
        chain, known = (same.chain, same.known) if same is not None else (self.chain(tip), WeakValueDictionary[str, Entry]())
        return View(chain, old.late if old is not None and old.late_tip == late_tip else self.late(late_tip), known)

    def chain(self, tip: Id | None) -> Chain:
        """The chain that a commit ends."""
        return Chain(self.packs.read, self.packs.algorithm, tip, self.entries)

    def late(self, tip: Id | None) -> Late:
        """The late writes that a commit holds."""
        return Late(self.packs.read, self.packs.algorithm, tip)

    def move(self, changes: Sequence[RefChange]) -> None:
        """Move refs in one transaction; they are on disk when this returns, those too that are to stay as they are: whoever
        moved them may have been killed before. Raises RefConflictError and GitError as Objects.update."""
        new = [change for change in changes if change.new != change.old]
        if new:
            self._durable.update_all(new)
        self._durable.confirm([change for change in changes if change.new == change.old])

    def gone(self, folders: Sequence[str]) -> None:
        """Have on disk that there are no refs in folders."""
        self._durable.emptied(folders)

    def names(self, *prefixes: str) -> list[str]:
        """The refs below prefixes."""
        return list(self.refs.listing(*prefixes))

    def close(self) -> None:
        """Let go of everything."""
        self._durable.close()
        self.packs.close()
        self.refs.close()
        self.repo.close()


def again(repo: Repo) -> Repo:
    """The same repository with handles of its own."""
    return Repo(repo.layout, repo.git, "binary" if isinstance(repo.objects, BinaryObjects) else None)
