"""Export: every checkpoint as files that git ignores, and back again with the same words."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.model import Agent, Checkpoint, Stored
from gitbaton.care.tools.porting import history_files
from tests.kit import Sandbox, integer_clock
from tests.kit.processes import chain
from tests.verbs.test_porting import folder, history, record, refs

WORDS = ("track", "step", "note", "next_cmd", "validation", "decisions", "label", "kind", "branch", "created", "extra", "agent")
HERE = "runtime/checkpoints"
EVIL = "x\n## y\u2028\x1b[2J \U000e0001 é\tz"


def fill(repo: Sandbox) -> None:
    """Tracks with every field, odd names, equal labels, and an older head."""
    with repo.open(clock=integer_clock()) as baton:
        baton.snapshot("one", track="side/work 1.0", note=EVIL, next_cmd="make  &&\ttest", label="v1 / beta: \u00fc\n\u200bx")
        baton.snapshot(EVIL, track="main", decisions=["a", "b\nc"], extra={"k": EVIL, "z.1": ""}, validation="failed")
        repo.commit("second", a_txt="two\n")
        baton.snapshot("auto", track="main", kind="auto", agent=Agent(name="claude", session="s"), label="same")
        baton.snapshot("same label", track="main", label="SAME", validation="green", files=False)
        repo.git("checkout", "-q", "--detach")
        baton.snapshot("long label", track="main", label="ü" * 300)


def exported(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir() if p.name.startswith("context"))


def words(repo: Sandbox, encoded: str) -> list[dict[str, Any]]:
    return [{key: c[key] for key in WORDS} for c in chain(repo, encoded)]


@pytest.mark.deep
def test_export_writes_latest_again(repo: Sandbox) -> None:
    fill(repo)
    latest = repo.path / HERE / "LATEST.json"
    before = latest.read_bytes()
    latest.unlink()
    (repo.path / HERE / "LATEST.md").unlink()
    done = repo.ok("export")
    assert (done.out, done.err) == ("", "") and exported(latest.parent) == []
    assert json.loads(latest.read_bytes())["tracks"] == json.loads(before)["tracks"]
    assert (repo.path / HERE / "LATEST.md").exists()


@pytest.mark.deep
def test_two_files_for_each_checkpoint_that_git_ignores(repo: Sandbox) -> None:
    fill(repo)
    repo.ok("export", "--history")
    names = exported(repo.path / HERE)
    assert len(names) == 10 == len({n.lower() for n in names}) and all(n.isascii() and len(n) < 200 for n in names)
    assert "context_checkpoint_20260101T000000000000Z_v1%20%2F%20beta%3A%20%C3%BC%0A%E2%80%8Bx.md" in names
    by_id = {c["id"]: c for track in ("main", "side%2Fwork%201%2E0") for c in chain(repo, track)}
    found = [json.loads((repo.path / HERE / n).read_bytes()) for n in names if n.endswith(".json")]
    assert {f["id"] for f in found} == set(by_id)
    for f in found:
        assert f == {**json.loads(by_id[f["id"]]["raw"]), "id": f["id"]}
    for name in names:
        text = (repo.path / HERE / name).read_text()
        assert all(c.isprintable() or c == "\n" for c in text)
        assert name.endswith(".json") or [line for line in text.split("\n") if line.startswith("#")] == text.split("\n")[:1]
    assert repo.git("status", "--porcelain", "-uall") == ""
    lines = (repo.path / ".git/info/exclude").read_text().splitlines()
    assert len([line for line in lines if line.startswith(f"/{HERE}/context")]) == 10 == len(set(lines) & set(lines[-12:])) - 2
    repo.write(f"{HERE}/context_checkpoint_mine.json", "{}")
    assert repo.git("status", "--porcelain", "-uall") == f"?? {HERE}/context_checkpoint_mine.json"
    os.unlink(repo.path / HERE / "context_checkpoint_mine.json")
    repo.ok("snapshot", "--track", "main", "--step", "after")
    assert set(repo.tree("refs/baton/tracks/main")) == {"a.txt"}


@pytest.mark.deep
def test_twice_writes_the_same_files(repo: Sandbox) -> None:
    fill(repo)
    repo.ok("export", "--history")
    exclude = (repo.path / ".git/info/exclude").read_bytes()
    before = {n: (repo.path / HERE / n).read_bytes() for n in exported(repo.path / HERE)}
    repo.ok("export", "--history")
    assert {n: (repo.path / HERE / n).read_bytes() for n in exported(repo.path / HERE)} == before
    assert (repo.path / ".git/info/exclude").read_bytes() == exclude


@pytest.mark.deep
def test_round_trip_into_a_fresh_repository(repo: Sandbox, tmp_path: Path) -> None:
    fill(repo)
    repo.ok("export", "--history")
    other = Sandbox.init(tmp_path / "other")
    other.commit("unrelated", b_txt="b\n")
    done = other.ok("import", str(repo.path / HERE))
    assert "main: 4 new checkpoints\n" in done.out and "current track: main\n" in done.out
    for track in ("main", "side%2Fwork%201%2E0"):
        theirs, ours = words(other, track), words(repo, track)
        for item, was in zip(theirs, chain(repo, track), strict=True):
            assert item["extra"].pop("imported.head") == was["head"]
        assert theirs == ours
    other.fsck()
    again = other.ok("import", str(repo.path / HERE))
    assert all(line.endswith("nothing new") for line in again.out.splitlines())
    clone = Sandbox(tmp_path / "clone")
    repo.git("clone", "-q", str(repo.path), str(clone.path))
    clone.ok("import", str(repo.path / HERE))
    assert words(clone, "main") == words(repo, "main")
    assert [c["head"] for c in chain(clone, "main")] == [c["head"] for c in chain(repo, "main")]


@pytest.mark.deep
def test_round_trip_into_the_same_repository_adds_nothing(repo: Sandbox) -> None:
    fill(repo)
    repo.ok("export", "--history")
    before = refs(repo)
    done = repo.ok("import", HERE)
    assert refs(repo) == before and done.err == "" and "new checkpoint" not in done.out


@pytest.mark.deep
def test_imported_checkpoints_export_and_import_to_the_same_ids(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("import", folder(tmp_path / "old", history([record(n, head=repo.head()) for n in range(5)])))
    repo.ok("--checkpoint-dir", str(tmp_path / "out"), "export", "--history")
    other = Sandbox(tmp_path / "clone")
    repo.git("clone", "-q", str(repo.path), str(other.path))
    other.ok("import", str(tmp_path / "out"))
    assert other.git("rev-parse", "refs/baton/tracks/t") == repo.git("rev-parse", "refs/baton/tracks/t")


@pytest.mark.deep
def test_a_file_that_git_tracks_is_not_written_over(repo: Sandbox) -> None:
    fill(repo)
    repo.ok("export", "--history")
    name = exported(repo.path / HERE)[0]
    repo.write(f"{HERE}/{name}", "the user's own\n")
    repo.git("add", "-f", f"{HERE}/{name}")
    (repo.path / ".git/info/exclude").write_text("")
    done = repo.baton("export", "--history")
    assert done.code == 1 and f"'{HERE}/{name}' is tracked by git" in done.err
    assert (repo.path / HERE / name).read_text() == "the user's own\n"
    assert f"/{HERE}/{name}\n" not in (repo.path / ".git/info/exclude").read_text()
    assert repo.git("status", "--porcelain", "-uall").splitlines() == [f"A  {HERE}/{name}"]


@pytest.mark.deep
def test_never_through_a_link(repo: Sandbox, tmp_path: Path) -> None:
    fill(repo)
    repo.ok("export", "--history")
    name = exported(repo.path / HERE)[0]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("mine\n")
    os.unlink(repo.path / HERE / name)
    (repo.path / HERE / name).symlink_to(outside / "target")
    repo.ok("export", "--history")
    assert (outside / "target").read_text() == "mine\n" and not (repo.path / HERE / name).is_symlink()
    (repo.path / "linked").symlink_to(outside)
    done = repo.baton("export", "--history", "--checkpoint-dir", "linked/deeper")
    assert done.code in (1, 128) and os.listdir(outside) == ["target"] and "Traceback" not in done.err


@pytest.mark.full
@pytest.mark.parametrize("place", [".", "deep/er place [x]", "outside"])
def test_other_places(repo: Sandbox, tmp_path: Path, place: str) -> None:
    fill(repo)
    target = tmp_path / "outside" if place == "outside" else repo.path / place
    repo.ok("export", "--history", "--checkpoint-dir", str(target) if place == "outside" else place)
    assert len(exported(target)) == 10 and (target / "LATEST.json").exists()
    assert repo.git("status", "--porcelain", "-uall") == ""
    repo.ok("snapshot", "--track", "main", "--step", "after")
    assert set(repo.tree("refs/baton/tracks/main")) == {"a.txt"}


@pytest.mark.deep
def test_from_a_bare_repository(repo: Sandbox, tmp_path: Path) -> None:
    fill(repo)
    bare = Sandbox(tmp_path / "bare.git")
    repo.git("clone", "-q", "--mirror", str(repo.path), str(bare.path))
    done = bare.baton("export", "--history")
    assert done.code == 128 and "--checkpoint-dir" in done.err
    bare.ok("export", "--history", "--checkpoint-dir", str(tmp_path / "out"))
    assert len(exported(tmp_path / "out")) == 10
    assert bare.baton("export", "--checkpoint-dir", str(bare.path / "x")).code == 129


def test_a_repository_without_checkpoints(repo: Sandbox) -> None:
    done = repo.ok("export", "--history")
    assert done.err == "" and exported(repo.path / HERE) == []


@pytest.mark.deep
def test_a_broken_record_is_named_and_the_rest_is_written(repo: Sandbox) -> None:
    fill(repo)
    broken = repo.git("commit-tree", "-p", "refs/baton/tracks/main", "-m", "stranger", "HEAD^{tree}")
    repo.git("update-ref", "refs/baton/tracks/main", broken)
    done = repo.baton("export", "--history")
    assert done.code == 1 and broken in done.err and len(exported(repo.path / HERE)) == 10


def stored(oid: str, label: str | None) -> Stored:
    c = Checkpoint(track="t", step="s", label=label, created=datetime(2026, 1, 1, tzinfo=UTC))
    return Stored(id=oid, commit=oid, base=None, tree=oid, raw=b"", checkpoint=c)


def test_names_of_checkpoints_of_one_moment_are_told_apart() -> None:
    taken: set[str] = set()
    for oid, label in (("a" * 40, "x"), ("b" * 40, "X"), ("b" * 39 + "c", "x"), ("c" * 40, None), ("d" * 40, "c" * 10)):
        names = {name.lower() for name, _ in history_files(stored(oid, label), taken)}
        assert len(names) == 2 and not names & taken
        taken |= names
