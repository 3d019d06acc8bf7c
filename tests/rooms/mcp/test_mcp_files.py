"""Tools of ``git baton mcp`` that change files, by a plan and its digest, and those that find where something came from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.killkit import driven
from tests.kit.mcp import Client, said, talk


async def shown(client: Client, tool: str, **given: Any) -> Any:
    """The plan of a call, which changes nothing."""
    done = await client.call(tool, **given)
    assert not done.is_error and done.structured_content["applied"] is False and done.structured_content["safety"] is None
    return done.structured_content


async def refused(client: Client, tool: str, **given: Any) -> Any:
    """The plan that a call answers with instead of carrying one out."""
    done = await client.call(tool, apply=True, **given)
    assert done.is_error and done.structured_content["applied"] is False
    assert said(done).startswith("fatal: nothing is changed: ")
    assert (done.structured_content["plan"] in said(done)) == ("would write" in said(done))
    return done.structured_content


@pytest.mark.deep
def test_files_change_by_the_plan_that_was_shown_and_by_no_other(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.write("a.txt", "two\n")
    repo.write("new.txt", "new\n")
    repo.ok("snapshot", "--track", "t", "two")

    async def steps(client: Client) -> None:
        repo.write("a.txt", "three\n")
        plan = await shown(client, "restore", checkpoint="t~1")
        printed = repo.baton("restore", "t~1", "--dry-run", "--json").json
        assert plan == {**printed, "applied": False, "warnings": plan["warnings"]}
        other = await refused(client, "restore", checkpoint="t~1")  # without a digest
        assert other["plan"] == plan["plan"]
        for wrong in ({"plan": "x"}, {"plan": plan["plan"][:10]}, {"plan": plan["plan"], "exact": True}, {"plan": ""}):
            assert (await refused(client, "restore", checkpoint="t~1", **wrong))["paths"]
        await refused(client, "restore", checkpoint="t", plan=plan["plan"])
        repo.write("a.txt", "four\n")  # the same paths of the same checkpoint, and other bytes that would go
        anew = await refused(client, "restore", checkpoint="t~1", plan=plan["plan"])
        assert anew["paths"] == plan["paths"] and (repo.path / "a.txt").read_text() == "four\n"
        assert "also takes back 1 edit of your own since: a.txt" in said(await client.call("restore", checkpoint="t~1"))
        done = await client.call("restore", checkpoint="t~1", apply=True, plan=anew["plan"])
        assert done.structured_content["applied"] is True and done.structured_content["safety"] and not done.is_error
        assert said(done).split("\n")[1] == "'undo' takes it back" and "write a.txt" in said(done).split("\n")
        assert (repo.path / "a.txt").read_text() == "one\n"
        again = await refused(client, "restore", checkpoint="t~1", plan=anew["plan"])
        assert again["paths"] == [row for row in anew["paths"] if row["action"] == "keep"]
        for tool, text in (("undo", "four\n"), ("redo", "one\n"), ("undo", "four\n")):
            plan = await shown(client, tool)
            await refused(client, tool, plan=anew["plan"])
            assert (await client.ok(tool, apply=True, plan=plan["plan"]))["op"] == tool
            assert (repo.path / "a.txt").read_text() == text
        assert "there is nothing to undo" in await client.fatal("undo", apply=True, plan=plan["plan"])

    talk(repo.path, steps)
    repo.fsck()


@pytest.mark.deep
def test_a_path_that_cannot_be_written_is_said_and_can_be_left_out(repo: Sandbox) -> None:
    repo.git("config", "filter.torn.clean", "cat")
    repo.git("config", "filter.torn.smudge", "cat")
    repo.git("config", "filter.torn.required", "true")
    repo.write(".gitattributes", "*.torn filter=torn\n")
    repo.write("b.torn", "one\n")
    repo.ok("snapshot", "--track", "t", "one")
    repo.write("a.txt", "two\n")
    repo.write("b.torn", "two\n")
    repo.ok("snapshot", "--track", "t", "two")
    repo.git("config", "filter.torn.smudge", "false")

    async def steps(client: Client) -> None:
        plan = await shown(client, "restore", checkpoint="t~1")
        done = await client.call("restore", checkpoint="t~1", apply=True, plan=plan["plan"])
        assert done.is_error and "b.torn" in said(done).split("\n")[0] and "another one" not in said(done)
        assert (repo.path / "a.txt").read_text() == "two\n"
        plan = await shown(client, "restore", checkpoint="t~1", paths=[":!b.torn"])
        await client.ok("restore", checkpoint="t~1", paths=[":!b.torn"], apply=True, plan=plan["plan"])
        assert [(repo.path / name).read_text() for name in ("a.txt", "b.torn")] == ["one\n", "two\n"]

    talk(repo.path, steps)


@pytest.mark.deep
def test_hints_name_arguments_and_what_is_another_s_is_left(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "--track", "other", "two")

    async def steps(client: Client) -> None:
        text = said(await client.call("restore", checkpoint="t"))
        assert text.startswith("nothing would be changed: ") and "would conflict a.txt" in text
        assert "; 'force' overwrites it, and undo brings it back" in text
        plan = await shown(client, "restore", checkpoint="t", force=True)
        await refused(client, "restore", checkpoint="t", plan=plan["plan"])
        await client.ok("restore", checkpoint="t", force=True, apply=True, plan=plan["plan"])
        assert (repo.path / "a.txt").read_text() == "one\n"

    talk(repo.path, steps)


@pytest.mark.deep
def test_what_is_foreign_is_quoted_and_asks_for_a_word(repo: Sandbox) -> None:
    repo.write("a.txt", "theirs\n")
    repo.ok("snapshot", "--track", "t", "zebra\nfatal: forged", "--note", "the zebra crosses")
    clone = Sandbox.begun(repo.path.parent / "clone")
    clone.commit("first", a_txt="ours\n")
    clone.git("remote", "add", "origin", str(repo.path))
    clone.ok("fetch")

    async def steps(client: Client) -> None:
        text = await client.fatal("restore", checkpoint="t")
        assert "was fetched from elsewhere\nhint: 'git baton diff " in text and "; 'foreign' restores it all the same" in text
        for tool, given in (("status", {}), ("tracks", {}), ("search", {"text": "zebra"}), ("log", {"all": True})):
            rows = [row for row in said(await client.call(tool, **given)).split("\n") if "zebra" in row]
            assert rows and all("> " in row.partition("zebra")[0] for row in rows), tool
        plan = await shown(client, "restore", checkpoint="t", foreign=True, force=True)
        await client.ok("restore", checkpoint="t", foreign=True, force=True, apply=True, plan=plan["plan"])
        assert (clone.path / "a.txt").read_text() == "theirs\n"

    talk(clone.path, steps)


@pytest.mark.deep
def test_a_killed_restore_is_ended_by_a_plan_that_is_carried_out(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "goal")
    repo.write("a.txt", "spoilt\n")
    driven(repo, "named", 2, ("restore", "t"))
    pending = repo.path / ".git" / "baton" / "restore"

    async def steps(client: Client) -> None:
        plan = await shown(client, "restore", checkpoint="t")
        assert pending.exists()
        done = await client.call("restore", checkpoint="t", apply=True, plan=plan["plan"])
        assert not pending.exists() and done.structured_content is not None
        assert (repo.path / "a.txt").read_text() in ("one\n", "spoilt\n")

    talk(repo.path, steps)
    repo.fsck()


@pytest.mark.deep
def test_search_finds_what_log_finds(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one", "--note", "the Frobnicator\nis round")
    repo.write("b.txt", "round()\n")
    repo.ok("snapshot", "--track", "t", "two", "--decision", "no frobnicator any more")
    repo.write("c.txt", "round()\n")
    repo.ok("snapshot", "--track", "other", "three", "--label", "Round")

    def logged(*words: str) -> list[str]:
        return [c["step"] for c in repo.ok("log", *words, "--json").json["checkpoints"]]

    async def steps(client: Client) -> None:
        async def found(**given: Any) -> list[str]:
            return [one["checkpoint"]["step"] for one in (await client.ok("search", **given))["found"]]

        assert (
            await found(text="frobnicator", where="words") == logged("--all", "-iF", "--grep", "frobnicator") == ["two", "one"]
        )
        assert await found(text="frobnicator", where="words", match_case=True) == ["two"]
        assert await found(text="ro[u]nd", regexp=True) == logged("--all", "-iE", "--grep", "ro[u]nd") == ["three", "one"]
        assert await found(text="round(", where="files") == logged("--all", "-S", "round(") == ["three", "two"]
        assert await found(text="round") == ["three", "two", "one"] and await found(text="round", max_count=1) == ["three"]
        assert await found(text="round", track="t") == ["two", "one"] and await found(text="Round(") == []
        (one,) = (await client.ok("search", text="round()", track="t"))["found"]
        assert (one["in"], one["lines"], one["paths"]) == (["files"], [], ["b.txt"])
        rows = said(await client.call("search", text="round", track="t")).split("\n")
        assert rows[0].endswith("t: two") and rows[1] == "  in b.txt"
        assert rows[2].endswith("t: one") and rows[3:] == ["  is round"]
        assert await found(text='round "the frobnicator"') == ["one"] == await found(text="ound FROB the")
        assert await found(text="round", where="conversations") == []
        assert said(await client.call("search", text="nowhere to be found")) == "nothing is found of 'nowhere to be found'"

    talk(repo.path, steps)


@pytest.mark.deep
def test_a_line_is_told_with_what_is_behind_it(repo: Sandbox) -> None:
    repo.write("sub/b.txt", "old\n")
    repo.commit("first b")
    repo.ok("snapshot", "--track", "t", "one")
    repo.write("sub/b.txt", "new\n")
    repo.ok("snapshot", "--track", "t", "two", "--decision", "new is better")

    async def steps(client: Client) -> None:
        done = await client.call("why", place="b.txt:1")
        assert done.structured_content["before"] == ["old"]
        assert done.structured_content["origin"]["checkpoint"]["step"] == "two"
        rows = said(done).split("\n")
        assert rows[0] == "b.txt:1   new" and "  decision new is better" in rows and rows[-1].startswith("git baton show ")
        repo.write("sub/b.txt", "newest\n")
        done = await client.call("why", place="b.txt:1")
        assert done.structured_content["origin"] is None and "is in none yet" in said(done)

    talk(repo.path / "sub", steps)
