"""Settings, errors and what ships: each key with its default, and a line that names the key when it cannot be understood."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest

import gitbaton
from gitbaton.base import errors
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import SKIP_REASONS, DriftWord
from gitbaton.base.values import replace
from gitbaton.checkpoints import config
from gitbaton.git.repo import discover
from tests.kit import Sandbox

DEFAULTS = config.Settings(
    track=None,
    checkpoint_dir="runtime/checkpoints",
    untracked="all",
    max_file_size=50 << 20,
    max_untracked=1 << 30,
    exclude=config.EXCLUDE,
    short=10,
    auto="turn",
    transcripts="full",
    observe="all",
    tests=(),
    nudge=True,
    overlap=True,
    guard_commands=(),
    guard_ignored=10 << 20,
    redact="on",
    push=None,
    sign=False,
    redact_allow=(),
)


def load(repo: Sandbox) -> config.Settings:
    found = discover(str(repo.path), door="binary")
    try:
        return config.load(found)
    finally:
        found.close()


def test_the_defaults(repo: Sandbox) -> None:
    assert load(repo) == DEFAULTS


@pytest.mark.deep
@pytest.mark.parametrize(
    ("key", "values", "changed"),
    [
        ("baton.track", ["a", "the last counts"], {"track": "the last counts"}),
        ("baton.track", [""], {"track": None}),
        ("baton.checkpointDir", ["x/y"], {"checkpoint_dir": "x/y"}),
        ("baton.untracked", ["none"], {"untracked": "none"}),
        ("baton.maxFileSize", ["10k"], {"max_file_size": 10 << 10}),
        ("baton.maxFileSize", ["2M"], {"max_file_size": 2 << 20}),
        ("baton.guardIgnored", ["1m"], {"guard_ignored": 1 << 20}),
        ("baton.guardCommand", ["npm run format", "", "black"], {"guard_commands": ("npm run format", "black")}),
        ("baton.maxFileSize", ["1g"], {"max_file_size": 1 << 30}),
        ("baton.maxFileSize", ["0"], {"max_file_size": 0}),
        ("baton.exclude", ["*.key", "!x"], {"exclude": ("*.key", "!x")}),
        ("baton.exclude", [""], {"exclude": ()}),
        ("baton.exclude", ["@default", "x"], {"exclude": (*config.EXCLUDE, "x")}),
        ("baton.auto", ["edit"], {"auto": "edit"}),
        ("baton.auto", ["off"], {"auto": "off"}),
        ("baton.transcripts", ["position"], {"transcripts": "position"}),
        ("baton.redact", ["strict"], {"redact": "strict"}),
        ("baton.redact", ["off"], {"redact": "off"}),
        ("baton.redactAllow", ["a+", "", "b"], {"redact_allow": ("a+", "b")}),
        ("core.abbrev", ["7"], {"short": 7}),
        ("core.abbrev", ["auto"], {}),
        ("core.abbrev", ["no"], {"short": 64}),
        ("core.abbrev", ["40"], {"short": 40}),
    ],
)
def test_each_key(repo: Sandbox, key: str, values: list[str], changed: dict[str, object]) -> None:
    for value in values:
        repo.git("config", "--add", key, value)
    assert load(repo) == replace(DEFAULTS, **changed)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("baton.untracked", "some"),
        ("baton.redact", "yes"),
        ("baton.redactAllow", "(x"),
        ("baton.maxFileSize", "big"),
        ("baton.maxFileSize", "-1"),
        ("baton.maxFileSize", "1.5m"),
    ],
)
def test_a_value_that_cannot_be_understood_is_named(repo: Sandbox, key: str, value: str) -> None:
    repo.git("config", key, value)
    with pytest.raises(UsageError, match=re.escape(f"{key} is '{value}'")):
        load(repo)
    done = repo.baton("snapshot", "--track", "main", "--step", "x")
    assert done.code == 129 and done.err.startswith(f"fatal: {key} is '{value}'; ") and done.out == ""
    assert repo.git("for-each-ref", "refs/baton", "refs/checkpoints") == ""


def test_the_environment_is_over_the_configuration(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.git("config", "baton.track", "config")
    monkeypatch.setenv("GIT_BATON_TRACK", "environment")
    assert load(repo).track == "environment"
    monkeypatch.setenv("GIT_BATON_TRACK", "")
    assert load(repo).track == "config"


@pytest.mark.deep
def test_scopes_are_gits(repo: Sandbox) -> None:
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[baton]\n\tcheckpointDir = global\n\tuntracked = none\n")
    repo.git("config", "baton.checkpointDir", "local")
    assert (load(repo).checkpoint_dir, load(repo).untracked) == ("local", "none")
    done = repo.run("git", "-c", "baton.track=from the command", "baton", "snapshot", "--step", "x")
    assert done.out.startswith("from the command ")


def test_exit_codes_of_the_errors() -> None:
    found = {
        name: kind.exit_code for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, BatonError)
    }
    others = {name: code for name, code in found.items() if code != 128}
    no = {"NoAnswerError": 1, "UnchangedError": 1, "RemoteError": 1}
    assert others == {
        "UsageError": 129,
        "NotFoundError": 2,
        "NoCheckpointError": 2,
        "StoppedError": 130,
        "UnreadableRunError": 76,
        **no,
    }
    for name, code in found.items():
        assert f"{name} " in (errors.__doc__ or "") and str(code) in (errors.__doc__ or "")
    error = UsageError("message", "one", "two")
    assert (str(error), error.hints) == ("message", ("one", "two"))


def test_values_are_frozen() -> None:
    word = DriftWord(word="unborn", sentence="x")
    with pytest.raises(AttributeError):
        word.word = "other"  # type: ignore[misc]
    assert len(set(SKIP_REASONS)) == len(SKIP_REASONS)


def test_the_schema_ships_in_the_wheel(tmp_path: Path) -> None:
    root = Path(gitbaton.__file__).parent.parent
    if not (root / "pyproject.toml").exists():
        assert (root / "gitbaton" / "data" / "checkpoint-1.schema.json").is_file()
        return
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder
    (built,) = builder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(built).namelist()
    assert "gitbaton/data/checkpoint-1.schema.json" in names and "gitbaton/py.typed" in names
    assert not [name for name in names if name.startswith("tests/")]
