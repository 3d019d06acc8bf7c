"""A further client costs one module and a line in a list: installed, hooked, read and shown like every other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import PACKAGE

MODULE = """
from gitbaton.agents.client import Client, Hook
from gitbaton.agents.records import dict_of, edited, ended, words
from gitbaton.agents.signs import Asked, RecordStep, Said, Shown


class Acorn(Client):
    name = "acorn"
    title = "Acorn"
    programs = ("acorn",)
    shape = "groups"
    project = ".acorn/settings.json"
    folder = ".acorn"
    user = "settings.json"
    hooks = (Hook(event="Begin", timeout=10), Hook(event="Done", timeout=10))
    events = {"Begin": ("start", "full"), "Done": ("turn", "no")}
    files = ("talks/{0}.jsonl",)
    mark = b'"who"'

    def step(self, record):
        return RecordStep(back=1) if record.get("who") == "undo" else RecordStep(prompt=record.get("who") == "user")

    def read(self, record):
        who = record.get("who")
        if who in ("user", "assistant"):
            yield Shown(who=who, content=record.get("text"))
            yield from words(Asked if who == "user" else Said, record.get("at"), record.get("text"))
        elif who == "edit":
            yield from edited(record.get("at"), "k", record.get("path"))
            yield from ended(record.get("at"), "k", 0)


CLIENT = Acorn()
"""


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """The environment of a package that has one client more."""
    shutil.copytree(PACKAGE, tmp_path / "lib/gitbaton", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "lib/gitbaton/agents/acorn.py").write_text(MODULE)
    names = tmp_path / "lib/gitbaton/base/clients.py"
    text = names.read_text()
    assert text.count("KNOWN = {\n") == 1
    names.write_text(
        text.replace("KNOWN = {\n", 'KNOWN = {\n    "acorn": KnownClient(session="ACORN_SESSION", runs="acorns/.*"),\n')
    )
    (tmp_path / "acorns").mkdir()
    return {**os.environ, "PYTHONPATH": str(tmp_path / "lib"), "HOME": str(tmp_path / "acorns")}


def test_a_further_client_is_one_module_and_a_line(repo: Sandbox, tmp_path: Path, world: dict[str, str]) -> None:
    def baton(*words: str, data: str = "") -> str:
        command = [sys.executable, "-m", "gitbaton", *words]
        done = subprocess.run(command, cwd=repo.path, env=world, input=data, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    talk = tmp_path / "talk.jsonl"
    rows = [("user", "write it"), ("assistant", "written"), ("user", "delete it"), ("undo", ""), ("user", "test it")]
    lines = [{"who": who, "text": text, "at": 1_795_000_000 + number} for number, (who, text) in enumerate(rows)]
    lines.append({"who": "edit", "path": str(repo.path / "a.py"), "at": 1_795_000_010})
    talk.write_text("".join(json.dumps(line) + "\n" for line in lines))
    repo.write("a.py", "x\n")
    payload = json.dumps({"session_id": "s", "transcript_path": str(talk), "cwd": str(repo.path)})
    baton("agent", "install", "acorn")
    assert "git-baton hook acorn Done" in (repo.path / ".acorn/settings.json").read_text()
    assert "acorn" in baton("agent", "list")
    baton("snapshot", "words")
    baton("hook", "acorn", "Done", data=payload)
    found = json.loads(baton("resume", "--json"))
    assert found["checkpoint"]["agent"]["name"] == "acorn"
    assert [one["text"] for one in found["told"]["asked"]] == ["write it", "test it"]
    assert found["checkpoint"]["observed"]["edited"]["paths"][0] == "a.py"
    told = json.loads(baton("hook", "acorn", "Begin", data=payload.replace('"s"', '"t"')))
    assert "test it" in told["hookSpecificOutput"]["additionalContext"]
    shown = baton("transcript", "show")
    assert "write it" in shown and "delete it" not in shown
    baton("agent", "uninstall", "acorn")
    assert not (repo.path / ".acorn").exists()
