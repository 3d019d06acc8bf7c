"""Two agents and a human who commits, amends, pulls and rebases, in any order: a model says what each verb must say of HEAD."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gitbaton import Baton
from gitbaton.agents.hooks import auto
from gitbaton.agents.hooks.git import drift_lines
from gitbaton.base.clients import HookEvent
from gitbaton.checkpoints.store.sessions import Session
from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.tiers import model, sized

STEPS = 30
TRACKS = ("A", "B")
paths = st.sampled_from(["a.txt", "b", "d/x", "d/y"])
texts = st.sampled_from(["", "0\n", "1\n", "2\n"])
tracks = st.sampled_from(TRACKS)
Tree = dict[str, str]


@dataclass(frozen=True)
class Taken:
    """A checkpoint as the model knows it: where HEAD was, what the work tree and the index held, and whether it has words."""

    head: str
    branch: str
    tree: Tree
    staged: Tree
    words: bool


class Drifting(RuleBasedStateMachine):
    template: ClassVar[Path]
    moved: ClassVar[dict[str, int]]

    def __init__(self) -> None:
        super().__init__()
        place = self.template.parent / "run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.template, place, symlinks=True)
        self.box = Sandbox(place)
        self.chains: dict[str, list[Taken]] = {track: [] for track in TRACKS}
        self.became: dict[str, str] = {}
        self.count = 0

    # What git itself says.

    def branch(self) -> str:
        return self.box.git("rev-parse", "--abbrev-ref", "HEAD")

    def is_before(self, old: str, new: str) -> bool:
        return self.box.try_git("merge-base", "--is-ancestor", old, new).code == 0

    def ahead(self, old: str, new: str) -> int:
        return int(self.box.git("rev-list", "--count", f"{old}..{new}"))

    # What the model expects.

    def strange(self, then: Taken, later: str) -> set[str] | None:
        """The paths of the commits from ``then`` to ``later`` that hold something else; None where nothing differs at all."""
        before, after = self.box.tree(then.head), self.box.tree(later)
        differ = {p for p in {*before, *after} if before.get(p) != after.get(p)}
        own = {p for p in differ if after.get(p) in (then.tree.get(p), then.staged.get(p))}
        return differ - own if differ else None

    def followed(self, old: str, new: str) -> bool:
        """Whether rewrites made ``new`` of ``old``."""
        seen = {old}
        while (old := self.became.get(old, "")) not in ("", *seen):
            if old == new:
                return True
            seen.add(old)
        return False

    def expected(self, chain: list[Taken]) -> tuple[str, set[str]]:
        """The word about HEAD (``head-`` where the model does not say which), and the paths from elsewhere, since the words of
        a chain were written; of a chain of one since that one."""
        now = self.box.head()
        start = max(n for n, taken in enumerate(chain) if taken.words)
        words = chain[start]
        if words.head == now or (self.followed(words.head, now) and not self.is_before(words.head, now)):
            return "", set()
        later, count, strange = now, 0, set[str]()
        below = chain[start:] if words.head != chain[-1].head else chain[-1:]
        for taken in reversed(below):
            if taken.head == later:
                continue
            if self.is_before(taken.head, later):
                found = self.strange(taken, later)
                if found is None:
                    return "head-", set()
                strange |= found
                count = count or self.ahead(taken.head, later)
            elif not self.followed(taken.head, later):
                return "head-", set()
            later = taken.head
        return (f"committed:{count}", set()) if not strange else ("head-", strange)

    def check(self) -> None:
        """Every verb says of each track what the model says."""
        self.count += 1
        rows = [row.split("\t") for row in self.box.here("status", "--porcelain").out.splitlines()[2:]]
        shown = {row[1]: row[5] for row in rows}
        for track in TRACKS:
            if not self.chains[track]:
                continue
            chain = self.chains[track]
            said = self.verified(track, [replace(chain[-1], words=True)])
            assert shown[track] == (",".join(said) or "none")
            self.check_resume(track, said, self.verified(track, chain, "--words"))
        self.check_hooks()

    def verified(self, track: str, chain: list[Taken], *options: str) -> list[str]:
        """The words of ``verify``, which must be those of the model for a chain."""
        word, strange = self.expected(chain)
        switched = self.branch() != next(taken for taken in reversed(chain) if taken.words).branch
        done = self.box.here("verify", "--track", track, *options)
        said = [row.split(": ", 1)[0] for row in done.out.splitlines()]
        about = [w for w in said if w.startswith(("committed", "head-"))]
        assert ("branch-switched" in said) == switched, (track, said)
        assert [w for w in about if w.startswith("committed")] == [word] * word.startswith("committed"), (track, word, done)
        assert bool(about) == bool(word) and about[:1] == [w for w in about if w.startswith(word or "?")][:1], (word, done)
        assert done.code == (1 if switched or word == "head-" else 0), (track, word, done)
        if strange and any(w.startswith("head-ahead") for w in about):
            count = "1 path was" if len(strange) == 1 else f"{len(strange)} paths were"
            assert f"; {count} committed since, not as the checkpoint holds" in done.out, (strange, done)
        type(self).moved[word[:9]] = type(self).moved.get(word[:9], 0) + 1
        return said

    def check_resume(self, track: str, said: list[str], since: list[str]) -> None:
        """Drift is the newest checkpoint's; green is stale only where files differ from those that were green."""
        lines = self.box.here("resume", "--porcelain", "--live", "--track", track).out.splitlines()
        assert f"drift={','.join(said) or 'none'}" in lines
        found = next(line for line in lines if line.startswith("validation="))
        assert ("stale" in found) == any(w.startswith("files-changed") for w in since), (found, since)
        row = next((line for line in lines if line.startswith("since=")), None)
        assert (row is None) == self.chains[track][-1].words and (
            row is None or ("branch" in row) == ("branch-switched" in since)
        )

    def check_hooks(self) -> None:
        """What the sh hooks compare HEAD with never hides a move, and at home nothing is said."""
        with Baton(self.box.path, door="binary") as baton:
            current = baton.current()
            if current is None:
                return
            newest = replace(self.chains[current][-1], words=True)
            word, moved = self.expected([newest])[0], self.box.here("verify", "--track", current).code == 1
            lines = drift_lines(baton, "post-checkout")
            assert not lines or moved, lines
            expect = (self.box.path / ".git/baton/expect").read_text().strip()
            if not moved and not self.box.git("reflog", "-1", "--format=%gs").startswith("rebase"):
                assert expect == self.box.head(), "the next one starts no Python"
            assert expect != self.box.head() or word != "head-", "HEAD has moved, and no hook would look"

    # What the agents do.

    @rule(name=paths, text=texts)
    def edit(self, name: str, text: str) -> None:
        self.box.write(name, text)

    @rule(name=paths)
    def delete(self, name: str) -> None:
        (self.box.path / name).unlink(missing_ok=True)

    @rule(track=tracks)
    def snapshot(self, track: str) -> None:
        assert self.box.here("snapshot", "--track", track, "--step", "s", "--validation", "green").code == 0
        self.remember(track, words=True)
        self.check()

    @rule(track=tracks)
    def turn(self, track: str) -> None:
        """The turn of an agent ends: its hook takes a checkpoint that carries the words."""
        if not self.chains[track]:
            return
        before = self.box.git("rev-parse", f"refs/baton/tracks/{track}")
        with Baton(self.box.path, door="binary") as baton:
            event = HookEvent(agent="claude", name="Stop", moment="turn", session=track)
            auto.take(baton, event, Session(), lambda: track, "turn ended")
        if self.box.git("rev-parse", f"refs/baton/tracks/{track}") != before:
            self.remember(track, words=False)
        self.check()

    @rule(track=tracks, edits=st.lists(st.tuples(paths, texts), min_size=1, max_size=2), words=st.booleans())
    def work(self, track: str, edits: list[tuple[str, str]], words: bool) -> None:
        """A piece of work, and a checkpoint of it."""
        for name, text in edits:
            self.box.write(name, text)
        self.turn(track) if self.chains[track] and not words else self.snapshot(track)

    @rule(track=tracks, edits=st.lists(st.tuples(paths, texts), min_size=1, max_size=2), words=st.booleans())
    def work_and_commit(self, track: str, edits: list[tuple[str, str]], words: bool) -> None:
        self.work(track, edits, words)
        self.commit_everything()

    def remember(self, track: str, *, words: bool) -> None:
        tree = self.box.tree(f"refs/baton/tracks/{track}")
        taken = Taken(self.box.head(), self.branch(), tree, self.box.tree(self.box.git("write-tree")), words)
        self.chains[track].append(taken)
        self.became.pop(taken.head, None)  # it came back, and is itself again

    # What the human does.

    @rule(name=st.one_of(st.none(), paths))
    def stage(self, name: str | None) -> None:
        self.box.try_git("add", "-A", "--", name or ":/")

    @rule(how=st.sampled_from([(), ("-a",), ("--allow-empty",)]))
    def commit(self, how: tuple[str, ...]) -> None:
        self.count += 1
        if self.box.try_git("commit", "-q", "-m", f"c{self.count}", *how).code == 0:
            self.check()

    @rule()
    def commit_everything(self) -> None:
        self.box.git("add", "-A")
        self.commit(())

    @rule(how=st.sampled_from([(), ("-a",)]))
    def amend(self, how: tuple[str, ...]) -> None:
        self.count += 1
        old = self.box.head()
        if self.box.try_git("commit", "-q", "--amend", "--allow-empty", "-m", f"a{self.count}", *how).code == 0:
            self.became[old] = self.box.head()
            self.check()

    @rule(name=paths, text=texts)
    def others_push(self, name: str, text: str) -> None:
        """Somebody else's commit on what is upstream of us."""
        self.count += 1
        index = str(self.box.path / ".git/theirs")
        blob = self.box.git("hash-object", "-w", "--stdin", stdin=text.encode())
        self.box.git("read-tree", "upstream", env={"GIT_INDEX_FILE": index})
        self.box.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env={"GIT_INDEX_FILE": index})
        tree = self.box.git("write-tree", env={"GIT_INDEX_FILE": index})
        commit = self.box.git("commit-tree", "-p", "upstream", "-m", f"u{self.count}", tree)
        self.box.git("branch", "-f", "upstream", commit)

    @rule(how=st.sampled_from(["--ff-only", "--no-ff", "--ff"]))
    def pull(self, how: str) -> None:
        before = self.box.head()
        if self.box.try_git("merge", "-q", how, "-m", "m", "upstream").code:
            self.box.try_git("merge", "--abort")
        if self.box.head() != before:
            self.check()

    @rule()
    def rebase(self) -> None:
        before = self.box.head()
        base = self.box.git("merge-base", "upstream", "HEAD")
        mine = self.box.git("rev-list", "--reverse", "--no-merges", f"{base}..HEAD").split()
        if self.box.try_git("rebase", "-q", "--empty=keep", "upstream").code:
            self.box.try_git("rebase", "--abort")
        if self.box.head() == before:
            return
        kept = self.box.path / ".git/baton/rewritten"  # which begins with the first checkpoint
        pairs = [row.split() for row in kept.read_text().splitlines()] if kept.exists() else []
        self.became |= {old: new for old, new, *_ in pairs if old in mine}
        self.check()

    @rule(where=st.sampled_from(["main", "topic", "HEAD~1"]), back=st.booleans())
    def go(self, where: str, back: bool) -> None:
        words = ("reset", "-q", "--keep", where) if back else ("checkout", "-q", where)
        if where == "HEAD~1" and not back:
            return
        if self.box.try_git(*words).code == 0:
            self.check()


@sized(1, 3, 150)
def test_what_is_said_of_head_is_so(count: int, repo: Sandbox) -> None:
    repo.commit("more", b="b\n")
    repo.git("branch", "topic")
    repo.git("branch", "upstream")
    repo.git("config", "notes.rewriteRef", "refs/notes/checkpoints*")
    hook = repo.write(".git/hooks/post-rewrite", (ROOT / "hooks" / "post-rewrite").read_bytes())
    hook.chmod(0o755)
    Drifting.template, Drifting.moved = repo.path, {}
    run_state_machine_as_test(Drifting, settings=model(count, stateful_step_count=STEPS))
    assert count == 1 or {"", "head-", "committed"} <= {word.rstrip(":") for word in Drifting.moved}, Drifting.moved
