"""No secret reaches an object, a note or a file: words are redacted before anything is written. Git is the judge."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitbaton.base.secrets import Redactor
from tests.kit import Sandbox
from tests.kit.agents import Client, autos, checkpoints, log_of
from tests.kit.forkserver import python
from tests.kit.keys import BASE64, Maker, keys
from tests.kit.repos import Outcome

KEYS = keys(11)
SECRETS = tuple(secret for _, secret in KEYS.values() if secret != "PRIVATE KEY")
ALL = "\n".join(text for text, _ in KEYS.values())
ONE = " ".join(text.replace("\n", "\\n") for text, _ in KEYS.values())
LABELS = [" ".join(text.replace("\n", "\\n") for text, _ in list(KEYS.values())[n::11]) for n in range(11)]
KEY = KEYS["github"][0]
HERE = "[redacted:github-token]"


def everything(repo: Sandbox) -> str:
    """Every object of the repository, its notes and the files that an export wrote."""
    objects = repo.git("cat-file", "--batch-all-objects", "--batch", "--unordered")
    files = [path.read_text() for path in (repo.path / "runtime").rglob("*") if path.is_file()]
    return "\n".join([objects, repo.git("log", "--all", "--notes=*", "--format=%B%N"), *files])


def check_clean(repo: Sandbox) -> None:
    """None of the secrets is anywhere, in plain or as JSON writes it."""
    text = everything(repo)
    assert [secret for secret in SECRETS if secret in text or json.dumps(secret)[1:-1] in text] == []
    repo.fsck()


def nothing(repo: Sandbox) -> None:
    """Not a ref of ours and not an object more than the commit's."""
    assert repo.git("for-each-ref", "refs/baton", "refs/checkpoints", "refs/notes") == ""
    held = repo.git("rev-list", "--objects", "--all").splitlines()
    assert len(repo.git("cat-file", "--batch-all-objects", "--batch-check").splitlines()) == len(held)
    assert not (repo.path / "runtime").exists()


@pytest.mark.deep
def test_t25_no_key_in_any_field_reaches_an_object_or_a_file(repo: Sandbox) -> None:
    repo.commit("first", a_txt="a")
    pairs = [(f"k{number}", text) for number, (text, _) in enumerate(KEYS.values())]
    with repo.open() as baton:
        baton.snapshot(ONE, track="t", note=ALL, next_cmd=ONE, decisions=[ALL, ONE], extra=dict(pairs))
        baton.snapshot("x", track="t", label=ONE[:1000], extra={"password": SECRETS[0], "db.token": SECRETS[1]})
        for labels in LABELS:  # the words that name a milestone are its step, too
            baton.snapshot(track="t", label=labels, files=False)
    repo.ok("export", "--history")
    check_clean(repo)
    found = checkpoints(repo, "t")
    assert len(found) == len(LABELS) + 2 and {"t"} == {record["track"] for record in found}
    assert repo.ok("resume").out.count("[redacted:") >= 1


@pytest.mark.deep
def test_the_command_says_what_it_redacted(repo: Sandbox) -> None:
    repo.commit("first", a_txt="a")
    words = ["--track", "t", "--step", f"with {KEY}", "--next-cmd", KEYS["url"][0], "--extra", f"password={SECRETS[0]}"]
    plan = repo.ok("snapshot", *words, "--dry-run", "--json").json
    assert plan["plan"]["step"] == f"with {HERE}" and plan["redacted"][0] == {"field": "step", "kind": "github-token"}
    nothing(repo)
    done = repo.ok("snapshot", *words)
    said = f"redacted 3 secrets: step (github-token), next_cmd (url-password), extra.password ({_kind(SECRETS[0])})"
    assert done.err == f"warning: {said}\n" and HERE in done.out and KEY not in done.out
    found = repo.ok("snapshot", *words, "--json").json
    assert found["checkpoint"]["step"] == f"with {HERE}"
    assert [r["field"] for r in found["redacted"]] == ["step", "next_cmd", "extra.password"]
    assert said in found["warnings"] and repo.ok("snapshot", "--track", "t", "--step", "x", "--json").json["redacted"] == []
    check_clean(repo)


def _kind(secret: str) -> str:
    return Redactor().find(f"password={secret}", sure=False)[0].kind


@pytest.mark.deep
def test_off_stores_as_it_is_and_strict_takes_what_looks_random(repo: Sandbox) -> None:
    random = Maker(5).of(BASE64, 60)
    repo.commit("first", a_txt="a")
    with repo.open() as baton:
        assert baton.snapshot("x", track="t", note=random).stored.checkpoint.note == random
    repo.git("config", "baton.redact", "strict")
    with repo.open() as baton:
        assert baton.snapshot("x", track="t", note=random).stored.checkpoint.note == "[redacted:entropy]"
    repo.git("config", "baton.redact", "on")
    repo.git("config", "--add", "baton.redactAllow", "gh" + "p_.*")
    with repo.open() as baton:
        assert baton.snapshot("x", track="t", note=f"{KEY} {SECRETS[0]}").stored.checkpoint.note.startswith(KEY + " [redacted:")
    repo.git("config", "--unset-all", "baton.redactAllow")
    repo.git("config", "baton.redact", "off")
    with repo.open() as baton:
        done = baton.snapshot(KEY, track="t", extra={"password": KEY})
        assert done.stored.checkpoint.step == KEY and done.redacted == ()
    assert KEY in everything(repo)


@pytest.mark.parametrize("value", ["yes", "(x"])
def test_a_setting_that_is_none_stops_it(repo: Sandbox, value: str) -> None:
    key = "baton.redact" if value == "yes" else "baton.redactAllow"
    repo.commit("first", a_txt="a")
    repo.git("config", key, value)
    done = repo.baton("snapshot", "--track", "t", "--step", "x")
    assert done.code == 129 and done.err.startswith(f"fatal: {key} is '{value}'; ")
    nothing(repo)


# The rule that would find a key of GitHub's cannot be made ready.
BROKEN = """
import os, re, signal
real = re.compile
def compile(*words):
    made = real(*words)
    if isinstance(made.pattern, str) and made.fullmatch("{key}") and not made.fullmatch("words"):
        {how}
    return made
re.compile = compile
from gitbaton.cli.main import run
run()
"""


def broken(repo: Sandbox, how: str, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Outcome:
    """``git baton`` with a scanner that fails."""
    done = python(["-c", BROKEN.format(how=how, key=KEY), *words], str(repo.path), {**os.environ, **(env or {})}, stdin)
    return Outcome(done.code, done.out.decode(), done.err.decode())


@pytest.mark.deep
def test_a_scanner_that_fails_or_is_killed_leaves_nothing(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", a_txt="a")
    repo.write("new.txt", "not in any object yet")
    done = broken(repo, "raise ValueError('x\\ny')", "snapshot", "--track", "t", "--step", KEY)
    assert (done.code, done.out) == (128, "")
    assert done.err == "fatal: nothing is recorded: the scanner for secrets failed: ValueError x y\n"
    nothing(repo)
    done = broken(repo, "os.kill(os.getpid(), signal.SIGKILL)", "snapshot", "--track", "t", "--step", KEY)
    assert done.code == -signal.SIGKILL
    nothing(repo)
    folder = older(tmp_path)
    done = broken(repo, "raise ValueError('x')", "import", str(folder))
    assert done.code == 128 and "the scanner for secrets failed" in done.err
    nothing(repo)
    repo.ok("snapshot", "--track", "t", "--step", KEY)


def older(tmp_path: Path) -> Path:
    """A folder of an older, file-based version, with secrets in it."""
    folder = tmp_path / "older"
    folder.mkdir(exist_ok=True)
    for number, text in enumerate((ALL, ONE)):
        record = {
            "track": "t",
            "step": f"s{number} {KEY}",
            "note": text,
            "next_cmd": ONE,
            "decisions": [text],
            "password": SECRETS[2],
        }
        (folder / f"context_checkpoint_2025010{number + 1}T000000Z.json").write_text(json.dumps(record))
    return folder


@pytest.mark.deep
def test_an_import_is_redacted_and_a_second_one_adds_nothing(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", a_txt="a")
    folder = older(tmp_path)
    repo.ok("import", str(folder))
    assert len(checkpoints(repo, "t")) == 2
    tip = repo.git("rev-parse", "refs/baton/tracks/t")
    for _ in range(2):
        repo.ok("import", str(folder))
        assert repo.git("rev-parse", "refs/baton/tracks/t") == tip
    repo.ok("export", "--history")
    check_clean(repo)


@pytest.mark.deep
def test_an_import_knows_what_was_taken_in_as_it_was(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", a_txt="a")
    folder = older(tmp_path)
    repo.git("config", "baton.redact", "off")
    repo.ok("import", str(folder))
    repo.git("config", "baton.redact", "on")
    repo.ok("import", str(folder))
    assert len(checkpoints(repo, "t")) == 2


def unredacted(repo: Sandbox, **words: object) -> None:
    """A checkpoint as an older version stored it."""
    repo.git("config", "baton.redact", "off")
    with repo.open() as baton:
        baton.snapshot(**words)  # type: ignore[arg-type]
    repo.git("config", "--unset", "baton.redact")


@pytest.mark.deep
def test_what_an_older_version_stored_is_redacted_where_it_goes_on(repo: Sandbox) -> None:
    repo.commit("first", a_txt="a")
    unredacted(repo, step=f"old {KEY}", track="t", note=KEYS["url"][0], next_cmd=ONE, extra={"password": SECRETS[0]})
    repo.ok("export", "--history")
    files = "".join(path.read_text() for path in (repo.path / "runtime").rglob("*") if path.is_file())
    assert f"old {HERE}" in files and [secret for secret in SECRETS if secret in files] == []
    client = Client("claude", repo.path)
    said = client.fire("start")
    assert HERE in said and not any(secret in said for secret in SECRETS)
    repo.write("a.txt", "b")
    client.fire("turn")
    auto, manual = checkpoints(repo, "t")[-1], checkpoints(repo, "t")[0]
    assert auto["kind"] == "auto" and auto["carried"]["step"] == f"old {HERE}" and auto["note"] != manual["note"]
    assert not any(secret in json.dumps(auto) for secret in SECRETS)
    repo.ok("restore", manual["id"][:12])
    safety = repo.git("log", "-1", "--format=%B", "refs/baton/safety/main-worktree")
    assert HERE in safety and KEY not in safety
    repo.write("a.txt", "c")
    unredacted(repo, step=f"again {KEY}", track="t")
    repo.ok("branch", "b", "@")
    assert repo.git("log", "-1", "--format=%s", "b") == f"again {HERE}"
    repo.fsck()


@pytest.mark.deep
def test_a_hook_says_and_stores_no_secret_and_a_scanner_that_fails_stops_no_agent(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", a_txt="a")
    client = Client("claude", repo.path)
    repo.ok("snapshot", "--track", "t", "--step", "x")
    client.fire("prompt", prompt=f"use {KEY} please")
    repo.write("a.txt", "b")
    client.fire("turn")
    (found,) = autos(repo, "t")
    assert found["step"] == f"turn ended: use {HERE} please"
    check_clean(repo)
    repo.write("a.txt", "c")
    talk, refs = tmp_path / "talk.jsonl", repo.git("for-each-ref")
    talk.write_text(json.dumps({"type": "user", "uuid": "u1", "message": {"role": "user", "content": f"use {KEY}"}}) + "\n")
    for event in ("Stop", "PreCompact"):
        payload = json.dumps(client.payload(event, transcript_path=str(talk))).encode()
        done = broken(repo, "raise ValueError('x')", "hook", "claude", event, env=client.env(), stdin=payload)
        assert (done.code, done.out, repo.git("for-each-ref")) == (0, "", refs)
        assert "the scanner for secrets failed" in log_of(repo) and not (repo.path / ".git/baton/transcripts").exists()
    client.fire("turn", transcript_path=str(talk))
    assert len(autos(repo, "t")) == 2 and "refs/baton/transcripts" in repo.git("for-each-ref")
    check_clean(repo)
