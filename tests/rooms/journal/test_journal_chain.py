"""The chain of a run: appended through every door, read back, refused where it is not as we write it, adopted and found."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.codec import canonical
from gitbaton.base.errors import (
    AmbiguousNameError,
    GitError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    UnreadableRunError,
    UsageError,
)
from gitbaton.base.model import Oid
from gitbaton.base.secrets import Redactor
from gitbaton.base.values import replace
from gitbaton.git.objects import TreeEntry, commit_data, new_object, tree_data
from gitbaton.git.repo import Door
from gitbaton.runs.journal.chain import Journal, chosen, in_use, remember
from gitbaton.runs.journal.codec import document
from gitbaton.runs.journal.state import fold
from gitbaton.runs.journal.upkeep import verify
from gitbaton.runs.journal.values import Output, Reads, Record, Undeclared, Writes, check_run, run_ref
from tests.kit import Sandbox
from tests.kit.journals import RUN, journal, record, step_of, tree
from tests.kit.moments import at
from tests.kit.repos import SOME_TIME
from tests.kit.threads import git_called

DOORS = ("libgit2", "binary", "sha256", "reftable")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def j(repo: Sandbox) -> Journal:
    return journal(repo)


def built(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Journal:
    """An empty journal in a repository of one kind."""
    options = {"sha256": ["--object-format=sha256"], "reftable": ["--ref-format=reftable"]}.get(name, [])
    git = request.getfixturevalue("new_git") if name == "reftable" else "git"
    if name == "reftable":
        monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
    door: Door = "libgit2" if name == "libgit2" else "binary"
    return journal(Sandbox.init(tmp_path / name, *options, git=git), door=door)


@pytest.mark.deep
@pytest.mark.parametrize("name", DOORS)
def test_records_come_back_as_they_went_in(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    j = built(tmp_path, name, monkeypatch, request)
    box = Sandbox(tmp_path / name, "git")
    claim = j.append(RUN, record("claim", None, plan="baton.toml"), blobs={"plan.toml": b"[step.a]\n"})
    orphan = tree(j.repo, {"torn": "x"})
    ended = step_of(j, "build", "one", undeclared=(Undeclared(path="wip", before=None, after=None),))
    failed = j.append(RUN, record("fail", "build", exit=1), trees={"orphan": orphan})
    found = journal(box, door=None).records(RUN)
    assert [logged.record.seq for logged in found] == [0, 1, 2, 3]
    assert found == j.records(RUN) and found[0] == claim and found[2] == ended and found[3] == failed
    assert dict(found[3].parts) == {"orphan": orphan}
    assert set(found[2].parts) == {"reads", "pre", "writes", "stdout", "stderr"}
    assert box.git("cat-file", "-p", f"{run_ref(RUN)}~1:stdout") == "one"
    assert box.git("cat-file", "-p", f"{run_ref(RUN)}~3:plan.toml") == "[step.a]"
    subjects = box.git("log", "--first-parent", "--format=%s", run_ref(RUN)).split("\n")
    keys = [(logged.record.key or "")[:12] for logged in (failed, ended)]
    assert subjects[:2] == [f"build: fail, exit 1, key {keys[0]}", f"build: end, exit 0, key {keys[1]}"]
    assert subjects[-2:] == ["run: claim", "gitbaton root 1"]
    assert box.git("log", "-1", "--format=%an <%ae> %as", run_ref(RUN)) == "A U Thor <author@example.com> 2026-01-01"
    assert verify(j, RUN).problems == ("record 3 (" + failed.commit[:12] + "): the 'fail' of 'build' has no begin",)
    box.fsck()


@pytest.mark.deep
def test_the_root_is_that_of_the_tracks(repo: Sandbox, j: Journal) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    step_of(j, "a", "x")
    roots = {repo.git("rev-list", "--max-parents=0", "--first-parent", ref) for ref in (run_ref(RUN), "refs/baton/tracks/t")}
    assert roots == {j.root}


@pytest.mark.deep
def test_it_is_quick(j: Journal) -> None:
    """Bounds of processor time that are several times what was measured: others are at work, too."""
    blobs = {"stdout": b"some words\n", "stderr": b""}
    reads, writes = tree(j.repo, {"a": "1"}), tree(j.repo, {})
    took = []
    for number in range(60):
        r = record("end", f"s{number}", reads=Reads(globs=("a",), tree=reads, n=1), writes=Writes(globs=("b",), pre=writes))
        begun = time.process_time()
        j.append(RUN, r, blobs=blobs)
        took.append(time.process_time() - begun)
    assert sorted(took)[30] < 0.005
    cold, warm = [], []
    for _ in range(3):
        fresh = Journal(j.repo, author=j.author, clock=j.clock)
        begun = time.process_time()
        found = fresh.records(RUN)
        cold.append(time.process_time() - begun)
        begun = time.process_time()
        assert fresh.records(RUN) is found
        warm.append(time.process_time() - begun)
    assert min(cold) < 0.03 and min(warm) < 0.001


def test_only_what_is_new_is_read(j: Journal, repo: Sandbox) -> None:
    step_of(j, "a", "x")
    other = journal(repo)
    before = other.records(RUN)
    step_of(j, "b", "y")
    after = other.records(RUN)
    assert after[:2] == before and after[0] is before[0] and len(after) == 4
    other.append(RUN, record("gate", "c"))
    assert [logged.record.seq for logged in j.records(RUN)] == [0, 1, 2, 3, 4]


def forged(j: Journal, record_raw: bytes | None, *, parents: tuple[Oid, ...] | None = None, **parts: tuple[bytes, Oid]) -> None:
    """Put a commit of anybody's at a run's ref."""
    algorithm = j.repo.layout.algorithm
    entries = [TreeEntry(mode=mode, name=name.encode(), oid=oid) for name, (mode, oid) in parts.items()]
    objects = []
    if record_raw is not None:
        objects.append(new_object(algorithm, "blob", record_raw))
        entries.append(TreeEntry(mode=b"100644", name=b"record.json", oid=objects[0].oid))
    made = new_object(algorithm, "tree", tree_data(entries))
    parents = (j.root,) if parents is None else parents
    commit = new_object(
        algorithm, "commit", commit_data(tree=made.oid, parents=parents, author=b"x <x> 0 +0000", message=b"x\n")
    )
    j.repo.objects.write([*objects, made, commit])
    subprocess.run(
        ["git", "-C", str(j.repo.layout.root), "update-ref", run_ref("forged"), commit.oid], check=True, capture_output=True
    )


def raw(**fields: Any) -> bytes:
    return canonical(document(replace(record(), **{"seq": 0, "run": "forged", **fields})))


@pytest.mark.deep
def test_what_a_stranger_made_is_an_error(j: Journal, repo: Sandbox) -> None:
    step_of(j, "a", "x")  # the root is there
    blob = repo.git("hash-object", "-w", "a.txt")
    some = tree(j.repo, {"a": "b"})
    forged(j, raw())
    assert len(j.records("forged")) == 1
    for wrong, what in (
        (lambda: forged(j, None), "holds no record.json"),
        (lambda: forged(j, b"{}"), "'v' is"),
        (lambda: forged(j, b"x" * (2 << 20)), "over the limit"),
        (lambda: forged(j, raw(seq=1)), "has number 1 where 0 is due"),
        (lambda: forged(j, raw(), reads=(b"100644", blob)), "holds 'reads', which no record has"),
        (lambda: forged(j, raw(), stdout=(b"40000", some)), "holds 'stdout', which no record has"),
        (lambda: forged(j, raw(), stdout=(b"120000", blob)), "holds 'stdout', which no record has"),
        (lambda: forged(j, raw(), evil=(b"100644", blob)), "holds 'evil', which no record has"),
        (lambda: forged(j, raw(), parents=()), "has 0 parents"),
        (lambda: forged(j, raw(), parents=(j.root, repo.head(), repo.head())), "has 3 parents"),
        (lambda: forged(j, raw(), parents=(repo.head(),)), "0 parents"),
        (lambda: repo.git("update-ref", run_ref("forged"), blob), "cannot be read"),
        (lambda: repo.git("update-ref", run_ref("forged"), some), "cannot be read"),
    ):
        wrong()
        with pytest.raises(RecordError, match=what):
            j.records("forged")
        with pytest.raises(UnreadableRunError, match=what):
            verify(j, "forged")
        with pytest.raises(RecordError):
            j.append("forged", record())
    assert j.records(RUN), "another run does not care"


def test_a_commit_can_be_kept_as_second_parent(j: Journal, repo: Sandbox) -> None:
    repo.write("b.txt", "only here\n")
    repo.git("add", "b.txt")
    made = repo.git("commit-tree", "-p", "HEAD", "-m", "on no branch", repo.git("write-tree"))
    j.append(RUN, record(), keep=made)
    j.append(RUN, record("fail", exit=1))
    assert repo.git("rev-parse", f"{run_ref(RUN)}~1^2") == made
    assert journal(repo).records(RUN) == j.records(RUN) and len(j.records(RUN)) == 2
    assert verify(j, RUN).problems == ()
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("cat-file", "blob", f"{made}:b.txt") == "only here"
    with pytest.raises(GitError):
        j.append(RUN, record("gate"), keep="1" * 40)
    assert len(j.records(RUN)) == 2


def test_the_name_of_the_ref_wins(j: Journal, repo: Sandbox) -> None:
    step_of(j, "a", "x")
    repo.git("update-ref", run_ref("copy"), run_ref(RUN))
    assert {logged.record.run for logged in j.records("copy")} == {"copy"}
    assert fold(j.records("copy")).lineage == RUN


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "a b", "x" * 101, "a" + "." * 60, "é", "..", "a\n"])
def test_names_that_no_run_has(j: Journal, name: str) -> None:
    with pytest.raises(UsageError, match="is not a run's name"):
        check_run(name)
    with pytest.raises(UsageError):
        j.append(name, record())
    assert j.names() == []


@pytest.mark.deep
def test_strange_refs_are_listed_by_doctor_and_used_by_nobody(j: Journal, repo: Sandbox) -> None:
    step_of(j, "a", "x", run="r.1")
    assert run_ref("r.1") == "refs/baton/runs/r%2E1"
    long = "a" + "%2E" * 45  # whose run nobody could name
    for name in ("r.1", "a/b", "a%20b", "a%2eb", long):
        repo.git("update-ref", f"refs/baton/runs/{name}", run_ref("r.1"))
    assert j.names() == ["r.1"]
    said = repo.baton("doctor").out
    for name in ("runs/r.1", "runs/a/b", "runs/a%20b", "runs/a%2eb", f"runs/{long}"):
        assert f"'refs/baton/{name}' is not a ref that gitbaton writes" in said
    assert "r%2E1' is not" not in said


def test_secrets_are_taken_out_of_words(repo: Sandbox) -> None:
    j = journal(repo, redactor=Redactor())
    said = {"compensate": f"curl -H 'Authorization: token {TOKEN}'", "text": TOKEN, "verify": f"x {TOKEN}", "probe": TOKEN}
    r = record(argv=("deploy", "--token", TOKEN, "--password", "hunter2hunter2"), extra=(TOKEN,), **said)
    one = j.append(RUN, r, blobs={"plan.toml": f'run = "x {TOKEN}"\n'.encode()})
    ended = replace(r, type="end", exit=0)
    end = j.append(RUN, ended, blobs={"stdout": b"ok\n" + TOKEN.encode() + b"\xff\n", "stderr": b"clean\xff\n"})
    assert one.record.redacted and one.record.argv[:3] == ("deploy", "--token", "[redacted:github-token]")
    assert "hunter2" not in str(one.record), one.record
    everything = repo.run("git", "cat-file", "--batch-all-objects", "--batch", "--unordered").out
    assert TOKEN not in everything and "hunter2" not in everything
    assert repo.run("git", "show", f"{run_ref(RUN)}:stderr").out == "clean\udcff\n"
    assert end.record.stdout is not None and end.record.stdout.oid == end.parts["stdout"]
    assert verify(j, RUN).problems == () and verify(j, RUN).unproved == 1


def test_of_an_output_the_last_mib_is_kept(j: Journal, repo: Sandbox) -> None:
    lines = b"".join(b"line %07d\n" % number for number in range(100_000))
    end = j.append(RUN, record("end", exit=0), blobs={"stdout": lines, "stderr": b"x" * (3 << 20)})
    out, err = end.record.stdout, end.record.stderr
    assert out is not None and err is not None
    assert (out.bytes, out.cut, err.bytes, err.cut) == (len(lines), True, 3 << 20, True)
    kept = repo.git("cat-file", "blob", out.oid)
    assert kept.startswith("line ") and lines.decode().endswith(kept + "\n") and 1_000_000 < len(kept) <= 1 << 20
    assert repo.git("cat-file", "-s", err.oid) == str(1 << 20)
    stored = j.append(RUN, record("end", exit=0, stdout=Output(oid="", bytes=9 << 20, cut=True)), blobs={"stdout": b"tail"})
    assert stored.record.stdout == Output(oid=stored.parts["stdout"], bytes=9 << 20, cut=True)


def test_parts_that_do_not_fit_are_refused(j: Journal) -> None:
    some, none = tree(j.repo, {"a": "b"}), tree(j.repo, {})
    with pytest.raises(UsageError, match="no part 'scratch'"):
        j.append(RUN, record(), trees={"scratch": some})
    with pytest.raises(UsageError, match=r"no part 'record\.json'"):
        j.append(RUN, record(), blobs={"record.json": b""})
    with pytest.raises(UsageError, match="as its 'reads'"):
        j.append(RUN, record(reads=Reads(globs=(), tree=some, n=1)), trees={"reads": none})
    with pytest.raises(GitError, match="nothing is recorded"):
        j.append(RUN, record(reads=Reads(globs=(), tree="1" * 40, n=1)))
    assert j.names() == []


@pytest.mark.deep
def test_a_blob_that_was_collected_is_noticed(j: Journal, repo: Sandbox) -> None:
    some = tree(j.repo, {"a": "words that nothing else holds"})
    repo.git("gc", "-q", "--prune=now")
    with pytest.raises(GitError, match="nothing is recorded"):
        j.append(RUN, record(), trees={"orphan": some})
    assert j.names() == []
    assert step_of(j, "a", "x").record.seq == 1, "the next one has nothing to do with it"
    lost = repo.git("rev-parse", f"{tree(j.repo, {'a': 'other words'})}:a")
    half = tree(j.repo, {"a": "other words"})
    repo.loose(lost).unlink()
    with pytest.raises(GitError, match=f"(unable to read|collected object) {lost}"):
        j.append(RUN, record("gate", "b"), trees={"orphan": half})
    assert step_of(j, "b", "y").record.seq == 3


def test_git_collects_between_a_record_and_its_ref(j: Journal, repo: Sandbox) -> None:
    some, collected = tree(j.repo, {"a": "words that nothing else holds"}), list[str]()

    with at("os.posix_spawn", git_called("update-ref"), lambda _: collected.append(repo.git("gc", "-q", "--prune=now"))):
        logged = j.append(RUN, record("end", exit=0), trees={"orphan": some}, blobs={"stdout": b"said\n"})
    assert len(collected) == 1
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("show", f"{logged.commit}:orphan/a") == "words that nothing else holds"
    assert repo.git("show", f"{logged.commit}:stdout") == "said"
    repo.fsck()


def test_which_run_is_meant(j: Journal, repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="there is no run yet"):
        chosen(j)
    step_of(j, "a", "x", run="one")
    assert chosen(j) == "one"
    step_of(j, "a", "x", run="two")
    with pytest.raises(AmbiguousNameError) as caught:
        chosen(j)
    assert caught.value.hints == ("the runs are one, two",)
    remember(j.repo, "two")
    assert chosen(j) == "two" and list(in_use(j.repo)) == ["two"]
    monkeypatch.setenv("GIT_BATON_RUN", "one")
    assert chosen(j) == "one" and chosen(j, "two") == "two"
    with pytest.raises(NotFoundError, match="there is no run 'three'"):
        chosen(j, "three")
    monkeypatch.delenv("GIT_BATON_RUN")
    repo.git("update-ref", "-d", run_ref("two"))
    assert chosen(j) == "one", "what was remembered is gone"
    assert j.new_name(SOME_TIME).startswith("r-20260101-")


def test_results_of_other_runs_are_found_by_their_key(j: Journal, repo: Sandbox) -> None:
    first = step_of(j, "build", "one", run="a", at=1)
    second = step_of(j, "build", "one", run="b", at=2)
    key = first.record.key or ""
    assert key == second.record.key
    assert j.find(key, but="c") == second and j.find(key, but="b") == first
    assert j.find("0" * 64, but="c") is None
    for name, fields in (("c", {"effect": "once"}), ("d", {"stable": False})):
        begin = record("begin", "build", lineage=name)
        j.append(name, begin)
        j.append(name, replace(first.record, lineage=name, **fields))
    assert j.find(key, but="x") == second, "an effect, or inputs that changed, are served to nobody"
    third = step_of(j, "build", "one", run="e", at=3)
    assert j.find(key, but="x") == third, "what came later is found, too"
    repo.git("update-ref", "-d", run_ref("e"))
    assert j.find(key, but="x") == second, "and what went is not"
    forged(j, b"{}")
    assert journal(repo).find(key, but="x") == second, "a broken run has nothing"


@pytest.mark.deep
def test_a_fetched_run_is_foreign_until_something_local_follows(j: Journal, repo: Sandbox) -> None:
    step_of(j, "build", "one", run="a")
    tip = repo.git("rev-parse", run_ref("a"))
    repo.git("update-ref", "refs/baton/remotes/origin/runs/a", tip)
    repo.git("update-ref", "-d", run_ref("a"))
    key = j.records("a")[0].record.key or ""
    assert j.names() == [] and all(logged.foreign for logged in j.records("a")) and fold(j.records("a")).foreign
    assert j.fetched() == {"a": [("origin", tip)]} and chosen(j) == "a"
    assert j.find(key, but="x") is None
    with pytest.raises(UsageError, match="was fetched from elsewhere"):
        j.append("a", record("gate", "next", lineage="a"))
    repo.git("update-ref", "refs/baton/remotes/a/runs/a", repo.head())
    assert len(j.records("a")) == 2, "a broken copy beside it is nobody's"
    j.adopt("a")
    repo.git("update-ref", "-d", "refs/baton/remotes/a/runs/a")
    assert repo.git("rev-parse", run_ref("a")) == tip
    again = journal(repo)
    assert all(logged.foreign for logged in again.records("a")), "also for another process"
    assert again.find(key, but="x") is None
    j.append("a", record("gate", "next", lineage="a"))
    for one in (j, again, journal(repo)):
        assert not any(logged.foreign for logged in one.records("a"))
        assert one.find(key, but="x") is not None
    j.adopt("a")  # the local one has gone on: nothing to do
    assert len(j.records("a")) == 3
    repo.git("update-ref", "refs/baton/remotes/origin/runs/a", run_ref("a"))
    repo.git("update-ref", run_ref("a"), tip)
    j.adopt("a")
    assert len(j.records("a")) == 3, "the local one is brought up to what was fetched"
    repo.git("update-ref", run_ref("a"), tip)
    j.append("a", record("gate", "other", lineage="a"))
    with pytest.raises(NoAnswerError, match="both here and elsewhere"):
        j.adopt("a")
    with pytest.raises(NotFoundError, match="no run 'b' was fetched"):
        j.adopt("b")


def test_verify_sees_what_is_wrong(j: Journal, repo: Sandbox) -> None:
    step_of(j, "a", "x")
    assert verify(j, RUN).problems == () and verify(j, RUN).keys == 1
    wrong: list[tuple[Record, str]] = [
        (record("end", "b", exit=0), "the 'end' of 'b' has no begin"),
        (record("comp-end", "a", compensates="0" * 64), "the 'comp-end' of 'a' has no comp-begin"),
        (record(key="0" * 64, idem="1" * 64), "its fields give"),
        (replace(record(), idem="1" * 64), "its idempotency key is"),
    ]
    for r, _ in wrong:
        j.append(RUN, r)
    problems = verify(j, RUN).problems
    for _, what in wrong:
        assert any(what in problem for problem in problems), (what, problems)
    blob = j.records(RUN)[1].parts["stdout"]
    repo.loose(blob).unlink()
    assert any("not all is here" in problem for problem in verify(j, RUN).problems)


def test_a_linked_work_tree_has_the_same_runs_and_a_memory_of_its_own(repo: Sandbox, j: Journal, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = journal(Sandbox(tmp_path / "linked"))
    step_of(linked, "a", "x", run="one")
    step_of(j, "a", "x", run="two")
    assert linked.names() == j.names() == ["one", "two"] and linked.records("two") == j.records("two")
    remember(linked.repo, "one")
    assert chosen(linked) == "one" and list(in_use(j.repo)) == ["one"]
    with pytest.raises(AmbiguousNameError):
        chosen(j)


def test_a_bare_repository_can_have_a_journal(tmp_path: Path) -> None:
    bare = Sandbox.init(tmp_path / "bare", "--bare")
    j = journal(bare)
    step_of(j, "a", "x")
    assert verify(j, RUN).problems == () and len(journal(bare, door="binary").records(RUN)) == 2


def moving() -> set[int]:
    """The children of this process that move refs, and have not ended."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in pids if b"update-ref" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_whatever_becomes_of_the_git_that_moves_refs_the_next_record_is_put_down(repo: Sandbox, j: Journal) -> None:
    others = moving()  # of a repository that another test has not let go of yet
    step_of(j, "a", "x")
    first = moving() - others
    step_of(j, "b", "x")
    assert len(first) == 1 and moving() - others == first
    os.kill(next(iter(first)), signal.SIGKILL)
    step_of(j, "c", "x")
    second = moving() - others
    assert len(second) == 1 and second != first
    lock = repo.path / ".git" / (run_ref(RUN) + ".lock")
    lock.touch()
    os.utime(lock, (1, 1))  # that of a killed git: it refuses, and ends
    step_of(j, "d", "x")
    assert len(moving() - others) == 1 and moving() - others != second
    assert len(j.records(RUN)) == 8 and verify(j, RUN).problems == ()
    j.repo.close()
    assert moving() <= others
