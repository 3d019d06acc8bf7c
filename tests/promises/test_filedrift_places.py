"""files-changed in repositories of many kinds, and where something stands in the way of counting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gitbaton.git.repo import discover
from gitbaton.git.worktree.filedrift import changed_paths
from gitbaton.git.worktree.index import list_ahead
from gitbaton.git.worktree.untracked import CaptureRules
from tests.kit import Outcome, Sandbox
from tests.kit.capturekit import index_path, without_privilege
from tests.kit.tiers import some
from tests.promises.test_filedrift import repo, said, snapshot, state_of, verify_drift

__all__ = ["repo"]


@pytest.fixture
def lesser() -> list[str]:
    """A git-baton that may read less than root."""
    found = without_privilege(sys.executable, "-m", "gitbaton")
    if found is None:
        pytest.skip("root reads everything here, and setpriv is missing")
    return found


@pytest.mark.full
@some("name", ["conflict", "unborn", "linked", "sha256", "autocrlf", "filter", "sparse-index", "eol-filter", "ident", "modes"])
def test_repositories_of_many_kinds(tmp_path: Path, name: str) -> None:
    built = {"conflict": conflict, "unborn": unborn, "linked": linked, "autocrlf": crlf, "filter": filtered}
    built |= {"eol-filter": ending, "ident": told, "modes": without_modes}
    repo = built.get(name, plain)(tmp_path, name)
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    for count, names in enumerate((["one.txt"], ["one.txt", "three.txt"]), 1):
        for each in names:
            repo.write(each, f"edited {count}\r\n")
        assert verify_drift(repo) == count
    (repo.path / "one.txt").unlink()
    assert verify_drift(repo) == 2


def plain(path: Path, kind: str) -> Sandbox:
    repo = Sandbox.init(path / "work", *(["--object-format=sha256"] if kind == "sha256" else []))
    repo.commit("first", one_txt="1\n", two_txt="2\n")
    repo.write("deep/er/file", "x\n")
    repo.commit("second")
    if kind == "sparse-index":
        repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "other")
    return repo


def conflict(path: Path, kind: str) -> Sandbox:
    repo = plain(path, kind)
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", one_txt="theirs\n", two_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.write("one.txt", "ours\n")
    repo.git("rm", "-q", "two.txt")
    repo.git("commit", "-q", "-am", "ours")
    assert repo.try_git("merge", "side").code == 1
    return repo


def unborn(path: Path, kind: str) -> Sandbox:
    repo = Sandbox.init(path / "work")
    repo.write("one.txt", "1\n")
    repo.write("two.txt", "2\n")
    return repo


def linked(path: Path, kind: str) -> Sandbox:
    plain(path, kind).git("worktree", "add", "-q", str(path / "linked"))
    return Sandbox(path / "linked")


def crlf(path: Path, kind: str) -> Sandbox:
    """CRLF that the index has, which git then keeps, and CRLF that it does not have, which git takes out."""
    repo = plain(path, kind)
    repo.commit("kept", kept_txt="a\r\nb\r\n")
    repo.git("config", "core.autocrlf", "true")
    repo.write("two.txt", "2\r\n")
    repo.write("kept.txt", "a\r\nb\r\nc\r\n")
    repo.write("untracked.txt", "u\r\n")
    return repo


def ending(path: Path, kind: str) -> Sandbox:
    """A filter that makes CRLF, which git keeps where the index has CRLF, and else takes out."""
    repo = plain(path, kind)
    repo.commit("kept", kept_txt="a\r\nb\r\n")
    repo.git("config", "filter.end.clean", "sed -e 's/$/\r/'")
    repo.write(".gitattributes", "*.txt text=auto filter=end\n")
    for name in ("kept.txt", "two.txt"):
        repo.write(name, "a\nb\nc\n")
    return repo


def told(path: Path, kind: str) -> Sandbox:
    repo = plain(path, kind)
    repo.write(".gitattributes", "*.txt ident\n")
    repo.write("two.txt", "$Id: of some time ago $\n")
    return repo


def without_modes(path: Path, kind: str) -> Sandbox:
    """A mode that the index has, which git keeps where the file system is said to have none."""
    repo = plain(path, kind)
    repo.git("update-index", "--chmod=+x", "two.txt")
    repo.git("commit", "-q", "-m", "a program")
    repo.git("config", "core.filemode", "false")
    repo.write("two.txt", "edited\n")
    return repo


def filtered(path: Path, kind: str) -> Sandbox:
    repo = plain(path, kind)
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    repo.git("config", "filter.up.smudge", "tr A-Z a-z")
    repo.git("config", "filter.up.required", "true")
    repo.write(".gitattributes", "*.txt filter=up\n")
    repo.write("untracked.txt", "never added\n")
    return repo


@pytest.mark.deep
def test_a_path_is_not_read_as_another_one(tmp_path: Path) -> None:
    repo, names = plain(tmp_path, "names"), ('"one.txt"', "one.txt\r", "one.txt")
    for name in names:
        repo.write(name, "same\n")
    repo.commit("named")
    for number, name in enumerate(names):
        repo.write(name, f"edited {number}\n")
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    repo.write("one.txt", "edited 0\n")
    assert verify_drift(repo) == 1


@pytest.mark.deep
@pytest.mark.parametrize("words", [("--cone", "other"), ("--no-cone", "/other")])
def test_attributes_that_are_not_checked_out_count_as_git_has_them(tmp_path: Path, words: tuple[str, ...]) -> None:
    repo = plain(tmp_path, "sparse")
    repo.write("deep/.gitattributes", "*.txt ident\n")
    repo.commit("told")
    repo.git("sparse-checkout", "set", *words)
    repo.write("deep/new.txt", "$Id: of some time ago $\n")
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    repo.write("deep/new.txt", "$Id: of another time $\n")
    assert verify_drift(repo) in (0, words[0] == "--cone")  # outside a cone git looks for none since 2.33


@pytest.mark.deep
@pytest.mark.parametrize("place", ["top", "above", "info", "named", "user's", "index", "index above", "untracked", "ignored"])
def test_attributes_count_wherever_git_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repo = plain(tmp_path, "")
    repo.write("deep/er/id", "$Id$\n")
    repo.commit("named")
    kept = {"above": "deep/.gitattributes", "index above": "deep/.gitattributes", "info": ".git/info/attributes"}
    file = tmp_path / "config" / "git" / "attributes" if place == "user's" else repo.path / kept.get(place, ".gitattributes")
    file = tmp_path / "named" if place == "named" else file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("id ident\n")
    if place == "named":
        repo.git("config", "core.attributesFile", str(file))
    if place == "ignored":
        repo.write(".git/info/exclude", ".gitattributes\n")
    if place in ("top", "above", "index", "index above"):
        repo.commit("told")
    if place.startswith("index"):
        file.unlink()
    repo.write("deep/er/id", "$Id: of some time ago $\n")
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    repo.write("deep/er/id", "$Id: of another time $\n")
    assert said(repo)[0] == place.startswith("index")  # what is deleted on disk counts for no capture
    repo.write("deep/er/id", "$Id: of another time $ and more\n")
    assert verify_drift(repo) == 1


@pytest.mark.deep
def test_a_file_whose_filter_is_missing_counts_as_it_would_be_captured(tmp_path: Path) -> None:
    repo = filtered(tmp_path, "")
    snapshot(repo, "t")
    repo.git("config", "filter.up.clean", "no-such-program-anywhere")
    for name in ("one.txt", "untracked.txt"):
        os.utime(repo.path / name, (1, 1))
    assert verify_drift(repo) == 1  # the filter does nothing to one.txt
    assert {s.reason for s in snapshot(repo, "t").skipped} == {"unfiltered"}
    assert said(repo) == (0, ())
    repo.write("untracked.txt", "other\n")
    assert said(repo) == (1, ("files-changed:1",))  # what a restore would bring back is another


@pytest.mark.full
def test_a_filter_that_fails_on_many_files(tmp_path: Path) -> None:
    repo = filtered(tmp_path, "")
    for number in range(40):
        repo.write(f"many/{number}.txt", f"{number} of many\n")
    repo.write("many/odd name\nof.txt", "odd\n")
    repo.git("config", "filter.up.clean", "no-such-program-anywhere")
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    repo.write("other.dat", "x\n")
    assert verify_drift(repo) == 1  # what the filter failed on is in files.skipped
    repo.git("config", "filter.up.clean", "no-such-program-anywhere")
    snapshot(repo, "t")
    assert said(repo) == (0, ())


@pytest.mark.deep
def test_a_racily_clean_file_whose_filter_is_missing(tmp_path: Path) -> None:
    repo = filtered(tmp_path, "")
    repo.write("one.txt", "same size\n")
    repo.git("add", "-A")
    snapshot(repo, "t")
    os.utime(index_path(repo), (1, 1))  # older than every file: git must look at the content of each
    repo.git("config", "filter.up.clean", "no-such-program-anywhere")
    assert said(repo)[0] == 2  # nobody can tell, until a checkpoint says so
    assert {s.path for s in snapshot(repo, "t").skipped} == {"one.txt", "untracked.txt"} and said(repo)[0] == 0


@pytest.mark.deep
def test_what_may_not_be_read_counts_unless_the_checkpoint_says_so(tmp_path: Path, lesser: list[str]) -> None:
    repo = plain(tmp_path, "")
    repo.write("shut/tracked", "t\n")
    repo.write("untracked", "u\n")
    repo.commit("more")
    repo.git("rm", "-q", "--cached", "untracked")

    def read(*words: str) -> Outcome:
        for name, bits in (("one.txt", 0), ("untracked", 0), ("shut", 0)):
            (repo.path / name).chmod(bits)
        try:
            return repo.run(*lesser, *words)
        finally:
            for name, bits in (("one.txt", 0o644), ("untracked", 0o644), ("shut", 0o755)):
                (repo.path / name).chmod(bits)

    snapshot(repo, "t")
    for name in ("one.txt", "untracked", "shut/tracked"):
        repo.write(name, "edited\n")
    assert read("verify", "--track", "t", "--json").json["live"]["files_changed"] == 3
    assert read("snapshot", "--track", "t", "--step", "s").code == 0
    repo.write("shut/new", "n\n")
    assert said(repo) == (0, ())


@pytest.mark.deep
def test_what_may_not_be_read_counts_behind_a_filter_that_fails(tmp_path: Path, lesser: list[str]) -> None:
    repo = filtered(tmp_path, "")
    repo.write("shut/tracked.dat", "t\n")
    (repo.path / "untracked.txt").unlink()
    repo.commit("more")
    snapshot(repo, "t")
    repo.write("one.txt", "3\n")  # of the same size: git must look at the content
    repo.git("config", "filter.up.clean", "no-such-program-anywhere")
    (repo.path / "shut").chmod(0)
    found = repo.run(*lesser, "verify", "--track", "t", "--json").json["live"]["files_changed"]
    (repo.path / "shut").chmod(0o755)
    assert found == 2


@pytest.mark.deep
def test_an_encoding_that_fits_no_more(tmp_path: Path) -> None:
    repo = plain(tmp_path, "")
    repo.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n")
    repo.write("good.u", "text".encode("utf-16"))
    repo.write("new.u", "text".encode("utf-16"))
    repo.git("add", "good.u")
    snapshot(repo, "t")
    assert said(repo) == (0, ())
    repo.write("good.u", b"no mark")
    repo.write("new.u", b"no mark")
    assert said(repo)[0] == 2
    snapshot(repo, "t")
    assert said(repo) == (0, ())


@pytest.mark.full
def test_where_the_index_cannot_be_read_every_file_is_read(repo: Sandbox) -> None:
    repo.write("a.txt", "edited\n")
    index_path(repo).write_bytes(b"broken" * 10)
    done = repo.baton("resume", "--live", "--json")
    assert done.code == 0 and done.json["live"]["files_changed"] == 1
    for verb in ("resume --live", "verify", "status"):
        assert "; every file was read anew; to make it anew: " in repo.baton(*verb.split()).err, verb
    assert repo.baton("verify", "--strict").code == 1


def test_listings_started_ahead_count_while_the_index_stays(repo: Sandbox) -> None:
    tree = state_of(repo)
    for stage in (False, True):
        opened = discover(str(repo.path), door="binary")
        list_ahead(opened)
        assert opened.listings is not None
        repo.write("later.txt", "later\n")
        if stage:
            repo.git("add", "later.txt")
        assert changed_paths(opened, CaptureRules(), [tree]) in ({tree: ["later.txt"]}, {tree: []} if not stage else None)
        assert opened.listings is None
        opened.close()


def test_a_folder_that_cannot_be_written(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    tip = repo.git("rev-parse", "refs/baton/tracks/t").strip()
    for n in range(8):
        repo.git("update-ref", f"refs/baton/tracks/t{n}", tip)
    monkeypatch.setenv("TMPDIR", str(repo.path / "no such folder"))
    assert "cannot be made" in repo.ok("status").err
    assert "cannot be made" in repo.ok("verify").err
    assert "cannot be made" in repo.ok("resume", "--live").err
