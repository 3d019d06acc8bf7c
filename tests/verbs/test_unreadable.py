"""A track whose newest checkpoint cannot be read is not a track that is not there: what each verb shows, says and refuses."""

from __future__ import annotations

import json

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.tiers import some

TRACK = "refs/baton/tracks/t"
SAID = "the newest checkpoint that can be read is shown, and 'git baton doctor --mend' goes on from what is left\n"
DAMAGE = ("gone", "empty", "half", "ref empty", "ref zeros")


@pytest.fixture
def torn(repo: Sandbox) -> Sandbox:
    """Two checkpoints of track ``t``, of which the newer is going to be damaged, and one of ``other``."""
    for number in range(2):
        repo.write("a.txt", f"{number}\n")
        repo.ok("snapshot", "--track", "t", "--step", f"step {number}")
    repo.ok("snapshot", "--track", "other", "--step", "beside")
    return repo


def damage(repo: Sandbox, kind: str) -> None:
    if kind.startswith("ref"):
        path = repo.path / ".git" / TRACK
        path.write_text("" if kind == "ref empty" else "0" * 40 + "\n")
        return
    path = repo.loose(repo.git("rev-parse", TRACK))
    whole = path.read_bytes()
    path.unlink()
    if kind != "gone":
        path.write_bytes(b"" if kind == "empty" else whole[: len(whole) // 2])


def check_shown(repo: Sandbox, step: str) -> None:
    """Every verb that looks shows the newest checkpoint that can be read, and says that it is not the newest."""
    for verb in (("resume", "t"), ("show", "t"), ("log", "t"), ("log", "--all"), ("status",), ("tracks",), ("diff", "t")):
        done = repo.ok(*verb)
        assert done.err.count(SAID) == 1, (verb, done.err)
        assert step in done.out or verb[0] == "diff", verb
        assert "there is no" not in done.err, verb
    rows = json.loads(repo.ok("log", "t", "--json").out)["checkpoints"]
    assert [row["step"] for row in rows][:1] == [step]
    assert repo.baton("verify", "t").code == 1, "nobody knows whether it is at home"


@pytest.mark.deep
@some("kind", DAMAGE, share={"empty", "ref zeros"})
def test_the_newest_that_can_be_read_is_shown_and_it_is_said(torn: Sandbox, kind: str) -> None:
    damage(torn, kind)
    check_shown(torn, "step 1" if kind.startswith("ref") else "step 0")  # of a broken ref nothing is lost
    refused = torn.baton("snapshot", "--track", "t", "--step", "over it")
    assert refused.code == 128 and "hint: git baton doctor --mend\n" in refused.err
    torn.ok("snapshot", "--track", "other", "--step", "goes on")
    torn.write("a.txt", "mine\n")
    torn.ok("restore", "t", "--force")
    assert (torn.path / "a.txt").read_text() in ("0\n", "1\n")
    torn.baton("doctor", "--mend")
    assert "step=step " in torn.ok("resume", "--porcelain", "t").out
    torn.ok("snapshot", "--track", "t", "--step", "after")
    assert SAID not in torn.ok("status").err


@pytest.mark.deep
def test_a_session_is_told_the_newest_that_can_be_read(torn: Sandbox) -> None:
    torn.ok("tracks", "use", "t")
    damage(torn, "gone")
    text = Client("claude", torn.path).fire("start")
    assert "step: step 0" in text and "the newest checkpoint that can be read is shown" in text


def test_a_track_of_which_nothing_can_be_read_is_not_called_absent(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "only one")
    damage(repo, "gone")
    for verb in (("status",), ("resume", "t"), ("log", "t"), ("show", "t"), ("verify", "t"), ("resume",)):
        done = repo.baton(*verb)
        assert done.code == 128 and "hint: git baton doctor --mend\n" in done.err, (verb, done)
        assert "there is no" not in done.err, verb


def test_where_one_track_cannot_be_read_no_other_is_meant(torn: Sandbox) -> None:
    """The name of a track is not guessed while another one could have been meant."""
    (torn.path / ".git/BATON_HEAD").unlink()
    damage(torn, "gone")
    done = torn.baton("resume")
    assert done.code == 128 and "no track is current" in done.err


def test_an_error_of_the_system_is_told_in_its_words_and_not_in_those_of_a_library(repo: Sandbox) -> None:
    repo.ok("snapshot", "s")
    (repo.path / ".git/baton/expect").unlink(missing_ok=True)
    (repo.path / ".git/baton/expect").mkdir()
    told = f"'{repo.path}/.git/baton/expect': Is a directory"
    assert repo.ok("resume").err == f"warning: nothing is refreshed: {told}\n"
    taken = repo.ok("snapshot", "t", "--track", "u").err
    assert f"not all that is derived from it: {told}" in taken and "[Errno" not in taken
