"""Joining chains: the union by id in the order of time, the same commits for everybody, and git finds nothing wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton import Baton
from gitbaton.base.codec import encode, message
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Checkpoint
from gitbaton.base.values import replace
from gitbaton.checkpoints.store import Store, chain_ref
from gitbaton.checkpoints.store.join import Link, joined, linked, links, merged, reading_ahead
from gitbaton.checkpoints.store.meta import NOTHING, Meta
from gitbaton.git.objects import RefChange, commit_data, new_object, parse_commit
from tests.kit import Sandbox, integer_clock
from tests.kit.state import insert
from tests.kit.tiers import deep

START = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture(params=["binary", deep("libgit2"), deep("sha256")])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    kind = request.param
    repo = Sandbox.init(tmp_path / "joined", *(["--object-format=sha256"] if kind == "sha256" else []))
    repo.commit("first", a_txt="one\n")
    repo.commit("second", a_txt="two\n")
    with repo.open(door="libgit2" if kind == "libgit2" else "binary") as baton:
        yield baton.store


def sandbox(store: Store) -> Sandbox:
    return Sandbox(Path(store.repo.layout.root or ""))


def link(
    store: Store, number: int, *, at: int | None = None, base: str | None = None, tail: bytes = b"", tree: str = ""
) -> Link:
    """A link of its own words, ``at`` seconds after the start."""
    created = START + timedelta(seconds=number if at is None else at)
    raw = encode(Checkpoint(track="t", step=f"step {number}", head=base, created=created))
    algorithm = store.objects.algorithm
    author = f"Writer {number % 3} <w{number % 3}@example.com> {int(created.timestamp())} +0000".encode()
    return Link(
        id=new_object(algorithm, "blob", raw).oid,
        created=created,
        message=message(f"step {number}", raw) + tail,
        tree=tree or store.tree_of(base) or new_object(algorithm, "tree", b"").oid,
        base=base,
        author=author,
    )


def commits(store: Store, track: str) -> list[str]:
    return [c.commit or "" for c in links(store, track)]


def stored(store: Store, track: str) -> list[tuple[bytes, str, bytes]]:
    """Message, tree and author of each commit of a chain, as git has them, without the root."""
    found = store.objects.read_many(commits(store, track))
    raw = [parse_commit(o.data) for o in found if o is not None and o.data is not None]
    return [(c.message, c.tree, c.author) for c in raw]


def heads(store: Store) -> list[str]:
    return sandbox(store).git("rev-list", "HEAD").split()


def assert_parents(store: Store, track: str) -> None:
    """The parents of every commit: the one before it, and at most one more that is another."""
    rows = sandbox(store).git("rev-list", "--first-parent", "--parents", "--reverse", chain_ref(track)).splitlines()
    before: list[str] = []
    for row in rows:
        commit, *parents = row.split()
        assert parents[:1] == before and len(parents) <= 2 and len(set(parents)) == len(parents)
        before = [commit]


@pytest.mark.deep
def test_a_union_in_the_order_of_time_with_the_bytes_as_they_are(store: Store) -> None:
    base = heads(store)
    items = [link(store, n, base=base[n % 2], tail=b"\nReserved: paragraph\n" if n == 2 else b"") for n in range(5)]
    assert insert(store, "t", [items[3], items[1]]) == 2
    assert insert(store, "t", [items[4], items[0], items[2], items[1]]) == 3
    found = links(store, "t")
    assert [replace(f, commit=None) for f in found] == items
    assert stored(store, "t") == [(i.message, i.tree, i.author) for i in items]
    assert [s.id for s in reversed(store.history("t").items)] == [i.id for i in items]
    assert_parents(store, "t")
    sandbox(store).fsck()


@pytest.mark.deep
def test_the_common_beginning_keeps_its_commits(store: Store) -> None:
    insert(store, "t", [link(store, n) for n in (0, 1, 2, 4, 5)])
    before = commits(store, "t")
    assert insert(store, "t", [link(store, 3)]) == 1
    after = commits(store, "t")
    assert after[:3] == before[:3] and not set(after[3:]) & set(before)
    assert insert(store, "t", [link(store, 6)]) == 1 and commits(store, "t")[:6] == after


def test_nothing_new_moves_nothing(store: Store) -> None:
    items = [link(store, n) for n in range(3)]
    insert(store, "t", items)
    ref = store.objects.info(chain_ref("t"))
    plan = joined(store, "t", items[:2])
    assert (plan.added, plan.change, plan.objects) == (0, None, ()) and (plan.kept, plan.removed) == (0, ())
    assert insert(store, "t", items) == 0 and insert(store, "t", []) == 0
    assert store.objects.info(chain_ref("t")) == ref
    assert insert(store, "other", []) == 0 and store.objects.info(chain_ref("other")) is None


def put(store: Store, track: str, more: Sequence[Link], meta: Meta = NOTHING) -> None:
    """Join with tombstones, and carry it out."""
    plan = joined(store, track, more, meta=meta)
    store.objects.write(plan.objects)
    store.objects.update([plan.change] if plan.change else [])


def test_equal_times_are_ordered_by_id(store: Store) -> None:
    items = [link(store, n, at=0) for n in range(6)]
    insert(store, "t", items[:3])
    insert(store, "t", items[3:])
    assert [i.id for i in links(store, "t")] == sorted(i.id for i in items)
    sandbox(store).fsck()


@pytest.mark.deep
def test_of_two_forms_of_one_checkpoint_everybody_takes_the_same(store: Store) -> None:
    short, long = link(store, 1), link(store, 1, tail=b"\nLater: paragraph\n")
    other = replace(link(store, 1), author=b"Else <e@example.com> 1767225601 +0000")
    assert short.id == long.id
    forms = [short, other, long]
    for name, order in (("a", forms), ("b", forms[::-1]), ("c", [other, long, short])):
        for form in order:
            insert(store, name, [form])
    assert len({tuple(commits(store, name)) for name in "abc"}) == 1
    smallest = min(forms, key=lambda f: commit_data(tree=f.tree, parents=(), author=f.author, message=f.message))
    assert replace(links(store, "a")[0], commit=None) == smallest


@pytest.mark.deep
def test_a_base_that_becomes_the_first_parent_gets_a_stand_in(store: Store) -> None:
    one = link(store, 1)
    insert(store, "t", [one])
    on_chain = commits(store, "t")[0]
    three = link(store, 3, base=on_chain)
    insert(store, "t", [three])  # right above its base
    assert_parents(store, "t")
    last = sandbox(store).git("rev-list", "--no-walk", "--parents", chain_ref("t")).split()
    stand_in = sandbox(store).git("cat-file", "commit", last[2])
    assert f"parent {on_chain}\n" in stand_in and stand_in.endswith("\n\ngitbaton index 1")
    assert links(store, "t")[-1].base == on_chain
    two = link(store, 2)
    insert(store, "t", [two])  # no longer right above it
    assert sandbox(store).git("rev-list", "--no-walk", "--parents", chain_ref("t")).split()[2] == on_chain
    insert(store, "u", [one, two])
    insert(store, "u", [three])
    assert commits(store, "t") == commits(store, "u")
    sandbox(store).fsck()


@pytest.mark.deep
def test_a_snapshot_taken_on_the_chain_joins_like_any_other(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock(), door="binary") as baton:
        baton.snapshot("one", track="t")
        repo.git("checkout", "-q", "--detach", chain_ref("t"))
        baton.snapshot("two", track="t")
        stand_in = repo.git("rev-list", "--no-walk", "--parents", chain_ref("t")).split()[2]
        first, second = links(baton.store, "t")
        assert second.base == first.commit != stand_in
        repo.write("staged.txt", "staged\n")
        repo.git("add", "staged.txt")
        baton.snapshot("three", track="t")
        staged = links(baton.store, "t")[2]
        assert repo.git("log", "-1", "--format=%s", staged.base or "") == "gitbaton index 1"  # a real one stays
        before = commits(baton.store, "t")
        assert joined(baton.store, "t", []).change is None
        insert(baton.store, "u", links(baton.store, "t"))
        assert commits(baton.store, "u") == before
        insert(baton.store, "t", [replace(link(baton.store, 0), created=START - timedelta(days=1))])
        assert_parents(baton.store, "t")
    repo.fsck()


def test_a_stand_in_is_told_from_an_index_that_says_more(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock(), door="binary") as baton:
        repo.git("update-index", "--assume-unchanged", "a.txt")
        baton.snapshot("flagged", track="t")
        base = links(baton.store, "t")[0].base
        assert base != repo.head() and repo.git("log", "-1", "--format=%s", base or "") == "gitbaton index 1"


@pytest.mark.parametrize("missing", ["base", "tree"])
def test_what_stands_on_an_object_that_is_not_there_is_refused(store: Store, missing: str) -> None:
    insert(store, "t", [link(store, 1)])
    before = commits(store, "t")
    gone = "d" * (64 if store.objects.algorithm == "sha256" else 40)
    bad = replace(link(store, 2), base=gone) if missing == "base" else replace(link(store, 2), tree=gone)
    with pytest.raises(RecordError, match=gone):
        insert(store, "t", [link(store, 0), bad])
    blob = sandbox(store).git("rev-parse", "HEAD:a.txt")
    bad = replace(bad, base=blob) if missing == "base" else replace(bad, tree=blob)
    with pytest.raises(RecordError, match=blob):
        insert(store, "t", [bad])
    assert commits(store, "t") == before
    sandbox(store).fsck()


def test_a_broken_chain_is_not_written_again(store: Store) -> None:
    insert(store, "t", [link(store, 1)])
    tip = store.objects.info(chain_ref("t"))
    assert tip is not None
    data = commit_data(tree=link(store, 1).tree, parents=(tip.oid,), author=link(store, 1).author, message=b"a stranger\n")
    stranger = new_object(store.objects.algorithm, "commit", data)
    store.objects.write([stranger])
    store.objects.update([RefChange(name=chain_ref("t"), new=stranger.oid, old=tip.oid)])
    with pytest.raises(RecordError, match="'t' has a broken record"):
        insert(store, "t", [link(store, 0)])
    rootless = commits_without_root(store)
    with pytest.raises(RecordError, match="0 parents"):
        links(store, "t", rootless)


@pytest.mark.deep
def test_what_is_read_ahead_is_what_is_read_one_by_one(store: Store) -> None:
    items = [link(store, n, base=heads(store)[0] if n % 2 else None) for n in range(400)]
    insert(store, "ours", items)
    insert(store, "less", items[1:])
    whole, less = commits(store, "ours"), commits(store, "less")
    assert not {*whole} & {*less}
    expected = [linked(store, "t", oids) for oids in (whole, less)]
    bare = commit_data(tree=items[0].tree, parents=(), author=items[0].author, message=items[0].message)
    words = commit_data(tree=items[0].tree, parents=(whole[0],), author=items[0].author, message=b"a stranger\n")
    odd = [new_object(store.objects.algorithm, "commit", data) for data in (bare, words)]
    store.objects.write(odd)
    for more in ((), [made.oid for made in odd]):
        with reading_ahead(store, [("t", [*whole, *more])], 1):
            assert [linked(store, "t", oids) for oids in (whole, less)] == expected
            for made, why in zip(odd, ("0 parents", "'t' has a broken record"), strict=True):
                with pytest.raises(RecordError, match=why):
                    linked(store, "t", [*whole, made.oid])


def commits_without_root(store: Store) -> str:
    one = link(store, 7)
    orphan = new_object(
        store.objects.algorithm,
        "commit",
        commit_data(tree=one.tree, parents=(), author=one.author, message=b"gitbaton root 1\n"),
    )
    data = commit_data(tree=one.tree, parents=(orphan.oid,), author=one.author, message=one.message)
    top = new_object(store.objects.algorithm, "commit", data)
    store.objects.write([orphan, top])
    return top.oid


def test_a_later_paragraph_that_looks_like_the_root_ends_no_chain(store: Store) -> None:
    items = [link(store, 1), link(store, 2, tail=b"\ngitbaton root 1\n"), link(store, 3)]
    insert(store, "t", items)
    assert [i.id for i in links(store, "t")] == [i.id for i in items]


def test_the_chain_of_another_ref_is_read_as_this_track(store: Store) -> None:
    insert(store, "theirs", [link(store, 1), link(store, 3)])
    insert(store, "t", [link(store, 2)])
    start = store.objects.info(chain_ref("theirs"))
    assert start is not None and insert(store, "t", links(store, "t", start.oid)) == 2
    assert [s.checkpoint.step for s in store.history("t").items] == ["step 3", "step 2", "step 1"]


class Pool:
    """One repository for all examples, and links that stand on anything: commits, each other's chains, nothing."""

    def __init__(self, path: Path) -> None:
        self.sandbox = Sandbox.init(path)
        self.sandbox.commit("first", a_txt="one\n")
        self.baton = Baton(path, door="libgit2")
        self.store = self.baton.store
        self.tracks = 0
        self.items = [link(self.store, n, at=n // 2, base=(None, self.sandbox.head())[n % 2]) for n in range(6)]
        for _ in range(3):  # links whose base is a commit of a chain of the links before
            self.fresh(self.items)
            chain = commits(self.store, f"x{self.tracks}")
            here = len(self.items)
            self.items += [link(self.store, here + n, at=here // 2 + n, base=c) for n, c in enumerate(chain[-2:])]

    def fresh(self, *parts: Sequence[Link]) -> list[str]:
        """The commits of a new track into which parts were put one after the other."""
        self.tracks += 1
        for part in parts:
            insert(self.store, f"x{self.tracks}", part)
        return commits(self.store, f"x{self.tracks}")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_AUTHOR_NAME", "A")
        patch.setenv("GIT_AUTHOR_EMAIL", "a@example.com")
        patch.setenv("GIT_COMMITTER_NAME", "A")
        patch.setenv("GIT_COMMITTER_EMAIL", "a@example.com")
        made = Pool(tmp_path_factory.mktemp("pool") / "repo")
    yield made
    made.sandbox.fsck()
    for number in range(1, made.tracks + 1, max(1, made.tracks // 20)):
        assert_parents(made.store, f"x{number}")
    made.baton.close()


@pytest.mark.full
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_gives_the_same_chain(pool: Pool, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(pool.items))), min_size=1, unique=True))
    items = [pool.items[n] for n in chosen]
    mixed = data.draw(st.permutations(items))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(items)), max_size=4)))
    parts = [mixed[a:b] for a, b in zip([0, *cuts], [*cuts, len(mixed)], strict=True)]
    again = data.draw(st.lists(st.sampled_from(items), max_size=3))
    whole = pool.fresh(items)
    assert pool.fresh(*parts, again) == whole
    mine = links(pool.store, f"x{pool.tracks}")
    assert [m.id for m in mine] == [i.id for i in merged(items, ())]
    assert [replace(m, commit=None) for m in mine] == merged(items, ())
    gone = Meta(forgotten=frozenset(data.draw(st.lists(st.sampled_from([i.id for i in items]), max_size=3))))
    insert(pool.store, "once", items)
    put(pool.store, "once", (), gone)
    dropped = commits(pool.store, "once")
    for part in (*parts, again, mixed[:2]):
        put(pool.store, "dropped", part, gone)
    put(pool.store, "late", mixed[:3])
    put(pool.store, "late", mixed, gone)
    assert commits(pool.store, "dropped") == commits(pool.store, "late") == dropped
    for name in ("once", "dropped", "late"):
        put(pool.store, name, (), Meta(forgotten=frozenset(i.id for i in items)))
    left, right = mixed[::2], mixed[1::2]
    pool.fresh(left)
    theirs = links(pool.store, f"x{pool.tracks}")
    assert pool.fresh(right, theirs) == whole  # two chains, each with commits of its own


def test_merging_is_pure_and_has_no_favourite(store: Store) -> None:
    items = [link(store, n, tail=b"\nx\n" if n % 2 else b"") for n in range(8)]
    twisted = [link(store, n, tail=b"" if n % 2 else b"\nx\n") for n in range(8)]
    shuffled = random.Random(1).sample(items, 8)
    assert merged(items, twisted) == merged(twisted, shuffled) == merged((), [*shuffled, *twisted])
    assert not any(m.message.endswith(b"\nx\n") for m in merged(items, twisted))
