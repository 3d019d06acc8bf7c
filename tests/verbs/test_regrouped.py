"""The verbs of runs and threads stand under one word each; the names that they had before go on working and say the new one."""

from __future__ import annotations

import re

import pytest

from gitbaton.cli.usage import unknown
from gitbaton.cli.verbs import DESTROY, GROUPS, OLD, VERBS, below, find
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.tables import each
from tests.kit.threads import QUIET, numbered


@pytest.fixture
def ran(repo: Sandbox) -> Sandbox:
    """A run of three steps: one done, one that waits at its gate, one of which nobody knows whether its effect happened."""
    repo.here("run", "--run", "r", "--step", "lint", "--key", "1", "--", "true")
    repo.here("run", "--run", "r", "--step", "go", "--gate", "look", "--", "true")
    repo.here("run", "--run", "r", "--step", "pub", "--effect", "once", "--", "false")
    return repo


@pytest.mark.deep
def test_an_old_name_does_what_the_new_one_does_and_says_it(ran: Sandbox) -> None:
    for old, new in (
        ("steps", "run show"),
        ("steps r --json", "run show r --json"),
        ("steps --why lint", "run why lint"),
        ("steps r --json --why=lint", "run why lint r --json"),
        ("journal", "run show --records"),
        ("journal --json show r", "run show --records --json r"),
        ("journal -p lint show", "run show -p lint"),
        ("journal verify", "run verify"),
        ("journal prune -n --keep 0", "run prune -n --keep 0"),
        ("journal export -n", "run export -n"),
        ("repair --path a.txt -n", "run repair --path a.txt -n"),
        ("compensate -n --run r", "run compensate -n --run r"),
        ("settle nobody --done", "run settle nobody --done"),
        ("approve nobody", "run approve nobody"),
        ("threads --json", "thread list --json"),
        ("steps --nope", "run show --nope"),
    ):
        one, other = ran.here(*old.split()), ran.here(*new.split())
        then, now = (re.sub(r"\d+ seconds? ago|[0-9.]+ s\b", "AGO", done.out) for done in (one, other))
        assert (one.code, then) == (other.code, now), old
        said = (
            re.escape(other.err) + rf"hint: 'git baton {old.split()[0]}[ a-z]*' is now 'git baton [a-z]+ [a-z]+( --records)?'\n"
        )
        assert re.fullmatch(said, one.err), (old, one.err, other.err)
        assert " is now " not in other.err


@pytest.mark.deep
def test_the_list_of_runs_says_the_age_what_is_done_and_what_is_not(ran: Sandbox) -> None:
    ran.here("run", "--run", "s", "--step", "a", "--key", "1", "--", "true")
    rows = ran.here("run", "list").out.splitlines()
    assert re.fullmatch(r"\* s  now  1 of 1 step done   \+ finished", rows[0])
    assert re.fullmatch(r"  r  now  1 of 3 steps done  ! not finished: .*'go' waits at its gate.*", rows[1])
    said = ran.here("run", "list", "--json").json["runs"]
    assert [(row["run"], row["current"], row["finished"], row["done"], row["steps"]) for row in said] == [
        ("s", True, True, 1, 1),
        ("r", False, False, 1, 3),
    ]
    blob = ran.git("hash-object", "-w", "--stdin", stdin=b"no commit")
    (ran.path / ".git/refs/baton/runs/s").write_text(blob + "\n")
    assert re.search(r"^\* s +\? +0 of 0 steps done  ! not finished: it cannot be read: ", ran.here("run", "list").out, re.M)


@pytest.mark.deep
def test_a_step_is_done_where_a_killed_plan_has_not_to_do_it_again(repo: Sandbox) -> None:
    rows = (("a", "f", "a.out"), ("b", "a.out", "b.out"), ("c", "b.out", "c.out"))
    steps = [
        f'[step.{name}]\nrun = "cp {read} {write}"\nreads = ["{read}"]\nwrites = ["{write}"]\n' for name, read, write in rows
    ]
    repo.write("baton.toml", "".join(steps))
    for text in ("1", "2"):
        repo.write("f", text)
        repo.ok("run", "--run", "r", "--plan", "baton.toml")
    found = {}
    for left in ("release", "end c", "begin c", "end b", "begin b", "end a", "begin a", "claim"):
        said = repo.here("run", "list")
        found[left] = said.out.split("r  now  ")[1].split(" of")[0], *said.out.split("not finished: ")[1:]
        hint = "" if left == "release" else "hint: 'git baton run --continue r' goes on with it\n"
        assert said.err == hint, left
        repo.git("update-ref", "refs/baton/runs/r", "refs/baton/runs/r~1")
    open_ = "the end of the plan is not recorded"
    assert found == {
        "release": ("3",),
        "end c": ("3", f"{open_}\n"),
        "begin c": ("2", f"{open_}; 'c' has begun and has no end\n"),
        "end b": ("2", f"{open_}\n"),
        "begin b": ("1", f"{open_}; 'b' has begun and has no end\n"),
        "end a": ("1", f"{open_}\n"),
        "begin a": ("0", f"{open_}; 'a' has begun and has no end\n"),
        "claim": ("3", f"{open_}\n"),
    }


def test_there_is_no_run_yet(repo: Sandbox) -> None:
    done = repo.here("run", "list")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.deep
def test_a_run_or_a_command_may_have_the_name_of_a_verb(repo: Sandbox) -> None:
    repo.write("list", "#!/bin/sh\necho made by list\n").chmod(0o755)
    done = repo.baton("run", "--run", "show", "--step", "why", "--", "./list")
    assert (done.code, done.out) == (0, "made by list\n")
    assert repo.baton("run", "--continue", "show").code == 0
    assert "run 'show': finished" in repo.here("run", "show", "show").out


def test_a_thread_is_deleted_shown_and_listed(repo: Sandbox) -> None:
    with ThreadStore(discover(str(repo.path)), **QUIET) as store:
        numbered(store, 2, "demo")
    assert re.match(r"demo +\S+  2 checkpoints ", repo.here("thread", "list").out)
    assert len(repo.here("thread", "log", "demo").out.splitlines()) == 2
    assert repo.here("thread", "delete", "demo").out == "thread 'demo' deleted: 2 checkpoints\n"


def test_help_of_a_word_names_what_stands_under_it(repo: Sandbox) -> None:
    assert [row.split()[3] for row in repo.here("thread", "-h").out.splitlines()] == [*below("thread")]
    assert "Verbs under it, each with its own -h: list show why" in " ".join(repo.here("run", "-h").out.split())


def test_the_overview_fits_a_screen(repo: Sandbox) -> None:
    shown = repo.here("-h").out.splitlines()
    assert len(shown) <= 64 and max(map(len, shown)) <= 80
    assert all(len(text) <= 60 and not text.endswith(".") for text in VERBS.values())
    listed = [name for row in shown[2:-2] for name in [row[11:].split("  ")[0]]]
    assert listed == [name for title, verbs in GROUPS.items() if title for name in verbs]
    assert not {*OLD, *GROUPS[""]} & set(listed)


@each(
    "typed, near",
    [
        *(("snapshto", ["snapshot"]), ("stauts", ["status"]), ("lgo", ["log"]), ("snap", ["snapshot"]), ("undu", ["undo"])),
        *(("list", []), ("forgt", []), ("prun", []), ("uninstal", []), ("remove", []), ("delete", []), ("xyzzy", [])),
        *(("hok", []), ("hooks", []), ("complet", ["completion"]), ("completed", [])),
        *(("run lst", ["list"]), ("run prun", []), ("thread shwo", ["show"]), ("thread delet", []), ("thread dele", [])),
    ],
)
def test_a_slip_is_led_to_the_nearest_verb_but_to_none_that_destroys(typed: str, near: list[str]) -> None:
    assert find(typed.split())[0] in ("", "run")
    under, _, word = typed.rpartition(" ")
    error = unknown(under, word)
    said = [hint for hint in error.hints if "similar" in hint]
    assert re.findall(r"'([a-z]+)'", said[0]) == near if said else near == []
    assert not any(f"'{name.split()[-1]}'" in hint for name in DESTROY for hint in said)
    assert error.exit_code == 129
