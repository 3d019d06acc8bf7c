"""Decisions stand until they are withdrawn, and what is kept is taken over, whoever writes words and whatever comes between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton, Request
from tests.kit import Sandbox
from tests.kit.agents import Client, checkpoints
from tests.kit.mcp import Client as McpClient
from tests.kit.mcp import said, talk
from tests.kit.state import forget_what_no_ref_holds
from tests.kit.talks import Talk
from tests.kit.tiers import some

OLD, DEP, ASYNC = "keep the old API until 2.0", "no new dependency", "no async: 3.8 must run it"


def decided(box: Sandbox, *options: str) -> dict[int, str]:
    """What ``resume`` says stands, by number; in order."""
    rows = box.ok("resume", *options, "--json").json["decisions"]
    assert [row["number"] for row in rows] == sorted(row["number"] for row in rows)
    return {row["number"]: row["text"] for row in rows}


def facts(box: Sandbox, number: int, *options: str) -> str:
    """What ``resume`` says of a decision beside its text, without when it was made."""
    rows = [row for row in box.ok("resume", "--porcelain", *options).out.splitlines() if f"decision.{number}=" in row]
    assert len(rows) == 1, rows
    return rows[0].partition("=made ")[2].partition("Z")[2].removeprefix("; ")


def changed(box: Sandbox, verb: str) -> list[list[str] | None]:
    """What ``--json`` of a verb says of what changed the files of each decision."""
    found = box.ok(verb, "--json").json
    return [row["changed"] for row in (found["tracks"][0] if verb == "status" else found)["decisions"]]


def two(box: Sandbox) -> None:
    box.ok("snapshot", "design done", "--decision", OLD, "--decision", DEP)


def test_a_decision_stands_whatever_is_written_until_it_is_withdrawn(repo: Sandbox) -> None:
    two(repo)
    repo.ok("snapshot", "lexer done", "--next-cmd", "pytest")
    repo.ok("snapshot", "a milestone", "--label", "one", "--decision", ASYNC)
    assert decided(repo) == {1: OLD, 2: DEP, 3: ASYNC}
    done = repo.ok("snapshot", "new parser", "--withdraw", "2")
    assert done.out.splitlines()[1] == f"withdrew decision 2: {DEP}"
    assert decided(repo) == {1: OLD, 3: ASYNC}, "a number is a decision's own"
    assert "withdrew=2: no new dependency" in repo.ok("show", "--porcelain").out.splitlines()
    repo.ok("snapshot", "api 2.0", "--withdraw", "keep the old", "--withdraw", ASYNC)
    assert decided(repo) == {}
    repo.ok("snapshot", "again", "--decision", "by hand")
    assert decided(repo) == {4: "by hand"}, "no number is given twice"
    assert [row["number"] for row in repo.ok("resume", "main~2", "--json").json["decisions"]] == [1, 3]


@pytest.mark.deep
def test_it_says_what_no_withdrawal_can_mean(repo: Sandbox) -> None:
    two(repo)
    repo.ok("snapshot", "x", "--decision", "keep the tests fast")
    before = repo.git("rev-parse", "refs/baton/tracks/main")
    wrong = {
        ("--withdraw", "7"): (129, "fatal: decision 7 of track 'main' does not stand"),
        ("--withdraw", "nothing"): (129, "fatal: no decision that stands on track 'main' begins with 'nothing'"),
        ("--withdraw", ""): (129, "fatal: a decision is named by its number or its text, and the name is empty"),
        ("--withdraw", "keep"): (128, "fatal: 'keep' could mean 2 decisions"),
        ("--decision", "new", "--withdraw", "new"): (129, "fatal: 'new' is withdrawn and decided by the same snapshot"),
        ("--decision", DEP, "--withdraw", "2"): (129, f"fatal: '{DEP}' is withdrawn and decided by the same snapshot"),
        ("--withdraw", "1", "--keep", "1"): (129, f"fatal: '{OLD}' is withdrawn and kept by the same snapshot"),
        ("--about", "a.txt"): (129, "fatal: paths are given, and no decision that is about them"),
        ("--decision", "n", "--about", "../up"): (129, f"fatal: '../up' is outside the work tree '{repo.path}'"),
        ("--decision", "n", "--about", ""): (129, "fatal: a path that a decision is about is empty, or holds a NUL"),
        ("--keep", "note"): (129, "fatal: there is no note to keep: neither this snapshot nor the words before it have one"),
        ("--keep", "extra.k"): (
            129,
            "fatal: there is no extra 'k' to keep: neither this snapshot nor the words before it have one",
        ),
        ("--withdraw", "note"): (129, "fatal: no decision that stands on track 'main' begins with 'note', and it is not kept"),
    }
    for words, (code, text) in wrong.items():
        done = repo.baton("snapshot", "y", *words)
        assert (done.code, done.err.splitlines()[0]) == (code, text), words
    listed = repo.baton("snapshot", "y", "--withdraw", "keep").err.splitlines()[1:]
    assert listed == [f"hint: decision 1: {OLD}", "hint: decision 3: keep the tests fast"]
    assert repo.git("rev-parse", "refs/baton/tracks/main") == before, "nothing was written"
    repo.ok("snapshot", "y", "--withdraw", "1")
    assert repo.baton("snapshot", "z", "--withdraw", "1").err.startswith(
        "fatal: decision 1 of track 'main' is withdrawn already"
    )


def test_one_without_a_word_is_none(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", "", "--decision", OLD, "--decision", " \n")
    assert decided(repo) == {1: OLD}
    refused = repo.baton("snapshot", "b", "--decision", "", "--about", "a.txt")
    assert refused.code == 129 and "no decision that is about them" in refused.err


@pytest.mark.deep
def test_one_that_is_given_again_stands_once_and_is_of_now(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", OLD, "--about", "a.txt", "--decision", DEP)
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "b")
    assert facts(repo, 1) == 'about a.txt; since changed by "b"'
    repo.ok("snapshot", "c", "--decision", OLD)
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 1) == "about a.txt"
    assert facts(repo, 2) == 'about a.txt; since changed by "b"'
    repo.ok("snapshot", "d", "--keep", "2")
    assert facts(repo, 2) == "about a.txt"
    repo.ok("snapshot", "e", "--withdraw", "1")
    repo.ok("snapshot", "f", "--decision", OLD)
    assert decided(repo) == {2: DEP, 3: OLD}


def test_what_a_decision_is_about_is_watched_from_then_on(repo: Sandbox) -> None:
    repo.commit("more", **{"src/api/b_txt": "b\n"})
    client = Client("claude", repo.path)
    repo.ok("snapshot", "a", "--decision", ASYNC, "--about", "src/api", "--about", "nix")
    assert facts(repo, 1) == "about src/api, nix"
    repo.write("a.txt", "elsewhere\n")
    client.turn("something else")
    assert facts(repo, 1) == "about src/api, nix"
    repo.write("src/api/b.txt", "async\n")
    client.turn("make it async")
    now = facts(repo, 1)
    assert now.startswith("about src/api, nix; since changed by ") and "make it async" in now
    repo.ok("snapshot", "settled")
    repo.write("nix", "here\n")
    repo.ok("snapshot", "made it")
    assert facts(repo, 1) == 'about src/api, nix; since changed by "made it", and 1 time before'
    row = repo.ok("resume", "--json").json["decisions"][0]
    assert row["about"] == ["src/api", "nix"] and len(row["changed"]) == 2
    assert 'since changed by "made it"' in client.fire("start", source="compact")


@pytest.mark.deep
def test_what_changed_before_is_not_said_to_have_changed_since_where_checkpoints_were_pruned(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "a", "--decision", OLD, "--about", "a.txt")
    repo.write("b.txt", "b\n")
    repo.ok("snapshot", "b")
    assert facts(repo, 1) == "about a.txt" and changed(repo, "resume") == [[]]
    assert changed(repo, "status") == [None], "which does not look"
    repo.ok("prune", "--keep-last", "1")
    assert facts(repo, 1) == "about a.txt; what changed long ago is not looked for"
    assert changed(repo, "resume") == [None]
    repo.write("a.txt", "three\n")
    repo.ok("snapshot", "c")
    assert facts(repo, 1) == 'about a.txt; since changed by "c"'
    repo.ok("snapshot", "d", "--keep", "1")
    repo.write("a.txt", "four\n")
    repo.ok("snapshot", "e")
    repo.ok("snapshot", "f")
    repo.ok("forget", "main~1", "--yes")
    assert facts(repo, 1) == 'about a.txt; since changed by "f"', "which holds what went with the one below it"


@pytest.mark.deep
def test_a_turn_that_changed_it_is_named_as_the_log_names_it(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "a", "--decision", ASYNC, "--about", "a.txt")
    client = Talk(repo, tmp_path / "talk.jsonl")
    for text, asked in (("one more\n", "add a line"), ("two more\n", "make it async")):
        client.ask(asked)
        client.edit("a.txt", text)
        client.say("done")
        client.stop()
    assert facts(repo, 1) == 'about a.txt; since changed by turn 2, "make it async", and 1 time before'
    assert "turn 2  make it async" in repo.ok("log").out
    told = Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start")
    assert f'decision 1: {ASYNC} (about a.txt; since changed by turn 2, "make it async", and 1 time before)' in told


def test_paths_are_seen_from_where_one_is(repo: Sandbox) -> None:
    repo.commit("more", **{"src/api/b_txt": "b\n"})
    done = repo.baton("snapshot", "a", "--decision", "one", "--about", "api/b.txt", "--about", ".", cwd=repo.path / "src")
    assert done.code == 0 and done.err == ""
    assert repo.ok("resume", "--json").json["decisions"][0]["about"] == ["src/api/b.txt", "src"]
    repo.write(".gitignore", "out/\n")
    repo.write("out/x", "x\n")
    said = repo.ok("snapshot", "b", "--decision", "two", "--about", "out/x", "--about", "later").err
    assert "'out/x' is left out of checkpoints, so no change of it will be told" in said and "'later' is not there yet" in said


@pytest.mark.deep
def test_a_note_and_an_extra_that_are_kept_stay_until_they_are_withdrawn(repo: Sandbox) -> None:
    repo.ok(
        "snapshot",
        "a",
        "--note",
        "staging is db-3",
        "--extra",
        "pr=12",
        "--extra",
        "x=1",
        "--keep",
        "note",
        "--keep",
        "extra.pr",
    )
    repo.ok("snapshot", "b", "--note", "half done")
    c = repo.ok("resume", "--json").json["checkpoint"]
    assert (c["note"], c["extra"]) == ("half done\n\nstaging is db-3", {"pr": "12"})
    assert "kept=note, extra.pr" in repo.ok("resume", "--porcelain").out
    repo.ok("snapshot", "c", "--extra", "pr=13")
    c = repo.ok("resume", "--json").json["checkpoint"]
    assert (c["note"], c["extra"]) == ("staging is db-3", {"pr": "13"})
    repo.ok("snapshot", "d", "--note", "and port 5", "--keep", "note")
    repo.ok("snapshot", "e")
    assert repo.ok("resume", "--json").json["checkpoint"]["note"] == "and port 5\n\nstaging is db-3"
    repo.ok("snapshot", "f", "--withdraw", "note", "--withdraw", "extra.pr", "--note", "mine")
    repo.ok("snapshot", "g")
    c = repo.ok("resume", "--json").json["checkpoint"]
    assert (c["note"], c["extra"]) == ("", {}) and "standing" not in c


@pytest.mark.deep
def test_what_was_not_kept_can_be_kept_later(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--note", "n", "--extra", "k=v")
    repo.ok("snapshot", "b", "--keep", "note", "--keep", "extra.k")
    repo.ok("snapshot", "c")
    c = repo.ok("resume", "--json").json["checkpoint"]
    assert (c["note"], c["extra"]) == ("n", {"k": "v"})


def test_every_reader_shows_them_all(repo: Sandbox) -> None:
    two(repo)
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("go on")
    repo.ok("snapshot", "lexer done", "--decision", ASYNC, "--withdraw", "2")
    repo.write("a.txt", "three\n")
    client.turn("and on")
    told = client.fire("start", source="compact")
    latest = (repo.path / "runtime/checkpoints/LATEST.md").read_text()
    shown = [
        repo.ok("resume", "--porcelain").out,
        repo.ok("resume", "--porcelain", "--live").out,
        repo.ok("show", "--porcelain").out,
        told,
        latest,
        repo.ok("summary").out,
    ]
    page = repo.path / "page.html"
    repo.ok("page", "-o", str(page))
    for text in (*shown, page.read_text()):
        assert OLD in text and ASYNC in text
    for text in shown[:5]:
        assert DEP not in text
    assert f"decision 1: {OLD}" in told and f"decision 3: {ASYNC}" in told
    for found in (repo.ok("status", "--json").json["tracks"][0], repo.ok("resume", "--json").json):
        assert [(row["number"], row["text"]) for row in found["decisions"]] == [(1, OLD), (3, ASYNC)]
    record = json.loads((repo.path / "runtime/checkpoints/LATEST.json").read_text())["tracks"]["main"]
    assert record["decisions"] == [OLD, ASYNC] and [m["number"] for m in record["standing"]["decisions"]] == [1, 3]
    assert all(c["decisions"] == [OLD, ASYNC] for c in checkpoints(repo, "main")[-2:])


@pytest.mark.deep
def test_a_decision_is_found_where_it_was_made(repo: Sandbox) -> None:
    two(repo)
    repo.ok("snapshot", "b", "--withdraw", "2", "--decision", ASYNC)
    repo.ok("snapshot", "c")
    found = [row["step"] for row in repo.ok("log", "--grep", "keep the old", "--json").json["checkpoints"]]
    assert found == ["design done"], "those that took it over said nothing of it"
    rows = [row for row in repo.ok("summary").out.splitlines() if row.startswith("- ") and "**" not in row]
    assert [row for row in rows if "depend" in row or "async" in row or "old" in row] == [
        f"- {OLD}",
        f"- {DEP} (withdrawn)",
        f"- {ASYNC}",
    ]


def test_a_dry_run_says_what_is_taken_over(repo: Sandbox) -> None:
    two(repo)
    done = repo.ok("snapshot", "x", "-n", "--withdraw", "2", "--decision", "new", "--note", "n", "--keep", "note").out
    assert done.splitlines()[1:5] == [
        f"would withdraw decision 2: {DEP}",
        f"would take over decision 1: {OLD}",
        "would add decision 3: new",
        "would keep note",
    ]
    done = repo.ok("snapshot", "x", "-n", "--keep", "2").out
    assert done.splitlines()[1:3] == [f"would take over decision 1: {OLD}", f"would affirm decision 2: {DEP}"]
    assert decided(repo) == {1: OLD, 2: DEP}


@pytest.mark.deep
def test_the_api_and_mcp_say_the_same(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        baton.snapshot("a", track="main", decisions=[OLD, DEP], about=["a.txt"], extra={"k": "v"}, keep=["extra.k"])
        taken = baton.apply(baton.plan(Request(step="b", track="main", withdraw=("2",))))
        assert [(one.number, one.text) for one in taken.ended] == [(2, DEP)]
        with pytest.raises(Exception, match="withdraw must be a sequence of strings"):
            baton.snapshot("c", withdraw="1")

    async def calls(client: McpClient) -> tuple[str, str, Any]:
        done = await client.call("snapshot", step="c", decisions=[ASYNC], about=["b.txt"], withdraw=["keep"], keep=["extra.k"])
        return said(done), said(await client.call("resume")), await client.ok("resume")

    done, text, found = talk(repo.path, calls)
    assert f"withdrew decision 1: {OLD}" in done and found["decisions"][0]["about"] == ["b.txt"]
    assert f"decision={ASYNC}" in text and "decision.3=made " in text and "; about b.txt" in text
    assert decided(repo) == {3: ASYNC} and repo.ok("resume", "--json").json["checkpoint"]["extra"] == {"k": "v"}


def test_none_is_lost_that_another_wrote_meanwhile(repo: Sandbox) -> None:
    two(repo)
    with Baton(repo.path) as one, Baton(repo.path) as other:
        mine = one.plan(Request(step="mine", track="main", decisions=("of mine",), withdraw=("1",)))
        theirs = other.plan(
            Request(step="theirs", track="main", decisions=("of theirs",), withdraw=("1", "2"), note="n", keep=("note",))
        )
        other.apply(theirs)
        one.apply(mine)
    assert decided(repo) == {3: "of theirs", 4: "of mine"}
    assert repo.ok("resume", "--json").json["checkpoint"]["note"] == "n"


@pytest.mark.deep
def test_many_are_said_to_be_many_and_too_many_are_refused(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        baton.snapshot("a", track="main", decisions=[f"rule {n}" for n in range(200)])
        found = baton.snapshot("b", track="main")
        assert any("200 decisions stand on track 'main'" in text and "--withdraw N" in text for text in found.warnings)
        assert len(found.stored.checkpoint.decisions) == 200
        for n in range(3):
            baton.snapshot("c", track="main", decisions=[f"{n} {'x' * 60_000}"])
        with pytest.raises(Exception, match=r"the 205 decisions that stand come to 3[0-9]+ bytes; the limit is 262144"):
            baton.snapshot("d", track="main", decisions=[f"{n} {'y' * 60_000}" for n in range(2)])
        assert len(baton.snapshot("e", track="main", withdraw=["203"]).stored.checkpoint.decisions) == 202
    told = Client("claude", repo.path).fire("start", source="compact")
    assert "older decisions, which stand, too: git baton resume" in told and len(told) <= 8000


@pytest.mark.deep
def test_the_oldest_is_told_too_where_there_is_room(repo: Sandbox) -> None:
    words = [word for n in range(1, 41) for word in ("--decision", f"rule {n} of ours")]
    repo.ok("snapshot", "a", *words)
    told = Client("claude", repo.path).fire("start", source="compact")
    assert "decision 1: rule 1 of ours" in told and "decision 40: rule 40 of ours" in told and "older decisions" not in told
    repo.ok("snapshot", "b", *[word.replace("ours", "ours " + "x" * 300) for word in words])
    told = Client("claude", repo.path).fire("start", source="compact")
    assert "and 65 older decisions, which stand, too: git baton resume" in told


def test_a_secret_in_one_is_redacted_and_it_can_be_withdrawn_by_what_was_typed(repo: Sandbox) -> None:
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    repo.ok("snapshot", "a", "--decision", f"use {token} for CI", "--note", f"token {token}", "--keep", "note")
    repo.ok("snapshot", "b")
    assert token not in repo.everything() and "[redacted:" in decided(repo)[1]
    repo.ok("snapshot", "c", "--withdraw", f"use {token} for")
    assert decided(repo) == {}


@pytest.mark.deep
def test_what_was_withdrawn_can_be_forgotten(repo: Sandbox) -> None:
    """A later checkpoint says that something was withdrawn, and not what."""
    repo.ok("snapshot", "a", "--decision", "the customer is Emilia Galotti")
    repo.ok("snapshot", "b", "--withdraw", "1")
    repo.ok("snapshot", "c")
    repo.ok("forget", "--everywhere", "--yes", "main~2")
    forget_what_no_ref_holds(repo)
    assert "Emilia" not in repo.everything() and decided(repo) == {}


def test_a_track_of_before_shows_its_lists_as_they_are(repo: Sandbox) -> None:
    """What 0.2 wrote has no more than texts: the newest words say what stands."""
    two(repo)
    repo.ok("snapshot", "b")
    record = checkpoints(repo, "main")[-1]
    plain = {key: item for key, item in record.items() if key not in ("standing", "id")} | {"decisions": [DEP]}
    lay = repo.path / "older"
    lay.mkdir()
    (lay / "LATEST.json").write_text(json.dumps({"tracks": {"old": {**plain, "track": "old"}}}))
    repo.ok("import", str(lay))
    assert decided(repo, "--track", "old") == {1: DEP}
    repo.ok("snapshot", "c", "--track", "old", "--decision", OLD)
    assert decided(repo, "--track", "old") == {1: DEP, 2: OLD}


@pytest.mark.deep
def test_an_export_brings_them_back(repo: Sandbox, tmp_path: Path) -> None:
    two(repo)
    repo.ok("snapshot", "b", "--withdraw", "1", "--decision", ASYNC, "--about", "a.txt", "--note", "n", "--keep", "note")
    repo.ok("snapshot", "c")
    repo.ok("export", "--history")
    other = Sandbox.begun(tmp_path / "other")
    done = other.baton("import", str(repo.path / "runtime/checkpoints"))
    assert done.code == 0, done.err
    assert decided(other) == {2: DEP, 3: ASYNC} and facts(other, 3).endswith("about a.txt")
    other.ok("snapshot", "d", "--withdraw", "2")
    c = other.ok("resume", "--json").json["checkpoint"]
    assert decided(other) == {3: ASYNC} and c["note"] == "n"


@pytest.mark.deep
def test_edits_that_no_checkpoint_holds_are_told_too(repo: Sandbox) -> None:
    repo.write("src/api/a.py", "one\n")
    repo.write("new.txt", "captured, and not in the index\n")
    repo.ok("snapshot", "a", "--decision", ASYNC, "--about", "src/api", "--about", "new.txt", "--decision", DEP)
    about = "about src/api, new.txt"
    repo.write("elsewhere.txt", "x\n")
    repo.write("src/apis.txt", "x\n")
    assert facts(repo, 1) == about and facts(repo, 2) == about
    repo.write("src/api/a.py", "two\n")
    assert facts(repo, 1) == f"{about}; since changed in this work tree"
    assert facts(repo, 1, "--live") == facts(repo, 1), "with and without a look at all files"
    assert repo.ok("resume", "--json").json["decisions"][0]["edited"] == ["src/api/a.py"]
    assert f"decision 1: {ASYNC} ({about}; since changed in this work tree)" in told(repo)
    Client("claude", repo.path).turn("make it async")
    named = facts(repo, 1).removeprefix(f"{about}; since changed by ")
    assert "make it async" in named and "edited" not in repo.ok("resume", "--json").json["decisions"][0]
    for name, text in (("src/api/b.py", "new\n"), ("new.txt", "edited\n")):
        repo.write(name, text)
        assert facts(repo, 1) == f"{about}; since changed in this work tree, by {named}", name
        repo.ok("restore", "--exact")
        assert facts(repo, 1) == f"{about}; since changed by {named}"
    (repo.path / "src/api/a.py").unlink()
    assert facts(repo, 1) == f"{about}; since changed in this work tree, by {named}"


def test_an_edit_anywhere_is_one_of_what_is_about_all(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", ASYNC, "--about", ".")
    assert facts(repo, 1) == "about ."
    repo.write("deep/new.txt", "x\n")
    assert facts(repo, 1) == "about .; since changed in this work tree"


AGAIN = "stands again: its withdrawal was taken back"


@pytest.mark.deep
def test_a_restore_withdraws_nothing(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", OLD)
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "b", "--decision", DEP, "--about", "a.txt", "--withdraw", "1", "--note", "n", "--keep", "note")
    repo.ok("restore", "main~1")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 2) == "about a.txt; decided in what was taken back"
    repo.ok("snapshot", "c", "--note", "other")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 2) == 'about a.txt; since changed by "c"'
    assert repo.ok("resume", "--json").json["checkpoint"]["note"] == "other\n\nn"


def told(repo: Sandbox) -> str:
    """What a session that begins cold is told."""
    return Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start")


@pytest.mark.deep
def test_what_was_withdrawn_in_what_a_restore_took_back_stands_again(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", OLD, "--decision", DEP, "--note", "n", "--keep", "note")
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "b", "--withdraw", "1", "--withdraw", "note")
    assert decided(repo) == {2: DEP}
    repo.ok("restore", "main~1")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 1) == AGAIN and facts(repo, 2) == ""
    assert f"decision 1: {OLD} ({AGAIN})" in told(repo)
    assert [one.get("again") for one in repo.ok("resume", "--json").json["decisions"]] == [True, None]
    for name in ("LATEST.md", "LATEST.json"):
        assert OLD in (repo.path / "runtime/checkpoints" / name).read_text()
    repo.ok("undo")
    assert decided(repo) == {2: DEP}, "it was withdrawn"
    repo.ok("redo")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 1) == AGAIN
    repo.write("c.txt", "c\n")
    Client("claude", repo.path).turn("go on with that, in another way than before")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 1) == AGAIN and "kept=note" in repo.ok("resume", "--porcelain").out
    assert "(withdrawn)" not in repo.ok("summary").out
    repo.ok("snapshot", "c")
    assert decided(repo) == {1: OLD, 2: DEP} and facts(repo, 1) == "", "whoever writes words on top of it gives it again"
    assert repo.ok("resume", "--json").json["checkpoint"]["note"] == "n"
    repo.ok("snapshot", "d", "--withdraw", "1")
    assert decided(repo) == {2: DEP}


@pytest.mark.deep
def test_what_stands_again_can_be_withdrawn_at_once(repo: Sandbox) -> None:
    repo.ok("snapshot", "a", "--decision", OLD, "--decision", DEP)
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "b", "--withdraw", "1")
    repo.ok("restore", "main~1")
    assert f"withdrew decision 1: {OLD}" in repo.ok("snapshot", "c", "--withdraw", "1").out
    assert decided(repo) == {2: DEP}


@pytest.mark.deep
@pytest.mark.parametrize("after", ["a turn", "words"])
def test_what_stands_again_does_so_in_every_clone(pair: tuple[Sandbox, Sandbox], after: str) -> None:
    one, other = pair
    one.write("a.txt", "two\n")
    one.ok("snapshot", "b", "--withdraw", "1")
    synced(one, other)
    assert decided(other) == {2: DEP}
    one.ok("restore", "main~1")
    if after == "a turn":
        Client("claude", one.path).turn("go on with that, in another way than before")
    else:
        one.ok("snapshot", "c")
    other.ok("snapshot", "theirs", "--decision", ASYNC)
    synced(one, other, one)
    assert decided(one) == decided(other) == {1: OLD, 2: DEP, 3: ASYNC}
    other.ok("snapshot", "both")
    synced(other, one)
    assert decided(one) == decided(other) == {1: OLD, 2: DEP, 3: ASYNC}


# Two clones of one remote.


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Sandbox, Sandbox]:
    """Two clones that have the same track, with two decisions of the first."""
    one = Sandbox.begun(tmp_path / "one")
    one.git("init", "-q", "--bare", str(tmp_path / "hub"))
    one.git("remote", "add", "origin", str(tmp_path / "hub"))
    one.git("push", "-q", "origin", "main")
    two(one)
    synced(one)
    one.git("clone", "-q", str(tmp_path / "hub"), str(tmp_path / "two"))
    other = Sandbox(tmp_path / "two")
    other.ok("fetch", "origin")
    other.ok("tracks", "use", "main")
    return one, other


def synced(*boxes: Sandbox) -> None:
    for box in boxes:
        box.ok("sync", "origin", "--yes")


def quoted_of(box: Sandbox) -> list[int]:
    """The numbers of the decisions that ``resume`` quotes as a stranger's."""
    return [
        int(row.split("=")[0].split(".")[1])
        for row in box.ok("resume", "--porcelain").out.splitlines()
        if row.startswith("> decision.")
    ]


def test_decisions_from_elsewhere_stand_and_stay_quoted_until_somebody_here_gives_them(pair: tuple[Sandbox, Sandbox]) -> None:
    one, other = pair
    assert decided(other) == {1: OLD, 2: DEP} and quoted_of(other) == [1, 2]
    done = other.ok("snapshot", "mine", "--decision", ASYNC)
    assert "decisions 1, 2 are from elsewhere: shown quoted until --keep N makes one of them yours" in done.err
    assert decided(other) == {1: OLD, 2: DEP, 3: ASYNC} and quoted_of(other) == [1, 2]
    told = Client("claude", other.path).fire("start", source="compact")
    assert f"> decision 1: {OLD}" in told and f"\ndecision 3: {ASYNC}" in told
    assert other.ok("snapshot", "more", "--keep", "1").err == ""
    assert quoted_of(other) == [2] and quoted_of(other) == [2]
    other.ok("snapshot", "more", "--decision", DEP)
    assert decided(other) == {1: OLD, 2: DEP, 3: ASYNC} and quoted_of(other) == []
    synced(other, one)
    assert decided(one) == {1: OLD, 2: DEP, 3: ASYNC}
    one.ok("snapshot", "home again")
    assert quoted_of(one) == [3], "what was decided here is ours, whoever carried it"


@pytest.mark.deep
def test_two_that_decided_apart_have_the_union_and_what_is_withdrawn_stays_so(pair: tuple[Sandbox, Sandbox]) -> None:
    one, other = pair
    other.ok("snapshot", "theirs", "--decision", "of two", "--withdraw", "1")
    one.ok("snapshot", "ours", "--decision", "of one", "--note", "n", "--keep", "note")
    synced(one, other, one)
    assert decided(one) == decided(other) == {2: DEP, 3: "of two", 4: "of one"}, "the first that was made keeps its number"
    assert json.loads((one.path / "runtime/checkpoints/LATEST.json").read_text())["tracks"]["main"]["decisions"][0] == DEP
    assert quoted_of(one) == [3]
    shown = [row for row in one.ok("show", "--porcelain").out.splitlines() if row.removeprefix("> ").startswith("decision")]
    assert shown == [row for row in one.ok("resume", "--porcelain").out.splitlines() if row in shown] and len(shown) == 6, (
        "one numbering"
    )
    one.ok("snapshot", "both")
    assert decided(one) == {2: DEP, 3: "of two", 4: "of one"} and quoted_of(one) == [3]
    assert one.ok("resume", "--json").json["checkpoint"]["note"] == "n"
    synced(one, other)
    done = other.ok("snapshot", "both, too")
    assert decided(other) == {2: DEP, 3: "of two", 4: "of one"}
    assert "kept elsewhere and not here: note; --keep takes what it names over" in done.err
    synced(other, one)
    assert decided(one) == decided(other)


@pytest.mark.deep
def test_what_one_side_changed_is_not_said_of_the_other_ones_turn(pair: tuple[Sandbox, Sandbox]) -> None:
    one, other = pair
    other.write("new.txt", "theirs\n")
    other.ok("snapshot", "theirs", "--decision", ASYNC, "--about", "new.txt")
    one.write("ours.txt", "ours\n")
    one.ok("snapshot", "ours")
    synced(other, one)
    assert facts(one, 3) == "about new.txt; from elsewhere", "it stands below ours now, which was not written on top of it"
    one.write("new.txt", "here, too\n")
    one.ok("snapshot", "both")
    assert facts(one, 3) == 'about new.txt; since changed by "both"; from elsewhere'


@pytest.mark.deep
@some("withdrawn", ["by one", "by the other", "by both"], share={"by the other"})
@some("first", ["one", "other"], share=0)
def test_a_withdrawal_wins_over_an_older_list_wherever_it_was_made(
    pair: tuple[Sandbox, Sandbox], withdrawn: str, first: str
) -> None:
    one, other = pair
    order = (one, other) if first == "one" else (other, one)
    for box in order:
        ends = withdrawn == "by both" or (withdrawn == "by one") == (box is one)
        box.ok("snapshot", "x", *(("--withdraw", "1") if ends else ()), "--decision", f"of {box.path.name}")
    synced(*order, *order)
    texts = {DEP, "of one", "of two"}
    assert set(decided(one).values()) == set(decided(other).values()) == texts
    for box in order:
        box.ok("snapshot", "y")
        synced(*order, *order)
        assert set(decided(one).values()) == set(decided(other).values()) == texts
    one.ok("snapshot", "z", "--decision", OLD)
    synced(*order, *order)
    assert set(decided(other).values()) == {OLD, *texts}, "what is decided anew stands"
