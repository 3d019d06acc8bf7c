"""Bulk listings: what can be read is told also beside what cannot, and what is not here excludes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitbaton.git import objectlists
from gitbaton.git.objects import object_id
from gitbaton.git.repo import Repo, discover
from tests.kit import Sandbox


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(str(repo.path), door="binary")
    yield found
    found.close()


MANY = 1200  # so many are read by two processes


@pytest.mark.deep
def test_of_many_objects_those_after_a_torn_one_of_another_process_are_read(repo: Sandbox, opened: Repo) -> None:
    texts = [b"%d\n" % number * 9 for number in range(MANY)]
    repo.git("fast-import", "--quiet", stdin=b"".join(b"blob\ndata %d\n%s\n" % (len(text), text) for text in texts))
    oids = [object_id("sha1", "blob", text) for text in texts]
    assert objectlists.kinds(opened, [*oids, "1" * 40, ""]) == dict.fromkeys(oids, "blob")
    torn = repo.git("hash-object", "-w", "--stdin", stdin=b"torn\n" * 99)
    path = repo.path / ".git" / "objects" / torn[:2] / torn[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:12])
    assert objectlists.kinds(opened, [torn, *oids]) == dict.fromkeys(oids[MANY // 2 - 1 :], "blob")


def test_a_look_at_headers_tells_the_kinds_of_what_is_here_whatever_follows_them(repo: Sandbox, opened: Repo) -> None:
    commit = repo.git("rev-parse", "HEAD")
    blob, gone = (repo.git("hash-object", "-w", "--stdin", stdin=text) for text in (b"half\n" * 999, b"no header\n"))
    whole = repo.loose(blob).read_bytes()
    for oid, data in ((blob, whole[:-9]), (gone, b"no header")):
        repo.loose(oid).chmod(0o644)
        repo.loose(oid).write_bytes(data)
    assert objectlists.headers(opened, [gone, commit, "1" * 40, blob]) == {commit: "commit", blob: "blob"}


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
