"""Import of older, file-based folders: every word arrives, twice is once, and what was there stays."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.codec.older import moment_of, verdict
from gitbaton.base.errors import RecordError
from tests.kit import Sandbox, integer_clock
from tests.kit.places import DATA
from tests.kit.processes import chain, noted
from tests.kit.tables import each
from tests.kit.tiers import some

OLD = DATA / "old"
MAIN = "JX_JUMP_DEBUG WORK"
ENCODED = "JX_JUMP_DEBUG%20WORK"
Files = dict[str, Any]


def lay(target: Path, name: str, head: str) -> Path:
    """A hand-made folder of tests/data/old with the repository's head filled in."""
    target.mkdir(parents=True)
    for path in sorted((OLD / name).iterdir()):
        text = path.read_text().replace("@HEAD@", head).replace("@SHORT@", head[:9])
        (target / path.name).write_text(text)
    return target


def folder(target: Path, files: Files) -> str:
    """A folder of files: a dict is written as JSON, the rest as it is."""
    target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        raw = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()
        (target / name).write_bytes(raw)
    return str(target)


def record(number: int, **fields: Any) -> dict[str, Any]:
    when = (datetime(2025, 6, 1, tzinfo=UTC) + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"track": "t", "step": f"step {number}", "timestamp": when, **fields}


def history(records: list[dict[str, Any]]) -> Files:
    return {f"context_checkpoint_{n:08d}_x.json": r for n, r in enumerate(records)}


def refs(repo: Sandbox) -> str:
    return repo.git("for-each-ref") + repo.try_git("symbolic-ref", "BATON_HEAD").out


def steps(repo: Sandbox, encoded: str = "t") -> list[str]:
    return [c["step"] for c in chain(repo, encoded)]


@pytest.mark.deep
def test_a_near_name_that_is_empty_hides_no_other_and_nothing_said_is_dropped(repo: Sandbox, tmp_path: Path) -> None:
    says: list[dict[str, Any]] = [
        {"decisions": [], "decision": ["use X"]},
        {"note": 1, "notes": True},
        {"decisions": [], "extra": {}, "extras": {}},
    ]
    place = folder(tmp_path / "old", history([record(n, **more) for n, more in enumerate(says)]))
    repo.ok("import", str(place))
    one, two, three = (json.loads(repo.ok("show", f"t~{n}", "--json").out)["checkpoint"] for n in (2, 1, 0))
    assert (one["decisions"], one["extra"]) == (["use X"], {})
    assert (two["note"], two["extra"]) == ("1", {"notes": "true"})
    assert (three["decisions"], three["extra"]) == ([], {})


@pytest.mark.deep
def test_the_plain_older_format(repo: Sandbox, tmp_path: Path) -> None:
    place = lay(tmp_path / "old", "plain", repo.head())
    done = repo.ok("import", str(place))
    assert done.out.splitlines() == [f"'{MAIN}': 3 new checkpoints", "docs: 1 new checkpoint", f"current track: {MAIN}"]
    assert done.err.splitlines() == [
        "warning: 2 checkpoints name a commit that is not here or not unique; it is kept as extra.imported.head"
    ]
    first, second, third = chain(repo, ENCODED)
    assert [c["step"] for c in (first, second, third)] == ["read the code", "first test fails", "wire the jump table"]
    assert [c["validation"] for c in (first, second, third)] == ["pending", "failed", "green"]
    assert [c["label"] for c in (first, second, third)] == ["start", None, "after_green_tests"]
    assert third["head"] == repo.head() and third["created"] == "2025-11-03T09:15:00.250000Z"
    assert third["extra"] == {"pr": "17", "ci": '{"url": "https://ci.example/17", "jobs": ["unit", "lint"]}'}
    assert second["head"] is None and second["extra"] == {"owner": "sub agent", "imported.head": "fffffff"}
    (docs,) = chain(repo, "docs")
    assert docs["step"] == "Überblick schreiben — 概要" and docs["note"] == "" and docs["label"] is None
    assert docs["extra"] == {"imported.head": "0123456"} and docs["files"] is None and docs["previous"] is None
    who = repo.git("log", "--format=%an <%ae> %cn <%ce>", f"refs/baton/tracks/{ENCODED}")
    assert set(who.splitlines()) >= {"gitbaton <gitbaton@localhost> gitbaton <gitbaton@localhost>"}
    assert noted(repo, repo.head()) == [third["id"]]
    assert repo.git("rev-parse", f"refs/checkpoints/{ENCODED}") == third["id"]
    assert repo.tree(third["commit"]) == repo.tree("HEAD") and repo.tree(first["commit"]) == {}
    assert repo.ok("resume", "--porcelain", "--live").out.startswith(f"track={MAIN}\nstep=wire the jump table\n")
    repo.fsck()


@pytest.mark.deep
def test_near_names_lists_and_maps(repo: Sandbox, tmp_path: Path) -> None:
    place = lay(tmp_path / "old", "near", repo.head())
    os.utime(place / "LATEST.json", (1.75e9, 1.75e9))
    repo.ok("import", str(place))
    one, two, three = chain(repo, "release%2F1%2E0")
    assert (one["step"], one["label"], one["note"]) == ("v1 / beta two", "v1 / beta two", "only a label")
    assert one["extra"] == {"notes": "and other notes", "imported.validation": "true"} and one["validation"] == "green"
    assert one["created"] == "2025-11-04T09:53:20.000000Z"
    assert (two["step"], two["note"], two["next_cmd"]) == ("cut the branch", "two lines\nof notes", "git tag v1")
    assert two["label"] == "v1_rc_1" and two["created"] == "2025-11-04T10:30:00.000000Z" and two["branch"] == "release"
    assert two["validation"] == "failed" and two["decisions"] == ["freeze on Monday", "no backports"]
    assert two["head"] == three["head"] == repo.head()
    assert two["extra"] == {
        "ok": "true",
        "reviewer": '{"name": "Zoë"}',
        "imported.validation": "pytest: 120 passed\nruff: failed",
        "imported.extra": '{"odd key": 1}',
    }
    assert three["validation"] == "green" and three["created"] == "2025-11-05T00:00:00.000000Z"
    assert chain(repo, "untimed")[0]["created"] == "2025-12-01T00:00:00.000000Z"
    assert repo.try_git("symbolic-ref", "-q", "BATON_HEAD").code == 1  # the folder names no current track


@pytest.mark.deep
@pytest.mark.parametrize("name", ["plain", "near"])
def test_twice_is_once(repo: Sandbox, tmp_path: Path, name: str) -> None:
    place = lay(tmp_path / "old", name, repo.head())
    repo.ok("import", str(place))
    before = refs(repo)
    done = repo.ok("import", str(place))
    assert refs(repo) == before and done.err == ""
    assert done.out and all(line.endswith(": nothing new") for line in done.out.splitlines())


@pytest.mark.deep
def test_two_repositories_get_the_same_commits(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox(tmp_path / "other")
    repo.git("clone", "-q", str(repo.path), str(other.path))
    other.git("config", "user.name", "Somebody Else")
    place = lay(tmp_path / "old", "plain", repo.head())
    for one in (repo, other):
        one.ok("import", str(place))
    ours = "--format=%(refname) %(objectname)", "refs/baton", "refs/checkpoints", "refs/notes"
    assert repo.git("for-each-ref", *ours) == other.git("for-each-ref", *ours) != ""


@pytest.mark.deep
def test_in_sha256_a_head_of_sha1_is_kept_as_a_word(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "repo", "--object-format=sha256")
    head = repo.commit("first", a_txt="one\n")
    old = folder(tmp_path / "old", history([record(1, head="a" * 40), record(2, head=head[:12]), record(3, head=head.upper())]))
    repo.ok("import", old)
    assert [c["head"] for c in chain(repo, "t")] == [None, head, head]
    repo.ok("import", old)
    repo.fsck()


@pytest.mark.full
@some("order", ["newer", "older", "interleaved"])
def test_into_a_track_with_checkpoints_of_its_own(repo: Sandbox, tmp_path: Path, order: str) -> None:
    start = {"newer": datetime(2026, 1, 1, tzinfo=UTC), "older": datetime(2025, 1, 1, tzinfo=UTC)}.get(order)
    clock = iter(datetime(2025, 6, 1, 0, n, 30, tzinfo=UTC) for n in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9))
    with repo.open(clock=integer_clock(start) if start else lambda: next(clock)) as baton:
        own = [baton.snapshot(f"own {n}", track="t", note=f"note {n}").stored for n in range(3)]
    repo.commit("second", a_txt="two\n")
    records = [record(n, head=repo.git("rev-parse", "HEAD~1")[:10]) for n in range(5)]
    repo.ok("import", folder(tmp_path / "old", history(records)))
    found = chain(repo, "t")
    assert [c["created"] for c in found] == sorted(c["created"] for c in found) and len(found) == 8
    assert [c["id"] for c in found if c["step"].startswith("own")] == [s.id for s in own]
    assert [c["raw"].encode() for c in found if c["step"].startswith("own")] == [s.raw for s in own]
    assert [c["step"] for c in found if not c["step"].startswith("own")] == [f"step {n}" for n in range(5)]
    newest_first = [c["id"] for c in reversed(found)]
    assert noted(repo, repo.git("rev-parse", "HEAD~1")) == newest_first
    assert repo.git("rev-parse", "refs/checkpoints/t") == newest_first[0]
    assert repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/t"
    for stored in own:
        (now,) = [c["commit"] for c in found if c["id"] == stored.id]
        assert repo.tree(now) == repo.tree(stored.commit)
    before = refs(repo)
    repo.ok("resume")
    repo.ok("import", str(tmp_path / "old"))
    assert refs(repo) == before
    repo.fsck()
    repo.ok("snapshot", "--track", "t", "--step", "goes on")
    assert steps(repo)[-1] == "goes on" and chain(repo, "t")[-1]["previous"] == newest_first[0]


@pytest.mark.deep
def test_the_current_track_is_only_set_where_none_is(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "mine", "--step", "s")
    done = repo.ok("import", str(lay(tmp_path / "old", "plain", repo.head())))
    assert "current track" not in done.out and repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/mine"
    latest = json.loads((repo.path / "runtime/checkpoints/LATEST.json").read_bytes())
    assert latest["current_track"] == "mine" and set(latest["tracks"]) == {"mine", MAIN, "docs"}


@pytest.mark.deep
def test_records_only_in_latest_only_in_history_in_both(repo: Sandbox, tmp_path: Path) -> None:
    same, more = record(1), record(2, note="the same")
    latest = {
        "t": {k: v for k, v in same.items() if k != "track"},
        "u": {"step": "only here", "timestamp": 1750000000},
        "v": {**more, "pr": "5"},
    }
    files = history([same, record(0), {**more, "track": "v"}, record(3, track="w")])
    old = folder(tmp_path / "old", {**files, "LATEST.json": {"current_track": None, "tracks": latest}})
    repo.ok("import", old)
    assert steps(repo) == ["step 0", "step 1"] and steps(repo, "u") == ["only here"] and steps(repo, "w") == ["step 3"]
    assert {tuple(c["extra"].items()) for c in chain(repo, "v")} == {(), (("pr", "5"),)}
    before = refs(repo)
    repo.ok("import", old)
    assert refs(repo) == before


@pytest.mark.deep
def test_a_folder_that_grew_adds_what_is_new(repo: Sandbox, tmp_path: Path) -> None:
    later = record(9, head="beef" * 10)
    old = folder(tmp_path / "old", {**history([record(1), later]), "LATEST.json": {"tracks": {"t": later}}})
    repo.ok("import", old)
    ids = [c["id"] for c in chain(repo, "t")]
    folder(tmp_path / "old", history([record(1), later, record(1, step="another at that time"), record(12)]))
    done = repo.ok("import", old)
    assert done.out == "t: 2 new checkpoints\n" and [c["id"] for c in chain(repo, "t") if c["id"] in ids] == ids


@pytest.mark.deep
def test_a_head_that_is_known_later_makes_no_second_checkpoint(repo: Sandbox, tmp_path: Path) -> None:
    (repo.path / "a.txt").write_text("two\n")
    env = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
    future = repo.git("commit-tree", "-p", "HEAD", "-m", "later", "HEAD^{tree}", env=env)
    repo.loose(future).unlink()
    old = folder(
        tmp_path / "old", {**history([record(1, head=future[:8])]), "LATEST.json": {"tracks": {"t": record(1, head=future)}}}
    )
    repo.ok("import", old)
    count = len(chain(repo, "t"))
    assert repo.git("commit-tree", "-p", "HEAD", "-m", "later", "HEAD^{tree}", env=env) == future
    before = refs(repo)
    repo.ok("import", old)
    assert refs(repo) == before and count == len(chain(repo, "t"))


def test_a_branch_called_like_an_id_is_not_taken_for_one(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("branch", "deadbeef")
    repo.git("tag", "-a", "-m", "x", "v1")
    tag = repo.git("rev-parse", "v1")
    heads = ["deadbeef", "main", tag, "HEAD", "--output=x", "abc\n" + repo.head(), repo.head()[:3], " " + repo.head() + "\n"]
    repo.ok("import", folder(tmp_path / "old", history([record(n, head=h) for n, h in enumerate(heads)])))
    found = chain(repo, "t")
    assert [c["head"] for c in found] == [None] * 7 + [repo.head()]
    assert [c["extra"].get("imported.head") for c in found] == [*heads[:7], None]
    assert not (repo.path / "x").exists()


@pytest.mark.full
def test_an_ambiguous_head_is_kept_as_a_word(repo: Sandbox, tmp_path: Path) -> None:
    tree, seen = repo.git("rev-parse", "HEAD^{tree}"), {}
    for number in range(2000):
        env = {"GIT_COMMITTER_DATE": f"{1700000000 + number} +0000"}
        oid = repo.git("commit-tree", "-m", "x", tree, env=env)
        if oid[:4] in seen:
            break
        seen[oid[:4]] = oid
    repo.ok("import", folder(tmp_path / "old", history([record(1, head=oid[:4]), record(2, head=oid)])))
    assert [c["head"] for c in chain(repo, "t")] == [None, oid]


@pytest.mark.deep
def test_a_thousand_records(repo: Sandbox, tmp_path: Path) -> None:
    lines = "".join(f"commit refs/heads/many\ncommitter A <a@b> {n} +0000\ndata 1\nx\n" for n in range(300))
    repo.git("fast-import", "--quiet", stdin=lines.encode())
    commits = repo.git("rev-list", "many").split()
    records = [record(n, track=f"t{n % 3}", head=commits[n % 300][:12], note=f"n{n}", label=None) for n in range(1000)]
    old = folder(tmp_path / "old", history(records))
    done = repo.ok("import", old)
    assert done.out.splitlines() == ["t0: 334 new checkpoints", "t1: 333 new checkpoints", "t2: 333 new checkpoints"]
    assert sum(len(chain(repo, f"t{n}")) for n in range(3)) == 1000
    assert len(repo.git("notes", "--ref=checkpoints", "list").splitlines()) == 300
    assert len(noted(repo, commits[0])) == 4
    assert repo.git("rev-list", "--count", "refs/notes/checkpoints") == "1"
    repo.fsck()
    assert [line for line in repo.try_git("fsck", "--unreachable", "--no-reflogs").out.splitlines() if " tree " in line] == []


def test_in_a_bare_repository(repo: Sandbox, tmp_path: Path) -> None:
    bare = Sandbox(tmp_path / "bare.git")
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare.path))
    bare.ok("import", str(lay(tmp_path / "old", "plain", repo.head())))
    assert len(chain_of_bare(bare, ENCODED)) == 3 and not (bare.path / "runtime").exists()


def chain_of_bare(repo: Sandbox, encoded: str) -> list[str]:
    return repo.git("rev-list", "--first-parent", "--min-parents=1", f"refs/baton/tracks/{encoded}").split()


def test_notes_that_cannot_be_read_hinder_no_import(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("update-ref", "refs/notes/checkpoints", repo.git("rev-parse", "HEAD:a.txt"))
    done = repo.ok("import", folder(tmp_path / "old", history([record(1, head=repo.head())])))
    assert "no notes are written" in done.err and steps(repo) == ["step 1"]


@pytest.mark.deep
def test_a_ref_in_the_way_leaves_nothing_half_done(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "u", "--step", "s")
    lock = repo.write(".git/refs/checkpoints/u.lock")
    before = refs(repo)
    old = folder(tmp_path / "old", history([record(1), {**record(2, track="u"), "timestamp": "2030-01-01"}]))
    done = repo.baton("import", old)
    assert done.code == 128 and "u.lock" in done.err and refs(repo) == before
    lock.unlink()
    repo.ok("import", old)
    assert steps(repo) == ["step 1"] and steps(repo, "u") == ["s", "step 2"]


@pytest.mark.deep
def test_the_folder_may_be_the_checkpoint_directory_itself(repo: Sandbox) -> None:
    place = lay(repo.path / "runtime/checkpoints", "plain", repo.head())
    older = {p.name: p.read_bytes() for p in place.iterdir()}
    repo.ok("import", "runtime/checkpoints")
    before = refs(repo)
    assert {p.name: p.read_bytes() for p in place.iterdir()} == older  # somebody else's, and they stay
    repo.ok("import", "runtime/checkpoints")
    assert refs(repo) == before
    place.rename(place.parent / "older")
    repo.ok("resume")
    assert json.loads((place / "LATEST.json").read_bytes())["tracks"][MAIN]["id"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2025-11-03T09:15:00.25+02:00", "2025-11-03T07:15:00.250000"),
        ("2025-11-03 09:15:00", "2025-11-03T09:15:00.000000"),
        ("20251103T091500Z", "2025-11-03T09:15:00.000000"),
        ("20251103T091500123456Z", "2025-11-03T09:15:00.123456"),
        ("20251103_091500", "2025-11-03T09:15:00.000000"),
        ("20251103-091500", "2025-11-03T09:15:00.000000"),
        ("20251103091500", "2025-11-03T09:15:00.000000"),
        ("2025-11-03_09-15-00", "2025-11-03T09:15:00.000000"),
        ("2025-11-03T09:15", "2025-11-03T09:15:00.000000"),
        ("2025-11-03", "2025-11-03T00:00:00.000000"),
        ("2025-11-03 09:15:00 UTC", "2025-11-03T09:15:00.000000"),
        ("2025-11-03T09:15:00-0530", "2025-11-03T14:45:00.000000"),
        (1762161300, "2025-11-03T09:15:00.000000"),
        (1762161300.5, "2025-11-03T09:15:00.500000"),
        ("1762161300", "2025-11-03T09:15:00.000000"),
        ("1762161300.123456", "2025-11-03T09:15:00.123456"),
        (1762161300123, "2025-11-03T09:15:00.123000"),
    ],
)
def test_moments(said: object, expected: str) -> None:
    found = moment_of(said)
    assert found is not None and found.strftime("%Y-%m-%dT%H:%M:%S.%f") == expected and found.utcoffset() == timedelta()


@each("said", ["yesterday", "2025-13-01", "2025-02-30T00:00:00", "25:00", True, None, [], {}, -5, "9" * 400])
def test_what_is_no_moment(said: object) -> None:
    assert moment_of(said) is None


@each("said", ["1969-12-31T23:59:59Z", "2100-01-01", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00+01:00"])
def test_moments_that_git_could_not_keep(said: str) -> None:
    with pytest.raises(RecordError, match="before 1970 or after 2099"):
        moment_of(said)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("green", ("green", "")),
        (" PASSED ", ("green", "PASSED")),
        ("red", ("failed", "red")),
        (None, ("pending", "")),
        ([], ("pending", "")),
        ("120 passed", ("pending", "120 passed")),
        (["pytest: ok", "mypy: green"], ("green", "pytest: ok\nmypy: green")),
        ({"a": "green", "b": "pending"}, ("pending", '{"a": "green", "b": "pending"}')),
        ({"a": True, "b": False}, ("failed", '{"a": true, "b": false}')),
        ([{"name": "x", "status": "passed"}], ("green", '[{"name": "x", "status": "passed"}]')),
    ],
)
def test_verdicts(said: object, expected: tuple[str, str]) -> None:
    assert verdict(said) == expected
