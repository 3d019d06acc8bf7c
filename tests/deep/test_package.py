"""The sdist and the wheel: built from what git holds, without a network, and installed beside what they need, they work."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from io import BytesIO
from pathlib import Path

import pytest

from gitbaton import __version__
from tests.kit import Sandbox
from tests.kit.places import PACKAGE, ROOT

pytestmark = pytest.mark.deep
# No index, no proxy and no configuration of this machine: what asks for the network fails.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | dict.fromkeys(
    ("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"
)


def ran(*words: str | Path, cwd: Path) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "GIT_"))}
    done = subprocess.run([*words], cwd=cwd, env=inherited | OFFLINE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git holds of this checkout, as it is now, and nothing else."""
    folder = tmp_path_factory.mktemp("source")
    made = subprocess.run(["git", "-C", str(ROOT), "stash", "create"], capture_output=True, text=True, check=False)
    done = subprocess.run(["git", "-C", str(ROOT), "archive", made.stdout.strip() or "HEAD"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is no clone")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from the unpacked sdist."""
    place = tmp_path_factory.mktemp("built")
    ran(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place, cwd=source)
    (sdist,) = place.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=place / f"gitbaton-{__version__}")
    (wheel,) = place.glob("*.whl")
    return sdist, wheel


def needed(name: str) -> Iterator[metadata.Distribution]:
    """An installed package, and those that it needs here at run time."""
    found = metadata.distribution(name)
    yield found
    for said in found.requires or ():
        other = re.match(r"[\w.-]+", said)
        with suppress(metadata.PackageNotFoundError):  # needed elsewhere only
            if other is not None and "extra ==" not in said:
                yield from needed(other[0])


def packed(found: metadata.Distribution, folder: Path) -> None:
    """A wheel of what is installed."""
    wheel = email.message_from_string(found.read_text("WHEEL") or "")
    tags = zip(*(tag.split("-") for tag in wheel.get_all("Tag", [])), strict=True)
    tag = "-".join(".".join(sorted(set(parts))) for parts in tags)
    name = re.sub(r"[-_.]+", "_", found.metadata["Name"])
    inside = [file for file in found.files or () if ".." not in file.parts and file.suffix != ".pyc"]
    with zipfile.ZipFile(folder / f"{name}-{found.version}-{tag}.whl", "w") as target:
        for file in inside:
            if file.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                target.write(str(file.locate()), str(file))
        record = next(file for file in inside if file.name == "RECORD")
        target.writestr(str(record), "".join(f"{file},,\n" for file in target.namelist()) + f"{record},,\n")


def test_the_sdist_holds_what_git_holds(source: Path, built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    held = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert inside - held == {"PKG-INFO"} and held <= inside


def test_the_wheel_says_its_licenses_and_holds_its_data(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
        info = f"gitbaton-{__version__}.dist-info"
        said = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        apache = archive.read(f"{info}/licenses/gitbaton/data/licenses/Apache-2.0.txt")
    assert said["License-Expression"] == "MIT AND Apache-2.0" and said["Version"] == __version__
    assert b"Apache License\n                           Version 2.0" in apache
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/gitbaton/data/licenses/NOTICE.txt"} <= names
    data = {f"gitbaton/{path.relative_to(PACKAGE)}" for path in (PACKAGE / "data").rglob("*") if path.is_file()}
    pages = {name for name in data if "/data/man/" in name}
    assert {name.partition("/data/share/")[2] for name in names if "/share/man/" in name} == {
        name.replace("gitbaton/data/man/", "man/")
        for name in pages  # each once
    }
    assert data - pages <= names and not pages & names and any(name.startswith("gitbaton/data/hooks/") for name in names)
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]


def test_the_wheel_works_where_nothing_else_can_be_had(repo: Sandbox, built: tuple[Path, Path], tmp_path: Path) -> None:
    wheels, venv = tmp_path / "wheels", tmp_path / "venv"
    wheels.mkdir()
    for found in {found.metadata["Name"]: found for name in ("pygit2", "typer") for found in needed(name)}.values():
        packed(found, wheels)
    ran(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    ran(venv / "bin/pip", "install", "-q", "--no-index", "--find-links", wheels, built[1], cwd=tmp_path)
    ran(venv / "bin/pip", "check", cwd=tmp_path)
    assert "gitbaton" in ran(venv / "bin/python", "-c", "import gitbaton; print(gitbaton.__file__)", cwd=tmp_path)
    program = venv / "bin/git-baton"
    assert ran(program, "--version", cwd=repo.path) == f"git-baton {__version__}\n"
    repo.write("new.txt", "new\n")
    ran(program, "snapshot", "--track", "t", "--step", "from a wheel", cwd=repo.path)
    ran(program, "install", cwd=repo.path)
    assert "from a wheel" in ran(program, "resume", cwd=repo.path)
    ran(venv / "bin/python", "-c", "import gitbaton; print(gitbaton.Baton('.').resume('t').stored.id)", cwd=repo.path)
    assert (venv / "share/man/man1/git-baton.1").is_file()
    assert "snapshot" in ran(program, "snapshot", "-h", cwd=repo.path)
