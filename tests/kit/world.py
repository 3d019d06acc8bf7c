"""What must be true of clones that have exchanged everything: the model, kept beside them by rules of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from gitbaton.agents.hooks.auto import carry
from gitbaton.base.model import Checkpoint, Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Request
from gitbaton.checkpoints.store.write import SnapshotDraft
from tests.kit.clones import Clone, Item, Pins, State


class Model:
    """Every checkpoint that ever stood in a chain, with its bytes, and what was said of each."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, bytes]] = {}
        self.words: dict[str, str] = {}
        self.pins: dict[str, int] = {}
        self.pruned: frozenset[str] = frozenset()
        self.forgotten: frozenset[str] = frozenset()

    def saw(self, state: State) -> None:
        """What stands in a chain must not be lost any more."""
        for track, items in state.chains.items():
            for item in items:
                known = self.known.setdefault(item.id, (track, item.raw))
                assert known == (track, item.raw), f"{item.id} is in '{known[0]}' and in '{track}'"
                if item.carries:
                    self.words[item.id] = item.carries

    def forget(self, ids: Iterable[str]) -> None:
        """Checkpoints are forgotten somewhere."""
        self.forgotten |= frozenset(ids)

    def done(self, what: str, before: State, after: State) -> None:
        """A command of one clone ended: nothing has gone that nobody dropped."""
        self.saw(after)
        missing = union_of(before) - union_of(after)
        wrong = {oid for oid in missing if not after.meta.dropped(oid) and self.words.get(oid) not in after.meta.forgotten}
        assert not wrong, f"{what}: lost {sorted(wrong)}"

    def dropped(self, oid: str) -> bool:
        """Nothing beats ``forgotten``: nor does who carries the words on."""
        if oid in self.forgotten or self.words.get(oid) in self.forgotten:
            return True
        return oid in self.pruned and self.pins.get(oid, 0) % 2 == 0

    def expected(self) -> dict[str, set[str]]:
        """The ids of each track that all must have in the end."""
        found: dict[str, set[str]] = {}
        for oid, (track, _) in self.known.items():
            if not self.dropped(oid):
                found.setdefault(track, set()).add(oid)
        return found


def union_of(state: State) -> set[str]:
    return {item.id for items in state.chains.values() for item in items}


def check_one(state: State, lone: Iterable[str] = ()) -> None:
    """What must be true of each repository by itself: order, tips, notes."""
    for track, items in state.chains.items():
        places = [item.place for item in items]
        assert places == sorted(places) and len(set(places)) == len(places), f"the order of '{track}'"
        assert state.tips.get(track) == items[-1].id, f"the tip of '{track}'"
    assert state.tips.keys() == state.chains.keys() - set(lone)
    noted = state.noted()
    here = {item.id: item for items in state.chains.values() for item in items}
    for item in here.values():
        head = item.data["head"]
        if item.data["kind"] == "manual" and head is not None:
            assert noted.get(head, []).count(item.id) == 1, f"the note of {item.id}: {item.data['step']}"
    dropped = {oid for ids in noted.values() for oid in ids if state.meta.dropped(oid)}
    assert not dropped, f"notes name what was dropped: {dropped}"
    fetched = {oid for ids in state.ids("refs/baton/remotes/origin/tracks/").values() for oid in ids}
    gone = {oid for ids in noted.values() for oid in ids} - here.keys() - fetched
    assert not gone, f"notes name what is in no chain: {gone}"


def agree(states: Sequence[State], model: Model) -> None:
    """All clones hold the same commits, pins, tombstones and notes, and these are what the model says."""
    first = states[0]
    expected = model.expected()
    for state in states:
        check_one(state)
        assert {track: set(ids) for track, ids in state.ids().items()} == expected
        raws = {item.id: item.raw for items in state.chains.values() for item in items}
        assert all(model.known[oid][1] == raw for oid, raw in raws.items())
        assert {oid: n for oid, n in state.meta.pins.items() if n} == model.pins
        assert state.meta.pruned == model.pruned
        assert model.forgotten <= state.meta.forgotten
        assert all(oid in model.forgotten or model.words.get(oid) in model.forgotten for oid in state.meta.forgotten)
        chains = {track: [item.commit for item in items] for track, items in state.chains.items()}
        assert chains == {track: [item.commit for item in items] for track, items in first.chains.items()}
        assert state.refs.get("refs/baton/meta") == first.refs.get("refs/baton/meta")
        assert state.notes == first.notes


def kept_by_rules(items: Sequence[Item], meta: Pins, last: int, *, milestones: bool = True) -> frozenset[str]:
    """What a prune with ``--keep-last`` leaves of a chain, oldest first, said as the issue says it."""
    kept = {item.id for item in items[-last:]} | {item.id for item in items if meta.pinned(item.id)}
    kept |= {item.id for item in items if milestones and item.data["label"]}
    kept |= {item.id for item in [i for i in items if i.data["kind"] == "manual"][-1:]}
    carried = {item.carries for item in items if item.id in kept}
    return frozenset(kept | {item.id for item in items if item.id in carried})


def auto(clone: Clone, track: str, *, files: bool = False) -> str:
    """An automatic checkpoint that carries the words of the newest one, as the hooks take it; its id."""
    with clone.open(door="libgit2") as baton:
        plan = baton.plan(Request(track=track, step="turn ended", kind="auto", files=files, set_current=False))

        def follow(draft: SnapshotDraft, newest: Stored | None) -> Checkpoint:
            return carry(draft.checkpoint, newest, 1) if newest else draft.checkpoint

        return baton.apply(replace(plan, draft=replace(plan.draft, follow=follow))).stored.id


def name_of(encoded: str) -> str:
    """A track's name from its ref."""
    return unquote(encoded)
