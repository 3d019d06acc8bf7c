"""What a command changes outside its write set when it runs in the work tree itself, and the images of what was there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.git.objects import object_id
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.capture import private_folder
from gitbaton.git.worktree.filesets import Files, read_tree, swap
from gitbaton.git.worktree.filewatch import Strays, Watch
from gitbaton.git.worktree.globs import matcher
from tests.kit import Sandbox
from tests.kit.filekit import coarse
from tests.kit.moments import at

LIMIT = 1000


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    """Tracked, modified, staged-and-modified, deleted, untracked, ignored, large; a link; outputs below ``out``."""
    repo.commit("second", clean_txt="clean\n", modified_txt="m\n", staged_txt="s\n", removed_txt="r\n", touched_txt="t\n")
    repo.write(".gitignore", "*.o\n")
    repo.write("modified.txt", "mine\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "and more\n")
    (repo.path / "removed.txt").unlink()
    repo.write("new/untracked", "u\n").chmod(0o755)
    repo.write("x.o", "ignored\n")
    repo.write("large", "L" * (LIMIT + 1))
    (repo.path / "link").symlink_to("clean.txt")
    repo.write("out/old", "o\n")
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


@contextmanager
def watch(opened: Repo) -> Iterator[Watch]:
    with private_folder(opened) as folder:
        yield Watch(Files(opened, opened.layout.root or "", cached=False), matcher(["out/**"]), folder, max_size=LIMIT)


def strays(repo: Sandbox, opened: Repo, change: Callable[[Sandbox], object]) -> Strays:
    index = (repo.path / ".git/index").read_bytes()
    with watch(opened) as seen:
        assert (repo.path / ".git/index").read_bytes() == index
        change(repo)
        found = seen.changed()
    assert {*(repo.path / ".git/baton/tmp").iterdir()} <= {Path(opened.quarantine()).parent}
    files = Files(opened, os.fspath(repo.path), cached=False)
    assert all(read_tree(opened.objects, files.tree(images)) == images for images in (found.before, found.after))
    return found


def told(found: Strays) -> list[tuple[str, str | None, str | None]]:
    """Each path with the blob from before and the one of now."""
    sides = [{path: entry.oid for path, entry in images.items()} for images in (found.before, found.after)]
    return [(path, sides[0].get(path), sides[1].get(path)) for path in found.found]


def blob(data: bytes | None) -> str | None:
    return None if data is None else object_id("sha1", "blob", data)


def test_nothing_changed_is_nothing_found(repo: Sandbox, opened: Repo) -> None:
    def touch(repo: Sandbox) -> None:
        for name in ("clean.txt", "modified.txt", "staged.txt", "new/untracked", "touched.txt"):
            os.utime(repo.path / name)
        repo.write("out/new", "n")
        repo.write("out/old", "n")
        repo.write("y.o", "ignored")
        (repo.path / "x.o").unlink()
        repo.write("modified.txt", "mine\n")

    assert strays(repo, opened, touch).found == ()


@pytest.mark.parametrize("data", [b"clean\n", b"stray\n"])
def test_a_file_that_a_sparse_checkout_leaves_out_was_not_there(repo: Sandbox, data: bytes) -> None:
    repo.write("far/out.txt", "clean\n")
    repo.git("add", "far")
    repo.git("commit", "-qm", "far")
    repo.git("sparse-checkout", "set", "near")
    opened = discover(os.fspath(repo.path), door="binary")
    found = strays(repo, opened, lambda repo: repo.write("far/out.txt", data))
    opened.close()
    assert told(found) == [("far/out.txt", None, blob(data))]


EDITS: dict[str, tuple[bytes | None, bytes | None]] = {
    "clean.txt": (b"clean\n", b"stray\n"),
    "modified.txt": (b"mine\n", b"MINE\n"),
    "staged.txt": (b"and more\n", None),
    "removed.txt": (None, b"back\n"),
    "new/untracked": (b"u\n", b"v\n"),
    "new/more": (None, b""),
    "a.txt": (b"one\n", None),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", EDITS)
def test_r28_a_stray_write_in_place_is_reported_with_its_before_image(repo: Sandbox, opened: Repo, name: str) -> None:
    before, after = EDITS[name]

    def edit(repo: Sandbox) -> None:
        (repo.path / name).unlink() if after is None else repo.write(name, after)

    found = strays(repo, opened, edit)
    assert told(found) == [(name, blob(before), blob(after))]
    for data in (before, after):
        if data is not None:
            assert opened.git.out("cat-file", "blob", blob(data) or "") == data
    assert found.unkept == ()
    root = os.fspath(repo.path)
    assert swap(opened, root, {name: found.before.get(name)}, found.after) == ()
    assert (repo.path / name).exists() == (before is not None)
    assert before is None or (repo.path / name).read_bytes() == before


def test_modes_links_and_folders_in_the_place_of_files(repo: Sandbox, opened: Repo) -> None:
    def change(repo: Sandbox) -> None:
        (repo.path / "clean.txt").chmod(0o755)
        (repo.path / "link").unlink()
        (repo.path / "link").symlink_to("a.txt")
        (repo.path / "touched.txt").unlink()
        repo.write("touched.txt/inner", "i")

    found = strays(repo, opened, change)
    assert [*found.found] == ["clean.txt", "link", "touched.txt", "touched.txt/inner"]
    assert found.before["clean.txt"].mode == "100644" and found.after["clean.txt"].mode == "100755"
    assert found.before["clean.txt"].oid == found.after["clean.txt"].oid
    assert "touched.txt" not in found.after and "touched.txt/inner" not in found.before


def test_what_is_large_or_special_is_reported_without_an_image(repo: Sandbox, opened: Repo) -> None:
    def change(repo: Sandbox) -> None:
        repo.write("large", "l" * (LIMIT + 1))
        repo.write("larger", "l" * (LIMIT + 2))
        repo.write("clean.txt", "l" * (LIMIT + 2))

    found = strays(repo, opened, change)
    said = {path: (before, after) for path, before, after in told(found)}
    assert said == {"large": (None, None), "larger": (None, None), "clean.txt": (blob(b"clean\n"), None)}
    assert found.unkept == ("clean.txt", "large", "larger")
    assert repo.try_git("cat-file", "-e", blob(b"L" * (LIMIT + 1)) or "").code != 0
    assert strays(repo, opened, lambda repo: os.utime(repo.path / "clean.txt", ns=(0, 0))).unkept == ("clean.txt",)


def test_a_step_that_stages_commits_or_ignores_hides_nothing(repo: Sandbox, opened: Repo) -> None:
    def change(repo: Sandbox) -> None:
        repo.write("clean.txt", "stray\n")
        repo.write("new/more", "n")
        repo.git("add", "-A")
        repo.git("commit", "-qm", "sneaky")
        repo.write("modified.txt", "MINE\n")
        (repo.path / ".git/index").unlink()
        repo.write(".git/info/exclude", "new\nlarge\n")
        repo.write("new/untracked", "changed\n")

    paths = [*strays(repo, opened, change).found]
    assert paths == ["clean.txt", "modified.txt", "new/untracked"]  # `new/more` is ignored when it is looked for


@pytest.mark.deep
def test_same_size_edits_of_the_same_moment_are_seen(repo: Sandbox, opened: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse(monkeypatch)
    for number in range(10):
        repo.write("modified.txt", f"{number:04}")
        with watch(opened) as seen:
            repo.write("modified.txt", f"{number + 50:04}")
            assert [*seen.changed().found] == ["modified.txt"], number


def test_bits_that_hide_edits_from_git_hide_none_from_us(repo: Sandbox, opened: Repo) -> None:
    repo.git("update-index", "--assume-unchanged", "clean.txt")
    repo.git("update-index", "--skip-worktree", "touched.txt")
    found = strays(repo, opened, lambda repo: [repo.write(name, "x") for name in ("clean.txt", "touched.txt")])
    assert [t[:2] for t in told(found)] == [("clean.txt", blob(b"clean\n")), ("touched.txt", blob(b"t\n"))]


@pytest.mark.deep
def test_files_that_git_converts_are_not_changed_by_a_touch(repo: Sandbox, opened: Repo) -> None:
    repo.write(".gitattributes", "*.crlf text eol=crlf\n*.low filter=low\n")
    repo.git("config", "filter.low.clean", "tr A-Z a-z")
    repo.write("a.crlf", b"one\r\n")
    repo.write("b.crlf", b"two\r\n")
    repo.write("c.low", b"ABC\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "third")

    def change(repo: Sandbox) -> None:
        for name in ("a.crlf", "c.low", "touched.txt"):
            os.utime(repo.path / name, ns=(0, 0))
        repo.write("b.crlf", b"Two\r\n")

    time.sleep(0.02)
    assert [t[:2] for t in told(strays(repo, opened, change))] == [("b.crlf", blob(b"two\n"))]


def test_a_required_filter_that_fails_is_no_obstacle(repo: Sandbox, opened: Repo) -> None:
    repo.write(".gitattributes", "touched.txt filter=gone\n")
    repo.git("config", "filter.gone.clean", "false")
    repo.git("config", "filter.gone.required", "true")
    index = repo.path / ".git/index"
    newest = os.stat(repo.path / "touched.txt").st_mtime_ns
    os.utime(index, ns=(newest, newest))  # racily clean: git must read it, through its filter
    found = strays(repo, opened, lambda repo: repo.write("clean.txt", "stray\n"))
    assert [t[:2] for t in told(found)] == [("clean.txt", blob(b"clean\n"))]


def test_conflicts_and_a_repository_without_an_index(repo: Sandbox, opened: Repo, tmp_path: object) -> None:
    info = "".join(f"100644 {repo.git('rev-parse', 'HEAD:a.txt')} {stage}\tboth.txt\n" for stage in (1, 2, 3))
    repo.git("update-index", "--index-info", stdin=info.encode())
    repo.write("both.txt", "<<<<<<<\n")
    found = strays(repo, opened, lambda repo: repo.write("both.txt", "solved\n"))
    assert [t[:2] for t in told(found)] == [("both.txt", blob(b"<<<<<<<\n"))]
    bare = Sandbox.init(repo.path.parent / "unborn")
    bare.write("f", "1")
    fresh = discover(os.fspath(bare.path), door="binary")
    with watch(fresh) as seen:
        bare.write("f", "2")
        assert [t[1:] for t in told(seen.changed())] == [(blob(b"1"), blob(b"2"))]
    fresh.close()


def test_the_private_index_goes_when_the_look_fails(repo: Sandbox, opened: Repo) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    seen = os.fspath(repo.path / "new/untracked")
    with at("open", lambda args: args[0] == seen, stop), pytest.raises(KeyboardInterrupt), watch(opened):
        pass
    assert {*(repo.path / ".git/baton/tmp").iterdir()} <= {Path(opened.quarantine()).parent}
