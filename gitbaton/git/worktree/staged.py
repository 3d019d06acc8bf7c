"""Staged states: build another index beside the real one, and swap it in under git's own lock.

The real index is copied, entries and bits of some or all paths are set as a checkpoint had them, and the copy replaces it by
one rename: it is never half-written. The lock file holds a mark of ours, so that one left by a killed process is known.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import CollectedError, GitError, RecordError, StaleError
from gitbaton.base.model import FileState, Oid
from gitbaton.base.system.files import NEW, read_or_none
from gitbaton.base.values import value
from gitbaton.git.gone import Readable
from gitbaton.git.objects import Objects, lookup
from gitbaton.git.repo import Repo
from gitbaton.git.run import zsplit
from gitbaton.git.worktree import locks
from gitbaton.git.worktree.capture import ROOM, real_entry
from gitbaton.git.worktree.checkout import Difference, GitEntry, differences, hidden, refused_names
from gitbaton.git.worktree.filetrees import is_safe
from gitbaton.git.worktree.heldbytes import HeldOid
from gitbaton.git.worktree.index import IndexFacts, PrivateIndex, index_info
from gitbaton.git.worktree.rawbytes import read_raw

LOCK_WAIT = 2.0
_STAGES = ("1", "2", "3")
_BITS = {"a": "assume-unchanged", "s": "skip-worktree"}


@value
class Staged:
    """A staged state: ``tree`` holds the stage-0 entries, ``flags`` the bits by path, ``stages`` what is in conflict.

    ``files`` is the tree of the work tree that was captured with it: it says what an intent-to-add path was. ``held`` are the
    entries of ``tree`` that only stand for a file which passed no filter.
    """

    tree: Oid
    files: Oid
    flags: Mapping[str, str]
    stages: Mapping[str, tuple[tuple[str, GitEntry], ...]]
    held: Mapping[str, HeldOid]


def stages_now(facts: IndexFacts) -> dict[str, tuple[tuple[str, GitEntry], ...]]:
    """Return the stages of an index in conflict, by path, as in ``Staged``."""
    found: dict[str, tuple[tuple[str, GitEntry], ...]] = {}
    for stage, path, mode, oid in facts.stages:
        name = os.fsdecode(path)
        found[name] = (*found.get(name, ()), (str(stage), GitEntry(mode=mode.decode("ascii"), oid=oid)))
    return found


def read_staged(repo: Repo, files: FileState, beside: Oid | None) -> Staged:
    """Return the staged state of a checkpoint; ``beside`` is the tree of its index commit's second parent. Raises
    RecordError."""
    more = files.index.flags_more
    flags = read_flags(repo.objects, beside) if more else {f.path: f.bits for f in files.index.flags}
    stages: dict[str, tuple[tuple[str, GitEntry], ...]] = {}
    if files.index.unmerged:
        if beside is None:
            raise RecordError("the checkpoint does not hold the conflicts that it counts")
        for row in repo.git.out("ls-tree", "-r", "-z", "--full-tree", beside, "1", "2", "3").split(b"\0")[:-1]:
            meta, path = row.split(b"\t", 1)
            mode, _, oid = meta.decode("ascii").split(" ")
            stage, _, name = os.fsdecode(path).partition("/")
            if stage in _STAGES and name:
                stages[name] = (*stages.get(name, ()), (stage, GitEntry(mode=mode, oid=oid)))
    odd = next((path for path in (*flags, *stages) if not is_safe(path)), None)
    if odd is not None:
        raise RecordError(f"'{odd}' in the checkpoint's index is no path of a file")
    kept = read_raw(repo.objects, beside, ROOM.encode()) if beside is not None else {}
    held = {path: HeldOid(oid) for path, oid in kept.items()}
    return Staged(tree=files.index.tree, files=files.tree, flags=flags, stages=stages, held=held)


def read_flags(objects: Objects, beside: Oid | None, name: bytes = b"flags") -> dict[str, str]:
    """Return a list of index flags in the tree of an index commit's second parent. Raises RecordError."""
    entry = lookup(objects, beside, name) if beside else None
    found = objects.read(entry.oid, 64 << 20) if entry else None
    if found is None or found.data is None:
        raise RecordError("the checkpoint does not hold the index flags that it counts")
    flags = {}
    for record in found.data.split(b"\0")[:-1]:
        bits, tab, path = record.partition(b"\t")
        if not tab or bits.strip(b"asi"):
            raise RecordError("the checkpoint's list of index flags is malformed")
        flags[os.fsdecode(path)] = bits.decode("ascii")
    return flags


@value
class Scope:
    """Paths of an index: those of ``only`` (None: all), less those of ``apart``."""

    only: frozenset[str] | None = None
    apart: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether a path belongs to it."""
        return (self.only is None or path in self.only) and path not in self.apart


class Restaging:
    """The change of an index from ``now`` to ``then`` at the paths of ``scope``. ``hidden_then`` are paths that a sparse
    checkout had left out."""

    def __init__(self, repo: Repo, now: IndexFacts, then: Staged, scope: Scope, hidden_then: Collection[str] = ()) -> None:
        self.repo, self.now, self.then = repo, now, then
        self.inside, self.gone = scope.has, dict[str, str]()
        self.entries = self._entries()
        now_bits = {f.path: f.bits.replace("i", "") for f in now.flags}
        then_bits = {path: bits.replace("i", "") for path, bits in then.flags.items()}
        paths = {p for p in {*now_bits, *then_bits} if self.inside(p) and now_bits.get(p, "") != then_bits.get(p, "")}
        self.sparse = repo.boolean("core.sparsecheckout")
        self.recheck = sorted(p for p in hidden_then if self.sparse and scope.has(p))
        self.bits = {p: then_bits.get(p, "") for p in paths | (self.entries.keys() & then_bits.keys())}

    def __bool__(self) -> bool:
        return bool(self.entries or self.bits or self.recheck)

    def _intents(self) -> tuple[set[str], set[str]]:
        """Return the intent-to-add paths of now and then."""
        now = {f.path for f in self.now.flags if "i" in f.bits}
        return now, {path for path, bits in self.then.flags.items() if "i" in bits}

    def _entries(self) -> dict[str, tuple[tuple[str, GitEntry], ...]]:
        """Return the (stage, entry) pairs of each path that is to change; none for one that goes or is to be intent-to-add."""
        wanted: dict[str, tuple[tuple[str, GitEntry], ...]] = {}
        for item in self._differences():
            if not self.inside(item.path):
                continue
            entry = real_entry(self.repo, item.path, item.then, self.then.held) if item.then else None
            if item.then is None or entry not in (None, item.now):  # else its bytes stayed where they were taken, or it is so
                wanted[item.path] = (("0", entry),) if entry else ()
        (intents, wanted_intents), now, then = self._intents(), stages_now(self.now), self.then.stages
        apart = {path for path in now.keys() | then.keys() if now.get(path) != then.get(path)}
        for path in filter(self.inside, apart | (intents ^ wanted_intents)):
            wanted.setdefault(path, ())  # no tree holds it now; where one holds it then, it is there already
            wanted[path] = then.get(path, wanted[path])
        return wanted

    @property
    def paths(self) -> set[str]:
        """The paths of which an entry, or a bit of it, is to change."""
        return {*self.entries, *self.bits}

    def _differences(self) -> list[Difference]:
        """Return the differences of what is staged now and then; of folders that cannot be read none, and ``gone`` names
        them."""
        try:
            return differences(self.repo.git, self.now.tree, self.then.tree)
        except CollectedError:
            found = Readable(self.repo.objects, self.then.tree, self.now.tree)
            if not found.gone:
                raise
        self.repo.stow(found.new)
        self.gone = found.gone
        return differences(self.repo.git, self.now.tree, found.tree)

    def build(self, folder: str, source: str | None = None) -> str:
        """Write the new index into ``folder``; its path. Its stat data fits the work tree as it is now. It is made from the
        real index, or from another one that holds ``now``. Raises GitError."""
        index = PrivateIndex(self.repo, source or self.repo.layout.index, os.path.join(folder, "staged"))
        index.copy()
        ends = [(path, entry.mode) for path, stages in self.entries.items() for _, entry in stages]
        for path in refused_names(index, ends):  # git would remove these entries, and say nothing
            self.gone[path] = "git takes no such name into an index"
            del self.entries[path]
        unseen = set(hidden(index, self.entries)) if self.sparse and self.entries else set()
        if self.entries:
            rows = {path: [f"{e.mode} {e.oid} {stage}" for stage, e in items] for path, items in self.entries.items()}
            index.write("update-index", "-z", "--index-info", stdin=index_info(rows, index.width))
        self._intend(index, folder)
        # Its exit status says whether something is modified; where a required filter fails, git looks again later.
        index.git.run("update-index", "-q", "--unmerged", "--ignore-missing", "--refresh")
        unseen |= {p for p in self.entries if self.sparse and self.entries[p] and self._absent(p)}
        listed = set(zsplit(index.git.out("ls-files", "-z"))) if self.recheck else set()
        unseen |= {p for p in self.recheck if p in listed and self._absent(p)}
        for bit, name in _BITS.items():
            on = [p for p, bits in self.bits.items() if bit in bits] + (sorted(unseen) if bit == "s" else [])
            off = [p for p, bits in self.bits.items() if bit not in bits and not (bit == "s" and p in unseen)]
            self._mark(index, f"--{name}", on)
            self._mark(index, f"--no-{name}", off)
        return index.path

    def _absent(self, path: str) -> bool:
        return not os.path.lexists(os.path.join(self.repo.layout.root or "", path))

    def _intend(self, index: PrivateIndex, folder: str) -> None:
        """Mark paths intent-to-add, in a work tree of their own: the files themselves may be anything by now."""
        paths = [p for p in self._intents()[1] if self.entries.get(p) == ()]
        if not paths:
            return
        place = os.path.join(folder, "intents")
        for path in paths:
            entry = lookup(self.repo.objects, self.then.files, os.fsencode(path))
            full = os.path.join(place, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if entry is not None and entry.mode == b"120000":
                os.symlink("x", full)
            else:
                os.close(os.open(full, os.O_CREAT | os.O_WRONLY, 0o777 if entry and entry.mode == b"100755" else 0o666))
        env = {"GIT_DIR": self.repo.layout.git_dir, "GIT_WORK_TREE": place}
        stdin = b"".join(b":(top,literal)" + os.fsencode(p) + b"\0" for p in paths)
        words = ("add", "-N", "-f", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
        index.git.changed(env, directory=place).out(*words, stdin=stdin)

    def _mark(self, index: PrivateIndex, option: str, paths: list[str]) -> None:
        gone = {p for p, items in self.entries.items() if not items} - self._intents()[1]
        there = set(paths) - gone
        if there:
            stdin = b"".join(os.fsencode(p) + b"\0" for p in sorted(there))
            index.write("update-index", "-z", option, "--stdin", stdin=stdin)


def listed_now(repo: Repo, directory: str, specs: Sequence[str]) -> set[str]:
    """Return the paths of the real index, in conflict or not, that pathspecs match as seen from a directory."""
    git = repo.git.changed({}, directory=directory)
    return set(zsplit(git.out("ls-files", "-z", "--full-name", "--", *specs)))


class IndexLock:
    """Git's lock of an index; ``mark`` is what its file holds, so that ours is told from others."""

    def __init__(self, index: str, mark: str) -> None:
        self.index, self.path, self.mark = index, index + ".lock", mark

    def take(self, wait: float = LOCK_WAIT) -> None:
        """Take the lock. Raises GitError when another process holds it for ``wait`` seconds."""
        self._until(self._try, wait)

    def _try(self) -> bool:
        """Make the lock by a link: so it has its mark from its first moment, wherever we are killed."""
        temporary = self.index + ".baton"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(os.open(temporary, NEW, 0o666), "w", encoding="ascii") as file:
            file.write(self.mark)
        try:
            os.link(temporary, self.path)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            raise GitError(f"{in_quotes(self.path)} cannot be made: {error.strerror}") from None
        finally:
            os.unlink(temporary)

    def wait(self, wait: float = LOCK_WAIT) -> None:
        """Wait until the lock is free. Raises GitError."""
        self._until(lambda: not os.path.lexists(self.path), wait)

    def _until(self, done: Callable[[], bool], wait: float) -> None:
        deadline = time.monotonic() + wait
        while not done():
            if time.monotonic() > deadline:
                said, hint = locks.describe(self.path, locks.holder(self.path))
                raise GitError(f"{said}; nothing is changed", hint)
            time.sleep(0.05)

    def replace(self, new: str) -> None:
        """Put a new index in the place of the old one, while the lock is held."""
        try:
            os.replace(new, self.index)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            import shutil

            beside = self.index + ".baton"
            with suppress(FileNotFoundError):
                os.unlink(beside)
            shutil.copy2(new, beside)
            os.replace(beside, self.index)

    def release_any(self) -> None:
        """Remove a lock that any restore left: none is at work while the caller holds the lock of restores."""
        self.mark = (read_or_none(self.path, 200) or b"").decode("ascii", "replace")
        if self.mark.startswith(locks.MARK):
            self.release()

    def release(self) -> bool:
        """Remove the lock if it is ours, also one left by a killed process; whether it was."""
        for path in (self.index + ".baton", self.path):
            found = read_or_none(path, 200)
            ours = found is not None and found.decode("ascii", "replace") == self.mark
            if ours:
                os.unlink(path)
        return ours


def signature(index: PrivateIndex) -> list[int | str]:
    """Return the identity of the index that was read: to be compared, not understood."""
    return [*index.signature, index.checksum.hex()]


def refuse_changed(index: PrivateIndex) -> None:
    """Raise StaleError when the real index is no longer the one that a private index was made from."""
    if signature(PrivateIndex(index.repo, index.source, index.path + ".now")) != signature(index):
        raise StaleError("the index changed meanwhile; nothing is changed")
