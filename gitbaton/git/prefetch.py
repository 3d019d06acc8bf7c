"""Prefetch: git is started before the rest of us is imported, for the layout, the configuration and the listings.

This module imports little, because what follows it is imported while git works.
"""

from __future__ import annotations

import os

from gitbaton.git.run import LOCAL_ENV, Git, base_environment
from gitbaton.system.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    Wanted = Literal["nothing", "look", "capture"]

Signature = tuple[int, int, int]
# Look at every file ourselves: no daemon or hook of the user's is asked, and what lies outside a sparse cone counts.
EXACT = ("core.fsmonitor=false", "sparse.expectFilesOutsideOfPatterns=false")
TRACKED = ("diff-files", "-z", "--raw", "--no-renames", "--ita-invisible-in-index", "--ignore-submodules=none")
OTHERS = ("ls-files", "-o", "-z", "--exclude-standard")
_QUESTIONS = ("--is-bare-repository", "--is-inside-work-tree", "--show-object-format", "--absolute-git-dir")
_PATHS = ("--path-format=absolute", "--git-common-dir", "--git-path", "index", "--git-path", "info/exclude")
_CORE = (
    "abbrev|sparsecheckout|filemode|symlinks|autocrlf|eol|attributesfile|sharedrepository|fsync"
    "|excludesfile|trustctime|checkstat"
)
_NAMED = r"(user|author)\.(name|email)|attr\.tree|hook\..*\.event|filter\..*\.(clean|smudge|process)"
_SETTINGS = rf"^(baton\.|advice\.baton|color\.baton\.|core\.({_CORE})$|({_NAMED})$)"


def ask_layout(git: Git) -> Process:
    """Ask where the parts of a repository are; gitbaton.git.repo reads the answer."""
    return git.start("rev-parse", *_QUESTIONS, *_PATHS, "--show-toplevel")


def ask_ordinary(git: Git) -> Process:
    """The same, but for a bare repository that git would find by itself: files of a clone may be one."""
    return ask_layout(git.changed({}, "safe.bareRepository=explicit"))


def ask_settings(git: Git) -> Process:
    """Ask for the settings that we heed, each with its scope."""
    return git.start("config", "-z", "--show-scope", "--get-regexp", _SETTINGS)


def start_listings(git: Git, specs: Iterable[str] = ()) -> tuple[Process, Process]:
    """Ask which tracked files differ from the index that ``git`` is bound to, raw, and which are untracked; perhaps only of
    what pathspecs match. Whoever looks at a work tree asks just this: what was begun ahead serves each."""
    return git.start(*TRACKED, "--", *specs), git.start(*OTHERS, "--", *specs)


def signature(source: str, width: int) -> tuple[Signature, bytes]:
    """Which file an index is, and its last bytes: git's checksum of the rest (zeros where index.skipHash is set). Of one that
    may not be read nothing: git says so."""
    try:
        with open(source, "rb") as file:
            stat = os.fstat(file.fileno())
            file.seek(-min(width, stat.st_size), os.SEEK_END)
            return (stat.st_ino, stat.st_size, stat.st_mtime_ns), file.read()
    except (FileNotFoundError, PermissionError):
        return (0, 0, 0), b""


class Ahead:
    """What was begun in a directory. ``index`` is the file that the listings read, None where none was begun."""

    def __init__(self, directory: str, git: Git, wanted: Wanted) -> None:
        self.directory, self.wanted = directory, wanted
        self.layout = ask_ordinary(git)
        self.settings: Process | None = ask_settings(git)
        self.index: str | None = None
        self.listings: tuple[Signature, Process, Process] | None = None
        top = os.path.join(directory, ".git")
        if wanted != "nothing" and os.path.isdir(os.path.join(top, "baton")):  # at the top: a listing knows no other place
            self.index = os.path.join(top, "index")
            bound = git.changed({}, *EXACT)
            self.listings = (signature(self.index, 0)[0], *start_listings(bound))

    def drop_listings(self) -> None:
        """They cannot be used."""
        listings, self.listings = self.listings, None
        for process in (listings or ())[1:]:
            if isinstance(process, Process):
                process.stop()

    def drop(self) -> None:
        """Nothing of it is wanted any more."""
        self.drop_listings()
        if self.settings is not None:
            self.settings.stop()
            self.settings = None


def begin(directory: str, wanted: Wanted) -> Ahead | None:
    """Begin at the top of a work tree or anywhere below it; None where the environment names a repository. Raises GitError."""
    if any(name in os.environ for name in LOCAL_ENV):
        return None
    return Ahead(directory, Git(directory, base_environment(strip_local=True)), wanted)
