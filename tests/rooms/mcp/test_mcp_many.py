"""Answers of ``git baton mcp`` where there is nothing yet, where there is much, and where something cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitbaton.checkpoints.baton import Baton, Request
from gitbaton.cli.commands.mcptools import LISTED, MAX_LIST
from tests.kit import Sandbox
from tests.kit.mcp import Client, said, talk

Call = tuple[str, dict[str, Any], str]
LISTS: tuple[Call, ...] = (("log", {"all": True, "max_count": LISTED}, "checkpoints"), ("search", {"text": "step"}, "found"))
LONG: tuple[Call, ...] = (("log", {}, "checkpoints"), ("search", {"text": "step"}, "found"), ("restore", {}, "paths"))
NOTHING: tuple[Call, ...] = (
    ("status", {}, ""),
    ("tracks", {}, ""),
    ("resume", {}, ""),
    ("log", {}, ""),
    ("log", {"all": True}, ""),
)


def taken(repo: Sandbox, track: str, step: str, **words: Any) -> None:
    with Baton(repo.path) as baton:
        baton.apply(baton.plan(Request(track=track, step=step, files=False, **words)))


@pytest.mark.deep
def test_no_checkpoint_yet_is_an_answer_that_says_how_to_begin(repo: Sandbox) -> None:
    async def steps(client: Client) -> None:
        for tool, given, _ in NOTHING:
            done = await client.call(tool, **given)
            assert not done.is_error, tool
            assert (
                said(done) == "No checkpoints here yet.\nhint: take one with 'snapshot' and its 'step', which says what is done"
            )
        assert (await client.ok("resume")) == {"v": 1, **repo.ok("resume", "--json").json}
        assert (await client.ok("search", text="x"))["found"] == [] and (await client.ok("status"))["tracks"] == []
        assert "hint: take one with 'snapshot'" in await client.fatal("verify")

    talk(repo.path, steps)


@pytest.mark.deep
def test_a_long_list_is_cut_and_says_so(repo: Sandbox) -> None:
    for number in range(LISTED + 5):
        taken(repo, f"t{number}", f"step {number}")

    async def steps(client: Client) -> None:
        for tool in ("status", "tracks"):
            done = await client.call(tool)
            assert (len(done.structured_content["tracks"]), done.structured_content["more"]) == (LISTED, True)
            assert f"{LISTED + 5} tracks, 5 not shown ('all')" in said(done) and said(done).count("step ") == LISTED
            done = await client.call(tool, all=True)
            assert len(done.structured_content["tracks"]) == LISTED + 5 and "more" not in done.structured_content
            assert said(done).count("step ") == LISTED + 5
        for tool, given, name in LISTS:
            done = await client.call(tool, **given)
            assert (len(done.structured_content[name]), done.structured_content["more"]) == (LISTED, True)
            assert "\nthere are more: a greater 'max_count' " in said(done)
            done = await client.call(tool, **{**given, "max_count": LISTED + 5})
            assert len(done.structured_content[name]) == LISTED + 5 and "there are more" not in said(done)

    talk(repo.path, steps)


@pytest.mark.deep
def test_structured_content_fits_into_a_model_s_context(repo: Sandbox) -> None:
    for number in range(8):
        taken(repo, "t", f"step {number}", note="n" * 5000)
    for number in range(1000):
        repo.write(f"d/{number}.txt", "one\n")
    repo.ok("snapshot", "--track", "t", "many")
    for number in range(1000):
        repo.write(f"d/{number}.txt", "two\n")

    async def steps(client: Client) -> None:
        for tool, given, name in LONG:
            done = await client.call(tool, **given)
            assert done.structured_content["more"] is True and len(done.structured_content[name]) > 1
            assert sum(len(json.dumps(one)) for one in done.structured_content[name]) <= MAX_LIST
        assert len((await client.ok("log", max_count=9))["checkpoints"]) == 9  # as it is asked for
        plan = await client.ok("restore")
        assert (await client.ok("restore", apply=True, plan=plan["plan"]))["applied"]
        assert {path.read_text() for path in (repo.path / "d").iterdir()} == {"one\n"}  # all of them

    talk(repo.path, steps)


@pytest.mark.deep
def test_a_newest_checkpoint_that_cannot_be_read_is_told_of(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.ok("snapshot", "--track", "t", "two")
    torn = repo.git("commit-tree", "-m", "x", "refs/baton/tracks/t^{tree}")
    repo.git("update-ref", "refs/baton/tracks/t", torn)
    for path in (repo.path / ".git/objects" / torn[:2]).glob(torn[2:]):
        path.chmod(0o644)
        path.write_bytes(b"")

    async def steps(client: Client) -> None:
        for tool in ("status", "tracks", "resume", "verify", "log", "show", "diff", "restore"):
            done = await client.call(tool)
            assert f"warning: 'refs/baton/tracks/t' points at {torn}, which cannot be read" in said(done), tool
            assert any(torn in text for text in done.structured_content["warnings"]), tool

    talk(repo.path, steps)


@pytest.mark.deep
def test_tracks_of_which_none_can_be_read_are_not_called_none(repo: Sandbox) -> None:
    repo.git("update-ref", "refs/baton/tracks/t", repo.git("commit-tree", "-m", "x", "HEAD^{tree}"))

    async def steps(client: Client) -> None:
        for tool in ("status", "tracks"):
            text = said(await client.call(tool))
            assert text.startswith("no track of this repository can be read\nhint: git baton doctor --mend\nwarning: "), tool
        assert said(await client.call("log", all=True)).startswith("there is no checkpoint to list\nwarning: ")
        assert "No checkpoints here yet" not in await client.fatal("resume")

    talk(repo.path, steps)


@pytest.mark.deep
def test_an_option_s_name_in_a_step_or_a_path_stays(repo: Sandbox) -> None:
    repo.write("x--force", "one\n")
    repo.ok("snapshot", "--track", "t", "--step", "try --exact once")
    repo.write("x--force", "two\n")

    async def steps(client: Client) -> None:
        text = said(await client.call("restore"))
        assert "try --exact once" in text and "would write x--force" in text

    talk(repo.path, steps)
