"""The page of ``resume`` and ``show``: it holds what the stable lines hold, and stored text can forge no line of it."""

from __future__ import annotations

import re

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some

FORGED = "drift     = home", "  made      just now", "next      rm -rf ."
NOTE = "\n".join(["why", *FORGED])


@pytest.fixture
def told(repo: Sandbox) -> Sandbox:
    words = ("--next-cmd", "make test", "--validation", "green", "--decision", f"no\n{FORGED[1]}", "--decision", "none\tnew")
    repo.ok("snapshot", "lexer done", "--note", NOTE, *words, "--extra", f"ticket=A-1\n{FORGED[0]}", "--track", "parser")
    return repo


@some("verb", ["resume", "show"])
def test_it_holds_what_the_stable_lines_hold(told: Sandbox, verb: str) -> None:
    page, lines = told.ok(verb).out, told.ok(verb, "--porcelain").out
    assert re.match(
        r"parser  [0-9a-f]{4,}  lexer done\ntaken     o manual  just now \(\d\d:\d\d\), on main at ", page.replace("    o", "o")
    )
    said = {row.split("=", 1)[-1].strip() for row in lines.splitlines() if not row.startswith(("decision.", "created="))}
    shown = page.replace("none    new", "none\tnew")
    short = {text for text in said if not re.fullmatch(r"[0-9a-f]{40}|", text)}
    assert {text for text in short if text not in shown} <= {f"checkpoint {told.ok('show', '--json').json['checkpoint']['id']}"}


@some("verb", ["resume", "show"])
def test_a_text_begins_no_line(told: Sandbox, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    for columns in ("60", "200", ""):
        monkeypatch.setenv("COLUMNS", columns)
        rows = told.ok(verb).out.splitlines()
        names = [row[:10].rstrip() for row in rows[1:] if not row.startswith(" " * 10)]
        assert [row.strip() for row in rows if row.strip() in {text.strip() for text in FORGED}], "they are told"
        assert names.count("next") == 1 and "drift" not in names and names.count("  made") == 2, rows


def test_a_piece_of_it_is_typed_again(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.ok("snapshot", "one", "--track", "t")
    for number in range(25):
        repo.write(f"a/{number:02}", "x\n" * number)
    repo.ok("snapshot", "two", "--track", "t")
    monkeypatch.setenv("LINES", "20")
    shown = repo.ok("show").out
    (row,) = (row for row in shown.splitlines() if " more: " in row)
    whole = repo.ok(*row.partition(" more: git baton ")[2].split()).out
    listed = re.findall(r"^ +a/\d\d +\| ", shown, re.MULTILINE)
    assert len(listed) == 10 and row.split()[1] == "15" and len(re.findall(r"^ a/\d\d +\| ", whole, re.MULTILINE)) == 25
    (row,) = (row for row in repo.ok("resume").out.splitlines() if row.startswith("files "))
    assert repo.ok(*row.partition(": git baton ")[2].split()).out == shown


def test_what_is_left_out_is_named(repo: Sandbox) -> None:
    repo.git("config", "baton.maxFileSize", "10")
    repo.write("big", "x" * 100)
    repo.ok("snapshot", "one")
    assert "\nfiles     none changed\nleft out  'big' is left out: " in repo.ok("show").out
    row = next(row for row in repo.ok("resume").out.splitlines() if row.startswith("files"))
    assert row.startswith("files     none changed, 1 path left out: git baton show ")


def test_what_git_was_in_the_middle_of_is_told(repo: Sandbox) -> None:
    repo.git("checkout", "-qb", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n", b_txt="b\n")
    assert repo.run("git", "merge", "side").code == 1
    repo.git("update-index", "--assume-unchanged", "b.txt")
    repo.ok("snapshot", "one")
    for verb in ("show", "resume"):
        assert "\nduring    a merge in progress, 1 path in conflict\n" in repo.ok(verb).out
    assert "\nin index  assume-unchanged: b.txt\n" in repo.ok("show").out


@pytest.mark.deep
def test_many_files_are_only_counted(repo: Sandbox) -> None:
    for number in range(1001):
        repo.write(f"a/{number}", "x\n")
    repo.ok("snapshot", "many")
    shown = repo.ok("show").out
    assert re.search(r"^files     1001 files changed: git baton show [0-9a-f]+ --name-only$", shown, re.MULTILINE)


def test_colours_change_no_word(told: Sandbox) -> None:
    painted = told.ok("--color=always", "show").out
    assert "\x1b[32m+ green\x1b[m" in painted and re.sub(r"\x1b\[\d*m", "", painted) == told.ok("show").out
    assert told.ok("--color=always", "show", "--porcelain").out == told.ok("show", "--porcelain").out


def test_forms_exclude_each_other(told: Sandbox) -> None:
    for words in (("resume", "--json"), ("show", "--json"), ("show", "parser:a.txt")):
        done = told.baton(*words, "--porcelain")
        assert done.code == 129 and done.out == "" and "exclude each other" in done.err
