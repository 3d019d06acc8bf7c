"""Background maintenance: repacks many objects or packs, and starts our automatic prune once a day."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from gitbaton.base.errors import GitError
from gitbaton.base.system.files import acquire, closing_fd
from gitbaton.base.system.process import detach, leave
from gitbaton.git.questions import matching
from gitbaton.git.repo import Repo, lock_file, put
from gitbaton.git.run import Git

MANY = 4096
_COLLECTING = 3600.0  # seconds
PACKS = 32
DAY = 86_400
STAMP = "pruned"  # in our folder of the common directory: when old checkpoints were last looked at
# The current directory may hold a module of ours by name only.
_PRUNE = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; from gitbaton.care.retention.pruning import run; run(sys.argv[1])"
)
_GC = 43_200  # seconds after which git itself takes that file for one of a gc that was killed
_SAMPLE = "17"  # the folder that git itself counts for gc.auto: one of 256
_HELD = 9  # the descriptor by which git holds the lock until it ends


def tend(repo: Repo) -> None:
    """Start what is due after a checkpoint or a run, in the background. Never raises."""
    if not tidy(repo):
        tidy_packs(repo)
    look_back(repo)


def collect(repo: Repo) -> None:
    """Have git collect garbage and pack the repository, as the user's settings say, and wait for it. Raises GitError."""
    git = repo.plain
    Git(git.directory, git.env, config=git.config, timeout=_COLLECTING).out("gc", "--quiet")


def tidy(repo: Repo) -> bool:
    """Start ``git repack --geometric`` where there are many loose objects, in the background; whether it was started.

    Nothing is pruned: objects that nothing refers to are packed, too. Not with ``gc.auto=0``, in a partial clone, while one
    is at work, or where objects go somewhere else. Never raises.
    """
    sample = os.path.join(repo.layout.common_dir, "objects", _SAMPLE)
    return _repack(repo, lambda: len(os.listdir(sample)) * 256 > MANY)


def tidy_packs(repo: Repo) -> bool:
    """Start ``tidy``'s repack where there are more than 32 packs that git may remove; whether it was started. With
    ``gc.auto=0`` only the packs that we wrote count, and only they are gathered.

    No multi-pack index: with one that names a pack which a gc beside us removes, git 2.39 did not find what other packs hold.
    Never raises.
    """
    if _repack(repo, lambda: len(_packs(repo)) > PACKS):
        return True
    return _repack(repo, lambda: len(_packs(repo)) > PACKS and len(_own_packs(repo)) > PACKS, own=True)


def _repack(repo: Repo, due: Callable[[], bool], *, own: bool = False) -> bool:
    try:
        apart = "GIT_OBJECT_DIRECTORY" in repo.git.env
        return not apart and due() and not _unwanted(repo, own=own) and _start(repo, own=own)
    except (OSError, GitError):
        return False


def _own_packs(repo: Repo) -> list[str]:
    """Return the names of the packs that we wrote: git names one after the digest at its end, and we at random."""
    size, found = 32 if repo.layout.algorithm == "sha256" else 20, list[str]()
    for name in _packs(repo):
        with open(os.path.join(repo.objects_dir, "pack", f"{name}.pack"), "rb") as file:
            file.seek(-size, os.SEEK_END)
            found += [name] if name != f"pack-{file.read().hex()}" else []
    return found


def _packs(repo: Repo) -> list[str]:
    """Return the names of the packs that git may remove, once those of dead processes are removed."""
    from gitbaton.git.publish import remove_stale

    names = set(os.listdir(os.path.join(repo.objects_dir, "pack")))
    remove_stale(repo)
    packs = [name[:-5] for name in names if name.endswith(".pack")]
    return [n for n in packs if f"{n}.keep" not in names and f"{n}.mtimes" not in names]


def _unwanted(repo: Repo, *, own: bool) -> bool:
    """Whether packing is switched off, which does not count for what is our ``own``, or git cannot do it: a partial clone has
    packs that it cannot roll up; a gc, of which its file tells, is at work."""
    with suppress(FileNotFoundError):
        if time.time() - os.stat(os.path.join(repo.layout.common_dir, "gc.pid")).st_mtime < _GC:
            return True
    found = dict(matching(repo, r"^(gc\.auto|extensions\.partialclone|remote\..*\.promisor)$"))
    off = found.pop("gc.auto", "").strip() == "0"
    return (off and not own) or bool(found)


def _start(repo: Repo, *, own: bool) -> bool:
    ours = {*_own_packs(repo)} if own else set[str]()
    kept = [f"--keep-pack={name}.pack" for name in _packs(repo) if name not in ours] if own else []
    place = os.path.join(repo.shared_dir, "repacking")
    with closing_fd(lock_file(repo, place)) as lock, closing_fd(os.open(os.devnull, os.O_RDWR)) as null:
        if not acquire(lock):
            return False
        argv = repo.plain.argv("repack", "-q", "-d", "-l", "--geometric=2", "--no-write-bitmap-index", *kept)
        leave(argv, repo.plain.env, null, null, null, {lock: _HELD})
        return True


def look_back(repo: Repo) -> bool:
    """Once a day, start the automatic prune, in a process of its own; whether it was started.

    On other days this costs a look at the state of one file. The first one begins a day after the first checkpoint. Not with
    ``baton.autoPrune=false``, nor where objects go somewhere else. Never raises.
    """
    path, now = os.path.join(repo.shared_dir, STAMP), time.time()
    try:
        last = os.lstat(path).st_mtime
        if 0 <= now - last < DAY or "GIT_OBJECT_DIRECTORY" in repo.git.env:
            return False
        put(repo, path, b"")  # and not a new time for what may have another name, too
        _remember(repo)
        if now < last or not repo.boolean("baton.autoprune", default=True) or not sys.executable:
            return False
        detach([sys.executable, "-c", _PRUNE, repo.layout.git_dir], repo.plain.env, b"")
        return True
    except FileNotFoundError:
        with suppress(OSError):
            os.close(lock_file(repo, path))
        _remember(repo)
    except (OSError, GitError):
        pass
    return False


def _remember(repo: Repo) -> None:
    from gitbaton.git.registry import remember

    with suppress(GitError):
        remember(repo)
