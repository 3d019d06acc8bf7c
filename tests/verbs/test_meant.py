"""Words that people type: one that is no verb names the verb that does it; short options are as git has them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gitbaton.base.errors import UsageError
from gitbaton.cli.options import declared, read
from gitbaton.cli.usage import MEANT, options_meant, unknown
from gitbaton.cli.verbs import DESTROY, OLD, VERBS, below, find, verb_function
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import snap
from tests.kit.tables import each

# What is typed, and the lines that the hints name.
TYPED = """
save "lexer done" | snapshot 'lexer done'
save lexer done | snapshot 'lexer done'
checkpoint x --next-cmd pytest --validation green | snapshot x --next-cmd pytest --validation green
commit -m "it is" | snapshot -m 'it is'
commit -am x | snapshot "what is done"
commit '$(rm -rf /)' | snapshot '$(rm -rf /)'
keep | pin CHECKPOINT
keep @~1 begin | pin '@~1' begin
label | pin @ NAME
tag v1 | pin @ v1
grep half round | search half round | log --all -S 'half round'
find | search WORDS... | log --all -S WORDS
grep -rn x | search WORDS... | log --all -S WORDS
gc | prune --keep-last 20 --dry-run | du
shrink --now | prune --keep-last 20 --dry-run | du
clean -fdx | status --at-risk | prune --keep-last 20 --dry-run | du
delete parser | tracks delete NAME | forget CHECKPOINT --dry-run
rm -rf . | tracks delete NAME | forget CHECKPOINT --dry-run
mv a b | tracks rename a b
rename a | tracks rename OLD NEW
ls | log
history parser -n 3 | log parser -n 3
histroy | log
rollback | revert | restore CHECKPOINT
back parser~1 | revert 'parser~1' | restore 'parser~1'
reset --hard | restore CHECKPOINT | revert
reset --hard @~1 | restore '@~1' | revert
checkout parser | restore parser | tracks use parser
checkout @~1 | restore '@~1'
stash pop | snapshot "what is done" | restore CHECKPOINT
handover "lexer done" | snapshot 'lexer done' | resume
continue parser | resume parser
off | pause
disable --for 2h | pause
on | pause --end
enable | pause --end
info | status | show
annotate a.txt | blame a.txt
track | tracks
pull origin | fetch origin | sync origin
init | snapshot "what is done" | agent list
version x | --version
thread ls | thread list
config | help git-baton
"""


@each("typed, lines", [(row.split(" | ")[0], row.split(" | ")[1:]) for row in TYPED.strip().splitlines()])
def test_another_word_for_a_verb_names_its_line(typed: str, lines: list[str]) -> None:
    words = shlex.split(typed)
    error = unknown(*words) if below(words[0]) else unknown("", *words)
    assert [hint.rpartition("git baton ")[2] for hint in error.hints[:-1]] == lines, error.hints


@each("line", sorted({line.rpartition(": ")[2] for _, *lines in MEANT for line in lines}))
def test_each_line_is_one_that_its_verb_reads_and_none_destroys(line: str) -> None:
    words = shlex.split(line.replace("{", "").replace("}", ""))
    verb, rest = find(words)
    if words != ["--version"]:
        assert read(declared(verb_function(verb)), rest) is not None
        assert verb not in DESTROY or "--dry-run" in rest


def test_no_word_is_a_verb_and_none_stands_for_a_verb_twice() -> None:
    pairs = [(word, line) for words, *lines in MEANT for word in words.split() for line in lines]
    assert not {word for word, _ in pairs} & {*VERBS, *OLD} and len(pairs) == len({*pairs})


def test_another_word_is_led_to_its_verb_and_nothing_is_done(repo: Sandbox) -> None:
    done = repo.baton("save", "lexer done")
    line = "hint: to record what is done, what comes next, and all files: git baton snapshot 'lexer done'\n"
    assert (done.code, done.err) == (
        129,
        f"fatal: 'save' is not a verb of git baton\n{line}hint: 'git baton -h' lists the verbs\n",
    )
    assert repo.git("for-each-ref", "refs/baton", "refs/checkpoints") == ""


FOREIGN_OPTIONS = """
log --oneline |
log --path | paths come after '--'
log --limit | perhaps '--max-count' is meant
diff --cached |
diff -u | perhaps '--patch' is meant
resume --stat |
run --patch |
run --track |
install --watch |
uninstall --merge |
run --once |
snapshot --message | perhaps '--step' is meant
snapshot --abort |
snapshot --lable | perhaps '--label' is meant
snapshot --valdiation | perhaps '--validation' is meant
restore --staged | perhaps '--index' is meant
restore --source |
show --name-status | perhaps '--name-only' is meant
verify --decision |
run repair --radius | a repair is not widened any more: name the steps above with --step, which may repeat
"""


@each("typed, hint", [row.split(" |") for row in FOREIGN_OPTIONS.strip().splitlines()])
def test_an_option_of_another_tool_gets_the_right_neighbour_or_none(typed: str, hint: str) -> None:
    verb, option = typed.rpartition(" ")[::2]
    assert options_meant(verb, option) == [hint.strip()] * bool(hint.strip())


def test_the_beginning_of_an_option_is_enough_where_it_is_of_one_only(repo: Sandbox) -> None:
    done = repo.ok("snapshot", "x", "--note", "-n3", "--next", "pytest -x", "--valid=green", "--no-f", "--json")
    c = done.json["checkpoint"]
    assert (c["next_cmd"], c["validation"], c["files"]) == ("pytest -x", "green", None)
    both = repo.baton("log", "--s")
    assert (both.code, both.err) == (129, "fatal: '--s' could be '--since' or '--stat'\n")
    assert repo.ok("snapshot", "-m", "--next", "--dry").out.startswith("would record main: --next\n"), "a value is none"
    assert "unknown option '--checkpoint'" in repo.baton("resume", "--checkpoint", "main").err
    assert repo.ok("log", "--grep", "-3").out == repo.ok("log", "--gre", "-3").out == "", "nor is one a count"
    for words in (("export", "--h"), ("run", "--check", "make test", "--step", "a", "--", "touch", "ran")):
        done = repo.baton(*words)
        assert done.code == 129 and f"unknown option '{words[1]}'" in done.err and not (repo.path / "ran").exists()
    refused = repo.baton("log", "--until", "now", "--nope", "--unt", "now")
    assert "unknown option '--nope'" in refused.err, "also where typer reads the line"


def test_the_version_as_git_says_it(repo: Sandbox) -> None:
    said = repo.ok("--version").out
    assert said == repo.ok("version").out == repo.ok("-v").out != ""
    assert said == repo.ok("-v", "snapshot", "x").out == repo.ok("--version", "log", "--no").out
    assert repo.git("for-each-ref", "refs/baton") == "", "the verb is not run"


def test_n_beside_a_step_is_no_next_command(repo: Sandbox) -> None:
    for words in (("-m", "x", "-n", "make test"), ("x", "-n", "make test")):
        done = repo.baton("snapshot", *words)
        hint = "hint: -n is --dry-run; to say what comes next: git baton snapshot x --next-cmd 'make test'\n"
        assert done.code == 129 and done.err == f"fatal: unexpected argument 'make test'\n{hint}"


def test_why_takes_the_line_as_a_word_of_its_own(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    assert repo.ok("why", "a.txt", "1").out == repo.ok("why", "a.txt:1").out
    assert repo.baton("why", "a.txt", "1", "2").code == 129 and "'a.txt' is not FILE:LINE" in repo.baton("why", "a.txt").err


@each("text", ["a\nb", "a\n", "a\r", "\u2028a"])
def test_a_next_command_is_one_line(repo: Sandbox, text: str) -> None:
    done = repo.baton("snapshot", "x", "--next-cmd", text)
    assert done.code == 129 and done.err.startswith("fatal: the next command has a line break: ")
    with repo.open() as baton, pytest.raises(UsageError, match="line break"):
        baton.snapshot("x", next_cmd=text)
    assert repo.git("for-each-ref", "refs/baton") == ""


def test_tracks_knows_gits_short_options(repo: Sandbox) -> None:
    snap(repo, "one", "S")
    assert repo.ok("tracks", "-m", "one", "two").out.startswith("track 'one' is 'two' now")
    assert repo.ok("tracks", "-d", "two", "--yes").out.startswith("track 'two' is gone with 1 checkpoint")
    assert repo.baton("tracks", "-d", "-m", "two").code == 129 and repo.baton("tracks", "-d").code == 129


def test_undo_of_a_certain_turn_leads_to_revert(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    done = repo.baton("undo", "@~1")
    assert done.code == 129 and "git baton revert" in done.err


def test_who_fears_a_clean_is_led_to_what_it_would_take(repo: Sandbox) -> None:
    done = repo.baton("clean", "-n")
    assert done.code == 129 and "hint: to see what 'git clean' would take: git baton status --at-risk\n" in done.err


@pytest.mark.parametrize("verb", ["restore", "revert"])
def test_a_path_without_its_dashes_is_led_to_them_from_the_directory_it_counts_from(
    repo: Sandbox, verb: str, tmp_path: Path
) -> None:
    repo.write("b.txt", "b\n")
    snap(repo, "t", "S")
    if verb == "revert":  # without a turn the line would lead nowhere
        assert "hint: see 'git baton log --all'\n" in repo.baton(verb, "b.txt").err
        client = Client("claude", repo.path)
        client.fire("prompt", prompt="do it")
        repo.write("b.txt", "two\n")
        client.fire("turn")
    (tmp_path / "outside").write_text("x\n")
    top = ("--repo-root", str(repo.path))
    for word, spelled in (("b.txt", "b.txt"), ("b.*", "'b.*'")):
        done = repo.baton(*top, verb, word, cwd=tmp_path)
        assert done.code == 2 and f"that path: git baton {verb} -- {spelled}\n" in done.err
    (repo.path / "sub").mkdir()
    above = repo.baton(verb, "../b.txt", cwd=repo.path / "sub")
    assert above.code == 2 and f"that path: git baton {verb} -- ../b.txt\n" in above.err
    outside = repo.baton(*top, verb, "outside", cwd=tmp_path)
    assert outside.code == 2 and "-- outside" not in outside.err and "git baton log --all" in outside.err


def test_the_hint_at_a_path_is_given_for_its_own_word_alone(repo: Sandbox) -> None:
    repo.write("@", "x\n")
    empty = repo.baton("restore")
    assert empty.code == 2 and "-- @" not in empty.err and "git baton snapshot" in empty.err
    snap(repo, "t", "S")
    repo.write("t", "a file of that name\n")
    of_none = repo.baton("revert", "t")
    assert of_none.code == 2 and "is of no turn" in of_none.err and "-- t" not in of_none.err
    talk = repo.baton("restore", "--conversation-only", "a.txt")
    assert talk.code == 2 and "-- a.txt" not in talk.err and "git baton log --all" in talk.err
