"""Git's own files that a power cut left damaged: verbs answer what they can, and say which command of git's helps."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys

import pytest

from tests.kit import Sandbox

ZERO, GARBAGE, HALF = b"", b"garbage" * 20, None


@pytest.fixture
def taken(repo: Sandbox) -> Sandbox:
    """Two checkpoints of track ``t``, and a file that was made since."""
    for number in range(2):
        repo.write("a.txt", f"{number}\n")
        repo.ok("snapshot", "--track", "t", "--step", f"step {number}")
    repo.write("new.txt", "new\n")
    return repo


def hit(repo: Sandbox, content: bytes | None) -> bytes:
    """Damage the index; what it is then."""
    path = repo.path / ".git/index"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    return path.read_bytes()


@pytest.mark.parametrize("content", [ZERO, GARBAGE, HALF])
def test_with_a_damaged_index_verbs_look_and_nothing_is_written_over_it(taken: Sandbox, content: bytes | None) -> None:
    damaged = hit(taken, content)
    live = taken.ok("resume", "--porcelain", "t", "--live")
    assert "drift=files-changed:1\n" in live.out and "the index is damaged: " in live.err
    assert "git reset" in live.err and "the index is damaged: " in taken.ok("status").err
    found = taken.baton("verify", "t", "--strict")
    assert found.code == 1 and found.out.startswith("files-changed:1: ") and "the index is damaged: " in found.err
    assert "+1\n" in taken.ok("diff", "t~1").out and "a.txt | 2 +-" in taken.ok("log", "t", "--stat").out
    assert taken.ok("log", "t", "--", "a.txt").out.count("step ") == 2
    refused = taken.baton("restore", "t~1", "--force", "--index")
    assert refused.code == 128 and re.match(r"fatal: the index is damaged: .*\nhint: mv .* && git reset\n\Z", refused.err)
    assert (taken.path / ".git/index").read_bytes() == damaged and (taken.path / "a.txt").read_text() == "1\n"
    back = taken.ok("restore", "t~1", "--force")
    assert re.search(r"^warning: the index is damaged: .*: mv .* && git reset$", back.err, re.M)
    assert (taken.path / ".git/index").read_bytes() == damaged and (taken.path / "a.txt").read_text() == "0\n"
    assert "the index is damaged: " in taken.ok("undo").err
    assert (taken.path / ".git/index").read_bytes() == damaged and (taken.path / "a.txt").read_text() == "1\n"
    assert "the index is damaged: " in taken.ok("snapshot", "--track", "t", "--step", "after").err


@pytest.mark.parametrize("content", [ZERO, GARBAGE, HALF])
def test_the_line_that_a_mend_names_makes_a_damaged_index_anew(taken: Sandbox, content: bytes | None) -> None:
    hit(taken, content)
    row = next(row for row in taken.baton("doctor", "--json").json["findings"] if row["name"] == "index")
    done = taken.baton("doctor", "--mend")
    assert done.code == 1 and done.out.startswith("not ours: the index of '") and row["mend"] in done.out
    assert taken.run("sh", "-c", row["mend"]).code == 0
    taken.ok("restore", "t~1", "--force")
    assert (taken.path / "a.txt").read_text() == "0\n"
    taken.ok("undo")
    assert (taken.path / "a.txt").read_text() == "1\n" and taken.ok("doctor", "--mend").out == "nothing is damaged\n"


def test_a_merge_goes_on_after_a_damaged_index_was_made_anew(taken: Sandbox) -> None:
    (taken.path / ".git/MERGE_HEAD").write_text(taken.git("rev-parse", "HEAD") + "\n")
    hit(taken, ZERO)
    hint = taken.baton("restore", "t~1", "--index").err.partition("hint: ")[2]
    assert taken.run("sh", "-c", hint).code == 0
    assert (taken.path / ".git/MERGE_HEAD").exists() and taken.git("ls-files") != ""


@pytest.mark.skipif(shutil.which("setpriv") is None or os.geteuid() != 0, reason="takes root's rights away")
def test_an_index_that_may_not_be_read_is_not_called_damaged(taken: Sandbox) -> None:
    path = taken.path / ".git/index"
    path.chmod(0)
    less = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
    baton = (*less, sys.executable, "-m", "gitbaton")
    live = taken.run(*baton, "resume", "--porcelain", "t", "--live")
    assert "drift=files-changed:1\n" in live.out and "the index cannot be read: Permission denied; " in live.err
    refused = taken.run(*baton, "restore", "t~1")
    assert refused.err == f"fatal: the index cannot be read: Permission denied\nhint: chmod u+rw '{path}'\n"
    assert taken.run("sh", "-c", f"chmod u+rw '{path}'").code == 0 and taken.ok("restore", "t~1", "--dry-run").code == 0


@pytest.mark.parametrize("kind", ["commit gone", "commit empty", "branch empty", "branch garbage", "branch to nothing"])
def test_where_the_commit_of_head_cannot_be_read_verbs_answer_the_rest(taken: Sandbox, kind: str) -> None:
    oid = taken.git("rev-parse", "HEAD")
    path = taken.loose(oid) if kind.startswith("commit") else taken.path / ".git/refs/heads/main"
    if kind.endswith("gone"):
        path.unlink()
    else:
        path.write_text({"empty": "", "garbage": "garbage\n"}.get(kind.split()[-1], "1" * 40 + "\n"))
    live = taken.ok("resume", "--porcelain", "t", "--live")
    assert "step=step 1\n" in live.out and "drift=head-missing,files-changed:1\n" in live.out
    assert "step 1" in taken.ok("status").out and "step 1" in taken.ok().out
    found = taken.baton("verify", "t", "--json")
    words = {fact["word"]: fact["sentence"] for fact in found.json["facts"]}
    assert found.code == 1 and "'git baton doctor --mend' says what helps" in words["head-missing"]
    (row,) = (row for row in taken.baton("doctor", "--json").json["findings"] if row["name"] == "head")
    assert not row["ok"] and row["text"] in words["head-missing"] and row["mend"] == "git baton doctor --mend"
    mended = taken.baton("doctor", "--mend")
    assert mended.code == 1 and mended.out.startswith("not ours: ")
    if kind in ("branch empty", "branch garbage"):
        assert taken.run("sh", "-c", mended.out.splitlines()[1]).code == 0 and taken.git("rev-parse", "HEAD") == oid
        assert "drift=files-changed:1\n" in taken.ok("resume", "--porcelain", "t", "--live").out


@pytest.mark.parametrize("text", ["", "garbage\n", "ref: \n"])
def test_a_head_that_names_nothing_is_said_to(taken: Sandbox, text: str) -> None:
    (taken.path / ".git/HEAD").write_text(text)
    for verb in (("status",), ("resume", "--live"), ()):
        done = taken.baton(*verb)
        assert done.code == 128 and ".git/HEAD' names neither a branch nor a commit" in done.err
    hint = done.err.partition("hint: ")[2].partition(", with ")[0].replace("BRANCH", "main")
    assert taken.run("sh", "-c", hint).code == 0 and json.loads(taken.ok("status", "--json").out)["tracks"]


@pytest.mark.parametrize("spec", ["../../x", ":(bad)x", "", "/nowhere"])
@pytest.mark.parametrize("verb", ["restore t~1", "restore t", "restore t~1 --dry-run", "diff t~1", "log t"])
def test_paths_that_git_refuses_are_refused_in_its_own_words(taken: Sandbox, verb: str, spec: str) -> None:
    done = taken.baton(*verb.split(), "--", spec)
    said = taken.try_git("log", "--", spec).err
    once = said if verb[:4] == "diff" or not spec else said.replace(f"{spec}: '", "'")  # git names the path twice
    assert (done.code, done.out, done.err) == (128, "", once) and said.startswith("fatal: ")
