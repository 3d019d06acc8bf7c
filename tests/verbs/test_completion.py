"""``git baton completion``: what bash, zsh and fish offer, asked of the shells themselves; and where it is written."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitbaton.cli.options import Argument, declared
from gitbaton.cli.verbs import GROUPS, below, verb_function
from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.roff import MAN

DATA = ROOT / "gitbaton/data/completion"
GIT_COMPLETION = Path("/usr/share/bash-completion/completions/git")
FIRST = {name.split()[0] for title, verbs in GROUPS.items() if title for name in verbs}


@pytest.fixture
def two(repo: Sandbox) -> Sandbox:
    repo.ok("snapshot", "--track", "alpha", "--step", "first words")
    repo.ok("snapshot", "--track", "beta", "--step", "lexer done")
    repo.ok("snapshot", "--track", "beta", "--step", "parser done")
    repo.ok("run", "--run", "nightly", "--step", "a", "--", "true")
    return repo


def offered(repo: Sandbox, line: str) -> dict[str, str]:
    """What our side answers for a line after ``git baton``, each with its meaning."""
    rows = repo.ok("complete", "--", *line.split(" ")).out.splitlines()
    return {name: meaning for name, _, meaning in (row.partition("\t") for row in rows)}


@pytest.mark.deep
def test_everything_that_may_follow_is_offered_with_what_it_means(two: Sandbox) -> None:
    assert set(offered(two, "")) == FIRST and offered(two, "resu") == {"resume": "print what the next runner needs to go on"}
    assert set(offered(two, "run ")) >= {*below("run")} and set(offered(two, "thread ")) == {*below("thread")}
    assert set(offered(two, "--repo-root x ver")) == {"verify"}
    assert offered(two, "resume --track ") == {"beta": "parser done", "alpha": "first words"}
    assert offered(two, "resume --track=al") == {"--track=alpha": "first words"}
    named = {"beta": "parser done", "alpha": "first words", "@": "parser done", "@~1": "lexer done"}
    assert offered(two, "show ") == {**named, "": "files"} and offered(two, "pin ") == named
    assert set(offered(two, "snapshot --validation ")) == {"green", "pending", "failed"}
    assert set(offered(two, "run --step x --effect o")) == {"once"}
    assert set(offered(two, "tracks ")) == {"use", "rename", "delete", "restore"} and set(offered(two, "tracks use al")) == {
        "alpha"
    }
    assert set(offered(two, "run show ")) == {"nightly"} and set(offered(two, "agent install cl")) == {"claude"}
    assert set(offered(two, "help st")) == {"status", "statusline", "storage"}
    assert offered(two, "diff -- ") == {"": "files"} and offered(two, "nobody ") == {}
    for verb in ("verify", "run why"):
        known = [name for p in declared(verb_function(verb)) if not isinstance(p.of, Argument) for name, _ in p.names()]
        assert set(offered(two, f"{verb} --")) == {name for name in known if name.startswith("--")} | {"--help"}


def test_the_decisions_that_stand_are_offered_by_their_numbers(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "alpha", "a", "--decision", "one", "--decision", "two", "--note", "n", "--keep", "note")
    repo.ok("snapshot", "--track", "beta", "b", "--decision", "three", "--extra", "pr=1")
    assert offered(repo, "snapshot x --track alpha --withdraw ") == {"1": "one", "2": "two", "note": "is kept"}
    assert offered(repo, "snapshot x --withdraw=") == {"--withdraw=1": "three"}
    assert offered(repo, "snapshot x --keep ") == {"1": "three", "extra.pr": ""}


def test_where_there_is_no_repository_verbs_are_offered_and_nothing_fails(tmp_path: Path, repo: Sandbox) -> None:
    for words, least in (([""], "snapshot"), (["show", ""], "")):
        done = repo.run("git", "baton", "complete", "--", *words, cwd=tmp_path)
        assert done.code == 0 and done.err == "" and least in done.out


def bash(repo: Sandbox, line: str) -> set[str]:
    """What bash offers at the end of a command line."""
    direct = line.startswith("git-baton")
    script = f"""
source {GIT_COMPLETION}
source {shlex.quote(str(DATA / "git-baton"))}
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
{"_git_baton" if direct else "__git_wrap__git_main"}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = repo.run("bash", "-c", script)
    assert done.err == "", done.err
    return {word.strip() for word in done.out.splitlines() if word.strip()}


@pytest.mark.deep
@pytest.mark.skipif(not GIT_COMPLETION.exists(), reason="git's bash completion is not installed")
def test_bash(two: Sandbox) -> None:
    assert bash(two, "git baton ") == FIRST == bash(two, "git-baton ")
    assert bash(two, "git baton run show --re") == {"--records"}
    assert bash(two, "git -C . baton --no-pager verify --st") == {"--strict"}
    assert bash(two, "git-baton resume --track a") == {"alpha"} and bash(two, "git baton show @~") == {"@~1"}
    two.write("sub/a.txt", "1\n")
    assert bash(two, "git baton diff -- su") == {"sub"}


@pytest.mark.full
@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(two: Sandbox, tmp_path: Path) -> None:
    """Asked of a new fish after ``--install`` and nothing else: what completes ``git baton`` it seeks by the name of git."""
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}

    def fish(line: str) -> dict[str, str]:
        done = two.run("fish", "-c", f"complete -C {line!r}", env=env)
        assert done.code == 0, done.err
        return dict(row.partition("\t")[::2] for row in done.out.splitlines())

    assert two.baton("completion", "fish", "--install", env=env).code == 0
    assert set(fish("git-baton ")) == FIRST == set(fish("git baton "))
    for line in ("git baton resu", "git-baton resu", "git -C . baton resu"):
        assert fish(line) == {"resume": "print what the next runner needs to go on"}, line
    assert fish("git baton show @") == {"@": "parser done", "@~1": "lexer done"}
    assert set(fish("git-baton run show --re")) == {"--records"}
    assert "checkout" in fish("git chec") and "main" in fish("git merge baton ma")
    two.write("resumed.txt", "1\n")
    assert set(fish("git baton diff -- resu")) == {"resumed.txt"} and set(fish("git baton resu")) == {"resume"}
    assert two.baton("completion", "fish", "--uninstall", env=env).code == 0 and "resume" not in fish("git-baton resu")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh(two: Sandbox) -> None:
    """Typed on a terminal of its own: Tab completes the word, and lists what there is with what it means."""
    master, slave = pty.openpty()
    begin = f"PS1=; fpath=({DATA} $fpath); autoload -U compinit && compinit -u -D; print rea''dy\n"
    child = subprocess.Popen(["zsh", "-f", "-i"], cwd=two.path, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    shown = b""

    def until(text: bytes) -> None:
        nonlocal shown
        deadline = time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 65536)

    try:
        os.write(master, begin.encode())
        until(b"ready")
        os.write(master, b"git-baton resume --track al\t")
        until(b"--track alpha")
        os.write(master, b"\x15git-baton show @\t\t")
        until(b"@~1  -- lexer done")
    finally:
        child.kill()
        child.wait()
        os.close(master)
        os.close(slave)


def test_man_pages_are_linked_where_man_looks_and_go_with_the_last_completion(
    repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, pages = tmp_path / "tool", tmp_path / ".local/share/man"
    shutil.copytree(MAN, tool / "share/man")
    monkeypatch.setattr(sys, "prefix", str(tool))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tool / 'bin'}:/usr/bin:/bin")
    assert "man page" not in repo.here("completion", "bash", "--install").out and not pages.exists()  # man finds those there

    monkeypatch.setenv("PATH", f"{tmp_path / '.local/bin'}:/usr/bin:/bin")
    (pages / "man1").mkdir(parents=True)
    (pages / "man1/git-baton-log.1").symlink_to(tool / "share/man/man1/git-baton-log.1")  # of another installer
    (pages / "man1/git-baton-show.1").symlink_to(tmp_path / "gone/git-baton-show.1")
    count = sum(path.is_file() for path in MAN.rglob("*"))
    assert f"linked {count - 1} man pages into ~/.local/share/man" in repo.here("completion", "bash", "--install").out
    for path in MAN.rglob("*.*"):
        assert (pages / path.relative_to(MAN)).read_text() == path.read_text()
    assert "man page" not in repo.here("completion", "zsh", "--install").out, "all are there"
    (pages / "man1/git-baton-why.1").unlink()  # as before an upgrade
    assert "linked 1 man page into" in repo.here("completion", "zsh", "--install").out
    assert "man page" not in repo.here("completion", "bash", "--uninstall").out, "zsh has them still"
    assert f"removed {count - 1} man pages" in repo.here("completion", "zsh", "--uninstall").out
    assert [path.name for path in pages.rglob("*.*")] == ["git-baton-log.1"]
    assert repo.here("completion", "zsh", "--uninstall").out == "nothing of ours is installed\n"


@pytest.mark.deep
def test_it_is_written_where_each_shell_looks_and_taken_back(repo: Sandbox, tmp_path: Path) -> None:
    share = tmp_path / "share"
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    env |= {"XDG_DATA_DIRS": f"{tmp_path / 'none'}:{share}", "HOME": str(tmp_path)}
    for shell, name, place in (
        ("bash", "git-baton", "data/bash-completion/completions/git-baton"),
        ("zsh", "_git-baton", "data/zsh/site-functions/_git-baton"),
        ("fish", "git-baton.fish", "config/fish/conf.d/git-baton.fish"),
    ):
        text = (DATA / name).read_text()
        assert repo.ok("completion", shell).out == text
        done = repo.baton("completion", shell, "--install", env=env)
        assert done.out.splitlines()[0] == f"wrote {tmp_path / place}" and (tmp_path / place).read_text() == text
        assert ("fpath=" in done.err) == (shell == "zsh") and f"'exec {shell}'" in done.err
        assert ("bash-completion, which reads it, is not found" in done.err) == (shell == "bash")
        stays = f"hint: your completion of {shell} stays: 'git baton completion {shell} --uninstall' removes it\n"
        assert repo.baton("uninstall", env=env).err == stays and (tmp_path / place).exists(), "it is the user's, everywhere"
        assert repo.baton("completion", shell, "--uninstall", env=env).code == 0 and not (tmp_path / place).exists()
        assert repo.baton("completion", shell, "--uninstall", env=env).out == "nothing of ours is installed\n"
        (tmp_path / place).write_text("somebody else's\n")
        assert repo.baton("completion", shell, "--uninstall", env=env).code == 129 and (tmp_path / place).exists()
        assert repo.baton("uninstall", env=env).err == ""
    Sandbox(share).write("bash-completion/bash_completion", "")
    assert "not found" not in repo.baton("completion", "bash", "--install", env=env).err
    assert repo.baton("completion", "tcsh").code == 129
