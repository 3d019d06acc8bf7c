"""Changed files: which paths differ from captured trees. A stat finds candidates, and only those are hashed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import CollectedError, DamagedIndexError, GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import open_regular, remove_folder
from gitbaton.base.system.process import Result
from gitbaton.base.values import value
from gitbaton.git.loose import index_anew
from gitbaton.git.objects import lookup, object_id
from gitbaton.git.repo import Repo
from gitbaton.git.run import TRACKED, Git, checked, zsplit
from gitbaton.git.treediff import Entry, Pair, RawRecords, entries_in, raw_records, records, started
from gitbaton.git.worktree.gate import may_speak
from gitbaton.git.worktree.index import (
    DENIED,
    FILTER,
    PrivateIndex,
    fresh_index,
    index_entries,
    index_info,
    modified,
    without_filter,
)
from gitbaton.git.worktree.untracked import CaptureRules, sort_out

_ATTEMPTS = 4
_PATIENCE = 64  # processes that may be spent on finding the paths that git cannot hash
_PLAIN = 1 << 20  # bytes of changed files that are read to see whether they are plain
_FEW = 3  # files that a filter may fail on before it is switched off for all
_STAGED = ("--cached", "-r", "-z", "--raw", "--no-renames", "--ita-invisible-in-index", "--ignore-submodules=none")
# An index of a few paths must neither be split nor folded: git would write trees for that.
_SMALL = ("core.splitIndex=false", "index.sparse=false", "core.safecrlf=false")


@value
class _Suspect:
    """A path that may differ from the index. ``staged``: its entry there, None for one that no tree of the index holds.
    ``like``: the entry that git's rules for modes and line ends look at. ``mode``: what stands on disk, None for nothing,
    empty where git has not said."""

    staged: Entry
    like: Entry
    mode: str | None


def changed_paths(repo: Repo, rules: CaptureRules, trees: Sequence[Oid]) -> dict[Oid, list[str]]:
    """Return for each tree the paths, in git's order, at which a capture under ``rules`` would now hold something else.

    A path that git cannot read or hash counts as different. Nothing is written into the object store and the index is only
    read. Empty without a work tree. Raises GitError.
    """
    return compare_files(repo, rules, trees)[0]


def written_since(repo: Repo, root: str, tree: Oid, began: float, ended: float) -> str | None:
    """Return a path of a captured tree that was written after ``began``, or a folder in which something was made, renamed or
    removed after ``ended``, both in seconds since 1970; None where there is none. Python's byte code stands for nothing without
    its source. Raises GitError."""
    paths = [os.fsdecode(path) for path in zsplit(repo.git.out("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree))]
    paths = [path for path in paths if not is_byte_code(path)]
    folders = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) not in folders:
            folders.add(path)
    for names, since in ((paths, began), (folders, ended)):
        for name in names:
            try:
                found = os.lstat(os.path.join(root, name))
            except OSError:
                return name
            changed = found.st_mtime if name in folders else max(found.st_mtime, found.st_ctime)
            if changed > since:
                return name
    return None


def is_byte_code(path: str) -> bool:
    """Whether a path is one of Python's own byte code, which it makes anew from the source beside it."""
    return path.endswith(".pyc") and path.rpartition("/")[0].endswith("__pycache__")


def compare_files(
    repo: Repo,
    rules: CaptureRules,
    trees: Sequence[Oid],
    specs: Sequence[str] = (),
    apart: RawRecords | None = None,
    scratch: str | None = None,
) -> tuple[dict[Oid, list[str]], list[str], str]:
    """Return what ``changed_paths`` does, the submodules at their recorded commit that hold what no commit of theirs has,
    and a warning about the index. ``specs``: pathspecs of all that has to be looked at. ``apart``: what is known of
    ``tree_pairs`` of these trees. ``scratch``: a folder of our own, that may be used."""
    distinct = list(dict.fromkeys(trees))
    if repo.layout.root is None or not distinct:
        return {}, [], ""
    with nullcontext(scratch) if scratch else scratch_folder() as folder:
        try:
            return (*_compared(repo, folder, repo.layout.index, rules, distinct, specs, apart), "")
        except DamagedIndexError as error:  # as a capture does it: the index only saves reading what it knows
            said = f"{error.message}; every file was read anew; to make it anew: {index_anew(repo.layout.index)}"
            return (*_compared(repo, folder, fresh_index(repo, folder), rules, distinct, specs, apart), said)


def tree_pairs(trees: Iterable[Oid], staged: Oid | None) -> list[Pair]:
    """Return the pairs of trees that ``compare_files`` tells apart; ``staged``: the tree of the index, where that is known."""
    first, *rest = dict.fromkeys(trees)
    return [(first, tree) for tree in (*rest, *([staged] if staged not in (None, first) else []))]


def _compared(
    repo: Repo,
    folder: str,
    source: str,
    rules: CaptureRules,
    trees: list[Oid],
    specs: Sequence[str],
    apart: RawRecords | None,
) -> tuple[dict[Oid, list[str]], list[str]]:
    for attempt in range(_ATTEMPTS):
        number = f"{os.path.basename(repo.layout.git_dir)}.{attempt}"  # one folder may serve several work trees
        index = PrivateIndex(repo, source, os.path.join(folder, f"{os.path.basename(source)}.{number}"))
        comparison = _Comparison(index, folder, repo.layout.root or "", rules, trees, specs, apart)
        found = comparison.run()
        if index.whole():
            break
    return found, comparison.unsaved


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Provide a folder of our own outside the repository, which may be one that we cannot write."""
    name = f"gitbaton-{os.getpid()}.{time.monotonic_ns()}"
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise GitError(f"{in_quotes(folder)} cannot be made: {error.strerror}") from None
    try:
        yield folder
    finally:
        remove_folder(folder)


class _Comparison:
    """One comparison of a work tree, against one state of its index."""

    def __init__(
        self,
        index: PrivateIndex,
        folder: str,
        root: str,
        rules: CaptureRules,
        trees: list[Oid],
        specs: Sequence[str],
        apart: RawRecords | None,
    ) -> None:
        self.index, self.folder, self.root, self.rules, self.trees, self.specs = index, folder, root, rules, trees, specs
        self.apart = apart
        self.suspects: dict[str, _Suspect] = {}
        self.unsaved: list[str] = []

    def run(self) -> dict[Oid, list[str]]:
        """Return the paths that differ, by tree."""
        first, known, git = self.trees[0], self.index.known_facts(), self.index.git
        # Neither asks the work tree: what is hidden there does not matter to them.
        kept = self.index.staged_tree(known) if not self.specs else None
        here = self.index.repo.objects.info(kept) if kept else None
        tree = here.oid if here is not None and here.kind == "tree" else None
        staged = None if tree else git.start("diff-index", *_STAGED, first, "--", *self.specs)
        pairs = tree_pairs(self.trees, tree)
        deltas = self.apart.of(pairs) if self.apart is not None else None
        trees = started(self.index.repo, pairs) if pairs and deltas is None else None
        try:
            facts = self.index.hidden(known)
        except DamagedIndexError:
            for process in (staged, trees):
                if process is not None:
                    process.stop()
            raise
        self.index.relied = True
        facts = self.index.reveal(facts, self.root)
        look = self.index.listings(facts, self.specs)
        self._suspect_tracked(look.tracked(facts.gitlinks))
        self._suspect_untracked(zsplit(checked(look.untracked(), "ls-files")))
        if trees is not None:
            try:
                deltas = raw_records(trees, len(pairs))
            except CollectedError:
                if tree in (None, first):
                    raise
                # A part of what is staged may be gone: the index itself says what that was.
                tree, pairs = None, tree_pairs(self.trees, None)
                staged = git.start("diff-index", *_STAGED, first, "--")
                deltas = raw_records(started(self.index.repo, pairs), len(pairs)) if pairs else []
        found = records(checked(staged.finish(), "diff-index"))[0][1] if staged is not None else ()
        base = {change.path: (change.before, change.after) for change in found}
        deltas = deltas or []
        if tree not in (None, first):
            base = {path: entries_in(record) for path, record in deltas.pop().items()}
        self._settle_intent_to_add(base)
        return self._compare(base, [{}, *deltas])

    def _suspect_tracked(self, result: Result) -> None:
        """Suspect what ``diff-files`` names. Where a filter fails, ask without it, for then the path is named all the same;
        where a submodule is broken, which stops git, ask without a look into submodules."""
        if result.code:
            result = modified(self.index.git, *TRACKED[1:])
        for change in records(result.out)[0][1]:
            mode = change.after.split(" ")[0] if change.after else None
            known = self.suspects.get(change.path)
            if known is not None:  # the second line of an unmerged path shows the entry of ours
                self.suspects[change.path] = _Suspect(staged=None, like=change.before, mode=known.mode)
            else:
                self.suspects[change.path] = _Suspect(staged=change.before, like=change.before, mode=mode)
        for path in DENIED.findall(result.err):
            self.suspects.setdefault(path, _Suspect(staged=None, like=None, mode=""))

    def _suspect_untracked(self, paths: list[str]) -> None:
        taken, _ = sort_out(self.index.repo, self.folder, self.root, paths, self.rules)
        for path in taken:
            mode = "160000" if path.endswith("/") else ""
            self.suspects.setdefault(path.rstrip("/"), _Suspect(staged=None, like=None, mode=mode))
        for path, entry in self.index.cover(taken).items():
            self.suspects[path] = _Suspect(staged=entry, like=None, mode=None)

    def _settle_intent_to_add(self, base: Mapping[str, tuple[Entry, Entry]]) -> None:
        """Ask the tree itself of each deleted file with an empty entry: it may be one that was only intended to be added."""
        objects, first = self.index.repo.objects, self.trees[0]
        nothing = object_id(objects.algorithm, "blob", b"")
        for path, suspect in self.suspects.items():
            empty = suspect.mode is None and suspect.staged and suspect.staged.endswith(nothing)
            if empty and path not in base and lookup(objects, first, os.fsencode(path)) is None:
                self.suspects[path] = _Suspect(staged=None, like=None, mode=None)

    def _compare(self, base: Mapping[str, tuple[Entry, Entry]], deltas: list[dict[str, str]]) -> dict[Oid, list[str]]:
        """Compose: what a tree holds at a path follows from its difference to the first one, or the first one's to the
        index. Where neither the index nor the work tree differs from the first one, it is just the paths of the difference."""
        first = {path: suspect.staged for path, suspect in self.suspects.items()} | {p: old for p, (old, _) in base.items()}
        index = {path: new for path, (_, new) in base.items()}
        then = [first | {path: entries_in(delta[path])[1] for path in first.keys() & delta.keys()} for delta in deltas]
        now = index | self._present(then)
        found = {}
        for tree, delta, entries in zip(self.trees, deltas, then, strict=True):
            differ = [path for path, entry in entries.items() if entry != now[path]]
            rest = (path for path in delta if path not in entries) if entries.keys() & delta.keys() else delta
            paths = [*rest, *differ]
            plain = "".join(paths).isascii()  # git's order is that of bytes
            found[tree] = (sorted(paths) if plain else sorted(paths, key=os.fsencode)) if differ else paths
        return found

    def _present(self, then: list[dict[str, Entry]]) -> dict[str, Entry]:
        """Return the present entry of every suspect; ``?`` where something stands that no tree of ``then`` can hold."""
        wanted = []
        for path, suspect in self.suspects.items():
            kinds = {entry[:3] for entries in then for entry in (entries.get(path),) if entry}
            nested = suspect.mode == "160000" and suspect.staged is None
            if suspect.mode is not None and (nested or (kinds if not suspect.mode else suspect.mode[:3] in kinds)):
                wanted.append(path)
        plain = self._hash_plain(wanted)
        hashed = self._hash(wanted) if plain is None else plain
        now: dict[str, Entry] = {}
        for path, suspect in self.suspects.items():
            nested = suspect.mode == "160000" and suspect.staged is None
            now[path] = hashed.get(path, None if suspect.mode is None or nested else "?")
            if suspect.mode == "160000" and now[path] == suspect.staged:
                self.unsaved.append(path)
        return now

    def _hash_plain(self, paths: list[str]) -> dict[str, str] | None:
        """Return the entries of plain files, hashed here, or where attributes may have a say by one process; None where what is
        in the index may have a say, as it has where both hold CRLF, for links, where the file system has no modes, and where
        attribute files are not checked out; and for a path that the process would read as another one."""
        repo, room, found = self.index.repo, _PLAIN, dict[str, str]()
        if not paths or not repo.boolean("core.filemode", default=True) or repo.boolean("core.sparsecheckout"):
            return None if paths else {}
        own = self.index.copied or self.index.source != repo.layout.index  # an index that attributes are not looked for in
        asked = own or may_speak(repo, self.root, paths)
        filtered = asked and any(key.startswith("filter.") for key in repo.settings())  # what one makes of a file is not seen
        likes = [like.partition(" ")[2] for path in paths if filtered and (like := self.suspects[path].like)]
        for blob in repo.objects.read_many(likes, _PLAIN):
            if blob is None or blob.data is None or b"\r" in blob.data:
                return None
        for path in paths:
            suspect = self.suspects[path]
            odd = "\n" in path or path.startswith('"') or path.endswith("\r")
            if odd or (suspect.mode or "100")[:3] != "100" or (suspect.like or "100")[:3] != "100":
                return None
            try:
                with open(open_regular(os.path.join(self.root, path)), "rb") as file:
                    mode = "100755" if os.fstat(file.fileno()).st_mode & 0o100 else "100644"
                    data = file.read(room)
            except (OSError, ValueError):
                return None
            room -= len(data)
            if b"\r" in data or room <= 0:
                return None
            found[path] = f"{mode} " + ("" if asked else object_id(repo.objects.algorithm, "blob", data))
        if not asked:
            return found
        stdin = b"".join(os.fsencode(path) + b"\n" for path in paths)
        result = self.index.git.changed({}, *_SMALL).run("hash-object", "--stdin-paths", stdin=stdin)
        oids = result.out.decode("ascii").split()
        if result.code or len(oids) != len(paths):
            return None
        return {path: entry + oid for (path, entry), oid in zip(found.items(), oids, strict=True)}

    def _hash(self, paths: list[str]) -> dict[str, str]:
        """Return the entries that ``git add`` would make, by ``git update-index`` on an index of just these paths.

        Unlike ``hash-object`` it takes links, nested repositories and any name, and sees the entries that are there: git keeps
        CRLF where the entry has it, and the mode where the file system has none.
        """
        git = self.index.git.changed({"GIT_INDEX_FILE": self.index.path + ".hashed"}, *_SMALL)
        # Git reads attribute files from the index where a sparse checkout has none on disk.
        sparse = self.index.repo.boolean("core.sparsecheckout")
        held = index_entries(self.index.git, [":(top,glob)**/.gitattributes"]) if sparse else ()
        context = {path: [f"{mode} {oid}"] for mode, oid, stage, path in held if stage == "0"}
        for path in paths:
            suspect = self.suspects[path]
            if suspect.like and suspect.mode and suspect.mode[:3] in ("100", "120"):
                context[path] = [suspect.like]
        if context:
            git.out("update-index", "-z", "--index-info", stdin=index_info(context, self.index.width))
        good = self._index(git, paths)
        return {path: f"{mode} {oid}" for mode, oid, _, path in index_entries(git) if path in good}

    def _index(self, git: Git, paths: list[str]) -> set[str]:
        """Bring paths into the index of ``git``, storing no object, and return those that got in. Git stops at the first it
        cannot take.

        What a filter fails on is hashed as it is on disk, and after a few files the filter is switched off for all that are
        left: so a capture would store them.
        """
        good, waiting, failures = set[str](), [(git, paths)], dict[str, int]()
        for _ in range(_PATIENCE):
            if not waiting:
                break
            how, some = waiting.pop()
            stdin = b"".join(os.fsencode(p) + b"\0" for p in some)
            result = how.run("update-index", "--add", "--replace", "--info-only", "-z", "--stdin", stdin=stdin)
            failed = FILTER.search(result.err)
            if result.code == 0:
                good.update(some)
            elif len(some) > 1:
                waiting += [(git, some[: len(some) // 2]), (git, some[len(some) // 2 :])]
            elif failed and how is git:
                name = failed.group(2)
                failures[name] = failures.get(name, 0) + 1
                waiting.append((without_filter(git, name), some))
                if failures[name] == _FEW:
                    git = without_filter(git, name)
                    waiting = [(git, [p for _, rest in waiting for p in rest])]
        return good
