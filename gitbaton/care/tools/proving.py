"""Proof of a commit by test runs on record: whether one was seen green on exactly its files, and what is known otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid, Stored, TestRun
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.git.questions import commit_named
from gitbaton.git.treediff import differences
from gitbaton.git.worktree.filedrift import is_byte_code

_TREES = 200  # of runs, the newest, that are compared with the commit's


@value
class SeenRun:
    """A test run on record. ``stored``: the oldest checkpoint that tells of it; ``differs``: the paths in which its files
    differ from the commit's, None where that cannot be said; ``counts``: it proves the commit; ``against``: it disproves it;
    ``vouched``: a checkpoint that tells of it has the signature that is asked for, if one is."""

    run: TestRun
    stored: Stored
    differs: tuple[str, ...] | None
    counts: bool = False
    against: bool = False
    vouched: bool = True

    @property
    def same(self) -> bool:
        """Whether the run was on exactly the files of the commit, as far as is known."""
        return self.differs == () and not self.run.edited


@value
class Proof:
    """The runs that are known of a commit, those that count or speak against it first, then those of the nearest files.
    ``foreign``: how many that were fetched would count and are left out; ``unsigned``: how many would count and are told by no
    checkpoint with a good signature; ``warnings``: of signatures that cannot be read."""

    commit: Oid
    tree: Oid
    runs: tuple[SeenRun, ...]
    foreign: int = 0
    unsigned: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """Whether a run was seen green on exactly the files of the commit, and no later one there failed."""
        return any(one.counts for one in self.runs) and not any(one.against for one in self.runs)


def prove(baton: Baton, name: str, *, foreign: bool = False, signed: bool = False) -> Proof:
    """Look for a test run that was seen green on exactly the tree of a commit. What was fetched counts only with ``foreign``:
    another machine says it; with ``signed`` only what a checkpoint tells that has a signature by a key that is trusted here.
    Raises GitError where ``name`` is no commit."""
    commit = commit_named(baton.repo, name)
    tree = baton.store.tree_of(commit)
    if commit is None or tree is None:
        raise GitError(f"{in_quotes(name)} names no commit that is here")
    told: dict[tuple[object, ...], tuple[TestRun, Stored, bool]] = {}
    items = baton.store.whole().items[::-1]
    good, warnings = _signed(baton, items, tree) if signed else (None, [])
    for stored in items:
        for run in stored.checkpoint.observed.tests if stored.checkpoint.observed is not None else ():
            if run.tree is not None:  # a run is told of again by what follows, and one of ours may have been fetched, too
                key = run.command, run.ended, run.tree
                vouched = good is None or ((stored.checkpoint.track, stored.id) in good and (foreign or not stored.foreign))
                before = told.get(key)
                # Anybody may tell of the same run in other words: those count that are signed, and then ours.
                if before is None or (vouched, not stored.foreign) > (before[2], not before[1].foreign):
                    told[key] = run, stored, vouched
    newest = sorted(told.values(), key=lambda one: one[0].ended, reverse=True)
    trees = list(dict.fromkeys(run.tree for run, _, _ in newest if run.tree is not None))
    near = set(baton.store.present([one for one in trees if one != tree][:_TREES]))
    apart = differences(baton.repo, [(one, tree) for one in near])
    differs: dict[Oid, tuple[str, ...]] = {one: tuple(p for p in apart[one, tree] if not is_byte_code(p)) for one in near}
    differs[tree] = ()
    found = [
        SeenRun(run=run, stored=stored, differs=differs.get(run.tree or ""), vouched=vouched) for run, stored, vouched in newest
    ]
    return Proof(
        commit=commit,
        tree=tree,
        runs=_judged([one for one in found if foreign or not one.stored.foreign]),
        foreign=0 if foreign else sum(one.stored.foreign and one.run.exact and one.differs == () for one in found),
        unsigned=sum(one.same and one.run.exact and one.run.result == "passed" and not one.vouched for one in found),
        warnings=tuple(warnings),
    )


def _signed(baton: Baton, items: Sequence[Stored], tree: Oid) -> tuple[frozenset[tuple[str, Oid]], list[str]]:
    """Return those of the checkpoints that tell of a run on a tree and have a signature by a key that is trusted here; and
    warnings."""
    from gitbaton.checkpoints.store.signatures import verdicts

    telling = [
        s for s in items if s.checkpoint.observed is not None and any(r.tree == tree for r in s.checkpoint.observed.tests)
    ]
    found, warnings = verdicts(baton.store, telling)
    return frozenset(place for place, verdict in found.items() if verdict.good), warnings


def _judged(found: list[SeenRun]) -> tuple[SeenRun, ...]:
    from gitbaton.agents.testing import mends

    green = [one for one in found if one.same and one.run.exact and one.run.result == "passed" and one.vouched]

    def mended(one: SeenRun) -> bool:
        return any(later.run.ended > one.run.ended and mends(later.run.command, one.run.command) for later in green)

    red = [one for one in found if one.same and one.run.result == "failed" and not mended(one)]
    judged = [replace(one, counts=one in green, against=one in red) for one in found]
    far = max((len(one.differs) for one in found if one.differs is not None), default=0) + 1
    return tuple(
        sorted(judged, key=lambda one: (not one.against, not one.counts, far if one.differs is None else len(one.differs)))
    )
