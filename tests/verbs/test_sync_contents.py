"""Content that git does not carry: a push sends what git-lfs keeps, or names what stays, and the other side says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.git.worktree.gate import ANNEX, DVC, LFS, OTHER, kept_by, lfs_oid
from tests.kit import Sandbox
from tests.kit.far import CHAINS, Far, ok, snap
from tests.kit.repos import Outcome

# What git-lfs does, as far as it matters here; the real one is tried in tests/deep.
PROGRAM = """#!/bin/sh
store=$(git rev-parse --git-common-dir)/lfs/objects
case $1 in
clean) t=$(mktemp); cat >$t; o=$(sha256sum <$t | cut -c1-64); f=$store/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-4)
  mkdir -p $f; s=$(wc -c <$t); mv $t $f/$o
  printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize %s\\n' $o $s;;
smudge) o=$(sed -n 's/oid sha256://p'); p=$(echo $o | cut -c1-2)/$(echo $o | cut -c3-4)/$o
  cat $store/$p 2>/dev/null || cat "$FAKE_HUB/$p";;
push) shift 2; echo "$@" >>"$FAKE_HUB/calls"; test -z "$FAKE_REFUSES" || { echo "batch response: quota exceeded" >&2; exit 2; }
  shift; for o; do p=$(echo $o | cut -c1-2)/$(echo $o | cut -c3-4)
    mkdir -p "$FAKE_HUB/$p"; cp $store/$p/$o "$FAKE_HUB/$p/"; done;;
esac
"""


@pytest.fixture
def lfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Far:
    """A remote and a clone in which ``*.bin`` stands behind git-lfs, which has a hub of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "hub").mkdir()
    program = tmp_path / "bin/git-lfs"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_HUB", str(tmp_path / "hub"))
    far = Far(tmp_path)
    configured(far.first)
    far.first.write(".gitattributes", "*.bin filter=lfs\n")
    far.first.commit("attributes")
    far.first.git("push", "-q", "origin", "main")
    return far


def configured(box: Sandbox) -> None:
    for key, text in {"clean": "git-lfs clean %f", "smudge": "git-lfs smudge %f", "required": "true"}.items():
        box.git("config", f"filter.lfs.{key}", text)


def calls(far: Far) -> list[list[str]]:
    """What git-lfs was told to push: the remote, and the ids."""
    path = far.place / "hub/calls"
    return [row.split() for row in path.read_text().splitlines()] if path.exists() else []


def pushed(far: Far, **env: str) -> Outcome:
    return far.first.baton("push", "origin", "--yes", env=env)


def second(far: Far) -> Sandbox:
    """Another clone of the remote, which has fetched."""
    there = Sandbox(far.place / "there")
    far.first.git("clone", "-q", "--no-checkout", str(far.remote.path), str(there.path))
    configured(there)
    there.git("checkout", "-q", "main")
    there.ok("fetch", "origin")
    return there


def test_the_content_of_lfs_goes_before_the_refs_and_comes_back(lfs: Far) -> None:
    a = lfs.first
    a.write("a.bin", "content\n")
    snap(a, "one")
    assert "would push the content of 1 file by git-lfs" in ok(a, "push", "--dry-run").out and calls(lfs) == []
    done = ok(a, "push", "origin", "--yes")
    assert "push the content of 1 file by git-lfs\n" in done.out and done.err.count("content") == 0
    assert [words[0] for words in calls(lfs)] == ["origin"] and len(calls(lfs)[0]) == 2
    snap(a, "two")
    ok(a, "push", "origin", "--yes")
    assert len(calls(lfs)) == 1  # nothing of git-lfs is new
    there = second(lfs)
    there.ok("restore", "t", "--foreign")
    assert (there.path / "a.bin").read_text() == "content\n"


def test_git_lfs_is_not_called_where_nothing_stands_behind_it(lfs: Far) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 9\n"
    lfs.first.write("example.txt", pointer)
    snap(lfs.first, "one")
    done = ok(lfs.first, "push", "origin", "--yes")
    assert calls(lfs) == [] and "does not go along" not in done.err


@pytest.mark.deep
def test_nothing_is_pushed_where_the_content_cannot_be(lfs: Far) -> None:
    lfs.first.write("a.bin", "content\n")
    snap(lfs.first, "one")
    done = pushed(lfs, FAKE_REFUSES="1")
    assert done.code == 1 and "batch response: quota exceeded" in done.err and CHAINS + "t" not in lfs.there().refs
    assert "hint: GIT_LFS_SKIP_PUSH=1 git baton push origin leaves it here" in done.err
    done = pushed(lfs, FAKE_REFUSES="1", GIT_LFS_SKIP_PUSH="1")
    assert done.code == 0 and CHAINS + "t" in lfs.there().refs and len(calls(lfs)) == 1
    assert "the content of 'a.bin' does not go along: git-lfs keeps it" in done.err
    assert f"'git lfs push origin {CHAINS}t' sends what is here" in done.err
    there = second(lfs)
    done = there.baton("restore", "t", "--foreign")
    assert done.code == 1 and "refuse a.bin (its content is not here: git lfs fetch)" in done.out


@pytest.mark.deep
def test_what_sends_the_content_can_be_typed(lfs: Far) -> None:
    place = str(lfs.place / "a place.git")
    lfs.first.git("init", "-q", "--bare", place)
    lfs.first.write("a.bin", "content\n")
    snap(lfs.first, "one")
    done = lfs.first.baton("push", place, "--yes", env={"GIT_LFS_SKIP_PUSH": "1"})
    assert done.code == 0 and f"'git lfs push '{place}' {CHAINS}t' sends what is here" in done.err


@pytest.mark.deep
def test_content_that_is_not_here_is_named(lfs: Far) -> None:
    lfs.first.write("a.bin", "content\n")
    lfs.first.write("b.bin", "more\n")
    snap(lfs.first, "one")
    here = [path for path in (lfs.first.path / ".git/lfs/objects").rglob("*") if path.is_file()]
    next(path for path in here if path.read_text() == "more\n").unlink()
    done = pushed(lfs)
    assert done.code == 0 and "the content of 'b.bin' does not go along" in done.err and len(calls(lfs)[0]) == 2


def test_a_filter_for_all_paths_has_no_pointers_in_notes(tmp_path: Path) -> None:
    far = Far(tmp_path)
    for key in ("clean", "smudge"):
        far.first.git("config", f"filter.own.{key}", "cat")
    far.first.write(".gitattributes", "* filter=own\n")
    snap(far.first, "one")
    assert "does not go along" not in ok(far.first, "push", "origin", "--yes").err  # a note's entry has the id of a checkpoint


@pytest.mark.deep
@pytest.mark.parametrize("hooked", [True, False])
def test_another_filter_that_keeps_content_elsewhere(tmp_path: Path, hooked: bool) -> None:
    far = Far(tmp_path)
    a, store = far.first, tmp_path / "store"
    store.mkdir()
    clean = f't=$(mktemp); cat >$t; o=$(sha1sum <$t | cut -c1-40); mv $t {store}/$o; echo "oid $o"'
    a.git("config", "filter.own.clean", clean)
    a.git("config", "filter.own.smudge", f"read x o; cat {store}/$o")
    a.git("config", "filter.own.required", "true")
    a.write(".gitattributes", "*.bin filter=own\n*.held filter=gone\n")
    hook = a.path / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho "$@" $GIT_BATON >>{tmp_path}/ran; cat >>{tmp_path}/ran; test ! -e {tmp_path}/stop\n')
    hook.chmod(0o755 if hooked else 0o644)
    a.write("a.held", "passes no filter\n")
    snap(a, "nothing of the kind")
    done = ok(a, "push", "origin", "--yes")
    assert not (tmp_path / "ran").exists() and "does not go along" not in done.err
    a.write("a.bin", "content\n")
    snap(a, "one")
    if hooked:
        (tmp_path / "stop").touch()
        assert a.here("push", "origin", "--yes").code == 1
        (tmp_path / "stop").unlink()
        (tmp_path / "ran").unlink()
    done = ok(a, "push", "origin", "--yes")
    if not hooked:
        assert "the content of 'a.bin' does not go along: the filter 'own' seems to keep it elsewhere" in done.err
        return
    first, *rows = (tmp_path / "ran").read_text().splitlines()
    assert "does not go along" not in done.err and first == f"origin {a.git('remote', 'get-url', 'origin')} 0"
    assert {row.split()[2] for row in rows} == {CHAINS + "t", "refs/notes/checkpoints"}


@pytest.mark.parametrize(
    ("path", "data", "keeper"),
    [
        (b"a", b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 1\n" % (b"a" * 64), LFS),
        (b"a", b"version https://git-lfs.github.com/spec/v1\next-0-x sha256:1\noid sha256:%s\nsize 1\n" % (b"a" * 64), LFS),
        (b"a", b"/annex/objects/SHA256E-s5--%s.bin\n" % (b"b" * 64), ANNEX),
        (b"a", b"../.git/annex/objects/Xx/Yy/SHA256E-s5--%s/SHA256E-s5--%s" % (b"b" * 64, b"b" * 64), ANNEX),
        (b"a", b"../.git/modules/x/annex/objects/Xx/Yy/SHA256E-s5--%s/SHA256E-s5--%s" % (b"b" * 64, b"b" * 64), ANNEX),
        (b"README", b"Keep out of .git/annex/objects/ by hand.\n", ""),
        (b"data.csv.dvc", b"outs:\n- md5: %s\n  path: data.csv\n" % (b"c" * 32), DVC),
        (b"other.yaml", b"outs:\n- md5: %s\n" % (b"c" * 32), OTHER),
        (b"a", b"oid %s\n" % (b"d" * 40), OTHER),
        (b"a", b"gitbaton held 1\ntoken %s\nfilter x\nas unfiltered\n" % (b"e" * 64), ""),
        (b"a", b"\0GITCRYPT\0 %s" % (b"f" * 64), ""),
        (b"a", b"just text\n", ""),
        (b"a", b"oid %s\n" % (b"d" * 2000), ""),
    ],
)
def test_what_a_pointer_is(path: bytes, data: bytes, keeper: str) -> None:
    assert kept_by(path, data) == keeper and bool(lfs_oid(data)) == (keeper == LFS)
