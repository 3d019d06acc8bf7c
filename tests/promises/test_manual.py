"""Man page, completion and README say the same words as the command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer

from gitbaton.cli.usage import Verbs, app
from gitbaton.cli.verbs import GROUPS, VERBS, find, verb_function
from tests.kit import Sandbox
from tests.kit.guides import WRITE
from tests.kit.places import ROOT
from tests.kit.roff import MAN, files
from tests.kit.tables import each

SHORT = {"-n", "-y", "-z", "-h"}


def known(verb: str) -> set[str]:
    """The long options that typer knows for a verb (empty: before the verb)."""
    command = Verbs(name="git baton").get_command(None, verb) if verb else typer.main.get_command(app)
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")}
    return options - {"--help"}


def words(text: str) -> set[str]:
    """The long options that a text names, those of git and other commands aside."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_the_readme_names_no_verb_that_is_not_there() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(find(row.split())[0] for row in re.findall(r"^git baton ([a-z]+ [a-z]*)", readme, re.M))


@each("verb", [*VERBS])
def test_a_page_names_no_option_that_is_not_there(verb: str) -> None:
    told = re.sub(r"'git baton [^']*'", "", (verb_function(verb).__doc__ or "").partition("Examples:")[0])
    assert words(told) <= known(verb) | known("") | {"--help"}


@each("verb", [*VERBS])
def test_the_readme_names_no_option_that_is_not_there(verb: str) -> None:
    readme = (ROOT / "README.md").read_text()
    for line in re.findall(r"^git baton ([^#\n]*)", readme, re.M):
        assert find(line.split())[0] != verb or words(line) <= known(verb), line


def test_settings_are_in_the_manual() -> None:
    page = (ROOT / "gitbaton/data/git-baton.md").read_text()
    code = "".join((ROOT / "gitbaton" / name).read_text() for name in ("checkpoints/config.py", "agents/hooks/git.py"))
    keys = set(re.findall(r'"baton\.([a-z]+)"|one_of\("([a-z]+)"', code))
    keys = {word for found in keys for word in found if word}
    assert {"track", "warn", "exclude", "auto", "transcripts"} <= keys
    assert [key for key in sorted(keys) if f"`baton.{key}`" not in page.lower()] == []
    for name in ("`GIT_BATON_TRACK`", "`GIT_BATON`", "`advice.batonDrift`"):
        assert name in page


def test_the_man_pages_say_what_the_verbs_and_guides_say() -> None:
    """GITBATON_TEST_WRITE=1 writes them anew."""
    made = files()
    lying = {str(path.relative_to(MAN)): path.read_text() for path in MAN.rglob("*") if path.is_file()}
    if lying != made and os.environ.get(WRITE):
        for name in {*lying, *made}:
            (MAN / name).parent.mkdir(parents=True, exist_ok=True)
            (MAN / name).write_text(made[name]) if name in made else (MAN / name).unlink()
    behind = sorted(name for name in {*lying, *made} if lying.get(name) != made.get(name))
    assert not behind, f"{behind} are behind: {WRITE}=1 pytest tests/promises/test_manual.py renews them"


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_the_man_pages_render_without_a_warning() -> None:
    pages = sorted(map(str, MAN.rglob("*.[17]")))
    done = subprocess.run(["groff", "-man", "-ww", "-z", *pages], cwd=MAN, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
def test_git_help_finds_the_pages_beside_the_program(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p/bin").mkdir(parents=True)
    shutil.copytree(MAN, tmp_path / "p/share/man")
    monkeypatch.setenv("PATH", f"{tmp_path / 'p/bin'}{os.pathsep}{os.environ['PATH']}")
    for name, said in (("baton", "hand the baton over inside git"), ("git-baton-run-why", "git baton run why STEP")):
        done = repo.run("git", "help", name, env={"MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "100"})
        assert done.code == 0, done.err
        assert said in done.out


def test_shared_data_of_the_wheel_has_the_pages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {shared[f"gitbaton/data/man/{name}"] for name in ("man1", "man7")} == {"share/man/man1", "share/man/man7"}


def test_each_page_is_there_once() -> None:
    verbs = [verb.replace(" ", "-") for title, verbs in GROUPS.items() if title for verb in verbs]
    assert {path.name for path in (MAN / "man1").iterdir()} == {"git-baton.1", *(f"git-baton-{verb}.1" for verb in verbs)}
    assert not [path for path in MAN.rglob("*.*") if path.read_text().startswith(".so ")]
