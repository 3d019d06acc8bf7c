"""What a checkpoint may be called, and that a name that means two is an error which lists them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.base.codec import encode, encode_track, message
from gitbaton.base.errors import AmbiguousNameError, BatonError, NotFoundError, UsageError
from gitbaton.base.model import Stored
from gitbaton.git.repo import Door
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.moments import Args, at
from tests.kit.talks import Talk
from tests.kit.threads import git_called
from tests.kit.tiers import deep, some
from tests.rooms.codec.test_codec import blob_id, checkpoint

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["binary", deep("libgit2")])
def baton(repo: Sandbox, request: pytest.FixtureRequest) -> Iterator[Baton]:
    door: Door = request.param
    with repo.open(door=door) as opened:
        yield opened


def fill(repo: Sandbox, track: str, *rows: dict[str, Any]) -> list[str]:
    """A chain of checkpoints, one a row, oldest first, written by git fast-import; their ids."""
    who = "gitbaton <gitbaton@localhost>"
    out = [f"commit refs/made/root\nmark :1\ncommitter {who} 0 +0000\ndata 16\ngitbaton root 1\n\n".encode()]
    ids = []
    for number, row in enumerate(rows):
        c = checkpoint(**{"track": track, "created": START + timedelta(seconds=number), **row})
        raw = encode(c)
        text = message(c.step, raw)
        date = f"{who} {int(c.created.timestamp())} +0000"
        head = f"commit refs/baton/tracks/{encode_track(track)}\nmark :{number + 2}\nauthor {date}\ncommitter {date}\n"
        out += [head.encode(), b"data %d\n" % len(text), text, f"\nfrom :{number + 1}\n\n".encode()]
        ids.append(blob_id(raw))
    subprocess.run(["git", "fast-import", "--quiet", "--force"], input=b"".join(out), cwd=repo.path, check=True)
    return ids


def take(baton: Baton, track: str, count: int = 1, **words: Any) -> list[Stored]:
    return [baton.snapshot(f"{track} {n}", track=track, files=False, **words).stored for n in range(count)]


@pytest.mark.deep
def test_every_kind_of_name(repo: Sandbox, baton: Baton) -> None:
    main = take(baton, "main", 3)
    side = take(baton, "side work", 2, set_current=False)
    (ready,) = take(baton, "main", label="v1 ready")
    head = repo.head()
    newest = {"main": ready, "main~": main[2], "main~1": main[2], "main~3": main[0], "main@{0}": ready, "main@{2}": main[1]}
    newest |= {"@": ready, "@~1": main[2], "@{1}": main[2], "side work": side[1], "side work~1": side[0], "v1 ready": ready}
    newest |= {"refs/checkpoints/side%20work": side[1], "refs/baton/tracks/main": ready}
    newest |= {head: ready, head[:12]: ready, "HEAD": ready, "HEAD^{commit}": ready, main[0].id: main[0]}
    newest |= {main[1].id[:12]: main[1], "main@{now}": ready}
    for name, stored in newest.items():
        assert baton.resolve(name).id == stored.id, name


def test_a_time_is_read_by_git(repo: Sandbox, baton: Baton) -> None:
    now = datetime.now(UTC)
    ids = fill(repo, "t", *({"created": now - timedelta(hours=hours)} for hours in (50, 10, 3, 1)))
    for text, wanted in (("2 hours ago", ids[2]), ("yesterday", ids[0]), ("5 minutes ago", ids[3]), ("now", ids[3])):
        assert baton.resolve(f"t@{{{text}}}").id == wanted, text
    assert baton.resolve("t@{" + (now - timedelta(hours=9)).isoformat(timespec="seconds") + "}").id == ids[1]
    with pytest.raises(NotFoundError, match="no checkpoint as old as '1 year ago'"):
        baton.resolve("t@{1 year ago}")
    with pytest.raises(UsageError, match="'blurb' is not a time that git understands"):
        baton.resolve("t@{blurb}")


@pytest.mark.deep
def test_a_turn_is_named_by_its_number(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the words")
    first = Talk(repo, tmp_path / "first.jsonl")
    for number in (1, 2, 3):
        first.ask(f"Write part {number} of it")
        first.edit("x.py", f"{number}\n")
        first.say("Done.")
        first.stop()
    newest = [row["id"] for row in repo.ok("log", "--json").json["checkpoints"]]
    for name in ("turn3", "turn 3", "turn-3", "@{turn3}", "t@{turn 3}", "turn2"):
        assert repo.ok("show", "--json", name).json["checkpoint"]["id"] == newest[3 - int(name.strip("}")[-1])], name
    assert repo.ok("show", "--json", "turn3~1").json["checkpoint"]["id"] == newest[1]
    assert "Write part 3" in repo.ok("revert", "-n", "turn2..turn3").out
    for words in ("show 2", "revert 2", "restore 2", "log 2", "diff 2"):
        done = repo.baton(*words.split())
        assert done.code == 2 and "hint: perhaps 'turn2' is meant\n" in done.err, done.err
    assert "turn" not in repo.baton("show", "9").err
    for words in ("show turn 2", "log turn 2", "restore turn 2", "revert turn 2"):
        done = repo.baton(*words.split())
        assert "there is no checkpoint 'turn'\nhint: a turn is named in one word, as in 'turn2'\n" in done.err, done.err
    done = repo.baton("revert", "turn9")
    assert (done.code, done.err) == (2, "fatal: track 't' has no turn 9\nhint: to list them: git baton log --track t\n")
    other = Talk(repo, tmp_path / "other.jsonl", session="5e551011-0000-4000-8000-000000000002")
    other.ask("something else")
    other.edit("y.py", "new\n")
    other.say("Done.")
    other.stop()
    done = repo.baton("show", "turn1")
    assert done.err.startswith("fatal: 'turn 1' could mean 2 checkpoints\n"), "each session counts its own"
    assert done.err.index("something else") < done.err.index("Write part 1"), "the newest first"
    repo.ok("snapshot", "--track", "u", "labelled so", "--label", "turn1")
    assert repo.ok("show", "--json", "turn1").json["checkpoint"]["step"] == "labelled so"
    repo.ok("tracks", "use", "u")
    assert repo.ok("show", "--json", "t@{turn3}").json["checkpoint"]["id"] == newest[0]


@pytest.mark.deep
@some(
    ("name", "error", "said"),
    [
        ("", UsageError, "empty"),
        ("nothing", NotFoundError, "there is no checkpoint 'nothing'"),
        ("main~2", NotFoundError, "track 'main' has only 2 checkpoints"),
        ("main~999999999", NotFoundError, "track 'main' has only 2 checkpoints"),
        ("main@{7}", NotFoundError, "has only 2"),
        ("ffff", NotFoundError, "'ffff'"),
        ("--output=x", NotFoundError, "no checkpoint"),
        ("a\0b", NotFoundError, "no checkpoint"),
        ("\udcff", NotFoundError, "no checkpoint"),
        ("refs/checkpoints/none", NotFoundError, "no checkpoint"),
        ("refs/heads/main~5", NotFoundError, "no checkpoint"),
        (":/first", NotFoundError, "no checkpoint"),
    ],
    5,
)
def test_names_that_mean_nothing(repo: Sandbox, baton: Baton, name: str, error: type[Exception], said: str) -> None:
    repo.commit("second, with a note")
    take(baton, "main", 2)
    before = sorted(p.name for p in repo.path.iterdir())
    with pytest.raises(error, match=said):
        baton.resolve(name)
    assert sorted(p.name for p in repo.path.iterdir()) == before


def test_at_without_a_current_track(repo: Sandbox, baton: Baton) -> None:
    (only,) = take(baton, "main", set_current=False)
    assert baton.resolve("@") == only
    take(baton, "side", set_current=False)
    for name in ("@", "@~1", "@{1}"):
        with pytest.raises(NotFoundError, match="no track is current"):
            baton.resolve(name)


def ambiguous(baton: Baton, name: str, *candidates: Stored) -> None:
    with pytest.raises(AmbiguousNameError) as caught:
        baton.resolve(name)
    assert caught.value.message == f"'{name}' could mean {len(candidates)} checkpoints"
    lines = {f"{baton.short(s.id)} {s.checkpoint.track}: {s.checkpoint.step}" for s in candidates}
    shown = {f"> {line} (foreign)" for line in lines} if candidates[0].foreign else lines  # what git alone wrote is
    assert set(caught.value.hints) == shown and caught.value.exit_code == 128


def test_a_name_that_means_two_checkpoints_lists_them(repo: Sandbox, baton: Baton) -> None:
    (one,) = take(baton, "v1")
    (two,) = take(baton, "other", label="v1")
    ambiguous(baton, "v1", one, two)
    three, four = take(baton, "twice", 2, label="again")
    ambiguous(baton, "again", three, four)
    assert baton.resolve("refs/checkpoints/v1").id == one.id and baton.resolve(two.id).id == two.id
    take(baton, "other", label="v1~0")
    ambiguous(baton, "v1~0", one, baton.resolve("other"))


@pytest.mark.deep
def test_a_label_or_track_that_looks_like_an_id_or_a_commit(repo: Sandbox, baton: Baton) -> None:
    (one,) = take(baton, "one")
    (two,) = take(baton, "two", label=one.id[:8])
    ambiguous(baton, one.id[:8], one, two)
    assert baton.resolve(one.id).id == one.id
    repo.commit("next")
    (three,) = take(baton, "three", label=repo.head()[:7])
    assert baton.resolve(repo.head()[:7]).id == three.id  # one checkpoint by two ways
    repo.commit("next")
    (four,) = take(baton, repo.head()[:9])
    (five,) = take(baton, "five")
    assert baton.resolve(repo.head()[:9]).id == four.id and baton.resolve(repo.head()).id == five.id


@pytest.mark.deep
def test_an_id_prefix_of_two_is_ambiguous(repo: Sandbox, baton: Baton) -> None:
    ids = fill(repo, "many", *({"step": f"s{n}"} for n in range(800)))
    by_prefix: dict[str, list[str]] = {}
    for oid in ids:
        by_prefix.setdefault(oid[:4], []).append(oid)
    twins = next(group for group in by_prefix.values() if len(group) > 1)
    ambiguous(baton, twins[0][:4], *(baton.resolve(oid) for oid in twins))
    assert baton.resolve(twins[0][:12]).id == twins[0]
    with pytest.raises(NotFoundError):
        baton.resolve(ids[0][:3])


@pytest.mark.deep
def test_a_track_with_a_branchs_name_is_the_track(repo: Sandbox, baton: Baton) -> None:
    mine = take(baton, "main", 2)
    repo.commit("second")
    take(baton, "side", 3)
    assert [baton.resolve(n).id for n in ("main", "main~1")] == [mine[1].id, mine[0].id]
    assert baton.resolve("HEAD").checkpoint.track == "side" and baton.resolve("refs/heads/main~1").id == mine[1].id


def test_a_branch_name_is_no_track_and_no_other_tracks_checkpoint(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "parser", "lexer done")
    id = repo.ok("show", "--json").json["checkpoint"]["id"]
    said = "fatal: there is no track 'main', only a branch of that name\n"
    said += "hint: the track that was last on it: git baton resume parser\n"
    for words in ("resume", "show"):
        done = repo.baton(words, "main")
        assert (done.code, done.out) == (2, "") and done.err.startswith(said), done
        assert "hint: what was taken on its commit: git baton show refs/heads/main\n" in done.err
    for name in ("refs/heads/main", "heads/main", "HEAD", repo.head()):
        assert repo.ok("show", name, "--json").json["checkpoint"]["id"] == id, name


@pytest.mark.deep
def test_a_branch_name_in_every_form_and_every_verb(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "parser", "lexer done")
    repo.commit("next")
    repo.ok("snapshot", "--track", "parser", "tokens done")
    repo.git("branch", "beef", "HEAD~1")
    repo.git("update-ref", "refs/remotes/origin/topic", "HEAD")
    repo.git("tag", "v1")
    assert (
        "step=tokens done\n" in repo.ok("resume", "--porcelain", "v1").out
        and "step=lexer done\n" in repo.ok("resume", "--porcelain", "v1~1").out
    )
    for name in ("main~1", "main^", "main^0", "main@{0}", "main^{commit}", "beef", "origin/topic"):
        done = repo.baton("resume", name)
        assert done.code == 2 and ", only a branch of that name\n" in done.err, name
        line = next(row for row in done.err.splitlines() if "its commit: " in row).partition("its commit: git baton ")[2]
        assert repo.baton(*shlex.split(line)).code == 0, line
    for verb in (
        "verify",
        "log",
        "diff",
        "restore -n",
        "revert -n",
        "pin",
        "branch b",
        "worktree ../w",
        "summary",
        "transcript show",
    ):
        done = repo.baton(*verb.split(), "main")
        assert done.code and done.out == "" and "there is no track 'main', only a branch of that name" in done.err, (verb, done)
    repo.write("main", "a file\n")
    assert "git baton restore -- main\n" in repo.baton("restore", "main").err
    repo.ok("snapshot", "--track", "main", "a track of that name")
    assert "step=a track of that name\n" in repo.ok("resume", "--porcelain", "main").out


def test_an_old_track_called_head_and_heads_commit_are_two_things(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.git("update-ref", "refs/baton/tracks/HEAD", "refs/baton/tracks/t")
    assert "step=one\n" in repo.ok("show", "--porcelain", "HEAD").out, "one checkpoint by two ways"
    repo.ok("snapshot", "--track", "HEAD", "two")
    repo.ok("snapshot", "--track", "t", "three")
    done = repo.baton("show", "HEAD")
    assert done.code == 128 and done.err.startswith("fatal: 'HEAD' could mean 2 checkpoints\n")
    assert " t: three\n" in done.err and " HEAD: two\n" in done.err
    assert (
        "step=two\n" in repo.ok("show", "--porcelain", "refs/checkpoints/HEAD").out
        and "step=two\n" in repo.ok("resume", "--porcelain", "--track", "HEAD").out
    )


def answers(repo: Sandbox, names: list[str]) -> list[tuple[object, ...]]:
    """What each name means, or how it is refused."""
    told: list[tuple[object, ...]] = []
    with repo.open(door="binary") as opened:
        for name in names:
            try:
                found = opened.resolve(name)
                told.append((found.id, found.commit, found.checkpoint.track, found.foreign))
            except BatonError as error:
                told.append((type(error), error.message, error.hints))
    return told


@pytest.mark.deep
def test_facts_that_were_kept_change_no_answer(repo: Sandbox, baton: Baton) -> None:
    kept = repo.path / ".git/baton/facts"
    take(baton, "main", 3)
    repo.commit("next")
    ids = [*fill(repo, "many", *({"step": f"s{n}"} for n in range(1100))), *(s.id for s in take(baton, "side", 2))]
    take(baton, "labelled", label=ids[7][:6])
    take(baton, "renamed", 2, set_current=False)
    old = [s.id for s in baton.store.history("renamed").items]
    repo.ok("tracks", "rename", "renamed", "new")
    repo.git("update-ref", "refs/baton/tracks/twin", "refs/baton/tracks/side")
    repo.git("update-ref", "refs/baton/remotes/hub/tracks/abroad", "refs/baton/tracks/many~150")
    mixed = [repo.head(), repo.head()[:9], "HEAD~1", "0" * 40, "beef", ids[3] + "^", ids[7][:6], old[0][:9], ids[-1][:8]]
    names = ["HEAD", *(oid[:4] for oid in ids[::100]), *ids[::250], *old, *mixed]

    def without() -> list[tuple[object, ...]]:
        told = list[tuple[object, ...]]()
        for name in names:
            kept.unlink(missing_ok=True)
            told += answers(repo, [name])
        return told

    assert without() == answers(repo, names) and kept.exists()
    repo.git("update-ref", "refs/baton/tracks/many", "refs/baton/tracks/many~5")
    repo.git("update-ref", "-d", "refs/baton/remotes/hub/tracks/abroad")
    repo.ok("tracks", "delete", "twin", "--yes")
    take(baton, "side", 2)
    shorter = answers(repo, names)
    assert shorter == without() != []
    whole = kept.read_bytes()
    for damaged in (b"", b"x", whole[:-30], whole.replace(b" ", b"  "), whole.replace(b"facts 3", b"facts 2")):
        kept.write_bytes(damaged)
        assert answers(repo, names) == shorter, damaged[:50]
    kept.write_bytes(whole)
    repo.ok("forget", ids[0], "--yes")
    assert ids[0] not in kept.read_text("ascii")  # what was forgotten is not named there, either


@pytest.mark.deep
def test_an_id_is_found_without_reading_every_record_again(repo: Sandbox) -> None:
    ids, began = fill(repo, "many", *({"step": f"s{n}"} for n in range(1100))), list[Args]()
    for many in (True, False):
        began.clear()
        with repo.open(door="binary") as opened, at("os.posix_spawn", git_called("cat-file"), began.append):
            assert opened.resolve(ids[600][:12]).id == ids[600]
        assert (len(began) > 1) == many  # many objects are worth processes of their own


def test_a_record_that_is_not_canonical_is_found_by_its_label(repo: Sandbox, baton: Baton) -> None:
    take(baton, "main")
    root = repo.git("rev-parse", "refs/baton/tracks/main~1")
    for number, text in enumerate(('"label": "\\u006cike this"', '"label"\t:\n"like this"')):
        raw = encode(checkpoint(label="L", track="odd")).decode().replace('"label": "L"', text)
        commit = repo.git("commit-tree", "-p", root, f"{root}^{{tree}}", stdin=message("x", raw.encode()))
        repo.git("update-ref", "refs/baton/tracks/odd", commit)
        assert baton.resolve("like this").commit == commit, number


@pytest.mark.deep
def test_a_broken_chain_hides_nothing_of_the_others(repo: Sandbox, baton: Baton) -> None:
    (one,) = take(baton, "main", label="L")
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x")
    repo.git("update-ref", "refs/baton/tracks/blob", blob)
    repo.git("update-ref", "refs/baton/tracks/alien", repo.head())
    repo.git("update-ref", "refs/baton/tracks/not%2", repo.head())
    for name in ("main", "L", one.id[:10], "HEAD"):
        assert baton.resolve(name).id == one.id


@pytest.mark.full
def test_names_among_10000_checkpoints(repo: Sandbox) -> None:
    rows = ({"step": f"s{n}", "note": "x" * 100, "label": f"L{n}" if n % 100 == 0 else None} for n in range(10_000))
    ids = fill(repo, "long", *rows)
    with repo.open(door="binary") as baton:
        for name, wanted in (("long", ids[-1]), ("L5000", ids[5000]), ("long~9999", ids[0]), (ids[77], ids[77])):
            assert baton.resolve(name).id == wanted


def test_a_moment_with_a_nul_is_none(repo: Sandbox) -> None:
    with repo.open() as baton:
        baton.snapshot("s", track="t")
        with pytest.raises(UsageError, match="not a time that git understands"):
            baton.resolve("t@{a\0}")


@pytest.mark.full
def test_at_is_what_a_verb_means_without_a_name(repo: Sandbox) -> None:
    """Where no track is current: the only one, and with several none of them."""
    repo.write("a.txt", "two\n")
    repo.ok("snapshot", "--track", "t", "one", "--no-set-current")
    repo.git("worktree", "add", "-q", "../beside")
    beside = Sandbox(repo.path.parent / "beside")
    assert beside.ok("tracks").out.startswith("  t")
    for verb in (["show", "--json"], ["diff", "--stat"], ["restore", "-n"], ["resume"], ["log"], ["verify"]):
        assert beside.baton(*verb, "@") == beside.baton(*verb), verb
    assert beside.ok("restore", "-n", "@").out == "recorded on main; you are on beside\nwould write a.txt\n"
    repo.ok("snapshot", "--track", "u", "two", "--no-set-current")
    for verb in (["show"], ["diff"], ["restore", "-n"]):
        both = [beside.baton(*verb), beside.baton(*verb, "@")]
        assert all(done.code and "no track is current in this work tree" in done.err for done in both), verb


def test_a_caret_is_the_one_before_whatever_stands_before_it(repo: Sandbox, baton: Baton) -> None:
    now = datetime.now(UTC)
    hours = (50, 10, 3, 1)
    rows = [{"created": now - timedelta(hours=h), "label": "ready" if h == 3 else None} for h in hours]
    ids = fill(repo, "main", *rows)
    repo.git("symbolic-ref", "BATON_HEAD", "refs/checkpoints/main")
    wanted = {
        "@^": 2,
        "@^^": 1,
        "@~1^": 1,
        "@^~2": 0,
        "@~1~1": 1,
        "main^": 2,
        "@{1}^": 1,
        "main@{2 hours ago}^": 1,
        "ready^": 1,
    }
    wanted |= {f"{ids[3]}^": 2, f"{ids[2][:8]}^^": 0, f"{ids[3]}~2": 1, "@": 3}
    for name, place in wanted.items():
        assert baton.resolve(name).id == ids[place], name
    assert baton.resolve("@^", "main").id == ids[2]
    for name, said in (
        ("@^^^^", "track 'main' has only 4 checkpoints"),
        ("ready^^^", "'ready' has only 2 checkpoints before it"),
        ("nowhere^", "there is no checkpoint 'nowhere\\^'"),
        ("@^2", "there is no checkpoint '@\\^2'"),
    ):
        with pytest.raises(NotFoundError, match=said):
            baton.resolve(name)


@pytest.mark.deep
def test_while_a_turn_is_open_the_caret_counts_it_as_the_tilde_does(repo: Sandbox) -> None:
    ids = []
    for text in "ab":
        repo.write("a.txt", text)
        repo.ok("snapshot", "--track", "t", text)
        ids.append(repo.ok("show", "t", "--json").json["checkpoint"]["id"])
    client = Client("claude", repo.path)
    client.fire("start")
    client.fire("prompt", prompt="edit it")
    assert repo.ok("show", "@^", "--json").json["checkpoint"]["id"] == ids[0], "it has changed nothing yet"
    repo.write("a.txt", "c")
    for name, wanted in (("@", 1), ("@^", 1), ("@~1", 1), ("@{1}", 1), ("@^^", 0), ("@{1}^", 0), (f"{ids[1]}^", 0)):
        assert repo.ok("show", name, "--json").json["checkpoint"]["id"] == ids[wanted], name


def test_of_a_commit_git_counts_the_parents(repo: Sandbox, baton: Baton) -> None:
    one = take(baton, "t")[0]
    repo.commit("two")
    take(baton, "t", 2)
    assert baton.resolve("HEAD^").id == one.id == baton.resolve(f"{repo.head()[:12]}~1").id
    repo.commit("three")
    repo.commit("four")
    for name in ("HEAD^", "HEAD~9"):
        with pytest.raises(NotFoundError, match="there is no checkpoint 'HEAD"):
            baton.resolve(name)


@pytest.mark.deep
def test_every_verb_knows_the_caret(repo: Sandbox) -> None:
    for n, text in enumerate("abc"):
        repo.write("a.txt", text)
        repo.ok("snapshot", "--track", "t", f"s{n}")
    two = repo.ok("show", "t~1", "--json").json["checkpoint"]["id"]
    assert repo.ok("log", "@^", "-1", "--json").json["checkpoints"][0]["id"] == two
    assert repo.ok("show", "--track", "t", "@^", "--json").json["checkpoint"]["id"] == two
    assert repo.ok("restore", "--track", "t", "@^", "-n").out == "would write a.txt\n"
    for words in (
        ("pin", "@^", "mid"),
        ("diff", "t^"),
        ("resume", "t^"),
        ("branch", "b", "@^"),
        ("summary", "@^..@"),
        ("restore", "@^"),
    ):
        assert repo.baton(*words).code == 0, words
    assert repo.ok("show", "mid", "--json").json["checkpoint"]["id"] == two
    assert (repo.path / "a.txt").read_text() == "b"
    done = repo.baton("pin", "t", "odd^")
    assert done.code == 129 and "that is read as something else" in done.err


@pytest.mark.deep
def test_a_range_is_no_checkpoint_and_says_so(repo: Sandbox) -> None:
    for n in range(3):
        repo.write("a.txt", f"{n}\n")
        repo.ok("snapshot", "--track", "main", f"step {n}")
    for verb in ("log", "show", "resume", "restore", "verify"):
        for first, last in (("main~2", "@"), ("@~2", "@"), ("@~2", "@~1"), ("@~2", "")):
            done = repo.baton(verb, f"{first}..{last}")
            assert done.code == 2 and done.out == "", done
            assert done.err.startswith(f"fatal: '{first}..{last}' is a range, and one checkpoint is to be named\nhint: ")
            assert repo.ok(*shlex.split(done.err.partition("git baton ")[2])).out
        done = repo.baton(verb, "main..other")
        assert done.code == 2 and done.err.startswith("fatal: there is no checkpoint 'other'\n")


@pytest.mark.deep
def test_a_mistyped_track_leads_to_the_one_that_is_meant(repo: Sandbox) -> None:
    for track in ("parser", "agent-1"):
        assert repo.baton("snapshot", "x", "--track", track).err == ""
    for verb in ("show", "log", "diff", "restore"):
        assert "hint: perhaps parser is meant\n" in repo.baton(verb, "paser").err, verb
    assert "hint: perhaps parser is meant\n" in repo.baton("show", "paser~1").err
    repo.ok("pin", "parser", "release")
    for verb in ("show", "restore"):
        assert "hint: perhaps release is meant\n" in repo.baton(verb, "relase").err, verb
    assert repo.baton("snapshot", "x", "--track", "paser").err == "warning: track 'paser' is new; there is 'parser', too\n"
    assert repo.baton("snapshot", "x", "--track", "agent-2").err == "", "one of a numbered row is no mistake"


@pytest.mark.deep
def test_a_commit_is_the_newest_checkpoint_on_it_whatever_took_it(repo: Sandbox) -> None:
    repo.ok("snapshot", "by hand", "--track", "t")
    client = Client("claude", repo.path)
    client.asked("first")
    repo.write("a.txt", "a turn's\n")
    client.fire("turn")
    newest = repo.ok("show", "t", "--json").json["checkpoint"]
    assert newest["kind"] == "auto"
    for name in ("HEAD", repo.head()[:8], "refs/heads/main"):
        assert repo.ok("show", name, "--json").json["checkpoint"]["id"] == newest["id"], name
    repo.ok("restore", "t~1")  # what it kept before stands on that commit, too, and is on no track
    assert repo.ok("show", "HEAD", "--json").json["checkpoint"]["id"] == newest["id"]
    repo.ok("restore", "HEAD")
    assert (repo.path / "a.txt").read_text() == "a turn's\n"
    other = repo.ok("snapshot", "of another", "--track", "side", "--no-set-current", "--json").json["checkpoint"]["id"]
    assert repo.ok("show", "HEAD", "--json").json["checkpoint"]["id"] == newest["id"], "the current track's first"
    repo.ok("tracks", "use", "side")
    assert repo.ok("show", "HEAD", "--json").json["checkpoint"]["id"] == other
    repo.ok("tracks", "use", "t")
    repo.commit("next")
    repo.ok("snapshot", "later", "--track", "t", "--no-files")
    assert repo.ok("show", "HEAD~1", "--json").json["checkpoint"]["id"] == newest["id"], "also below the newest"
    repo.git("tag", "old", "HEAD~1")
    assert repo.ok("show", "old", "--json").json["checkpoint"]["id"] == newest["id"]


@pytest.mark.parametrize("what", ["ref", "commit"])
def test_what_is_shown_of_a_broken_track_has_an_id_that_names_it(repo: Sandbox, what: str) -> None:
    for number in range(2):
        repo.ok("snapshot", "--track", "t", f"step {number}", "--no-files")
    ids = [row["id"] for row in reversed(repo.ok("log", "--json").json["checkpoints"])]
    torn = repo.path / ".git/refs/baton/tracks/t" if what == "ref" else repo.loose(repo.git("rev-parse", "refs/baton/tracks/t"))
    torn.write_bytes(b"")
    shown = repo.ok("resume", "t", "--json").json["checkpoint"]["id"]
    older = ids[0] if what == "ref" else shown
    for oid in (shown, older):
        assert repo.ok("show", oid[:8], "--json").json["checkpoint"]["id"] == oid
