"""Refspecs of ours and what was fetched, after a remote was renamed, replaced or removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox

OURS = "refs/baton/remotes/"


@pytest.fixture
def box(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """A repository whose remote ``origin`` has a track ``t`` and a branch."""
    repo.git("init", "-q", "--bare", str(tmp_path / "hub"))
    repo.git("remote", "add", "origin", str(tmp_path / "hub"))
    repo.git("push", "-q", "origin", "HEAD")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.ok("push", "origin", "--yes")
    return repo


def specs(box: Sandbox) -> list[str]:
    """Every refspec of every remote that names us."""
    return [row for row in box.git("config", "--get-regexp", r"^remote\..*\.fetch$").splitlines() if "/baton/" in row]


def findings(box: Sandbox, *args: str) -> dict[str, tuple[bool, str, str]]:
    """What doctor says of remotes."""
    rows = box.baton("doctor", "--json", *args).json["findings"]
    return {row["name"]: (row["ok"], row["text"], row["mend"]) for row in rows if row["name"] in ("fetch", "remotes")}


def test_uninstall_finds_our_refspecs_in_every_remote(box: Sandbox) -> None:
    box.git("remote", "add", "second", str(box.path))
    before = (box.path / ".git/config").read_bytes()
    box.ok("install", "--fetch")
    box.ok("install", "--fetch", "second")
    box.git("remote", "rename", "origin", "up.Stream/x")
    box.git("remote", "remove", "second")
    box.git("config", "--add", "remote.up.Stream/x.fetch", "+refs/baton/tracks/*:refs/mine/*")  # the user's own
    assert len(specs(box)) == 5 and len([row for row in specs(box) if "remotes/origin/" in row]) == 4
    box.ok("uninstall")
    assert specs(box) == ["remote.up.Stream/x.fetch +refs/baton/tracks/*:refs/mine/*"] and b"baton/tracks" not in before


@pytest.mark.deep
def test_uninstall_says_which_refspec_stands_in_another_file(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "more").write_text('[remote "origin"]\n\tfetch = +refs/baton/meta*:refs/baton/remotes/origin/meta*\n')
    box.git("config", f"includeIf.gitdir:{box.path}/.path", str(tmp_path / "more"))
    box.ok("install", "--fetch")
    said = box.ok("uninstall").err
    assert "remote.origin.fetch = +refs/baton/meta*:refs/baton/remotes/origin/meta* stands outside of" in said
    assert "'git config --show-origin --get-all remote.origin.fetch' says where it is" in said
    assert specs(box) == ["remote.origin.fetch +refs/baton/meta*:refs/baton/remotes/origin/meta*"]


def test_doctor_names_refspecs_of_a_remote_that_was_renamed_and_what_stays_of_it(box: Sandbox) -> None:
    box.ok("install", "--fetch")
    box.git("fetch", "-q", "origin")
    assert findings(box) == {"fetch": (True, "'git fetch' brings our refs of 'origin'", "")}
    box.git("remote", "rename", "origin", "upstream")
    stale, left = findings(box)["fetch"], findings(box)["remotes"]
    assert stale == (
        False,
        "'git fetch' brings our refs of 'upstream' to where those of 'origin' lie",
        "git baton install --fetch upstream",
    )
    assert left == (True, "'origin' is no remote any more; what was fetched of it stays: 't'", "git baton fetch upstream")
    box.ok("install", "--fetch", "upstream")
    assert {row.rpartition(":")[2].split("/")[3] for row in specs(box)} == {"upstream"} and len(specs(box)) == 4
    box.ok("fetch", "upstream")
    assert findings(box)["remotes"][2] == "git baton doctor --fix"
    assert set(findings(box, "--fix")) == {"fetch"} and findings(box)["fetch"][0]
    refs = box.git("for-each-ref", "--format=%(refname)", OURS).split()
    assert refs and all(ref.startswith(OURS + "upstream/") for ref in refs)


@pytest.mark.deep
def test_what_only_a_remote_that_is_gone_had_is_named_and_stays(box: Sandbox, tmp_path: Path) -> None:
    box.git("clone", "-q", str(tmp_path / "hub"), str(tmp_path / "two"))
    only = Sandbox(tmp_path / "two")
    only.ok("fetch", "origin")
    only.git("remote", "remove", "origin")
    refs = only.git("for-each-ref", OURS)
    assert findings(only, "--fix") == {
        "remotes": (True, "'origin' is no remote any more; what was fetched of it stays: 't'", ""),
    }
    assert only.git("for-each-ref", OURS) == refs != ""
    only.ok("fetch", str(tmp_path / "hub"))  # an address is no remote that could be gone
    assert list(findings(only)) == ["remotes"] and findings(only, "--fix") == {}
    assert only.git("for-each-ref", OURS) not in (refs, "")


@pytest.mark.deep
@pytest.mark.deep
def test_a_new_remote_of_the_old_name_has_its_own_refs(box: Sandbox, tmp_path: Path) -> None:
    box.ok("install", "--fetch")
    box.git("remote", "rename", "origin", "upstream")
    box.git("init", "-q", "--bare", str(tmp_path / "fork"))
    box.git("remote", "add", "origin", str(tmp_path / "fork"))
    said = findings(box)
    assert said["fetch"][2] == "git baton install --fetch upstream" and "remotes" not in said
    box.ok("install", "--fetch", "origin")
    box.ok("install", "--fetch", "upstream")
    assert findings(box)["fetch"] == (True, "'git fetch' brings our refs of 'upstream', 'origin'", "")
    assert len(specs(box)) == 8
