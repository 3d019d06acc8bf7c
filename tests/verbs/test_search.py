"""``git baton search``: what was said and written is found by parts of words, newest first; what is gone is not found, and the
index can go at any time."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import sqlite3
import stat
import string
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.far import Far, ok
from tests.kit.far import snap as far_snap
from tests.kit.past import Past
from tests.kit.talks import Talk

INDEX = ".git/baton/search.sqlite"


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """Two turns of a session that is stored."""
    snap(repo, "work", "begun")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.fire("start")
    turn(talk, "the refund webhook must not fire twice", "Done: handle_refund keeps the event's id in src/pay/hook.py.")
    talk.run("grep -rn idempotency src", "src/pay/hook.py:12: # the idempotency key of the event")
    turn(talk, "now the e-mail to the customer", "The mail is sent by send_receipt.")
    return talk


def snap(repo: Sandbox, track: str, step: str, note: str = "") -> str:
    """A checkpoint that is written by hand; its id."""
    return str(
        repo.ok("snapshot", "--json", "--track", track, step, *(["--note", note] if note else [])).json["checkpoint"]["id"]
    )


def turn(talk: Talk, prompt: str, said: str) -> None:
    """A turn that changes a file."""
    talk.fire("prompt", prompt=prompt)
    talk.ask(prompt)
    talk.edit("a.txt", prompt)
    talk.say(said)
    talk.stop()


def found(repo: Sandbox, *words: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is found, as the title of each turn and its passages."""
    done = repo.baton("search", *words, "--json")
    turns = done.json["found"]
    assert done.code == (0 if turns else 1), done.err
    return [(one["checkpoint"]["step"], [(p["in"], p["lines"][0]) for p in one["passages"]]) for one in turns]


def where(repo: Sandbox, *words: str) -> list[str]:
    """What kinds of passages are found, the newest turn's first."""
    return [kind for _, passages in found(repo, *words) for kind, _ in passages]


def test_words_prompts_and_conversations_are_found_with_the_command_that_shows_them(talk: Talk) -> None:
    repo = talk.repo
    snap(repo, "other", "refunds are documented", note="see the webhook's page")
    done = repo.ok("search", "refund", "webhook")
    assert re.fullmatch(
        r"""(\w+)  now  other  refunds are documented
    words: refunds are documented
    words: see the webhook's page
    git baton show \w+

(\w+)  now  work  turn 1  the refund webhook must not fire twice
    prompt: the refund webhook must not fire twice
(?:    \w+: .*refund.*\n)*    git baton (?:transcript )?show \w+(?: and git baton (?:transcript )?show \w+)?
""",
        done.out,
    )
    for one in repo.ok("search", "refund", "--json").json["found"]:
        for passage in one["passages"]:
            shown = repo.ok(*shlex.split(passage["command"])[2:]).out
            hits = [line[a:b] for line, spans in zip(passage["lines"], passage["hits"], strict=True) for a, b in spans]
            assert hits and all(hit in shown for hit in hits)
    assert where(repo, "idempotency key") == ["output"] and where(repo, "grep", "idempotency") == ["call"]
    assert where(repo, "send_receipt") == ["agent"] and where(repo, "src/pay/hook") == ["output", "agent"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("refund", 1),
        ("REFUNDS", 1),
        ("efund", 1),
        ("parse_config", 1),
        ("config", 1),
        ("src/pay.py", 1),
        ("退款", 1),
        ("款", 1),
        ("错误", 1),
        ("q", 0),
        ("v2", 1),
        ("refund parse_config", 1),
        ("refund nothing", 0),
        ("'refunds are done'", 1),
        ("'are refunds'", 0),
        ("'\"refunds are\"'", 1),
        ("a%b", 1),
        ("a_b", 0),
        ('say\\"hi', 1),
        ("NEAR", 0),
        ("done AND", 0),
        ("straße", 1),
        ("*", 0),
    ],
)
def test_parts_of_words_count_and_all_words_must_be_there(repo: Sandbox, words: str, expected: int) -> None:
    snap(repo, "pay", "refunds are done", note='parse_config in src/pay.py, v2: 修复退款错误, a%b say"hi, straße')
    assert len(found(repo, *shlex.split(words))) == expected


def test_where_which_track_since_when_and_how_many(talk: Talk) -> None:
    repo = talk.repo
    snap(repo, "other", "the refund of the words")
    assert where(repo, "refund", "--in", "words") == ["words"]
    assert set(where(repo, "refund", "--in", "prompts")) == {"prompt"}
    assert set(where(repo, "refund", "--in", "conversations")) == {"prompt", "agent", "call"}
    assert len(found(repo, "refund")) == 2 == len(found(repo, "refund", "--since", "1 hour ago"))
    assert found(repo, "refund", "--since", "2030-01-01") == []
    assert [step for step, _ in found(repo, "refund", "--track", "other")] == ["the refund of the words"]
    assert len(found(repo, "refund", "--track", "work")) == 1
    one = repo.ok("search", "refund", "-1")
    assert "the refund of the words" in one.out and one.out.endswith("\nthere is more: a greater -n finds it\n")
    assert repo.ok("search", "refund", "-n", "1", "--json").json["more"] is True
    rows = repo.ok("search", "refund", "--porcelain").out.splitlines()
    assert rows[:2] == ["# baton porcelain v1", "# id track created in command passage"]
    assert all(row.count("\t") == 5 for row in rows[2:])
    for words, code, said in (
        (("search", "nothing-of-the-kind"), 1, ""),
        (("search",), 129, "fatal: "),
        (("search", " "), 129, "fatal: what is looked for is empty"),
        (
            ("search", "a", "--in", "files"),
            129,
            "fatal: --in is 'files'; it can be 'words', 'prompts', 'conversations' or 'diffs'",
        ),
        (("search", "a", "--track", "none"), 2, "fatal: there is no track 'none'"),
    ):
        done = repo.baton(*words)
        assert (done.code, done.out, done.err[: len(said)]) == (code, "", said)


def test_an_imported_turn_is_found_as_itself(repo: Sandbox) -> None:
    past = Past(repo, "claude")
    past.turn("Halve the refund, please", "half.py", "x / 2\n", "half: begun", "The refund halves.")
    repo.ok("import", "--client", "claude", "--yes")
    for _ in "ab":
        done = repo.ok("search", "refund", "--json")
        [one] = done.json["found"]
        assert done.err == "" and one["checkpoint"]["imported"]["prompt"] == "Halve the refund, please"
        assert {passage["in"] for passage in one["passages"]} == {"prompt", "agent"}
        for command in {passage["command"] for passage in one["passages"]}:
            assert "refund" in repo.ok(*shlex.split(command)[2:]).out
    [ref] = repo.git("for-each-ref", "--format=%(refname)", "refs/baton/imported/").split()
    repo.git("update-ref", "refs/baton/remotes/origin/" + ref.removeprefix("refs/baton/"), ref)
    repo.git("update-ref", "-d", ref)
    assert repo.ok("search", "refund").err == ""


def test_each_line_of_the_words_is_shown_or_counted(repo: Sandbox) -> None:
    words = ("--note", "one refund\nno other\ntwo refunds", "--next", "test the refund", "--decision", "refund in full")
    repo.ok("snapshot", "--track", "t", "a refund", *words)
    done = repo.ok("search", "refund")
    assert done.out.count("    words: ") == 3 and "    and 2 passages more: git baton show " in done.out
    [one] = repo.ok("search", "refund", "two", "--json").json["found"]
    assert one["passages"][0]["lines"] == ["one refund", "two refunds", "a refund"] or len(one["passages"][0]["lines"]) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            "nothing is found in the words and conversations of all tracks\nhint: look into diffs, too:"
            " {} --in words --in conversations --in diffs zebra\n",
        ),
        (
            ("--in", "words"),
            "nothing is found in the words of all tracks\nhint: look into conversations and diffs, too: {}"
            " --in words --in conversations --in diffs zebra\n",
        ),
        (
            ("--track", "t", "--since", "1 day ago"),
            "nothing is found in the words and conversations of the track 't' since"
            " '1 day ago'\nhint: look into diffs, too: {} --in words --in conversations --in diffs"
            " --track t --since '1 day ago' zebra\n",
        ),
    ],
)
def test_nothing_found_says_where_was_looked_and_where_else(repo: Sandbox, options: tuple[str, ...], said: str) -> None:
    repo.write("a.txt", "zebra\n")
    snap(repo, "t", "paint")
    done = repo.baton("search", "zebra", *options)
    assert (done.code, done.out, done.err) == (1, "", said.format("git baton search"))
    hint = shlex.split(done.err.splitlines()[1].partition(": git ")[2])
    assert "diff of a.txt: +zebra" in repo.ok(*hint[1:]).out
    assert repo.baton("search", "zebra", *options, "--json").err == ""
    again = ("giraffe" if word == "zebra" else word for word in hint[1:])
    told = repo.baton(*again).err
    assert "words and conversations and diffs" in told and told.endswith(": there are no other places to look into\n")


@pytest.mark.deep
def test_a_search_of_diffs_says_that_imported_turns_have_none(repo: Sandbox) -> None:
    repo.write("a.txt", "zebra\n")
    snap(repo, "t", "paint")
    said = "hint: imported turns have no files, so --in diffs does not look at them"
    assert said not in repo.ok("search", "zebra", "--in", "diffs").err
    past = Past(repo, "claude")
    past.turn("Paint a zebra", "half.py", "zebra = 2\n", "zebra: begun", "There is a zebra.")
    repo.ok("import", "--client", "claude", "--yes")
    for words in (("zebra",), ("giraffe",), ("zebra", "--all-repos"), ("giraffe", "--all-repos")):
        assert repo.baton("search", *words, "--in", "diffs").err.count(said) == 1, words
    for line in ("zebra", "zebra --in diffs --track t", "giraffe --in diffs --json"):
        assert said not in repo.baton("search", *line.split()).err, line


def test_a_path_after_two_dashes_is_no_word_and_the_hint_lists_what_changed_it(repo: Sandbox) -> None:
    repo.write("-b c", "zebra\n")
    snap(repo, "t", "begun: -b c and zebra")
    done = repo.baton("search", "zebra", "--", "-b c")
    assert (done.code, done.out) == (129, "") and done.err.startswith(
        "fatal: '-b c' comes after '--', and search takes no paths"
    )
    hint = re.search(r"'(git baton log -- '-b c')'", done.err)
    assert hint and "zebra" in repo.ok(*shlex.split(hint[1])[2:]).out
    assert "-b c and zebra" in repo.ok("search", "--", "-b c").out and "zebra" in repo.ok("search", "zebra", "--").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("zebra", "--since", "no day"), "'no day' is not a time that git understands"),
        ((" ",), "what is looked for is empty"),
        ((os.fsdecode(b"\xff"),), "is not UTF-8"),
    ],
)
def test_a_wrong_question_is_wrong_in_all_repositories(repo: Sandbox, words: tuple[str, ...], said: str) -> None:
    snap(repo, "t", "paint")
    for options in ((), ("--all-repos",)):
        done = repo.baton("search", *words, *options)
        assert (done.code, done.out) == (129, "") and done.err.startswith("fatal: ") and said in done.err


def test_what_turns_changed_is_found_by_its_lines(repo: Sandbox) -> None:
    for step, text in (("one", "alpha = 1\n"), ("two", "alpha = 1\nbeta = alpha\n"), ("three", "gamma\n")):
        repo.write("src/a.py", text)
        snap(repo, "t", step)
    snap(repo, "t", "beta in words")
    assert found(repo, "beta", "--in", "diffs") == [
        ("three", [("diff of src/a.py", "-beta = alpha")]),
        ("two", [("diff of src/a.py", "+beta = alpha")]),
    ]
    assert [step for step, _ in found(repo, "alpha", "beta", "--in", "diffs")] == ["three", "two"]
    assert [step for step, _ in found(repo, "beta", "--in", "diffs", "--in", "words", "-n", "2")] == ["beta in words", "three"]
    assert found(repo, "alpha", "gammas", "--in", "diffs") == [] and found(repo, "Beta", "--in", "diffs") == []
    shown = repo.ok("search", "beta", "--in", "diffs", "-1").out
    assert "    diff of src/a.py: -beta = alpha\n    git baton show -p " in shown and "there is more" in shown


def test_the_index_follows_what_is_said_and_taken_back(talk: Talk) -> None:
    repo = talk.repo
    assert found(repo, "zebra") == []
    before = talk.ask("please paint a zebra")
    turn(talk, "a second zebra", "Two zebras.")
    assert len(found(repo, "zebra")) == 1 and where(repo, "two zebras") == ["agent"]
    talk.back(before)
    turn(talk, "a horse instead", "One horse.")
    assert where(repo, "two zebras") == [] and where(repo, "one horse") == ["agent"]


def said_in(repo: Sandbox) -> list[str]:
    """The files of ours in the common directory that tell of a xylophone."""
    files = [path for path in (repo.path / ".git").rglob("*") if path.is_file() and "objects" not in path.parts]
    return [str(path) for path in files if b"xylophone" in path.read_bytes()]


def held(repo: Sandbox) -> bytes:
    """All bytes of the index and of what SQLite keeps beside it."""
    return b"".join(path.read_bytes() for path in (repo.path / ".git/baton").glob("search.sqlite*"))


def test_what_is_forgotten_or_pruned_is_not_found_and_not_in_the_index(talk: Talk) -> None:
    repo = talk.repo
    gone = snap(repo, "t", "the xylophone is tuned")
    kept = snap(repo, "t", "the piano is tuned")
    assert gone and kept and len(found(repo, "tuned")) == 2 and b"xylophone" in held(repo)
    repo.ok("prune", "t", "--keep-last", "1", "--yes")
    assert b"xylophone" not in held(repo) and b"piano" in held(repo)
    assert [step for step, _ in found(repo, "tuned")] == ["the piano is tuned"]
    [one] = repo.ok("search", "send_receipt", "--json").json["found"]
    repo.baton("forget", "--everywhere", "--yes", one["checkpoint"]["id"])
    assert b"send_receipt" not in held(repo)
    assert found(repo, "send_receipt") == [] and b"send_receipt" not in held(repo)


def told(repo: Sandbox) -> list[set[tuple[object, ...]]]:
    """What the index says, but for the numbers that it gives."""
    with closing(sqlite3.connect(repo.path / INDEX)) as database:
        asked = ("SELECT name, oid FROM ref", "SELECT oid, track, at FROM turn")
        linked = "SELECT link.oid, turn.oid FROM link LEFT JOIN turn ON turn = turn.id"
        marked = (
            "SELECT turn.oid, kind, line, sum, data FROM mark JOIN body ON body.id = mark.id LEFT JOIN turn ON turn = turn.id"
        )
        return [{*database.execute(sql)} for sql in (*asked, linked, marked, "SELECT term, doc FROM terms")]


@pytest.fixture
def large(repo: Sandbox) -> Sandbox:
    """A repository with an index that is brought up to date beside a removal."""
    chance = random.Random(1)
    with Baton(repo.path) as baton:
        for number in range(12):
            note = "".join(chance.choices(string.ascii_lowercase, k=60_000))
            baton.snapshot(f"step {number}: tuned", track="ab"[number % 2], note=note)
    assert len(found(repo, "tuned")) == 12 and (repo.path / INDEX).stat().st_size > 1 << 20
    return repo


@pytest.mark.deep
@pytest.mark.parametrize("words", [("prune", "--keep-last", "3"), ("tracks", "delete", "a")], ids=["prune", "delete"])
def test_a_large_index_is_after_a_removal_as_one_made_anew(large: Sandbox, words: tuple[str, ...]) -> None:
    large.git("init", "-q", "--bare", str(large.path.parent / "hub.git"))
    large.git("remote", "add", "hub", str(large.path.parent / "hub.git"))
    large.ok("sync", "hub", "--yes")
    assert len(found(large, "tuned")) == 12
    large.ok(*words, "--yes")
    followed = told(large)
    (large.path / INDEX).unlink()
    assert len(found(large, "tuned")) == 6
    fresh = told(large)
    dropped = {row for row in followed[2] if row[1] is None}  # where a remote still has them, that it was read is known
    assert [followed[0], followed[1], followed[2] - dropped, *followed[3:]] == [
        fresh[0],
        fresh[1],
        {row for row in fresh[2] if row[1] is not None},
        *fresh[3:],
    ]


@pytest.mark.deep
def test_what_a_removal_that_is_refused_would_have_removed_is_found(large: Sandbox) -> None:
    lock = large.path / ".git/refs/notes/checkpoints.lock"
    lock.touch()
    assert large.baton("prune", "--keep-last", "3", "--yes").code == 128
    assert len(found(large, "tuned")) == 12
    lock.unlink()
    large.ok("prune", "--keep-last", "3", "--yes")
    assert len(found(large, "tuned")) == 6


@pytest.mark.deep
def test_what_another_clone_forgets_stays_nowhere_after_the_next_sync(tmp_path: Path) -> None:
    far = Far(tmp_path)
    here, there = far.first, far.clone()
    gone = far_snap(here, "the xylophone is tuned")
    for clone in (here, there):
        ok(clone, "sync", "--yes", "origin")
    assert "xylophone" in there.ok("search", "xylophone").out and "xylophone" in there.ok("statusline", "--track", "t").out
    assert b"xylophone" in held(there)
    ok(here, "forget", gone, "--yes")
    for clone in (here, there):
        ok(clone, "sync", "--yes", "origin")
    assert said_in(here) == [] and said_in(there) == []


@pytest.mark.deep
def test_a_status_line_keeps_no_words_that_were_forgotten(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    gone = []

    def keep(place: Sandbox, count: int) -> None:  # nothing is kept in the tick in which something moved
        until(lambda: place.ok("statusline").code == 0 and len(said_in(repo)) == count)

    for place, track in ((repo, "t"), (Sandbox(tmp_path / "linked"), "u")):
        snap(place, track, "begun")
        gone.append(snap(place, track, f"the xylophone of {track} is tuned"))
        keep(place, len(gone))
    assert [path.endswith("baton/statusline") for path in said_in(repo)] == [True, True]
    repo.ok("forget", *gone, "--yes")
    assert said_in(repo) == []


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(200), None])
def test_an_index_that_is_none_of_ours_is_made_anew(repo: Sandbox, content: bytes | None) -> None:
    snap(repo, "t", "the piano is tuned")
    assert len(found(repo, "piano")) == 1
    path = repo.path / INDEX
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if content is None:  # of a version to come
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 99")
    else:
        path.write_bytes(content)
    assert len(found(repo, "piano")) == 1
    path.write_bytes(path.read_bytes()[:9000] + b"\xff" * 9000)
    assert len(found(repo, "piano")) == 1


@pytest.mark.parametrize("sql", ["DROP TABLE ref", "DELETE FROM body", "UPDATE body SET data = x'00ff'"])
def test_an_index_with_something_missing_is_made_anew(repo: Sandbox, sql: str) -> None:
    snap(repo, "t", "the piano is tuned")
    assert len(found(repo, "piano")) == 1
    with sqlite3.connect(repo.path / INDEX) as database:
        database.execute(sql)
    assert len(found(repo, "piano")) == 1 and repo.ok("search", "piano").err == ""


def test_where_nothing_is_no_index_is_made(repo: Sandbox) -> None:
    done = repo.baton("search", "piano")
    assert done.code == 1 and not (repo.path / ".git/baton").exists()


@pytest.mark.deep
def test_what_could_not_be_read_is_found_as_soon_as_it_can_be(repo: Sandbox, tmp_path: Path) -> None:
    for step in ("one piano", "two pianos", "three pianos"):
        snap(repo, "t", step)
    snap(repo, "other", "four pianos")
    repo.git("repack", "-adq")
    packs = repo.path / ".git/objects/pack"
    for pack in [path.rename(tmp_path / path.name) for path in packs.glob("*.pack")]:
        repo.git("unpack-objects", "-q", stdin=pack.read_bytes())
    middle = repo.git("rev-parse", "refs/baton/tracks/t~1")
    path = repo.path / ".git/objects" / middle[:2] / middle[2:]
    data = path.read_bytes()
    assert len(found(repo, "piano")) == 4
    for known in (True, False):
        if not known:
            (repo.path / INDEX).unlink()
        path.unlink()
        repo.baton("tracks", "delete", "other", "--yes")  # what nothing holds any more is looked for in all tracks
        torn = repo.ok("search", "piano")
        assert torn.out.count("words: ") == 1 and f"commit {middle} cannot be read" in torn.err
        path.write_bytes(data)
        whole = repo.ok("search", "piano")
        assert whole.out.count("words: ") == 3 and whole.err == ""
        repo.ok("tracks", "restore", "other")
        assert len(found(repo, "piano")) == 4


def test_where_no_index_can_be_written_all_is_read(repo: Sandbox) -> None:
    snap(repo, "t", "the piano is tuned")
    (repo.path / INDEX).mkdir()
    done = repo.ok("search", "piano")
    assert "the piano is tuned" in done.out and done.err.startswith("warning: the search index cannot be used: ")


def test_without_full_text_search_all_is_looked_through(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "fts5" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *values)

    monkeypatch.setattr(sqlite3, "connect", _with(sqlite3.connect, Poor))
    from gitbaton.care.search.finding import SearchQuery, search

    with talk.repo.open() as baton:
        result = search(baton, SearchQuery(texts=("send_receipt",)))
    assert [one.passages[0].who for one in result.turns] == ["agent"]


def _with(connect: Any, factory: type[sqlite3.Connection]) -> Any:
    return lambda *words, **more: connect(*words, **{**more, "factory": factory})


@pytest.mark.deep
def test_searches_at_once_all_find_it(talk: Talk) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: talk.repo.baton("search", "send_receipt", "--json"), range(4)))
    assert [(one.code, len(one.json["found"]), one.err) for one in found] == [(0, 1, "")] * 4


def test_capitals_of_every_script_are_small_letters(repo: Sandbox) -> None:
    snap(repo, "t", "\u039f\u0394\u039f\u03a3 \u0130stanbul \u00c4RGER \u9000\u6b3e")
    for word in (
        "\u039f\u0394\u039f\u03a3",
        "\u03bf\u03b4\u03bf\u03c2",
        "\u0130stanbul",
        "\u00e4rger",
        "\u9000\u6b3e",
        "\u6b3e",
    ):
        assert len(found(repo, word)) == 1, word
    odd = repo.baton("search", "\udcff")
    assert odd.code == 129 and "is not UTF-8" in odd.err


def test_words_that_drive_a_terminal_do_not(repo: Sandbox) -> None:
    snap(repo, "t", "ring", note="a bell\x1b[31m and a \u202e mark")
    assert "\x1b" not in repo.ok("search", "bell").out and "\u202e" not in repo.ok("search", "bell").out
    assert os.path.isfile(repo.path / INDEX)


def registry() -> Path:
    return Path(os.environ["HOME"]) / ".local/state/gitbaton/repositories"


@pytest.fixture
def others(repo: Sandbox, tmp_path: Path) -> list[Sandbox]:
    """Three repositories with a checkpoint each."""
    found = [repo, Sandbox.begun(tmp_path / "it's other"), Sandbox.begun(tmp_path / "third")]
    for number, one in enumerate(found):
        snap(one, f"t{number}", f"the piano of {number}")
    return found


def test_all_repositories_are_searched_and_each_command_works_from_anywhere(others: list[Sandbox], tmp_path: Path) -> None:
    (tmp_path / "nowhere").mkdir()
    done = others[0].baton("search", "piano", "--all-repos", "--json", cwd=tmp_path / "nowhere")
    found = done.json["found"]
    assert (done.code, done.err) == (0, "")
    paths = [str(one.path) for one in others]
    assert {one["repository"] for one in found} == set(paths)
    assert (times := [one["checkpoint"]["created"] for one in found]) == sorted(times, reverse=True)
    for one in found:
        [passage] = one["passages"]
        words = shlex.split(passage["command"])
        assert words[:4] == ["git", "-C", one["repository"], "baton"]
        shown = others[0].run("git", "-C", one["repository"], "rev-parse", "--show-toplevel").out
        assert shown == one["repository"] + "\n"
        assert one["checkpoint"]["step"] in others[0].baton(*words[4:], cwd=Path(one["repository"])).out
    text = others[0].ok("search", "piano", "--all-repos")
    assert all(f"{path}\n" in text.out for path in paths) and "there is more" not in text.out
    assert others[0].ok("search", "piano", "--all-repos", "-1").out.count("words: ") == 1
    rows = others[0].ok("search", "piano", "--all-repos", "--porcelain").out.splitlines()
    assert rows[1].endswith("\tpassage\trepository".replace("\t", " ")) and {row.split("\t")[-1] for row in rows[2:]} == set(
        paths
    )
    nothing = others[0].baton("search", "violin", "--all-repos")
    assert nothing.code == 1 and nothing.err.startswith("nothing is found in the words and conversations of all tracks of all")
    assert stat.S_IMODE(registry().stat().st_mode) == 0o600


def test_the_list_of_repositories_follows_what_is_there(others: list[Sandbox], tmp_path: Path) -> None:
    shutil.rmtree(others[1].path)
    [_, third] = others[1:]
    (third.path / ".git/HEAD").write_text("broken\n")
    done = others[0].baton("search", "piano", "--all-repos", "--json")
    assert [one["repository"] for one in done.json["found"]] == [str(others[0].path)]
    assert f"warning: the repository '{third.path}' is left out: " in done.err and "it's" not in done.err
    (third.path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    registry().write_bytes(registry().read_bytes() + b'no line of ours\n"relative"\n{}\n')
    assert len(others[0].ok("search", "piano", "--all-repos", "--json").json["found"]) == 2
    said = others[0].ok("uninstall", "--purge", "--yes").out
    assert f"take '{others[0].path}' out of the list '{registry()}'" in said
    assert registry().read_text() == f'"{third.path}"\n'
    third.ok("uninstall", "--purge", "--yes")
    assert not registry().exists() and not registry().parent.exists()


def test_a_repository_is_not_listed_where_that_is_switched_off(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("config", "baton.registry", "false")
    snap(repo, "t", "the piano")
    assert found(repo, "piano") and not registry().exists()
    repo.git("config", "--unset", "baton.registry")
    repo.baton("search", "piano", env={"GIT_BATON": "0"})
    assert not registry().exists()
    tree = tmp_path / "linked"
    repo.git("worktree", "add", "-q", str(tree))
    assert repo.baton("search", "piano", cwd=tree).code == 0
    assert registry().read_text() == f'"{repo.path}"\n'


def test_the_list_of_repositories_is_below_xdg_state_home(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "the piano")
    env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert len(repo.ok("search", "piano", "--all-repos", "--json", env=env).json["found"]) == 1
    assert (tmp_path / "state/gitbaton/repositories").read_text() == f'"{repo.path}"\n'


@pytest.mark.deep
def test_an_old_index_follows_when_a_session_ends_and_nobody_waits(talk: Talk) -> None:
    repo = talk.repo

    def indexed() -> bool:
        with closing(sqlite3.connect(repo.path / INDEX)) as database:
            rows = dict(database.execute("SELECT name, oid FROM ref"))
        return bool(rows.get("refs/baton/tracks/work") == repo.git("rev-parse", "refs/baton/tracks/work"))

    talk.fire("end")
    assert not (repo.path / INDEX).exists(), "nobody has searched here"
    assert found(repo, "refund") and indexed()
    os.utime(repo.path / INDEX, (1e9, 1e9))
    turn(talk, "the zebra crossing", "It is drawn.")
    assert not indexed()
    talk.fire("end")
    until(indexed)


@pytest.mark.deep
def test_diffs_of_no_track_and_no_commit(tmp_path: Path) -> None:
    done = Sandbox.init(tmp_path / "unborn").baton("search", "--in", "diffs", "word")
    assert (done.code, done.out) == (1, "") and "fatal" not in done.err, done
