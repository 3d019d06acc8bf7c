"""Joining with tombstones, with chains that others wrote in their way, and over a beginning that is not looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gitbaton.base.codec import message, payload
from gitbaton.base.errors import RecordError
from gitbaton.base.values import replace
from gitbaton.checkpoints.store import Store, chain_ref
from gitbaton.checkpoints.store.join import Link, joined, links, merged, news
from gitbaton.checkpoints.store.meta import Meta, union
from gitbaton.git.objects import RefChange, commit_data, new_object
from tests.kit import Sandbox
from tests.kit.state import insert
from tests.kit.tiers import deep
from tests.rooms.store.test_join import commits, heads, link, put, sandbox


@pytest.fixture(params=["binary", deep("libgit2"), deep("sha256")])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = request.param
    repo = Sandbox.init(tmp_path / "joined", *(["--object-format=sha256"] if kind == "sha256" else []))
    repo.commit("first", a_txt="one\n")
    repo.commit("second", a_txt="two\n")
    with repo.open(door="libgit2" if kind == "libgit2" else "binary") as baton:
        yield baton.store


def raw_chain(store: Store, track: str, items: Sequence[Link], *, odd: int | None = None) -> str:
    """A chain written by somebody else, as it comes; the link ``odd`` has another committer."""
    parent = store.root
    insert(store, "roots", [link(store, 99)])
    made = []
    for place, item in enumerate(items):
        parents = [parent, *([item.base] if item.base else [])]
        data = commit_data(tree=item.tree, parents=parents, author=item.author, message=item.message)
        data = data.replace(b"committer Writer", b"committer Somebody") if place == odd else data
        made.append(new_object(store.objects.algorithm, "commit", data))
        parent = made[-1].oid
    store.objects.write(made)
    old = store.objects.info(chain_ref(track))
    store.objects.update([RefChange(name=chain_ref(track), new=parent, old=old.oid if old else None)])
    return parent


def test_of_what_is_dropped_nothing_but_its_id_is_read(store: Store) -> None:
    items = [link(store, n) for n in range(3)]
    raw = payload(items[1].message).replace(b'"validation": "pending"', b'"validation": "purple"')
    bad = replace(items[1], id=new_object(store.objects.algorithm, "blob", raw).oid, message=message("step 1", raw))
    raw_chain(store, "t", [items[0], bad, items[2]])
    with pytest.raises(RecordError, match="'t' has a broken record"):
        joined(store, "t", [link(store, 0, at=-1)])
    plan = joined(store, "t", meta=Meta(pruned=frozenset([bad.id])))
    assert (plan.removed, [*plan.placed], plan.kept) == ((bad.id,), [items[2].id], 1)


def test_what_is_dropped_goes_on_both_sides(store: Store) -> None:
    items = [link(store, n) for n in range(6)]
    insert(store, "t", items[:4])
    before = commits(store, "t")
    meta = Meta(pins={items[1].id: 1}, pruned=frozenset(i.id for i in items[1:3]), forgotten=frozenset([items[5].id]))
    plan = joined(store, "t", items[3:], meta=meta)
    assert (plan.added, plan.removed, plan.kept) == (1, (items[2].id,), 2)
    put(store, "t", items[3:], meta)
    assert [i.id for i in links(store, "t")] == [items[n].id for n in (0, 1, 3, 4)] and commits(store, "t")[:2] == before[:2]
    assert joined(store, "t", items, meta=meta).change is None
    put(store, "t", (), Meta(forgotten=frozenset(i.id for i in items)))
    assert store.objects.info(chain_ref("t")) is None
    assert joined(store, "t", items, meta=Meta(forgotten=frozenset(i.id for i in items))) == joined(store, "none", ())
    sandbox(store).fsck()


def test_only_what_is_kept_stays(store: Store) -> None:
    items = [link(store, n) for n in range(5)]
    insert(store, "t", items)
    before = commits(store, "t")
    plan = joined(store, "t", keep=[items[n].id for n in (0, 1, 4)])
    assert (plan.kept, plan.removed, len(plan.placed)) == (2, (items[2].id, items[3].id), 1)
    assert plan.change is not None and plan.change.old == before[-1]
    assert joined(store, "t", keep=[i.id for i in items]).change is None
    top = joined(store, "t", keep=[i.id for i in items[:3]])
    assert top.change is not None and top.change.new == before[2] and not top.placed
    gone = joined(store, "t", keep=[])
    assert gone.change == RefChange(name=chain_ref("t"), new=None, old=before[-1]) and len(gone.removed) == 5


@pytest.mark.deep
def test_an_id_that_stands_twice_is_read_once(store: Store) -> None:
    items = [link(store, n) for n in (0, 1, 3, 2)]
    start = raw_chain(store, "theirs", [*items[:3], items[3], items[2]])  # as on a server that lets nothing be rewritten
    assert [s.checkpoint.step for s in store.history("theirs").items] == ["step 3", "step 2", "step 1", "step 0"]
    put(store, "t", links(store, "t", start))
    insert(store, "other", items)
    assert commits(store, "t") == commits(store, "other")
    put(store, "theirs", [link(store, 9)])
    insert(store, "other", [link(store, 9)])
    assert commits(store, "theirs") == commits(store, "other")
    sandbox(store).fsck()


@pytest.mark.deep
def test_a_commit_that_others_wrote_in_their_way_is_written_in_ours(store: Store) -> None:
    items = [link(store, n) for n in range(4)]
    start = raw_chain(store, "theirs", items, odd=2)
    insert(store, "ours", items)
    put(store, "t", links(store, "t", start))
    put(store, "theirs", links(store, "theirs", store.objects.info(chain_ref("ours")).oid))  # type: ignore[union-attr]
    assert commits(store, "t") == commits(store, "theirs") == commits(store, "ours")


def test_a_checkpoint_without_a_base_gives_way_to_one_with_it(store: Store) -> None:
    one, two = sorted(heads(store))
    forms = [replace(link(store, 1), base=base) for base in (None, two, one)]
    assert merged(forms, ()) == merged(forms[::-1], forms) == [forms[2]] and merged(forms[:2], ()) == [forms[1]]


@pytest.mark.deep
def test_a_long_common_beginning_is_not_taken_apart(store: Store) -> None:
    items = [link(store, n) for n in range(60)]
    torn = replace(items[10], message=items[10].message.replace(b'"step"', b'"stop"'))
    held = [*items[:10], torn, *items[11:50]]
    start = raw_chain(store, "t", held)
    theirs = raw_chain(store, "theirs", [*held, *items[55:]])
    with pytest.raises(RecordError):
        links(store, "t")
    put(store, "t", items[50:55])
    meta = Meta(forgotten=frozenset(["e" * 40]), pruned=frozenset([items[52].id]), pins={items[52].id: 1})
    more = news(store, "t", theirs)
    plan = joined(store, "t", more, meta=meta)
    assert [m.id for m in more] == [i.id for i in items[55:]] and (plan.added, plan.kept) == (5, 55)
    assert joined(store, "t", [link(store, 51), link(store, 60, at=51)], meta=meta).kept in (51, 52)
    lost = joined(store, "t", meta=union(meta, Meta(forgotten=frozenset([items[20].id]))))
    assert lost.removed == (items[20].id,) and lost.kept == 20
    assert news(store, "t", start) == []
    with pytest.raises(RecordError):
        news(store, "fresh", theirs)
