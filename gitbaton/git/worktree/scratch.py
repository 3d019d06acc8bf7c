"""Scratch work tree and scratch clone: in the temporary directory, removed afterwards, after a kill by the next command."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, GitTimeoutError
from gitbaton.base.model import Head, Oid
from gitbaton.base.system.groups import ChildProcess, end, marked
from gitbaton.base.system.process import Result, begin, spawn
from gitbaton.git.foreground import environment
from gitbaton.git.objects import RefChange
from gitbaton.git.repo import Repo, discover
from gitbaton.git.run import Git, base_environment, in_worktree, zsplit
from gitbaton.git.worktree.crashmarker import Marker, sweep

_POLITE_SECONDS = 2.0


class Scratch:
    """A scratch work tree at ``path``; see ``scratch``."""

    def __init__(self, repo: Repo) -> None:
        repo.settings()  # git must know the hooks to switch off
        self._repo, self.marker, self._word = repo, Marker(repo), os.urandom(8).hex()
        self.path = self.marker.path
        git_dir = os.path.join(repo.layout.common_dir, "worktrees", self.marker.name)
        self.marker.add(git_dir)
        self.marker.runs(ChildProcess(word=self._word))
        config = ("submodule.recurse=false", "worktree.useRelativePaths=false", *repo.git.config)
        self._common = repo.git.changed(marked(repo.git.env, self._word), *config[:2])
        env = marked(in_worktree(repo.git.env, git_dir, self.path), self._word)
        self._own = Git(self.path, env, config=config, timeout=repo.git.timeout)
        # A command that stands in the terminal's foreground must stay there, or reading from it would stop it.
        self._group = not os.isatty(0)

    def make(self, commit: Oid) -> None:
        """Register the work tree, without files yet. Raises GitError."""
        self._common.out("worktree", "add", "-q", "--detach", "--no-checkout", "--", self.path, commit)

    def move(self, commit: Oid) -> None:
        """Put the files of a commit into the work tree, over what a command changed in them; what it left beside them stays,
        as with ``git bisect run``. Raises GitError."""
        words = ("checkout", "-q", "--force", "--detach", commit)
        try:
            self._own.out(*words)
        except GitTimeoutError:
            raise
        except GitError:  # even forced, it leaves a file alone that a command told git to take for unchanged
            self._own.out("read-tree", "HEAD")
            self._own.out(*words)

    def run(self, argv: Sequence[str], *, out: int = 1) -> int:
        """Run a command at the top of the work tree, in the user's environment for another work tree, its standard output on
        ``out``, and return its exit status as a shell gives it (128 and the signal's number when one ended it)."""
        env = marked(environment(self._repo, "beside"), self._word)
        words = ["sh", "-c", 'cd -- "$1" || exit 128; shift; exec "$@"', "sh", self.path, *argv]
        child = ChildProcess.of(self._word, spawn(words, env, 0, out, 2, group=self._group))
        try:
            self.marker.runs(child)
            code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        except BaseException:
            end(child, _POLITE_SECONDS)
            os.waitpid(child.pid, 0)
            raise
        return 128 - code if code < 0 else code


@contextmanager
def scratch(repo: Repo, commit: Oid) -> Iterator[Scratch]:
    """Provide a scratch work tree registered at a commit, without files yet. No hook runs. When the block ends, folder and
    registration are removed; if this process is killed, by ``sweep``, which ends what still runs there. Raises GitError."""
    sweep(repo)
    place = Scratch(repo)
    try:
        place.make(commit)
        yield place
    finally:
        gone = place.marker.remove()
    if not gone:
        raise GitError(f"the scratch work tree {in_quotes(place.path)} could not be removed")


# What decides how files become blobs and back, and who the user is; nothing of places, hooks or remotes.
_COPIED = (
    r"^(core\.(autocrlf|eol|safecrlf|checkroundtripencoding|excludesfile|attributesfile|bigfilethreshold)$"
    r"|filter\.|user\.|remote\..*\.(promisor|partialclonefilter)$)"
)
_KEPT_ENV = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
_SECONDS = 600.0
_MEDDLING = ("filter", "working-tree-encoding", "ident")  # attributes under which a file cannot be edited blindly
_LOOKED_AT = 50

# Runs `git baton` and kills it at an audit event that has a certain word among its arguments.
_KILLED = """
import os, signal, sys
event, word = sys.argv[1:3]
del sys.argv[1:3]
def hook(name, args):
    if name == event and (not word or word in args or any(isinstance(a, list) and word in a for a in args)):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from gitbaton.cli.main import run
run()
"""


def fingerprint(repo: Repo) -> dict[str, object]:
    """Return what of the user's repository must be the same afterwards: its head, refs, index and status now."""
    try:
        with open(repo.layout.index, "rb") as file:
            index = file.read()
    except FileNotFoundError:
        index = b""
    refs = repo.git.out("for-each-ref", "--format=%(objectname) %(refname) %(symref)")
    status = repo.git.run("status", "--porcelain=v2", "-z", "--branch").out
    return {"head": repo.objects.head(), "refs": refs, "index": index, "status": status}


class ScratchClone:
    """A scratch clone, with its work tree at ``path``; see ``scratch_copy``."""

    def __init__(self, path: str, word: str, config: tuple[str, ...]) -> None:
        self.path = path
        self.env = marked({k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in _KEPT_ENV}, word)
        ours = base_environment(strip_local=True)
        env = {k: v for k, v in ours.items() if not k.startswith("GIT_CONFIG_") or k in _KEPT_ENV}
        self.git = Git(path, env, config=config)

    def run(self, *argv: str) -> Result:
        """Run a program at the top of the copy, with an environment that names no repository. Raises GitError when it does
        not end in its time."""
        words = ["sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", self.path, *argv]
        return begin(words, self.env, _SECONDS).finish()

    def baton(self, *words: str, kill: tuple[str, str] | None = None) -> Result:
        """Run ``git baton`` as a new process at the top of the copy; with ``kill``, killed at the first audit event of that
        name with that word (an empty one: any) among its arguments. Raises GitError."""
        script = ("-m", "gitbaton") if kill is None else ("-c", _KILLED, *kill)
        return self.run(sys.executable, "-P", *script, *words)

    def plain_files(self, folder: str) -> list[str]:
        """Return tracked files outside a folder that may be edited and removed without a filter, an encoding or an ignore
        rule having a say; the first few."""
        listed = os.fsdecode(self.git.out("ls-files", "-s", "-z")).split("\0")[:-1]
        rows = [row.split("\t", 1) for row in listed if row.startswith(("100644 ", "100755 "))]
        paths = [path for _, path in rows if not os.path.basename(path).startswith(".git") and folder not in path][:_LOOKED_AT]
        asked = "".join(path + "\0" for path in paths)
        fields = zsplit(self.git.out("check-attr", "-z", "--stdin", *_MEDDLING, stdin=os.fsencode(asked)))
        meddled = {path for path, what in zip(fields[::3], fields[2::3], strict=True) if what not in ("unspecified", "unset")}
        ignored = os.fsdecode(self.git.out("ls-files", "-c", "-i", "--exclude-standard", "-z")).split("\0")
        return [path for path in paths if path not in meddled.union(ignored)]

    def open(self) -> Repo:
        """Open the copy anew."""
        return discover(self.path, door="binary")

    def tree(self, *, files: bool) -> Oid:
        """Return the tree of the index, or with ``files`` the one that ``git add -A`` would make: plain git says it, on a
        copy of the index, so that the index stays as it is. Raises GitError."""
        git_dir = os.path.join(self.path, ".git")  # where it goes with the copy, whatever ends us
        with tempfile.TemporaryDirectory(dir=git_dir) as folder:
            env, index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}, os.path.join(git_dir, "index")
            if os.path.exists(index):
                shutil.copy2(index, env["GIT_INDEX_FILE"])
            if files:
                self.git.out("-c", "core.safecrlf=false", "add", "-A", env=env)
            return self.git.out("write-tree", env=env).decode("ascii").strip()


@contextmanager
def scratch_copy(repo: Repo, refs: Mapping[str, Oid], head: Head, symrefs: Mapping[str, str]) -> Iterator[ScratchClone]:
    """Provide a repository in a folder of its own below the system's temporary directory, without files yet: it borrows the
    objects of ``repo``, has the refs and symbolic refs given, and HEAD at ``head``. Removed when the block ends; if this
    process is killed, by ``sweep``. Raises GitError."""
    repo.settings()  # git must know the hooks to switch off
    sweep(repo)
    marker, word = Marker(repo), os.urandom(8).hex()
    path = marker.path
    try:
        marker.runs(ChildProcess(word=word))
        copy = ScratchClone(path, word, repo.git.config)
        copy.git.out("init", "-q", "--template=", f"--object-format={repo.layout.algorithm}", "--", path)
        _borrow(repo, os.path.join(path, ".git"))
        _settings(repo, copy)
        opened = copy.open()
        try:
            changes = [RefChange(name=name, new=oid, old=None) for name, oid in refs.items()]
            if head.branch is not None and head.oid is not None:
                changes.append(RefChange(name=f"refs/heads/{head.branch}", new=head.oid, old=None))
            opened.objects.update(changes)
            if head.branch is not None:
                opened.objects.set_symref("HEAD", f"refs/heads/{head.branch}")
            elif head.oid is not None:
                copy.git.out("update-ref", "--no-deref", "HEAD", head.oid)
            for name, target in symrefs.items():
                opened.objects.set_symref(name, target)
        finally:
            opened.close()
        yield copy
    finally:
        marker.remove()


def _borrow(repo: Repo, git_dir: str) -> None:
    """Let the copy read the objects of ``repo``, know where a shallow history ends, and what is ignored."""
    objects = os.fsdecode(repo.git.out("rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n"))
    others = repo.git.env.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")
    places = [objects, *(os.path.abspath(place) for place in others.split(os.pathsep) if place)]
    os.makedirs(os.path.join(git_dir, "info"), exist_ok=True)
    with open(os.path.join(git_dir, "objects", "info", "alternates"), "wb") as file:
        file.write(b"".join(os.fsencode(place) + b"\n" for place in places))
    common = repo.layout.common_dir
    for source, name in (
        (os.path.join(common, "shallow"), "shallow"),
        (repo.layout.exclude, "info/exclude"),
        (os.path.join(common, "info", "attributes"), "info/attributes"),
    ):
        if os.path.isfile(source):
            shutil.copyfile(source, os.path.join(git_dir, name))


def _settings(repo: Repo, copy: ScratchClone) -> None:
    for item in zsplit(repo.git.run("config", "--local", "-z", "--get-regexp", _COPIED).out):
        key, newline, text = item.partition("\n")
        copy.git.out("config", "--add", key, text if newline else "true")
