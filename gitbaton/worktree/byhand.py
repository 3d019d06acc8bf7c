"""Capture by hand: a few plain files that differ are hashed here and put into the staged tree, with no index and no process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from gitbaton.errors import GitError
from gitbaton.git.loose import stow
from gitbaton.git.objects import NewObject, Objects, new_object
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.system.files import lasting, open_file, signature
from gitbaton.worktree.conversions import may_convert
from gitbaton.worktree.filetrees import is_safe
from gitbaton.worktree.index import Facts, Taken
from gitbaton.worktree.swap import look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.worktree.putback import Entry

_MOST = 64
_MOST_BYTES = 1 << 20  # of a file, or of the listing of a folder

Files = Mapping[bytes, tuple[bytes, Oid] | None]  # mode and blob by path; None: it is gone


class _AskGitError(Exception):
    """Git must look itself."""


def taken_in(repo: Repo, root: str, facts: Facts, paths: Sequence[str], *, still: bool) -> tuple[Oid, dict[str, Taken]] | None:
    """The tree of the index with these paths as they are on disk, in the quarantine: the very one that ``git add`` and
    ``write-tree`` make; and what each is. ``still``: a mark tells for ever whether a file is that.

    None where that is more than bytes: many or large files, what is converted, links, bits of the index, names that git may
    refuse, a disk on which modes or the case of names mean nothing, a file that changes meanwhile.
    """
    odd = facts.flags or facts.stages or len(paths) > _MOST or not all(map(_is_plain, paths)) or {*paths} & {*facts.gitlinks}
    if odd or not _counts_all(repo) or may_convert(repo, root, paths):
        return None
    made: list[NewObject] = []
    try:
        taken = {path: _stored(repo, root, path, made, still=still) for path in paths}
        made += _edited(repo.objects, facts.tree, {os.fsencode(path): entry for path, (_, entry) in taken.items()})
        stow(repo, made)
    except (_AskGitError, GitError):
        return None
    return made[-1].oid, taken


def with_files(repo: Repo, tree: Oid, wanted: Mapping[str, Entry | None]) -> Oid | None:
    """A tree with some paths as wanted, in the quarantine. None where they are many, or git must look."""
    if len(wanted) > _MOST:
        return None
    try:
        files = {os.fsencode(path): (e.mode.encode(), e.oid) if e else None for path, e in wanted.items()}
        made = _edited(repo.objects, tree, files)
        stow(repo, made)
    except (_AskGitError, GitError):
        return None
    return made[-1].oid


def _is_plain(path: str) -> bool:
    """Whether no git on any system minds a path, and what lies there says nothing of other files."""
    return is_safe(path) and "\\" not in path and ":" not in path and path.rpartition("/")[2] != ".gitattributes"


def _counts_all(repo: Repo) -> bool:
    """Whether the disk has modes, links and the case of names, and all files are there."""
    whole = repo.boolean("core.filemode", default=True) and repo.boolean("core.symlinks", default=True)
    return whole and not repo.boolean("core.ignorecase") and not repo.boolean("core.sparsecheckout")


def _stored(repo: Repo, root: str, path: str, made: list[NewObject], *, still: bool) -> Taken:
    """A file, its blob among the objects to be written."""
    now, fd = time.time_ns(), open_file(root, path)
    if fd is None:
        try:
            os.lstat(os.path.join(root, path))
        except (FileNotFoundError, NotADirectoryError):
            return None, None
        except OSError:
            pass
        raise _AskGitError
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        data = file.read(_MOST_BYTES + 1)
    seen = signature(found)
    if look_at(os.path.join(root, path)) != seen:
        raise _AskGitError
    if len(data) != found.st_size or len(data) > _MOST_BYTES or (still and not lasting(found.st_ctime_ns, now)):
        raise _AskGitError
    made.append(new_object(repo.layout.algorithm, "blob", data))
    return seen, (b"100755" if found.st_mode & 0o100 else b"100644", made[-1].oid)


def _edited(objects: Objects, tree: Oid | None, files: Files) -> list[NewObject]:
    """The trees to write so that files stand below a tree, or do not; the last one is the root. Empty folders go."""
    entries = _listing(objects, tree) if tree else {}
    own = {path: new for path, new in files.items() if b"/" not in path}
    folders: dict[bytes, dict[bytes, tuple[bytes, Oid] | None]] = {}
    for path, new in files.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            folders.setdefault(name, {})[rest] = new
    made: list[NewObject] = []
    for name, below in folders.items():
        if name in entries and own.get(name, b"") is not None:
            raise _AskGitError  # both a file and a folder
        stands = entries.pop(name + b"/", None)
        deeper = _edited(objects, stands[-_width(objects) :].hex() if stands else None, below)
        if deeper[-1].data:
            made += deeper
            entries[name + b"/"] = _entry(b"40000", name, deeper[-1].oid)
    for name, now in own.items():
        if now is None:
            entries.pop(name, None)
        elif name + b"/" in entries:
            raise _AskGitError
        else:
            entries[name] = _entry(now[0], name, now[1])
    return [*made, new_object(objects.algorithm, "tree", b"".join(entries[name] for name in sorted(entries)))]


def _listing(objects: Objects, tree: Oid) -> dict[bytes, bytes]:
    """The raw entries of a tree by what they are sorted by: a folder's name has a slash behind it."""
    found = objects.read(tree, _MOST_BYTES)
    if found is None or found.kind != "tree" or found.data is None:
        raise _AskGitError
    data, width, entries, at = found.data, _width(objects) + 1, dict[bytes, bytes](), 0
    while at < len(data):
        space = data.find(b" ", at)
        end = data.find(b"\0", space)
        name = data[space + 1 : end]
        if space < 0 or end < 0 or end + width > len(data):
            raise _AskGitError
        entries[name + b"/" if data[at:space] == b"40000" else name] = data[at : end + width]
        at = end + width
    return entries


def _entry(mode: bytes, name: bytes, oid: Oid) -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex(oid)


def _width(objects: Objects) -> int:
    return 20 if objects.algorithm == "sha1" else 32
