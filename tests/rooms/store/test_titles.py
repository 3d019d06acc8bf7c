"""Titles that are kept of checkpoints: no list is another one with them, and nothing of them stays that was removed."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from gitbaton.base.codec import canonical
from gitbaton.base.system import parallel
from gitbaton.checkpoints.store import chain, facts, titles
from gitbaton.cli.commands import log
from tests.kit import Sandbox
from tests.kit.damage import TRACK, scene

LISTS = (
    ("log", "--all"),
    ("log", "--all", "--no-fold"),
    ("log", "--all", "--stat"),
    ("log", "--graph"),
    ("log", "--all", "--kind", "auto"),
    ("log", "--all", "--grep", "t 3"),
    ("log", "t"),
)
AGE = re.compile(r" +(now|\d+[mhd]) ")
NEVER = 1 << 40


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return a repository with turns, restores, a pin, labels and a folded row, in which titles are kept of any number."""
    box = scene(tmp_path / "scene")
    with box.open() as baton:
        for step in ("one", "two", "three"):
            baton.snapshot(f"idle {step}", track="t", kind="auto")
    box.ok("snapshot", "--track", "u", "--step", "word " * 300)
    box.git("update-ref", "refs/baton/remotes/far/tracks/abroad", TRACK)
    many(monkeypatch, 1)
    return box


def many(monkeypatch: pytest.MonkeyPatch, size: int, *, kept: int | None = None) -> None:
    """Set what counts as many; ``kept``: of titles that are worth it to be written."""
    for place in (chain, facts, parallel, titles, log):
        monkeypatch.setattr(place, "MANY", kept if place is titles and kept is not None else size)


def kept(box: Sandbox) -> Path:
    return box.path / ".git/baton/titles"


def lists(box: Sandbox) -> list[tuple[int, str, str]]:
    done = [box.here(*words) for words in LISTS]
    return [(one.code, AGE.sub(" 0s ", one.out), one.err) for one in done]


@pytest.mark.deep
def test_no_list_is_another_one_with_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    many(monkeypatch, NEVER)
    plain = lists(box)
    assert not kept(box).exists() and {code for code, _, _ in plain} == {0} and all(out for _, out, _ in plain)
    assert "automatic checkpoints without an edit" in plain[0][1] and "word word" in plain[0][1]
    many(monkeypatch, 1)
    assert lists(box) == plain
    whole = kept(box).read_bytes()
    assert lists(box) == plain and kept(box).read_bytes() == whole
    first = whole.splitlines(keepends=True)[0]
    for other in (b"", b"x", whole[:-9], whole + whole[-9:], whole.replace(b"t 4", b"t 9"), first, whole.replace(b"\t", b" ")):
        kept(box).write_bytes(other)
        assert lists(box) == plain and b"t 4" in kept(box).read_bytes(), other[:50]
    kept(box).unlink()
    kept(box).mkdir()  # so that nothing can be kept
    assert lists(box) == plain


@pytest.mark.deep
def test_their_owner_alone_reads_them_and_a_long_one_is_not_kept(box: Sandbox) -> None:
    box.ok("log", "--all")
    assert box.here("log", "--all").code == 0
    assert stat.S_IMODE(kept(box).stat().st_mode) == 0o600
    told = kept(box).read_text(encoding="utf-8")
    assert "\tt 3" in told and "word word" not in told


@pytest.mark.deep
def test_they_are_read_where_most_rows_are_folded(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with box.open() as baton:
        for number in range(30):
            baton.snapshot(f"idle {number}", track="t", kind="auto")
    told = box.here("log", "--all").out
    count = len(kept(box).read_text().splitlines()) - 1
    assert len(told.splitlines()) < count, "most are folded"
    many(monkeypatch, count)
    kept(box).unlink()
    assert box.here("log", "--all").out == told
    written = kept(box).stat()
    assert box.here("log", "--all").out == told
    assert kept(box).stat().st_ino == written.st_ino and kept(box).stat().st_mtime_ns == written.st_mtime_ns


@pytest.mark.deep
def test_nothing_is_kept_of_what_was_removed(box: Sandbox) -> None:
    box.here("log", "--all")
    assert all(word in kept(box).read_text() for word in ("t 1", "t 3", "u 0"))
    assert box.here("prune", "--keep-last", "2", "--drop-milestones", "--yes").code == 0
    told = kept(box).read_text()
    assert "t 1" not in told and "t 3" in told, "it is pinned"
    assert box.here("forget", "t~0", "--yes").code == 0 and not kept(box).exists()


@pytest.mark.deep
def test_what_another_clone_has_forgotten_goes_with_a_sync(box: Sandbox, tmp_path: Path) -> None:
    box.ok("push", "far", "--track", "t", "--yes")
    box.here("log", "--all")
    assert "t 4" in kept(box).read_text()
    box.git("clone", "-q", str(tmp_path / "scene/far.git"), str(tmp_path / "other"))
    other = Sandbox(tmp_path / "other")
    other.ok("fetch", "origin")
    gone = next(row["id"] for row in other.ok("log", "--all", "--json").json["checkpoints"] if row["step"] == "t 4")
    other.ok("forget", gone, "--yes")
    other.ok("push", "origin", "--yes")
    assert box.here("sync", "far", "--yes").code == 0
    assert "t 4" not in box.here("log", "--all").out and "t 4" not in kept(box).read_text()


@pytest.mark.deep
def test_what_is_forgotten_while_a_list_is_made_is_not_kept(box: Sandbox) -> None:
    with box.open() as baton:
        known = titles.Titles(baton.store)
        known.load()
        items = baton.store.whole().items
        title = titles.Title(words="said", label="", state="green", ended=False)
        known.learn([title.line(stored.id) for stored in items])
        oid = box.git("rev-parse", "refs/checkpoints/t")
        box.ok("forget", oid, "--yes")
        known.keep()
    told = kept(box).read_text()
    assert oid not in told and all(stored.id in told for stored in items if stored.id != oid)


@pytest.mark.deep
def test_a_checkpoint_is_told_in_a_list_as_alone(box: Sandbox) -> None:
    box.ok("tracks", "rename", "u", "renamed")
    box.ok("snapshot", "--track", "renamed", "--step", "seen \u200b\u202e and \U0001f44d")
    told = box.here("log", "--all", "--json").out
    listed = [row for row in json.loads(told)["checkpoints"] if row["track"] != "abroad"]  # with the ids of others
    alone = [json.loads(box.here("show", row["id"], "--json").out)["checkpoint"] for row in listed]
    assert len(listed) > 7 and [list(row.items()) for row in listed] == [list(row.items()) for row in alone]
    assert told == canonical(
        {"v": 1, **{key: value for key, value in json.loads(told).items() if key != "v"}}
    ).decode().replace("\u200b\u202e", "\\u200b\\u202e")
    none = json.loads(box.here("log", "--all", "--json", "-n", "0").out)
    assert none == {"v": 1, "checkpoints": []}


@pytest.mark.deep
def test_none_is_kept_of_what_is_in_no_chain_here(box: Sandbox, tmp_path: Path) -> None:
    box.git("clone", "-q", str(tmp_path / "scene/far.git"), str(tmp_path / "other"))
    other = Sandbox(tmp_path / "other")
    other.ok("snapshot", "--track", "elsewhere", "--step", "said elsewhere")
    other.ok("snapshot", "--track", "elsewhere", "--step", "and more")
    other.ok("fetch", "origin")
    other.ok("sync", "origin", "--yes")
    other.ok("snapshot", "--track", "t", "--step", "t elsewhere")
    other.ok("push", "origin", "--yes")
    box.ok("fetch", "far")
    for words in (("log", "--all", "--no-fold"), ("log", "elsewhere"), ("log", "far/t"), ("log", "--all", "--kind", "safety")):
        assert box.here(*words).code == 0
    listed = box.here("log", "--all", "--no-fold").out
    assert all(words in listed for words in ("said elsewhere", "t elsewhere", "restored"))
    told = kept(box).read_text()
    assert "t 3" in told and not any(words in told for words in ("elsewhere", "and more", "before restore"))


@pytest.mark.deep
def test_what_went_unnoticed_goes_with_the_next_list(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.here("log", "--all")
    assert "u 0" in kept(box).read_text()
    for ref in ("refs/baton/tracks/u", "refs/checkpoints/u", "refs/baton/remotes/far/tracks/abroad"):
        box.git("update-ref", "-d", ref)
    many(monkeypatch, 1, kept=NEVER)
    assert box.here("log", "t").code == 0 and "u 0" in kept(box).read_text()
    assert box.here("log", "--all").code == 0
    told = kept(box).read_text()
    assert "u 0" not in told and "t 3" in told


@pytest.mark.deep
def test_what_killed_writers_have_left_goes_with_the_next_one(box: Sandbox) -> None:
    folder = box.path / ".git/baton"
    old, new = [folder / f"{name}.4711" for name in ("facts", "titles", "index-facts")], folder / "facts.4712"
    other = folder / "facts.kept"
    for path in (*old, new, other):
        path.write_bytes(b"half")
    for path in (*old, other):
        os.utime(path, (1, 1))
    box.write("staged", "content\n")
    box.git("add", "staged")
    lists(box)
    box.ok("snapshot", "--track", "t", "--step", "s")
    assert [path.exists() for path in (*old, new, other)] == [False, False, False, True, True]


@pytest.mark.deep
def test_what_a_killed_list_has_left_goes_with_what_is_removed(box: Sandbox) -> None:
    left = kept(box).with_name("titles.1")
    for words in (("prune", "--keep-last", "4", "--yes"), ("forget", "t~0", "--yes")):
        left.write_text("t 4")
        assert box.here(*words).code == 0 and not left.exists(), words


@pytest.mark.deep
def test_none_is_kept_while_others_are_forgotten(box: Sandbox) -> None:
    with box.open() as baton, baton.repo.lock(()):
        assert box.here("log", "--all").code == 0 and not kept(box).exists()
    assert box.here("log", "--all").code == 0 and kept(box).exists()
