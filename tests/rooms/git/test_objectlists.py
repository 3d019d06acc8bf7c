"""Bulk listings: what can be read is told also beside what cannot, and what is not here excludes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitbaton.git import objectlists
from gitbaton.git.repo import Repo, discover
from tests.kit import Sandbox


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(str(repo.path), door="binary")
    yield found
    found.close()


def blobs(repo: Sandbox, count: int) -> list[str]:
    made = [repo.run("git", "hash-object", "-w", "--stdin", stdin=f"{number}\n\n".encode() * 9) for number in range(count)]
    return [done.out.strip() for done in made]


@pytest.mark.deep
def test_of_many_objects_those_after_a_torn_one_of_another_process_are_read(
    repo: Sandbox, opened: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    oids, missing = blobs(repo, 6), "1" * 40
    assert objectlists.kinds(opened, [*oids, missing, ""]) == dict.fromkeys(oids, "blob")
    monkeypatch.setattr(objectlists, "_WANTED", 4)
    assert objectlists.kinds(opened, [*oids, missing]) == dict.fromkeys(oids, "blob")
    path = repo.path / ".git" / "objects" / oids[1][:2] / oids[1][2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:12])
    assert objectlists.kinds(opened, oids) == dict.fromkeys([oids[0], *oids[3:]], "blob")


def test_what_is_not_here_excludes_nothing(repo: Sandbox, opened: Repo) -> None:
    first = repo.git("rev-parse", "HEAD")
    repo.write("new.txt", "new\n")
    repo.git("add", "new.txt")
    repo.git("commit", "-q", "-m", "second")
    second, missing = repo.git("rev-parse", "HEAD"), "1" * 40
    found = objectlists.reachable(opened, [second], [first])
    assert sorted(found.values()) == [b"", b"", b"new.txt"] and second in found
    assert objectlists.reachable(opened, [second], [first, missing, "no id"]) == found
    assert first in objectlists.reachable(opened, [second], [missing])
