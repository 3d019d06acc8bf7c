"""LATEST.md and LATEST.json: the tips of all tracks, mirrored into the work tree. Written, never trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import UsageError
from gitbaton.base.model import Checkpoint, Oid, Stored
from gitbaton.base.system.files import closing_fd, open_below, read_regular, write_atomic
from gitbaton.base.values import value
from gitbaton.checkpoints.render import latest_json, latest_markdown
from gitbaton.checkpoints.store import CURRENT, tip_ref
from gitbaton.git import questions
from gitbaton.git.objects import lookup
from gitbaton.git.repo import Repo, make_folder, put, shared, sharing
from gitbaton.git.run import zsplit

NAMES = ("LATEST.md", "LATEST.json")
EXPORTED = "context_checkpoint_"  # how the names of the files of 'export --history' begin
_GENERATED = re.compile(rb'\n  "generated": "([0-9TZ:.-]{27})",\n')
_MARKS = {
    "LATEST.md": re.compile(rb"<!-- written by git baton at "),
    "LATEST.json": re.compile(rb'\{\n  "current_track": [^\n]*,\n  "generated": "[0-9TZ:.-]{27}",\n  "tracks": '),
}
_GITLINK = b"160000"
_AT_ONCE = 200  # files that are made at a time
_GLOB = re.compile(r"([\\*?\[#! ])")


@value
class LatestPlace:
    """Place of LATEST: ``directory`` absolute; ``inside`` its path below the work tree's root, or None."""

    directory: str
    inside: str | None
    root: str | None

    def paths(self) -> tuple[str, ...]:
        """The files' paths in the work tree; none when they lie outside it."""
        if self.inside is None:
            return ()
        return tuple(os.path.normpath(os.path.join(self.inside, name)) for name in NAMES)


def place(repo: Repo, configured: str) -> LatestPlace | None:
    """The mirror's place; None in a bare repository with a relative directory. Raises UsageError for one inside ``.git``."""
    root = repo.layout.root
    if any(ord(c) < 32 or ord(c) == 127 for c in configured):
        raise UsageError("the checkpoint directory's name has a control character")
    if root is None and not os.path.isabs(configured):
        return None
    directory = os.path.normpath(os.path.join(root or "/", configured))
    real = os.path.realpath(directory)
    if root is not None and not _below(directory, root) and _below(real, os.path.realpath(root)):
        directory = os.path.join(root, os.path.relpath(real, os.path.realpath(root)))
    # A work tree may lie inside its bare repository; then only what is not below that work tree is git's.
    git_dirs = [d for d in (repo.layout.git_dir, repo.layout.common_dir) if root is None or not _below(root, d)]
    if any(_below(directory, d) or _below(real, os.path.realpath(d)) for d in git_dirs):
        raise UsageError(f"the checkpoint directory '{configured}' is inside the git directory")
    inside = os.path.relpath(directory, root) if root is not None and _below(directory, root) else None
    if inside and ".git" in inside.lower().split("/"):
        raise UsageError(f"the checkpoint directory '{configured}' is inside a git directory")
    return LatestPlace(directory=directory, inside=inside, root=root)


def _below(path: str, top: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(top, ""))


@value
class LatestContent:
    """Content of LATEST: the tips that it names, newest first, and how many other tracks there are. ``wrong``: why it cannot be
    said, else empty."""

    tips: tuple[Stored, ...]
    more: int
    current: str | None
    generated: str
    wrong: str

    def files(self) -> list[bytes]:
        """The files' bytes, in the order of NAMES."""
        return [write(self.current, self.generated, self.tips, self.more) for write in (latest_markdown, latest_json)]


def refresh(
    repo: Repo,
    where: LatestPlace,
    told: Callable[[], LatestContent],
    *,
    only_existing: bool = False,
    staged: Oid | None = None,
    mark: str = "",
) -> list[str]:
    """Bring the files in line with what is ``told``; called with the lock held. What was not written, and why, comes back.

    A file that already says the same is left alone. Files that git tracks are not ours: a repository could ship them.
    ``staged`` is the index's tree, where it is known; else git reads the index. ``mark``: what is equal as long as the same is
    told: where the files are as they were left with it, ``told`` is not called.
    """
    if elsewhere := _elsewhere(repo, where, staged):
        return [] if only_existing else [elsewhere]
    tracked = _tracked(repo, where, staged)
    if tracked:
        return [f"{in_quotes(tracked[0])} is tracked by git, so it is not ours and the LATEST files are not written"]
    try:
        folder = _open(where, create=None if only_existing else repo)
    except OSError as error:
        if only_existing and isinstance(error, FileNotFoundError):
            return []
        return [f"the LATEST files are not written: {in_quotes(where.directory)}: {error.strerror}"]
    try:
        strange = _strange(folder)
        if strange:
            said = (
                f"{in_quotes(os.path.join(where.inside or where.directory, strange[0]))} was not written by git baton and stays"
            )
            return [f"{said}; 'git baton import DIR' takes an older folder in, then move it away"]
        return _write(repo, where, folder, told, only_existing, mark)
    except OSError as error:
        return [f"the LATEST files are not written: {in_quotes(where.directory)}: {error.strerror}"]
    finally:
        os.close(folder)


def _write(
    repo: Repo, where: LatestPlace, folder: int, told: Callable[[], LatestContent], existing: bool, mark: str
) -> list[str]:
    there = [_stands(folder, name) for name in NAMES]
    if existing and not any(there):
        return []
    if mark and _last_mark(repo, where, folder) == mark:
        return _ignore(repo, where.paths())
    told_now = told()
    if told_now.wrong:
        return [f"the LATEST files are left as they are: {told_now.wrong}"]
    warnings = _ignore(repo, where.paths())
    old = [_read(folder, name) for name in NAMES]
    new = told_now.files()
    if old != _as_of(new, told_now.generated, _generated(old[1])):
        for name, data, stands in zip(NAMES, new, there, strict=True):
            if stands or not existing:
                _replace(folder, name, data, _aside(repo, folder), sharing(repo))
    if mark:
        try:
            put(repo, _mark_path(repo), os.fsencode(f"{mark}\n{_stat_key(where, folder)}"))
        except OSError:  # a disk that does not take it costs the next one a moment
            pass
    return warnings


def _as_of(files: Sequence[bytes], generated: str, written: str | None) -> list[bytes]:
    """The files as they would have been written at another time."""
    return [data.replace(generated.encode(), (written or "").encode(), 1) for data in files]


def _mark_path(repo: Repo) -> str:
    return os.path.join(repo.own_dir, "latest")


def drop_mark(repo: Repo) -> None:
    """Forget the mark with which LATEST was left in this work tree: a ref of a track is about to move. Never raises."""
    with suppress(OSError):
        os.unlink(_mark_path(repo))


def _last_mark(repo: Repo, where: LatestPlace, folder: int) -> str:
    """Return the mark with which the files were left as they are now; empty where one was written since."""
    try:
        mark, _, rest = os.fsdecode(read_regular(_mark_path(repo), 1 << 16)).partition("\n")
    except OSError:
        return ""
    return mark if rest == _stat_key(where, folder) else ""


def _stat_key(where: LatestPlace, folder: int) -> str:
    rows = [where.directory]
    for name in NAMES:
        try:
            seen = os.lstat(name, dir_fd=folder)
            rows.append(f"{seen.st_ino}.{seen.st_size}.{seen.st_mtime_ns}.{seen.st_ctime_ns}")
        except OSError:
            rows.append("-")
    return "\n".join(rows)


def is_stale(where: LatestPlace, told: LatestContent) -> bool:
    """Whether LATEST files are there and do not say what is told."""
    try:
        folder = _open(where)
    except OSError:
        return False
    try:
        old = [_read(folder, name) for name in NAMES]
    finally:
        os.close(folder)
    return any(data is not None for data in old) and old != _as_of(told.files(), told.generated, _generated(old[1]))


def write_files(repo: Repo, where: LatestPlace, files: Iterator[tuple[str, bytes]]) -> list[str]:
    """Write files of ours beside LATEST and keep them out of ``git status``; what was not written, and why, comes back.

    One that git tracks is not ours and stays. Some are made before the lock is taken to write them, so that others do not wait
    for all. Raises OSError for a disk that does not take them.
    """
    if elsewhere := _elsewhere(repo, where, None):
        return [elsewhere]
    inside = where.inside
    foreign = {*zsplit(repo.git.out("ls-files", "-z", "--", f":(top,literal){inside}"))} if inside is not None else set[str]()
    paths, warnings = list[str](), list[str]()
    with closing_fd(_open(where, create=repo)) as folder:
        aside, made = _aside(repo, folder), sharing(repo)
        while some := dict(islice(files, _AT_ONCE)):
            with repo.lock(()):
                for name, data in some.items():
                    path = os.path.normpath(os.path.join(inside, name)) if inside is not None else ""
                    if path in foreign:
                        warnings.append(f"{in_quotes(path)} is tracked by git and is not written")
                    else:
                        paths += [path] if path else []
                        _replace(folder, name, data, aside, made)
    with repo.lock(()):
        return warnings + _ignore(repo, paths)


def at(where: LatestPlace, root: str) -> LatestPlace:
    """The same place in another work tree of the repository."""
    if where.inside is None:
        return where
    return LatestPlace(directory=os.path.join(root, where.inside), inside=where.inside, root=root)


def has_files(where: LatestPlace) -> bool:
    """Whether LATEST files stand there."""
    return any(os.path.lexists(os.path.join(where.directory, name)) for name in NAMES)


def foreign(where: LatestPlace) -> list[str]:
    """The names among LATEST.md and LATEST.json at which something stands that we did not write: it is the user's."""
    try:
        folder = _open(where)
    except OSError:
        return []
    try:
        return _strange(folder)
    finally:
        os.close(folder)


def _strange(folder: int) -> list[str]:
    """Both files are written together: beside a LATEST.json of ours, LATEST.md is ours, whatever became of it."""
    if _MARKS["LATEST.json"].match(_read(folder, "LATEST.json") or b""):
        return []
    there = [name for name in NAMES if _stands(folder, name)]
    return [name for name in there if not _MARKS[name].match(_read(folder, name) or b"")]


def _stands(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _generated(old: bytes | None) -> str | None:
    """Return the time at which a LATEST.json says that it was written."""
    found = _GENERATED.search(old or b"")
    return found.group(1).decode() if found else None


def _elsewhere(repo: Repo, where: LatestPlace, staged: Oid | None) -> str:
    """Why the directory is another repository's, or a submodule's that may not be checked out; empty if it is not."""
    if where.inside is None or where.root is None or where.inside == ".":
        return ""
    parts = where.inside.split("/")
    paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    found = next((path for path in paths if os.path.lexists(os.path.join(where.root, path, ".git"))), None)
    if found is None and staged is not None:
        for path in paths:
            entry = lookup(repo.objects, staged, os.fsencode(path))
            if entry is None or not entry.is_tree:
                found = path if entry is not None and entry.mode == _GITLINK else None
                break
    elif found is None and os.path.lexists(os.path.join(where.root, ".gitmodules")):
        rows = zsplit(repo.git.out("ls-files", "-z", "-s", "--", *(f":(top,literal){path}" for path in paths)))
        links = {row.partition("\t")[2] for row in rows if row.startswith(_GITLINK.decode())}
        found = next((path for path in paths if path in links), None)
    if found is None:
        return ""
    said = f"{in_quotes(found)} is a repository of its own, so the LATEST files are not written"
    return f"{said}; baton.checkpointDir names another folder"


def _tracked(repo: Repo, where: LatestPlace, staged: Oid | None) -> list[str]:
    paths = where.paths()
    if not paths:
        return []
    if staged is not None:
        return [p for p in paths if lookup(repo.objects, staged, os.fsencode(p)) is not None]
    return zsplit(repo.git.out("ls-files", "-z", "--", *(f":(top,literal){path}" for path in paths)))


def _open(where: LatestPlace, *, create: Repo | None = None) -> int:
    """A descriptor of the directory. Below the work tree no component may be a symbolic link, and with ``create`` what is
    missing is made with the modes which that repository asks for."""
    if where.inside is None or where.root is None:
        if create:
            os.makedirs(where.directory, exist_ok=True)
        return os.open(where.directory, os.O_RDONLY | os.O_DIRECTORY)
    parts = [part for part in where.inside.split("/") if part != "."]
    return open_below(where.root, parts, None if create is None else lambda fd, _depth: shared(create, fd))


def _read(folder: int, name: str) -> bytes | None:
    try:
        return read_regular(name, 64 << 20, folder=folder)
    except OSError:
        return None


def _aside(repo: Repo, folder: int) -> str:
    """Return the folder of ours from which a file can be moved into another; empty where there is none."""
    try:
        make_folder(repo, repo.own_dir)
        return repo.own_dir if os.stat(repo.own_dir).st_dev == os.fstat(folder).st_dev else ""
    except OSError:
        return ""


def _replace(folder: int, name: str, data: bytes, aside: str, made: Callable[[int], object]) -> None:
    """Write a file whole or not at all; a link at its place is replaced, never followed.

    The temporary file is ``aside``, out of the way of a user's ``git add``, where that can be. It has one name, so that what a
    killed writer left goes with the next write. ``made`` as in ``write_atomic``.
    """
    try:
        write_atomic(name, data, folder=folder, temporary=f"{aside}/{name}.new" if aside else f".{name}.new", made=made)
    except OSError:
        write_atomic(name, data, folder=folder, temporary=f".{name}.new", made=made)


def exclude_line(path: str) -> bytes:
    """The line of ``info/exclude`` that names exactly this file of the work tree."""
    return os.fsencode("/" + _GLOB.sub(r"\\\1", path))


def listed(repo: Repo) -> list[str]:
    """The directories, as paths below a work tree's root, in which ``info/exclude`` names LATEST files."""
    try:
        rows = read_regular(repo.layout.exclude, follow=True).splitlines()
    except OSError:
        return []
    paths = [re.sub(r"\\(.)", r"\1", os.fsdecode(row))[1:] for row in rows if row.startswith(b"/")]
    found = [os.path.normpath(os.path.dirname(path) or ".") for path in paths if os.path.basename(path) in NAMES]
    return [path for path in dict.fromkeys(found) if not os.path.isabs(path) and path.split("/")[0] != ".."]


def _ignore(repo: Repo, paths: Sequence[str]) -> list[str]:
    """Put exactly our files into ``info/exclude``."""
    wanted = [exclude_line(path) for path in paths]
    target = repo.layout.exclude
    try:
        try:
            text = read_regular(target, follow=True)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            text = b""
        there = set(text.splitlines())
        missing = [line for line in wanted if line not in there]
        if missing:
            with open(target, "ab") as file:
                shared(repo, file.fileno())
                newline = b"" if not text or text.endswith(b"\n") else b"\n"
                file.write(newline + b"".join(line + b"\n" for line in missing))
    except OSError as error:
        if all(repo.git.run("check-ignore", "-q", "--", path).code == 0 for path in paths):
            return []
        return [f"the LATEST files will show as untracked: {in_quotes(target)}: {error.strerror}"]
    return []


def unignore(repo: Repo, starts: Sequence[str]) -> list[str]:
    """Take the lines of our files with such paths out of ``info/exclude``; return why that cannot be done."""
    gone = tuple(exclude_line(start) for start in starts)
    try:
        take_out(repo, lambda row: row.startswith(gone))
    except OSError as error:
        return [f"{in_quotes(repo.layout.exclude)} names files of ours and cannot be changed: {error.strerror}"]
    return []


def take_out(repo: Repo, ours: Callable[[bytes], bool]) -> None:
    """Take lines out of ``info/exclude``; where nothing else is in it the file goes, and its folder: there was none, as git's
    own template has comments. Raises OSError."""
    target = repo.layout.exclude
    try:
        rows = read_regular(target, follow=True).splitlines(keepends=True)
    except FileNotFoundError:
        return
    kept = [row for row in rows if not ours(row.rstrip(b"\n"))]
    if len(kept) == len(rows):
        return
    if kept or os.path.islink(target):
        write_atomic(target, b"".join(kept), temporary=target + ".baton", mode=os.stat(target).st_mode & 0o777)
        return
    os.remove(target)
    with suppress(OSError):
        os.rmdir(os.path.dirname(target))


def expect_elsewhere(repo: Repo, tip: Checkpoint) -> None:
    """Other work trees may have the same current track; their hooks compare with their own ``expect``."""
    for _, git_dir, _ in questions.worktrees(repo):
        try:
            mine = read_regular(os.path.join(git_dir, CURRENT), 4096).rstrip(b"\n") == f"ref: {tip_ref(tip.track)}".encode()
        except OSError:
            continue
        if mine and git_dir != repo.layout.git_dir:
            repo.expect(tip.head, git_dir)
