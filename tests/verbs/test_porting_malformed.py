"""Folders that cannot be imported: refused in one line that names the file, and nothing half-done."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.verbs.test_porting import folder, record

BAD = "context_checkpoint_20250601T000500Z_bad.json"
GOOD = {"context_checkpoint_20250601T000100Z_a.json": record(1), "context_checkpoint_20250601T000900Z_z.json": record(9)}


def everything(path: Path) -> dict[str, str]:
    """Every file, link and directory below a path, by content."""
    found = {}
    for item in sorted(path.rglob("*")):
        what = (
            os.readlink(item) if item.is_symlink() else hashlib.sha1(item.read_bytes()).hexdigest() if item.is_file() else "/"
        )
        if ".git/baton/" not in str(item):  # the lock, and the record of what is ours, which begins with it
            found[str(item.relative_to(path))] = what
    return found


def check_refused(repo: Sandbox, old: str, *words: str, code: int = 128) -> str:
    """The one line that refuses a folder; nothing in the repository or the folder has changed."""
    os.makedirs(repo.path / ".git/baton", exist_ok=True)
    before = everything(repo.path), everything(Path(old)), repo.git("for-each-ref")
    done = repo.baton("import", old)
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("fatal: ") and done.err.count("\n") == 1 and done.err.rstrip("\n").isprintable(), done.err
    assert "bug in gitbaton" not in done.err and len(done.err) < 700
    assert (everything(repo.path), everything(Path(old)), repo.git("for-each-ref")) == before
    assert all(word in done.err for word in words), done.err
    return done.err


def deep(levels: int) -> bytes:
    return b'{"track": "t", "step": "s", "timestamp": 1750000000, "extra": {"k": ' + b"[" * levels + b"]" * levels + b"}}"


MALFORMED: dict[str, tuple[object, str]] = {
    "empty": (b"", "not JSON"),
    "text": (b"not json at all", "not JSON"),
    "cut short": (json.dumps(record(5)).encode()[:-9], "not JSON"),
    "binary": (bytes(range(256)), "not JSON"),
    "utf-16": (json.dumps(record(5)).encode("utf-16"), "not JSON"),
    "a list": ([record(5)], "not a JSON object"),
    "a number": (b"5", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "a key twice": (b'{"track": "t", "track": "u", "step": "s", "timestamp": 1750000000}', "twice"),
    "no number": (b'{"track": "t", "step": "s", "timestamp": NaN}', "not a number"),
    "a huge number": (b'{"track": "t", "step": "s", "timestamp": ' + b"9" * 10000 + b"}", "not JSON"),
    "no track": ({k: v for k, v in record(5).items() if k != "track"}, "names no track"),
    "track is a list": (record(5, track=["t"]), "names no track"),
    "track is empty": (record(5, track="  "), "empty"),
    "track too long": (record(5, track="x" * 300), "longer than"),
    "control characters in track": (record(5, track="a\x1b[2Jb\nc"), "control"),
    "half a surrogate in track": (b'{"track": "\\ud800", "step": "s", "timestamp": 1750000000}', "control"),
    "half a surrogate in step": (b'{"track": "t", "step": "\\ud800", "timestamp": 1750000000}', "not UTF-8"),
    "bad timestamp": (record(5, timestamp="yesterday"), "'yesterday' cannot be understood"),
    "timestamp is a map": (record(5, timestamp={"s": 1}), "cannot be understood"),
    "timestamp is true": (record(5, timestamp=True), "cannot be understood"),
    "before 1970": (record(5, timestamp="1950-01-01"), "before 1970"),
    "after 2099": (record(5, timestamp="9999-12-31T23:59:59Z"), "after 2099"),
    "extra is a list": (record(5, extra=["a"]), "'extra' is not a map"),
    "extra is text": (record(5, extra="a=b"), "'extra' is not a map"),
    "too many extras": (record(5, extra={f"k{n}": n for n in range(300)}), "300 extras"),
    "a long note": (record(5, note="x" * 70000), "limit is 65536"),
    "a step of escapes": (record(5, step="\x1b\x07"), "no visible character"),
    "a label of escapes": (record(5, label="\u200b"), "no visible character"),
    "ten megabytes": (record(5, note="x" * (10 << 20)), "limit is 4194304"),
    "deep": (deep(100), "nested deeper"),
    "very deep": (deep(100000), "not JSON"),
    "deep validations": (deep(100).replace(b"extra", b"validations"), "nested deeper"),
    "ours, of tomorrow": (record(5, v=2, kind="manual", created="2025-06-01T00:00:00.000000Z", files=None), "version 2"),
    "ours, broken": (record(5, v=1, kind="manual", created="2025-06-01T00:00:00.000000Z", files=None), "record.agent is not"),
}


@some("name", MALFORMED, 5)
def test_a_malformed_record(repo: Sandbox, tmp_path: Path, name: str) -> None:
    data, word = MALFORMED[name]
    check_refused(repo, folder(tmp_path / "old", {**GOOD, BAD: data}), BAD, word)


LATEST: dict[str, tuple[object, str]] = {
    "no tracks": ({"current_track": "t"}, "no map 'tracks'"),
    "tracks is a list": ({"tracks": [record(5)]}, "no map 'tracks'"),
    "a track is text": ({"tracks": {"t": "step"}}, "track 't': it is not a record"),
    "current_track is a list": ({"current_track": [], "tracks": {"t": record(5)}}, "current_track"),
    "an empty name": ({"tracks": {"": record(5)}}, "empty"),
    "a name of escapes": ({"tracks": {"\x1b[2J\n": record(5)}}, "control"),
    "twins": ({"tracks": {"Work": record(5), "work": record(6)}}, "'work' differs from the track 'Work' only in case"),
    "a bad time": ({"tracks": {"t": record(5, timestamp="soon")}}, "'soon'"),
    "a bad time of its own": ({"generated": "1950-01-01", "tracks": {"t": {"step": "s"}}}, "before 1970"),
    "not JSON": (b"{]", "not JSON"),
}


@pytest.mark.deep
@some("name", LATEST, 6)
def test_a_malformed_latest(repo: Sandbox, tmp_path: Path, name: str) -> None:
    data, word = LATEST[name]
    check_refused(repo, folder(tmp_path / "old", {**GOOD, "LATEST.json": data}), "LATEST.json", word)


@pytest.mark.deep
def test_a_twin_of_a_track_that_is_there(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "Work", "--step", "s")
    check_refused(repo, folder(tmp_path / "old", {**GOOD, BAD: record(5, track="wORK")}), BAD, "'Work' only in case")


def test_twins_in_two_files(repo: Sandbox, tmp_path: Path) -> None:
    check_refused(
        repo, folder(tmp_path / "old", {**GOOD, "LATEST.json": {"tracks": {"T": record(5)}}}), "_a.json", "track 'T' only"
    )


def link_outside(path: Path) -> None:
    secret = path.parent.parent / "secret.json"
    secret.write_text(json.dumps(record(5)))
    path.symlink_to(secret)


def unreadable(path: Path) -> None:
    path.write_text(json.dumps(record(5)))
    path.chmod(0)


SPECIAL: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link": (link_outside, "is a symbolic link"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
    "a directory": (lambda path: path.mkdir(), "is not a file"),
    "a pipe": (lambda path: os.mkfifo(path), "is not a file"),
    "unreadable": (unreadable, "cannot be read: Permission denied"),
}


@some("file", [BAD, "LATEST.json"], 2)
@some("name", SPECIAL, 2)
def test_what_is_no_file_to_read(repo: Sandbox, tmp_path: Path, name: str, file: str) -> None:
    make, word = SPECIAL[name]
    if name == "unreadable" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    old = tmp_path / "old"
    folder(old, GOOD)
    make(old / file)
    if name in ("unreadable", "a pipe"):
        before = repo.git("for-each-ref")
        done = repo.baton("import", str(old))
        assert done.code == 128 and file in done.err and word in done.err and repo.git("for-each-ref") == before
    else:
        check_refused(repo, str(old), file, word)


@pytest.mark.deep
def test_a_folder_that_holds_nothing_or_is_none(repo: Sandbox, tmp_path: Path) -> None:
    folder(tmp_path / "old", {"README.md": b"x", "context_checkpoint.json": b"x", "LATEST.md": b"x"})
    check_refused(repo, str(tmp_path / "old"), "holds no LATEST.json", code=129)
    check_refused(repo, str(tmp_path / "nowhere"), "No such file", code=129)
    (tmp_path / "file").write_text("x")
    assert repo.baton("import", str(tmp_path / "file")).code == 129
    assert repo.baton("import").code == 129
    assert repo.baton("import", str(tmp_path / "old"), "another").code == 129
    done = repo.ok("import", folder(tmp_path / "none", {"LATEST.json": {"tracks": {}}}))
    assert done.out == "no checkpoints there\n" and repo.git("for-each-ref", "refs/baton", "refs/checkpoints") == ""


@pytest.mark.deep
def test_a_broken_chain_stops_an_import_before_it_begins(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "u", "--step", "s")
    broken = repo.git("commit-tree", "-p", "refs/baton/tracks/u", "-m", "stranger", "HEAD^{tree}")
    repo.git("update-ref", "refs/baton/tracks/u", broken)
    check_refused(repo, folder(tmp_path / "old", {**GOOD, BAD: record(5, track="u")}), "'u' has a broken record")


def test_escapes_in_a_file_name_reach_no_terminal(repo: Sandbox, tmp_path: Path) -> None:
    check_refused(repo, folder(tmp_path / "old", {"context_checkpoint_\x1b[2J\n_x.json": b"{"}), "not JSON")


@pytest.mark.deep
def test_nothing_in_a_folder_is_run_or_followed(repo: Sandbox, tmp_path: Path) -> None:
    evil = record(5, next_cmd="touch ran", head="--output=ran", branch="../../ran", label="../../../ran", extra={"p": "../ran"})
    repo.ok("import", folder(tmp_path / "old", {BAD: evil}))
    repo.ok("export", "--history")
    assert not list(tmp_path.rglob("ran*"))
