"""Filters of every kind in front of files, and whether any object holds what they are to keep back: for tests of the gate."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kit.repos import Sandbox

SECRET = "pw hunter"
_CRYPT = """#!/bin/sh
case $1 in clean) echo ENC; tr a-z n-za-m;; smudge) sed 1d | tr a-z n-za-m;; esac
"""
WAYS = ("missing", "failing", "locked", "unconfigured", "optional", "normalising", "redacting")


class Gated:
    """A repository whose ``secret*`` files stand behind the filter ``c``, with a bare ``hub`` that has its first commit."""

    def __init__(self, place: Path) -> None:
        self.place, self.program = place, place / "crypt"
        self.hub = Sandbox.init(place / "hub", "--bare")
        self.box = Sandbox.init(place / "work")
        self.program.write_text(_CRYPT)
        self.program.chmod(0o755)
        self._set(clean=f"'{self.program}' clean", smudge=f"'{self.program}' smudge", required="true")
        self.box.write(".gitattributes", "secret* filter=c\n")
        self.box.write("secret", f"{SECRET}\n")
        self.box.write("deep/secret-too", f"{SECRET} below\n")
        self.box.commit("one")
        self.box.git("remote", "add", "origin", str(self.hub.path))
        self.box.git("push", "-q", "origin", "main")

    def _set(self, **settings: str) -> None:
        for key, text in settings.items():
            self.box.git("config", f"filter.c.{key}", text)

    def shut(self, way: str) -> None:
        """From now on the filter does not run, or makes what a checkout does not give back."""
        if way in ("missing", "optional"):
            self.program.rename(self.place / "crypt.gone")
            self._set(required=str(way == "missing").lower())
        elif way == "failing":
            self._set(clean="cat >/dev/null; exit 1")
        elif way == "locked":
            self._set(clean="echo 'the key is locked' >&2; exit 1", required="false")
        elif way == "unconfigured":
            self.box.git("config", "--remove-section", "filter.c")
        elif way == "normalising":
            self._set(clean=f"sed s/$/./ | '{self.program}' clean")
        elif way == "redacting":
            self._set(clean="sed 's/hunter.*/***/'", smudge="cat")

    def opened(self) -> None:
        """The filter runs again."""
        if not self.program.exists():
            (self.place / "crypt.gone").rename(self.program)
        self._set(clean=f"'{self.program}' clean", smudge=f"'{self.program}' smudge", required="true")

    def edit(self) -> dict[str, str]:
        """One file of each kind: a tracked edit, stale stat data, a new one; what they hold."""
        box = self.box
        (box.path / "secret").write_text(f"{SECRET} two\n")
        (box.path / "deep/secret-too").touch()
        box.write("secret new", f"{SECRET} three\n").chmod(0o755)
        return self.texts()

    def texts(self) -> dict[str, str]:
        """What the files behind the filter hold."""
        return {str(p.relative_to(self.box.path)): p.read_text() for p in self.box.path.rglob("secret*") if p.is_file()}


def leaks(box: Sandbox, text: str = SECRET) -> list[str]:
    """The lines of blobs and commits of a repository, reachable or not, in which a text stands."""
    rows = box.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    oids = [row.split()[0] for row in rows if row.endswith((" blob", " commit"))]
    words = ["git", "cat-file", "--batch"]
    done = subprocess.run(words, cwd=box.path, input="\n".join(oids).encode(), check=True, capture_output=True)
    return [line.decode("utf-8", "replace") for line in done.stdout.split(b"\n") if text.encode() in line]


def held(box: Sandbox) -> set[str]:
    """The tokens of what is held."""
    return {p.name for p in (box.path / ".git/baton/held").glob("?" * 64)}
