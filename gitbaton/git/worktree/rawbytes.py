"""Raw bytes: files that a checkout would not give back as they are on disk, kept byte for byte; which ones git may convert, and
what it made of a blob at another time.

The ``.gitattributes`` files of then are in trees. What else has a say (``core.autocrlf``, ``core.eol``, ``core.symlinks``,
``core.attributesFile`` and ``info/attributes``) is of one machine: a file in the common directory tells since when it is what
it is.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitTimeoutError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import closing_fd, open_file, read_or_none
from gitbaton.base.system.process import Process, verb
from gitbaton.base.values import replace, value
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import NewObject, Objects, entries_of, new_object, object_id, tree_objects
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import Git, quoted, taken_back, zsplit
from gitbaton.git.worktree.filetrees import LINK, hash_blob, is_safe, read_tree
from gitbaton.git.worktree.gate import NO_DRIVER, OFF, filters, folders_of, has_attributes, has_links, setting
from gitbaton.git.worktree.heldbytes import HeldOid, HeldStore
from gitbaton.git.worktree.index import PrivateIndex

ATTRIBUTES = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
NAME = ".gitattributes"
_MOST = 100 << 20  # bytes of an attributes file that git reads
_KEPT = 1000  # changes of what this machine says that are remembered
_PLAIN = ("unspecified", "unset")
Entry = tuple[str, str, Oid]
_FILE_MODES = ("100644", "100755")
_CHUNK = 1 << 20
_SMALL = 1 << 20  # files up to here are held, and written together; larger ones are streamed through git one by one
_HELD = 32 << 20
_PATIENCE = 3  # paths that one filter may fail on before it is asked no more
_ONE_BY_ONE = 50  # files asked for alone, because some filter failed
_NAMED = 500  # paths on one command line, and how many bytes of them
_NAMED_BYTES = 100_000
_FAILED = re.compile(r"^error: .*(?:filter|subprocess)", re.M)


def conversions(repo: Repo, root: str, paths: Collection[str], git: Git | None = None) -> dict[str, str]:
    """Return those of ``paths`` that git may change on the way in or out, each with the filter that it stands behind, or "";
    the rest come back as they are.

    No process is started where neither attributes nor core.autocrlf are in play. ``git`` says which index counts.
    """
    auto = setting(repo, "core.autocrlf") not in OFF
    if not paths or not (auto or has_attributes(repo, root, paths)):
        return {}
    crlf = setting(repo, "core.autocrlf") not in (*OFF, "input") or setting(repo, "core.eol") == "crlf"
    found = {}
    for path, values in attributes(git or repo.git, list(dict.fromkeys(paths))):
        said = dict(zip(ATTRIBUTES, values, strict=True))
        kind = conversion(said, auto=auto)
        if kind == "any" or (kind == "eol" and (crlf or said["eol"] == "crlf" or _has_return(root, path))):
            found[path] = said["filter"] if said["filter"] not in NO_DRIVER else ""
    return found


def attributes(git: Git, paths: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each path with its values of ``ATTRIBUTES``, as ``git`` sees them."""
    stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
    fields = zsplit(git.out("check-attr", "-z", "--stdin", *ATTRIBUTES, stdin=stdin)) if paths else []
    width = 3 * len(ATTRIBUTES)  # path, name, value
    for at in range(0, len(fields), width):
        yield fields[at], tuple(fields[at + 2 : at + width : 3])


def conversion(attributes: Mapping[str, str], *, auto: bool) -> str:
    """Return the conversion of a file with these attributes: ``any``, only one of line ends (``eol``), or ""."""
    driver, encoding = attributes["filter"], attributes["working-tree-encoding"]
    if attributes["ident"] == "set" or driver not in (*_PLAIN, "set") or encoding not in _PLAIN:
        return "any"
    text = attributes["text"] if attributes["text"] != "unspecified" else attributes["crlf"]
    if text == "unset":
        return ""
    return "eol" if auto or text != "unspecified" or attributes["eol"] not in _PLAIN else ""


def _has_return(root: str, path: str) -> bool:
    """Whether a file has a carriage return, without which a checkout with plain line feeds has nothing to convert."""
    fd = open_file(root, path)
    if fd is None:
        return True
    with open(fd, "rb", buffering=0) as file:
        return any(b"\r" in chunk for chunk in iter(lambda: file.read(_CHUNK), b""))


def entries(git: Git, tree: Oid, paths: Sequence[str] | None = None, modes: Collection[str] = _FILE_MODES) -> list[Entry]:
    """Return the regular files in a tree, or what has other ``modes``, or of them those among ``paths``: path, mode, id."""
    wanted, result = set(paths or ()), []
    literal = git.changed({"GIT_LITERAL_PATHSPECS": "1"})
    for names in _portions(paths) if paths is not None else ((),):
        for item in literal.out("ls-tree", "-r", "-z", "--full-tree", tree, "--", *names).split(b"\0")[:-1]:
            meta, _, name = item.partition(b"\t")
            mode, _, oid = meta.decode("ascii").split(" ")
            path = os.fsdecode(name)
            if (paths is None or path in wanted) and mode in modes:
                result.append((path, mode, oid))
    return result


def _portions(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the paths in groups that fit on a command line; nothing, which means all of a tree, where that would be many."""
    if len(paths) > _NAMED * 10:
        yield ()
        return
    at = 0
    while at < len(paths):
        room, end = _NAMED_BYTES, at
        while end < len(paths) and end - at < _NAMED and (room := room - len(os.fsencode(paths[end]))) >= 0:
            end += 1
        yield paths[at : max(end, at + 1)]
        at = max(end, at + 1)


def differing(git: Git, root: str, files: Sequence[Entry]) -> dict[str, Entry]:
    """Return those of (path, mode, blob id), by path, that differ from their checkout on disk. A file counts if its filter
    fails. ``git`` is bound to the index that counts.

    Never through a symbolic link; files that are not there are left out. Raises GitError.
    """
    regular = [f for f in files if f[1] in _FILE_MODES]
    sure = {f[0] for f in _index_only(git, root, regular)}
    asked = [f for f in regular if f[0] not in sure]
    plain = [f for f in asked if "\n" not in f[0] and not f[0].endswith("\r") and f[0][0] not in " \t"]
    kept = sure | _batches(git, root, plain)
    kept |= {f[0] for f in set(asked).difference(plain) if not _same_alone(git, root, f)}
    return {f[0]: f for f in regular if f[0] in kept and _is_there(root, f[0])}


def blob_at(repo: Repo, root: str, path: str) -> Oid | None:
    """Return the id that the bytes of a regular file have as a blob, which is not written; None where there is none to be
    read."""
    fd = open_file(root, path)
    if fd is None:
        return None
    with closing_fd(fd):
        return hash_blob(repo.layout.algorithm, fd, os.fstat(fd).st_size)


def _is_there(root: str, path: str) -> bool:
    """Whether a path is a regular file that can be read."""
    fd = open_file(root, path)
    if fd is not None:
        os.close(fd)
    return fd is not None


def _index_only(git: Git, root: str, files: Sequence[Entry]) -> list[Entry]:
    """Return the files below an attributes file that only the index holds: git's checkout heeds it, and ``cat-file`` does
    not."""
    if not files:
        return []
    listed = zsplit(git.out("ls-files", "-z", "--", ":(top,glob)**/.gitattributes"))
    folders = [os.path.dirname(p) for p in listed if not os.path.lexists(os.path.join(root, p))]
    return [f for f in files if any(f[0].startswith(folder + "/" if folder else "") for folder in folders)]


def _batches(git: Git, root: str, files: Sequence[Entry]) -> set[str]:
    """Return the paths that differ. A required filter that fails ends git: the rest is asked again, and soon without that
    filter."""
    kept: set[str] = set()
    drivers: dict[str, str] | None = None
    failures: dict[str, int] = {}
    rest = list(files)
    while rest:
        found, done, said = _batch(git, root, rest)
        kept |= found
        if done == len(rest) and not _FAILED.search(said):
            break
        drivers = filters(git, [f[0] for f in rest]) if drivers is None else drivers
        if _FAILED.search(said):  # git passes on what it has where an optional filter fails, and does not say of which path
            doubtful = [f for f in rest[:done] if f[0] in drivers and f[0] not in kept]
            kept |= {f[0] for at, f in enumerate(doubtful) if at >= _ONE_BY_ONE or not _same_alone(git, root, f)}
        if done == len(rest):
            break
        culprit = rest[done][0]
        kept.add(culprit)
        name = drivers.get(culprit, "")
        failures[name] = failures.get(name, 0) + 1
        rest = rest[done + 1 :]
        if failures[name] >= _PATIENCE:
            kept |= {f[0] for f in rest if drivers.get(f[0], "") == name}
            rest = [f for f in rest if drivers.get(f[0], "") != name]
    return kept


def _batch(git: Git, root: str, files: Sequence[Entry]) -> tuple[set[str], int, str]:
    """Compare files with one ``cat-file --batch --filters``; return those that differ, how many were answered, and git's
    complaints.

    The size that git prints there is of the unfiltered blob: a name that cannot be guessed marks the end of each answer.
    """
    nonce = b"baton." + os.urandom(20).hex().encode()
    lines = (oid.encode() + b" " + os.fsencode(path) + b"\n" + nonce + b" -\n" for path, _, oid in files)
    output = _Output(git.start("cat-file", "--batch", "--filters", stdin=b"".join(lines)))
    kept, done = set(), 0
    try:
        for path, _, oid in files:
            line = output.line()
            answered = line is not None and line.startswith(oid.encode() + b" blob ")
            trailer = (b"\n" if answered else b"") + nonce + b" missing\n"
            same = answered and output.equals(root, path, trailer)
            if not same and not output.skip(trailer):
                break
            kept |= set() if same else {path}
            done += 1
    finally:
        said = output.end()
    return kept, done, said


def _same_alone(git: Git, root: str, file: Entry) -> bool:
    """Whether a file, of a path that does not fit into a line of a batch, is on disk as a checkout gives it."""
    path, _, oid = file
    output = _Output(git.start("cat-file", "--filters", f"--path={path}", oid))
    same = output.equals(root, path, b"") and not output.more()
    return not _FAILED.search(output.end()) and same and output.code == 0


class _Output:
    """The output of a git command, piece by piece."""

    def __init__(self, process: Process) -> None:
        self.process, self.buffer, self.code = process, bytearray(), 0
        self.pieces = process.pieces()

    def more(self) -> bool:
        """Read on; False at the end. Raises GitTimeoutError."""
        piece = next(self.pieces, b"")
        if not piece and not self.process.ended:
            raise GitTimeoutError(f"'git {verb(self.process.argv)}' did not answer in its time and was stopped")
        self.buffer += piece
        return bool(piece)

    def line(self) -> bytes | None:
        """Return the next line without its end; None when there is none."""
        while (end := self.buffer.find(b"\n")) < 0:
            if not self.more():
                return None
        found = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return found

    def takes(self, data: bytes) -> bool:
        """Whether ``data`` comes next; if so, it is consumed."""
        while len(self.buffer) < len(data):
            if not self.more():
                return False
        if not self.buffer.startswith(data):
            return False
        del self.buffer[: len(data)]
        return True

    def equals(self, root: str, path: str, trailer: bytes) -> bool:
        """Whether the bytes of a file come next, and then ``trailer``."""
        fd = open_file(root, path)
        if fd is None:
            return False
        with open(fd, "rb", buffering=0) as file:
            return all(self.takes(chunk) for chunk in iter(lambda: file.read(_CHUNK), b"")) and self.takes(trailer)

    def skip(self, trailer: bytes) -> bool:
        """Read on to behind the next ``trailer``; return False when there is none."""
        while (at := self.buffer.find(trailer)) < 0:
            del self.buffer[: max(0, len(self.buffer) - len(trailer) + 1)]
            if not self.more():
                return False
        del self.buffer[: at + len(trailer)]
        return True

    def end(self) -> str:
        """Take no interest in what is left, and wait for the command; its complaints. Raises GitTimeoutError."""
        for _ in self.pieces:
            pass
        result = self.process.finish()
        self.code = result.code
        return result.err


def _store(git: Git, root: str, files: Sequence[Entry]) -> dict[str, Oid]:
    """Write the bytes on disk as blobs, the small ones together; path -> blob id."""
    door = BinaryObjects(git, "", "", "sha1" if files and len(files[0][2]) == 40 else "sha256")
    stored: dict[str, Oid] = {}
    held, size = [], 0
    for path, _, _ in files:
        fd = open_file(root, path)
        if fd is None:
            continue
        with open(fd, "rb", buffering=0) as file:
            if os.fstat(fd).st_size > _SMALL:
                stored[path] = git.blob(fd)
                continue
            data = b"".join(iter(lambda: file.read(_CHUNK), b""))
        held.append(new_object(door.algorithm, "blob", data))
        stored[path] = held[-1].oid
        size += len(data)
        if size > _HELD:
            door.write(held)
            held, size = [], 0
    door.write(held)
    return stored


@value
class KeptBytes:
    """Files that a checkout would not give back byte for byte, by path: those of ``raw`` are in the checkpoint, and those of
    ``held``, which stand behind a filter, in the git directory, with a stand-in in the checkpoint. ``staged``: the same of the
    index."""

    raw: tuple[Entry, ...] = ()
    held: tuple[Entry, ...] = ()
    staged: tuple[Entry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.raw or self.held)

    def __or__(self, other: KeptBytes) -> KeptBytes:
        staged = _sorted((*self.staged, *other.staged))
        return KeptBytes(raw=_sorted((*self.raw, *other.raw)), held=_sorted((*self.held, *other.held)), staged=staged)

    @property
    def oids(self) -> dict[str, Oid]:
        """The blob of each, or its stand-in."""
        return {path: oid for path, _, oid in self.raw} | {path: HeldOid(oid) for path, _, oid in self.held}


def _sorted(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda e: os.fsencode(e[0])))


def keep(index: PrivateIndex, tree: Oid, paths: Sequence[str]) -> KeptBytes:
    """Keep the bytes of those of ``paths`` that a checkout of ``tree`` would not give back.

    ``tree`` was captured with ``index``. Raises GitError.
    """
    repo, root = index.repo, index.repo.layout.root
    # Not the index's own git, for which every filter is required.
    git = repo.git.changed({"GIT_INDEX_FILE": index.git.env["GIT_INDEX_FILE"]})
    found = conversions(repo, root, paths, git) if root is not None else {}
    if not found or root is None:
        return KeptBytes()
    files = entries(git, tree, list(found))
    kept = differing(git, root, files)
    stored = _store(git, root, [f for f in files if f[0] in kept and not found[f[0]]])
    raw = [(path, mode, stored[path]) for path, mode, _ in files if path in stored]
    behind = [(path, mode, found[path]) for path, mode, _ in files if path in kept and found[path]]
    return KeptBytes(raw=_sorted(raw), held=_sorted(hold(repo, root, behind)))


def hold(repo: Repo, root: str, files: Sequence[tuple[str, str, str]]) -> list[Entry]:
    """Keep the bytes of files (path, mode, filter) that their filters have cleaned; entries with their stand-ins, which are
    written."""
    store, texts = HeldStore(repo), []
    for path, mode, driver in files:
        fd = open_file(root, path)
        if fd is None:
            continue
        with open(fd, "rb", buffering=0) as file:
            held, _ = store.hold(path, file.fileno(), driver, cleaned=True)
        texts.append((path, mode, new_object(repo.layout.algorithm, "blob", held.text)))
    repo.stow([text for _, _, text in texts])
    return [(path, mode, text.oid) for path, mode, text in texts]


def read_kept(objects: Objects, stages: Oid, prefix: bytes = b"") -> dict[str, Oid]:
    """Return the blobs of ``read_raw`` and the stand-ins below ``held/``; or of folders with names that begin with
    ``prefix``."""
    held = {path: HeldOid(oid) for path, oid in read_raw(objects, stages, prefix + b"held").items()}
    return read_raw(objects, stages, prefix + b"raw") | held


def read_raw(objects: Objects, stages: Oid, folder: bytes = b"raw") -> dict[str, Oid]:
    """Return the blobs below ``raw/``, or another folder, in the tree of an index commit's second parent, by path.

    Only paths that are regular files of the checkpoint's tree may be put back from them. Raises RecordError for what no
    snapshot writes.
    """
    listed = entries_of(objects, stages)
    if listed is None:
        raise RecordError(f"tree {stages} is not there")
    top = [e for e in listed if e.name == folder]
    if len(top) != 1 or not top[0].is_tree:
        if top:
            raise RecordError(f"tree {stages} has a malformed {in_quotes(folder.decode())}")
        return {}
    found = read_tree(objects, top[0].oid)
    if any(entry.mode == LINK for entry in found.values()):
        raise RecordError(f"tree {stages} has an entry below {in_quotes(folder.decode())} that is no file")
    return {path: entry.oid for path, entry in found.items()}


@value
class LocalAttributes:
    """The settings of this machine that count beside the ``.gitattributes`` files of trees: ``core.autocrlf`` and
    ``core.eol``, the texts of ``core.attributesFile`` and ``info/attributes``, and ``core.symlinks``."""

    autocrlf: str = ""
    eol: str = ""
    general: str = ""
    info: str = ""
    symlinks: str = "true"

    def converts_as(self, other: LocalAttributes) -> bool:
        """Whether files are converted in the same way."""
        return replace(self, symlinks=other.symlinks) == other


def local_attributes(repo: Repo) -> LocalAttributes:
    """Return the settings of this machine now."""
    given = repo.settings().get("core.attributesfile", [""])[-1]
    home = repo.git.env.get("XDG_CONFIG_HOME") or os.path.join(repo.git.env.get("HOME", ""), ".config")
    general = os.path.expanduser(given) if given else os.path.join(home, "git", "attributes")
    return LocalAttributes(
        autocrlf=setting(repo, "core.autocrlf"),
        eol=setting(repo, "core.eol"),
        general=_text(os.path.join(repo.layout.root or "", general)),
        info=_text(os.path.join(repo.layout.common_dir, "info", "attributes")),
        symlinks=str(has_links(repo)).lower(),
    )


def _text(path: str) -> str:
    return os.fsdecode(read_or_none(path, _MOST, follow=True) or b"")


def _memory(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "attributes")


def _remembered(repo: Repo) -> Iterator[tuple[str, LocalAttributes, bytes]]:
    """Yield what was said since which moment, the oldest first, each with its line; a line that cannot be read is left out."""
    for line in (read_or_none(_memory(repo), _MOST) or b"").splitlines():
        try:
            said = json.loads(line)
            since, texts = said["since"], {key: said[key] for key in ("autocrlf", "eol", "general", "info", "symlinks")}
        except (ValueError, KeyError, TypeError):
            continue
        if all(isinstance(text, str) for text in (since, *texts.values())):
            yield since, LocalAttributes(**texts), line


def remember_attributes(repo: Repo, since: datetime) -> None:
    """Write down what this machine says now, for the checkpoint that is made at ``since`` and those that follow. Raises
    OSError."""
    now, known = local_attributes(repo), list(_remembered(repo))
    if known and known[-1][1] == now:
        return
    said = {
        "since": _moment(since),
        "autocrlf": now.autocrlf,
        "eol": now.eol,
        "general": now.general,
        "info": now.info,
        "symlinks": now.symlinks,
    }
    lines = [*(line for _, _, line in known[1 - _KEPT :]), json.dumps(said).encode("ascii")]
    put(repo, _memory(repo), b"".join(line + b"\n" for line in lines))


def attributes_at(repo: Repo, moment: datetime) -> LocalAttributes | None:
    """Return the settings of this machine when a checkpoint was made here; None where they are not recorded."""
    found = [said for since, said, _ in _remembered(repo) if since <= _moment(moment)]
    return found[-1] if found else None


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def attribute_files(repo: Repo, tree: Oid) -> dict[str, Oid]:
    """Return the attributes files of a tree, by path; git heeds none that is a link."""
    from gitbaton.git.worktree.checkout import differences  # late: a snapshot needs it where attributes changed

    nothing = object_id(repo.layout.algorithm, "tree", b"")
    found = differences(repo.git, nothing, tree, [f":(top,glob)**/{NAME}"])
    return {d.path: d.then.oid for d in found if d.then is not None and d.then.mode[:3] == "100"}


class Conversion:
    """The conversion of files by the attributes ``files`` (path, blob) of a tree, and by the settings of this machine then.

    ``folder`` is one of ours, ``local`` None where it is as now.
    """

    def __init__(self, repo: Repo, folder: str, files: Mapping[str, Oid], local: LocalAttributes | None) -> None:
        self.repo, self.files = repo, dict(files)
        self.place = os.path.join(folder, f"conversion.{time.monotonic_ns()}")
        self.now = local_attributes(repo)
        self.local = local or self.now

    def tree(self) -> list[NewObject]:
        """Return the objects of a tree of these attributes files, the tree last."""
        return tree_objects(self.repo.layout.algorithm, [(path, "100644", oid) for path, oid in self.files.items()])

    @cached_property
    def git(self) -> Git:
        """Git that converts so: bound to a repository of its own with these attributes, and with our objects. Filters are run
        where the user's git runs them. Raises GitError."""
        repo, root = self.repo, self.repo.layout.root or self.repo.layout.git_dir
        top = os.path.join(self.place, "files")
        self._lay_out(top)
        repo.settings()  # which says what filters there are
        env = {
            "GIT_DIR": self.place,
            "GIT_COMMON_DIR": self.place,
            "GIT_WORK_TREE": top,
            "GIT_INDEX_FILE": os.path.join(self.place, "index"),
            "GIT_OBJECT_DIRECTORY": repo.objects_dir,
        }
        settings = [
            f"core.autocrlf={self.local.autocrlf or 'false'}",
            f"core.eol={self.local.eol or 'native'}",
            f"core.attributesFile={os.path.join(self.place, 'general')}",
            "core.safecrlf=false",
        ]
        git = repo.git.changed(env, directory=top)
        first = (taken_back(git.env, repo.opened.env) + f"cd {quoted(root)} || exit; ").replace("%", "%%")
        for key, _, text in (one.partition("=") for one in git.config):
            if key.startswith("filter.") and key.endswith((".smudge", ".process")) and text:
                settings.append(f"{key}={first}{text}")
        return git.changed({}, *settings)

    def _lay_out(self, top: str) -> None:
        """Write the repository and its work tree, which hold nothing else."""
        repo, layout = self.repo, self.repo.layout
        for name in ("objects", "refs", "info", "files"):
            os.makedirs(os.path.join(self.place, name), exist_ok=True)
        text = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = " + layout.algorithm + "\n"
        for path in (os.path.join(layout.common_dir, "config"), os.path.join(layout.git_dir, "config.worktree")):
            text += '[include]\n\tpath = "' + path.replace("\\", "\\\\").replace('"', '\\"') + '"\n'
        written = {
            "HEAD": "ref: refs/heads/main\n",
            "config": text,
            "general": self.local.general,
            "info/attributes": self.local.info,
        }
        for name, content in written.items():
            with open(os.path.join(self.place, name), "wb") as file:
                file.write(os.fsencode(content))
        for path, oid in self.files.items():
            found = repo.objects.read(oid, _MOST)
            if is_safe(path) and found is not None and found.data is not None:
                os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
                with open(os.path.join(top, path), "wb") as file:
                    file.write(found.data)

    def turned(self, git: Git, files: Sequence[Entry]) -> list[Entry]:
        """Return the files that are converted otherwise than by ``git``, which sees what counts now. Raises GitError."""
        paths = [path for path, _, _ in files]
        then, now = dict(attributes(self.git, paths)), dict(attributes(git, paths))
        found = {path for path in paths if then[path] != now[path]}
        if (self.local.autocrlf, self.local.eol) != (self.now.autocrlf, self.now.eol):
            both = ((path, dict(zip(ATTRIBUTES, of[path], strict=True))) for of in (then, now) for path in paths)
            found |= {path for path, said in both if conversion(said, auto=True)}
        return [file for file in files if file[0] in found]

    def content(self, path: str, oid: Oid) -> bytes:
        """Return the bytes of a checkout of a blob. Raises GitError."""
        return self.git.out("cat-file", "--filters", f"--path={path}", oid)


def conversion_of(repo: Repo, folder: str, tree: Oid, now: Oid, local: LocalAttributes | None) -> Conversion:
    """Return the conversion by the attributes of a tree; ``now`` is the tree of the work tree. An attributes file on disk that
    neither has, because it is ignored, counts as it is. Raises GitError."""
    files, here = attribute_files(repo, tree), attribute_files(repo, now)
    names = {os.path.join(at, NAME) for at in folders_of(path for path, _, _ in entries(repo.git, tree))}
    found = {path: read_or_none(os.path.join(repo.layout.root or "", path), _MOST) for path in names.difference(files, here)}
    blobs = {path: new_object(repo.layout.algorithm, "blob", data) for path, data in found.items() if data is not None}
    repo.stow(list(blobs.values()))
    return Conversion(repo, folder, files | {path: blob.oid for path, blob in blobs.items()}, local)
