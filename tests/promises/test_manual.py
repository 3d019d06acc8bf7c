"""Man page, completion and README say the same words as the command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from gitbaton.commands import VERBS
from gitbaton.commands.usage import Verbs, app
from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.tables import each

PAGE = ROOT / "gitbaton/data/git-baton.1"
COMPLETION = ROOT / "gitbaton/data/completion/git-baton"
GIT_COMPLETION = Path("/usr/share/bash-completion/completions/git")
SHORT = {"-n", "-y", "-z", "-h"}


def known(verb: str) -> set[str]:
    """The long options that typer knows for a verb (empty: before the verb)."""
    command = Verbs(name="git baton").get_command(None, verb) if verb else typer.main.get_command(app)
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")}
    return options - {"--help"}


def sections() -> dict[str, str]:
    """The man page's text by verb; the part before the verbs under the empty name."""
    text = re.sub(r"\\f[BRI]", "", PAGE.read_text().replace("\\-", "-"))
    options = text[text.index(".SH OPTIONS") : text.index(".SH VERBS")]
    verbs = text[text.index(".SH VERBS") : text.index(".SH CHECKPOINTS")]
    found = {"": options}
    for item in verbs.split(".TP\n")[1:]:
        match = re.match(r"([a-z]+)", item)
        assert match, item
        found[match.group(1)] = item
    return found


def words(text: str) -> set[str]:
    """The long options that a text names, those of git and other commands aside."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


def test_every_verb_is_everywhere() -> None:
    names = [name for name, _ in VERBS]
    assert list(sections()) == ["", *names]
    listed = re.search(r'__git_baton_verbs="([^"]*)"', COMPLETION.read_text())
    assert listed is not None and listed.group(1).split() == names
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"^git baton ([a-z]+)", readme, re.M)) <= set(names)


@each("verb", ["", *(name for name, _ in VERBS)])
def test_every_option_is_in_the_man_page_and_in_the_completion(verb: str) -> None:
    page, options = sections()[verb], known(verb)
    extra = {"--no-color"} if verb == "" else set()
    assert words(page) - options - extra - {"--help"} == set()
    # A switch and its opposite are one thing, and the man page names the one that changes something.
    bare = {o.removeprefix("--").removeprefix("no-") for o in options}
    assert bare == {w.removeprefix("--").removeprefix("no-") for w in words(page)} - {"help"}
    script = f'source {COMPLETION}; __git_baton_options "{verb}"'
    offered = set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split())
    assert offered == options | extra | {"--help"}


@each("verb", [name for name, _ in VERBS])
def test_the_readme_names_no_option_that_is_not_there(verb: str) -> None:
    readme = (ROOT / "README.md").read_text()
    for line in re.findall(rf"^git baton {verb}\b([^#\n]*)", readme, re.M):
        assert words(line) <= known(verb), line


def test_settings_are_in_the_man_page() -> None:
    page = PAGE.read_text()
    code = "".join((ROOT / "gitbaton" / name).read_text() for name in ("config.py", "hooks/git.py"))
    keys = set(re.findall(r'"baton\.([a-z]+)"|one_of\("([a-z]+)"', code))
    keys = {word for found in keys for word in found if word}
    assert {"track", "warn", "exclude", "auto", "transcripts"} <= keys
    assert [key for key in sorted(keys) if f"\nbaton.{key}\n" not in page.lower()] == []
    for name in ("GIT_BATON_TRACK", "GIT_BATON\n", "advice.batonDrift"):
        assert name in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_the_man_page_renders_without_a_warning() -> None:
    done = subprocess.run(["groff", "-man", "-ww", "-z", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
def test_git_help_finds_the_page_beside_the_program(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p/bin").mkdir(parents=True)
    (tmp_path / "p/share/man/man1").mkdir(parents=True)
    shutil.copy(PAGE, tmp_path / "p/share/man/man1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'p/bin'}{os.pathsep}{os.environ['PATH']}")
    done = repo.run("git", "help", "baton", env={"MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "100"})
    assert done.code == 0, done.err
    assert "hand the baton over inside git" in done.out


def complete(repo: Sandbox, line: str) -> list[str]:
    """What bash offers at the end of a command line, with git's completion and ours."""
    script = f"""
source {GIT_COMPLETION}
source {COMPLETION}
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
__git_wrap__git_main
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = repo.run("bash", "-c", script)
    assert done.err == "", done.err
    return [word.strip() for word in done.out.splitlines() if word.strip()]


@pytest.mark.skipif(not GIT_COMPLETION.exists(), reason="git's bash completion is not installed")
def test_bash_offers_verbs_options_tracks_and_checkpoints(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "alpha", "--step", "s")
    repo.ok("snapshot", "--track", "beta", "--step", "s")
    names = [name for name, _ in VERBS]
    assert complete(repo, "git baton ") == sorted(names) or set(complete(repo, "git baton ")) == set(names)
    assert complete(repo, "git baton resu") == ["resume"]
    assert complete(repo, "git baton --repo") == ["--repo-root"]
    assert set(complete(repo, "git baton verify --")) >= {"--track", "--strict", "--quiet", "--json"}
    assert complete(repo, "git baton resume --track ") == ["alpha", "beta"]
    assert complete(repo, "git baton resume --track a") == ["alpha"]
    assert complete(repo, "git baton log b") == ["beta"]
    assert complete(repo, "git baton tracks use al") == ["alpha"]
    assert complete(repo, "git baton snapshot --validation g") == ["green"]
    assert complete(repo, "git -C . baton --no-pager verify --st") == ["--strict"]
    offered = complete(repo, "git baton show ")
    ids = [json["id"][:10] for json in repo.ok("log", "--all", "--json").json["checkpoints"]]
    assert set(offered) == {"alpha", "beta", "@", *ids}
