"""A hook never breaks the client that calls it: exit 0 and the client's own shape or nothing, whatever is broken."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import (
    MOMENTS,
    PROGRAM,
    Client,
    autos,
    check_next,
    checkpoints,
    injected,
    log_of,
    steps,
    tracks,
    untouched,
    written_tree,
)
from tests.kit.state import snap, sound
from tests.kit.tiers import some

WORDS = ("--next-cmd", "make check", "--validation", "green")


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """A repository with a manual checkpoint and something new in the work tree."""
    snap(repo, "t", "S-manual", *WORDS)
    repo.write("new.txt", "new\n")
    return repo


PAYLOADS = {
    "empty": b"",
    "garbage": b"\xff\xfe{[",
    "array": b"[]",
    "null": b"null",
    "empty object": b"{}",
    "deep": b"[" * 100_000,
    "wrong types": json.dumps({key: [5] for key in ("session_id", "cwd", "transcript_path", "prompt", "trigger")}).encode(),
    "cwd is nowhere": b'{"session_id":"s","cwd":"/nowhere/at/all"}',
    "odd session": json.dumps({"session_id": "../../x\n\0\u202e" * 40, "prompt": "p\0q"}).encode(),
    "ten megabytes": json.dumps({"session_id": "s", "tool_response": "x" * (10 << 20)}).encode(),
}


@pytest.mark.deep
@some("name", PAYLOADS, share=3)
@some("agent", ["claude", "opencode"])
def test_any_payload(box: Sandbox, agent: str, name: str) -> None:
    client = Client(agent, box.path)
    state = untouched(box)
    for moment in ("start", "prompt", "turn"):
        event = client.words[moment]
        injected(agent, event, client.send(event, PAYLOADS[name]))
    assert untouched(box) == state
    assert set(tracks(box)) <= {"t", "main"}
    sound(box)


@pytest.mark.full
@some(
    "words",
    [
        *([], ["claude"], ["nobody", "SessionStart"], ["claude", "Nope"], ["", ""], ["claude", "Stop", "extra"]),
        *(["claude", "Stop", "--track"], ["claude", "Stop", "--nope"], ["--help"], ["claude", "--track", "t", "Stop"]),
        *(["../x", "../y"], ["claude", "SessionStart", "--track", "no such"], ["-h", "claude"], ["claude", "\udcff"]),
    ],
    2,
)
def test_any_command_line(box: Sandbox, words: list[str]) -> None:
    client = Client("claude", box.path)
    state = untouched(box)
    data = json.dumps(client.payload("SessionStart")).encode()
    done = subprocess.run([PROGRAM, "hook", *words], input=data, cwd=box.path, capture_output=True)
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    assert untouched(box) == state


def places(box: Sandbox, tmp_path: Path) -> dict[str, tuple[Path, bool]]:
    """Where a client may stand, and whether the track ``t`` is there."""
    box.write("deep/down/x.txt", "x\n")
    box.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    part = Sandbox.init(tmp_path / "part")
    part.commit("part", p_txt="p\n")
    box.git("submodule", "--quiet", "add", str(part.path), "sub")
    box.git("clone", "-q", "--bare", str(box.path), str(tmp_path / "bare.git"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(box.path / "deep")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("gitdir: /nowhere\n")
    (tmp_path / "loop").symlink_to("loop")
    return {
        "subdirectory": (box.path / "deep" / "down", True),
        "through a link": (tmp_path / "link", True),
        "linked": (tmp_path / "linked", False),
        "inside .git": (box.path / ".git" / "refs", False),
        "bare": (tmp_path / "bare.git", False),
        "submodule": (box.path / "sub", False),
        "outside": (tmp_path / "outside", False),
        "deleted": (tmp_path / "deleted", False),
        "a file": (box.path / "a.txt", False),
        "broken gitfile": (tmp_path / "broken", False),
        "loop": (tmp_path / "loop", False),
        "root": (Path("/"), False),
    }


@pytest.mark.full
def test_any_place(box: Sandbox, tmp_path: Path) -> None:
    found = places(box, tmp_path)
    for name, (place, at_home) in found.items():
        client = Client("claude", place, session=name)
        before, state = len(checkpoints(box, "t")), untouched(box)
        text = injected("claude", "SessionStart", client.send("SessionStart", client.payload("SessionStart"), cwd=tmp_path))
        assert not at_home or "S-manual" in text, name
        for event in ("UserPromptSubmit", "Stop"):
            box.write("new.txt", f"{name} {event}\n") if at_home else None
            injected("claude", event, client.send(event, client.payload(event), cwd=tmp_path))
        assert (len(checkpoints(box, "t")) > before) is at_home, name
        assert at_home or untouched(box) == state, name
    assert checkpoints(box, "t")[-1]["files"]["tree"] == written_tree(box)
    sound(box)


@pytest.mark.deep
def test_the_payloads_cwd_wins_over_the_process(box: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("o", o_txt="o\n")
    snap(other, "t", "other's words")
    client = Client("codex", box.path)
    done = client.send("SessionStart", client.payload("SessionStart"), cwd=other.path)
    assert "S-manual" in injected("codex", "SessionStart", done)


@pytest.mark.deep
def test_started_in_a_directory_that_was_removed(box: Sandbox, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "{PROGRAM}" hook claude Stop'
    done = subprocess.run(["sh", "-c", script], cwd=gone, input=b"{}", capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.deep
def test_an_unborn_head(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "unborn")
    snap(box, "t", "S-manual", *WORDS)
    client = Client("claude", box.path)
    assert "S-manual" in client.fire("start")
    check_next(box)
    assert autos(box, "t")[-1]["head"] is None


def object_path(box: Sandbox, oid: str) -> Path:
    return box.loose(oid)


def _spoil(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"garbage")


def _break(box: Sandbox, how: str) -> None:
    """Break the track, its words or what lies beside them."""
    tip = box.git("rev-parse", "refs/baton/tracks/t")
    ref = box.path / ".git" / "refs" / "baton" / "tracks" / "t"
    breaks: dict[str, Callable[[], object]] = {
        "corrupt tip": lambda: _spoil(object_path(box, tip)),
        "missing tip": lambda: object_path(box, tip).unlink(),
        "ref to nothing": lambda: ref.write_text("1" * 40 + "\n"),
        "ref of garbage": lambda: ref.write_text("garbage\n"),
        "empty ref": lambda: ref.write_text(""),
        "ref to a branch's commit": lambda: ref.write_text(box.head() + "\n"),
        "broken HEAD": lambda: (box.path / ".git" / "HEAD").write_text("garbage\n"),
        "broken config": lambda: (box.path / ".git" / "config").write_text("[oops\n"),
        "broken index": lambda: (box.path / ".git" / "index").write_bytes(b"DIRCgarbage"),
        "BATON_HEAD of garbage": lambda: (box.path / ".git" / "BATON_HEAD").write_bytes(b"ref: ../../x\n\0"),
    }
    breaks[how]()


LOGGED = ["corrupt tip", "missing tip", "ref to nothing", "ref of garbage"]
SILENT = ["empty ref", "ref to a branch's commit", "broken HEAD", "broken config", "broken index", "BATON_HEAD of garbage"]


@some("how", LOGGED + SILENT, share=3)
def test_a_broken_repository(box: Sandbox, how: str) -> None:
    _break(box, how)
    client = Client("gemini", box.path)
    for moment in MOMENTS:
        client.fire(moment, prompt="p")
    if how in LOGGED:
        assert log_of(box), "nothing says why no checkpoint was taken"


@pytest.mark.deep
def test_whatever_lies_in_our_own_folder(box: Sandbox) -> None:
    for agent in ("claude", "copilot"):
        client = Client(agent, box.path)
        for moment in MOMENTS:
            client.fire(moment, prompt="p")
    for path in sorted((box.path / ".git" / "baton").rglob("*")):
        if path.is_file() and path.name not in ("flock", "worktree"):
            path.write_bytes(b"\xffgarbage\0\n[]")
    check_next(box)
    for path in sorted((box.path / ".git" / "baton").rglob("*")):
        if path.is_file() and path.name not in ("flock", "worktree"):
            path.unlink()
            path.mkdir()
    client = Client("copilot", box.path, session="other")
    for moment in MOMENTS:
        client.fire(moment, prompt="p")
    for path in sorted((box.path / ".git" / "baton").rglob("*"), reverse=True):
        if path.is_dir() and path.name not in ("sessions", "tmp"):
            path.rmdir()
    check_next(box)


@pytest.mark.deep
def test_our_own_folder_was_removed(box: Sandbox) -> None:
    """The track is in the refs, which are the truth: ``git baton resume`` shows it, and so must a hook."""
    shutil.rmtree(box.path / ".git" / "baton")
    assert "S-manual" in Client("claude", box.path).fire("start")
    check_next(box)


@pytest.mark.deep
def test_the_users_own_lock_of_the_index(box: Sandbox) -> None:
    (box.path / ".git" / "index.lock").write_bytes(b"")
    Client("claude", box.path).turn("p")
    assert steps(autos(box, "t")) == ["turn ended: p"]
    assert (box.path / ".git" / "index.lock").exists()


@pytest.mark.full
def test_a_git_directory_that_cannot_be_written(box: Sandbox) -> None:
    as_user = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if as_user and not shutil.which("setpriv"):
        pytest.skip("root may write everything, and there is no setpriv")
    client = Client("claude", box.path)
    folders = [p for p in [box.path / ".git", *(box.path / ".git").rglob("*")] if p.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        for moment in MOMENTS:
            event = client.words[moment]
            words = [*as_user, PROGRAM, "hook", "claude", event]
            data = json.dumps(client.payload(event)).encode()
            done = subprocess.run(words, input=data, cwd=box.path, capture_output=True, env={**os.environ, **client.env()})
            assert done.returncode == 0 and b"Traceback" not in done.stderr
            assert moment != "start" or b"S-manual" in done.stdout, "reading needs no writing"
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert autos(box, "t") == []
    check_next(box)


@pytest.mark.full
def test_no_git_at_all(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for moment in MOMENTS:
        client = Client("claude", box.path)
        event = client.words[moment]
        injected("claude", event, client.send(event, client.payload(event), env={"PATH": str(tmp_path / "empty")}))
    check_next(box)


@pytest.mark.full
@some("limit", [0, 100, 4096])
def test_files_cannot_grow(box: Sandbox, limit: int) -> None:
    box.write("large.bin", random.Random(5).randbytes(50_000))
    client = Client("claude", box.path)
    for moment in ("start", "prompt", "compact", "turn"):
        event = client.words[moment]
        done = subprocess.run(
            [PROGRAM, "hook", "claude", event],
            input=json.dumps(client.payload(event)).encode(),
            cwd=box.path,
            env={**os.environ, **client.env()},
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        assert done.returncode == 0 and b"Traceback" not in done.stderr
        assert not done.stdout or b"S-manual" in done.stdout
    for record in autos(box, "t"):
        assert {"path": "large.bin", "reason": "unreadable"} in record["files"]["skipped"], "it does not say what is missing"
    check_next(box)


@pytest.mark.full
@some("redirection", [">/dev/full", ">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full 2>/dev/full", "| :"])
def test_closed_streams(box: Sandbox, redirection: str, tmp_path: Path) -> None:
    data, client = tmp_path / "payload", Client("claude", box.path)
    state, code = untouched(box), tmp_path / "code"
    for event in ("SessionStart", "Stop"):
        data.write_text(json.dumps(client.payload(event)))
        given = "" if "<" in redirection else f"<{data}"
        script = f'{{ "{PROGRAM}" hook claude {event} {given}; echo $? >"{code}"; }} {redirection}'
        subprocess.run(["sh", "-c", script], cwd=box.path, env={**os.environ, **client.env()}, capture_output=True)
        assert code.read_text() == "0\n", event
        assert untouched(box) == state
    check_next(box)


@pytest.mark.full
@some(
    "env", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}, {"HOME": "/nowhere"}]
)
@some("agent", ["claude", "opencode"])
def test_odd_environments(repo: Sandbox, agent: str, env: dict[str, str]) -> None:
    snap(repo, "t", "caf\u00e9 \u4e2d")
    repo.write("caf\u00e9.txt", "x\n")
    client = Client(agent, repo.path)
    start, turn = client.words["start"], client.words["turn"]
    text = injected(agent, start, client.send(start, client.payload(start), env=env))
    assert "caf\u00e9 \u4e2d" in text
    injected(agent, turn, client.send(turn, client.payload(turn), env=env))
    assert len(autos(repo, "t")) == 1 and log_of(repo) == ""


@pytest.mark.deep
@some("what", ["fifo", "endless", "folder", "missing", "sparse", "loop"])
def test_any_transcript(box: Sandbox, tmp_path: Path, what: str) -> None:
    path = tmp_path / "conversation.jsonl"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "endless":
        path = Path("/dev/zero")
    elif what == "folder":
        path.mkdir()
    elif what == "sparse":
        path.touch()
        os.truncate(path, 3 << 30)
    elif what == "loop":
        path.symlink_to(path)
    client = Client("claude", box.path)
    client.fire("start", transcript_path=str(path))
    client.asked("p", transcript_path=str(path))
    for moment in ("compact", "turn", "end"):
        client.fire(moment, prompt="p", transcript_path=str(path))
    ended = "turn ended: p"  # for its last words, which the event tells
    assert [one["step"] for one in autos(box, "t")] == ["before compaction (auto)", ended]
    assert all(one["agent"]["transcript"] is None for one in autos(box, "t"))


@pytest.mark.full
def test_no_name_of_a_session_becomes_a_path(box: Sandbox, tmp_path: Path) -> None:
    Client("claude", box.path).turn("p")
    before = set(tmp_path.rglob("*"))
    for number, name in enumerate(("../../../evil", "/evil", "..", ".", "a/b", "x" * 1000, "\n", "-rf", "\u202e")):
        box.write("new.txt", f"{number}\n")
        Client("claude", box.path, session=name).turn(f"p{number}")
    sessions = box.path / ".git" / "baton" / "sessions"
    said = box.path / ".git" / "refs" / "baton" / "transcripts" / "claude"  # names are encoded there
    new = {p for p in set(tmp_path.rglob("*")) - before if "objects" not in p.parts and p.parent not in (sessions, said)}
    assert new <= {said, said.parent}
    assert steps(autos(box, "t"))[1:] == [f"turn ended: p{n}" for n in range(9)]


@pytest.mark.deep
def test_the_environment_names_another_repository(box: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("o", o_txt="o\n")
    snap(other, "t", "other's words")
    other.write("new.txt", "x\n")
    client, folder = Client("claude", box.path), str(other.path / ".git")
    env = {"GIT_DIR": folder, "GIT_WORK_TREE": str(other.path), "GIT_INDEX_FILE": f"{folder}/index"}
    text = injected("claude", "SessionStart", client.send("SessionStart", client.payload("SessionStart"), env=env))
    assert "other's words" not in text
    client.send("Stop", client.payload("Stop"), env=env)
    assert autos(other, "t") == [] and len(autos(box, "t")) == 1


def test_words_that_no_client_would_say(repo: Sandbox) -> None:
    for words in ((), ("claude",), ("--nope",), ("nobody", "Stop", "more"), ("claude", "--track"), ("-h",)):
        assert repo.baton("hook", *words).code == 0, words
