"""git baton diff: the user's own git diff between captured trees, and between one and what the work tree is now."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.capturekit import git_files, index_path, state
from tests.kit.tiers import some
from tests.verbs.test_tty import on_terminal, tool

CHAIN = "refs/baton/tracks/t"


@pytest.fixture
def work(repo: Sandbox) -> Sandbox:
    """Two checkpoints of track ``t`` whose trees differ in every way that git diff has a word for, and a work tree after."""
    repo.write("gone.txt", "gone\n")
    repo.write("name.txt", "".join(f"line {n}\n" for n in range(20)))
    repo.write("bytes", bytes(range(256)))
    repo.write("run.sh", "echo\n")
    repo.write("sub/in.txt", "in\n")
    repo.commit("files")
    snapshot(repo, "one")
    repo.write("a.txt", "two\n")
    (repo.path / "gone.txt").unlink()
    (repo.path / "name.txt").rename(repo.path / "renamed.txt")
    repo.write("bytes", bytes(reversed(range(256))))
    (repo.path / "run.sh").chmod(0o755)
    repo.write("sub/in.txt", "changed in\n")
    (repo.path / "link").symlink_to("a.txt")
    repo.write("untracked\tname", "untracked\n")
    snapshot(repo, "two")
    repo.write("a.txt", "three\n")
    repo.write("later.txt", "later\n")
    return repo


def snapshot(repo: Sandbox, step: str, track: str = "t", **words: str) -> None:
    repo.ok("snapshot", "--track", track, "--step", step, *(w for k, v in words.items() for w in (f"--{k}", v)))


def verify_same(done: Outcome, repo: Sandbox, *words: str) -> None:
    """What we print must be what git itself prints."""
    assert (done.code, done.err) == (0, "")
    assert done.out == repo.run("git", *words).out and done.out != ""


def verify_fatal(done: Outcome, code: int, text: str) -> None:
    """One fatal line, perhaps with hints, and nothing else."""
    first, *rest = done.err.splitlines()
    assert (done.code, done.out) == (code, "") and all(row.startswith("hint: ") for row in rest), done
    assert first.startswith("fatal: ") and text in first, first


@pytest.mark.full
@some("form", [(), ("--stat",), ("--name-status",), ("--patch",), ("-p",), ("--stat", "-p")])
def test_between_two_checkpoints_it_is_git_diff(work: Sandbox, form: tuple[str, ...]) -> None:
    verify_same(work.baton("diff", "t~1", "t", *form), work, "diff", *form, f"{CHAIN}~1", CHAIN)
    verify_same(work.baton("diff", *form, "t", "t~1"), work, "diff", *form, CHAIN, f"{CHAIN}~1")
    assert work.baton("diff", "t", "t").out == ""


def test_the_kinds_of_change_are_all_there(work: Sandbox) -> None:
    shown = work.ok("diff", "t~1", "t", "--name-status").out.splitlines()
    assert shown == ["M\ta.txt", "M\tbytes", "D\tgone.txt", "A\tlink", "R100\tname.txt\trenamed.txt", "M\trun.sh",
                     "M\tsub/in.txt", 'A\t"untracked\\tname"']  # fmt: skip
    patch = work.ok("diff", "t~1", "t").out
    assert "Binary files a/bytes and b/bytes differ" in patch and "new mode 100755" in patch and "new file mode 120000" in patch


@pytest.mark.full
@some("words", [(), ("t",), ("@",), ("--",), ("t", "--")])
def test_until_now_is_what_a_snapshot_would_hold(work: Sandbox, words: tuple[str, ...]) -> None:
    work.git("add", "later.txt")
    work.write("new/deep.txt", "never added\n")
    work.write("x.env/.env", "kept out\n")
    before = state(index_path(work)), git_files(work), work.git("for-each-ref")
    done = work.baton("diff", *words)
    assert (state(index_path(work)), git_files(work), work.git("for-each-ref")) == before
    assert done.err == "warning: 'x.env/.env' is not compared as it is on disk: excluded\n"
    snapshot(work, "three")
    assert done.code == 0 and done.out == work.git("diff", f"{CHAIN}~1", CHAIN) + "\n"
    assert "+never added" in done.out and "later.txt" in done.out and "kept out" not in done.out
    assert work.ok("diff").out == ""


@pytest.mark.full
def test_it_leaves_nothing_in_the_temporary_directory(work: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'tmp "odd:\\').mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / 'tmp "odd:\\'))
    assert "+later" in work.ok("diff").out
    assert work.baton("diff", "--", "../outside").code == 128
    assert not list((tmp_path / 'tmp "odd:\\').iterdir())


@pytest.mark.full
def test_paths_are_relative_to_the_current_directory(work: Sandbox, tmp_path: Path) -> None:
    sub = work.path / "sub"
    for words in (("t~1", "t", "in.txt"), ("t~1", "t", "--", "in.txt"), ("t~1", "t", "--", ":/sub"), ("t~1", "t", "*.txt")):
        done = work.baton("diff", "--name-status", *words, cwd=sub)
        assert (done.code, done.out) == (0, "M\tsub/in.txt\n"), words
    assert work.baton("diff", "--stat", ".", cwd=sub).out == ""
    work.write("sub/in.txt", "again\n")
    assert work.baton("diff", "--name-status", ".", cwd=sub).out == "M\tsub/in.txt\n"
    assert work.baton("diff", "--name-status", cwd=sub).out == "M\ta.txt\nA\tlater.txt\nM\tsub/in.txt\n"
    done = work.baton("--repo-root", str(sub), "diff", "--name-status", "t", "in.txt", cwd=tmp_path)
    assert (done.code, done.out) == (0, "M\tsub/in.txt\n"), done
    assert work.run("git", "-C", "sub", "baton", "diff", "--name-status", "--", "in.txt").out == "M\tsub/in.txt\n"


@pytest.mark.deep
def test_words_without_dashes_are_taken_as_git_takes_them(work: Sandbox) -> None:
    assert work.ok("diff", "--name-status", "a.txt").out == "M\ta.txt\n"
    assert work.ok("diff", "--name-status", "a.txt", "later.txt").out == "M\ta.txt\nA\tlater.txt\n"
    verify_fatal(work.baton("diff", "nowhere"), 2, "'nowhere' is neither a checkpoint nor a path")
    verify_fatal(work.baton("diff", "t~9"), 2, "'t~9' is neither")
    verify_fatal(work.baton("diff", "a.txt", "t"), 2, "there is no path 't'")
    verify_fatal(work.baton("diff", "t", "t~1", "t"), 2, "there is no path 't'")
    assert work.ok("diff", "--name-status", "t~1", "t", "--", "gone.txt", "t").out == "D\tgone.txt\n"
    verify_fatal(work.baton("diff", "nowhere", "--"), 2, "there is no checkpoint 'nowhere'")
    verify_fatal(work.baton("diff", "t", "t", "t", "--"), 129, "unexpected argument 't'")
    verify_fatal(work.baton("diff", "--cached"), 129, "unknown option '--cached'")
    work.write("t", "a file of that name\n")
    verify_fatal(work.baton("diff", "t"), 128, "'t' is both a checkpoint and a path")
    assert work.ok("diff", "--name-status", "t", "--").out == "M\ta.txt\nA\tlater.txt\nA\tt\n"
    assert work.ok("diff", "--name-status", "--", "t").out == "A\tt\n"


@pytest.mark.deep
def test_two_with_dots_between_are_two(work: Sandbox) -> None:
    theirs = work.git("diff", f"{CHAIN}~1", CHAIN) + "\n"
    for words in (("t~1..t",), ("t^..t",), ("@^..",), ("t^..", "--"), ("@^..@", "--track", "t"), ("..t", "--"), ("t^..t", ".")):
        done = work.baton("diff", *words)
        assert (done.code, done.err, done.out) == (0, "", "" if words[0] == "..t" else theirs), words
    assert (
        work.ok("diff", "t..t^", "--stat", "--", "a.txt").out == work.git("diff", "--stat", CHAIN, f"{CHAIN}~1", "a.txt") + "\n"
    )
    verify_fatal(work.baton("diff", "t^..t", "t", "--"), 129, "unexpected argument 't'")
    verify_fatal(work.baton("diff", "t^..t", "t"), 2, "there is no path 't'")
    verify_fatal(work.baton("diff", "t^..nowhere"), 2, "'t^..nowhere' is neither a checkpoint nor a path")
    done = work.baton("diff", "t^...t")
    assert done.code == 2 and "hint: perhaps 't^..t' is meant\n" in done.err
    verify_fatal(work.baton("diff", "t^..t", "--track", "t"), 129, "the checkpoint 't^' and --track exclude each other")
    work.write("t..t^", "a file of that name\n")
    verify_fatal(work.baton("diff", "t..t^"), 128, "'t..t^' is both a checkpoint and a path")
    snapshot(work, "three", label="a..b")
    assert work.ok("diff", "a..b", "--").out == "", "a label that is called so comes first"


@pytest.mark.deep
def test_a_way_up_is_no_range(work: Sandbox) -> None:
    sub = work.path / "sub"
    for words, changed in (
        (("..",), "M\ta.txt\nA\tlater.txt\n"),
        (("../a.txt",), "M\ta.txt\n"),
        (("t", "../a.txt"), "M\ta.txt\n"),
    ):
        done = work.baton("diff", "--name-status", *words, cwd=sub)
        assert (done.code, done.out, done.err) == (0, changed, ""), words


@pytest.mark.deep
def test_names_only_and_blanks_are_gits_own(work: Sandbox) -> None:
    verify_same(work.baton("diff", "--name-only", "t^..t"), work, "diff", "--name-only", f"{CHAIN}~1", CHAIN)
    assert work.ok("diff", "--name-only").out == "a.txt\nlater.txt\n"
    work.write("a.txt", "  t w\to \n")
    for form in ("-w", "--ignore-all-space"):
        assert work.ok("diff", form, "--", "a.txt").out == "" != work.ok("diff", "--", "a.txt").out
        assert work.ok("diff", form, "--stat").out.splitlines()[-1] == " 1 file changed, 1 insertion(+)"
    verify_fatal(work.baton("diff", "--name-only", "--name-status"), 129, "--name-only and --name-status exclude each other")


@pytest.mark.full
def test_a_checkpoint_without_files_is_named(work: Sandbox, tmp_path: Path) -> None:
    work.ok("snapshot", "--track", "t", "--step", "words only", "--no-files")
    short = work.git("rev-parse", "refs/checkpoints/t")[:10]
    for words in ((), ("t~1", "t"), ("t", "t~1")):
        verify_fatal(work.baton("diff", *words), 128, f"checkpoint '{short}' of track 't' holds no files")
    empty = Sandbox.init(tmp_path / "empty")
    verify_fatal(empty.baton("diff"), 2, "there is no checkpoint in this repository")


HOSTILE = ("--output=pwned", "-O pwned", "--ext-diff", "--", "$(touch pwned)", "HEAD", "./x")


@pytest.mark.full
def test_stored_words_never_reach_git_as_options(repo: Sandbox) -> None:
    for number, name in enumerate(HOSTILE):
        repo.write("a.txt", f"{number}\n")
        with repo.open() as baton:
            baton.snapshot(name, track=name, label=name, note=name)
    repo.write("a.txt", "now\n")
    for name in HOSTILE:
        ref = repo.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks").splitlines()
        chain = next(r for r in ref if repo.git("log", "-1", "--format=%s", r) == name)
        done = repo.baton("diff", chain, "--")
        assert done.code == 0 and done.out == repo.git("diff", chain, "--", "a.txt") + "\n", name
    assert repo.baton("diff", "--output=pwned").code == 129
    assert repo.baton("diff", "--", "--output=pwned").out == ""
    assert sorted(p.name for p in repo.path.iterdir()) == [".git", "a.txt", "runtime"]


@pytest.mark.full
@some(
    ("key", "setting", "seen"),
    [
        ("diff.noprefix", "true", "diff --git a.txt a.txt"),
        ("diff.mnemonicPrefix", "true", "diff --git "),
        ("diff.context", "1", "@@"),
        ("diff.renames", "false", "deleted file"),
        ("color.ui", "always", "\x1b[1mdiff"),
        ("diff.orderFile", "order", "diff"),
        ("diff.external", "echo external; :", "external\nexternal"),
        ("diff.statGraphWidth", "1", "diff"),
    ],
)
def test_the_users_settings_count(work: Sandbox, key: str, setting: str, seen: str) -> None:
    work.write(".git/order", "renamed.txt\n")
    work.git("config", key, str(work.path / ".git/order") if setting == "order" else setting)
    verify_same(work.baton("diff", "t~1", "t"), work, "diff", f"{CHAIN}~1", CHAIN)
    assert seen in work.ok("diff", "t~1", "t").out
    verify_same(work.baton("diff", "--stat", "t~1", "t"), work, "diff", "--stat", f"{CHAIN}~1", CHAIN)


@pytest.mark.full
def test_attributes_textconv_and_settings_of_one_command(work: Sandbox) -> None:
    work.git("config", "diff.hex.textconv", "od -An -tx1")
    work.write(".gitattributes", "bytes diff=hex\n")
    assert "ff fe fd" in work.ok("diff", "t~1", "t", "--", "bytes").out
    done = work.run("git", "-c", "diff.noprefix=true", "baton", "diff", "--", "a.txt")
    assert done.out.startswith("diff --git a.txt a.txt\n")


@pytest.mark.full
def test_colour_and_its_places(work: Sandbox) -> None:
    assert "\x1b[" not in work.ok("diff").out
    assert "\x1b[32m+\x1b[m\x1b[32mlater" in work.ok("--color", "diff").out
    work.git("config", "color.diff", "always")
    assert "\x1b[" in work.ok("diff").out
    assert "\x1b[" not in work.ok("--no-color", "diff").out
    assert "\x1b[" not in work.baton("diff", env={"NO_COLOR": "1"}).out


@pytest.mark.full
def test_a_terminal_gets_colour_and_the_users_pager(work: Sandbox, tmp_path: Path) -> None:
    env = {"PAGER": tool(tmp_path / "pager", "sed 's/^/paged: /'")}
    code, shown = on_terminal(work, "diff", env=env)
    assert code == 0 and shown and all(row.startswith("paged: ") for row in shown.splitlines()), shown
    assert "\x1b[32m+" in shown and (tmp_path / "used").exists()
    (tmp_path / "used").unlink()
    for words, more in ((("--no-pager", "diff"), {}), (("diff",), {"GIT_PAGER": "cat"}), (("diff", "t", "t"), {})):
        code, shown = on_terminal(work, *words, env={**env, **more})
        assert code == 0 and "paged" not in shown, shown
    work.git("config", "pager.diff", tool(tmp_path / "own", "sed 's/^/diff: /'"))
    assert on_terminal(work, "diff", env=env)[1].startswith("diff: ")
    work.git("config", "pager.diff", "false")
    assert "diff: " not in on_terminal(work, "diff", env=env)[1]


@pytest.mark.full
def test_who_stops_reading_is_no_error_message(work: Sandbox, tmp_path: Path) -> None:
    work.write("large.txt", "".join(f"line {n}\n" for n in range(200_000)))
    done = work.run("bash", "-c", '"$0" -m gitbaton diff | head -c 1; echo " ${PIPESTATUS[0]}"', sys.executable)
    assert (done.out, done.err) == ("d 141\n", "")
    code, shown = on_terminal(work, "diff", env={"PAGER": tool(tmp_path / "quits", "head -n 1; exec <&-")})
    assert code in (0, 141) and "fatal" not in shown and "Traceback" not in shown and len(shown.splitlines()) == 1, shown


@pytest.mark.deep
def test_ctrl_c_is_the_pagers_to_answer(work: Sandbox, tmp_path: Path) -> None:
    text = f"trap 'echo caught' INT; cat >/dev/null; touch '{tmp_path}/ready'; sleep 0.5; sleep 0.5; echo left"
    pager = tool(tmp_path / "pager", text)
    script = (
        "import os,pty,sys,signal,threading,time\n"
        "def press():\n"
        f"    while not os.path.exists({str(tmp_path / 'ready')!r}): time.sleep(0.02)\n"
        "    os.write(fd, b'\\x03')\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0: os.execv(sys.executable, [sys.executable, '-m', 'gitbaton', 'diff'])\n"
        "threading.Thread(target=press, daemon=True).start()\n"
        "shown = b''\n"
        "try:\n"
        "    while chunk := os.read(fd, 4096): shown += chunk\n"
        "except OSError: pass\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown)\n"
    )
    done = work.run(sys.executable, "-c", script, env={"PAGER": pager, "TERM": "xterm"})
    assert "caught" in done.out and "left" in done.out and "Traceback" not in done.out, done


@pytest.mark.full
def test_git_that_is_killed_is_128_and_the_signal(work: Sandbox) -> None:
    work.git("config", "diff.external", "kill -TERM $PPID; sleep 0.5; true")
    assert work.baton("diff", "t~1", "t").code in (128 + signal.SIGTERM, 128)


def test_a_bare_repository_has_checkpoints_and_no_now(work: Sandbox, tmp_path: Path) -> None:
    bare = Sandbox(tmp_path / "bare")
    shutil.copytree(work.path / ".git", bare.path)  # a mirror's checkpoints would be foreign
    bare.git("config", "core.bare", "true")
    verify_same(bare.baton("diff", "t~1", "t"), bare, "diff", f"{CHAIN}~1", CHAIN)
    verify_fatal(bare.baton("diff", "t"), 128, "there is no work tree to compare with")


@pytest.mark.deep
def test_an_unborn_head_a_linked_work_tree_and_git_dir(work: Sandbox, tmp_path: Path) -> None:
    fresh = Sandbox.init(tmp_path / "fresh")
    fresh.write("x", "1\n")
    snapshot(fresh, "unborn")
    fresh.write("x", "2\n")
    assert fresh.ok("diff").out.endswith("-1\n+2\n")
    linked = Sandbox(tmp_path / "linked")
    work.git("worktree", "add", "-q", "--detach", str(linked.path))
    assert linked.ok("diff", "--name-status", "t~1").out == ""
    env = {"GIT_DIR": str(work.path / ".git"), "GIT_WORK_TREE": str(work.path)}
    done = work.baton("diff", "--name-status", env=env, cwd=tmp_path)
    assert (done.code, done.out) == (0, "M\ta.txt\nA\tlater.txt\n"), done
    done = work.baton("--repo-root", str(fresh.path), "diff", "--name-status", env=env)
    assert (done.code, done.out) == (0, "M\tx\n"), done
