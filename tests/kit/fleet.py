"""A remote and clones of it that do anything in any order, each step held against the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

from tests.kit.clones import Clock, Clone, State, copied, killed
from tests.kit.repos import Outcome, Sandbox
from tests.kit.servers import REFUSES_REWRITING, hook
from tests.kit.world import Model, agree, auto, check_one, kept_by_rules, union_of

Op = tuple[str, int, int, int]
TRACKS = ("work", "b c", "docs")
TWIN = "Docs"  # clones of an odd number call "docs" so
VERBS = (
    "nothing",
    *("manual", "manual", "manual", "files", "label", "auto", "auto", "import", "again", "sync", "sync", "sync", "sync one"),
    *(
        "push",
        "fetch",
        "prune",
        "milestones",
        "pin",
        "unpin",
        "forget",
        "gone",
        "everywhere",
        "commit",
        "amend",
        "switch",
        "gc",
    ),
)


def template(place: Path) -> Path:
    """A bare remote ``remote.git``, a ``clone`` of it, and folders of older checkpoints, to be copied."""
    shutil.rmtree(place, ignore_errors=True)
    first = Sandbox.init(place / "clone", "--template=")
    first.commit("first", a_txt="one\n", b_txt="b\n")
    first.git("branch", "side")
    first.commit("second", a_txt="two\n")
    Sandbox.init(place / "remote.git", "--bare", "--template=")
    first.git("remote", "add", "origin", "../remote.git")
    first.git("push", "-q", "origin", "main", "side")
    for number in range(2):
        folder = place / f"old{number}"
        folder.mkdir()
        for n in range(number, number + 3):
            record = {"track": "work", "step": f"old {n}", "timestamp": f"2026-01-{20 + n}T10:00:00Z", "head": first.head()}
            (folder / f"context_checkpoint_2026012{n}T100000_x.json").write_text(json.dumps(record))
    return place


class Fleet:
    """``run`` carries out an op: what, who, which, and before which step that writes it is killed (0: it is not)."""

    def __init__(self, place: Path, source: Path, skews: list[float], *, twins: bool = False, refuses: bool = False) -> None:
        copied(source, place)
        self.clock, self.model, self.twins, self.refuses = Clock(), Model(), twins, refuses
        self.place, self.remote = place, Sandbox(place / "remote.git")
        if refuses:
            hook(self.remote.path, "update", REFUSES_REWRITING)
        self.clones = [Clone(copied(place / "clone", place / f"c{n}"), self.clock, skew) for n, skew in enumerate(skews)]
        self.count = 0

    def run(self, op: Op) -> None:
        """One op, and what must be true of the clone and the remote after it."""
        what, who, which, at = op
        clone = self.clones[who % len(self.clones)]
        self.count += 1
        if what == "nothing":
            return
        before, remote = clone.state(), State(self.remote.path)
        if what in ("commit", "amend", "switch", "gc"):
            self.user(clone, what, which)
            return
        work = self.work(clone, what, which, before)
        if work is None:
            return
        mine = clone.mine()
        if not at or not killed(work, at):
            if not at:
                work()
        elif what in ("prune", "milestones", "forget", "gone", "everywhere", "pin", "unpin"):
            work()  # it may be half done; typed once more, it does all of it
        assert clone.mine() == mine, f"{op}: what is the user's has changed"
        self.model.done(str(op), before, clone.state())
        self.check_remote(op, remote)

    def check_remote(self, op: object, before: State) -> None:
        """The remote lost nothing that nobody dropped."""
        after = State(self.remote.path)
        lost = {oid for oid in union_of(before) - union_of(after) if not after.meta.dropped(oid)}
        lost = {oid for oid in lost if self.model.words.get(oid) not in after.meta.forgotten}
        assert not lost, f"{op}: the remote lost {sorted(lost)}"
        assert after.theirs() == before.theirs()

    def user(self, clone: Clone, what: str, which: int) -> None:
        """What the user does between our commands."""
        if what == "gc":
            clone.git("gc", "-q", "--prune=now")
        elif what == "switch":
            clone.git("checkout", "-q", "-f", ("side", "main")[which % 2])
        else:
            clone.write("a.txt", f"{self.count}\n")
            clone.git("commit", "-q", "-a", "-m", f"c{self.count}", *(["--amend"] if what == "amend" else []))

    def track(self, clone: Clone, which: int, state: State) -> str:
        """A track's name; one that a clone has already is called there as it is."""
        name = TRACKS[(0, 0, 1, 0, 2, 0)[which % 6]]
        if name == "docs" and self.twins:
            name = TWIN if self.clones.index(clone) % 2 else name
            name = next((track for track in state.chains if track.casefold() == name.casefold()), name)
        return name

    def work(self, clone: Clone, what: str, which: int, before: State) -> Callable[[], object] | None:
        """What an op comes to; None where there is nothing to do it with."""
        track = self.track(clone, which, before)
        if what in ("manual", "files", "label"):
            words = ["--track", track, "--step", f"{what} {self.count}", "--note", f"note {self.count}"]
            words += [] if what == "files" else ["--no-files"]
            words += ["--label", f"l{self.count}"] if what == "label" else []
            if what == "files":
                clone.write("new.txt", f"{self.count}\n")
            return lambda: ok(clone, "snapshot", *words)
        if what == "auto":
            return lambda: auto(clone, track)
        if what in ("import", "again"):
            return lambda: ok(clone, "import", str(self.place / f"old{which % 2}"))
        if what in ("sync", "push", "fetch"):
            return lambda: exchange(clone, what)
        if what == "sync one":
            known = {name for name in (track,) if name_here(before, name)}
            return (lambda: exchange(clone, "sync", *known)) if known else None
        return self.retention(clone, what, which, before, track)

    def retention(self, clone: Clone, what: str, which: int, before: State, track: str) -> Callable[[], object] | None:
        """What removes or keeps; the model is told at once: a killed one is carried out again."""
        items = before.chains.get(track.replace(" ", "%20"), [])
        if not items:
            return None
        if what in ("prune", "milestones"):
            kept = kept_by_rules(items, before.meta, 1 + which % 4, milestones=what == "prune")
            self.model.pruned |= {item.id for item in items} - kept
            more = [] if what == "prune" else ["--drop-milestones"]
            return lambda: ok(clone, "prune", track, "--keep-last", str(1 + which % 4), *more)
        oid = items[which % len(items)].id
        if what in ("pin", "unpin"):
            times = before.meta.pins.get(oid, 0)
            if times % 2 == (what == "unpin"):
                self.model.pins[oid] = max(times + 1, self.model.pins.get(oid, 0))
            return lambda: ok(clone, what, oid)
        ids = [item.id for item in items] if what == "gone" else [oid]
        self.model.forget(ids)
        return lambda: ok(clone, "forget", "--yes", "--force", *ids, *(["--everywhere"] if what == "everywhere" else []))

    def settle(self) -> None:
        """All clocks are right at last, and everybody syncs twice."""
        self.clock.now += timedelta(days=3)
        for clone in self.clones:
            clone.skew = 0
        last = self.clones[0]  # where a remote has no track, it is not told of tombstones either
        ok(last, "snapshot", "--track", "work", "--step", "the last", "--no-files")
        self.model.saw(last.state())
        for _ in range(2):
            for clone in self.clones:
                before, remote = clone.state(), State(self.remote.path)
                exchange(clone, "sync")
                self.model.done("the last sync", before, clone.state())
                self.check_remote("the last sync", remote)

    def check(self) -> None:
        """Everybody agrees, and git finds nothing wrong."""
        states = [clone.state() for clone in self.clones]
        if self.twins:
            self.check_twins(states)
        else:
            agree(states, self.model)
            if not self.refuses:
                remote = State(self.remote.path)
                assert {t: [i.commit for i in c] for t, c in remote.chains.items()} == {
                    t: [i.commit for i in c] for t, c in states[0].chains.items()
                }
        for clone in self.clones:
            assert clone.leftovers() == [], clone.name
            strangers = [r for r in clone.state().refs if not r.startswith(("refs/heads/", "refs/remotes/", "refs/baton/"))]
            assert {r.split("/")[1] for r in strangers} <= {"checkpoints", "notes"}
            clone.fsck()
        self.remote.fsck()

    def check_twins(self, states: Iterable[State]) -> None:
        """Tracks whose names differ only in case: nobody joins them, and nobody loses one."""
        expected = self.model.expected()
        everywhere: dict[str, set[str]] = {}
        for state in states:
            for track, ids in state.ids().items():
                everywhere.setdefault(track, set()).update(ids)
        assert everywhere == expected
        for state in states:
            check_one(state)
            assert len({track.casefold() for track in state.chains}) == len(state.chains)
            for track, ids in state.ids().items():
                assert set(ids) == expected[track], f"'{track}' is not whole"
            assert self.model.forgotten <= state.meta.forgotten


def name_here(state: State, track: str) -> bool:
    """Whether a clone has a track."""
    return track.replace(" ", "%20") in state.chains


def ok(clone: Clone, *words: str) -> Outcome:
    """A command that must succeed."""
    done = clone.here(*words)
    assert done.code == 0, f"{clone.name}: git baton {' '.join(words)}: {done.code}\n{done.out}\n{done.err}"
    return done


def exchange(clone: Clone, verb: str, *tracks: str) -> Outcome:
    """push, fetch or sync; "no" is an answer of push and sync where others were faster or their clocks are ahead."""
    words = ["--yes"] if verb in ("push", "sync") else []
    done = clone.here(verb, *words, "origin", *tracks)
    assert done.code in (0, 1), f"{clone.name}: git baton {verb}: {done.code}\n{done.out}\n{done.err}"
    return done
