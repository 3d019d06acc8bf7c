"""git baton show: a file of a checkpoint byte for byte, a folder, why there is neither, and what a checkpoint changed."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.gates import SECRET, Gated
from tests.verbs.test_tty import on_terminal, tool

MIXED = b"one\r\ntwo\nthree\r"
NESTED = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def work(repo: Sandbox) -> Sandbox:
    """Three checkpoints of track ``t`` with files of every kind that a checkout gives back or not."""
    repo.write(".gitattributes", "* text=auto\n*.bat eol=crlf\n")
    repo.write("sub/in.txt", "in\n")
    repo.write("mixed.txt", MIXED)
    repo.write("w.bat", b"x\r\ny\r\n")
    repo.write("bytes", bytes(range(256)) + b"\xed\xa0\x80\xff")
    repo.ok("snapshot", "--track", "t", "one", "--label", "v1: ready")
    (repo.path / "sub/in.txt").unlink()
    repo.write("a.txt", "two\n")
    (repo.path / "link").symlink_to("a.txt")
    repo.write("dir/odd\nname", "odd\n")
    repo.write("dir/deep/x", "x\n")
    repo.ok("snapshot", "--track", "t", "two")
    repo.write("a.txt", "three\n")
    repo.ok("snapshot", "--track", "t", "three")
    return repo


def read(repo: Sandbox, name: str, cwd: Path | None = None) -> bytes:
    """What ``show`` prints, byte for byte."""
    done = repo.baton("show", name, cwd=cwd)
    assert (done.code, done.err) == (0, ""), done
    return done.out.encode("utf-8", "surrogateescape")


def refused(done: Outcome, code: int = 2) -> tuple[str, ...]:
    """The lines of a refusal, the first without ``fatal: ``."""
    first, *rest = done.err.splitlines()
    assert (done.code, done.out) == (code, "") and first.startswith("fatal: "), done
    return first.removeprefix("fatal: "), *(row.removeprefix("hint: ") for row in rest)


def typed(repo: Sandbox, hint: str, cwd: Path | None = None) -> Outcome:
    """The command that a hint names, carried out."""
    found = re.match(r"'(git .*)' [a-z]", hint) or re.search(r"(git .*)", hint)
    assert found is not None, hint
    words = shlex.split(found[1])
    return repo.baton(*words[2:], cwd=cwd) if words[1] == "baton" else repo.run(*words, cwd=cwd)


def test_a_file_comes_out_byte_for_byte_as_a_restore_would_write_it(work: Sandbox) -> None:
    on_disk = {name: (work.path / name).read_bytes() for name in ("mixed.txt", "w.bat", "bytes", "dir/odd\nname")}
    assert {name: read(work, f"@:{name}") for name in on_disk} == on_disk
    assert read(work, "@:link") == b"a.txt" and read(work, "t^:a.txt") == b"two\n"
    (work.path / ".git/info/attributes").write_text("a.txt diff=loud\n")
    work.git("config", "diff.loud.textconv", "tr a-z A-Z <")
    assert read(work, "t^:a.txt") == b"two\n", "no textconv has a say"


@pytest.mark.deep
def test_a_folder_lists_its_names_as_git_does(work: Sandbox) -> None:
    chain = "refs/baton/tracks/t"
    assert work.ok("show", "t:dir").out == 'tree t:dir\n\ndeep/\n"odd\\nname"\n'
    for name in ("", "sub"):
        theirs = work.git("show", f"{chain}~2:{name}").split("\n", 1)[1]
        assert work.ok("show", f"t~2:{name}").out == f"tree t~2:{name}\n{theirs}\n"
    assert work.ok("show", "t:dir/").out.splitlines()[2:] == work.ok("show", "t:dir").out.splitlines()[2:]


@pytest.mark.deep
def test_a_path_is_seen_from_the_top_or_from_here(work: Sandbox, tmp_path: Path) -> None:
    place = work.path / "dir/deep"
    assert read(work, "@:a.txt", place) == read(work, "@:../../a.txt", place) == b"three\n"
    assert read(work, "@:./x", place) == b"x\n" and b"deep/" in read(work, "@:..", place)
    assert work.baton("--repo-root", str(place), "show", "@:./x", cwd=tmp_path).out == "x\n"
    said, hint = refused(work.baton("show", "@:x", cwd=place))
    assert "there is no 'x' in checkpoint" in said and typed(work, hint, place).out == "x\n"
    assert refused(work.baton("show", "@:../../../out", cwd=place))[0] == "'../../../out' is outside of the work tree"


@pytest.mark.deep
def test_why_there_is_no_such_file_is_said_with_what_helps(work: Sandbox) -> None:
    work.write(".gitignore", "node_modules\n")
    work.write("node_modules/x", "ignored\n")
    work.write(".env", "KEY=1\n")
    work.git("config", "baton.maxFileSize", "1k")
    work.write("big file", "x" * 2000)
    work.write("new", "later\n")
    (work.path / "new").unlink()
    work.baton("snapshot", "four", "--track", "t")
    said, hint = refused(work.baton("show", "t:big file"))
    assert said.endswith("does not hold 'big file': it is left out: it is larger than baton.maxFileSize")
    assert typed(work, hint).code == 0 and "big file" not in work.ok("snapshot", "five", "--track", "t").err
    assert len(read(work, "t:big file")) == 2000
    said, hint = refused(work.baton("show", "t:.env"))
    assert said.endswith("it is left out: baton.exclude names it") and ".env*" in typed(work, hint).out
    said, hint = refused(work.baton("show", "t:node_modules/x"))
    assert said.endswith(": git ignores it") and "node_modules" in typed(work, hint).out
    said, hint = refused(work.baton("show", "t:sub/in.txt"))
    assert "there is no 'sub/in.txt'" in said and typed(work, hint).out == "in\n"
    said, hint = refused(work.baton("show", "t~4:big file"))
    assert typed(work, hint).out == "x" * 2000, "a later one has it"
    assert len(refused(work.baton("show", "t:nowhere"))) == 1
    for name in ("t:a.txt/below", "t:a.txt/"):
        assert refused(work.baton("show", name))[0].startswith("'a.txt' is a file in checkpoint "), name
    assert (
        "there is no 'a.txt//x'" in refused(work.baton("show", "t:a.txt//x"))[0] or work.baton("show", "t:a.txt//x").code == 2
    )


@pytest.mark.deep
def test_a_repository_within_is_named_with_the_commit(work: Sandbox) -> None:
    nested = Sandbox.init(work.path / "my nest")
    nested.commit("inside", f_txt="f\n")
    work.baton("snapshot", "--track", "t", "four")
    for name, shown in (("t:my nest", "inside"), ("t:my nest/f.txt", "f\n")):
        said, hint = refused(work.baton("show", name))
        assert said.startswith("'my nest' is a repository of its own: checkpoint ") and nested.head() in said
        assert shown in typed(work, hint).out


@pytest.mark.deep
@pytest.mark.parametrize("way", ["missing", "normalising", "redacting"])
def test_bytes_that_stay_here_count_and_elsewhere_it_is_said(tmp_path: Path, way: str) -> None:
    gated = Gated(tmp_path)
    gated.shut(way)
    texts = gated.edit()
    gated.box.ok("snapshot", "--track", "t", "shut")
    assert {name: gated.box.ok("show", f"t:{name}").out for name in texts} == texts
    gated.box.ok("push", "origin", "--yes")
    there = Sandbox(tmp_path / "there")
    gated.box.git("clone", "-q", str(gated.hub.path), str(there.path))
    there.ok("fetch", "origin")
    done = there.baton("show", "origin/t:secret")
    assert SECRET not in done.out
    if way == "missing":
        assert done.code == 128 and "its bytes did not pass filter 'c' and stayed where they were taken" in done.err


@pytest.mark.deep
def test_a_name_with_a_colon_is_still_a_name(work: Sandbox) -> None:
    first = work.ok("show", "t~2", "--json").json["checkpoint"]["id"]
    assert work.ok("show", "v1: ready", "--json").json["checkpoint"]["id"] == first
    assert read(work, "t@{12:30 2037-01-01}:a.txt") == b"three\n"
    assert refused(work.baton("show", "nowhere:a.txt"))[0] == "there is no checkpoint 'nowhere'"
    said, hint = refused(work.baton("show", ":a.txt"), 129)
    assert said == "the checkpoint's name is empty" and typed(work, hint).out == "three\n"
    assert read(work, "@:a.txt") == work.ok("show", "--track", "t", "@:a.txt").out.encode()


def test_what_it_changed_is_shown_as_git_shows_it(work: Sandbox) -> None:
    chain = "refs/baton/tracks/t"
    whole = work.ok("show", "--porcelain", "t^").out
    for form in ("--stat", "--name-only", "--patch"):
        theirs = work.git("diff", form, f"{chain}~2", f"{chain}~1")
        assert work.ok("show", "--porcelain", "t^", form).out == f"{whole}\n{theirs}\n", form
    assert work.ok("show", "t^", "-p").out == work.ok("show", "t^", "--patch").out
    assert work.ok("show", "t~2", "--name-only").out.endswith("\n\n.gitattributes\nbytes\nmixed.txt\nsub/in.txt\nw.bat\n")
    for words in (("t", "--", "a.txt"), ("t", "a.txt"), ("a.txt",), ("--", "a.txt")):
        assert work.ok("show", *words).out.endswith("-two\n+three\n"), words
    sub = work.path / "dir"
    assert work.baton("show", "t^", "--name-only", "--", "deep", cwd=sub).out.endswith("\n\ndir/deep/x\n")
    assert work.ok("show", "--porcelain", "t", "--stat", "--", "link").out == work.ok("show", "--porcelain", "t").out, (
        "nothing changed there"
    )


@pytest.mark.deep
@pytest.mark.deep
def test_only_a_path_leads_to_the_file_itself(work: Sandbox) -> None:
    for words, place, name in (
        (("a.txt",), "", "@:a.txt"),
        (("../a.txt",), "dir", "@:./../a.txt"),
    ):
        (work.path / place).mkdir(exist_ok=True)
        done = work.baton("show", *words, cwd=work.path / place)
        assert done.err == f"hint: the file as it is there: git baton show {name}\n"
        assert read(work, name, work.path / place) == b"three\n"
    assert work.ok("show", "--", "a.txt").err == work.ok("show", "t", "a.txt").err == ""


def test_what_does_not_go_together_is_refused(work: Sandbox) -> None:
    for words, said in (
        (("t", "--json", "--stat"), "--stat and --json exclude each other"),
        (("t:a.txt", "--json"), "CHECKPOINT:PATH and --json exclude each other"),
        (("t:a.txt", "--stat"), "CHECKPOINT:PATH and --stat exclude each other"),
        (("t:a.txt", "--", "a.txt"), "CHECKPOINT:PATH and PATH exclude each other"),
        (("t", "t", "--"), "unexpected argument 't'"),
    ):
        assert refused(work.baton("show", *words), 129)[0] == said
    assert refused(work.baton("show", "t", "nowhere"))[0] == "there is no path 'nowhere'"
    work.ok("snapshot", "--track", "t", "words", "--no-files")
    assert "holds no files" in refused(work.baton("show", "t:a.txt"), 128)[0]
    assert json.loads(work.ok("show", "t", "--json").out)["checkpoint"]["step"] == "words"


@pytest.mark.deep
def test_a_file_goes_through_the_pager_on_a_terminal(work: Sandbox, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    env = {"GIT_PAGER": tool(tmp_path / "pager", f"cat > {seen}"), "TERM": "xterm", "COLUMNS": "80"}
    code, _ = on_terminal(work, "show", "@:bytes", env=env)
    assert code == 0 and seen.read_bytes() == (work.path / "bytes").read_bytes()


@pytest.mark.deep
def test_a_bare_repository_shows_files_too(work: Sandbox, tmp_path: Path) -> None:
    work.git("clone", "-q", "--mirror", str(work.path), os.fspath(tmp_path / "bare.git"))
    done = work.baton("--repo-root", str(tmp_path / "bare.git"), "show", "refs/baton/tracks/t:a.txt")
    assert (done.code, done.out) == (0, "three\n"), done
