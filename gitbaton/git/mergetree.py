"""Merges in memory: `git merge-tree --write-tree` (git 2.38) over commits of trees, in a folder of objects of our own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice

from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid
from gitbaton.base.values import replace, value
from gitbaton.git.loose import put_in
from gitbaton.git.objects import (
    MAX_TREE,
    NewObject,
    Objects,
    TreeEntry,
    commit_data,
    lookup,
    new_object,
    parse_tree,
    tree_data,
    tree_objects,
)
from gitbaton.git.questions import worktrees
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, checked, configured, mends, zsplit
from gitbaton.git.treediff import no_index

LEAST = (2, 38)  # the first git that merges so
_MERGE = ("merge-tree", "--write-tree", "--allow-unrelated-histories", "-z")
_HUNKS = (
    "diff-tree",
    "--stdin",
    "-r",
    "-p",
    "-U0",
    "--histogram",
    "--text",
    "--no-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_USAGE = 129
_COMMITS = 2000  # of branches among which what both sides have become is looked for
_AUTHOR = b"gitbaton <gitbaton> 0 +0000"
_FILES = ("100644", "100755")
_AT = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_KIND = re.compile(r"CONFLICT ?\((.*)\)")  # for one of them git leaves the blank out
_DRIVER = re.compile(r"merge\..*\.driver\Z", re.DOTALL)
_FILTER = re.compile(r"(filter\..*\.)(?:clean|smudge|process)\Z", re.DOTALL)
# A path's driver of the user's has the last word in a merge. It is not run here, and its path counts as merged.
_SILENT = "exit 0"

Stage = str | None  # "MODE ID" of a path in the base, in ours or in theirs; None where nothing stands
Lines = tuple[int, int]
_Both = tuple[tuple[Lines, ...], ...]  # of ours and of theirs
_Placed = Callable[[Oid], Mapping[Oid, Sequence[str]]]


@value
class MergeSide:
    """One side of a merge: a tree, and the commit that it stands on, None for none."""

    tree: Oid
    head: Oid | None


@value
class MergeAsk:
    """Two sides to be merged. As for ``git merge`` of a commit of each tree, the base is what the histories have in common."""

    ours: MergeSide
    theirs: MergeSide


@value
class Conflict:
    """One path that does not merge. ``reason`` is git's own short word for the kind, as ``contents`` or ``modify/delete``;
    ``stages`` are the base's entry, ours and theirs. ``here`` is the path in our tree and ``there`` in theirs, which differ
    where a side has renamed it. ``lines`` and ``their_lines``: 1-based ranges of lines of our file and of theirs, first and
    last, that both changed; none where lines do not tell (no text, a whole file)."""

    reason: str
    stages: tuple[Stage, Stage, Stage]
    here: str
    there: str
    lines: tuple[Lines, ...] = ()
    their_lines: tuple[Lines, ...] = ()


@value
class MergeAnswer:
    """The merged tree, whose files in conflict hold git's markers, and the paths that do not merge. Not ``clean`` means that
    ``git merge`` would stop."""

    tree: Oid
    conflicts: Mapping[str, Conflict]
    clean: bool


def merged(repo: Repo, asked: Sequence[MergeAsk], store: str, *, seconds: float | None = None) -> list[MergeAnswer | None]:
    """Merge pairs of trees as ``git merge`` would; return an answer for each, None where one cannot be merged because an object
    is not here. ``store`` is a folder of objects, to which all that is written goes: the trees of the answers and their new
    blobs are read from there. No work tree, index or ref is touched, and no merge driver of the user's is run. Raises GitError,
    also where git is older than 2.38; GitTimeoutError where a process of git's takes longer than ``seconds``."""
    if not asked:
        return []
    sides = {side: side_commit(repo, side) for ask in asked for side in (ask.ours, ask.theirs)}
    put_in(store, list({item.oid: item for item in sides.values()}.values()))
    git = _bound(repo, store)
    git.timeout = git.timeout if seconds is None else seconds
    pairs = [(sides[ask.ours].oid, sides[ask.theirs].oid) for ask in asked]
    lines = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs).encode()
    done = git.run(*_MERGE, "--stdin", stdin=lines)
    # 2.38 takes one pair only. Git before 2.46 takes a tree that is not here for an empty one, and only complains.
    raw = iter(()) if done.code == _USAGE or mends(done) else _answers(done.out)
    found: list[MergeAnswer | None] = [*islice(raw, len(pairs))]
    for ours, theirs in pairs[len(found) :]:  # one of them could not be merged, and the others are not asked with it
        single = git.run(*_MERGE, ours, theirs)
        if single.code == _USAGE:
            raise GitError("trees are merged by git 2.38 or newer, and this one is older")
        if single.code > 1 and not mends(single):
            checked(single, "merge-tree")
        status = {0: b"1\0", 1: b"0\0"}.get(single.code) if not mends(single) else None
        found.append(next(_answers(status + single.out + b"\0"), None) if status else None)
    places = cache(partial(_places, repo))
    rows = zip(asked, pairs, found, strict=True)
    known = [_named(repo, ask, pair, answer, places) if answer else None for ask, pair, answer in rows]
    return _with_lines(repo, git, store, known)


def side_commit(repo: Repo, side: MergeSide) -> NewObject:
    """Return the commit of a side's tree, from which git finds the base, or bases, by itself; its id is what git's markers call
    the side."""
    above = [side.head] if side.head else []
    data = commit_data(tree=side.tree, parents=above, author=_AUTHOR, message=b"\n")
    return new_object(repo.layout.algorithm, "commit", data)


def common_commit(repo: Repo, one: Oid, other: Oid) -> Oid | None:
    """Return the newest commit that two have in their histories, one of them where there are several; None where there is none.
    Raises GitError where one of them is not here."""
    done = repo.git.run("merge-base", one, other)
    return checked(done, "merge-base").decode("ascii").strip() if done.code != 1 else None


class BranchCommits:
    """The commits of branches, of those that were fetched and of HEAD in each work tree, down to what ``heads`` have in common;
    of very many the newest. Making one raises GitError."""

    def __init__(self, repo: Repo, heads: Collection[Oid]) -> None:
        refs = [f"{ref}HEAD" for ref, _, _ in worktrees(repo)]
        base = repo.git.run("merge-base", "--octopus", *heads).out.decode("ascii").split() if heads else []
        words = ("--topo-order", "--no-commit-header", "--format=%H %T %P", f"--max-count={_COMMITS}", "--ignore-missing")
        done = repo.git.run("rev-list", *words, "--branches", "--remotes", *refs, *(f"^{oid}" for oid in base[:1]), "--")
        rows = [row.split(" ") for row in checked(done, "rev-list").decode("ascii").splitlines()]
        self._above = {row[0]: row[2:] for row in reversed(rows)}  # parents first
        self._trees = {row[0]: row[1] for row in rows}
        self._older: dict[Oid, set[Oid]] = {}

    def beyond(self, heads: Iterable[Oid]) -> list[Oid]:
        """Return the commits that are in the history of none of ``heads``, parents first."""
        older = set[Oid]().union(*map(self._history, heads))
        return [oid for oid in self._above if oid not in older]

    def _history(self, head: Oid) -> set[Oid]:
        if head not in self._older:
            found, left = set[Oid](), [head]
            while left:
                oid = left.pop()
                if oid in self._above and oid not in found:
                    found.add(oid)
                    left += self._above[oid]
            self._older[head] = found
        return self._older[head]

    def together(
        self, commits: Iterable[Oid], known: Mapping[Oid, int], trees: tuple[Collection[Oid], Collection[Oid]]
    ) -> bool:
        """Whether one of some commits, parents first, has in its history a commit with one of the ``trees`` of either side.
        ``known``: which of the sides, as the bits of a number, other commits have."""
        has = dict(known)
        for oid in commits:
            has[oid] = sum((self._trees[oid] in trees[bit]) << bit for bit in (0, 1))
            for parent in self._above[oid]:
                has[oid] |= has.get(parent, 0)
            if has[oid] == 3:
                return True
        return False


def without(objects: Objects, tree: Oid, paths: Iterable[bytes]) -> list[NewObject]:
    """Return the tree objects of a tree less some paths, those of folders that lose one before the whole one. Raises
    GitError, and RecordError for a malformed tree."""
    found = objects.read(tree, MAX_TREE)
    if found is None or found.kind != "tree" or found.data is None:
        raise GitError(f"tree '{tree}' is not here")
    below, kept, made = dict[bytes, list[bytes]](), list[TreeEntry](), list[NewObject]()
    for path in paths:
        name, _, rest = path.partition(b"/")
        below.setdefault(name, []).append(rest)
    for entry in parse_tree(found.data, objects.algorithm):
        rests = below.get(entry.name)
        if rests is None:
            kept.append(entry)
        elif b"" not in rests:
            made += without(objects, entry.oid, rests)
            kept += [replace(entry, oid=made[-1].oid)] if made[-1].data else []
    return [*made, new_object(objects.algorithm, "tree", tree_data(kept))]


def renames(repo: Repo, old: Oid, new: Oid) -> dict[str, str]:
    """Return the paths of a tree that another one has under another name, with that name, as git's merge finds them."""
    words = iter(zsplit(repo.git.out("diff-tree", "-r", "-M", "-z", "--name-status", "--diff-filter=R", old, new)))
    return {source: next(words) for _, source in zip(words, words, strict=False)}


def drivers(repo: Repo) -> set[str]:
    """Return the names of the drivers of the user's that merge files."""
    return {key[len("merge.") : -len(".driver")] for key in repo.settings() if _DRIVER.match(key)}


def undriven(repo: Repo, paths: Collection[str]) -> set[str]:
    """Return those of the paths that git would merge with a driver of the user's: none is run here, and ``merged`` leaves
    them as we have them."""
    settings, names = repo.settings(), drivers(repo)
    if not names or not paths:
        return set()
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    fields = zsplit(repo.git.out("check-attr", "-z", "--stdin", "merge", stdin=stdin))
    usual = (settings.get("merge.default") or ("",))[-1]
    said = {path: usual if text == "unspecified" else text for path, text in zip(fields[::3], fields[2::3], strict=True)}
    return {path for path, name in said.items() if name in names}


def _bound(repo: Repo, store: str) -> Git:
    """Git that runs no driver, and no filter either: with `merge.renormalize` it would pass each text through them."""
    settings = {key: _SILENT for key in repo.settings() if _DRIVER.match(key)}
    for found in filter(None, map(_FILTER.match, repo.settings())):
        settings |= {found[0]: "", f"{found[1]}required": "false"}
    return configured(repo.apart(repo.git, store).changed(no_index(repo), "core.fsync=none"), settings)


def _answers(raw: bytes) -> Iterator[MergeAnswer]:
    """Yield what git printed of each merge: its status, the tree, the entries in conflict, an empty field, messages, an empty
    field. What was cut short is left out."""
    fields = iter(raw.split(b"\0")[:-1])
    try:
        for status in fields:
            tree = next(fields).decode("ascii")
            stages: dict[str, dict[str, str]] = {}
            while field := next(fields):
                what, _, path = field.partition(b"\t")
                mode, oid, stage = what.decode("ascii").split(" ")
                stages.setdefault(os.fsdecode(path), {})[stage] = f"{mode} {oid}"
            reasons: dict[str, str] = {}
            beside: dict[str, str] = {}
            while status == b"0" and (count := next(fields)).isdigit():  # else its advice on submodules, to the end of it
                paths = [os.fsdecode(next(fields)) for _ in range(int(count))]
                kind, _ = os.fsdecode(next(fields)), next(fields)
                if (match := _KIND.match(kind)) and paths:
                    reasons.setdefault(paths[0], match[1])
                    beside.update(dict.fromkeys(set(paths[1:]) & set(stages), reasons[paths[0]]))
            reasons = beside | reasons
            entries = {path: stages.get(path, {}) for path in {**stages, **reasons}}
            conflicts = {
                path: Conflict(
                    reason=reasons.get(path, "contents"), stages=(e.get("1"), e.get("2"), e.get("3")), here=path, there=path
                )
                for path, e in entries.items()
            }
            yield MergeAnswer(tree=tree, conflicts=conflicts, clean=status == b"1")
    except StopIteration:
        return


def _named(repo: Repo, ask: MergeAsk, pair: tuple[Oid, Oid], answer: MergeAnswer, places: _Placed) -> MergeAnswer:
    """An answer with each conflict's path as either tree has it: git puts a side's name behind a file where a folder stands,
    and tells of a file that a side renamed by its new name."""
    conflicts: dict[str, Conflict] = {}
    for path, found in answer.conflicts.items():
        plain = re.sub(rf"~(?:{'|'.join(pair)})(?:_\d+)?\Z", "", path)
        ours, theirs = ask.ours.tree, ask.theirs.tree
        here = _at(repo, ours, theirs, plain, found.stages[1], places)
        there = _at(repo, theirs, ours, plain, found.stages[2], places)
        conflicts[path] = replace(found, here=here, there=there)
    return replace(answer, conflicts=conflicts)


def _at(repo: Repo, tree: Oid, other: Oid, path: str, entry: Stage, places: _Placed) -> str:
    """The path at which a side's entry stands in its tree, of several the one that the other side has renamed; ``path`` where
    it does not say."""
    if entry is None or lookup(repo.objects, tree, os.fsencode(path)) is not None:
        return path
    at = places(tree).get(entry.partition(" ")[2], [path])
    return next((name for name in at if lookup(repo.objects, other, os.fsencode(name)) is None), at[0])


def _places(repo: Repo, tree: Oid) -> dict[Oid, list[str]]:
    """By what stands in a tree the paths at which it does."""
    found = dict[Oid, list[str]]()
    for row in zsplit(repo.git.run("ls-tree", "-r", "-z", "--full-tree", tree).out):
        what, _, path = row.partition("\t")
        found.setdefault(what.rpartition(" ")[2], []).append(path)
    return found


def _with_lines(repo: Repo, git: Git, store: str, answers: Sequence[MergeAnswer | None]) -> list[MergeAnswer | None]:
    """Answers with the lines that both sides changed: all the texts are compared in one process."""
    texts: dict[tuple[Stage, Stage, Stage], str] = {}
    for answer in answers:
        for found in answer.conflicts.values() if answer else ():
            _, ours, theirs = found.stages
            if found.reason in ("contents", "add/add") and _is_file(ours) and _is_file(theirs):
                texts.setdefault(found.stages, str(len(texts)))
    if not texts:
        return list(answers)
    trees = []
    for at in range(3):
        rows = ((name, "100644", (stages[at] or stages[2] or "").partition(" ")[2]) for stages, name in texts.items())
        made = tree_objects(repo.layout.algorithm, rows)
        put_in(store, made)
        trees.append(made[-1].oid)
    asked = f"{trees[0]} {trees[1]}\n{trees[0]} {trees[2]}\n".encode()
    both = _hunks(checked(git.run(*_HUNKS, stdin=asked), "diff-tree"))
    lines: dict[tuple[Stage, Stage, Stage], _Both] = {}
    for stages, name in texts.items():
        mine, other = both[0].get(name, []), both[1].get(name, [])
        if stages[0] is None:  # the base is theirs, then, and what differs from it counts
            lines[stages] = _ranges(hunk.after for hunk in mine), _ranges(hunk.base for hunk in mine)
        else:
            lines[stages] = tuple(_ranges(hunk.after for hunk in _touching(*way)) for way in ((mine, other), (other, mine)))
    return [
        answer and replace(answer, conflicts={p: _lined(c, lines) for p, c in answer.conflicts.items()}) for answer in answers
    ]


def _lined(found: Conflict, lines: Mapping[tuple[Stage, Stage, Stage], _Both]) -> Conflict:
    ours, theirs = lines.get(found.stages, ((), ()))
    return replace(found, lines=ours, their_lines=theirs)


def _ranges(found: Iterable[Lines]) -> tuple[Lines, ...]:
    """Ranges up to a line as they are told: where lines were only removed, the one that stands there now."""
    return tuple((max(first, 1), max(end - 1, first, 1)) for first, end in found)


def _is_file(entry: Stage) -> bool:
    return entry is not None and entry.startswith(_FILES)


@value
class _Hunk:
    """Lines of the base that were changed, and what they became: both from ``first`` on, up to before ``end``."""

    base: Lines
    after: Lines
    text: tuple[bytes, ...]


def _hunks(raw: bytes) -> list[dict[str, list[_Hunk]]]:
    """Parse two diffs of trees, by file."""
    found: list[dict[str, list[_Hunk]]] = []
    rows, name = iter(raw.split(b"\n")), ""
    for row in rows:
        if row.startswith(b"diff --git "):
            name = row.rpartition(b"/")[2].decode("ascii")
        elif match := _AT.match(row):
            at, removed, to, added = (1 if text is None else int(text) for text in match.groups())
            first, here = at + (removed == 0), to + (added == 0)  # git names the line before where there is none
            text = list(islice((line for line in rows if not line.startswith(b"\\")), removed + added))
            hunk = _Hunk(base=(first, first + removed), after=(here, here + added), text=tuple(text[removed:]))
            found[-1].setdefault(name, []).append(hunk)
        elif row and b" " in row and row.split(b" ")[0].isalnum() and len(row.split(b" ")[0]) >= 40:
            found.append({})
    return found + [{}] * (2 - len(found))


def _touching(hunks: Sequence[_Hunk], others: Sequence[_Hunk]) -> Sequence[_Hunk]:
    """The hunks that touch one of the others and are not the same change; all, where none does: git has compared otherwise."""
    return [
        one
        for one in hunks
        if any(
            one.base[0] <= other.base[1] and other.base[0] <= one.base[1] and (one.base, one.text) != (other.base, other.text)
            for other in others
        )
    ] or hunks
