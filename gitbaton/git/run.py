"""Running git: one environment, time limit and error for every call; and what is started before the rest of us is imported.

This module imports little, because what follows it is imported while git works.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from gitbaton.base.errors import MENDS, DamagedIndexError, GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.process import Process, Result, begin, together

TIMEOUT = 600.0
BORROWED = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
STORES = ("GIT_OBJECT_DIRECTORY", BORROWED)  # where the objects of a repository lie
# What `git rev-parse --local-env-vars` names: it belongs to one repository and must not reach another.
LOCAL_ENV = (
    BORROWED,
    "GIT_CONFIG",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_INTERNAL_SUPER_PREFIX",
)
_DROPPED = ("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS")
_OWN_ENV = {
    "LC_MESSAGES": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_BATON": "0",
}
# Our own calls run no hook of the user's and sign nothing.
_CONFIG = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "core.logAllRefUpdates=false",
    "-c",
    "core.fsmonitor=false",
)


def base_environment(*, strip_local: bool) -> dict[str, str]:
    """Return the environment for our git calls; ``strip_local`` drops what names a repository other than the one asked for."""
    dropped = {*_DROPPED, "LC_ALL", *(LOCAL_ENV if strip_local else ())}
    # A trace to standard error would end in our error messages; one to a file stays.
    dropped |= {k for k, v in os.environ.items() if k.startswith("GIT_TRACE") and v.lower() in ("1", "2", "true")}
    env = {k: v for k, v in os.environ.items() if k not in dropped}
    if os.environ.get("LC_ALL"):  # git's words must be English, while the user's filters keep their characters
        env |= {"LANG": os.environ["LC_ALL"], "LC_CTYPE": os.environ["LC_ALL"]}
    return env | _OWN_ENV


def in_worktree(env: Mapping[str, str], git_dir: str, path: str) -> dict[str, str]:
    """Return the environment for our git calls in another work tree of the repository that ``env`` is for: it is named, so that
    nothing a command does to its ``.git`` leads git elsewhere."""
    stores = {name: env[name] for name in STORES if name in env}
    return base_environment(strip_local=True) | stores | {"GIT_DIR": git_dir, "GIT_WORK_TREE": path}


# How git complains of an index that it cannot read (read-cache.c).
_OF_INDEX = (
    *("index file smaller than expected", "index file corrupt", "index file open failed", "bad index file sha1 signature"),
    *("unable to map index file", "unordered stage entries", "multiple stage entries", "malformed name field in the index"),
    *("unknown index entry format", "cannot stat the open index", "do not understand"),
)
# How it complains of a file that it cannot write (csum-file.c, and the system's own words).
_UNWRITTEN = r"(?i)write error|no space left|out of diskspace|disk quota|file too large|read-only file system"
# How it complains of an object that is not here, or torn (object-file.c, packfile.c, tree-walk.c, revision.c).
_OF_OBJECT = (
    r"(?i)object file \S+ is empty|(?:loose|packed) object \w+ .*is corrupt|unable to (?:read|unpack|parse) |inflate: "
    r"|pack \S+ is|could not read [0-9a-f]{40}|(?:bad|missing) (?:(?:blob|tree|commit|tag) )?object"
    r"|unpack tree object|traverse parents"
)


class Git:
    """The binary, bound to a directory and an environment."""

    def __init__(
        self, directory: str, env: Mapping[str, str], *, config: tuple[str, ...] = (), timeout: float = TIMEOUT
    ) -> None:
        self.directory, self.env, self.config, self.timeout = directory, env, config, timeout

    def argv(self, *args: str) -> list[str]:
        """Return the whole command line of one call."""
        settings = [word for setting in self.config for word in ("-c", setting)]
        return ["git", "-C", self.directory, *_CONFIG, *settings, *args]

    def start(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Process:
        """Start a command with known input; commands started together run together."""
        # Else it writes each line by itself into a pipe; of no other command, since filters and hooks would get it, too.
        whole = {"GIT_FLUSH": "0"} if args[0] == "rev-list" else {}
        return begin(self.argv(*args), {**self.env, **whole, **(env or {})}, self.timeout, stdin)

    def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run a command to its end, whatever its exit status."""
        return self.start(*args, stdin=stdin, env=env).finish()

    def out(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Return the output of a command that must succeed. Raises GitError with git's own words."""
        return checked(self.run(*args, stdin=stdin, env=env), args[0])

    def divided(self, *args: str, lines: Sequence[bytes], large: int, meanwhile: Callable[[], object] = lambda: None) -> bytes:
        """Return the output of a command that must succeed and answers line by line; more lines than are ``large`` go to two
        processes. What is to be done ``meanwhile`` is called once, before they are waited for. Raises as ``out``, and as it."""

        def processes() -> Iterator[Process]:
            for part in halves(lines, large):
                yield self.start(*args, stdin=b"".join(part))
            meanwhile()

        return b"".join([checked(result, args[0]) for result in together(processes())])

    def changed(self, env: Mapping[str, str], *config: str, directory: str | None = None) -> Git:
        """Return the same with more environment and more ``key=value`` settings, perhaps at another place."""
        place = self.directory if directory is None else directory
        return Git(place, {**self.env, **env}, config=(*self.config, *config), timeout=self.timeout)

    def blob(self, fd: int) -> Oid:
        """Write an open file as a blob, streamed by git; return its id. Raises GitError."""
        argv = self.argv("hash-object", "-w", "--no-filters", "--stdin")
        return checked(begin(argv, self.env, self.timeout, fd).finish(), "hash-object").decode().strip()

    def objects_dir(self, common_dir: str) -> str:
        """Return the folder where it writes objects of the repository with this common directory."""
        return self.env.get("GIT_OBJECT_DIRECTORY") or os.path.join(common_dir, "objects")


def halves(items: Sequence[T], large: int) -> list[Sequence[T]]:
    """Return what is more than ``large`` in two parts, one for each of two processes; else in one."""
    half = len(items) // 2 if len(items) > large else 0
    return [items[:half], items[half:]] if half else [items]


def borrowing(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the variable with which git also finds the objects in a folder, beside those where ``env`` has it look already."""
    others = env.get(BORROWED)
    quoted = '"' + folder.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return {BORROWED: quoted + (os.pathsep + others if others else "")}


def taken_back(env: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return the beginning of a shell line that makes the environment ``own`` of ``env``."""
    changed = sorted(name for name in {*env, *own} if env.get(name) != own.get(name))
    gone = " ".join(name for name in changed if name not in own)
    kept = "".join(f"export {name}={quoted(own[name])}; " for name in changed if name in own)
    return kept + (f"unset {gone}; " if gone else "")


def quoted(text: str) -> str:
    """Return a word of a shell line, as git quotes it, too; shlex is dear to import."""
    return "'" + text.replace("'", "'\\''") + "'"


def checked(result: Result, name: str) -> bytes:
    """Return the output of a finished command, or GitError with git's own first complaint; DamagedIndexError where that is of
    the index."""
    if result.code != 0:
        refuse_index(result)
        said = result.fatal()
        theirs = " is outside repository at " in said  # a path that the user named, and no failure of git's
        raise GitError(said if theirs else f"'git {name}' failed: {said}", *mends(result))
    return result.out


def mends(result: Result) -> tuple[str, ...]:
    """Return the hint at what helps where a command failed because an object is not here, or torn; else none."""
    return (MENDS,) if re.search(_OF_OBJECT, result.err) else ()


def unwritten(result: Result) -> bool:
    """Whether a command failed because it could not write: the disk is full, say."""
    return re.search(_UNWRITTEN, result.err) is not None


def refuse_index(result: Result) -> None:
    """Raise DamagedIndexError where a command failed because git cannot read the index."""
    if any(words in result.err for words in _OF_INDEX):
        said = re.sub(r"(?s)\A.*: (?=index file|unable to map)", "", result.fatal())  # of a private copy, mostly
        closed = said.removeprefix("index file open failed: ")
        raise DamagedIndexError(f"the index {'is damaged' if closed == said else 'cannot be read'}: {closed}")


def configured(git: Git, settings: dict[str, str]) -> Git:
    """Return the same git with other settings. A key with an equals sign does not fit behind ``-c``, which else wins."""
    plain = [f"{key}={text}" for key, text in settings.items() if "=" not in key]
    odd = {key: text for key, text in settings.items() if "=" in key}
    count = git.env.get("GIT_CONFIG_COUNT", "")
    at = int(count) if count.isdecimal() else 0
    env = {"GIT_CONFIG_COUNT": str(at + len(odd))} if odd else {}
    for number, (key, text) in enumerate(odd.items(), at):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": text}
    return git.changed(env, *plain)


def zsplit(raw: bytes) -> list[str]:
    """Return the NUL-ended fields of git's ``-z`` output, decoded as paths."""
    return os.fsdecode(raw).split("\0")[:-1]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeVar

    T = TypeVar("T")
    Wanted = Literal["nothing", "look", "capture"]

Signature = tuple[int, int, int]
# Look at every file ourselves: no daemon or hook of the user's is asked, and what lies outside a sparse cone counts.
EXACT = ("core.fsmonitor=false", "sparse.expectFilesOutsideOfPatterns=false")
_WATCHED = "core.fsmonitor=true"  # said by us: a path in the user's configuration would be a program that git runs
_SOCKET = "fsmonitor--daemon.ipc"  # in the git directory of a work tree (fsm-ipc-unix.c)
_HEEDED = r"^(core\.fsmonitor|status\.showuntrackedfiles)$"
_NAMED_AT_ONCE = 500
TRACKED = ("diff-files", "-z", "--raw", "--no-renames", "--ita-invisible-in-index", "--ignore-submodules=none")
ENTRIES = ("-s", "-v", "-z")  # of ls-files: mode, id and stage of each entry, and a letter for its bits
OTHERS = ("ls-files", "-o", "-z", "--exclude-standard")
_QUESTIONS = ("--is-bare-repository", "--is-inside-work-tree", "--show-object-format", "--absolute-git-dir")
_PATHS = ("--path-format=absolute", "--git-common-dir", "--git-path", "index", "--git-path", "info/exclude")
_CORE = (
    "abbrev|sparsecheckout|filemode|symlinks|autocrlf|eol|attributesfile|sharedrepository|fsync"
    "|excludesfile|trustctime|checkstat"
)
_NAMED = (
    r"(user|author)\.(name|email)|user\.signingkey|gpg\..*|attr\.tree|hook\..*\.event|filter\..*\.(clean|smudge|process)"
    r"|merge\.(.*\.driver|default)|extensions\.worktreeconfig|includeif\..*"
)
_SETTINGS = rf"^(baton\.|advice\.baton|color\.baton\.|core\.({_CORE})$|({_NAMED})$)"


def ask_layout(git: Git) -> Process:
    """Ask where the parts of a repository are; gitbaton.git.repo reads the answer."""
    return git.start("rev-parse", *_QUESTIONS, *_PATHS, "--show-toplevel")


def ask_ordinary(git: Git) -> Process:
    """Ask the same, but for a bare repository that git would find by itself: files of a clone may be one."""
    return ask_layout(git.changed({}, "safe.bareRepository=explicit"))


def ask_settings(git: Git) -> Process:
    """Ask for the settings that we heed, each with its scope."""
    return git.start("config", "-z", "--show-scope", "--get-regexp", _SETTINGS)


def is_true(text: str) -> bool:
    """Whether git reads a setting as a boolean that is true."""
    text = text.lower()
    return text in ("true", "yes", "on") or (text.lstrip("+-").isdecimal() and int(text) != 0)


def watched(git: Git, git_dir: str) -> str:
    """Return how the user's git lists untracked files, ``normal`` or ``all``, where git's own daemon watches the work tree of a
    git directory, because core.fsmonitor is a plain true; empty elsewhere.

    No daemon is started: where none has its socket nothing is asked. Git without a daemon for this system knows none that
    listens.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(os.path.join(git_dir, _SOCKET)).st_mode):
            return ""
    except OSError:
        return ""
    listens, said = git.start("fsmonitor--daemon", "status"), git.start("config", "-z", "--get-regexp", _HEEDED)
    listening, settings = listens.finish().code == 0, dict[str, list[str]]()
    for item in said.finish().out.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        key, newline, text = item.partition("\n")
        settings.setdefault(key, []).append(text if newline else "true")
    theirs = settings.get("core.fsmonitor", [])[:-1]  # the last one is ours
    if not listening or not theirs or not is_true(theirs[-1]):
        return ""
    return "all" if settings.get("status.showuntrackedfiles", [""])[-1] == "all" else "normal"


class Listings:
    """A look at a work tree that is under way: which tracked files differ from the index that ``git`` is bound to, and which
    files are untracked; perhaps only of what pathspecs match. Each look asks just this, so that what was prefetched serves it.

    ``shown``, as ``watched`` says it: git asks its daemon for what changed, and has its untracked cache, if there is one, for
    the rest. It is asked so that it starts no daemon in a submodule. ``read``: the signature of the index then. ``entries``:
    the listing of the index itself, where that was asked for, too.
    """

    def __init__(
        self, git: Git, specs: Iterable[str] = (), *, index: str | None = None, shown: str = "", entries: bool = False
    ) -> None:
        self.read = signature(index, 0)[0] if index is not None else None
        self.entries = git.start("ls-files", *ENTRIES) if entries else None
        self.shown, self._git = shown, git
        if not shown:
            self._started = [git.start(*TRACKED, "--", *specs), git.start(*OTHERS, "--", *specs)]
            return
        asking = git.changed({}, _WATCHED)
        others = ("status", "--porcelain", "-z", f"--untracked-files={shown}", "--no-renames", "--ignore-submodules=all")
        self._started = [asking.start(*TRACKED[:-1], "--ignore-submodules=all"), asking.start(*others)]

    def tracked(self, gitlinks: Collection[str] = ()) -> Result:
        """Return the raw records of tracked files that differ. ``gitlinks``: all submodules that the index has."""
        result = self._started.pop(0).finish()
        if not self.shown or not (result.code or gitlinks):
            return result
        few = not result.code and len(gitlinks) <= _NAMED_AT_ONCE
        walked = self._git.run(*TRACKED, "--", *(f":(top,literal){path}" for path in gitlinks if few))
        if not few or walked.code:
            return walked
        fields, within = result.out.split(b"\0")[:-1], {os.fsencode(path) for path in gitlinks}
        rest = [meta + b"\0" + path + b"\0" for meta, path in zip(fields[::2], fields[1::2], strict=True) if path not in within]
        return Result(code=0, out=b"".join(rest) + walked.out, err=result.err + walked.err)

    def untracked(self) -> Result:
        """Return the paths of untracked files, and of nested repositories with a slash, each ended by NUL, in git's order."""
        result = self._started.pop().finish()
        if not self.shown:
            return result
        found = [row[3:] for row in result.out.split(b"\0") if row[:3] == b"?? "]
        folders = [path for path in found if path[-1:] == b"/"]  # with all that is in them
        if not result.code and not folders:
            return Result(code=0, out=b"".join(path + b"\0" for path in found), err=result.err)
        few = not result.code and len(folders) <= _NAMED_AT_ONCE
        walked = self._git.run(*OTHERS, "--", *(f":(top,literal){os.fsdecode(path)}" for path in folders if few))
        if not few or walked.code:
            return walked
        paths = sorted([*(path for path in found if path[-1:] != b"/"), *walked.out.split(b"\0")[:-1]])
        return Result(code=0, out=b"".join(path + b"\0" for path in paths), err=result.err + walked.err)

    def stop(self) -> None:
        """Take no interest in it any more."""
        entries, self.entries = self.entries, None
        if entries is not None:
            entries.stop()
        while self._started:
            self._started.pop().stop()


def signature(source: str, width: int) -> tuple[Signature, bytes]:
    """Return the signature of an index file, and its last bytes: git's checksum of the rest (zeros where index.skipHash is
    set). Of one that may not be read nothing: git says so."""
    try:
        with open(source, "rb") as file:
            stat = os.fstat(file.fileno())
            file.seek(-min(width, stat.st_size), os.SEEK_END)
            return (stat.st_ino, stat.st_size, stat.st_mtime_ns), file.read()
    except (FileNotFoundError, PermissionError):
        return (0, 0, 0), b""


class Prefetched:
    """Git processes that were started early in a directory. ``index`` is the file that the listings read, None where none were
    begun."""

    def __init__(self, directory: str, git: Git, wanted: Wanted) -> None:
        self.directory, self.wanted = directory, wanted
        self.layout = ask_ordinary(git)
        self.settings: Process | None = ask_settings(git)
        self.index: str | None = None
        self.listings: Listings | None = None
        top = os.path.join(directory, ".git")
        if wanted != "nothing" and os.path.isdir(os.path.join(top, "baton")):  # at the top: a listing knows no other place
            self.index = os.path.join(top, "index")
            self.listings = Listings(git.changed({}, *EXACT), index=self.index, shown=watched(git, top))

    def drop_listings(self) -> None:
        """Stop the listings: they cannot be used."""
        listings, self.listings = self.listings, None
        if listings is not None:
            listings.stop()

    def drop(self) -> None:
        """Stop all: nothing of it is needed."""
        self.drop_listings()
        if self.settings is not None:
            self.settings.stop()
            self.settings = None


def prefetch(directory: str, wanted: Wanted) -> Prefetched | None:
    """Start git in a work tree; None where the environment names a repository. Raises GitError."""
    if any(name in os.environ for name in LOCAL_ENV):
        return None
    return Prefetched(directory, Git(directory, base_environment(strip_local=True)), wanted)
