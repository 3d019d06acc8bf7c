"""A conversation read back: from what is stored, by whomever, else from the client's own file; writers killed and at once."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitbaton.agents.transcripts import CHUNK, Mode, read, record
from gitbaton.base.codec import transcript_text
from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.model import Agent, Stored, Transcript
from gitbaton.base.values import replace
from tests.kit import Sandbox
from tests.kit.doors import FORMATS, build
from tests.kit.places import ROOT
from tests.kit.tiers import some
from tests.rooms.transcripts.test_transcripts import REF, SESSION, check_stored, event, line, objects, take

FOLDER = "home/.claude/projects/-somewhere"
WRITER = """
import os, sys
from gitbaton import Baton
from tests.rooms.transcripts.test_transcripts import event
mode, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
if not times:  # it is killed as soon as it takes a lock
    sys.addaudithook(lambda event, args: event == "fcntl.flock" and os.kill(os.getpid(), 9))
for _ in range(times or 1):
    with Baton(door="binary") as baton:
        said = []
        found = transcripts.record(baton, event(path), mode, None, said.append)
        print(found.stored, found.size, *said, flush=True)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The client's own file, where it keeps it."""
    path = tmp_path / FOLDER / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(line(n, 20_000) for n in range(10)))
    return path


def snap(box: Sandbox, found: Transcript | None, agent: str = "claude", session: str | None = SESSION) -> Stored:
    """A checkpoint that names how far a conversation had come."""
    text = transcript_text(found) if found else None
    with box.open(door="binary") as baton:
        return baton.snapshot("s", track="t", agent=Agent(name=agent, session=session, transcript=text)).stored


def back(box: Sandbox, stored: Stored) -> bytes:
    with box.open(door="binary") as baton:
        return read(baton, stored, os.environ)


def refused(box: Sandbox, stored: Stored) -> BatonError:
    with pytest.raises(BatonError) as raised:
        back(box, stored)
    return raised.value


@pytest.mark.deep
@some("mode", ["position", "full"])
def test_a_conversation_is_cut_where_the_checkpoint_was_taken(repo: Sandbox, own: Path, mode: Mode) -> None:
    data = own.read_bytes()
    then = snap(repo, take(repo, own, mode))
    with own.open("ab") as file:
        file.write(line(10, CHUNK * 2) + line(11))
    later = snap(repo, take(repo, own, mode))
    assert back(repo, then) == data
    assert back(repo, later) == own.read_bytes()
    own.unlink()
    if mode == "full":
        assert back(repo, then) == data
    else:
        error = refused(repo, then)
        assert "is not stored, and the client has no file of it here" in error.message
        assert "redacted" in error.hints[0] and "'git config baton.transcripts full'" in error.hints[0]


@pytest.mark.deep
def test_an_earlier_position_is_read_from_a_later_commit(repo: Sandbox, own: Path) -> None:
    found = take(repo, own)
    first = len(line(0, 20_000))
    assert back(repo, snap(repo, replace(found, size=first, lines=1, last="u-0"))) == line(0, 20_000)


@pytest.mark.deep
def test_what_was_stored_later_holds_what_was_said_before(repo: Sandbox, own: Path) -> None:
    data = own.read_bytes()
    stored = snap(repo, take(repo, own, "position"))
    with own.open("ab") as file:
        file.write(line(10))
    later = take(repo, own)
    own.unlink()
    assert back(repo, stored) == data
    assert refused(repo, snap(repo, replace(later, lines=1, stored=None)))
    assert refused(repo, snap(repo, replace(later, stored=None), agent="x/../claude"))


def test_a_file_that_the_client_rewrote_is_not_taken_for_it(repo: Sandbox, own: Path) -> None:
    stored = snap(repo, take(repo, own, "position"))
    for data in (b"", line(0, 20_000), own.read_bytes().replace(b"u-9", b"v-9"), own.read_bytes()[:-1] + b" \n"):
        own.write_bytes(data)
        assert "has rewritten the conversation" in refused(repo, stored).message


@pytest.mark.deep
def test_where_the_client_is_told_to_keep_its_files(
    repo: Sandbox, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = snap(repo, take(repo, own, "position"))
    data = own.read_bytes()
    (tmp_path / "home/.claude").rename(tmp_path / "elsewhere [x]")
    assert refused(repo, stored)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere [x]"))
    assert back(repo, stored) == data
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "relative")
    assert refused(repo, stored)


@some(
    ("agent", "name", "variable"),
    [
        ("codex", "sessions/2026/11/20/rollout-2026-11-20T16-30-52-{0}.jsonl", "CODEX_HOME"),
        ("codex", "archived_sessions/rollout-2026-11-20T16-30-52-{0}.jsonl", "CODEX_HOME"),
        ("gemini", ".gemini/tmp/repo/chats/session-2026-11-20T16-30-e8b31b82.jsonl", "GEMINI_CLI_HOME"),
        ("copilot", "session-state/{0}/events.jsonl", "COPILOT_HOME"),
    ],
    2,
)
def test_each_client_has_its_own_place(
    repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, name: str, variable: str
) -> None:
    home = tmp_path / "kept"
    path = home / name.format(SESSION)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"id": "m-1", "type": "user"}\n')
    with repo.open(door="binary") as baton:
        found = record(baton, event(path, agent=agent), "position", None)
    stored = snap(repo, found, agent)
    assert refused(repo, stored)
    monkeypatch.setenv(variable, str(home))
    assert back(repo, stored) == path.read_bytes()


@some("session", ["../../secret", "*", "a/b", "", "x" * 129, "é", "[a-z]", None], 3)
def test_a_session_never_becomes_a_path(repo: Sandbox, tmp_path: Path, session: str | None) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    for name in ("home/secret.jsonl", f"{FOLDER}/a.jsonl", f"{FOLDER}/.jsonl"):
        (tmp_path / name).write_bytes(line(1))
    found = Transcript(size=len(line(1)), lines=1, last="u-1")
    error = refused(repo, snap(repo, found, session=session))
    assert "conversation" in error.message and "secret" not in "".join(error.hints)


def test_a_checkpoint_without_a_conversation_says_so(repo: Sandbox) -> None:
    assert "knows of no conversation" in refused(repo, snap(repo, None)).message
    with repo.open(door="binary") as baton:
        plain = baton.snapshot("s", track="u").stored
        assert "knows of no conversation" in refused(repo, plain).message


@pytest.mark.deep
@some("name", FORMATS, 2)
def test_every_door_and_format_stores_the_same(
    repo: Sandbox, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    place = build(tmp_path / "place", name, monkeypatch)
    box = place.sandbox
    with box.open(door=place.door) as baton:
        first = record(baton, event(own), "full", None)
        with own.open("ab") as file:
            file.write(line(10))
        second = record(baton, event(own), "full", first)
        assert first is not None and second is not None
        stored = baton.snapshot("s", track="t", agent=Agent(name="claude", session=SESSION, transcript=transcript_text(first)))
        assert read(baton, stored.stored, {}) == own.read_bytes()[: first.size]
    check_stored(box, second, own.read_bytes())
    assert box.git("rev-list", REF).split() == [second.stored, first.stored]
    box.fsck()


def commit_of(box: Sandbox, *entries: tuple[str, str, str, str]) -> str:
    rows = "".join(f"{mode} {kind} {oid}\t{name}\n" for mode, kind, oid, name in entries)
    tree = box.git("mktree", "--missing", stdin=rows.encode())
    return box.git("commit-tree", "-m", "x", tree)


def blob(box: Sandbox, data: bytes) -> str:
    return box.git("hash-object", "-w", "--stdin", stdin=data)


def tree(box: Sandbox, *entries: tuple[str, str, str]) -> str:
    kind = {"40000": "tree", "160000": "commit"}
    rows = "".join(f"{mode} {kind.get(mode, 'blob')} {oid}\t{name}\n" for mode, oid, name in entries)
    return box.git("mktree", "--missing", stdin=rows.encode())


class Forger:
    """Commits that look like the stored conversation and are none."""

    def __init__(self, box: Sandbox, found: Transcript) -> None:
        self.box, self.found = box, found
        top = f"{found.stored}^{{tree}}"
        self.chunk, self.meta, self.folder = (
            box.git("rev-parse", f"{top}:{name}") for name in ("chunks/00000000", "meta", "chunks")
        )

    def around(self, *chunks: tuple[str, str, str], meta: str | None = None) -> str:
        """A commit of these chunks."""
        folder = tree(self.box, *chunks)
        return commit_of(self.box, ("040000", "tree", folder, "chunks"), ("100644", "blob", meta or self.meta, "meta"))

    def holding(self, data: bytes) -> str:
        """A commit of one chunk."""
        return self.around(("100644", blob(self.box, data), "00000000"))

    def described(self, data: bytes) -> str:
        """A commit with another meta."""
        return self.around(("100644", self.chunk, "00000000"), meta=blob(self.box, data))

    def told(self, old: str, new: str) -> str:
        """A commit whose meta says something else."""
        text = self.box.git("cat-file", "blob", self.meta) + "\n"
        assert old in text
        return self.described(text.replace(old, new).encode())

    def shapes(self) -> dict[str, str]:
        """Other trees, by what is wrong."""
        folder, meta = ("040000", "tree", self.folder, "chunks"), ("100644", "blob", self.meta, "meta")
        link = blob(self.box, b"/etc/passwd")
        return {
            "no tree of ours": self.box.head(),
            "empty": commit_of(self.box),
            "a blob": self.chunk,
            "one more entry": commit_of(self.box, folder, meta, ("100644", "blob", self.meta, "x")),
            "meta is a folder": commit_of(self.box, folder, ("040000", "tree", self.folder, "meta")),
            "chunks are a file": commit_of(self.box, ("100644", "blob", self.chunk, "chunks"), meta),
            "chunks are missing": commit_of(self.box, ("040000", "tree", "1" * 40, "chunks"), meta),
            "no chunk": self.around(),
            "a gap": self.around(("100644", self.chunk, "00000001")),
            "other names": self.around(("100644", self.chunk, "0")),
            "a symlink": self.around(("120000", link, "00000000")),
            "an executable": self.around(("100755", self.chunk, "00000000")),
            "a submodule": self.around(("160000", self.box.head(), "00000000")),
            "a folder for a chunk": self.around(("40000", self.folder, "00000000")),
            "a missing chunk": self.around(("100644", "2" * 40, "00000000")),
        }

    def contents(self) -> dict[str, str]:
        """Other chunks and descriptions, by what is wrong."""
        size = self.found.size
        return {
            "cut within a line": self.holding(b"x" * size),
            "too few lines": self.holding(b"x" * (size - 1) + b"\n"),
            "too short": self.holding(b"x\n"),
            "not the last message": self.holding(b"y" * (size - 3) + b"\n\n\n"),
            "huge": self.told(f'"bytes": {size}', '"bytes": 99999999999999'),
            "negative": self.told(f'"lines": {self.found.lines}', '"lines": -1'),
            "another session": self.told(SESSION, "other"),
            "another agent": self.told("claude", "codex"),
            "another version": self.told('"v": 2', '"v": 3'),
            "no version": self.told('"v": 2', '"v": true'),
            "kept is no number": self.told(f'"kept": {size}', '"kept": true'),
            "nothing is kept": self.told(f'"kept": {size}', '"kept": 0'),
            "too much is kept": self.told(f'"kept": {size}', '"kept": 99999999999999'),
            "no id": self.told('"last": "u-2"', '"last": "a b"'),
            "a list": self.described(b"[]\n"),
            "no json": self.described(b"\xff"),
            "too much": self.described(b"{" + b" " * (2 << 20) + b"}"),
        }


@pytest.mark.deep
def test_a_hostile_commit_is_no_conversation(repo: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(0) + line(1) + line(2))
    found = take(repo, path)
    honest = snap(repo, found)
    assert back(repo, honest) == path.read_bytes()
    forger = Forger(repo, found)
    for what, commit in {**forger.shapes(), **forger.contents()}.items():
        stored = snap(repo, replace(found, stored=commit))
        assert isinstance(refused(repo, stored), RecordError), what
        repo.git("update-ref", REF, commit)
        again = take(repo, path)  # nothing of it is used, and what is right goes on top of it
        check_stored(repo, again, path.read_bytes())
        parents = repo.git("rev-list", "-1", "--parents", again.stored or "").split()[1:]
        assert parents == ([] if what == "a blob" else [commit]), what
    for size in (1, found.size - 1, found.size + 1, 10**14):
        assert isinstance(refused(repo, snap(repo, replace(found, size=size))), RecordError)
    assert isinstance(refused(repo, snap(repo, replace(found, lines=2))), RecordError)


@pytest.mark.full
def test_one_chunk_many_times_is_not_read_beyond_the_limits(repo: Sandbox, tmp_path: Path) -> None:
    """256 MiB, and 10,000 chunks."""
    path = tmp_path / "t.jsonl"

    def repeated(width: int, count: int) -> Stored:
        path.write_bytes(line(0, width))
        found = take(repo, path)
        chunk = repo.git("rev-parse", f"{found.stored}:chunks/00000000")
        size = found.size * count
        said = repo.git("cat-file", "blob", f"{found.stored}:meta").replace(str(found.size), str(size))
        folder = tree(repo, *(("100644", chunk, f"{n:08d}") for n in range(count)))
        meta = blob(repo, said.replace('"lines": 1', f'"lines": {count}').encode() + b"\n")
        commit = commit_of(repo, ("040000", "tree", folder, "chunks"), ("100644", "blob", meta, "meta"))
        return snap(repo, replace(found, size=size, lines=count, stored=commit))

    assert len(back(repo, repeated(1, 10_000))) > 10_000
    for width, count in ((1, 10_001), (1 << 20, 256)):
        assert isinstance(refused(repo, repeated(width, count)), RecordError)


def writer(box: Sandbox, mode: Mode, path: Path, times: int = 1) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, mode, str(path), str(times)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, cwd=box.path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.full
def test_a_writer_killed_before_its_ref_leaves_nothing_behind(repo: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(0) + line(1))
    before = take(repo, path)
    path.write_bytes(line(0) + line(1) + line(2))
    count = objects(repo)
    killed = writer(repo, "full", path, 0)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert len(list((repo.path / ".git/baton/tmp").glob("*/objects/??/*"))) == 5
    assert objects(repo) == count and repo.git("rev-parse", REF) == before.stored
    with (repo.path / ".git/baton/flock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = writer(repo, "full", path)
        out, err = waiting.communicate()
        assert out.startswith("None ") and "the conversation is not stored: " in out, err
    after = take(repo, path)
    check_stored(repo, after, path.read_bytes())
    assert repo.git("rev-list", REF).split() == [after.stored, before.stored]
    repo.fsck()


@pytest.mark.full
def test_two_processes_at_once_lose_nothing(repo: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(0))
    children = [writer(repo, "full", path, 6) for _ in range(2)]
    number = 0
    while any(child.poll() is None for child in children):
        number += 1
        with path.open("ab") as file:
            file.write(line(number, number % 7 * 2_000))
        time.sleep(0.01)
    data = path.read_bytes()
    stored: list[str] = []
    for child in children:
        out, err = child.communicate()
        assert child.returncode == 0, err
        for row in out.splitlines():
            commit, size = row.split(" ")[:2]
            assert row == f"{commit} {size}"
            found = Transcript(size=int(size), lines=data[: int(size)].count(b"\n"), stored=commit)
            assert back(repo, snap(repo, found)) == data[: int(size)]
            stored.append(commit)
    assert set(stored) == set(repo.git("rev-list", REF).split())
    repo.fsck()
