"""A remote, clones of it, and what both hold: for tests of push, fetch and sync."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from gitbaton.checkpoints.store.meta import Meta, union
from gitbaton.checkpoints.store.revision import Revision
from tests.kit.clones import Clock, Clone, State
from tests.kit.repos import Outcome, Sandbox
from tests.kit.servers import bare

CHAINS, META, NOTES = "refs/baton/tracks/", "refs/baton/meta", "refs/notes/checkpoints"


@cache
def _template() -> Path:
    """A bare ``far.git`` with one commit, and ``a``, a clone of it: made once, and copied."""
    place = Path(tempfile.mkdtemp(prefix="gitbaton-far-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    bare(place / "far.git", "--template=")
    first = Sandbox.init(place / "a", "--template=")
    first.commit("first", a_txt="one\n")
    first.git("remote", "add", "origin", "../far.git")
    first.git("push", "-q", "-u", "origin", "main")
    return place


class Far:
    """``remote`` is a bare repository with one commit on main; ``clone`` makes clones of it, all with one true clock."""

    def __init__(self, place: Path) -> None:
        self.place, self.clock = place, Clock()
        for name in ("far.git", "a"):
            shutil.copytree(_template() / name, place / name, symlinks=True)
        self.remote, self.first = Sandbox(place / "far.git"), Clone(place / "a", self.clock)

    def clone(self, name: str = "b", skew: float = 0) -> Clone:
        """Another clone, as it would be before anything of ours was in the first."""
        shutil.copytree(self.first.path, self.place / name, symlinks=True)
        clone = Clone(self.place / name, self.clock, skew)
        for ref in clone.git("for-each-ref", "--format=%(refname)", "refs/baton/", "refs/checkpoints/", NOTES).splitlines():
            clone.git("update-ref", "-d", ref)
        shutil.rmtree(clone.path / ".git/baton", ignore_errors=True)
        return clone

    def there(self) -> State:
        """What the remote holds."""
        return State(self.remote.path)


def elsewhere(*clones: Clone) -> None:
    """Let clones take their remote for one of another machine, where those who push do not wait for each other."""
    for clone in clones:
        clone.git("remote", "set-url", "origin", f"file://{clone.path.parent / 'far.git'}")


def snap(clone: Clone, step: str, track: str = "t", *words: str) -> str:
    """A checkpoint; its id."""
    done = ok(clone, "snapshot", "--track", track, "--step", step, "--porcelain", *words)
    return done.out.splitlines()[-1].split("\t")[1]


def ok(clone: Clone, *words: str) -> Outcome:
    """A command that must succeed."""
    done = clone.here(*words)
    assert done.code == 0, f"{clone.name}: git baton {' '.join(words)}: {done.code}\n{done.out}\n{done.err}"
    return done


def forget(clone: Clone, *ids: str) -> None:
    """Remove checkpoints, and leave tombstones."""
    with clone.open() as baton, baton.repo.lock(()):
        revision = Revision(baton.store)
        revision.meta = union(revision.meta, Meta(forgotten=frozenset(ids)))
        for track in baton.store.chains()[0]:
            revision.join(track, ())
        revision.apply()


def steps(state: State, track: str = "t") -> list[str]:
    """The steps of a track, oldest first, each as often as it is there."""
    return [item.data["step"] for item in state.chains.get(track, [])]


def noted_steps(state: State) -> str:
    """All notes as one text."""
    return b"".join(state.notes.values()).decode()


def lines_of(done: Outcome) -> list[str]:
    """What a command said on standard error, a line each."""
    return done.err.splitlines()
