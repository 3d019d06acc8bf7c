"""Goal of a revert: what some turns changed is taken back, path by path, the newest turn first; all else stays as it is."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from math import inf
from types import MappingProxyType

from gitbaton.base.codec import counted, first_line, in_quotes
from gitbaton.base.errors import MENDS, RecordError, UsageError
from gitbaton.base.model import IGNORED_HELD, INSIDE, KEPT, Checkpoint, Oid, Skipped, Stored, session_key
from gitbaton.base.system.files import write_atomic
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, in_shell, some
from gitbaton.checkpoints.restore.bytes import LINKS, kept_in
from gitbaton.checkpoints.restore.goal import FREE, Goal, no_match, staged_in
from gitbaton.checkpoints.restore.plan import made
from gitbaton.checkpoints.restore.scene import PresentState, looked
from gitbaton.checkpoints.restore.turnchoice import Taken, chosen, told
from gitbaton.checkpoints.restore.values import LONGEST, MARKED, SHORT, TEXT, UNDECIDED, Action, Order, PathAction, RestorePlan
from gitbaton.checkpoints.store.chain import beside, paths_beside
from gitbaton.checkpoints.store.pathhistory import changes, nothing, tree_of
from gitbaton.checkpoints.store.turns import Span, begun_at, since, until
from gitbaton.git.gone import said
from gitbaton.git.objects import new_object
from gitbaton.git.questions import is_ancestor, made_here
from gitbaton.git.run import zsplit
from gitbaton.git.worktree.checkout import (
    INVALID,
    Difference,
    GitEntry,
    changed_tree,
    differences,
    entry_at,
    readable_differences,
    refused_names,
)
from gitbaton.git.worktree.filetrees import EXECUTABLE, parents
from gitbaton.git.worktree.heldbytes import HeldOid
from gitbaton.git.worktree.modes import ALL, Modes, Permits, recorded
from gitbaton.git.worktree.staged import Scope, Staged, stages_now

_FILES = ("100644", EXECUTABLE)
_MOST = 64 << 20  # bytes of a file that is merged
_NEVER = ("unset", "binary")  # what the attribute merge is of a path that git itself does not merge


@value
class PathState:
    """The state of a path: an entry, None where nothing is there, and its exact bytes where they are kept; ``CONVERTED`` where
    they are known to be what git would write, None where they are unknown."""

    entry: GitEntry | None = None
    raw: Oid | None = None

    def same(self, other: PathState) -> bool:
        """Whether two states are the same, as far as the bytes are known of both."""
        return self.entry == other.entry and (None in (self.raw, other.raw) or self.raw == other.raw)


ABSENT = PathState()
UNHEARD = "no hook heard the prompt"
NO_TEXT = "changed since, and no text"
CONVERTED = ""


@value
class MergedPath:
    """The outcome of a merge of one path; ``reason``: why it does not merge, ``marked``: whether the conflict is written into
    it."""

    state: PathState
    reason: str = ""
    marked: bool = False


class Merging:
    """Paths of a scene to be merged; ``mark``: where texts do not merge, the conflict is written into the file."""

    def __init__(self, scene: PresentState, *, mark: bool) -> None:
        self.scene, self.mark = scene, mark
        self.objects = scene.baton.store.objects
        self._drivers: dict[str, str] = {}

    def look(self, paths: Iterable[str]) -> None:
        """Ask git for what its attributes say of all paths that may have to be merged, at once."""
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        fields = zsplit(self.scene.repo.git.out("check-attr", "-z", "--stdin", "merge", stdin=stdin)) if stdin else []
        self._drivers |= dict(zip(fields[::3], fields[2::3], strict=True))

    def back(self, path: str, now: PathState, after: PathState, before: PathState, label: str) -> MergedPath:
        """Return a path with the change from ``before`` to ``after`` taken back; ``label`` names what was before."""
        if now.same(after):
            now_oid, before_oid = (state.entry.oid if state.entry is not None else None for state in (now, before))
            raw = now.raw if before.raw is None and now_oid == before_oid else before.raw
            return MergedPath(state=PathState(entry=before.entry, raw=raw))
        if now.same(before):
            return MergedPath(state=now)
        why = _unlike(now, after, before)
        if why or now.entry is None or after.entry is None or before.entry is None:
            return MergedPath(state=now, reason=why)
        mode = before.entry.mode if now.entry.mode == after.entry.mode else now.entry.mode
        if now.entry.oid == after.entry.oid:
            return MergedPath(state=PathState(entry=GitEntry(mode=mode, oid=before.entry.oid), raw=before.raw))
        if before.entry.oid in (after.entry.oid, now.entry.oid):
            return MergedPath(state=PathState(entry=GitEntry(mode=mode, oid=now.entry.oid), raw=now.raw))
        return self._merged_text(path, now, mode, (now.entry.oid, after.entry.oid, before.entry.oid), label)

    def _merged_text(self, path: str, now: PathState, mode: str, oids: Sequence[Oid], label: str) -> MergedPath:
        """Return a path with three texts merged, those of now, after and before, or as it is ``now`` with the reason."""
        driver = self._drivers.get(path, "unspecified")
        if driver in _NEVER:
            return MergedPath(state=now, reason=NO_TEXT)
        found = list(self.objects.read_many(oids, _MOST))
        if None in found:
            return MergedPath(state=now, reason=said(oids[found.index(None)]))
        names = []
        for one, name in zip(found, ("now", "after", "before"), strict=True):
            if one is None or one.data is None:  # larger than is merged
                return MergedPath(state=now, reason=NO_TEXT)
            names.append(os.path.join(self.scene.folder, f"merge-{name}"))
            write_atomic(names[-1], one.data)
        words = ["-L", "now", "-L", "as the turn left it", "-L", label, *(["--union"] if driver == "union" else [])]
        done = self.scene.repo.git.run("merge-file", "-p", *words, *names)
        if not 0 <= done.code <= 127:  # git counts conflicts up to 127; above that it failed: a file is no text
            return MergedPath(state=now, reason=NO_TEXT)
        if done.code and not self.mark:
            return MergedPath(state=now, reason=TEXT)
        blob = new_object(self.objects.algorithm, "blob", done.out)
        self.objects.write([blob])
        return MergedPath(state=PathState(entry=GitEntry(mode=mode, oid=blob.oid)), marked=done.code > 0)


def _unlike(now: PathState, after: PathState, before: PathState) -> str:
    """Return the reason for which three states cannot be merged as texts; "" where they can."""
    if now.entry is None:
        return "removed since"
    if before.entry is None:
        return "made by the turn, and changed since"
    if after.entry is None:
        return "removed by the turn, and made anew since"
    if any(state.entry is not None and state.entry.mode not in _FILES for state in (now, after, before)):
        return NO_TEXT
    return ""


@contextmanager
def reverting(baton: Baton, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[RestorePlan]:
    """Yield the plan of a revert, good until the block ends; ``lock`` is held from before the look. Raises BatonError; no lock
    is taken where there is no such turn."""
    found = chosen(baton, order)
    trees = [tree for one in found for tree in (one.span.before, one.span.after) if tree is not None]
    with lock, looked(baton, tuple(dict.fromkeys(trees))) as scene:
        yield made(TurnGoal(scene, found, order))


@value
class TurnEnd:
    """The state at one end of a turn: that of a checkpoint, of a commit, or of now. ``index`` is the tree of what was staged,
    ``intents`` are the paths that were only intended to be, ``apart`` those with entries that are stand-ins. ``exact``:
    whether the bytes of a file that has none ``kept`` are those that git would write."""

    tree: Oid
    index: Oid
    head: Oid | None
    exact: bool = False
    branch: str | None = None
    kept: Mapping[str, Oid] = MappingProxyType({})
    intents: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    skipped: tuple[Skipped, ...] = ()
    modes: Modes = Modes()
    links: frozenset[str] = frozenset()


@value
class TurnChange:
    """The change that some turns together made of a path, between two ends."""

    path: str
    before: PathState
    after: PathState
    first: TurnEnd
    last: TurnEnd


class TurnGoal(Goal):
    """The present state without what some turns changed."""

    op = "revert"
    composed = True

    def __init__(self, scene: PresentState, found: tuple[Taken, ...], order: Order) -> None:
        self.ends: dict[int, tuple[TurnEnd, TurnEnd]] = {}
        self.scene, self.store, self.git = scene, scene.baton.store, scene.repo.git
        self._changed: dict[tuple[Oid, Oid], dict[str, Difference]] = {}
        named = bool(order.checkpoint or order.session)
        # Of a bare order the newest turn that changed something; the newest of all where none did.
        self.taken = found if named else (next((one for one in found if self._paths(one.span)), found[0]),)
        oldest = self.taken[-1].span
        super().__init__(scene, oldest.began or _nothing(scene.baton, oldest), order)
        words = [*(["--session", order.session] if order.session else []), *([order.checkpoint] if order.checkpoint else [])]
        self.again = " ".join(map(in_shell, words))
        self.what = _what([one.span for one in self.taken])
        self.ends = {at: self._ends(one.span) for at, one in enumerate(self.taken)}
        self.rules = self.ends[len(self.taken) - 1][0].tree
        self.left = {
            s.path: s.reason for ends in self.ends.values() for end in ends for s in end.skipped if s.reason not in KEPT
        }
        self.further: dict[str, PathAction] = {}
        self.unmatched: list[str] = []
        self.changes = self._asked(self._all())
        self.states = self._back()
        wanted = {path: state.entry for path, state in self.states.items()}
        self.tree = changed_tree(scene.index, wanted) if wanted else scene.tree
        self.kept = {path: state.raw for path, state in self.states.items() if state.raw}
        self.permits = Permits(scene.repo, self._modes())
        self.links = {path for path in self.states if path in self.changes[path][-1].first.links}
        self.entries, self.staged = Scope(), self._staged()

    # What each turn changed.

    def _ends(self, span: Span) -> tuple[TurnEnd, TurnEnd]:
        before = self._end(span.began, span.before or "", begun_at(self.scene.baton.store, span))
        if not span.open:
            return before, self._end(span.end, span.after or "", before.head)
        facts, head = self.scene.facts, self.scene.head
        intents = frozenset(flag.path for flag in facts.flags if "i" in flag.bits)
        now = TurnEnd(tree=self.scene.tree, index=facts.tree, head=head.oid, branch=head.branch, intents=intents)
        return before, replace(now, exact=True, kept=self.scene.captured.kept.oids, skipped=self.scene.captured.skipped)

    def _end(self, stored: Stored | None, tree: Oid, head: Oid | None) -> TurnEnd:
        files = stored.checkpoint.files if stored is not None else None
        tree = self._tree(tree)
        if stored is None or files is None:
            return TurnEnd(tree=tree, index=tree, head=head)
        staged = staged_in(self.scene, stored)
        return TurnEnd(
            tree=tree,
            index=files.index.tree,
            head=stored.checkpoint.head,
            exact=True,
            branch=stored.checkpoint.branch,
            kept=kept_in(self.store, stored),
            intents=frozenset(path for path, bits in staged.flags.items() if "i" in bits),
            apart=frozenset((*staged.held, *staged.stages)),
            skipped=files.skipped,
            modes=recorded(self.store.objects, beside(self.store, stored)),
            links=frozenset(paths_beside(self.store, stored, LINKS) or ()),
        )

    def _tree(self, tree: Oid) -> Oid:
        """Return a tree at an end of a turn, in which folders that cannot be read are as now."""
        found = self.scene.readable(tree)
        if "" in self.scene.gone:
            raise RecordError(f"the files of a turn are lost: {self.scene.gone['']}", MENDS)
        return found

    def gone(self) -> Mapping[str, str]:
        """Return the folders with unknown content in which the turns changed something."""
        now = self.scene.tree
        pairs = [(one.span.before or now, one.span.after or now) for one in self.taken]
        return {path: reason for path, reason in super().gone().items() if any(self.apart(path, *pair) for pair in pairs)}

    def _paths(self, span: Span) -> dict[str, Difference]:
        """Return the differences of the two ends of a turn: ``now`` is before it, and ``then`` after it."""
        pair = self._tree(span.before or self.scene.tree), self._tree(span.after or self.scene.tree)
        if pair not in self._changed:
            found = {d.path: d for d in differences(self.git, *pair)}
            if span.end is None and not span.open:  # a commit ended it, which says nothing of what is not tracked
                head = span.began.checkpoint.head if span.began is not None else None
                base = self.store.base_tree(head)
                tracked = {d.path for d in readable_differences(self.scene.repo, nothing(self.store), base).differences}
                found = {path: d for path, d in found.items() if d.then is not None or path in tracked}
            self._changed[pair] = found
        return {path: d for path, d in self._changed[pair].items() if span.owns(path)}

    def _all(self) -> list[TurnChange]:
        """Return what the turns changed, path by path, the newest turn first; what they leave to others becomes an action."""
        found, done, own = list[TurnChange](), set[tuple[int, str]](), self.asked.names()
        for at, one in enumerate(self.taken):
            for path in {**self._paths(one.span), **dict.fromkeys(self._in_bytes(one.span, *self.ends[at]))}:
                if (at, path) in done:
                    continue
                others = [] if path in own else [rival for rival in one.rivals if path in self._paths(rival)]
                members = self._members(at, path, others)
                if members:
                    done |= {(member, path) for member in members}
                    found.append(self._change(path, members))
        return found

    def _in_bytes(self, span: Span, first: TurnEnd, last: TurnEnd) -> list[str]:
        """Return the paths of which exact bytes are kept at an end of a turn and are others at its other end. Those that are
        held at one end alone count if the file was written since the turn began: else its filter has only ceased to work, or
        begun to."""
        whole, began = first.exact and last.exact, datetime.fromtimestamp(since(span), UTC)
        found = list[str]()
        for path in sorted({*first.kept, *last.kept}):
            one, other = first.kept.get(path), last.kept.get(path)
            alone = one is None or other is None
            held = alone and isinstance(one or other, HeldOid)
            written = not held or self.scene.written_since(path, began)
            if one != other and (whole or not alone) and written and span.owns(path):
                found.append(path)
        return found

    def _members(self, at: int, path: str, others: Sequence[Span]) -> list[int]:
        """Return the turns that changed a path together with one of them; none where it is another session's, or its owner is
        unknown."""
        span = self.taken[at].span
        theirs = [other for other in others if path in other.edited]
        if not others or (path in span.edited and not theirs):
            return [at]
        taken = [n for n, one in enumerate(self.taken) if one.span in others]
        spans = [self.taken[n].span for n in taken]
        strangers = [other for other in others if other not in spans]
        if path not in span.edited and theirs:
            if all(other in strangers for other in theirs):
                self._tell(path, "keep", f"changed by {told(theirs[0])}")
            return []
        if strangers:
            self._tell(path, "conflict", f"{told(span)} or {told(strangers[0])}: {UNDECIDED}")
            return []
        return sorted({at, *taken})

    def _change(self, path: str, members: Sequence[int]) -> TurnChange:
        oldest = min(members, key=lambda n: since(self.taken[n].span))
        newest = max(members, key=lambda n: until(self.taken[n].span))
        first, last = self.ends[oldest][0], self.ends[newest][1]
        known = first.exact and last.exact and first.kept.get(path) != last.kept.get(path)
        plain = CONVERTED if known else None
        before, after = (PathState(entry=self._entry(end.tree, path), raw=end.kept.get(path, plain)) for end in (first, last))
        return TurnChange(path=path, before=before, after=after, first=first, last=last)

    def _entry(self, tree: Oid, path: str) -> GitEntry | None:
        for (before, after), found in self._changed.items():
            if path in found and tree in (before, after):
                return found[path].now if tree == before else found[path].then
        return entry_at(self.store.objects, tree, path)

    def _tell(self, path: str, action: Action, reason: str) -> None:
        """Name a path that is not simply taken back; that another's change of it stays says the least."""
        if path not in self.further or (self.further[path].action == "keep" and action != "keep"):
            self.further[path] = PathAction(path=path, action=action, reason=reason)

    def _asked(self, changes: list[TurnChange]) -> dict[str, list[TurnChange]]:
        """Return the changes by path, those that the PATHs name; changes that follow each other without a gap are one. Raises
        UsageError."""
        if self.asked:
            trees = list(dict.fromkeys(end.tree for ends in self.ends.values() for end in ends))
            known = {change.path for change in changes} | self.further.keys()
            matched = [self.asked.among(trees, [spec]) & known for spec in self.asked.specs]
            alone = [spec for spec, paths in zip(self.asked.specs, matched, strict=True) if not paths]
            self.unmatched = [no_match(spec, "the turn changed") for spec in alone]
            if options := [spec for spec in alone if spec.startswith("-")]:  # who types '-n' last does not mean a change
                raise UsageError(no_match(options[0], "the turn changed"))
            if len(self.unmatched) == len(matched):
                raise UsageError(self.unmatched[0], "without PATH, 'git baton revert -n' says what it changed")
            inside = set().union(*matched)
            changes = [change for change in changes if change.path in inside]
            self.further = {path: step for path, step in self.further.items() if path in inside}
        found: dict[str, list[TurnChange]] = {}
        for change in changes:
            above = found.setdefault(change.path, [])
            if above and above[-1].before.same(change.after):
                newer = above.pop()
                change = replace(change, after=newer.after, last=newer.last)
            above.append(change)
        return found

    # What becomes of each path.

    def _back(self) -> dict[str, PathState]:
        """Return what the paths that change are to be; of the others that do not come back an action says why."""
        merging, found = Merging(self.scene, mark=self.order.merge), dict[str, PathState]()
        there = self._now()
        doubtful = [path for path, now in there.items() if any(not now.same(c.after) for c in self.changes[path])]
        merging.look(doubtful)
        for path, made_of_it in self.changes.items():
            now = there[path]
            why = self.scene.unsafe(path)
            if why is not None:
                self._tell(path, "refuse", why)
                continue
            got = self._merged(merging, path, now, made_of_it)
            if got.reason:
                self._tell(path, "conflict", got.reason)
            elif not got.state.same(now) and not (path in self.further and self.further[path].action == "conflict"):
                found[path] = got.state
                self.further.pop(path, None)  # what stays of it is another turn's
                if got.marked:
                    self._tell(path, "write", MARKED)
        both = [(path, end.mode) for path, state in found.items() for end in (there[path].entry, state.entry) if end]
        for path in refused_names(self.scene.index, both):
            self.further[path] = PathAction(path=path, action="refuse", reason=INVALID)
            del found[path]
        return found

    def _now(self) -> dict[str, PathState]:
        """Return the present states of the paths that the turns changed."""
        ends = [end.tree for ends in self.ends.values() for end in ends]
        entries = {d.path: d.now for tree in dict.fromkeys(ends) for d in self.scene.against(tree)}
        found = {path: entries.get(path, changes[0].after.entry) for path, changes in self.changes.items()}
        kept = self.scene.keep_raw([path for path, entry in found.items() if entry is not None])
        told = {path for path, made in self.changes.items() if any(CONVERTED in (c.before.raw, c.after.raw) for c in made)}
        return {path: PathState(entry=e, raw=kept.get(path, CONVERTED if path in told else None)) for path, e in found.items()}

    def _merged(self, merging: Merging, path: str, now: PathState, changes: Sequence[TurnChange]) -> MergedPath:
        got = MergedPath(state=now)
        for change in changes:
            if change.before.same(change.after):
                continue
            if path in self.scene.captured.shut and got.state.raw not in (change.after.raw, change.before.raw):
                return MergedPath(state=now, reason="changed since, and not passed by its filter")
            got = merging.back(path, got.state, change.after, change.before, "before the turn")
            if got.reason or got.marked:
                return got
        return got

    def _modes(self) -> Modes:
        """Return the most that may be done with what comes back: what was recorded when its turn began."""
        listed: dict[str, int] = {}
        for path in self.states:
            modes = self.changes[path][-1].first.modes
            most = {name: modes.most(name) for name in (path, *(f"{folder}/" for folder in parents(path)))}
            listed |= {name: mode & listed.get(name, ALL) for name, mode in most.items() if mode != ALL}
        return Modes(listed=listed)

    # The index.

    def _staged(self) -> Staged:
        """Return the index that comes back: of the paths that change the entries of before, where they are still as a turn
        left them, and HEAD has not moved on."""
        facts = self.scene.facts
        rows: dict[str, GitEntry | None] = {}
        intents: dict[str, bool] = {flag.path: True for flag in facts.flags if "i" in flag.bits}
        apart, moved = stages_now(facts).keys(), self._committed()
        for path in self.states:
            if path in apart or path in moved:
                continue
            for change in self.changes[path]:
                self._restage(change, rows, intents)
        self.index = frozenset(rows)
        bits = {flag.path: flag.bits.replace("i", "") for flag in facts.flags if flag.path in rows}
        flags = {path: bits.get(path, "") + ("i" if intents.get(path) else "") for path in rows}
        tree = changed_tree(self.scene.index, rows, facts.tree) if rows else facts.tree
        return Staged(tree=tree, files=self.tree, flags={p: b for p, b in flags.items() if b}, stages={}, held={})

    def _restage(self, change: TurnChange, rows: dict[str, GitEntry | None], intents: dict[str, bool]) -> None:
        """Take an entry back to what it was before a change, if it is what that left, or stages what it left."""
        path, first, last = change.path, change.first, change.last
        now = rows[path] if path in rows else self._in_index(self.scene.facts.tree, path)
        before, after = (self._in_index(end.index, path) for end in (first, last))
        intent = intents.get(path, False)
        as_left = (now, intent) == (after, path in last.intents) or (now is not None and now == change.after.entry)
        if as_left and path not in first.apart and (now, intent) != (before, path in first.intents):
            rows[path], intents[path] = before, path in first.intents

    def _in_index(self, tree: Oid, path: str) -> GitEntry | None:
        pair = self.scene.facts.tree, tree
        if pair not in self._changed:
            self._changed[pair] = {d.path: d for d in readable_differences(self.scene.repo, *pair).differences}
        if path in self._changed[pair]:
            return self._changed[pair][path].then
        return entry_at(self.store.objects, self.scene.facts.tree, path)

    def _committed(self) -> set[str]:
        """Return the paths that HEAD has otherwise than when a turn that changed them began."""
        found, now = set[str](), self.scene.head.oid
        for head in {change.first.head for path in self.states for change in self.changes[path]} - {now}:
            paths = [path for path in self.states if any(change.first.head == head for change in self.changes[path])]
            before, after = (tree_of(self.store, oid) if oid else nothing(self.store) for oid in (head, now))
            step = (before, after) if before and after else None
            found |= set(changes(self.store, [step], dict.fromkeys(paths, "")).get(step, {})) if step else set(paths)
        return found

    # What the planner asks.

    def scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """Return the paths that are to change, with those of which the bytes follow attributes that do."""
        changing = {*self.states, *filter(self.asked.covers, self.converted)}
        return [d for d in (*differing, *in_bytes) if d.path in changing]

    def stay(self, wanted: Collection[str]) -> Collection[str]:
        """Return all paths but those with an entry that is taken back."""
        return set(wanted) - self.index

    def known(self) -> Collection[str]:
        """Return the paths that the turns made."""
        return self.states

    def moved(self, changing: Sequence[Difference]) -> Collection[str]:
        """Return no path: what another changed since is merged."""
        return ()

    def warnings(self, changing: Sequence[Difference]) -> list[str]:
        """Return warnings of what does not come back with the files: commits, another branch, the inside of other
        repositories."""
        found = list(self.unmatched)
        for before, after in self.ends.values():
            found += self._heads(before, after)
        inside = {s.path for _, after in self.ends.values() for s in after.skipped if s.reason in INSIDE}
        if doubtful := self._by_no_tool(changing):
            there = some(len(doubtful), first_few(doubtful))
            found.append(
                f"no tool of the turn is known to have written {there}; what you did since its prompt counts as its own"
            )
        found += [line for one in self.taken if not one.span.heard for line in self._unheard(one.span, changing)]
        if inside:
            there = some(len(inside), first_few(sorted(inside)))
            found.append(f"what was changed inside {there} is not in the turn, and stays")
        return [*found, *(line for one in self.taken for line in self._ignored(one.span))]

    def _ignored(self, span: Span) -> Iterator[str]:
        """Return the warning that ignored files are gone with a command of a turn; the checkpoint before it holds them."""
        tip = span.end or self.store.before(self.target.checkpoint.track)
        start = since(span) or (span.since.timestamp() if span.since is not None else inf)
        newer = takewhile(lambda s: s.checkpoint.created.timestamp() >= start, self.store.newest(tip)) if tip else ()
        for stored in newer:
            files, by = stored.checkpoint.files, stored.checkpoint.agent
            held = [s.path for s in files.skipped if s.reason == IGNORED_HELD and self.asked.covers(s.path)] if files else []
            gone = [path for path in held if not os.path.lexists(os.path.join(self.scene.root, path))]
            if gone and by is not None and session_key(by) == session_key(span.session):
                there, short = some(len(gone), first_few(gone)), self.baton.short(stored.id)
                yield f"the turn also removed {there}, which git ignores: 'git baton restore {short}' has it"

    def _by_no_tool(self, changing: Sequence[Difference]) -> list[str]:
        """Return the paths of open turns that no tool of their sessions is known to have edited, where it is known of any."""
        going = [one.span for one in self.taken if one.span.open and one.span.edited]
        edited = {path for span in going for path in span.edited}
        return sorted(d.path for d in changing if d.path not in edited and any(d.path in self._paths(span) for span in going))

    def _unheard(self, span: Span, changing: Sequence[Difference]) -> Iterator[str]:
        """Return the warnings of a turn whose prompt no hook heard: of what may be its own and stays, and of what comes back
        and may hold edits of the user's from before it."""
        pair, of = (self._tree(span.before or ""), self._tree(span.after or "")), f"{UNHEARD} of {told(span)}"
        since = f"since {self.baton.short(span.began.id)}" if span.began is not None else "since HEAD's files"
        others = [path for path in self._changed.get(pair, {}) if not span.owns(path) and self.asked.covers(path)]
        if others:
            there = some(len(others), first_few(sorted(others)))
            yield f"{of}: no tool of it is known to have written {there}, which changed {since}, too, and stays"
        own = sorted(d.path for d in changing if d.path in self._paths(span))
        if own:
            yield f"{of}: what you changed in {some(len(own), first_few(own))} {since} counts as its own"

    def _heads(self, before: TurnEnd, after: TurnEnd) -> list[str]:
        """Return the warnings that commits, or another branch, stay."""
        found = list[str]()
        if before.branch != after.branch and before.branch is not None and after.branch is not None:
            there, back = in_quotes(after.branch), in_shell(before.branch)
            found.append(f"the turn also switched to branch {there}, which stays: git switch {back}")
        if after.head is None or before.head == after.head:
            return found
        if before.head is not None and not is_ancestor(self.scene.repo, before.head, after.head):
            there = f"{self.baton.abbreviate(before.head)} to {self.baton.abbreviate(after.head)}"
            return [*found, f"the turn also moved HEAD from {there}, where it stays"]
        words = ("log", "-z", "--first-parent", "--format=%H %s", "--no-show-signature", after.head)
        rows = self.git.run(*words, *([f"^{before.head}"] if before.head else []), "--").out.split(b"\0")
        commits = [row.decode("utf-8", "replace").partition(" ") for row in rows if row]
        made = [(oid, subject) for oid, _, subject in commits if oid in made_here(self.scene.repo)]
        if not made:
            return [*found, f"the turn also brought in {counted(len(commits), 'commit')}, which stay"] if commits else found
        oid, subject = made[0]
        short = self.baton.abbreviate(oid)
        instead = f"commit the files as they are now, or 'git baton undo' and 'git revert {short}'"
        if len(made) == 1:
            return [*found, f"the turn also committed {short} {in_quotes(first_line(subject)[:60])}; it stays: {instead}"]
        instead = instead.replace(short, f"{self.baton.abbreviate(made[-1][0])}^..{short}")
        return [*found, f"the turn also committed {len(made)} times, up to {short}, which stays: {instead}"]


def _what(spans: Sequence[Span]) -> str:
    """Return a revert of turns, in words."""
    said = first_line(spans[0].prompt)[:LONGEST]
    if len(spans) > 1:
        return f"revert of {len(spans)} turns, from {_name(spans[-1])} to {_name(spans[0])}"
    return f"revert of {_name(spans[0])}" + (f": {said}" if said else "")


def _name(span: Span) -> str:
    return span.end.id[:SHORT] if span.end is not None else "the open turn" if span.open else "a turn that a commit ended"


def _nothing(baton: Baton, span: Span) -> Stored:
    """Return what stands for a checkpoint where none was there yet: the commit that a turn began from."""
    head = begun_at(baton.store, span) or nothing(baton.store)
    track = baton.chosen(automatic=True)
    words = Checkpoint(track=track, step=span.prompt, created=baton.clock())
    return Stored(id=head, commit=head, base=head, tree=span.before or "", raw=b"", checkpoint=words)
