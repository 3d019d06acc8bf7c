"""Pruning real repositories: what the dry run names is what goes, nothing else, and nothing at all where anything is amiss."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.codec import encode, message
from gitbaton.base.errors import RefConflictError
from gitbaton.base.model import Checkpoint, FileState, IndexState, WorktreeId
from gitbaton.care.retention.pruning import apply, plan, prune, work
from gitbaton.care.retention.rules import KeepRules, Wish
from gitbaton.checkpoints.store.chain import steps
from gitbaton.checkpoints.store.join import Link, links
from gitbaton.checkpoints.store.meta import read as read_meta
from gitbaton.checkpoints.store.state import pending
from gitbaton.git.objects import NewObject, TreeEntry, new_object, tree_data
from tests.kit import Sandbox
from tests.kit.killkit import DRIVER, age_locks, killed
from tests.kit.state import insert
from tests.kit.tiers import FULL, some

START = datetime(2026, 1, 1, tzinfo=UTC)
LAST = Wish(rules=KeepRules(last=4))


def text(rng: random.Random, lines: int) -> str:
    return "".join("".join(rng.choices("abcdefghij    ", k=rng.randrange(5, 60))) + "\n" for _ in range(lines))


def filled(repo: Sandbox, count: int, seed: int = 0, tracks: str = "t", kind: str = "auto") -> None:
    """Tracks with checkpoints that change a few files each, written without a work tree: hundreds a second."""
    rng = random.Random(seed)
    files = [text(rng, rng.randrange(5, 60)) for _ in range(8)]
    base = repo.head() if repo.try_git("rev-parse", "-q", "--verify", "HEAD").code == 0 else None
    with repo.open(door="libgit2") as baton:
        made: dict[str, list[Link]] = {}
        for n in range(count):
            where = rng.randrange(len(files))
            rows = files[where].splitlines(keepends=True)
            at = rng.randrange(len(rows) + 1)
            rows[at : at + rng.randrange(3)] = [text(rng, 1)] if rng.random() < 0.8 else [text(rng, 12)]
            files[where] = "".join(rows) or "x\n"
            track = rng.choice(tracks)
            made.setdefault(track, []).append(checkpoint(baton, track, n, files, base, kind=kind, words=text(rng, 2)))
        for track, items in made.items():
            insert(baton.store, track, items)
        baton.refresh()


def checkpoint(
    baton: Baton, track: str, number: int, files: list[str], base: str | None, *, kind: str = "auto", words: str = ""
) -> Link:
    algorithm = baton.store.objects.algorithm
    blobs = [new_object(algorithm, "blob", data.encode()) for data in files]
    entries = [TreeEntry(mode=b"100644", name=b"f%d.txt" % n, oid=blob.oid) for n, blob in enumerate(blobs)]
    tree = new_object(algorithm, "tree", tree_data(entries))
    objects: list[NewObject] = [*blobs, tree]
    baton.store.objects.write(objects)
    created = START + timedelta(hours=7 * number)
    index = IndexState(tree=tree.oid, flags=(), flags_more=0, unmerged=0)
    state = FileState(
        tree=tree.oid,
        index=index,
        operation=None,
        changed=1,
        skipped=(),
        worktree=WorktreeId(path="/x", created=START),
    )
    item = Checkpoint(
        track=track,
        step=f"step {number}",
        note=words,
        created=created,
        head=base,
        files=state,
        kind="manual" if kind == "manual" else "auto",
    )
    raw = encode(item)
    return Link(
        id=new_object(algorithm, "blob", raw).oid,
        created=created,
        message=message(item.step, raw),
        tree=tree.oid,
        base=base,
        author=b"A <a@example.com> %d +0000" % int(created.timestamp()),
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with two tracks, of automatic checkpoints and of manual ones, with notes."""
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "A")
            patch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
        repo = Sandbox.init(tmp_path_factory.mktemp("template") / "repo")
        repo.commit("first", a_txt="one\n")
        filled(repo, 24)
        for n in range(5):
            repo.write("a.txt", f"{n}\n" * 20)
            with repo.open(door="libgit2") as baton:
                baton.snapshot(f"manual {n}", track="m", label="one" if n == 0 else None, note=f"words {n}")
    yield repo.path


@pytest.fixture
def kept(template: Path, tmp_path: Path) -> Sandbox:
    """A copy of it."""
    shutil.copytree(template, tmp_path / "kept", symlinks=True)
    return Sandbox(tmp_path / "kept")


def ids(repo: Sandbox, track: str) -> list[str]:
    return [row["id"] for row in repo.ok("log", "--json", track).json["checkpoints"]]


def every_ref(repo: Sandbox) -> str:
    return repo.git("for-each-ref", "--format=%(refname) %(objectname)")


def disk(repo: Sandbox) -> int:
    """Bytes of packs, their indexes and loose objects."""
    total = 0
    for folder, _, names in os.walk(repo.path / ".git/objects"):
        for name in names:
            if name.endswith((".pack", ".idx")) or len(os.path.basename(folder)) == 2:
                total += os.stat(os.path.join(folder, name)).st_size
    return total


@pytest.mark.deep
def test_t16_pruned_to_what_the_dry_run_named_and_nothing_shared_is_lost(kept: Sandbox) -> None:
    before = {track: ids(kept, track) for track in "tm"}
    kept.ok("pin", before["t"][9])
    refs = every_ref(kept)
    named = kept.ok("prune", "--keep-last", "3", "-n", "--json").json
    assert every_ref(kept) == refs
    done = kept.ok("prune", "--keep-last", "3", "--json").json
    assert (named.pop("dry_run"), done.pop("dry_run")) == (True, False) and named.pop("bytes") > 0 and done.pop("bytes") is None
    assert named == done
    gone = {row["id"] for part in done["tracks"] for row in part["remove"]}
    stay = {row["id"]: row["reasons"] for part in done["tracks"] for row in part["keep"]}
    assert stay[before["t"][9]] == ["pinned"] and stay[before["t"][0]] == ["last", "tip"]
    assert stay[before["m"][0]] == ["last", "tip", "manual"] and stay[before["m"][4]] == ["labelled"]
    assert ids(kept, "t") == [before["t"][n] for n in (0, 1, 2, 9)] and ids(kept, "m") == [before["m"][n] for n in (0, 1, 2, 4)]
    assert gone == {*before["t"], *before["m"]} - {*ids(kept, "t"), *ids(kept, "m")}
    with kept.open() as baton:
        assert read_meta(baton.store).pruned == gone
    assert not gone & set(kept.git("notes", "--ref=checkpoints", "show", "HEAD").split())
    assert kept.git("rev-list", "--count", "refs/notes/checkpoints") == "1"
    kept.git("gc", "-q", "--prune=now")
    kept.fsck()
    assert not list((kept.path / ".git/objects").rglob("tmp_*"))
    for oid in kept.git("rev-list", "--first-parent", "refs/baton/tracks/t").split():
        kept.git("archive", oid, "-o", os.devnull)
    assert kept.ok("prune", "--keep-last", "3").out == "nothing to remove\n"
    assert kept.ok("prune", "--keep-last", "3", "--drop-milestones", "m").out.startswith(
        "track 'm': 1 checkpoint removed, 3 kept\n"
    )


@pytest.mark.deep
def test_only_automatic_ones_go_when_that_is_asked_for(repo: Sandbox) -> None:
    filled(repo, 8)
    for n in ("1", "2"):
        repo.ok("snapshot", "--track", "t", f"words {n}")
    before = ids(repo, "t")
    rows = repo.ok("prune", "--kind", "auto", "--keep-last", "2", "-n", "--json").json["tracks"][0]
    assert [row["id"] for row in rows["keep"]] == before[:4] and len(rows["remove"]) == 6
    assert [row["reasons"] for row in rows["keep"]] == [["manual", "tip"], ["manual"], ["last"], ["last"]]
    repo.ok("prune", "--kind", "manual", "--keep-last", "1")
    assert ids(repo, "t") == [before[0], *before[2:]]
    assert repo.baton("prune", "--kind", "safety", "--keep-last", "1").code == 129
    assert repo.baton("prune", "--threads", "--kind", "auto").code == 129


@pytest.mark.deep
def test_the_dry_run_writes_nothing(kept: Sandbox) -> None:
    before = sorted(str(p) for p in (kept.path / ".git").rglob("*"))
    out = kept.ok("prune", "--keep-daily", "2", "-n", "t").out
    assert "keep " in out and "  daily 2026-01-07, tip  " in out and "about " in out and "remove " in out
    assert sorted(str(p) for p in (kept.path / ".git").rglob("*")) == before


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_what_any_rules_name_is_what_goes(kept: Sandbox, seed: int) -> None:
    rng = random.Random(seed)
    rules = KeepRules(
        last=rng.choice([None, 1, 5]),
        daily=rng.choice([None, 2, 9]),
        weekly=rng.choice([None, 1]) if seed % 2 else rng.randrange(1, 3),
    )
    wish = Wish(rules=rules if rules.given else KeepRules(last=2), milestones=seed % 3 > 0)
    with kept.open(clock=lambda: START) as baton:
        before = {track: {link.id for link in links(baton.store, track)} for track in "tm"}
        named = plan(baton, wish)
        done = prune(baton, wish)
        after = {track: {link.id for link in links(baton.store, track)} for track in "tm"}
        assert (
            named.removed == done.removed
            and {oid for part in named.tracks for oid in [s.id for s in part.remove]} == done.removed
        )
        assert {*before["t"], *before["m"]} - {*after["t"], *after["m"]} == done.removed
        assert plan(baton, wish).empty


@pytest.mark.deep
def test_without_a_rule_nothing_goes_and_the_rules_are_told(kept: Sandbox) -> None:
    refs = every_ref(kept)
    done = kept.baton("prune")
    assert done.code == 129 and "no rule says what to keep; nothing is removed" in done.err
    (line,) = re.findall(r"^hint: to see what would go by a rule: git baton (.*)$", done.err, re.M)
    assert "--dry-run" in line and kept.baton(*line.split()).code == 0
    assert "--keep-last N, --keep-within 24h, --keep-daily N or --keep-weekly N" in done.err and "baton.keepLast" in done.err
    for words, said in (
        (("--keep-last", "0"), "--keep-last is '0'; it must be a whole number of 1 or more"),
        (("--keep-within", "soon"), "--keep-within is 'soon'; it must be a duration like 24h"),
        (("--keep-last", "1", "nothing"), "there is no track 'nothing'"),
    ):
        done = kept.baton("prune", *words)
        assert done.code == (2 if "nothing" in words else 129) and said in done.err
    with Baton(Sandbox.init(kept.path.parent / "new").path) as empty:
        assert plan(empty, LAST).empty
    kept.git("config", "baton.keepDaily", "often")
    assert "baton.keepDaily is 'often'" in kept.baton("prune").err and every_ref(kept) == refs


@pytest.mark.deep
def test_the_configuration_rules_by_track(kept: Sandbox) -> None:
    kept.git("config", "baton.keepLast", "6")
    kept.git("config", "baton.t.keepLast", "2")
    named = {part["track"]: len(part["keep"]) for part in kept.ok("prune", "-n", "--json").json["tracks"]}
    assert named == {"t": 2, "m": 5}
    named = {part["track"]: len(part["keep"]) for part in kept.ok("prune", "-n", "--json", "--keep-last", "1").json["tracks"]}
    assert named == {"t": 1, "m": 2}


FOREIGN = [
    "refs/baton/mine",
    "refs/baton/tracks/not%zz",
    "refs/checkpoints/some/thing",
    "refs/baton/safety/else",
]


@pytest.mark.full
@some("ref", FOREIGN, 2)
def test_t17_a_foreign_ref_in_our_namespace_stops_everything(kept: Sandbox, ref: str) -> None:
    kept.git("update-ref", ref, "HEAD")
    refs = every_ref(kept)
    for words in (("prune", "--keep-last", "1"), ("prune", "--keep-last", "1", "-n"), ("forget", "--yes", "t~1")):
        done = kept.baton(*words)
        assert done.code == 128 and f"'{ref}'" in done.err and "nothing is removed" in done.err
    assert every_ref(kept) == refs


def wreck(repo: Sandbox, what: str) -> str:
    """Make one object of our chains missing or unreadable; its id, or the name of what is broken."""
    if what == "meta":
        oid = repo.git("commit-tree", "-m", "x", "HEAD^{tree}")
        repo.git("update-ref", "refs/baton/meta", oid)
        return "refs/baton/meta"
    if what == "ref":
        (repo.path / ".git/refs/baton/tracks/t").write_text("")
        return "refs/baton/tracks/t"
    spec = {"commit": "t~5", "tree": "t~5^{tree}", "blob": "t~5:f1.txt", "root": "t~24"}.get(what, "t~5:f1.txt")
    oid = repo.git("rev-parse", f"refs/baton/tracks/{spec}")
    path = repo.loose(oid)
    path.chmod(0o644)
    if what == "corrupt":
        path.write_bytes(b"rubbish")
    else:
        path.unlink()
    return oid


@pytest.mark.deep
@some("what", ["commit", "tree", "blob", "corrupt", "ref"], 3)
def test_t17_an_unreadable_record_is_named_and_its_track_stays(kept: Sandbox, what: str) -> None:
    named = wreck(kept, what)
    refs = every_ref(kept)
    done = kept.baton("prune", "--keep-last", "1")
    assert done.code == 1 and named.replace("/", "")[-30:] in done.err.replace("/", ""), done.err
    now = every_ref(kept)
    went = {line.split(" ")[0] for line in set(now.splitlines()) ^ set(refs.splitlines())}
    assert "refs/baton/tracks/m" in went and not went & {"refs/baton/tracks/t", "refs/checkpoints/t"}
    with kept.open() as baton:
        said = work(baton)
        assert said.startswith("automatic prune: ") and "'refs/baton/tracks/t' is left alone" in said
    assert every_ref(kept) == now


def test_t17_with_meta_unreadable_nothing_is_removed(kept: Sandbox) -> None:
    named = wreck(kept, "meta")
    refs = every_ref(kept)
    done = kept.baton("prune", "--keep-last", "1")
    assert done.code == 128 and "nothing is removed" in done.err and named in done.err, done.err
    assert every_ref(kept) == refs
    with kept.open() as baton:
        assert work(baton).startswith("automatic prune: nothing is removed") and every_ref(kept) == refs


def test_what_an_unfinished_run_stands_on_stays(kept: Sandbox) -> None:
    commit = kept.git("rev-parse", "refs/baton/tracks/t~7")
    record = kept.git("commit-tree", "-p", commit, "-m", "record", "HEAD^{tree}")
    kept.git("update-ref", "refs/baton/runs/r-20261120-7f3a", record)
    reasons = {
        r["id"]: r["reasons"] for r in kept.ok("prune", "--keep-last", "1", "-n", "--json", "t").json["tracks"][0]["keep"]
    }
    assert list(reasons.values()) == [["last", "tip"], *[["run"]] * 17]


@pytest.mark.deep
def test_a_plan_that_was_overtaken_is_not_carried_out(kept: Sandbox) -> None:
    with kept.open() as baton, kept.open() as other:
        made = plan(baton, LAST)
        other.snapshot("meanwhile", track="t")
        refs = every_ref(kept)
        with pytest.raises(RefConflictError, match=r"'refs/baton/tracks/t' moved meanwhile"):
            apply(baton, made)
        assert every_ref(kept) == refs
        assert len(links(baton.store, "t")) == 25 and prune(baton, LAST).removed and len(links(baton.store, "t")) == 4
    kept.fsck()


@pytest.mark.deep
def test_safety_checkpoints_go_after_fourteen_days_and_undo_stays_right(repo: Sandbox) -> None:
    for n in range(3):
        repo.write("a.txt", f"{n}\n")
        repo.ok("snapshot", "--track", "t", "--step", f"s{n}")
    repo.ok("restore", "t~2")
    repo.ok("restore", "t~1")
    repo.ok("undo")
    ref = "refs/baton/safety/main-worktree"
    with repo.open() as baton:
        entries = baton.store.chain(ref, None).items
        then = entries[1].checkpoint.created + timedelta(days=14)
        before = steps(baton.store, ref)
    with repo.open(clock=lambda: then) as baton:
        made = prune(baton, Wish(rules=KeepRules(last=9)))
        assert [s.id for piece in made.safety for s in piece.remove] == [entries[2].id]
        after = steps(baton.store, ref)
        assert [s.id for s in before.undo] == [entries[2].id] and after.undo == ()
        assert [s.id for s in after.redo] == [s.id for s in before.redo] == [entries[0].id]
    repo.ok("redo")
    assert (repo.path / "a.txt").read_text() == "1\n"
    with repo.open(clock=lambda: then + timedelta(days=30)) as baton:
        prune(baton, Wish(rules=KeepRules(last=9)))
    assert repo.try_git("rev-parse", "-q", "--verify", ref).code == 1
    repo.fsck()


@pytest.mark.deep
def test_a_conversation_that_nothing_mentions_any_more_goes_after_fourteen_days(repo: Sandbox) -> None:
    from gitbaton.agents.transcripts.layout import frame, meta, transcript_ref
    from gitbaton.base.model import Transcript

    repo.ok("snapshot", "--track", "t", "--step", "s")
    with repo.open() as baton:
        objects = baton.repo.objects
        blob = new_object("sha1", "blob", b"{}\n")
        made = [
            blob,
            *frame(
                objects,
                [TreeEntry(mode=b"100644", name=b"00000000", oid=blob.oid)],
                meta(Transcript(size=3, lines=1), 3, "claude", "s1"),
            ),
        ]
        objects.write(made)
    commit = repo.git("commit-tree", "-m", "conversation of 1 lines", made[-1].oid)
    ref = transcript_ref("claude", "s1")
    repo.git("update-ref", ref, commit)
    day = datetime(2026, 1, 1, tzinfo=UTC)  # the seal's date of commits
    with repo.open(clock=lambda: day + timedelta(days=15)) as baton:
        found = plan(baton, Wish(rules=KeepRules(last=1)))
        repo.git("update-ref", "refs/baton/remotes/origin/tracks/theirs", "refs/baton/tracks/t")  # it may mention any
        with pytest.raises(RefConflictError, match="'refs/baton/remotes/origin/tracks/theirs' moved meanwhile"):
            apply(baton, found)
    for days, gone in ((13, []), (15, [ref])):
        with repo.open(clock=lambda days=days: day + timedelta(days=days)) as baton:
            assert [talk.ref for talk in prune(baton, Wish(rules=KeepRules(last=1))).conversations] == gone
    assert repo.try_git("rev-parse", "-q", "--verify", ref).code == 1


WRITING = DRIVER.replace("    global count\n", "    global count\n    if not count and event != 'fcntl.flock': return\n")


@pytest.mark.full
def test_t16_killed_at_every_step_of_writing_leaves_before_or_after(kept: Sandbox) -> None:
    kept.git("gc", "-q")  # fewer files to copy
    at, seen, wish = 1, set(), Wish(tracks=("t",), rules=KeepRules(last=4))
    whole = ids(kept, "t")
    while True:
        scene = kept.path.parent / "scene"
        shutil.rmtree(scene, ignore_errors=True)
        shutil.copytree(kept.path, scene, symlinks=True)
        repo = Sandbox(scene)
        over = not killed(repo, ["-c", WRITING, str(at), "prune", "--keep-last", "4", "t"])
        left = int(repo.git("rev-list", "--first-parent", "--count", "refs/baton/tracks/t")) - 1
        seen.add(left)
        assert left in (len(whole), 4)
        age_locks(repo)
        with repo.open(door="binary") as baton:
            prune(baton, wish)
            baton.refresh()
            assert [link.id for link in links(baton.store, "t")] == whole[3::-1]
            assert read_meta(baton.store).pruned == set(whole[4:]) and not pending(baton.repo)
        assert repo.git("rev-parse", "refs/checkpoints/t") == whole[0]
        repo.fsck()
        if over:
            break
        at += 1 if FULL else 5
    assert at > 8 and seen == {len(whole), 4}


def estimated(path: Path, seed: int) -> float:
    """How much more the estimate was than what git then freed, as a part of it."""
    repo, rng = Sandbox.init(path), random.Random(seed)
    repo.git("config", "pack.threads", "1")  # Two threads choose other deltas each time: up to 500 bytes apart.
    repo.commit("first", a_txt="one\n")
    filled(repo, rng.randrange(40, 70), seed, tracks="ab")
    repo.commit("second", f1_txt=text(rng, 30))
    repo.git("gc", "-q", "--prune=now")
    before = disk(repo)
    rules = (KeepRules(last=rng.randrange(1, 30)), KeepRules(daily=rng.randrange(1, 8)), KeepRules(weekly=2, last=3))[seed % 3]
    with repo.open() as baton:
        made = apply(baton, plan(baton, Wish(rules=rules), weigh=True))
    repo.git("gc", "-q", "--prune=now")
    real = before - disk(repo)
    assert made.bytes and made.removed and real > 0
    return (made.bytes - real) / real


@pytest.mark.full
def test_t16_what_it_frees_is_told_before_on_ten_seeds(tmp_path: Path) -> None:
    off = sorted(estimated(tmp_path / f"seed{seed}", seed) for seed in range(10))
    near = sorted(map(abs, off))
    assert (near[4] + near[5]) / 2 <= 0.05 and off[0] >= -0.25 and off[-1] <= 0.05, off
