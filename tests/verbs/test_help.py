"""``git baton help``: a verb's page and a guide, the same text everywhere; and every example of every page works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from gitbaton.cli import pages
from gitbaton.cli.main import call
from gitbaton.cli.verbs import GROUPS, OLD, VERBS, verb_function
from tests.kit import Sandbox
from tests.kit.tables import each
from tests.kit.terminals import Terminal
from tests.promises.test_hints import furnish

# The names in the examples, as they are in the repository that the hints' commands are tried in.
NAMES = {
    "parser": "t",
    "nightly": "r",
    "publish": "pub",
    "deploy": "eff",
    "review": "go",
    "checks": "p",
    "attempt": "side",
    "api": "side",
}
ALONE = ("rewind", "mcp", "drill")  # they want a terminal, a client, a minute: they have tests of their own


def examples(verb: str) -> list[str]:
    """The command lines that a verb's page shows."""
    told = (verb_function(verb).__doc__ or "").partition("Examples:\n")[2]
    return [row.split("   # ")[0].strip() for row in told.splitlines() if row.strip()]


@each("verb", [name for name in VERBS if name not in GROUPS[""]])
def test_every_verb_has_a_page_with_examples_of_its_own(verb: str) -> None:
    text = pages.as_text(pages.of(verb), 80)
    heads = re.findall(r"^[A-Z ]+$", text, re.MULTILINE)
    assert heads[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"] and heads[-1] == "SEE ALSO" and "EXAMPLES" in heads
    begins = "" if verb == "mcp" else f"git baton {verb}"  # clients start that one
    assert examples(verb) and all(row.startswith(begins) for row in examples(verb))
    assert all(len(row) <= 80 for row in text.splitlines() if not row.startswith("        "))


@pytest.mark.deep
def test_every_example_works(repo: Sandbox) -> None:
    """Each in a repository that has something of everything, as it was before."""
    furnish(repo)
    kept, wrong = repo.path.parent / "kept", []
    shutil.copytree(repo.path, kept, symlinks=True)
    for row in (row for verb in VERBS if verb not in ALONE for row in examples(verb)):
        shutil.rmtree(repo.path)
        shutil.copytree(kept, repo.path, symlinks=True)
        shutil.rmtree(repo.path.parent / "beside", ignore_errors=True)
        meant = [NAMES.get(word.split("~")[0].split("@")[0], "") for word in shlex.split(row)[2:]]
        words = [
            f"{name}{word[re.match(r'[a-z]+', word).end() :]}" if name else word  # type: ignore[union-attr]
            for word, name in zip(shlex.split(row)[2:], meant, strict=True)
        ]
        words = [re.sub(r"(?<=\.\.)[a-z]+\Z", lambda end: NAMES.get(end[0], end[0]), word) for word in words]  # of a range
        done = repo.baton(*words)
        if done.code not in (0, 1, 75, 76) or "bug in gitbaton" in done.err or "fatal" in done.err:
            wrong.append((row, done.code, done.err))
    assert wrong == [], "\n".join(map(str, wrong))


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_works_outside_a_repository_and_says_what_the_page_says(outside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        assert call(list(words)) == 0
        return capfd.readouterr().out

    assert shown("help", "run", "why") == shown("run", "why", "--help") == pages.as_text(pages.of("run why"), 80)
    assert shown("help", "steps") == shown("help", "run", "show")
    assert shown("help", "files") == pages.as_text(pages.of_guide("files"), 80)
    assert shown("help") == shown("-h")
    assert "CONFIGURATION" in shown("help", "git-baton") and shown("help", "thread").count("SYNOPSIS") == 4
    assert len(shown("snapshot", "-h").splitlines()) < 60 and "Examples" not in shown("snapshot", "-h")
    assert "becomes current" in shown("help", "snapshot") and "becomes current" not in shown("snapshot", "-h")


@each("words, hint", [("helo", "'help'"), ("prun", ""), ("run wyh", "'why'"), ("file", "guides: ")])
def test_what_there_is_no_page_of(words: str, hint: str) -> None:
    import contextlib
    import io

    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        assert call(["help", *words.split()]) == 129
    first, *rest = told.getvalue().splitlines()
    assert first.startswith("fatal: ") and "guides: " in rest[-1] and (hint in "".join(rest)), told.getvalue()


def test_a_page_goes_through_the_pager(repo: Sandbox) -> None:
    repo.git("config", "core.pager", "sed s/^/paged:/")
    with Terminal(repo.path, "help", "pin") as screen:
        screen.until(b"paged:SEE ALSO")
        rows = screen.shown.splitlines()
    assert b"paged:NAME" in rows and all(row.startswith(b"paged:") for row in rows if row)


@pytest.mark.deep
def test_reading_a_page_does_nothing_in_the_repository(repo: Sandbox) -> None:
    """Not even what every command does first: to end a restore that was killed."""
    record = repo.path / ".git/baton/restore"
    repo.ok("snapshot", "--track", "t", "one")
    record.write_bytes(b"what a killed restore left")
    with Terminal(repo.path, "help", "pin", env={"GIT_PAGER": "sed s/^/paged:/"}) as screen:
        screen.until(b"paged:SEE ALSO")
    assert b"warning" not in screen.shown and record.read_bytes() == b"what a killed restore left"
    done = repo.here("complete", "show", "")
    assert "t\tone" in done.out.splitlines() and done.err == "" and record.exists()


@each("topic", pages.guides())
def test_a_guide_fits_a_narrow_terminal(topic: str) -> None:
    page = pages.as_text(pages.of_guide(topic), 60)
    assert page.startswith(f"NAME\n    gitbaton-{topic} - ") and "`" not in re.sub(r"(?m)^ {8}.*$", "", page)


def test_the_overview_names_the_guides(outside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call(["-h"])
    assert capfd.readouterr().out.splitlines()[-1].split() == pages.guides()
    assert {*OLD}.isdisjoint(name for verbs in GROUPS.values() for name in verbs)
