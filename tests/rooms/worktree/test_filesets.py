"""What globs match on disk, as a git tree: every kind of file, what is left out, and files that change under the reader."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import GitError, RecordError
from gitbaton.git.objects import TreeEntry, new_object, object_id, tree_data
from gitbaton.git.publish import kept_reachable
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.filesets import FileEntry, Files, read_tree
from tests.kit import Sandbox
from tests.kit.moments import at

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


def files(opened: Repo) -> Files:
    return Files(opened, opened.layout.root or "", cached=False)


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_set_is_the_tree_that_git_itself_would_write(repo: Sandbox, opened: Repo) -> None:
    repo.write("src/run.sh", "#!/bin/sh\n").chmod(0o755)
    repo.write("src/deep/er/x y.txt", b"\0\xff bytes\r\n")
    repo.write("src/.hidden", "")
    repo.write("src/deep.txt", "sorts before the folder")
    (repo.path / "src/link").symlink_to("../a.txt")
    with open(os.fsencode(repo.path) + b"/src/\xff\n\xe9", "wb") as file:
        file.write(b"odd name")
    (repo.path / "src/empty folder").mkdir()
    found = files(opened).scan(["src/**", "a.txt", "none/*.c"])
    repo.git("add", "-A")
    assert found.tree == repo.git("write-tree")
    assert found.unmatched == ("none/*.c",) and found.digests == ()
    assert found.entries["src/run.sh"].mode == "100755" and found.entries["src/link"].mode == "120000"
    assert read_tree(opened.objects, found.tree) == found.entries
    assert files(opened).tree(found.entries) == found.tree
    repo.fsck()


def test_bytes_are_those_on_disk_whatever_git_would_convert(repo: Sandbox, opened: Repo) -> None:
    repo.write(".gitattributes", "*.txt text eol=crlf\n*.bin ident\n*.lfs filter=lfs\n")
    repo.write("x.txt", b"one\r\ntwo\r\n")
    repo.write("y.bin", b"$Id: 1$\n")
    repo.write("z.lfs", b"not yet cleaned\n")
    found = files(opened).scan(["*.txt", "*.bin", "*.lfs"])
    stands = opened.objects.read(found.entries["z.lfs"].oid)
    assert stands is not None and (stands.data or b"").startswith(b"gitbaton held 1\n")
    for name in ("x.txt", "y.bin"):
        assert found.entries[name].oid == object_id("sha1", "blob", (repo.path / name).read_bytes())
        assert opened.objects.read(found.entries[name].oid) is not None


def test_what_is_no_file_of_the_work_tree_is_left_out(repo: Sandbox, opened: Repo, tmp_path: Path) -> None:
    written(tmp_path / "outside/secret", b"s")
    repo.write("d/file", "f")
    os.mkfifo(repo.path / "d/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(repo.path / "d/socket"))
        (repo.path / "d/folder").symlink_to(tmp_path / "outside")
        Sandbox.init(repo.path / "d/nested").write("inner", "i")
        repo.write(f"d/.baton-{'0' * 16}.new", "torn")
        found = files(opened).scan(["d/**"])
    assert sorted(found.entries) == ["d/file", "d/folder", "d/nested/inner"]
    assert found.entries["d/folder"].mode == "120000"
    for glob in ("d/folder/**", "d/folder/secret", "d/fifo", "d/nested/.gi?/config"):
        assert files(opened).scan([glob]).unmatched == (glob,), glob
    assert files(opened).scan(["d/folder"]).entries.keys() == {"d/folder"}


def test_an_empty_set_is_the_empty_tree(repo: Sandbox, opened: Repo) -> None:
    assert files(opened).scan([]).tree == files(opened).scan(["nothing/**"]).tree == EMPTY
    assert repo.git("cat-file", "-t", EMPTY) == "tree" and read_tree(opened.objects, EMPTY) == {}


def test_the_x_bit_counts_only_where_git_trusts_it(repo: Sandbox, opened: Repo) -> None:
    repo.write("x", "x").chmod(0o755)
    assert files(opened).scan(["x"]).entries["x"].mode == "100755"
    repo.git("config", "core.fileMode", "false")
    assert files(discover(os.fspath(repo.path), door="binary")).scan(["x"]).entries["x"].mode == "100644"


def test_sha256_repository(tmp_path: Path) -> None:
    sandbox = Sandbox.init(tmp_path / "r", "--object-format=sha256")
    sandbox.write("d/a", "a")
    found = files(discover(os.fspath(sandbox.path), door="binary")).scan(["d/**"])
    sandbox.git("add", "-A")
    assert found.tree == sandbox.git("write-tree")


def _touch(top: Path) -> None:
    os.utime(top / "src/a.c")


def _same_bytes_again(top: Path) -> None:
    (top / "src/a.c").write_text("one byte")


@pytest.mark.parametrize("change", [_touch, _same_bytes_again])
def test_r02_touch_without_change_gives_the_same_tree(repo: Sandbox, opened: Repo, change: Callable[[Path], None]) -> None:
    repo.write("src/a.c", "one byte")
    seen = files(opened)
    before = seen.scan(["src/**"]).tree
    change(repo.path)
    assert seen.scan(["src/**"]).tree == before == files(opened).scan(["src/**"]).tree


def _link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def _secretly(path: Path, text: str) -> None:
    before = os.stat(path).st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before, before))


CHANGES: dict[str, Callable[[Path], object]] = {
    "one byte": lambda top: (top / "src/a.c").write_text("One byte"),
    "mode bit": lambda top: (top / "src/a.c").chmod(0o755),
    "symlink target": lambda top: _link(top / "src/l", "b.d"),
    "new file under a glob": lambda top: written(top / "src/deep/new.c", b""),
    "deleted file": lambda top: (top / "src/b.c").unlink(),
    "file becomes a link": lambda top: _link(top / "src/b.c", "a.c"),
    "same-size edit with its old time": lambda top: _secretly(top / "src/a.c", "One byte"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_r03_every_change_of_what_is_read_changes_the_tree(repo: Sandbox, opened: Repo, name: str) -> None:
    repo.write("src/a.c", "one byte")
    repo.write("src/b.c", "b")
    (repo.path / "src/l").symlink_to("b.c")
    seen = files(opened)
    before = seen.scan(["src/**"]).tree
    CHANGES[name](repo.path)
    assert seen.scan(["src/**"]).tree == files(opened).scan(["src/**"]).tree != before


@pytest.mark.deep
def test_large_files_and_store_none_are_recorded_by_digest(repo: Sandbox, opened: Repo) -> None:
    repo.write("d/small", "x" * 10)
    repo.write("d/large", "").chmod(0o755)
    os.truncate(repo.path / "d/large", (100 << 20) + 1)
    (repo.path / "d/link").symlink_to("large")
    time.sleep(0.07)  # what is not so young is read once
    seen = files(opened)
    for _ in range(2):
        found = seen.scan(["d/**"])
        assert found.digests == ("d/large",) and found.entries["d/large"].mode == "100755"
    text = opened.git.out("cat-file", "blob", found.entries["d/large"].oid).decode()
    digest = repo.run("sha256sum", "d/large").out.split(" ")[0]
    assert text == f"gitbaton digest 1\nsha256 {digest}\nsize 104857601\n"
    assert read_tree(opened.objects, found.tree, found.digests) == found.entries
    none = seen.scan(["d/**"], store="none")
    assert none.digests == ("d/large", "d/small") and none.entries["d/link"] == found.entries["d/link"]
    assert seen.scan(["d/**"]) == found


def test_what_is_not_held_is_streamed_into_the_store(repo: Sandbox, opened: Repo) -> None:
    repo.write("d/streamed", bytes((8 << 20) + 1))
    repo.write("d/held", "x")
    found = files(opened).scan(["d/**"])
    repo.git("add", "d")
    repo.git("rm", "-q", "--cached", "a.txt")
    assert found.tree == repo.git("write-tree") and found.digests == ()


def refuse(_: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_an_unreadable_file_or_folder_is_named(repo: Sandbox, opened: Repo) -> None:
    repo.write("d/closed/file", "x")
    for event, path, named in (("open", "d/closed/file", "d/closed/file"), ("os.scandir", "d", "d")):
        full = os.fspath(repo.path / path)
        with (
            at(event, lambda args, full=full: args[0] == full, refuse),  # type: ignore[misc]
            pytest.raises(GitError, match=f"^'{named}' cannot be read: Permission denied$"),
        ):
            files(opened).scan(["d/**"])


def test_a_file_that_vanishes_while_it_is_read_is_not_there(repo: Sandbox, opened: Repo) -> None:
    gone, stays = repo.write("d/gone", "x"), repo.write("d/stays", "x")
    with at("open", lambda args: args[0] == os.fspath(gone), lambda _: gone.unlink()):
        assert list(files(opened).scan(["d/**"]).entries) == [f"d/{stays.name}"]


@pytest.mark.parametrize("times", [1, 1000])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    repo: Sandbox, opened: Repo, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path = repo.write("d/log", "0")
    real, left = os.read, [times]

    def grow(fd: int, most: int) -> bytes:
        data = real(fd, most)
        if not data and left[0] and os.path.samestat(os.fstat(fd), path.stat()):
            left[0] -= 1
            with path.open("a") as file:
                file.write("+")
        return data

    monkeypatch.setattr(os, "read", grow)
    seen = files(opened)
    oid = seen.scan(["d/**"]).entries["d/log"].oid
    assert times - left[0] == (5 if times > 1 else 1)
    data = path.read_bytes() if times == 1 else b"0++++"  # the last reading, a whole one of its moment
    assert oid == object_id("sha1", "blob", data)
    left[0] = 0
    assert seen.scan(["d/**"]).entries["d/log"].oid == object_id("sha1", "blob", path.read_bytes())


def test_what_a_swap_leaves_behind_a_link_is_not_read(repo: Sandbox, opened: Repo) -> None:
    repo.write("made/sub/x", "1")
    (repo.path / "in").symlink_to("made")
    with closing(Files(opened, os.fspath(repo.path))) as files:
        before = files.scan(["in"], follow=True)
        assert sorted(before.entries) == ["in", "made/sub/x"]
        repo.write("made/sub/.baton-0123456789abcdef.new", "2")
        assert files.scan(["in"], follow=True) == before


def test_links_that_lead_out_are_refused_where_that_is_asked(repo: Sandbox, opened: Repo) -> None:
    (repo.path / "d").mkdir()
    (repo.path / "d/in").symlink_to("../a.txt")
    assert files(opened).scan(["d/**"], inside=True).entries.keys() == {"d/in"}
    (repo.path / "d/out").symlink_to("../../elsewhere")
    with pytest.raises(GitError, match=r"^'d/out' is a symbolic link that leads out of the work tree, to '../../elsewhere'$"):
        files(opened).scan(["d/**"], inside=True)
    assert len(files(opened).scan(["d/**"]).entries) == 2


def test_names_that_the_file_system_folds_count_as_they_are_on_disk(repo: Sandbox, opened: Repo) -> None:
    repo.write("Src/a", "a")
    (repo.path / ".GIT").symlink_to(".git")  # as where the file system takes `src` for `Src`
    seen = files(opened)
    (repo.path / "src").symlink_to("Src")
    assert seen.scan(["src/**"]).unmatched == ("src/**",) and not seen.scan(["SRC/a"]).entries
    assert seen.scan(["Src/a"]).entries.keys() == {"Src/a"}


def test_many_new_files_are_one_pack(repo: Sandbox, opened: Repo) -> None:
    for number in range(300):
        repo.write(f"d/{number % 7}/{number}", str(number))
    found = files(opened).scan(["d/**"])
    assert len(list(Path(opened.quarantine()).glob("pack/*.pack"))) == 1
    with kept_reachable(opened, [found.tree], (), how="never"):
        assert len(repo.tree(found.tree)) == 300
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *((b"100644", name) for name in (b".git", b"..", b".", b".GIT", b"git~1", b".gi\xe2\x80\x8ct")),
        *((mode, b"x") for mode in (b"160000", b"100664", b"000000", b"40755")),
        (b"40000", b".git"),
    ],
)
def test_a_tree_that_no_set_is_written_as_is_refused(opened: Repo, mode: bytes, name: bytes) -> None:
    blob = new_object("sha1", "blob", b"x")
    inner = new_object(
        "sha1", "tree", tree_data([TreeEntry(mode=mode, name=name, oid=blob.oid if mode != b"40000" else EMPTY)])
    )
    outer = new_object("sha1", "tree", tree_data([TreeEntry(mode=b"40000", name=b"d", oid=inner.oid)]))
    opened.objects.write([blob, inner, outer, new_object("sha1", "tree", b"")])
    for tree in (inner.oid, outer.oid, blob.oid, "0" * 40):
        with pytest.raises(RecordError):
            read_tree(opened.objects, tree)


NAMES = st.text(st.sampled_from("ab.-0 \udcff\xe9"), min_size=1, max_size=3).filter(lambda n: n.strip(".") != "")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@pytest.mark.deep
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=st.dictionaries(PATHS, st.sampled_from(["100644", "100755", "120000"]), max_size=6))
def test_what_is_written_is_read_back(opened: Repo, paths: dict[str, str]) -> None:
    blob = new_object("sha1", "blob", b"x")
    kept = {p: m for p, m in paths.items() if not any(other.startswith(p + "/") for other in paths)}
    entries = {p: FileEntry(path=p, mode=m, oid=blob.oid) for p, m in kept.items()}
    opened.objects.write([blob])
    assert read_tree(opened.objects, files(opened).tree(entries)) == entries
