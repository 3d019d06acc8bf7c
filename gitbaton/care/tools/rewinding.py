"""Rewind: a track's checkpoints with their changes, the plan to restore one, and that very plan applied."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.codec import Json, parse_transcript, path_document
from gitbaton.base.errors import BatonError, GitTimeoutError, NotFoundError, PathError, RecordError, StaleError
from gitbaton.base.model import Oid, Op, Stored
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.care.tools.comparing import changes, tree_now, tree_of
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore import Order, Restored, RestorePlan, alone, apply, open_plan, recover
from gitbaton.checkpoints.store import Problem, chain_ref
from gitbaton.checkpoints.store.chain import MAX_COMMIT
from gitbaton.git.objects import Object, parse_commit
from gitbaton.git.repo import Repo

if TYPE_CHECKING:
    from gitbaton.checkpoints.store.turns import UnderWay

URGENT = ("conflict", "refuse", "remove", "write", "create", "keep")
"""What becomes of a path, what needs a look first."""
_COUNTING = 10.0  # seconds: a list that somebody waits for
_NUMSTAT = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
_PATCH = ("-p", "--no-ext-diff", "--no-color", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative")
_RECORD = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64})\n|(\d+|-)\t(\d+|-)\t[^\0]+\0")

Pair = tuple[Oid, Oid]


@value
class Changes:
    """Difference of two trees: files, and the lines of text added and removed; a binary file has no lines."""

    files: int
    added: int
    removed: int


@value
class RewindRow:
    """A checkpoint in the list: ``number`` counts from the newest, which is 1.

    ``changes`` since the checkpoint before, of the first one since HEAD when its turn began; None where it holds no files, or
    git could not count. ``agent``: the client of the conversation that it has a position in; None without one.
    """

    number: int
    stored: Stored
    changes: Changes | None
    agent: str | None


@value
class RewindPage:
    """Some checkpoints of a track, newest first, and what could not be read among them; ``after``: the commit to go on with,
    None at the chain's end."""

    rows: tuple[RewindRow, ...]
    problems: tuple[Problem, ...]
    after: Oid | None


@value
class RewindOutcome:
    """Result of carrying out a plan: ``restored`` is None where the plan would now be another one, and nothing was changed;
    then ``order`` is the one to plan anew. ``said``: messages to print."""

    restored: Restored | None
    order: Order
    said: tuple[str, ...]


def page(baton: Baton, track: str, start: Oid, size: int, first: int = 1) -> RewindPage:
    """Return at most ``size`` links of a track's chain from the commit ``start`` on, numbered from ``first``. Raises
    BatonError."""
    store = baton.store
    links = [oid for oid in store.objects.first_parents(start, size + 1) if oid != store.root]
    found = list(store.objects.read_many(links, MAX_COMMIT))
    problems, records = [], list[tuple[Stored, Oid | None]]()
    for at, oid in enumerate(links[:size]):
        try:
            stored = store.stored(found[at], track, oid)
        except RecordError as error:
            problems.append(Problem(where=f"{chain_ref(track)}, commit {oid}", reason=error.message))
            continue
        records.append((stored, _before(baton, stored, found[at + 1] if at + 1 < len(links) else None)))
    pairs = {stored.commit: (before, stored.tree) for stored, before in records if before and stored.checkpoint.files}
    counted = _counted(baton, set(pairs.values()))
    rows = [
        RewindRow(number=number, stored=stored, changes=counted.get(pairs.get(stored.commit, ("", ""))), agent=_agent(stored))
        for number, (stored, _) in enumerate(records, first)
    ]
    return RewindPage(rows=tuple(rows), problems=tuple(problems), after=links[size] if len(links) > size else None)


def _before(baton: Baton, stored: Stored, link: Object | None) -> Oid | None:
    """Return the tree that a checkpoint is counted against, as when it was recorded; None where it cannot be read."""
    if link is None:
        return baton.store.base_tree(baton.store.first_base(stored.checkpoint))
    if link.kind != "commit" or link.data is None:
        return None
    try:
        return parse_commit(link.data).tree
    except RecordError:
        return None


def _agent(stored: Stored) -> str | None:
    agent = stored.checkpoint.agent
    return agent.name if agent and agent.session and parse_transcript(agent.transcript) else None


def _counted(baton: Baton, pairs: Collection[Pair]) -> dict[Pair, Changes]:
    """Count the changes between pairs of trees, by one git process; without those that it could not count in its time."""
    counted = {pair: Changes(files=0, added=0, removed=0) for pair in pairs if pair[0] == pair[1]}
    differing = sorted(set(pairs).difference(counted))
    if not differing:
        return counted
    git = baton.repo.git.changed({})
    git.timeout = _COUNTING
    stdin = "".join(f"{before} {after}\n" for before, after in differing).encode()
    try:
        result = git.run("diff-tree", "--stdin", *_NUMSTAT, stdin=stdin)
    except GitTimeoutError:
        return counted
    groups = _groups(result.out)
    if result.code != 0 and groups:
        groups.popitem()  # git ended in the middle of it
    return counted | groups


def _groups(raw: bytes) -> dict[Pair, Changes]:
    """Parse the output of ``diff-tree --stdin -z --numstat``: a line of two ids, then a record for each path."""
    found: dict[Pair, Changes] = {}
    pair: Pair = ("", "")
    for match in _RECORD.finditer(raw):
        before, after, added, removed = match.groups()
        if before:
            pair = (before.decode(), after.decode())
            found[pair] = Changes(files=0, added=0, removed=0)
            continue
        last = found[pair]
        lines = [0 if text == b"-" else int(text) for text in (added, removed)]
        found[pair] = Changes(files=last.files + 1, added=last.added + lines[0], removed=last.removed + lines[1])
    return found


def newer(baton: Baton, stored: Stored) -> int | None:
    """Return how many checkpoints its track's chain has above one; None where it is in no track's chain."""
    tip = baton.store.objects.info(chain_ref(stored.checkpoint.track))
    if tip is None or tip.kind != "commit":
        return None
    oids = baton.store.objects.first_parents(tip.oid)
    return oids.index(stored.commit) if stored.commit in oids else None


@contextmanager
def _aside(baton: Baton) -> Iterator[tuple[Baton, str]]:
    """Open the repository once more, with a folder for what it writes, which goes with it."""
    from tempfile import TemporaryDirectory

    place = baton.latest
    repo = Repo(baton.repo.layout, baton.repo.git.changed({}), "binary")
    copy = Baton(repo=repo, clock=baton.clock, checkpoint_dir=place.directory if place else None)
    with TemporaryDirectory(prefix="gitbaton-") as folder, copy:
        yield copy, folder


def preview(baton: Baton, order: Order, op: Op = "restore") -> RestorePlan:
    """Return the plan of a restore, revert, undo or redo, to be shown: it leaves nothing behind and cannot be carried out.
    Raises BatonError."""
    with _aside(baton) as (copy, folder):
        copy.redirect(folder)
        with open_plan(copy, op, order) as plan:
            return plan


def document(plan: RestorePlan, safety: Stored | None, said: Sequence[str]) -> dict[str, Json]:
    """Return the JSON of a plan, or of what was done: ``safety`` is the state before it; ``said`` are the warnings."""
    paths = [{"path": path_document(s.path), "action": s.action, "reason": s.reason} for s in plan.steps]
    head: dict[str, Json] = {"op": plan.op, "what": plan.what, "plan": plan.digest, "target": plan.target.id}
    return {**head, "safety": safety.id if safety else None, "paths": paths, "index": plan.index, "warnings": list(said)}


def counts(plan: RestorePlan) -> str:
    """Describe a plan in words: how many paths by action, or why none."""
    actions = [step.action for step in plan.steps]
    found = ", ".join(f"{actions.count(action)} {action}" for action in URGENT if action in actions)
    if found or plan.op not in ("restore", "revert"):
        return found or "nothing has to change"
    return "the files are like this now" if plan.op == "restore" else "no file of it is left to take back"


def going(baton: Baton, track: str) -> UnderWay | None:
    """Return the open turn of a track that a bare revert takes back here; None where there is none."""
    with suppress(BatonError):
        return baton.under_way(track) if baton.tip().checkpoint.track == track else None
    return None


def of_turn(order: Order, stored: Stored | None) -> Order:
    """Return the order to take back the turn that a checkpoint belongs to, or the open one, where ``order`` is that of a
    restore."""
    return Order(checkpoint=stored.id if stored else "", foreign=order.foreign, left=order.left)


def turn_back(baton: Baton, order: Order) -> tuple[RestorePlan | None, str]:
    """Return the plan of a revert; None where there is none, with why, which is empty where a checkpoint is of no turn."""
    try:
        return preview(baton, order, "revert"), ""
    except NotFoundError:
        return None, ""
    except BatonError as error:
        return None, error.message


def since(baton: Baton, stored: Stored) -> tuple[bytes, list[str]]:
    """Return the changes in the files since a checkpoint, as a patch, and the warnings; it leaves nothing behind. Raises
    BatonError."""
    with _aside(baton) as (copy, folder):
        then = tree_of(copy, stored)
        now, warnings = tree_now(copy, stored, folder)
        return copy.repo.git.out("diff", *_PATCH, then, now, "--"), warnings


def within(baton: Baton, stored: Stored) -> bytes:
    """Return the changes of a checkpoint against the one before, as a patch; empty where it holds no files. Raises GitError."""
    return next(changes(baton, [stored], _PATCH, [], baton.repo.layout.git_dir, None))


def carry_out(baton: Baton, order: Order, op: Op, digest: str) -> RewindOutcome:
    """Restore, revert, undo or redo, if the plan is still the one with this digest: the same paths of the same checkpoint, in
    the same state. Raises BatonError."""
    said = recover(baton)
    try:
        with open_plan(baton, op, order, alone(baton.repo)) as plan:
            restored = apply(plan) if plan.digest == digest else None
            return RewindOutcome(restored=restored, order=order, said=tuple(said))
    except StaleError as error:
        return RewindOutcome(restored=None, order=order, said=(*said, error.message, *error.hints))
    except PathError as error:
        left = dict(order.left)
        if not error.reasons.keys() - left.keys():
            raise
        order = replace(order, left=tuple({**left, **error.reasons}.items()))
        return RewindOutcome(restored=None, order=order, said=(*said, error.message, *error.hints))
