"""The index, read through a private copy: staged tree, conflict stages, flags. The real one is never opened for writing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec.checkpoint import listed_paths
from gitbaton.base.errors import DamagedIndexError, GitError
from gitbaton.base.model import IGNORED, Flag, Oid, Skipped
from gitbaton.base.system.files import copy_rest, read_or_none, read_regular, write_atomic
from gitbaton.base.system.process import Result
from gitbaton.base.values import replace, value
from gitbaton.git.gone import missing
from gitbaton.git.loose import index_is_torn
from gitbaton.git.objects import OID, NewObject, hasher, new_object, object_id, tree_objects
from gitbaton.git.repo import Repo, clear_left, has_folder, shared
from gitbaton.git.run import (
    ENTRIES,
    EXACT,
    Git,
    Listings,
    Signature,
    checked,
    configured,
    refuse_index,
    signature,
    watched,
    zsplit,
)
from gitbaton.git.worktree.filetrees import LINK, parents
from gitbaton.git.worktree.gate import has_links

MAX_FLAGS = 1000
LINKS = "links"
MAX_FLAG_BYTES = 128 << 10
MAX_FILTERS = 20
FILTER = re.compile(r"^fatal: (.*): clean filter '(.+)' failed$", re.M | re.S)
DENIED = re.compile(r"^(?!warning: |error: |fatal: )(.*): Permission denied$", re.M)


@value
class IndexFacts:
    """The facts of an index beside its paths: a pure function of its bytes (and of core.sparseCheckout).

    ``tree`` holds the stage-0 entries; ``stages`` are (stage, path, mode, id) of unmerged paths; ``gitlinks`` are paths.
    ``lost`` are paths of which the staged content is gone: they are not in the tree.
    """

    tree: Oid
    flags: tuple[Flag, ...] = ()
    stages: tuple[tuple[int, bytes, bytes, Oid], ...] = ()
    gitlinks: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class PrivateIndex:
    """A copy of the index in a directory of its own, and git bound to it."""

    def __init__(self, repo: Repo, source: str, target: str) -> None:
        self.repo, self.source, self.path = repo, source, target
        self.plain: dict[str, str] = {}  # submodules in whose place a plain folder stands, each with its entry
        self.copied = self.revealed = self.relied = self.torn = False
        self._like = ""  # the key of an index with the same entries
        self.width = 20 if repo.layout.algorithm == "sha1" else 32
        self.signature, self.checksum = signature(source, self.width)
        self.git = repo.git.changed({"GIT_INDEX_FILE": source}, *EXACT)

    def copy(self) -> None:
        """Copy the index, and work on the copy from here on; until then ``git`` only reads the original."""
        if self.copied:
            return
        self.copied = True
        before = (self.signature, self.checksum)
        self.signature = _copy(self.source, self.path)
        self.checksum = signature(self.path, self.width)[1]
        moved = before != (self.signature, self.checksum)
        self.torn, self._like = self.relied and moved, "" if moved else self._like
        # A split index would be split again on writing, into a new shared file in the user's git directory.
        self.git = self.git.changed({"GIT_INDEX_FILE": self.path}, "core.splitIndex=false")

    def listings(self, facts: IndexFacts, specs: Sequence[str] = (), *, walk: bool = False) -> Listings:
        """Return a look under way at which tracked paths differ from the index, and which paths are untracked; perhaps only of
        what pathspecs match. ``walk``: at each file, though a daemon of git's may know what has changed.

        One that was started ahead counts while the index is the very file that it read.
        """
        walk = walk or self.revealed or bool(specs or facts.stages)
        ahead, self.repo.listings = (None, self.repo.listings) if specs else (self.repo.listings, None)
        if ahead is not None:
            if not self.revealed and ahead.read == self.signature and not (walk and ahead.shown):
                return ahead
            ahead.stop()
        return Listings(self.git, specs, shown="" if walk else watched(self.repo.git, self.repo.layout.git_dir))

    def whole(self) -> bool:
        """Whether the index was the same for all that was read; another process may have written it meanwhile."""
        return not self.torn if self.copied else signature(self.source, self.width) == (self.signature, self.checksum)

    def known_facts(self) -> IndexFacts | None:
        """Return the facts of the index if they are cached; trees in them may have been collected since."""
        known = _load(facts_file(self.repo))
        if known is not None and known.key != self.key():
            if not known.entries or known.entries != self._entries(known.end):
                return None
            self._like = known.key
        return known.facts if known is not None else None

    def staged_tree(self, known: IndexFacts | None) -> Oid | None:
        """Return the tree of what is staged, as far as the facts are ``known`` or git has written it down in the index; it may
        have been collected since."""
        return known.tree if known is not None else _written_tree(self._bytes(), self.width)

    def hidden(self, known: IndexFacts | None) -> IndexFacts:
        """Return the paths with a bit that hides edits from git, and those of other repositories, without a tree; as far as the
        facts are not ``known``, git is asked, and they are kept where the tree is written in the index. Raises
        DamagedIndexError."""
        if known is not None:
            return replace(known, tree="")
        tree = self.staged_tree(None)
        found = _read(self, self._sparse(), tree=False)
        if tree and self.whole() and len(found.flags) <= MAX_FLAGS:  # such an index has nothing that a tree has not
            self._save(replace(found, tree=tree))
        return found

    def _listed(self) -> bytes:
        """Return what ``git ls-files`` says of an index that is whole. Raises DamagedIndexError."""
        ahead, begun = self.repo.listings, None
        if ahead is not None and not self.copied and ahead.read == self.signature:
            begun, ahead.entries = ahead.entries, None
        result = begun.finish() if begun is not None else self.git.run("ls-files", *ENTRIES)
        source = self.path if self.copied else self.source
        if result.code != 0 or (os.path.lexists(source) and index_is_torn(source, self.repo.layout.algorithm)):
            refuse_index(result)
            said = result.fatal() if result.code else "it does not end as git wrote it"
            raise DamagedIndexError(f"the index is damaged: {said}")
        return result.out

    def facts(self, reachable: Collection[Oid]) -> IndexFacts:
        """Return the facts of the index. Cached ones count only while their tree is one of ``reachable``, which gc must
        keep."""
        known = self.known_facts()
        if known is not None and known.tree in reachable:
            self.relied = not self.copied
            return known
        self.copy()
        facts = _read(self, self._sparse())
        if not facts.stages and not facts.lost and len(facts.flags) <= MAX_FLAGS:
            end = _entries_end(self._bytes(), self.width)  # of the copy, which nobody else writes
            self._save(facts, self._entries(end), end, self.path + ".facts")
        return facts

    def _save(self, facts: IndexFacts, entries: str = "", end: int = 0, temporary: str = "") -> None:
        self._like = ""
        self._like = "" if self.key() else entries
        if key := self.key():
            flags = [[f.path, f.bits] for f in facts.flags]
            rest = {"tree": facts.tree, "flags": flags, "gitlinks": facts.gitlinks}
            place, beside = facts_file(self.repo), f"{facts_file(self.repo)}.{os.getpid()}"
            save_cache(self.repo, place, temporary or beside, {"key": key, "end": end, "entries": entries, **rest})

    def _sparse(self) -> bool:
        return self.repo.boolean("core.sparsecheckout")

    def key(self) -> str:
        """Return a key of the bytes of the index, and of how they are read: that of one with the same entries, if its facts are
        known; empty where git wrote no checksum."""
        return self._like or (f"{self.checksum.hex()} {int(self._sparse())}" if any(self.checksum) else "")

    def _bytes(self) -> bytes:
        return read_or_none(self.path if self.copied else self.source, follow=True) or b""

    def _entries(self, end: int) -> str:
        """Return a key of the entries, which end at an offset, and of how they are read; empty where more than they says what
        the index holds. Git writes the rest anew whenever its caches learn something, as by a file of ours that is ignored."""
        data = self._bytes()
        at, last = end, len(data) - self.width
        while 12 < at < last and data[at : at + 4].isupper():  # in small letters: a split or a sparse index
            at += 8 + int.from_bytes(data[at + 4 : at + 8])
        if not 12 < at == last:
            return ""
        found = hasher(self.repo.layout.algorithm, end)
        found.update(memoryview(data)[:end])
        return f"entries {found.hexdigest()} {int(self._sparse())}"

    def reveal(self, facts: IndexFacts, root: str) -> IndexFacts:
        """Take off what hides edits from ``git add``: assume-unchanged, skip-worktree where a file is there, and the commit
        of a submodule where a plain folder with files stands; return the facts of the index then."""
        for bit, option in (("a", "--no-assume-unchanged"), ("s", "--no-skip-worktree")):
            marked = (f.path for f in facts.flags if bit in f.bits)
            paths = [p for p in marked if bit == "a" or os.path.lexists(os.path.join(root, p))]
            if paths:
                self.copy()
                self.revealed = True
                self.write("update-index", "-z", option, "--stdin", stdin=b"".join(os.fsencode(p) + b"\0" for p in paths))
        plain = [path for path in facts.gitlinks if _is_plain_folder(os.path.join(root, path))]
        if plain:
            self.copy()
            self.revealed = True
            rows = index_entries(self.git, [f":(top,literal){path}" for path in plain])
            self.plain = {path: f"{mode} {oid}" for mode, oid, stage, path in rows if stage == "0" and mode == "160000"}
            self.forget(self.plain)
        return replace(facts, gitlinks=tuple(path for path in facts.gitlinks if path not in self.plain))

    def cover(self, untracked: Iterable[str]) -> dict[str, str]:
        """Put back the commits of submodules that have none of the ``untracked`` paths in their folder; return the others."""
        above = {folder for path in untracked for folder in parents(path)}
        self.put({path: entry for path, entry in self.plain.items() if path not in above})
        self.plain = {path: entry for path, entry in self.plain.items() if path in above}
        return self.plain

    def unlock(self) -> None:
        """Remove the lock that a killed git left on the copy (a file that shrinks under it kills it); no other process
        writes it."""
        with suppress(FileNotFoundError):
            os.unlink(self.path + ".lock")

    def forget(self, paths: Iterable[str]) -> None:
        """Remove paths from the copy, every stage of them."""
        self.write("update-index", "-z", "--index-info", stdin=index_info(dict.fromkeys(paths, ()), self.width))

    def put(self, entries: Mapping[str, str]) -> None:
        """Set the entries of paths in the copy: ``MODE ID``."""
        if not entries:
            return
        rows = {path: [entry] for path, entry in entries.items()}
        self.write("update-index", "-z", "--index-info", stdin=index_info(rows, self.width))

    def write_tree(self) -> Oid:
        """Write the tree of the copy's stage-0 entries; it must hold no unmerged path. What is gone of them and is on disk
        is stored anew."""
        try:
            return self.write("write-tree").decode("ascii").strip()
        except GitError:
            if not store_anew(self):
                raise
            return self.write("write-tree").decode("ascii").strip()

    def write(self, *args: str, stdin: bytes = b"") -> bytes:
        """Run a command that writes the copy, in an empty work tree and keeping the copy's mtime.

        Git would read racily clean files again while it writes, only to mark those that differ: it stops where a required
        filter fails, and dies where a file shrinks under it. With its old mtime the copy needs no marks.
        """
        self.unlock()
        empty = os.path.join(os.path.dirname(self.path), "empty")
        os.makedirs(empty, exist_ok=True)
        env = {"GIT_DIR": self.repo.layout.git_dir, "GIT_WORK_TREE": empty}
        stamp = os.stat(self.path).st_mtime_ns if os.path.exists(self.path) else None
        out = self.git.changed(env, directory=empty).out(*args, stdin=stdin)
        if stamp is not None:
            os.utime(self.path, ns=(stamp, stamp))
        return out


def index_info(wanted: Mapping[str, Iterable[str]], width: int) -> bytes:
    """Return lines for ``update-index -z --index-info``, by path what is to stand there: ``MODE ID`` and perhaps a stage.
    All that was there goes first, so that a file can make room for a directory. ``width``: of an id, in bytes."""
    gone = [f"0 {'00' * width}\t{path}\0" for path in wanted]
    new = [f"{row}\t{path}\0" for path, rows in wanted.items() for row in rows]
    return os.fsencode("".join(gone + new))


def _is_plain_folder(path: str) -> bool:
    """Whether a folder holds something and is no repository."""
    try:
        with os.scandir(path) as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return False
    return bool(names) and ".git" not in names and not os.path.islink(path)


def fresh_index(repo: Repo, folder: str) -> str:
    """Make an index of HEAD's tree in ``folder``, without stat data: ``git add`` reads each file, and stores what is not
    here. It is empty where HEAD's tree cannot be read."""
    path = os.path.join(folder, "fresh")
    git = repo.git.changed({"GIT_INDEX_FILE": path}, "core.splitIndex=false")
    if git.run("read-tree", "HEAD").code != 0:
        git.out("read-tree", "--empty")
    return path


def store_anew(index: PrivateIndex, paths: Collection[str] | None = None) -> bool:
    """Store anew the content of files with entries in an index (at some paths) that name an object which is gone; return
    whether there was any."""
    root, objects = index.repo.layout.root, index.repo.objects
    if root is None:
        return False
    rows = [(mode, oid, path) for mode, oid, _, path in index_entries(index.git) if mode != "160000"]
    rows = [row for row in rows if paths is None or row[2] in paths]
    gone = missing(objects, [oid for _, oid, _ in rows])
    lost = [path for _, oid, path in rows if oid in gone and os.path.lexists(os.path.join(root, path))]
    # Into the store itself, where what refers to them looks for them; in a dry run that is elsewhere.
    git = index.repo.git if "GIT_OBJECT_DIRECTORY" in index.repo.git.env else index.repo.opened
    git = git.changed({"GIT_INDEX_FILE": index.git.env["GIT_INDEX_FILE"]}, "core.fsync=all", directory=root)
    for path in lost:
        full = os.path.join(root, path)
        if os.path.islink(full):
            git.run("hash-object", "-w", "--stdin", stdin=os.fsencode(os.readlink(full)))
        elif os.path.isfile(full):
            git.run("hash-object", "-w", "--", path)
    return bool(lost)


def without_filter(git: Git, name: str) -> Git:
    """Return the same git without a filter driver."""
    return configured(
        git, {f"filter.{name}.{key}": text for key, text in (("required", "false"), ("clean", ""), ("process", ""))}
    )


def modified(git: Git, *options: str, specs: Sequence[str] = ()) -> Result:
    """Return what ``git diff-files`` says and warns of, though a broken submodule or a filter that fails may make it stop.
    Raises GitError."""
    submodules = "dirty"
    for _ in range(MAX_FILTERS):
        result = git.run("diff-files", "-z", "--no-renames", *options, f"--ignore-submodules={submodules}", "--", *specs)
        failed = FILTER.search(result.err) if result.code else None
        if failed:
            git = without_filter(git, failed.group(2))
        elif result.code > 0 and submodules == "dirty":
            submodules = "all"
        elif result.code >= 0:  # else it died of a file that shrank while it was compared
            break
    checked(result, "diff-files")
    return result


def index_entries(git: Git, specs: Iterable[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Yield mode, id, stage and path of the entries in the index of ``git``, perhaps only of what pathspecs match. Raises
    GitError."""
    for row in zsplit(git.out("ls-files", "-s", "-z", "--", *specs)):
        meta, path = row.split("\t", 1)
        mode, oid, stage = meta.split(" ")
        yield mode, oid, stage, path


def real_links(index: PrivateIndex, root: str) -> tuple[str, ...]:
    """Return the paths of an index at which a symbolic link stands, where core.symlinks says that git makes text files of
    them."""
    if has_links(index.repo):
        return ()
    links = (path for mode, _, _, path in index_entries(index.git) if mode == LINK)
    return tuple(sorted((p for p in dict.fromkeys(links) if os.path.islink(os.path.join(root, p))), key=os.fsencode))


def kept_tree(repo: Repo) -> Oid | None:
    """Return the tree of what is staged, if git has written it down in the index, or that of what was when facts of the index
    were last kept; it may have been collected, and another one be staged now."""
    width = 20 if repo.layout.algorithm == "sha1" else 32
    if tree := _written_tree(read_or_none(repo.layout.index, follow=True) or b"", width):
        return tree
    known = _load(facts_file(repo))
    return known.facts.tree if known is not None else None


def facts_file(repo: Repo) -> str:
    """Return the path of the file that keeps the facts of an index."""
    return os.path.join(repo.own_dir, "index-facts")


def list_ahead(repo: Repo, *, walk: bool = False, entries: bool = False) -> None:
    """Start the listings of a look that is to come, at each file with ``walk``; the index is only read. ``entries``: also its
    own, where no facts of it are kept."""
    if repo.layout.root is not None and repo.listings is None:
        shown = "" if walk else watched(repo.git, repo.layout.git_dir)
        anew = entries and not os.path.lexists(facts_file(repo))
        repo.listings = Listings(repo.git.changed({}, *EXACT), index=repo.layout.index, shown=shown, entries=anew)


def _copy(source: str, target: str) -> Signature:
    """Copy an index *with its mtime*: without it, git takes a same-size edit of the same second for clean."""
    try:
        with open(source, "rb") as reader, open(target, "xb") as writer:
            stat = os.fstat(reader.fileno())
            copy_rest(reader, writer)
    except FileNotFoundError:
        return (0, 0, 0)
    except PermissionError as error:  # of its own; what is copied there would pass for an empty one
        raise DamagedIndexError(f"the index cannot be read: {error.strerror}") from None
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


@value
class _KnownFacts:
    """Facts of an index that are cached: its ``key``, the offset at which its entries ``end``, and a key of these."""

    key: str
    end: int
    entries: str
    facts: IndexFacts


def _load(path: str) -> _KnownFacts | None:
    try:
        data = json.loads(os.fsdecode(read_regular(path)))
        flags = tuple(Flag(path=path, bits=bits) for path, bits in data["flags"])
        facts = IndexFacts(tree=data["tree"], flags=flags, gitlinks=tuple(data["gitlinks"]))
        if not OID.match(facts.tree):
            return None
        return _KnownFacts(key=data["key"], end=int(data["end"]), entries=data["entries"], facts=facts)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _written_tree(data: bytes, width: int) -> Oid | None:
    """Return the tree of all entries of an index, where its last extensions hold it as git's cache of trees does
    (gitformat-index): git takes it back where an entry is changed, unmerged, or only to be added."""
    count, last, start = int.from_bytes(data[8:12]), len(data) - width, len(data)
    while (start := data.rfind(b"TREE", 12, start)) > 0:
        at = start
        while at < last and data[at : at + 4].isalpha():
            at += 8 + int.from_bytes(data[at + 4 : at + 8])
        if at != last:  # these letters are of something else
            continue
        root = re.match(rb"\0(\d+) \d+\n", data[start + 8 : start + 40])
        if root is None or int(root[1]) != count:
            return None
        return data[start + 8 + root.end() :][:width].hex()
    return None


def _entries_end(data: bytes, width: int) -> int:
    """Return the offset at which the entries of an index end (gitformat-index); 0 where it is not as git writes it."""
    version, at = int.from_bytes(data[4:8]), 12
    try:
        for _ in range(int.from_bytes(data[8:12])):
            start, at = at, at + 42 + width + (data[at + 40 + width] >> 5 & 2)
            while version == 4 and data[at] & 0x80:  # how much the path has in common with the one before
                at += 1
            at = data.index(0, at + (version == 4)) + 1
            at += 0 if version == 4 else (start - at) % 8
    except (IndexError, ValueError):
        return 0
    return at


def save_cache(repo: Repo, path: str, temporary: str, data: Mapping[str, object]) -> None:
    """Write what is known of an index as JSON, by way of a temporary file. Never raises: the next snapshot asks again."""
    with suppress(OSError):
        if has_folder(repo, os.path.dirname(path)):
            clear_left(repo, path)
            write_atomic(path, json.dumps(data).encode("ascii"), temporary=temporary, made=lambda fd: shared(repo, fd))


def _read(index: PrivateIndex, sparse: bool, *, tree: bool = True) -> IndexFacts:
    """Ask git for the facts: one listing, and one ``tree``. ``ls-files -v`` shows every bit but intent-to-add, which no tree
    holds."""
    width, empty = index.width * 2, object_id(index.repo.layout.algorithm, "blob", b"").encode()
    items = index._listed().split(b"\0")[:-1]
    stage_at, path_at = 10 + width, 12 + width
    odd = [
        i for i in items if i[:2] != b"H " or i[2:8] == b"160000" or i[stage_at:path_at] != b"0\t" or i[9 : 9 + width] == empty
    ]
    stages, bits, gitlinks, maybe_ita = [], {}, [], []
    for item in odd:
        tag, mode, oid = item[:1], item[2:8], item[9 : 9 + width]
        stage, path = int(item[stage_at : stage_at + 1]), item[path_at:]
        if stage:
            stages.append((stage, path, mode, oid.decode("ascii")))
            continue
        letters = ("a" if tag.islower() else "") + ("s" if tag in b"Ss" and not sparse else "")
        if letters:
            bits[path] = letters
        if mode == b"160000":
            gitlinks.append(os.fsdecode(path))
        if oid == empty:
            maybe_ita.append(path)
    staged, lost = _staged_tree(index, {path for _, path, _, _ in stages}) if tree else ("", [])
    for path in _missing(index, staged, maybe_ita) if tree else ():
        bits[path] = bits.get(path, "") + "i"
    flags = tuple(Flag(path=os.fsdecode(path), bits=letters) for path, letters in sorted(bits.items()))
    return IndexFacts(tree=staged, flags=flags, stages=tuple(stages), gitlinks=tuple(gitlinks), lost=tuple(lost))


def _staged_tree(index: PrivateIndex, unmerged: Collection[bytes]) -> tuple[Oid, list[str]]:
    """Return the tree of what is staged, and the paths that cannot be in it, because their objects are gone and not on disk."""
    try:
        return _tree_without(index, unmerged), []
    except GitError:
        rows = [(mode, oid, path) for mode, oid, stage, path in index_entries(index.git) if stage == "0"]
        gone = missing(index.repo.objects, [oid for mode, oid, _ in rows if mode != "160000"])
        lost = [path for _, oid, path in rows if oid in gone]
        if not lost:
            raise
        return _tree_without(index, {*unmerged, *map(os.fsencode, lost)}), lost


def _tree_without(index: PrivateIndex, unmerged: Collection[bytes]) -> Oid:
    if not unmerged:
        return index.write_tree()
    second = PrivateIndex(index.repo, index.path, index.path + ".staged")
    second.git = index.repo.writing(second.git)
    second.copy()
    second.forget(os.fsdecode(path) for path in unmerged)
    return second.write_tree()


def _missing(index: PrivateIndex, tree: Oid, paths: list[bytes]) -> list[bytes]:
    """Return those of ``paths`` (stage-0 entries of the empty blob) that the tree does not hold: intent-to-add."""
    if not paths:
        return []
    held = set(index.git.out("ls-tree", "-r", "-z", "--name-only", tree).split(b"\0"))
    return [path for path in paths if path not in held]


def stages_tree(
    index: PrivateIndex,
    facts: IndexFacts,
    kept: Mapping[str, Sequence[tuple[str, str, Oid]]],
    skipped: Sequence[Skipped],
    modes: bytes,
    links: Sequence[str],
) -> tuple[NewObject, ...]:
    """Make the tree of the unmerged stages under ``1/ 2/ 3/``, of a blob ``flags`` when the JSON cannot list them all, of what
    is ``kept`` (path, mode, blob) in folders beside these, of a blob with the paths that were ignored until now, when the JSON
    cannot list all that was ``skipped``, of a blob ``modes`` where permissions are listed, and of a blob with the ``links``.

    Its last object is the tree; there is none when nothing is unmerged, the lists are short and nothing is kept.
    """
    algorithm = index.repo.layout.algorithm
    rows = [
        *((f"{stage}/{os.fsdecode(path)}", mode.decode("ascii"), oid) for stage, path, mode, oid in facts.stages),
        *((f"{folder}/{path}", mode, oid) for folder, files in kept.items() for path, mode, oid in files),
    ]
    before = [s.path for s in skipped if s.reason == IGNORED]
    more = facts.flags if len(listed(facts.flags)) < len(facts.flags) else ()
    lists = {
        "flags": b"".join(f.bits.encode() + b"\t" + os.fsencode(f.path) + b"\0" for f in more),
        IGNORED: _paths(before) if listed_paths([s.path for s in skipped]) < len(skipped) else b"",
        "modes": modes,
        LINKS: _paths(links),
    }
    made = {name: new_object(algorithm, "blob", data) for name, data in lists.items() if data}
    rows += [(name, "100644", blob.oid) for name, blob in made.items()]
    return (*made.values(), *tree_objects(algorithm, rows)) if rows else ()


def _paths(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def listed(flags: tuple[Flag, ...]) -> tuple[Flag, ...]:
    """Return those of the flags that the JSON lists: at most 1,000, and 128 KiB of paths."""
    room = MAX_FLAG_BYTES
    for number, flag in enumerate(flags):
        room -= len(os.fsencode(flag.path))
        if room < 0 or number == MAX_FLAGS:
            return flags[:number]
    return flags
