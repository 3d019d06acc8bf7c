"""Pins and tombstones: the union is the same in every order, git holds what was meant, a stranger's tree is refused whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import RecordError
from gitbaton.base.values import replace
from gitbaton.checkpoints.store import Store
from gitbaton.checkpoints.store.meta import NOTHING, Meta, objects_for, read, union
from gitbaton.checkpoints.store.refs import META, remote_ref
from gitbaton.git.objects import NewObject, RefChange, TreeEntry, commit_data, new_object, tree_data
from tests.kit import Sandbox
from tests.kit.tiers import deep

IDS = [f"{n:02x}" * 20 for n in range(6)]
OID = st.sampled_from(IDS)


def meta_of(pins: dict[str, tuple[int, str]], pruned: frozenset[str], forgotten: frozenset[str]) -> Meta:
    """Pins and tombstones; only what is pinned, and not forgotten, has a name."""
    names = {oid: name for oid, (count, name) in pins.items() if name and count % 2 and oid not in forgotten}
    return Meta(pins={oid: count for oid, (count, _) in pins.items()}, names=names, pruned=pruned, forgotten=forgotten)


PIN = st.tuples(st.integers(1, 12), st.sampled_from(["", "before-rewrite", "zwei W\u00f6rter"]))
METAS = st.builds(meta_of, st.dictionaries(OID, PIN), st.frozensets(OID), st.frozensets(OID))


@pytest.fixture(params=["binary", deep("libgit2"), deep("sha256")], scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    kind = request.param
    options = ["--object-format=sha256"] if kind == "sha256" else []
    repo = Sandbox.init(tmp_path_factory.mktemp("meta") / "repo", *options)
    with repo.open(door="libgit2" if kind == "libgit2" else "binary") as baton:
        yield baton.store
    repo.fsck()


def written(store: Store, objects: list[NewObject], ref: str = META) -> str:
    """Objects whose last is made the ref's."""
    store.objects.write(objects)
    found = store.objects.info(ref)
    store.objects.update([RefChange(name=ref, new=objects[-1].oid, old=found.oid if found else None)])
    return objects[-1].oid


def long(store: Store, meta: Meta) -> Meta:
    """The same with ids of the repository's object format."""
    tail = "" if store.objects.algorithm == "sha1" else "f" * 24
    pruned, forgotten = (frozenset(oid + tail for oid in ids) for ids in (meta.pruned, meta.forgotten))
    names = {oid + tail: name for oid, name in meta.names.items()}
    return Meta(pins={oid + tail: count for oid, count in meta.pins.items()}, names=names, pruned=pruned, forgotten=forgotten)


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(st.lists(METAS, max_size=5), st.randoms())
def test_the_union_is_the_same_in_every_order_and_grouping(metas: list[Meta], random: object) -> None:
    whole = union(*metas)
    mixed = [*metas, *metas[:2]]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    cut = len(mixed) // 2
    assert union(union(*mixed[:cut]), union(*mixed[cut:])) == whole == union(whole, whole, NOTHING)
    for oid in IDS:
        assert whole.pinned(oid) == (max([m.pins.get(oid, 0) for m in metas], default=0) % 2 == 1)
        forgotten, pruned = any(oid in m.forgotten for m in metas), any(oid in m.pruned for m in metas)
        assert whole.dropped(oid) == (forgotten or (pruned and not whole.pinned(oid)))


@pytest.mark.deep
@settings(max_examples=12, deadline=None)
@given(meta=METAS)
def test_what_is_written_is_read_back_and_is_the_same_for_all(store: Store, meta: Meta) -> None:
    meta = long(store, meta)
    again = replace(meta, pins=dict(sorted(meta.pins.items(), reverse=True)))
    assert written(store, objects_for(store, meta)) == objects_for(store, again)[-1].oid
    assert read(store) == meta and dict(read(store).pins) == meta.pins


def test_the_layout_in_git(store: Store) -> None:
    one, two, three = (oid for oid in sorted(long(store, Meta(forgotten=frozenset(IDS[:3]))).forgotten))
    written(store, objects_for(store, Meta(pins={one: 1, two: 2}, pruned=frozenset([three]), forgotten=frozenset([one]))))
    repo = Sandbox(Path(store.repo.layout.root or ""))
    empty = new_object(store.objects.algorithm, "blob", b"").oid
    rows = repo.tree(META)
    names = {f"pins/{one[:2]}/{one[2:]}", f"pruned/{three[:2]}/{three[2:]}", f"forgotten/{one[:2]}/{one[2:]}"}
    assert {path for path, row in rows.items() if row == f"100644 {empty}"} == names
    assert repo.git("show", f"{META}:pins/{two[:2]}/{two[2:]}") == "2"
    assert repo.git("log", "-1", "--format=%an <%ae> %at %P %s", META) == "gitbaton <gitbaton@localhost> 0  gitbaton meta 1"


def test_a_commit_can_follow_another_and_says_the_same(store: Store) -> None:
    first = written(store, objects_for(store, NOTHING))
    assert read(store) == NOTHING
    meta = long(store, Meta(pruned=frozenset(IDS)))
    written(store, objects_for(store, meta, [first]))
    assert read(store) == meta


def strange(store: Store) -> dict[str, list[NewObject]]:
    """Commits that gitbaton does not write, by what an error must name."""
    algorithm = store.objects.algorithm
    oid = next(iter(long(store, Meta(pruned=frozenset(IDS[:1]))).pruned))
    blob, text = new_object(algorithm, "blob", b""), new_object(algorithm, "blob", b"x")
    counts = [new_object(algorithm, "blob", raw) for raw in (b"1\n", b"02\n", b"2", b"2\n\n", b"-3\n", b"1" * 12 + b"\n")]
    counts += [
        new_object(algorithm, "blob", raw)
        for raw in (b"2\nx\n", b"1\nx", b"1\n\xff\n", b"3\n\x1b\n", b"1\n%s\n" % (b"x" * 201))
    ]

    def commit(folder: str, digits: str, name: str, mode: bytes = b"100644", to: NewObject = blob) -> list[NewObject]:
        made = [blob, text, *counts]
        for part, kind, below in ((name, mode, to), (digits, b"40000", None), (folder, b"40000", None)):
            entry = TreeEntry(mode=kind, name=part.encode(), oid=(below or made[-1]).oid)
            made.append(new_object(algorithm, "tree", tree_data([entry])))
        data = commit_data(tree=made[-1].oid, parents=(), author=b"x <x@y> 0 +0000", message=b"gitbaton meta 1\n")
        return [*made, new_object(algorithm, "commit", data)]

    short, shown = oid[2:-1], f"{oid[:2]}/{oid[2:]}"
    found = {
        "'more'": commit("more", oid[:2], oid[2:]),
        "'pins/PP'": commit("pins", "PP", oid[2:]),
        f"'pruned/{oid[:2]}/{short}'": commit("pruned", oid[:2], short),
        f"'forgotten/{shown}'": commit("forgotten", oid[:2], oid[2:], b"100755"),
        f"'pruned/{shown}'": commit("pruned", oid[:2], oid[2:], to=text),
    }
    found |= {f"'pins/{shown}'" + " " * n: commit("pins", oid[:2], oid[2:], to=count) for n, count in enumerate(counts)}
    other = new_object(algorithm, "tree", b"")
    data = commit_data(tree=other.oid, parents=(), author=b"x <x@y> 0 +0000", message=b"gitbaton meta 2\n")
    found["its commit"] = [other, new_object(algorithm, "commit", data)]
    found["is a blob"] = [text]
    return found


@pytest.mark.deep
def test_what_gitbaton_does_not_write_is_refused_and_named(store: Store) -> None:
    ref = remote_ref("a/b", "meta")
    for said, objects in strange(store).items():
        written(store, objects, ref)
        with pytest.raises(RecordError) as caught:
            read(store, ref)
        assert f"'{ref}'" in caught.value.message and said.strip() in caught.value.message
    assert read(store, remote_ref("nobody", "meta")) == NOTHING
