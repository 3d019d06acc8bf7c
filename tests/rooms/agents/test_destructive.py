"""Destructive commands: read out of a line wherever they stand, and sorted out by the client's own shell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.agents.destructive import FILTER, Danger, dangers, shown
from gitbaton.agents.install.levels import CLIENTS, command, is_ours, track_of
from tests.kit.destructive import REPORTED
from tests.kit.tables import each
from tests.kit.tiers import examples
from tests.promises.test_destructive import HARMLESS, QUICK

PLACES: dict[str, tuple[tuple[str | None, ...], ...]] = {
    "rm x": ((),),
    "cd a && rm x": (("a",),),
    "cd a; cd b/c; rm x": (("a", "b/c"),),
    "(cd a && make); rm x": (("a",), ()),
    "cd a || exit 1; rm x": (("a",), ()),
    "pushd a && popd && rm x": (("a", None), ("a",)),
    "cd && rm x": (("~",),),
    "cd - && rm x": ((None,),),
    "cd $(mktemp -d) && rm x": (("$(mktemp -d)",),),
    "git -C a -C b rm -f x": (("a", "b"),),
    "cd a && bash -c 'cd b && rm x'": (("a", "b"),),
}
PATHS: dict[str, tuple[str, ...]] = {
    "rm -rf -- -x 'a b'": ("-x", "a b"),
    "sudo -u me env A=1 nice -n 5 timeout -k 1 9 rm x": ("x",),
    "git checkout v1 -- a": (),
    "git checkout a b": ("a", "b"),
    "git clean -fdX -e '*.log' a": ("a",),
    "mv a b/c d": ("d", "d/a", "d/c"),
    "cp -t d a": ("d", "d/a"),
    "dd if=a of=b": ("b",),
    "truncate --size 0 a": ("a",),
    "find a b -name x -delete": ("a", "b"),
    "find -type f -exec shred -u {} ;": (".",),
    "git worktree remove -f ../w": ("../w",),
    "rsync -a --delete-after a/ b": ("b",),
    "a | tee b c": ("b", "c"),
    "a 2>&1 >b": ("b",),
    "a &> b": ("b",),
    "a >| 'b c'": ("b c",),
    "find . -print0 | xargs -0 rm": (".",),
    '"rm" x': ("x",),
    "\\rm\tx": ("x",),
    "bash -ex <<'END'\nrm x\nEND": ("x",),
    "cat <<END | sudo /bin/sh\nrm x\nEND": ("x",),
    "f() { rm x; }; f": ("x",),
    "trap 'rm x' EXIT": ("x",),
    "a | xargs git checkout --": (),
    "a | xargs git rm -f": (),
    "git checkout :/": (),
    "git checkout '*.py'": (),
    "git branch -df x": (),
    "git switch --force-create x": (),
    "git checkout -B x y": (),
    "git update-ref -d refs/heads/x": (),
    "cp --update a b": ("b", "b/a"),
    "ln -sf ../a b": ("b", "b/a"),
    "ln --force a b c": ("c", "c/a", "c/b"),
}
NONE = (
    *(
        "rm",
        "git",
        "git rm x",
        "git mv a b",
        "git checkout",
        "git checkout --",
        "git checkout -q -b x y",
        "git switch x",
        "cp a",
        "ln -s a b",
    ),
    *(
        "git stash show -p",
        "git worktree add ../w",
        "git worktree prune",
        "git merge x",
        "git rebase --edit-todo",
        "sed -n 1p a",
    ),
    *(
        "sed -i s/a/b/ one",
        "sed -i -e s/a/b/ one",
        "perl -pe 1 a b",
        "perl -MList::Util -e 1 a b",
        "ruby -Ilib a.rb b.rb",
        "cat <<END\nrm x\nEND",
        "ssh host bash <<END\nrm x\nEND",
        "bash a.sh <<END\nrm x\nEND",
        "find . -name '*.py'",
        "find . -exec grep x {} +",
        "tee -a b",
    ),
    *(
        "a >> b",
        "a > /dev/null",
        "a 2>&1",
        "a >&2",
        "rsync -a a b",
        "rsync -a --delete a host:b",
        "ssh host rm -rf x",
        "mv -n a b",
    ),
    *("xargs echo rm", "make clean", "npm run clean", "./clean.sh", "python3 -c 'rm()'", "bash script.sh", "git reset HEAD x"),
    *(
        "# rm -rf x",
        "echo 'a > b'",
        "true #> b",
        "git commit -m 'x' -- rm",
        "alias rm='rm -i'",
        "git clean --dry-run",
        "(",
        "' rm",
    ),
)


@each("line", PLACES)
def test_where_a_command_runs(line: str) -> None:
    assert [one.folders for one in dangers(line)] == [PLACES[line]]


@each("line", PATHS)
def test_what_it_takes(line: str) -> None:
    assert [one.paths for one in dangers(line)] == [PATHS[line]]


def test_what_is_none() -> None:
    assert {line: found for line in NONE if (found := dangers(line))} == {}


def test_ones_own_commands() -> None:
    own = ("npm run format", "'odd", "")
    whole = Danger(text="x", whole=True)
    assert [one.whole for one in dangers("cd a && npm run format -- --all", own)] == [whole.whole]
    assert dangers("npm run formatter", own) == () == dangers("npm run format")
    assert dangers("npx prettier --write .", ("prettier --write",)) and dangers(
        "./node_modules/.bin/prettier --write", ("prettier",)
    )


def test_several_are_told_in_one_line() -> None:
    found = dangers("rm a; git clean -fd &&\\\n  rm a\nsed -i 's/x/\n/' *.py")
    assert shown(found) == "rm a; git clean -fd; sed -i 's/x/ /' *.py"


@pytest.mark.deep
def test_a_line_of_any_length_is_read_in_little_time() -> None:
    for line in (
        "rm x;" * 50_000,
        "(" * 50_000 + "rm x",
        "$(" * 50_000,
        "sh -c '" * 5_000,
        "find . -exec " * 20_000,
        ">" * 100_000,
    ):
        assert isinstance(dangers(line), tuple)


@settings(max_examples=examples(5000, 200), deadline=None)
@given(st.lists(st.sampled_from([*(word for line in (*REPORTED, *PATHS) for word in line.split()), *"'\"\\$(){}<>|&;#` \n"])))
def test_any_line_is_read(words: list[str]) -> None:
    found = dangers(" ".join(words))
    assert all(one.text and one.folders for one in found) and isinstance(shown(found), str)


def passes(shell: str, lines: list[str]) -> list[bool]:
    """Whether the patterns of our line let each payload through, asked of a shell."""
    script = f"while IFS= read -r p; do case $p in {FILTER}) echo 1;; *) echo 0;; esac; done"
    payloads = [json.dumps({"cwd": "/home/dev/p", "permission_mode": "x", "tool_input": {"command": line}}) for line in lines]
    done = subprocess.run([shell, "-c", script], input="\n".join(payloads) + "\n", capture_output=True, text=True, check=True)
    return [row == "1" for row in done.stdout.splitlines()]


def test_the_shell_sorts_out_what_is_harmless_and_no_more() -> None:
    harmful = [*REPORTED, *PLACES, *PATHS, *(f"true\n{line}" for line in (*REPORTED, *PATHS)), *(f"x;{line}" for line in PATHS)]
    harmful += [f"true\n\t{line}" for line in (*REPORTED, *PATHS)]
    assert all(dangers(line) or line.startswith("BUILD") for line in harmful)
    for shell in filter(shutil.which, ("sh", "bash", "busybox", "mksh", "zsh")):
        words = [shell, "sh"] if shell == "busybox" else [shell]
        assert words and [line for line, through in zip(harmful, passes(shell, harmful), strict=True) if not through] == []
        assert [line for line, through in zip(QUICK, passes(shell, [*QUICK]), strict=True) if through] == []
    assert [line for line in (*QUICK, *HARMLESS) if any(one.whole for one in dangers(line))] == []


def test_our_line_hands_the_payload_on_and_never_fails(tmp_path: Path) -> None:
    got, program = tmp_path / "got", tmp_path / "bin/git-baton"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat >"$GOT"\necho "$@" >>"$GOT.words"\necho noise >&2\nexit 2\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "GOT": str(got)}
    line = command("claude", "PreToolUse", "it's")
    long = json.dumps({"tool_input": {"command": "git clean -fd # é\n'\\\"%s" + "x" * 200_000}})
    for shell in filter(shutil.which, ("sh", "bash")):
        for data, reaches in (
            (long, True),
            (json.dumps({"command": "ls"}), False),
            ("", False),
            (json.dumps({"transcript_path": "/h/-w--keep/x", "cwd": "/w/checkout", "tool_input": {"command": "ls"}}), False),
            (json.dumps({"cwd": "/w", "toolArgs": json.dumps({"command": "git clean -fd"})}), True),
            (json.dumps({"command": "git branch submodule " * 5000}), True),
        ):
            got.unlink(missing_ok=True)
            done = subprocess.run([shell, "-c", line], input=data.encode(), env=env, cwd=tmp_path, capture_output=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
            assert (got.read_text() if got.exists() else None) == (data if reaches else None)
    assert set((tmp_path / "got.words").read_text().splitlines()) == {"hook claude PreToolUse --track it's"}
    program.unlink()
    gone = subprocess.run(["sh", "-c", line], input=long.encode(), env={**env, "PATH": "/usr/bin:/bin"}, capture_output=True)
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, b"", b"")


def test_a_command_of_ones_own_is_let_through(tmp_path: Path) -> None:
    program = tmp_path / "bin/git-baton"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >>"$GOT"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "GOT": str(tmp_path / "got")}
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for value in ("black .", "", 'say "it now"', "npm run format"):
        subprocess.run(["git", "config", "--add", "baton.guardCommand", value], cwd=tmp_path, check=True)
    for text, reaches in (
        ("npm run format", True),
        ("npm run forma", False),
        ("uv run black . -q", True),
        ('say "it now"', True),
    ):
        data = json.dumps({"tool_input": {"command": text}}).encode()
        done = subprocess.run(["sh", "-c", command("codex", "PreToolUse")], input=data, env=env, cwd=tmp_path, check=True)
        assert done.returncode == 0 and (tmp_path / "got").exists() == reaches, text
        (tmp_path / "got").unlink(missing_ok=True)


def test_the_line_is_known_again() -> None:
    for client in CLIENTS:
        for hook in client.hooks:
            line = command(client.name, hook.event, "a'b")
            assert track_of(line) == "a'b" and is_ours({"command": line}, client), line
            assert not is_ours({"command": line + "; rm x"}, client) and not is_ours({"command": "true; " + line}, client)
