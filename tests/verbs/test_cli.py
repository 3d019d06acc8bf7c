"""The command line: every option, exit codes, messages in git's manner, nothing written on bad input."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton import __version__
from gitbaton.cli.main import arguments, call
from gitbaton.cli.verbs import GROUPS, VERBS
from tests.kit import Outcome, Sandbox
from tests.kit.commands import until
from tests.kit.tiers import some

Run = Callable[..., Outcome]
SNAP = ("snapshot", "--track", "main", "--step")


@pytest.fixture
def run(repo: Sandbox, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``git baton`` in this process."""
    monkeypatch.chdir(repo.path)

    def go(*words: str) -> Outcome:
        capfd.readouterr()
        code = call(list(words))
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return go


def state(repo: Sandbox) -> tuple[str, list[tuple[str, int, int]]]:
    """All refs and all files of the repository: what must be the same before and after bad input."""
    files = [
        (str(p.relative_to(repo.path)), p.stat().st_size, p.stat().st_mtime_ns) for p in repo.path.rglob("*") if p.is_file()
    ]
    return repo.git("for-each-ref") + repo.git("symbolic-ref", "HEAD"), sorted(files)


def complaint(done: Outcome) -> str:
    """The one fatal line; hints may follow it, and nothing else is printed."""
    first, *rest = done.err.removesuffix("\n").split("\n")
    assert done.out == "" and first.startswith("fatal: ") and all(line.startswith("hint: ") for line in rest), done
    text = first.removeprefix("fatal: ")
    assert not text[0].isupper() and not text.endswith(".") and text.isprintable()
    return text


BAD: list[tuple[tuple[str, ...], str]] = [
    (("snapshot", "--track", "main"), "no step is given"),
    ((*SNAP, ""), "the step is empty"),
    ((*SNAP, " \n "), "the step is empty"),
    ((*SNAP, "", "--label", "L"), "the step is empty"),
    ((*SNAP, "\u200b"), "the step has no visible character"),
    (("snapshot", "--track", "main", "--label", ""), "label is empty"),
    (("snapshot", "--track", "", "--step", "x"), "track name cannot be empty"),
    (("snapshot", "--track", "a\x07b", "--step", "x"), "track name 'a?b' has a control or format character"),
    (("snapshot", "--track", "x" * 201, "--step", "x"), "longer than 200 bytes"),
    ((*SNAP, "x", "--extra", "novalue"), "--extra 'novalue' is not KEY=VALUE"),
    ((*SNAP, "x", "--extra", "=v"), "--extra '=v': the key does not match"),
    ((*SNAP, "x", "--extra", "bad key=v"), "--extra 'bad key=v': the key does not match"),
    ((*SNAP, "x", "--extra", "-k=v"), "--extra '-k=v': the key does not match"),
    ((*SNAP, "x", "--extra", "k" * 65 + "=v"), "the key does not match"),
    ((*SNAP, "x", "--extra", "\x1b[2J=v"), "--extra '?[2J=v': the key does not match"),
    ((*SNAP, "x", "--extra", "k=1", "--extra", "j=1", "--extra", "k=2"), "--extra 'k=2' names the key 'k' a second time"),
    ((*SNAP, "x", "--validation", "red"), "--validation is 'red'; it can be 'green', 'pending' or 'failed'"),
    ((*SNAP, "x", "--decision", "\udcff"), "decision is not UTF-8"),
    ((*SNAP, "x", "--note", "n" * 65537), "note has 65537 bytes; the limit is 65536"),
    ((*SNAP, "x", "--note", "-", "--next-cmd", "-"), "cannot both read standard input"),
    ((*SNAP, "x", "--json", "--porcelain"), "--json and --porcelain exclude each other"),
    ((*SNAP, "x", "--checkpoint-dir", ".git/x"), "inside the git directory"),
    ((*SNAP, "x", "--no-files", "--checkpoint-dir", ".git/x"), "inside the git directory"),
    ((*SNAP, "x", "--checkpoint-dir", ""), "--checkpoint-dir is empty"),
    (("--checkpoint-dir", "", *SNAP, "x"), "--checkpoint-dir is empty"),
    ((*SNAP, "x\udcff"), "step is not UTF-8"),
    ((*SNAP,), "option '--step' requires an argument"),
    ((*SNAP, "x", "--nope"), "unknown option '--nope'"),
    ((*SNAP, "x", "stray"), "the step is given twice, as 'stray' and as 'x'"),
    (("snapshot", "lexer", "done"), "unexpected argument 'done'"),
    (("resume", "--json=1"), "option '--json' does not take a value"),
    (("log", "-n", "x"), "'x' is not a number"),
    (("log", "-n", "-1"), "-1 is not in the range"),
    (("log", "main", "--all"), "a checkpoint or track and --all exclude each other"),
    (("status", "--json", "-z"), "exclude each other"),
    (("show", ""), "the checkpoint's name is empty"),
    (("tracks", "choose", "x"), "'choose x' is not understood; it can be 'use NAME'"),
    (("tracks", "use"), "'use' is not understood"),
    (("snapshto",), "'snapshto' is not a verb of git baton"),
    (("--nope", "log"), "unknown option '--nope'"),
    (("--color=pink", "log"), "--color is 'pink'; it can be 'always', 'never' or 'auto'"),
    (("--repo-root",), "option '--repo-root' requires an argument"),
    (("--",), "no verb is given"),
]


@pytest.mark.deep
@some(("words", "said"), BAD, 12, ids=[" ".join(w)[:40] or "none" for w, _ in BAD])
def test_bad_input_is_129_with_one_line_and_writes_nothing(repo: Sandbox, run: Run, words: tuple[str, ...], said: str) -> None:
    before = state(repo)
    done = run(*words)
    assert done.code == 129 and said in complaint(done)
    assert state(repo) == before and not (repo.path / ".git/baton").exists()


@pytest.mark.parametrize("words", [("snapshot",), ("snapshot", "x", "--nope"), ("undo", "--nope"), ("restore", "--nope")])
def test_a_refused_command_line_leaves_nothing_where_objects_are_made(repo: Sandbox, words: tuple[str, ...]) -> None:
    assert repo.baton(*SNAP, "one").code == 0
    assert repo.baton(*words).code == 129
    assert os.listdir(repo.path / ".git/baton/tmp") == []


def test_an_unknown_verb_names_the_nearest(run: Run) -> None:
    assert "hint: the most similar verb is 'snapshot'\n" in run("snapshto").err
    assert "hint: perhaps '--live' is meant\n" in run("resume", "--livv").err
    assert "similar" not in run("xyzzy").err


@pytest.mark.full
def test_wiring_of_the_process(repo: Sandbox, tmp_path: Path) -> None:
    assert "No checkpoints here yet." in repo.baton("resume").out and repo.baton("verify").code == 2
    outside = repo.run(sys.executable, "-m", "gitbaton", "status", cwd=tmp_path)
    assert outside.code == 128 and complaint(outside) == f"'{tmp_path}' is not in a git repository"
    (repo.path / "sub").mkdir()
    assert repo.run("git", "-C", "sub", "baton", "snapshot", "--track", "main", "--step", "one").code == 0
    assert repo.run("git", "baton", "verify").code == 0
    repo.commit("more")
    assert repo.run("git", "--git-dir", ".git", "baton", "verify").code == 1
    elsewhere = repo.run(sys.executable, "-m", "gitbaton", "--repo-root", str(repo.path / "sub"), "resume", cwd=tmp_path)
    assert elsewhere.code == 0 and elsewhere.out.startswith("track=main\nstep=one\n")


@pytest.mark.full
def test_ctrl_c_is_130_and_a_closed_pipe_141(repo: Sandbox) -> None:
    read, write = os.pipe()
    argv = [sys.executable, "-m", "gitbaton", *SNAP, "x", "--note", "-"]
    child = subprocess.Popen(argv, cwd=repo.path, stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.write(write, b"n")
    until(lambda: not int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder))  # it reads
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    os.close(write)
    os.close(read)
    assert (child.returncode, out) == (130, b"") and b"Traceback" not in err
    with repo.open() as baton:
        for number in range(40):
            baton.snapshot("s" * 5000, track="main", files=False, note=f"{number}")
    for unbuffered in ("", "1"):
        script = '"$0" -m gitbaton log --porcelain main | head -c 1; echo ${PIPESTATUS[0]}'
        done = repo.run("bash", "-c", script, sys.executable, env={"PYTHONUNBUFFERED": unbuffered})
        assert done.out == "#141\n" and done.err == ""


@pytest.mark.deep
@some("verb", ["", *VERBS], 16)
def test_help_is_0_and_says_what_it_does(run: Run, verb: str) -> None:
    for option in ("-h", "--help"):
        done = run(*verb.split(), option)
        assert done.code == 0 and done.err == ""
        page = option == "--help" and verb
        start = f"NAME\n    git-baton-{verb.replace(' ', '-')} - " if page else f"Usage: git baton {verb}"
        assert done.out.startswith(start if verb else "usage: git baton [")
    if verb:
        done = run(*verb.split(), "-h")
        rows = re.findall(r"^  (-.*?)$", done.out, re.MULTILINE)
        assert all(re.search(r"  \S", row) or len(row) > 22 for row in rows)
    else:
        assert all(f" {name}  " in done.out for name in VERBS if name not in GROUPS[""])


def test_help_works_outside_a_repository(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(["snapshot", "-h"]) == 0 and call(["--version"]) == 0
    assert capfd.readouterr().out.endswith(f"git-baton {__version__}\n")


@pytest.mark.deep
def test_the_track_comes_from_the_option_the_environment_the_config(
    repo: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("config", "baton.track", "from config")
    assert run("snapshot", "--step", "x").out.startswith("from config ")
    monkeypatch.setenv("GIT_BATON_TRACK", "from-env")
    assert run("snapshot", "--step", "x").out.startswith("from-env ")
    assert run("snapshot", "--track", "given", "--step", "x").out.startswith("given ")


@pytest.mark.deep
def test_snapshot_prints_track_short_id_and_step(repo: Sandbox, run: Run) -> None:
    done = run(*SNAP, "one\ntwo", "--label", "v1")
    oid = repo.git("rev-parse", "refs/checkpoints/main")
    assert (done.code, done.out, done.err) == (0, f"main {oid[:10]} one\n", "")
    assert run("snapshot", "--track", "main", "--label", "only label").out.endswith(" only label\n")
    repo.git("config", "core.abbrev", "6")
    done = run(*SNAP, "short")
    assert re.fullmatch(r"main [0-9a-f]{6} short\n", done.out)


@pytest.mark.deep
def test_every_word_of_a_snapshot_is_stored(repo: Sandbox) -> None:
    words = ["--note", "-", "--next-cmd", "make", "--validation", "green", "--decision", "a", "--decision", "b=c"]
    words += ["--label", "L", "--extra", "pr=17", "--extra", "eq=a=b", "--extra", "empty="]
    found = repo.run(sys.executable, "-m", "gitbaton", *SNAP, "s", *words, "--json", stdin="from\nstdin é\n\n".encode())
    c = found.json["checkpoint"]
    assert found.json["v"] == 1 and found.json["warnings"] == [] and found.err == ""
    assert (c["step"], c["note"], c["next_cmd"], c["validation"]) == ("s", "from\nstdin é\n", "make", "green")
    assert (c["decisions"], c["label"], c["kind"]) == (["a", "b=c"], "L", "manual")
    assert c["extra"] == {"pr": "17", "eq": "a=b", "empty": ""}
    assert c["branch"] == "main" and c["head"] == repo.head() and c["files"]["tree"] == repo.git("rev-parse", "HEAD^{tree}")
    assert {"id", "commit", "base", "foreign", "v", "track", "previous", "created", "agent"} <= set(c)
    piped = repo.baton(*SNAP, "s", "--next-cmd", "-", "--json", stdin=b"run me\n")
    assert piped.json["checkpoint"]["next_cmd"] == "run me"
    before = repo.git("for-each-ref")
    refused = repo.baton(*SNAP, "s", "--note", "-", stdin=b"\xff\xfe")
    assert refused.code == 129 and complaint(refused) == "standard input is not UTF-8"
    large = repo.baton(*SNAP, "s", "--note", "-", stdin=b"x" * 70_000)
    assert large.code == 129 and repo.git("for-each-ref") == before


@pytest.mark.deep
def test_no_set_current_and_no_files(repo: Sandbox, run: Run) -> None:
    run(*SNAP, "one")
    found = json.loads(run("snapshot", "--track", "side", "--step", "two", "--no-set-current", "--no-files", "--json").out)
    assert found["checkpoint"]["files"] is None
    assert repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/main"
    run("snapshot", "--track", "side", "--step", "three")
    assert repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/side"


@pytest.mark.parametrize("form", [(), ("--json",), ("--porcelain",)])
def test_dry_run_says_the_plan_and_writes_nothing(repo: Sandbox, run: Run, form: tuple[str, ...]) -> None:
    repo.write("new.txt", "new")
    before = state(repo)
    done = run(*SNAP, "planned", "--dry-run", *form)
    assert done.code == 0 and "planned" in done.out and state(repo) == before
    if form == ("--json",):
        assert json.loads(done.out)["plan"]["step"] == "planned" and json.loads(done.out)["v"] == 1
    elif form:
        assert done.out.splitlines()[2].split("\t")[:3] == ["main", "", "planned"]


def test_a_detached_head_and_no_identity_are_warnings_on_stderr(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "--detach")
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("")
    done = repo.ok(*SNAP, "one")
    assert re.fullmatch(r"main [0-9a-f]{10} one\n", done.out)
    assert sorted(line.split(";")[0] for line in done.err.splitlines()) == [
        "warning: HEAD is detached",
        "warning: git knows no identity (user.name, user.email)",
    ]


def test_skipped_paths_are_warned_of(repo: Sandbox, run: Run) -> None:
    repo.git("config", "baton.maxFileSize", "10")
    repo.write("big\x1b.bin", b"x" * 100)
    for number in range(12):
        repo.write(f"s/{number:02}.bin", b"x" * 100)
    done = run(*SNAP, "one")
    lines = done.err.splitlines()
    assert lines[0] == 'warning: "big\\033.bin" is left out: it is larger than baton.maxFileSize'
    short = repo.git("rev-parse", "refs/checkpoints/main")[:10]
    assert len(lines) == 11 and lines[-1] == f"warning: and 3 more; 'git baton show --json {short}' lists them"


@pytest.mark.deep
def test_checkpoint_dir_before_and_after_the_verb(repo: Sandbox, run: Run) -> None:
    run("--checkpoint-dir", "one", *SNAP, "x")
    run("--checkpoint-dir", "unused", *SNAP, "x", "--checkpoint-dir", "two")
    run("resume", "--checkpoint-dir", "three")
    repo.git("config", "baton.checkpointDir", "four")
    run("resume")
    assert sorted(p.name for p in repo.path.iterdir()) == [".git", "a.txt", "four", "one", "three", "two"]


@pytest.mark.deep
def test_color_and_its_places(repo: Sandbox, run: Run) -> None:
    run(*SNAP, "x", "--validation", "green")
    for words, coloured in (
        (("--color", "log"), True),
        (("--color=always", "--no-pager", "log"), True),
        (("--color=auto", "log"), False),
        (("--no-color", "log"), False),
        (("log",), False),
        (("--color", "status"), True),
        (("--color", "log", "--porcelain"), False),
        (("--color", "log", "--json"), False),
    ):
        assert ("\x1b[" in run(*words).out) == coloured, words
    before = ["--repo-root", "--color", "--color=always"]
    assert arguments(["--repo-root", "--color", "--color", "log", "--color"]) == (before, ["log", "--color"])
    assert arguments(["--repo-root", "log", "--color", "log"]) == (["--repo-root", "log", "--color=always"], ["log"])


def test_a_number_alone_is_how_many_where_the_verb_lists() -> None:
    def read(line: str) -> str:
        return " ".join(arguments(line.split())[1])

    assert read("log t -3 --stat -1 -- -2") == "log t -n3 --stat -n1 -- -2"
    assert (read("thread log x -3"), read("rewind -3")) == ("thread log x -n3", "rewind -n3")
    for same in ("log --kind -3", "log -n -3", "log --since -3", "show -3", "undo -3", "nothing -3", "prune --keep-last -3"):
        assert read(same) == same


def test_an_operating_system_error_is_no_bug_report(repo: Sandbox, run: Run) -> None:
    (repo.path / ".git/baton").write_text("in the way")
    done = run(*SNAP, "x")
    assert done.code == 128 and "bug" not in done.err and ".git/baton" in complaint(done)


@pytest.mark.deep
def test_alone_in_another_work_tree_leads_to_a_restore(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("a.txt", "theirs\n")
    repo.ok("snapshot", "x", "--track", "t")
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    other = Sandbox(tmp_path / "other")
    (said,) = [row for row in other.ok().out.splitlines() if row.startswith("taken in another work tree; ")]
    assert "write a.txt" in other.ok(*said.split("'")[1].split()[2:]).out
    other.ok("restore")
    assert (other.path / "a.txt").read_text() == "theirs\n"
