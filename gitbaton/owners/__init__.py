"""Whose work a path's present content is: ours, another track's, or that of a commit made since.

Ours is what the track captured before anybody committed it, and an edit upon our own that nobody has captured. What the track's
whole-tree captures merely hold, because a merge or another agent brought it, is nobody's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gitbaton.errors import GitError, RecordError
from gitbaton.git.objects import parse_commit
from gitbaton.model import Oid, Stored, WorktreeId
from gitbaton.owners.lines import FORMAT, Seen, first_parents, listed, read_lines
from gitbaton.owners.search import Search
from gitbaton.owners.trees import changes, nothing, tree_of
from gitbaton.owners.values import Contents, Owner, Present, Step
from gitbaton.store import Store, safety_ref

__all__ = ["Owner", "Present", "others"]


def others(store: Store, then: Stored, head: Oid | None, worktree: WorktreeId, present: Sequence[Present]) -> dict[str, Owner]:
    """Those of the paths whose present content is somebody else's work, by path; what is absent from it is ours.

    ``present`` are paths that differ from the checkpoint ``then`` now; ``head`` is HEAD's commit now. Among the checkpoints of
    this work tree, and those of the track from anywhere, the earliest that holds a content says whose it is: another track's;
    ours where its own head does not hold it; else that of the commit on HEAD's first-parent line since ``then`` which brought
    it. What none of them holds is ours, unless another track's checkpoint changed the path last. For a path that is absent,
    and for one that is as the commit has it that ``then`` stands on, only checkpoints after ``then`` count. Reads only.
    """
    wanted = {p.path: f"{p.mode} {p.oid}" if p.oid else "" for p in present}
    chains = store.chains()[0] if wanted else {}
    commits = _commits(store, then.checkpoint.head, head) if wanted else []
    alone = chains.keys() <= {then.checkpoint.track}
    made = [step for _, step in commits]
    changed = changes(store, made, wanted) if alone else {}
    if alone:  # then only what a commit brought can be anybody's
        brought = {path: wanted[path] for _, path in _brought(commits, changed, wanted)}
        wanted = brought
    if not wanted:
        return {}
    lines = read_lines(store, _refs(store, chains), then.commit if alone else None)
    base = tree_of(store, then.checkpoint.head) or nothing(store)
    first = (nothing(store), base)
    changed |= changes(store, [first, *([] if alone else made), *(s for line in lines for s in line.steps(base))], wanted)
    contents = changed.get(first, {})
    for line in lines:
        line.follow(base, contents, changed)
    search = Search(store, then, worktree, wanted, contents, lines)
    found = {path: Owner(path=path, track=None, where=oid) for oid, path in _brought(commits, changed, wanted)}
    return _Verdict(search, found).owners()


class _Verdict:
    """Whose each path is; ``brought`` says which commit brought a content since."""

    def __init__(self, search: Search, brought: Mapping[str, Owner]) -> None:
        self.search, self.brought = search, brought
        self.held = search.holders()
        self.first = {path: min((seen for _, seen in held), key=search.rank) for path, held in self.held.items()}
        search.compare_with_heads(seen for seen in self.first.values() if seen.track == search.track)

    def owners(self) -> dict[str, Owner]:
        found = ((path, self._owner(path)) for path in self.search.wanted)
        return {path: owner for path, owner in found if owner is not None}

    def _owner(self, path: str) -> Owner | None:
        ours, first = self.search.track, self.first.get(path)
        if first is None and path in self.brought:
            return self.brought[path]
        if first is not None and first.track == ours and path not in self.search.apart_from_head(first):
            return self.brought.get(path)  # it merely holds what was there
        whose = self.search.changer(path) if first is None else self._doubtful(path, first) or first
        return Owner(path=path, track=whose.track, where=whose.stored.id) if whose and whose.track != ours else None

    def _doubtful(self, path: str, first: Seen) -> Seen | None:
        """A checkpoint of another track that holds a content of ours as well, and before which one was pruned that may have had
        it before us."""
        other = [held for held in self.held[path] if held[0].track is not None and held[1].track != first.track]
        found = [seen for line, seen in other if self.search.gap_before(line, seen, first.created)]
        return min(found, key=self.search.rank, default=None) if first.track == self.search.track else None


def _refs(store: Store, chains: Mapping[str, Oid]) -> dict[str | None, Oid]:
    """The tips of all chains, and of that of the states before each restore here."""
    found: dict[str | None, Oid] = dict(chains.items())
    state = store.objects.info(safety_ref(store.repo.layout.git_dir, store.repo.layout.common_dir))
    return found | ({None: state.oid} if state is not None and state.kind == "commit" else {})


def _commits(store: Store, since: Oid | None, head: Oid | None) -> list[tuple[Oid, Step]]:
    """HEAD's first-parent line since a commit, newest first, with the trees of each one's first parent and its own.

    Empty where it cannot be told.
    """
    if head is None or head == since or (since is not None and not tree_of(store, since)):
        return []
    until = [] if since is None else [f"^{since}"]
    result = store.repo.git.run("rev-list", "--first-parent", *FORMAT, "--end-of-options", head, *until, "--")
    if result.code != 0:
        return []
    line = list(first_parents(listed(result.out), head))
    trees = [*(item.tree for item in line[1:]), *([_tree_before(store, line[-1].oid)] if line else [])]
    return [(item.oid, (before, item.tree)) for item, before in zip(line, trees, strict=True) if before]


def _tree_before(store: Store, oid: Oid) -> Oid | None:
    """The tree of a commit's first parent, the empty one when it has none; None when that is not there (a shallow clone)."""
    try:
        found = store.objects.read(oid)
        commit = parse_commit(found.data) if found is not None and found.data is not None else None
    except (GitError, RecordError):
        return None
    if commit is None or commit.parents:
        return tree_of(store, commit.parents[0]) if commit else None
    return nothing(store)


def _brought(
    commits: Iterable[tuple[Oid, Step]], changed: Mapping[Step, Contents], wanted: Contents
) -> Iterable[tuple[Oid, str]]:
    """The commits that brought paths their present content, oldest first, with the path."""
    for oid, step in reversed(list(commits)):
        yield from ((oid, path) for path, content in changed.get(step, {}).items() if content == wanted[path])
