"""Changes of several tracks at once: what they leave in git, and what a kill between any two refs leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitbaton import Baton
from gitbaton.base.codec import parse_note
from gitbaton.base.errors import RecordError, RefConflictError
from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.store import meta
from gitbaton.checkpoints.store.join import links
from gitbaton.checkpoints.store.refs import META, NOTES, chain_ref, tip_ref
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.git.objects import new_object
from tests.kit import Sandbox, integer_clock
from tests.kit.moments import Args, at
from tests.kit.threads import git_called
from tests.kit.tiers import deep, some

SECRET = "hunter2 in clear"


class Killed(BaseException):
    """As if the process had been killed here."""


@pytest.fixture(params=["binary", deep("libgit2")])
def baton(request: pytest.FixtureRequest, repo: Sandbox) -> Iterator[Baton]:
    with repo.open(clock=integer_clock(), door=request.param) as opened:
        yield opened


def filled(baton: Baton, track: str, count: int = 4) -> list[Stored]:
    """A track of so many checkpoints, the second one with a secret in its note; newest last."""
    words = [SECRET if n == 1 else "" for n in range(count)]
    return [baton.snapshot(f"{track} {n}", track=track, note=note, files=False).stored for n, note in enumerate(words)]


def refs(repo: Sandbox) -> dict[str, str]:
    rows = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(row.split(" ") for row in rows)


def ids(baton: Baton, track: str) -> list[str]:
    return [s.id for s in reversed(baton.store.history(track).items)]


def entries(repo: Sandbox, what: str) -> list[str]:
    done = repo.try_git("notes", f"--ref={NOTES}", "show", what)
    return [oid for oid, _ in parse_note(done.out.encode()).entries]


@pytest.mark.deep
def test_what_is_removed_is_gone_from_chain_tip_and_notes(repo: Sandbox, baton: Baton) -> None:
    first = filled(baton, "t")
    head = repo.head()
    repo.git("notes", f"--ref={NOTES}", "append", "-m", "words of a person", head)
    moved = repo.commit("next")
    repo.git("notes", f"--ref={NOTES}", "copy", head, moved)  # as notes.rewriteRef does
    other = repo.commit("third")
    repo.git("notes", f"--ref={NOTES}", "add", "-m", f"checkpoint {first[1].id}\ntrack: t\nnote: {SECRET}", other)
    second = filled(baton, "u", 1)
    with baton.repo.lock(()):
        revision = Revision(baton.store)
        revision.meta = replace(revision.meta, forgotten=frozenset([first[1].id, first[3].id]))
        made = revision.join("t", [])
        assert set(made.removed) == revision.removed == {first[1].id, first[3].id} and made.kept == 1
        revision.apply()
    assert ids(baton, "t") == [first[0].id, first[2].id] and ids(baton, "u") == [second[0].id]
    assert repo.git("rev-parse", f"{chain_ref('t')}~1") == first[0].commit  # the common beginning stays
    assert repo.git("rev-parse", tip_ref("t")) == first[2].id
    assert entries(repo, head) == entries(repo, moved) == [first[2].id, first[0].id]
    assert "words of a person" in repo.git("notes", f"--ref={NOTES}", "show", head)
    assert entries(repo, other) == [second[0].id]
    assert repo.git("log", "--format=%P", NOTES) == ""
    reachable = repo.git("rev-list", "--objects", "--no-object-names", "--all").encode()
    assert SECRET not in repo.git("cat-file", "--batch", stdin=reachable)
    assert meta.read(baton.store).forgotten == {first[1].id, first[3].id} and baton.refresh() == []
    repo.fsck()


@pytest.mark.deep
def test_a_note_that_is_left_empty_goes(repo: Sandbox, baton: Baton) -> None:
    filled(baton, "t", 1)
    with baton.repo.lock(()):
        revision = Revision(baton.store)
        assert revision.keep("t", ()).removed
        revision.apply()
    assert refs(repo).keys() == {"refs/heads/main", NOTES} and repo.git("notes", f"--ref={NOTES}", "list") == ""
    assert baton.refresh() == [] and baton.current() is None and not (repo.path / ".git/baton/expect").exists()
    assert baton.snapshot("again", track="t").warnings == () and len(ids(baton, "t")) == 1
    repo.fsck()


@pytest.mark.deep
def test_what_comes_from_elsewhere_brings_its_notes(repo: Sandbox, baton: Baton) -> None:
    mine, theirs = filled(baton, "t", 2), filled(baton, "u", 3)
    repo.git("update-ref", "-d", NOTES)
    start = baton.store.objects.info(chain_ref("u"))
    assert start is not None
    fetched = {repo.head(): b"a person's words\n\ncheckpoint " + b"9" * 40 + b"\ntrack: x\n", "8" * 40: b"far away\n"}
    with baton.repo.lock(()):
        revision = Revision(baton.store)
        made = revision.join("t", links(baton.store, "t", start.oid), fetched=True)
        assert made.added == 3 and made.removed == ()
        revision.notes(fetched)
        revision.apply()
    assert ids(baton, "t") == [s.id for s in (*mine, *theirs)]
    assert entries(repo, repo.head()) == [*(s.id for s in reversed(theirs)), "9" * 40]
    assert "a person's words" in repo.git("notes", f"--ref={NOTES}", "show", repo.head())
    assert repo.git("ls-tree", "-r", "--name-only", NOTES).replace("/", "").splitlines().count("8" * 40) == 1
    assert [s.foreign for s in baton.store.history("t").items] == [True, True, True, False, False]
    assert [s.foreign for s in baton.store.history("u").items] == [False] * 3
    assert baton.snapshot("local", track="t").warnings == ()
    assert not any(s.foreign for s in baton.store.history("t").items)
    repo.fsck()


@pytest.mark.deep
def test_pruned_ones_stay_where_they_are_pinned_and_do_not_come_back(baton: Baton) -> None:
    items = filled(baton, "t")
    before = links(baton.store, "t")
    with baton.repo.lock(()):
        revision = Revision(baton.store)
        gone = frozenset([items[0].id, items[2].id])
        revision.meta = meta.union(meta.Meta(pins={items[0].id: 3}), meta.Meta(pins={items[0].id: 2}, pruned=gone))
        revision.join("t", before)
        revision.apply()
        again = Revision(baton.store)
        assert again.meta == revision.meta and again.join("t", before).change is None
        assert again.join("new", [replace(before[2], commit=None)]).change is None
        again.apply()
    assert ids(baton, "t") == [items[0].id, items[1].id, items[3].id]


def test_names_that_differ_only_in_case_are_refused(baton: Baton) -> None:
    filled(baton, "t", 1)
    revision = Revision(baton.store)
    with pytest.raises(RecordError, match="'T' differs from the track 't' only in case"):
        revision.join("T", links(baton.store, "t"))


@pytest.mark.deep
def test_nothing_is_removed_where_a_note_or_the_meta_cannot_be_read(repo: Sandbox, baton: Baton) -> None:
    items = filled(baton, "t")
    large = new_object("sha1", "blob", b"x" * (5 << 20))
    baton.store.objects.write([large])
    other = new_object("sha1", "blob", b"of another commit\n")
    baton.store.objects.write([other])
    repo.git("notes", f"--ref={NOTES}", "add", "-C", other.oid, repo.commit("big"))
    repo.loose(other.oid).unlink()
    before = refs(repo)
    revision = Revision(baton.store)
    revision.keep("t", [items[0].id])
    with pytest.raises(RecordError, match="nothing is removed: the note of"):
        revision.apply()
    assert refs(repo) == before
    repo.git("update-ref", META, large.oid)
    with pytest.raises(RecordError, match=f"'{META}' is a blob"):
        Revision(baton.store)
    with pytest.raises(RecordError, match=f"'{META}' is a blob"), baton.repo.lock(()):
        Revision(baton.store)


@pytest.mark.deep
def test_who_moved_meanwhile_wins(repo: Sandbox, baton: Baton) -> None:
    items = filled(baton, "t")
    revision = Revision(baton.store)
    revision.keep("t", [items[0].id])
    last = baton.snapshot("meanwhile", track="t", files=False).stored
    before = refs(repo)
    with pytest.raises(RefConflictError):
        revision.apply()
    assert refs(repo) == before and ids(baton, "t")[-1] == last.id and not (repo.path / ".git/baton/revision").exists()


def change(baton: Baton, goal: str) -> Revision:
    """A change of three tracks: one grows below its tip, one loses its newest, one goes; or ``goal`` for only one of them."""
    revision = Revision(baton.store)
    start = baton.store.objects.info(chain_ref("more"))
    assert start is not None
    older = [replace(link, created=link.created) for link in links(baton.store, "grows", start.oid)]
    if goal in ("all", "grows"):
        revision.join("grows", older, fetched=True)
    if goal in ("all", "loses"):
        lost = ids(baton, "loses")[1:]
        revision.meta = replace(revision.meta, forgotten=frozenset(lost))
        revision.join("loses", [])
    if goal in ("all", "goes"):
        revision.keep("goes", ())
    return revision


@pytest.mark.deep
@some("goal", ["all", "grows", "loses", "goes"])
def test_killed_between_any_two_refs(repo: Sandbox, goal: str) -> None:
    with repo.open(clock=integer_clock(), door="libgit2") as baton:
        for track in ("more", "goes", "loses", "grows"):  # so that what `grows` gains lies below its tip
            filled(baton, track, 3)
        if goal == "grows":  # what it gains has no notes yet
            repo.git("update-ref", "-d", NOTES)
        before = refs(repo)
        change(baton, goal).apply()
        after = refs(repo)
        assert baton.refresh() == [] and refs(repo) == after != before
        repo.fsck()
    moves = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    assert len(moves) >= 2
    for done in range(len(moves) + 1):
        for name in {*before, *after}:
            moved(repo, name, before)
        with repo.open(clock=integer_clock(), door="libgit2") as baton:
            killed(change(baton, goal))
        for name in moves[:done]:
            moved(repo, name, after)
        with repo.open(clock=integer_clock()) as baton:
            assert baton.refresh() == [] and refs(repo) == after, moves[:done]
            assert not (repo.path / ".git/baton/revision").exists()


def moved(repo: Sandbox, name: str, to: dict[str, str]) -> None:
    """Move a ref to where it is in ``to``."""
    repo.git("update-ref", *([name, to[name]] if name in to else ["-d", name]))


def killed(revision: Revision) -> None:
    """Carry a change out, and be killed before a ref moves."""

    def die(_: Args) -> None:
        raise Killed

    with at("os.posix_spawn", git_called("update-ref"), die), pytest.raises(Killed):
        revision.apply()


@pytest.mark.deep
def test_a_change_that_was_killed_is_finished_by_the_next_snapshot(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock()) as baton:
        for track in ("more", "goes", "loses", "grows"):
            filled(baton, track, 3)
        killed(change(baton, "all"))
    repo.git("update-ref", "-d", chain_ref("goes"))
    repo.baton("tracks")
    assert (repo.path / ".git/baton/revision").exists()  # who only looks changes nothing
    done = repo.ok("snapshot", "--track", "grows", "--step", "next")
    assert "warning" not in done.err and not (repo.path / ".git/baton/revision").exists()
    with repo.open() as baton:
        assert len(ids(baton, "loses")) == 1 and len(ids(baton, "grows")) == 7 and "goes" not in baton.store.chains()[0]
    repo.fsck()


@pytest.mark.parametrize("raw", [b"", b"gitbaton revision 1\nrefs/x", b"junk", b"gitbaton revision 1\nx y z\nend\n"])
def test_a_file_that_says_nothing_whole_changes_nothing(repo: Sandbox, baton: Baton, raw: bytes) -> None:
    filled(baton, "t", 1)
    before = refs(repo)
    (repo.path / ".git/baton/revision").write_bytes(raw)
    assert baton.refresh() == [] and refs(repo) == before and not (repo.path / ".git/baton/revision").exists()


@pytest.mark.deep
def test_what_is_in_the_way_of_finishing(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock()) as baton:
        for track in ("more", "goes", "loses", "grows"):
            filled(baton, track, 3)
        killed(change(baton, "all"))
    lock = repo.path / ".git/refs/baton/tracks/goes.lock"
    lock.touch()
    assert "was begun and is not finished" in repo.baton("doctor").out
    with repo.open(door="binary") as baton:
        assert ["goes" in w for w in baton.refresh()] == [True] and "goes" in baton.store.chains()[0]
        with pytest.raises(RefConflictError, match="finished first"):
            Revision(baton.store).apply()
        lock.unlink()
        path = repo.path / ".git/baton/revision"
        path.write_bytes(path.read_bytes().replace(b"end\n", b"refs/baton/x - " + b"d" * 40 + b"\nend\n"))
        assert ["'refs/baton/x': object dddd" in w for w in baton.refresh()] == [True]
        assert baton.refresh() == [] and "goes" not in baton.store.chains()[0] and not path.exists()
    repo.fsck()


@pytest.mark.deep
def test_a_ref_that_moved_on_since_stays(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock()) as baton:
        filled(baton, "t", 3)
        revision = Revision(baton.store)
        revision.keep("t", ids(baton, "t")[:1])
        killed(revision)
    repo.git("update-ref", chain_ref("t"), f"{chain_ref('t')}~1")
    here = repo.git("rev-parse", chain_ref("t"))
    with repo.open() as baton:
        baton.refresh()
    assert repo.git("rev-parse", chain_ref("t")) == here
    repo.fsck()
