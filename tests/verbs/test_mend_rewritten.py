"""``git baton doctor --mend`` after history was rewritten, as git filter-branch and git-filter-repo do it, and where records
that git can read are none of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.state import files_of

TRACK, TIP = "refs/baton/tracks/t", "refs/checkpoints/t"


@pytest.fixture
def taken(repo: Sandbox) -> Sandbox:
    """Three checkpoints of track ``t``, the second with something staged, and a restore that was taken back."""
    repo.commit("with a secret", secret="s\n", b_txt="b\n")
    with repo.open() as baton:
        for number in range(3):
            repo.write("a.txt", f"precious {number}\n")
            repo.write("b.txt", f"staged {number}\n")
            if number == 1:
                repo.git("add", "b.txt")
            baton.snapshot(f"step {number}", track="t", decisions=(f"d {number}",))
    repo.ok("snapshot", "--track", "t", "--step", "step 3", "--withdraw", "1")
    repo.git("reset", "-q")
    repo.ok("restore", "t~2", "--force")
    repo.ok("undo")
    return repo


def rewritten(repo: Sandbox, *, drop: str = "", messages: bool = False) -> None:
    """Every commit of every ref written again: as another author's, without the file ``drop``, and with ``messages``, as
    git-filter-repo does it, with the new ids of commits in messages, and a record of them."""
    new: dict[str, str] = {}
    for oid in repo.git("rev-list", "--reverse", "--topo-order", "--all").split():
        head, _, text = repo.run("git", "cat-file", "commit", oid).out.partition("\n\n")
        if "gitbaton root 1" in text:
            new[oid] = oid
            continue
        lines = head.split("\n")
        rows = [row for row in repo.git("ls-tree", lines[0][5:]).split("\n") if row and row.split("\t")[1] != drop]
        lines[0] = "tree " + repo.git("mktree", stdin="".join(f"{row}\n" for row in rows).encode())
        lines = [f"parent {new[line[7:]]}" if line.startswith("parent ") else line for line in lines]
        lines = [re.sub("<.*>", "<new@example.com>", line) if drop == "" else line for line in lines]
        text = re.sub(r"\b[0-9a-f]{40}\b", lambda found: new.get(found[0], found[0]), text) if messages else text
        raw = "\n".join(lines) + "\n\n" + text
        new[oid] = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode())
    for row in repo.git("for-each-ref", "--format=%(refname) %(objectname)").split("\n"):
        ref, oid = row.split(" ")
        if oid in new:
            repo.git("update-ref", ref, new[oid])
    if messages:
        path = repo.path / ".git/filter-repo/commit-map"
        path.parent.mkdir()
        path.write_text("old new\n" + "".join(f"{old} {oid}\n" for old, oid in new.items()))
    repo.git("read-tree", "HEAD")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")


@pytest.mark.deep
@pytest.mark.parametrize("drop", ["secret", ""])
@pytest.mark.parametrize("messages", [False, True])
def test_after_a_rewriting_the_trees_of_now_are_the_files(taken: Sandbox, drop: str, messages: bool) -> None:
    trees = [taken.tree(f"{TRACK}~{n}") for n in range(4)]
    rewritten(taken, drop=drop, messages=messages)
    old, files = taken.git("rev-parse", TRACK), files_of(taken.path)
    plan = taken.baton("doctor", "--mend", "--dry-run")
    assert taken.git("rev-parse", TRACK) == old
    done = taken.ok("doctor", "--mend")
    if drop or messages:
        assert f"ref: '{TRACK}'" in done.out and "history was rewritten, and 4 checkpoints with it" in done.out
        assert done.out == plan.out and "lost: " not in done.out
    assert taken.ok("doctor", "--mend").out == "nothing is damaged\n"
    taken.git("gc", "-q", "--prune=now")
    assert taken.git("cat-file", "-t", old) == "commit", "what it was stays reachable"
    rows = json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["step"] for row in rows] == ["step 3", "step 2", "step 1", "step 0"]
    for row, tree in zip(rows, trees, strict=True):
        assert taken.tree(row["files"]["tree"]) == {path: entry for path, entry in tree.items() if path != drop}
        assert not row.get("foreign")
    if drop or messages:
        assert [row["previous"] for row in rows] == [*(row["id"] for row in rows[1:]), None]
        assert {row["head"] for row in rows} == {taken.git("rev-parse", "HEAD")}
        assert taken.git("show", f"{rows[2]['files']['index']['tree']}:b.txt") == "staged 1"
    assert files_of(taken.path) == files
    live = taken.ok("resume", "t", "--live", "--porcelain").out
    assert "decision=d 1\n" in live and "decision=d 0\n" not in live
    taken.ok("restore", "t~2", "--force")
    assert (taken.path / "a.txt").read_text() == "precious 1\n"
    taken.ok("undo")
    assert files_of(taken.path) == files
    taken.ok("snapshot", "--track", "t", "--step", "after")
    taken.fsck()


def spoiled(repo: Sandbox, name: str, old: str = '"step": "', new: str = '"step": nothing"') -> str:
    """The commit of a checkpoint with other text in its place, and all above it upon that; its id."""
    bad, above, place = "", "", int(name.partition("~")[2] or 0)
    for number in range(place, -1, -1):
        raw = repo.run("git", "cat-file", "commit", f"{TRACK}~{number}").out
        if number == place:
            assert old in raw
            raw = raw.replace(old, new)
        else:
            raw = re.sub(r"(?m)^parent .*$", f"parent {above}", raw, count=1)
        above = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode())
        bad = bad or above
    repo.git("update-ref", TRACK, above)
    return bad


def test_a_rewriting_that_left_the_newest_alone_is_found_below_it(taken: Sandbox) -> None:
    old, new = (taken.git("rev-parse", f"{name}^{{tree}}") for name in (f"{TRACK}~2", "HEAD"))
    bad = spoiled(taken, f"{TRACK}~2", f"tree {old}\n", f"tree {new}\n")
    found = json.loads(taken.baton("doctor", "--mend", "--json").out)
    assert any(row["ref"] == TRACK for row in found["refs"]) and taken.git("cat-file", "-t", bad) == "commit"


def test_words_of_the_newest_that_no_json_holds_come_from_the_blob_of_its_tip(taken: Sandbox) -> None:
    ids = [row["id"] for row in json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]]
    bad = spoiled(taken, TRACK)
    done = taken.ok("doctor", "--mend")
    assert f"ref: '{TRACK}'" in done.out and "the words of 1 from where they stand alone" in done.out
    assert [row["id"] for row in json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]] == ids
    assert taken.git("rev-parse", f"refs/baton/broken/tracks/t/{bad}") == bad
    assert taken.ok("doctor", "--mend").out == "nothing is damaged\n"
    taken.fsck()


@pytest.mark.parametrize("place", [0, 2])
def test_a_record_that_is_no_json_is_set_aside_and_said(taken: Sandbox, place: int) -> None:
    ids = [row["id"] for row in json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]]
    bad = spoiled(taken, f"{TRACK}~{place}")
    old = taken.git("rev-parse", TRACK)
    if place == 0:  # nothing holds its words any more
        taken.git("update-ref", TIP, taken.git("hash-object", "-w", "--stdin", stdin=b"{}\n"))
    taken.git("gc", "-q", "--prune=now")
    done = taken.baton("doctor", "--mend")
    near = f"below {ids[place - 1][:10]}" if place else f"above {ids[1][:10]}"
    assert done.code == 1 and f"lost: track 't': {near}: commit {bad}: record is not JSON" in done.out
    rows = json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["id"] for row in rows if not row["step"].startswith("gap: ")] == ids[:place] + ids[place + 1 :]
    assert len(rows) == 4 - (place == 0) and taken.git("rev-parse", f"refs/baton/broken/tracks/t/{old}") == old
    assert taken.ok("doctor", "--mend").out == "nothing is damaged\n"
    taken.ok("snapshot", "--track", "t", "--step", "after")
    assert taken.ok("prune", "--keep-last", "2", "--yes").code == 0
    assert any(row["name"] == "refs" and row["ok"] for row in taken.baton("doctor", "--json").json["findings"])
    taken.fsck()


def test_words_of_one_in_the_middle_come_from_a_blob_that_lies_about(taken: Sandbox) -> None:
    ids = [row["id"] for row in json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]]
    spoiled(taken, f"{TRACK}~1")  # its blob was that of the tip once, and git has not collected it yet
    assert "the words of 1 from where they stand alone" in taken.ok("doctor", "--mend").out
    assert [row["id"] for row in json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]] == ids


def test_what_is_kept_of_a_renamed_track_knows_its_earlier_ids(taken: Sandbox) -> None:
    old = json.loads(taken.ok("log", "t", "--json").out)["checkpoints"]
    taken.ok("tracks", "rename", "t", "new")
    renamed = json.loads(taken.ok("log", "new", "--json").out)["checkpoints"]
    path: Path = taken.loose(taken.git("rev-parse", "refs/baton/tracks/new~1:a.txt"))
    path.unlink()
    taken.write("a.txt", "other\n")
    assert "a.txt" in taken.baton("doctor", "--mend").out
    raw = taken.git("log", "-1", "--format=%B", "refs/baton/tracks/new~1")
    assert json.loads(raw.partition("\n\n")[2])["was"] == [renamed[1]["id"], old[1]["id"]]
    for oid in (renamed[1]["id"], old[1]["id"]):
        assert "step=step 2" in taken.ok("show", "--porcelain", oid).out


def test_a_run_of_which_a_rewriting_left_no_record_is_unreadable(repo: Sandbox) -> None:
    repo.ok("run", "--run", "job", "--step", "look", "--", "true")
    root = repo.git("rev-list", "--max-parents=0", "refs/baton/runs/job")
    repo.git("update-ref", "refs/baton/runs/job", root)
    said = f"the chain at {root} holds no record"
    shown = repo.baton("run", "list")
    assert said in shown.out + shown.err and said in repo.baton("doctor").out
    assert repo.baton("run", "--run", "job", "--step", "look", "--", "true").code == 76
    done = repo.baton("doctor", "--mend")
    assert done.code == 1 and f"left as it is: 'refs/baton/runs/job': {said}" in done.out
