"""``git baton run show --records``, ``verify``, ``export``, ``prune``, and runs between machines, as they are typed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from gitbaton.base.errors import NoAnswerError, RecordError
from gitbaton.git.objects import TreeEntry, new_object, tree_data
from gitbaton.runs.journal import upkeep
from gitbaton.runs.journal.chain import Journal, remember
from gitbaton.runs.journal.state import fold
from gitbaton.runs.journal.upkeep import to_export
from gitbaton.runs.journal.values import Undeclared, Writes, run_ref
from tests.kit import Sandbox
from tests.kit.far import Far, ok, snap
from tests.kit.journals import RUN, journal, record, step_of, tree
from tests.kit.repos import SOME_TIME

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def j(repo: Sandbox) -> Journal:
    return journal(repo)


@pytest.mark.deep
def test_show_lists_records_and_json_says_all(repo: Sandbox, j: Journal) -> None:
    step_of(j, "lint", "one")
    end = step_of(j, "a build", "two", attempt=2, undeclared=(Undeclared(path="x", before=None, after=None),))
    j.append(RUN, record("gate", "pub", key=end.record.key, text="look\nat it"))
    key = (end.record.key or "")[:8]
    shown = repo.here("run", "show", "--records").out.splitlines()
    assert shown[2:] == [
        f"2026-01-01 00:00:00  2  a build  begin  attempt 2 {key} 1 undeclared change",
        f"2026-01-01 00:00:00  3  a build  end    attempt 2 exit 0 {key} 1 undeclared change",
        f"2026-01-01 00:00:00  4  pub      gate   {key} look",
    ]
    assert repo.here("run", "show", "--records", RUN).out.splitlines() == shown
    assert len(repo.here("run", "show", "-p", "lint").out.splitlines()) == 2
    wrong = repo.here("run", "show", "--step", "lnt")
    assert (wrong.code, wrong.err) == (2, f"fatal: run '{RUN}' has no step 'lnt'\nhint: steps: lint, a build, pub\n")
    said = repo.here("run", "show", "--records", "--json").json
    assert (said["v"], said["run"], said["finished"], said["why"]) == (1, RUN, False, ["'pub' waits at its gate"])
    row = said["records"][3]
    assert row["record"]["key"] == end.record.key and row["parts"]["writes"] == end.parts["writes"] and not row["foreign"]


def test_verify_says_whether_it_holds(repo: Sandbox, j: Journal) -> None:
    step_of(j, "lint", "one")
    good = repo.here("run", "verify")
    assert (good.code, good.out) == (0, f"run '{RUN}': 2 records, 1 key made again: whole\n")
    j.append(RUN, record("end", "pub", exit=0))
    bad = repo.here("run", "verify", RUN)
    assert bad.code == 1 and "the 'end' of 'pub' has no begin" in bad.out and bad.out.endswith(": 1 problem\n")
    said = repo.here("run", "verify", "--json")
    assert said.code == 1 and said.json["records"] == 3 and len(said.json["problems"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "--step", "x"], "unknown option '--step'"),
        (["show", "--keep", "3"], "unknown option '--keep'"),
        (["prune", "--foreign"], "unknown option '--foreign'"),
        (["show", "a", "b"], "unexpected argument 'b'"),
        (["show", "../x"], "'../x' is not a run's name"),
        (["prune", "--older", "soon"], "--older is 'soon'"),
    ],
)
def test_what_does_not_go_together_is_refused(repo: Sandbox, words: list[str], message: str) -> None:
    done = repo.here("run", *words)
    assert done.code == 129 and message in done.err and done.out == ""


@pytest.mark.deep
def test_export_writes_files_and_never_over_any(repo: Sandbox, j: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.path)
    j.append(RUN, record("claim", None), blobs={"plan.toml": b"plan"})
    end = step_of(j, "lint", "one")
    target = repo.path / "kept"
    planned = repo.here("run", "export", "--output", "kept", "--dry-run").out.splitlines()
    assert planned[:2] == ["would write kept/000000/record.json", "would write kept/000000/plan.toml"] and not target.exists()
    assert repo.here("run", "export", "--output", "kept").out == f"{len(planned)} files written into 'kept'\n"
    assert (target / "000000/plan.toml").read_text() == "plan" and (target / "000002/stdout").read_text() == "one\n"
    assert (target / "trees" / end.parts["writes"] / "out").read_text() == "one"
    assert json.loads((target / "000002/record.json").read_bytes())["exit"] == 0
    (target / "000002/stdout").write_text("mine")
    again = repo.here("run", "export", "--output", "kept")
    assert again.code == 1 and "'kept/000000' is there already; nothing is written" in again.err
    assert (target / "000002/stdout").read_text() == "mine"
    assert repo.here("run", "export").code == 0 and (repo.path / RUN / "000000").is_dir()
    assert repo.here("run", "export", "--output", "a.txt").code == 129


def test_a_tree_that_is_no_files_is_not_exported(repo: Sandbox, j: Journal, tmp_path: Path) -> None:
    blob = new_object("sha1", "blob", b"x")
    for number, (mode, name) in enumerate(((b"100644", b".."), (b"100644", b".GIT"), (b"160000", b"sub"), (b"100644", b"a/b"))):
        made = new_object("sha1", "tree", tree_data([TreeEntry(mode=mode, name=name, oid=blob.oid)]))
        Path(repo.path / ".git/raw").write_bytes(made.data)
        repo.git("hash-object", "-w", "--stdin", stdin=blob.data)
        repo.git("hash-object", "-w", "--literally", "-t", "tree", ".git/raw")
        j.append(f"run{number}", record("gate", "x"), trees={"orphan": made.oid})
        with pytest.raises(RecordError, match=r"can be no file's|is no file"):
            to_export(j, f"run{number}", str(tmp_path / "out"))


def test_an_export_is_not_led_out_by_a_link_that_is_a_folder_too(repo: Sandbox, j: Journal, tmp_path: Path) -> None:
    def made(kind: Literal["blob", "tree"], data: bytes) -> str:
        item = new_object("sha1", kind, data)
        Path(repo.path / ".git/raw").write_bytes(data)
        repo.git("hash-object", "-w", "--literally", "-t", kind, ".git/raw")
        return item.oid

    outside = tmp_path / "outside"
    outside.mkdir()
    link, blob = made("blob", bytes(outside)), made("blob", b"x")
    below = made("tree", tree_data([TreeEntry(mode=b"100644", name=b"f", oid=blob)]))
    twice = [TreeEntry(mode=b"40000", name=b"a", oid=below)], [TreeEntry(mode=b"120000", name=b"a", oid=link)]
    for number, order in enumerate((twice, twice[::-1])):
        j.append(f"run{number}", record("gate", "x"), trees={"orphan": made("tree", b"".join(map(tree_data, order)))})
        done = repo.here("run", "export", f"run{number}", "--output", str(tmp_path / "out"))
        assert done.code == 128 and "a path that is no file's" in done.err
    assert not [*outside.iterdir()]


def test_a_record_of_no_step_keeps_nobody_from_deciding_on_another(repo: Sandbox, j: Journal) -> None:
    j.append(RUN, record("begin", "pub", effect="once"))
    j.append(RUN, record("gate", "review", key="0" * 64))
    j.append(RUN, record("begin", "evil", writes=Writes(globs=("../out",), pre=tree(j.repo, {}))))
    assert repo.here("run", "show").code == 128
    assert repo.here("run", "approve", "review").err == "baton: review: approved\n"
    assert repo.here("run", "settle", "pub", "--undone").code == 0
    assert "'../out' leaves the work tree" in repo.here("run", "settle", "evil", "--undone").err


def ended(j: Journal, *runs: str) -> None:
    for number, run in enumerate(runs):
        step_of(j, "lint", run, run=run, at=60 * number)


@pytest.mark.deep
def test_prune_keeps_the_newest_and_whatever_is_needed(repo: Sandbox, j: Journal) -> None:
    ended(j, "one", "two", "three", "four", "five")
    j.append("two", record("begin", "build", lineage="two"))
    remember(j.repo, "three")
    tip = repo.git("rev-parse", run_ref("one"))
    assert repo.here("run", "prune").out == "no run to drop\n", "twenty are kept"
    planned = repo.here("run", "prune", "--keep", "1", "-n").out.splitlines()
    assert planned == [
        "run 'two' stays: it is unfinished: 'build' has begun and has no end",
        "run 'three' stays: it is in use",
        f"would drop run 'one': 2 records, was {tip}",
        f"would drop run 'four': 2 records, was {repo.git('rev-parse', run_ref('four'))}",
    ]
    assert j.names() == ["five", "four", "one", "three", "two"]
    done = repo.here("run", "prune", "--keep", "1", "--json").json
    assert sorted(row["run"] for row in done["dropped"]) == ["four", "one"]
    assert sorted(row["run"] for row in done["kept"]) == ["three", "two"]
    assert {row["was"] for row in done["dropped"]} >= {tip} and j.names() == ["five", "three", "two"]
    repo.git("update-ref", run_ref("one"), tip)
    assert len(j.records("one")) == 2, "until garbage is collected it can be had again"
    repo.fsck()


def test_prune_by_age_and_by_name(repo: Sandbox, j: Journal) -> None:
    ended(j, "old", "young")
    now = SOME_TIME + timedelta(seconds=100)
    assert [d.run for d in upkeep.plan_prune(j, keep=0, older=50.0, now=now).drops] == ["old"]
    assert upkeep.plan_prune(j, keep=0, older=200.0, now=now).drops == ()
    assert upkeep.plan_prune(j, keep=0, now=now, busy={"old"}).drops[0].run == "young"
    j.append("young", record("gate", "pub", lineage="young"))
    refused = repo.here("run", "prune", "young")
    assert (refused.code, refused.err) == (1, "fatal: run 'young' stays: it is unfinished: 'pub' waits at its gate\n")
    with pytest.raises(NoAnswerError, match="run 'old' stays: it is in use"):
        upkeep.plan_prune(j, ["old"], now=now, busy={"old"})
    assert repo.here("run", "prune", "old").out.startswith("dropped run 'old': 2 records, was ")
    assert repo.here("run", "prune", "old").code == 2
    planned = upkeep.RunPrunePlan(drops=(upkeep.Drop(run="young", was="1" * 40, records=1, newest=None),), kept=())
    gone, kept = upkeep.apply_prune(j, planned)
    assert gone == () and kept[0].run == "young" and j.names() == ["young"], "it has moved since"


@pytest.mark.deep
def test_a_broken_run_is_told_and_can_be_dropped_by_name_and_force(repo: Sandbox, j: Journal) -> None:
    ended(j, "fine")
    repo.git("update-ref", run_ref("bad"), repo.head())
    said = repo.here("doctor").out
    assert "run 'bad' cannot be read" in said and "git baton doctor --mend" in said and "2 runs, 1 unfinished" in said
    assert repo.here("run", "verify", "bad").code == 76
    assert "run 'bad' stays: it cannot be read" in repo.here("run", "prune", "--keep", "0", "-n").out
    assert repo.here("run", "prune", "--keep", "0", "--force").code == 129, "only by name"
    assert repo.here("run", "prune", "bad").code == 76 and j.names() == ["bad", "fine"]
    assert repo.here("run", "prune", "bad", "--force").code == 0 and j.names() == ["fine"]


@pytest.mark.deep
def test_du_counts_runs_and_purge_takes_them(repo: Sandbox, j: Journal) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    ended(j, "one")
    remember(j.repo, "one")
    assert "runs" in repo.here("du").out
    assert repo.here("prune", "--keep-last", "1", "-n").code == 0
    assert repo.here("uninstall", "--purge", "--yes").code == 0
    assert repo.git("for-each-ref", "refs/baton") == "" and not (repo.path / ".git/baton").exists()


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def there(far: Far) -> set[str]:
    return {ref for ref in far.there().refs if ref.startswith("refs/baton/runs/")}


@pytest.mark.full
def test_r45_a_run_travels_only_when_asked_and_agreed_to(far: Far) -> None:
    a, b = far.first, far.clone()
    mine = journal(a)
    step_of(mine, "build", "one", run="r1")
    ok(a, "push", "--yes")
    assert there(far) == set(), "only when asked"
    asked = a.here("push", "--runs")
    assert asked.code == 1 and there(far) == set()
    said = asked.err.splitlines()
    assert said[0] == "first push of run 'r1' to origin; beyond what its refs hold this makes public:"
    assert said[1].startswith("  2 records with what the steps read, wrote and printed, ")
    assert said[2] == "error: nothing is pushed: nobody agreed to make it public"
    dry = a.here("push", "--runs", "-n")
    assert dry.out.splitlines() == [f"would push run 'r1': new, 2 records [{run_ref('r1')}]"]
    assert ok(a, "push", "--runs", "--yes").out == f"push run 'r1': new, 2 records [{run_ref('r1')}]\n"
    assert there(far) == {run_ref("r1")}
    step_of(mine, "test", "two", run="r1")
    pushed = ok(a, "push", "--runs").out.splitlines()[0]
    assert pushed == f"push run 'r1': forward, 2 records [{run_ref('r1')}]", "it was agreed to"
    ok(b, "fetch")
    assert journal(b).fetched() == {}, "only when asked"
    assert ok(b, "fetch", "--runs").out.splitlines()[-1] == "run 'r1': new, 4 records"
    assert b.git("for-each-ref", "--format=%(refname)", "refs/baton/runs") == ""
    assert b.git("rev-parse", "refs/baton/remotes/origin/runs/r1") == a.git("rev-parse", run_ref("r1"))
    assert "remotes/origin/runs" not in b.here("doctor").out, "it is one of ours"
    step_of(journal(b), "own", "three", run="r2")
    assert there(far) == {run_ref("r1")}
    ok(b, "sync", "--yes")
    assert there(far) == {run_ref("r1")}, "sync leaves runs alone"


def test_who_agreed_to_a_track_has_not_agreed_to_a_run_of_that_name(far: Far) -> None:
    a = far.first
    snap(a, "one")
    ok(a, "push", "--yes")
    step_of(journal(a), "build", "one", run="t")
    snap(a, "two")
    asked = a.here("push", "--runs")
    assert asked.code == 1 and there(far) == set()
    assert asked.err.startswith("first push of run 't' to origin;")


@pytest.mark.deep
def test_r45_a_run_goes_on_elsewhere(far: Far) -> None:
    a, b = far.first, far.clone()
    mine, yours = journal(a), journal(b)
    end = step_of(mine, "build", "one", run="r1")
    ok(a, "push", "--runs", "--yes")
    ok(b, "fetch", "--runs")
    shown = b.here("run", "show", "--records").out.splitlines()
    assert len(shown) == 2 and all(line.startswith("> ") for line in shown)
    refused = b.here("run", "export")
    assert refused.code == 129 and "run 'r1' was fetched from elsewhere" in refused.err
    yours.adopt("r1")
    state = fold(yours.records("r1"))
    stands = state.steps["build"].end
    assert state.foreign and stands is not None and stands.record == end.record
    assert b.git("cat-file", "-p", f"{stands.parts['writes']}:out") == "one"
    step_of(yours, "pub", "three", run="r1")
    assert not fold(yours.records("r1")).foreign
    assert ok(b, "push", "--runs", "--yes").out.splitlines()[-1].startswith("push run 'r1': forward, 2 records")
    behind = a.here("push", "--runs")
    assert behind.code == 1 and "refused: run 'r1' has records there that are not here" in behind.err
    assert "hint: git baton fetch --runs " in behind.err
    assert ok(a, "fetch", "--runs").out.splitlines()[-1] == "run 'r1': 2 newer"
    mine.adopt("r1")
    assert len(mine.records("r1")) == 4
    assert "run 'r1': same" in ok(a, "fetch", "--runs").out


@pytest.mark.deep
def test_r45_another_clone_is_served_what_was_done_here(far: Far, tmp_path: Path) -> None:
    a, b = far.first, far.clone()
    plan = f'[step.build]\nrun = "echo ran >> \\"{tmp_path}/count\\"; cp source out"\nreads = ["source"]\nwrites = ["out"]\n'
    for clone in (a, b):
        clone.write("source", "one\n")
        clone.write("baton.toml", plan)
    words = ("run", "--plan", "baton.toml", "--run", "r1")
    ok(a, *words)
    ok(a, "push", "--runs", "--yes")
    ok(b, "fetch", "--runs")
    refused = b.here(*words)
    assert refused.code == 129 and "--foreign" in refused.err and not (b.path / "out").exists()
    assert "build: cached" in ok(b, *words, "--foreign").err
    assert (b.path / "out").read_text() == "one\n" and (tmp_path / "count").read_text() == "ran\n"
    b.write("source", "two\n")
    ok(b, *words, "--foreign")
    assert (b.path / "out").read_text() == "two\n" and (tmp_path / "count").read_text() == "ran\nran\n"


@pytest.mark.deep
def test_what_a_remote_has_is_looked_at_before_it_is_used(far: Far) -> None:
    a, b = far.first, far.clone()
    step_of(journal(a), "build", "one", run="r1")
    ok(a, "push", "--runs", "--yes")
    a.git("push", "-q", "origin", "HEAD:refs/baton/runs/bad", f"{run_ref('r1')}:refs/baton/runs/a%20b")
    done = b.here("fetch", "--runs")
    assert done.code == 1 and "run 'bad' of origin is left out: " in done.err
    assert "'refs/baton/runs/a%20b' of origin is left out: the name is not one that gitbaton writes" in done.err
    assert "run 'r1': new, 2 records" in done.out
    said: Any = b.here("fetch", "--runs", "--json").json
    assert {row["run"]: row["state"] for row in said["runs"]} == {"bad": "broken", "r1": "same"}
    far.there()
    a.git("push", "-q", "origin", ":refs/baton/runs/bad", f":{run_ref('r1')}", ":refs/baton/runs/a%20b")
    assert "run 'r1': gone at origin\n" in ok(b, "fetch", "--runs").out
    assert "run 'r1': gone at origin, and what was fetched of it, too" in ok(b, "fetch", "--runs", "--prune").out
    assert journal(b).fetched() == {}


def test_a_secret_in_a_run_is_not_pushed(far: Far) -> None:
    a = far.first
    mine = journal(a)  # without a redactor, as an older version may have written it
    mine.append("r1", record("gate", "x", lineage="r1"), trees={"orphan": tree(mine.repo, {"torn": f"key {TOKEN}\n"})})
    done = a.here("push", "--runs", "--yes")
    assert done.code == 1 and "nothing is pushed: 1 secret would leave" in done.err and "orphan/torn:1" in done.err
    assert there(far) == set()
