"""Peers that share their objects, and join each other's chains in any order, interrupted at random: in the end all agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.checkpoints.store.join import news
from gitbaton.checkpoints.store.meta import Meta, read, union
from gitbaton.checkpoints.store.refs import META, chain_ref, tip_ref
from gitbaton.checkpoints.store.revision import Revision
from tests.kit import Sandbox
from tests.kit.clones import Clock, Clone, State, copied, killed
from tests.kit.tiers import model, sized
from tests.kit.world import Model, agree, auto, kept_by_rules

TRACKS = ("a", "b c")
OPS = ("manual", "manual", "manual", "label", "auto", "auto", "pull", "pull", "pull", "prune", "pin", "unpin", "forget", "gone")
Op = tuple[str, int, int, int]


class Peers:
    """Repositories with one folder of objects. Op: what, who, which, and before which step it is killed (0: it is not)."""

    def __init__(self, place: Path, template: Path, skews: list[float]) -> None:
        self.clock, self.model = Clock(), Model()
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(template / ".git/objects", place / "objects")
        self.peers = []
        for number, skew in enumerate(skews):
            path = copied(template, place / f"p{number}")
            shutil.rmtree(path / ".git/objects")
            (path / ".git/objects").symlink_to(place / "objects")
            self.peers.append(Clone(path, self.clock, skew))
        self.count = 0

    def run(self, op: Op) -> None:
        what, who, which, at = op
        peer = self.peers[who % len(self.peers)]
        before = peer.state()
        self.count += 1
        work = self.work(what, peer, which, before)
        if work is None:
            return
        if not (at and killed(work, at)):
            if not at:
                work()
            self.model.done(what, before, peer.state())
        elif what not in ("prune", "forget", "gone", "pin", "unpin"):
            self.model.saw(peer.state())
        else:  # it may be half done; the next command on the same place does it all
            work()
            self.model.done(what, before, peer.state())

    def work(self, what: str, peer: Clone, which: int, before: State) -> Callable[[], object] | None:
        track = TRACKS[which % 2]
        if what in ("manual", "label", "auto"):
            step = f"{what} {self.count}"
            label = f"l{self.count}" if what == "label" else None
            return lambda: auto(peer, track) if what == "auto" else self.record(peer, track, step, label)
        if what == "pull":
            return lambda: pull(peer, self.peers[which % len(self.peers)])
        items = before.chains.get(track.replace(" ", "%20"), [])
        if not items:
            return None
        oid = items[which % len(items)].id
        if what == "prune":
            keep = kept_by_rules(items, before.meta, 1 + which % 4)
            gone = frozenset(item.id for item in items) - keep
            self.model.pruned |= gone
            return lambda: drop(peer, Meta(pruned=gone))
        if what in ("forget", "gone"):
            ids = frozenset([oid] if what == "forget" else [item.id for item in items])
            self.model.forgotten |= ids
            return lambda: drop(peer, Meta(forgotten=ids))
        times = before.meta.pins.get(oid, 0)
        if times % 2 == (what == "pin"):
            return None
        self.model.pins[oid] = max(times + 1, self.model.pins.get(oid, 0))
        return lambda: drop(peer, Meta(pins={oid: times + 1}))

    def record(self, peer: Clone, track: str, step: str, label: str | None) -> None:
        with peer.open(door="libgit2") as baton:
            baton.snapshot(step, track=track, label=label, files=False)

    def settle(self) -> None:
        for peer in self.peers:  # whatever was killed, the next command repairs
            with peer.open() as baton:
                assert baton.refresh() == []
        for _ in range(2):
            for peer in self.peers:
                for other in self.peers:
                    pull(peer, other)


def pull(peer: Clone, other: Clone) -> None:
    """Join all that another peer has, whose objects are here."""
    refs, notes = (found := State(other.path)).refs, found.notes
    with peer.open(door="libgit2") as baton, baton.repo.lock(()):
        baton.store.settle()
        theirs = "refs/baton/remotes/x/meta"
        revision = Revision(baton.store)
        if META in refs:
            peer.git("update-ref", theirs, refs[META])
            revision.meta = union(revision.meta, read(baton.store, theirs))
        tracks = {track: chain_ref(track) for track in TRACKS}
        for track, ref in tracks.items():
            if ref in refs or revision.meta.drops:
                revision.join(track, news(baton.store, track, refs[ref]) if ref in refs else [], fetched=True)
        revision.notes(notes)
        revision.apply()
        assert not revision.warnings


def drop(peer: Clone, more: Meta) -> None:
    """Add to what is pinned, pruned and forgotten, and carry it out."""
    with peer.open(door="libgit2") as baton, baton.repo.lock((tip_ref("a"),)):
        baton.store.settle()
        revision = Revision(baton.store)
        revision.meta = union(revision.meta, more)
        for track in baton.store.chains()[0]:
            revision.join(track, [])
        revision.apply()
        assert not revision.warnings


def play(place: Path, template: Path, skews: list[float], ops: list[Op]) -> Peers:
    """Carry out all, then let everybody pull from everybody twice: then they agree, and nothing else is missing."""
    peers = Peers(place, template, skews)
    for op in ops:
        peers.run(op)
    peers.settle()
    agree([peer.state() for peer in peers.peers], peers.model)
    for peer in peers.peers:
        assert peer.leftovers() == []
    peers.peers[-1].fsck()
    return peers


@pytest.fixture
def template(tmp_path: Path) -> Path:
    repo = Sandbox.init(tmp_path / "template", "--template=")
    repo.commit("first", a_txt="one\n")
    return repo.path


@sized(0, 4, 800)
def test_peers_agree(count: int, template: Path, tmp_path: Path) -> None:
    ops = st.tuples(st.sampled_from(OPS), st.integers(0, 3), st.integers(0, 11), st.one_of(st.just(0), st.integers(0, 30)))

    @model(count)
    @given(
        st.lists(st.sampled_from([0.0, -300.0, -1.0, 4.0, 7.5]), min_size=2, max_size=4), st.lists(ops, min_size=4, max_size=30)
    )
    def run(skews: list[float], ops: list[Op]) -> None:
        chains = [peer.state().chains for peer in play(tmp_path / "run", template, skews, ops).peers]
        assert all(found == chains[0] for found in chains)

    run()
