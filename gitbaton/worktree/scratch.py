"""Scratch work tree: linked, in the system's temporary directory, and removed afterwards, after a kill by the next command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gitbaton.codec import in_quotes
from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.git.foreground import environment
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, in_worktree
from gitbaton.model import Oid
from gitbaton.system.groups import Child, end, marked
from gitbaton.system.process import spawn
from gitbaton.worktree.crashmarker import Marker, sweep

_POLITE_SECONDS = 2.0


class Scratch:
    """A scratch work tree at ``path``; see ``scratch``."""

    def __init__(self, repo: Repo) -> None:
        repo.settings()  # git must know the hooks to switch off
        self._repo, self.marker, self._word = repo, Marker(repo), os.urandom(8).hex()
        self.path = self.marker.path
        git_dir = os.path.join(repo.layout.common_dir, "worktrees", self.marker.name)
        self.marker.add(git_dir)
        self.marker.runs(Child(word=self._word))
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
        ``out``; its exit status as a shell gives it (128 and the signal's number when one ended it)."""
        env = marked(environment(self._repo, "beside"), self._word)
        words = ["sh", "-c", 'cd -- "$1" || exit 128; shift; exec "$@"', "sh", self.path, *argv]
        child = Child.of(self._word, spawn(words, env, 0, out, 2, group=self._group))
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
    """A scratch work tree registered at a commit, without files yet. No hook runs. When the block ends, folder and registration
    are removed; where this process is killed, by ``sweep``, which ends what still runs there. Raises GitError."""
    sweep(repo)
    place = Scratch(repo)
    try:
        place.make(commit)
        yield place
    finally:
        gone = place.marker.remove()
    if not gone:
        raise GitError(f"the scratch work tree {in_quotes(place.path)} could not be removed")
