"""Files written whole, wherever the folder is that they are named from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.base.system.files import open_folder, write_atomic


@pytest.mark.parametrize("below", [False, True], ids=["path", "descriptor"])
def test_the_file_and_then_its_name_are_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: bool) -> None:
    place = tmp_path / "place"
    place.mkdir()
    held, waits, real = open_folder(str(place)), list[int](), os.fsync

    def waiting(fd: int) -> None:
        waits.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", waiting)
    try:
        write_atomic("a" if below else str(place / "a"), b"whole", folder=held if below else None, sync=True)
    finally:
        os.close(held)
    assert (place / "a").read_bytes() == b"whole" and os.listdir(place) == ["a"]
    assert waits == [(place / "a").stat().st_ino, place.stat().st_ino]
