"""A run that cannot be read is neither absent nor finished: nothing begins it afresh or drops it, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.tiers import full, some

REF = "refs/baton/runs/job"
OUTSIDE = "echo x >> ../deployed"
DEPLOY = ("run", "--run", "job", "--effect", "once", "--step", "deploy", "--key", "k", "--", "sh", "-c", OUTSIDE)
FINE = ("--step", "x", "--reads", "a.txt", "--writes", "x.out", "--", "cp", "a.txt", "x.out")
PLAN = f'[step.deploy]\nrun = "{OUTSIDE}"\neffect = "once"\nkey = ["k"]\n'
MEND = "hint: git baton doctor --mend\n"
Damage = Callable[[Sandbox], None]


def gone(path: Path) -> None:
    path.unlink()


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def hit(how: Callable[[Path], None], *names: str) -> Damage:
    def damage(box: Sandbox) -> None:
        for path in [box.loose(box.git("rev-parse", f"{REF}{name}")) for name in names]:
            how(path)

    return damage


def to_the_users(box: Sandbox) -> None:
    """The run's ref at a commit of the user's."""
    box.git("update-ref", REF, "HEAD")


def ref(raw: bytes) -> Damage:
    def damage(box: Sandbox) -> None:
        (box.path / ".git" / REF).write_bytes(raw)

    return damage


def all_of(*damages: Damage) -> Damage:
    def damage(box: Sandbox) -> None:
        for one in damages:
            one(box)

    return damage


KINDS: dict[str, Damage] = {
    "newest commit gone": hit(gone, ""),
    "ref empty": ref(b""),
    "newest commit half": hit(half, ""),
    "newest commit empty": hit(empty, ""),
    "tree gone": hit(gone, "^{tree}"),
    "tree half": hit(half, "^{tree}"),
    "record gone": hit(gone, ":record.json"),
    "record half": hit(half, ":record.json"),
    "record empty": hit(empty, ":record.json"),
    "middle commit gone": hit(gone, "~1"),
    "middle commit half": hit(half, "~1"),
    "middle commit empty": hit(empty, "~1"),
    "middle record gone": hit(gone, "~2:record.json"),
    "first commit gone": hit(gone, "~3"),
    "ref zeros": ref(b"0" * 40 + b"\n"),
    "ref NULs": ref(bytes(41)),
    "ref half": ref(b"a2f1c2465ab23a13e651"),
    "ref garbage": ref(b"\0\xff\n" * 9),
    "ref to nothing": ref(b"1" * 40 + b"\n"),
    "ref to the user's commit": to_the_users,
}
SOME = {"newest commit gone", "ref empty", "record half", "middle commit half", "ref garbage", "ref to the user's commit"}
# Of these records nothing is left; with the ref nobody knows that there were any.
NEWEST = hit(gone, "^{tree}", "~1^{tree}", ":record.json", "~1:record.json", "", "~1")


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """A run ``job`` with a step whose effect has happened and must not happen twice, and a run ``fine``."""
    for words in (("run", "--run", "fine", *FINE), ("run", "--run", "job", "--step", "build", "--", "true"), DEPLOY):
        assert repo.here(*words).code == 0
    return repo


def deployed(box: Sandbox) -> str:
    return (box.path.parent / "deployed").read_text()


@pytest.mark.deep
@some("kind", KINDS, share=SOME)
def test_it_is_refused_and_unfinished_and_nothing_happens_twice(box: Sandbox, kind: str) -> None:
    KINDS[kind](box)
    for words in (DEPLOY, ("run", "--step", "deploy", "--effect", "once", "--key", "k", "--", "sh", "-c", OUTSIDE)):
        found = box.here(*words)
        assert (found.code, found.out) == (76, "") and found.err.endswith(MEND), found
        assert found.err.startswith("fatal: run 'job' cannot be read, so nobody knows what it did: ")
    found = box.here("run", "show", "job")
    assert found.code == 76 and found.out.startswith("run 'job': not finished: it cannot be read: ")
    assert deployed(box) == "x\n"


@pytest.mark.deep
@some("kind", KINDS, share=SOME)
def test_prune_goes_on_with_the_others_and_drops_it_only_by_name_and_force(box: Sandbox, kind: str) -> None:
    KINDS[kind](box)
    for words in (("-n",), ()):
        found = box.here("run", "prune", "--keep", "0", *words)
        assert found.code == 1 and found.err.endswith(MEND) and "run 'job' stays: it cannot be read: " in found.out
        assert "drop run 'fine': 2 records" in found.out.replace("dropped", "drop")
    assert box.here("run", "prune", "job").code == 76 and (box.path / ".git" / REF).exists()
    assert box.here("run", "prune", "--keep", "0", "--force").code == 129
    assert "dropped run 'job'" in box.here("run", "prune", "job", "--force").out
    assert box.here("run", "prune", "job", "--force").code == 2


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_says_so_in_one_line(box: Sandbox, kind: str) -> None:
    box.ok("snapshot", "--track", "t", "--step", "s")
    KINDS[kind](box)
    for words in (
        *(("run", verb, "job") for verb in ("verify", "export")),
        ("run", "show", "--records", "job"),
        *(("run", "settle", "deploy", word, "--run", "job") for word in ("--done", "--undone")),
        ("run", "repair", "job", "--step", "deploy"),
        ("run", "compensate", "deploy", "--run", "job"),
        ("run", "compensate", "--run", "job", "-n"),
        ("run", "approve", "deploy", "--run", "job"),
        ("run", "--continue", "job"),
        ("run", "--continue"),
        ("run", "why", "deploy", "job"),
        DEPLOY,
    ):
        found = box.baton(*words)
        lines = found.err.splitlines()
        assert (found.code, len(lines), lines[-1:]) == (76, 2, [MEND.rstrip()]), (words, found)
        assert lines[0].startswith("fatal: run 'job' cannot be read, so nobody knows what it did: ") and not found.out, words
    told = box.ok("resume", "t", "--json").json["runs"]
    assert [row["run"] for row in told] == ["job"] and told[0]["why"][0].endswith("; git baton doctor --mend")
    assert "\nrun_continue=git baton doctor --mend\n" in box.ok("resume", "--porcelain", "t").out
    assert "hint: run 'job' cannot be read: 'git baton doctor --mend' says what helps\n" in box.baton("resume", "nowhere").err
    shown = Client("claude", box.path).fire("start")
    assert "run 'job' is not finished: it cannot be read, so nobody knows what it did: " in shown
    found = box.baton("doctor")
    assert "run 'job' cannot be read" in found.out and "2 runs, 1 unfinished" in found.out
    assert deployed(box) == "x\n"


def test_a_folder_of_runs_that_cannot_be_listed_keeps_nobody_from_resuming(box: Sandbox) -> None:
    box.ok("snapshot", "--track", "t", "--step", "s")
    box.git("pack-refs", "--all")
    runs = (box.path / ".git" / REF).parent
    runs.symlink_to(runs.name)
    found = box.here("resume", "--porcelain", "t")
    assert found.code == 0 and "\nrun=fine: it cannot be read, so nobody knows what it did: " in found.out


@pytest.mark.deep
@some("kind", KINDS, share=SOME)
def test_other_runs_go_on(box: Sandbox, kind: str) -> None:
    box.write("p.toml", PLAN.replace("deployed", "planned"))
    assert box.here("run", "--plan", "p.toml", "--run", "planned").code == 0
    KINDS[kind](box)
    assert "x: cached" in box.ok("run", "--run", "new", *FINE).err, "what another run has made is served"
    assert "deploy: cached" in box.ok("run", "--plan", "p.toml", "--run", "planned").err
    for words in (
        ("run", "--run", "fine", *FINE),
        ("run", "show", "fine"),
        ("run", "verify", "fine"),
        ("run", "--continue", "fine"),
    ):
        box.ok(*words)
    lying = (box.path / ".git" / REF).read_bytes()
    pruned = box.baton("prune", "--keep-last", "1", "--yes")
    assert "nothing to remove" in pruned.out
    if kind != "ref to the user's commit":  # every object of which can be read
        assert pruned.code == 1 and "refs/baton/runs/job" in pruned.err
    assert (box.path / ".git" / REF).read_bytes() == lying


@pytest.mark.parametrize("last", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_a_plan_whose_run_may_be_the_unreadable_one_is_not_begun_afresh(repo: Sandbox, last: bool) -> None:
    repo.write("p.toml", PLAN)
    repo.write("q.toml", PLAN.replace("deployed", "other"))
    assert repo.here("run", "--plan", "q.toml", "--run", "other").code == 0
    assert repo.here("run", "--plan", "p.toml", "--run", "job").code == 0
    if not last:
        assert repo.here("run", "--plan", "q.toml").code == 0
    KINDS["newest commit gone"](repo)
    found = repo.here("run", "--plan", "p.toml")
    assert found.code == 76 and found.err.endswith(f"{MEND}hint: name another run with --run\n")
    assert deployed(repo) == "x\n"
    assert repo.here("run", "--plan", "q.toml", *(("--run", "other") if last else ())).code == 0


@pytest.mark.deep
def test_after_a_mend_a_step_that_may_have_begun_is_asked_for(box: Sandbox) -> None:
    all_of(NEWEST, ref(b""))(box)
    found = box.here("doctor", "--mend").out
    assert "2 records can be read, and nobody knows whether more followed" in found
    assert box.here("doctor", "--mend").out == "nothing is damaged\n"
    found = box.here("run", "show", "job").out
    assert found.endswith("run 'job': not finished: its ref was lost, and perhaps records after number 1\n")
    for _ in range(2):
        done = box.here(*DEPLOY)
        assert done.code == 76 and "git baton run settle deploy --done" in done.err and deployed(box) == "x\n"
    assert box.here("run", "settle", "deploy", "--undone", "--run", "job").code == 0
    assert box.here(*DEPLOY).code == 0 and deployed(box) == "x\nx\n", "somebody has said that it did not happen"
    assert box.here("run", "verify", "job").code == 0


@pytest.mark.deep
@pytest.mark.parametrize("probe", [0, 1])
def test_after_a_mend_a_probe_is_asked(box: Sandbox, probe: int) -> None:
    all_of(NEWEST, ref(b""))(box)
    box.ok("doctor", "--mend")
    words = list(DEPLOY)
    words[words.index("--key") : words.index("--key")] = ["--probe", f"exit {probe}"]
    box.ok(*words)
    assert deployed(box) == "x\n" * (1 + probe)
    box.ok("run", "verify", "job")


@pytest.mark.deep
@pytest.mark.parametrize("below", [full(False), True])
@pytest.mark.parametrize("cut", [1, full(2), full(3)])
@pytest.mark.parametrize("how", [gone, empty])
@pytest.mark.parametrize("what", [("",), ("^{tree}",), (":record.json",), ("^{tree}", ""), (":record.json", "^{tree}", "")])
def test_whatever_is_lost_a_mended_run_does_nothing_twice(
    box: Sandbox, what: tuple[str, ...], how: Callable[[Path], None], cut: int, below: bool
) -> None:
    hit(how, *(f"~{number}{part}" if number else part for part in what for number in range(cut)))(box)
    if below:
        ref(b"")(box)
    box.baton("doctor", "--mend")
    assert box.baton(*DEPLOY).code in (0, 76) and deployed(box) == "x\n"
    assert "Traceback" not in box.baton("run", "show", "job").err
    assert box.baton("doctor", "--mend").code in (0, 1)


@pytest.mark.deep
def test_after_a_mend_a_plan_says_what_it_would_ask_for(repo: Sandbox) -> None:
    repo.write("p.toml", PLAN)
    repo.ok("run", "--plan", "p.toml", "--run", "job")
    parts = ("^{tree}", ":record.json", "")
    all_of(hit(gone, *(f"~{number}{part}" if number else part for part in parts for number in range(3))), ref(b""))(repo)
    assert "1 record can be read" in repo.ok("doctor", "--mend").out
    assert "its outcome is unknown and would be asked for" in repo.ok("run", "--plan", "p.toml", "-n").out
    for words in (("run", "--plan", "p.toml"), ("run", "--continue", "job")):
        assert repo.baton(*words).code == 76 and deployed(repo) == "x\n"
    repo.ok("run", "settle", "deploy", "--done", "--run", "job")
    repo.ok("run", "--plan", "p.toml")
    assert deployed(repo) == "x\n" and repo.ok("run", "show", "job").out.endswith("run 'job': finished\n")


@pytest.mark.deep
def test_a_run_that_was_fetched_stays_foreign_after_a_mend(box: Sandbox) -> None:
    box.git("update-ref", "refs/baton/remotes/far/runs/job", REF)
    box.git("update-ref", "-d", REF)
    assert box.baton("run", "--continue", "job").code == 129
    box.ok("run", "--continue", "job", "--foreign")
    ref(b"")(box)
    assert "nobody knows" not in box.ok("doctor", "--mend").out
    assert box.baton(*DEPLOY).code == 129 and box.ok("run", "show", "job").out.endswith("run 'job': finished\n")


@pytest.mark.deep
def test_going_on_takes_a_mended_run_for_whole_but_for_what_must_not_happen_twice(box: Sandbox) -> None:
    all_of(NEWEST, ref(b""))(box)
    box.ok("doctor", "--mend")
    box.ok("snapshot", "--track", "t", "--step", "s")
    assert "(take it that nothing else is lost, " in box.ok("resume", "t").out
    assert box.ok("run", "--continue", "job").err == "baton: run 'job' is finished\n"
    assert box.ok("run", "show", "job").out.endswith("run 'job': finished\n")
    assert box.baton(*DEPLOY).code == 76 and deployed(box) == "x\n"


@pytest.mark.deep
def test_what_is_unfinished_goes_by_name_and_force(box: Sandbox) -> None:
    ref(b"")(box)
    box.ok("doctor", "--mend")
    assert box.baton("run", "prune", "job").code == 1
    assert "dropped run 'job': 5 records, 1 effect of its steps stands" in box.ok("run", "prune", "job", "--force").out
