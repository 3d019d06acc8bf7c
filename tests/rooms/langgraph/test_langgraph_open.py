"""GitSaver opens what it is given, and makes a repository where there is none."""

from __future__ import annotations

import asyncio
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.errors import GitError, NotARepositoryError
from gitbaton.base.system.extras import adding
from gitbaton.git.questions import create_bare
from tests.kit import Sandbox
from tests.kit.forkserver import python
from tests.kit.saverkit import chain, config, ids, number

pytest.importorskip("langgraph.checkpoint.base")

from gitbaton.langgraph import GitSaver


@pytest.mark.deep
def test_what_is_opened(tmp_path: Path) -> None:
    """A bare repository is made where nothing is, and in an empty folder; else git's answer counts."""
    (tmp_path / "empty").mkdir()
    for name in ("new.git", "deep/er/new", "empty"):
        with GitSaver(tmp_path / name, fsync=False) as saver:
            chain(saver, 2)
        bare = Sandbox(tmp_path / name)
        assert bare.git("rev-parse", "--is-bare-repository") == "true" and not bare.git("for-each-ref", "refs/heads")
        assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "2"
        assert [p.name for p in (tmp_path / name).parent.iterdir() if p.name.endswith(".new")] == []
    repo = Sandbox.init(tmp_path / "work")
    repo.commit("first", a_txt="one\n")
    with GitSaver.from_conn_string(str(tmp_path / "work")) as saver:
        chain(saver, 2)
    with Baton(repo.path) as baton:
        with GitSaver(baton) as saver:
            assert len(list(saver.list(None))) == 2
        assert baton.repo.objects.head().oid == repo.head()  # not ours to close
    assert repo.git("status", "--porcelain") == "" and not (repo.path / ".git/baton/wal").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("x")
    for name in ("full", "full/file", "full/file/below"):
        with pytest.raises(NotARepositoryError):
            GitSaver(tmp_path / name)
    with pytest.raises(GitError, match="cannot create the repository"):
        GitSaver("/proc/no/such/place")


def test_setup_is_called_as_of_any_other_saver(tmp_path: Path) -> None:
    """Without ``await`` as SqliteSaver's and PostgresSaver's, with it as AsyncSqliteSaver's and AsyncPostgresSaver's, or by
    another name as AsyncRedisSaver's."""

    async def awaited(saver: GitSaver) -> None:
        await saver.setup()
        await saver.asetup()
        await saver.setup()

    with GitSaver(tmp_path / "threads.git", fsync=False) as saver:
        saver.setup()
        asyncio.run(awaited(saver))
        chain(saver, 2)
        saver.setup()
        assert ids(saver.list(None)) == [number(1), number(0)]


@pytest.mark.parametrize("options", [("--object-format=sha256",), ("--ref-format=reftable",), ("--bare",)], ids=str)
def test_any_kind_of_repository(
    tmp_path: Path, options: tuple[str, ...], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = request.getfixturevalue("new_git") if "reftable" in options[0] else "git"
    if git != "git":
        monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
    repo = Sandbox.init(tmp_path / "repo", *options, git=git)
    for flushed in (False, True):
        with GitSaver(repo.path, fsync=False) as saver:
            names = [] if flushed else chain(saver, 5)
            saver.put_writes(config(id=number(2)), [("n", flushed)], f"task {flushed}")
            assert ids(saver.list(config())) == [number(n) for n in reversed(range(5))] and len(names) in (0, 5)
            found = asyncio.run(saver.aget_tuple(config(id=number(2))))
            assert found is not None and found.checkpoint["channel_values"] == {"n": 2}
            assert found.pending_writes == [("task False", "n", False), ("task True", "n", True)][: flushed + 1]
    assert repo.git("rev-list", "--count", "refs/baton/threads/=t/_") == "5"
    repo.fsck()


@pytest.mark.deep
def test_who_names_a_bare_repository_is_given_it_whatever_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """safe.bareRepository=explicit is of what git finds by itself: a path that is named is what --git-dir is."""
    work = Sandbox.init(tmp_path / "work")
    setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository", "GIT_CONFIG_VALUE_0": "explicit"}
    for key, value in setting.items():
        monkeypatch.setenv(key, value)
    place = tmp_path / "new.git"
    for count in (0, 2):
        with GitSaver(place, fsync=False) as saver:
            assert len(list(saver.list(None))) == count
            chain(saver, 2)
            saver.maintain()
    monkeypatch.chdir(tmp_path)
    with Baton("new.git") as baton, GitSaver(baton) as saver:
        assert len(list(saver.list(None))) == 2
    with GitSaver(work.path / ".git") as saver:
        assert saver.store.chains() == []
    monkeypatch.chdir(place)
    for start in (None, str(place / "refs")):
        with pytest.raises(NotARepositoryError, match=r"safe\.bareRepository is 'explicit'") as found:
            Baton(start)
        assert found.value.hints == ("name it: git --git-dir=PATH baton ...",)
    monkeypatch.setenv("GIT_DIR", str(place))
    with Baton() as baton:
        assert baton.repo.layout.git_dir == str(place)


def test_a_new_repository_is_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    create_bare(str(tmp_path / "a/b/new.git"), sync=False)
    assert synced == []
    create_bare(str(tmp_path / "c/d/new.git"))
    inside = [re.sub(r"^c/d/new[.]git[.][0-9a-f]+[.]new/?", "", name) for name in synced[:-3]]
    found = {
        os.path.relpath(os.path.join(top, name), tmp_path / "c/d/new.git")
        for top, *both in os.walk(tmp_path / "c/d/new.git")
        for names in both
        for name in names
    }
    assert sorted(inside) == sorted({*found, ""}) and {"HEAD", "config", "refs/heads"} <= found
    assert synced[-3:] == ["c/d", "c", "."]


def test_several_make_one_repository_at_once(tmp_path: Path) -> None:

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: create_bare(str(tmp_path / "new.git")), range(4)))
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["new.git"]
    Sandbox(tmp_path / "new.git").fsck()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "sys.modules['langgraph'] = None\ntry: from gitbaton.langgraph import GitSaver\nexcept ImportError as e: print(e)",
            f"GitSaver needs LangGraph, and there is no module 'langgraph.checkpoint': {adding('langgraph')}\n",
        ),
        ("import gitbaton.langgraph; print('langgraph' in sys.modules)", "False\n"),
        ("import gitbaton.langgraph as it\ntry: it.other\nexcept AttributeError: print('no')", "no\n"),
    ],
    ids=["missing", "late", "other"],
)
def test_langgraph_is_imported_late_and_its_lack_is_told(code: str, said: str, tmp_path: Path) -> None:
    done = python(["-c", f"import sys\n{code}"], str(tmp_path), os.environ)
    assert (done.code, done.out.decode()) == (0, said), done.err
