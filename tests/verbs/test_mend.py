"""``git baton doctor --mend``: what it says, what it leaves alone, and what a gap looks like. Every kind: tests/deep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.moments import Args, at

TRACK = "refs/baton/tracks/t"


def taken(repo: Sandbox, count: int) -> list[str]:
    """So many checkpoints of track ``t``; their ids, newest first."""
    with repo.open() as baton:
        for number in range(count):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
        return [stored.id for stored in baton.store.history("t").items]


def file_of(repo: Sandbox, what: str) -> Path:
    oid = repo.git("rev-parse", what)
    return repo.loose(oid)


@pytest.mark.deep
def test_a_power_cut_leaves_the_newest_hollow_and_a_mend_goes_on_below_it(repo: Sandbox) -> None:
    ids = taken(repo, 3)
    hollow = [file_of(repo, name) for name in (TRACK, f"{TRACK}^{{tree}}", f"{TRACK}:a.txt", ids[0])]
    repo.write("a.txt", "since\n")
    for path in hollow:
        path.write_bytes(b"")
    shown = repo.ok("resume", "t")
    assert shown.out.splitlines()[0].endswith("  step 1") and "the newest checkpoint that can be read is shown" in shown.err
    plan = repo.baton("doctor", "--mend", "-n")
    assert plan.code == 1 and all(path.exists() for path in hollow)
    done = repo.baton("doctor", "--mend")
    assert done.out == plan.out and done.code == 1
    assert f"lost: track 't': above {ids[1][:10]}: a checkpoint or more\n" in done.out
    assert not any(path.exists() for path in hollow)
    aside = list((repo.path / ".git/baton/broken").glob("*/objects/*"))
    assert {path.name for path in aside} == {path.parent.name + path.name for path in hollow}
    assert "step=step 1" in repo.ok("resume", "--porcelain", "t").out
    repo.ok("snapshot", "--track", "t", "--step", "after")
    assert repo.ok("doctor", "--mend").out == "nothing is damaged\n"
    repo.fsck()


def test_where_the_commit_of_head_is_gone_the_newest_is_made_again_from_its_json(repo: Sandbox) -> None:
    ids = taken(repo, 2)
    for name in (TRACK, "HEAD"):
        file_of(repo, name).unlink()
    done = repo.baton("doctor", "--mend")
    assert "2 checkpoints can be read\n" in done.out and "lost: " not in done.out
    assert done.code == 1 and "of your own history, cannot be read" in done.out
    with repo.open() as baton:
        assert [stored.id for stored in baton.store.history("t").items] == ids


@pytest.mark.deep
def test_what_is_put_aside_of_latest_lies_with_the_rest(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    halves = [path for path in (repo.path / "runtime/checkpoints").iterdir() if path.is_file()]
    for path in halves:
        path.write_bytes(path.read_bytes()[:10])
    repo.ok("doctor", "--mend")
    aside = (repo.path / ".git/baton/broken").glob("*/runtime/checkpoints/*")
    assert sorted(path.name for path in aside) == sorted(path.name for path in halves) != []
    assert all(path.stat().st_size > 10 for path in halves)


@pytest.mark.deep
def test_a_list_of_packed_refs_that_was_cut_is_mended(repo: Sandbox) -> None:
    ids = taken(repo, 2)
    repo.git("pack-refs", "--all")
    packed = repo.path / ".git/packed-refs"
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-1])
    assert repo.try_git("show-ref").code == 128, "git reads no ref at all"
    cut = whole.splitlines()[-1].decode()
    assert f"damaged: the line '{cut}' of 'packed-refs'\n" in repo.ok("doctor", "--mend").out
    assert (
        packed.read_bytes() == whole and [row["id"] for row in json.loads(repo.ok("log", "--json").out)["checkpoints"]] == ids
    )


def test_a_cut_line_of_the_user_is_named_with_what_ends_it(repo: Sandbox) -> None:
    taken(repo, 1)
    repo.git("tag", "zz")
    repo.git("pack-refs", "--all")
    packed = repo.path / ".git/packed-refs"
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-1])
    hint = next(line for line in repo.baton("doctor", "--mend").out.splitlines() if "echo >>" in line)
    assert packed.read_bytes() == whole[:-1]
    assert repo.run("sh", "-c", hint.partition(";")[0]).code == 0 and packed.read_bytes() == whole


def test_refs_that_git_packs_beside_a_mend_stay(repo: Sandbox) -> None:
    taken(repo, 1)
    repo.git("pack-refs", "--all")
    packed = repo.path / ".git/packed-refs"
    tag = f"{repo.git('rev-parse', 'HEAD')} refs/tags/beside\n".encode()
    packed.write_bytes(packed.read_bytes() + b"zz refs/baton/tracks/t\n")

    def beside(_: Args) -> None:
        packed.write_bytes(packed.read_bytes() + tag)

    with at("open", lambda args: str(args[0]).endswith("packed-refs.lock"), beside):
        assert "was written meanwhile" in repo.here("doctor", "--mend").err
    assert tag in packed.read_bytes()
    assert "not moved" not in repo.baton("doctor", "--mend").out and "tags/beside" in repo.git("show-ref")


@pytest.mark.deep
def test_a_gap_is_a_line_of_the_log(repo: Sandbox) -> None:
    ids = taken(repo, 6)
    for path in [file_of(repo, f"{TRACK}~3"), file_of(repo, ids[3])]:
        path.unlink()
    done = repo.baton("doctor", "--mend")
    assert done.code == 1 and f"lost: track 't': below {ids[2][:10]}: a checkpoint or more\n" in done.out
    rows = json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["id"] for row in rows if not row["step"].startswith("gap: ")] == [oid for oid in ids if oid != ids[3]]
    gap = rows[3]
    assert gap["step"] == "gap: what was recorded here cannot be read any more" and ids[3] in gap["note"]
    assert (gap["kind"], gap["files"]) == ("auto", None) and rows[2]["created"] > gap["created"] > rows[4]["created"]
    assert "step=step 5" in repo.ok("resume", "--porcelain", "t").out
    repo.ok("restore", "t~4", "--force")
    assert (repo.path / "a.txt").read_text() == "1\n"
    repo.fsck()


@pytest.mark.deep
def test_a_checkpoint_with_less_names_what_it_lacks(repo: Sandbox) -> None:
    ids = taken(repo, 3)
    repo.ok("pin", "t~1")
    file_of(repo, f"{TRACK}~1:a.txt").unlink()
    assert f"lost: track 't': {ids[1][:10]}: a.txt\n" in repo.baton("doctor", "--mend").out
    rows = json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["step"] for row in rows] == ["step 2", "step 1", "step 0"]
    assert [rows[0]["id"], rows[2]["id"]] == [ids[0], ids[2]]
    assert rows[1]["files"]["skipped"] == [{"path": "a.txt", "reason": "unreadable"}]
    assert "(pinned)" in repo.ok("log", "t").out.splitlines()[1]
    done = repo.baton("restore", "t~1", "--force")
    assert done.code == 1 and "refuse a.txt (unreadable)" in done.out and (repo.path / "a.txt").read_text() == "2\n"


@pytest.mark.deep
def test_what_was_forgotten_stays_away(repo: Sandbox) -> None:
    ids = taken(repo, 4)
    repo.ok("forget", "t~2", "--yes")
    file_of(repo, TRACK).unlink()
    (repo.path / ".git" / TRACK).write_bytes(b"")
    repo.baton("doctor", "--mend")
    rows = json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["id"] for row in rows] == [oid for oid in ids if oid != ids[2]]


@pytest.mark.deep
def test_options_that_go_with_it(repo: Sandbox) -> None:
    for words in (["--dry-run"], ["--from-remote", "x"]):
        assert repo.baton("doctor", *words).code == 129
    found = json.loads(repo.ok("doctor", "--mend", "--json").out)
    assert found == {"v": 1, "ok": True, "torn": [], "written": 0, "found": 0, "refs": [], "lost": [], "left": [], "theirs": []}
    assert "gives nothing" in repo.baton("doctor", "--mend", "--from-remote", "nowhere").err or found["ok"]


@pytest.mark.deep
def test_a_long_chain_comes_back_from_a_pack_without_an_index(repo: Sandbox) -> None:
    with repo.open() as baton:
        for number in range(120):
            baton.snapshot(f"step {number}", track="t", files=False)
    repo.git("repack", "-q", "-a", "-d")
    for path in (repo.path / ".git/objects/pack").glob("*.idx"):
        path.unlink()
    assert repo.baton("log", "t").code == 128
    repo.baton("doctor", "--mend")
    assert repo.ok("log", "t").out.count("\n") == 120
    assert repo.ok("doctor", "--mend").out == "nothing is damaged\n"
    repo.fsck()


def test_a_tip_that_shows_another_track_begins_no_chain_of_this_one(repo: Sandbox) -> None:
    ids = taken(repo, 2)
    repo.ok("snapshot", "--track", "u", "--step", "other", "--no-set-current")
    repo.git("update-ref", "refs/checkpoints/t", "refs/checkpoints/u")
    (repo.path / ".git" / TRACK).write_bytes(b"")
    assert "2 checkpoints can be read\n" in repo.ok("doctor", "--mend").out
    assert [row["id"] for row in json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]] == ids
    assert repo.ok("doctor", "--mend").out == "nothing is damaged\n"


def test_a_checkpoint_on_a_commit_that_nothing_can_parse_is_left_out_once(repo: Sandbox) -> None:
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    ids = taken(repo, 4)
    top, middle, low, lowest, _ = repo.git("rev-list", "--first-parent", TRACK).split()

    def written(commit: str, old: str, new: str) -> str:
        text = repo.git("cat-file", "commit", commit).replace(old, new, 1) + "\n"
        words = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
        return repo.run("git", *words, stdin=text.encode()).out.strip()

    index = repo.git("rev-parse", f"{low}^2")
    odd = written(index, repo.git("cat-file", "commit", index).partition("\n")[0] + "\n", "")
    torn = written(middle, low, written(low, index, odd))
    repo.git("update-ref", TRACK, written(top, middle, torn))
    for oid in (torn, middle, low, lowest, ids[1], ids[3]):
        repo.loose(oid).unlink()
    done = repo.baton("doctor", "--mend", "-n")
    assert done.code == 1 and "1 checkpoint can be read, with 1 gap\n" in done.out


@pytest.mark.parametrize("left", ["nothing", "another"])
def test_where_no_commit_of_a_track_is_left_its_newest_json_begins_it(repo: Sandbox, left: str) -> None:
    ids = taken(repo, 3)
    repo.ok("snapshot", "--track", "u", "--step", "other", "--no-set-current")
    for commit in repo.git("rev-list", "--first-parent", "--max-count=3", TRACK).split():
        repo.loose(commit).unlink()
    change = ["-d", "refs/checkpoints/t"] if left == "nothing" else ["refs/checkpoints/t", "refs/checkpoints/u"]
    repo.git("update-ref", *change)
    assert repo.baton("doctor", "--mend").out.startswith("written: 3 objects")
    assert [row["id"] for row in json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]] == ids
