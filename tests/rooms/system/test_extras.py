"""The line that adds an extra: it is the one of the environment that gitbaton runs in."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from gitbaton.base.system.extras import adding
from tests.kit.places import ROOT

CODE = "from gitbaton.base.system.extras import adding; print(adding('ui'))"


def test_it_names_what_the_package_asks_for() -> None:
    assert adding("ui") == f"{sys.executable} -m pip install 'textual<9,>=8'"
    assert adding("langgraph") == f"{sys.executable} -m pip install 'langgraph-checkpoint<5,>=4.3'"


@pytest.mark.deep
def test_each_kind_of_environment_has_its_own(tmp_path: Path) -> None:
    place = tmp_path / "my gitbaton"
    venv.create(place, symlinks=True)

    def told() -> str:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [place / "bin" / "python", "-c", CODE], env=env, capture_output=True, text=True, check=True
        ).stdout

    assert told() == f"uv pip install --python '{place}/bin/python' textual\n"  # without pip, as uv makes them
    (folder,) = place.glob("lib/python*/site-packages")
    (folder / "pip.py").touch()
    assert told() == f"'{place}/bin/python' -m pip install textual\n"
    (place / "pipx_metadata.json").write_text("{}")
    assert told() == "pipx inject 'my gitbaton' textual\n"
