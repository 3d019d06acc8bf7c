"""What the verbs print: lines that parse back, stable columns, and nothing that drives a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from gitbaton.base.codec import plain, timestamp
from gitbaton.base.model import SKIP_REASONS, Checkpoint, Drift, DriftWord, Head, Live, Skipped
from gitbaton.checkpoints.render import (
    age,
    in_shell,
    line,
    porcelain,
    quoted,
    resume_lines,
    skipped_lines,
    title_of,
    validation,
)
from gitbaton.cli.main import call
from tests.kit import Outcome, Sandbox, integer_clock
from tests.kit.checkpoints import CHECKPOINTS, TEXT
from tests.kit.tables import each

Run = Callable[..., Outcome]
EVIL = "first \x1b[31m\x07\nsecond \x9b2J \u202e\u2028 \r\x08 end\x00"
COLUMNS = {
    "status": "# current track id created validation drift step place since",
    "log": "# id track created kind validation label branch head step",
    "tracks": "# current track id created commit",
}


@pytest.fixture
def run(repo: Sandbox, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(repo.path)

    def go(*words: str) -> Outcome:
        capfd.readouterr()
        code = call(list(words))
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return go


def read_lines(text: str) -> list[tuple[str, str]]:
    """The parser that a script would have: ``key=``, and further lines of a value begin with one tab."""
    pairs: list[tuple[str, str]] = []
    for row in text.removesuffix("\n").split("\n"):
        if row.startswith("\t"):
            key, value = pairs.pop()
            pairs.append((key, f"{value}\n{row[1:]}"))
        else:
            key, _, value = row.partition("=")
            pairs.append((key, value))
    return pairs


@pytest.mark.full
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHECKPOINTS)
def test_the_lines_of_resume_parse_back_to_the_same_values(c: Checkpoint) -> None:
    live = Live(head=Head(branch="main", oid="1" * 40), drift=Drift(words=(DriftWord(word="head-ahead:2", sentence="x"),)))
    wanted = [("track", c.track), ("step", c.headline), ("note", c.note), ("validation", validation(c, None))]
    wanted += [("branch", c.branch or "")]
    wanted += [("head", "abc"), ("next_cmd", c.next_cmd), *(("decision", d) for d in c.decisions)]
    wanted += [(f"extra.{key}", value) for key, value in c.extra]
    if c.carried:
        wanted += [("carried", f"{c.carried.id} {timestamp(c.carried.created)}")]
    wanted += [("title", title_of(c))] if c.kind == "auto" else []
    shown = [(key, plain(value, keep="\n\t")) for key, value in wanted]
    assert read_lines("\n".join(resume_lines(c, "abc", None, "")) + "\n") == shown
    tail = [("live_branch", "main"), ("live_head", "def"), ("drift", "head-ahead:2")]
    assert read_lines("\n".join(resume_lines(c, "abc", live, "def"))) == shown + tail


@pytest.mark.deep
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT)
def test_quoted_values_read_back_and_hold_nothing_that_a_line_could_mean(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    if not shown.startswith('"'):
        assert shown == text
        return
    body = shown[1:-1].encode()
    letters = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
    raw = re.sub(rb"\\([0-7]{3}|.)", lambda m: bytes([letters[m[1]] if m[1] in letters else int(m[1], 8)]), body)
    assert raw.decode() == text


def test_quoting_is_gits(repo: Sandbox) -> None:
    for name in ("plain", "sp ace", "tab\there", "nl\nx", 'quo"te', "back\\slash", "bell\x07", "esc\x1b", "del\x7f", "é"):
        repo.write(name, "x")
        assert repo.git("-c", "core.quotePath=false", "ls-files", "-o", "--", f":(literal){name}") == quoted(name)
        (repo.path / name).unlink()
    assert quoted("caf\udce9") == '"caf\\351"'


@each(
    "word, shown",
    [
        ("caf\udce9", "$'caf\\351'"),
        ("a\ud800'b", "$'a\\355\\240\\200\\'b'"),
        ("a\xa0", "$'a\\302\\240'"),
        ("it's", "'it'\"'\"'s'"),
    ],
)
def test_a_word_of_a_command_line_drives_no_terminal(word: str, shown: str) -> None:
    assert in_shell(word) == shown


def test_porcelain_and_z() -> None:
    rows = [("a\tb", "c\nd"), ("", "é")]
    assert porcelain(("x", "y"), rows, nul=False) == '# baton porcelain v1\n# x y\n"a\\tb"\t"c\\nd"\n\té\n'
    assert porcelain(("x", "y"), rows, nul=True) == "# baton porcelain v1\0# x y\0a\tb\0c\nd\0\0é\0"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((-60, "in the future"), (0, "0 seconds ago"), (1, "1 second ago"), (59, "59 seconds ago"), (60, "1 minute ago")),
        *((7200, "2 hours ago"), (86_400, "1 day ago"), (1_300_000, "2 weeks ago"), (9_000_000, "3 months ago")),
    ],
)
def test_age(seconds: int, said: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == said


def test_line_is_the_first_that_is_not_blank() -> None:
    assert line("\n  \n one\x1b \ntwo") == "one?" and line("") == ""


@pytest.mark.deep
def test_resume_order_live_and_drift(repo: Sandbox, run: Run) -> None:
    head = repo.head()
    run(
        "snapshot",
        "--track",
        "main",
        "--step",
        "s\nt",
        "--decision",
        "d1",
        "--decision",
        "d2",
        "--extra",
        "z=1",
        "--extra",
        "a=2",
    )
    repo.commit("more")
    plain_keys = [
        "track",
        "step",
        "note",
        "validation",
        "branch",
        "head",
        "next_cmd",
        "decision",
        "decision.1",
        "decision",
        "decision.2",
        "extra.z",
        "extra.a",
    ]
    done = run("resume", "--porcelain")
    assert [k for k, _ in read_lines(done.out)] == plain_keys and done.err == ""
    assert dict(read_lines(done.out))["step"] == "s\nt" and head.startswith(dict(read_lines(done.out))["head"])
    check_live(repo, run, plain_keys)


def check_live(repo: Sandbox, run: Run, plain_keys: list[str]) -> None:
    done = run("resume", "--porcelain", "--live")
    found = dict(read_lines(done.out))
    assert [k for k, _ in read_lines(done.out)] == [*plain_keys, "live_branch", "live_head", "drift"]
    assert found["drift"] == "head-ahead:1" and repo.head().startswith(found["live_head"]) and found["live_branch"] == "main"
    assert re.fullmatch(r"HEAD \w+ is 1 commit ahead of the checkpoint's commit \w+\n", done.err)
    exact = json.loads(run("resume", "--live", "--json").out)
    assert exact["v"] == 1 and exact["live"] == {
        "branch": "main",
        "head": repo.head(),
        "drift": ["head-ahead:1"],
        "moved": True,
        "files_changed": 0,
        "since": {"turns": 0, "files_changed": 0, "commits": 1, "gone": 0, "stale": False},
    }
    assert exact["checkpoint"]["step"] == "s\nt" and exact["warnings"] == []


@pytest.mark.deep
def test_resume_without_a_track(repo: Sandbox, run: Run) -> None:
    none = run("resume")
    assert none.code == 0 and none.out.startswith("No checkpoints here yet.\n")
    run("snapshot", "--track", "one", "--step", "s", "--no-set-current")
    assert run("resume", "--porcelain").out.startswith("track=one\n")
    run("snapshot", "--track", "two", "--step", "s", "--no-set-current")
    several = run("resume")
    assert several.code == 128 and several.out == ""
    assert several.err.splitlines()[1:] == ["hint: the tracks are 'one', 'two'"]
    assert run("tracks", "use", "two").code == 0
    assert run("resume", "--porcelain").out.startswith("track=two\n")
    assert run("resume", "--porcelain", "--track", "one").out.startswith("track=one\n")
    missing = run("resume", "--track", "three")
    assert missing.code == 2 and missing.err.startswith("fatal: there is no track 'three'\n")
    assert (
        run("tracks", "use", "three").code == 2
        and run("log", "three").code == 2
        and run("verify", "--track", "three").code == 2
    )


@pytest.mark.deep
def test_verify_codes_strict_quiet_json(repo: Sandbox, run: Run) -> None:
    assert run("verify").code == 2
    run("snapshot", "--track", "main", "--step", "s")
    assert run("verify") == Outcome(0, "", "")
    assert json.loads(run("verify", "--json").out)["facts"] == []
    (repo.path / ".git/MERGE_HEAD").write_text(repo.head() + "\n")
    done = run("verify")
    assert done.code == 0 and done.out == "operation:merge: a merge is in progress\n"
    assert run("verify", "--strict").code == 1 and run("verify", "--strict", "--quiet") == Outcome(1, "", "")
    (repo.path / ".git/MERGE_HEAD").unlink()
    repo.git("checkout", "-q", "-b", "other")
    repo.commit("more")
    done = run("verify")
    assert done.code == 1 and [row.split(": ")[0] for row in done.out.splitlines()] == ["branch-switched", "head-ahead:1"]
    assert run("verify", "--quiet") == Outcome(1, "", "")
    found = json.loads(run("verify", "--json").out)
    assert (
        list(found) == ["v", "track", "id", "live", "facts"] and [f["word"] for f in found["facts"]] == found["live"]["drift"]
    )


@pytest.fixture
def three(repo: Sandbox) -> list[str]:
    """Three tracks, oldest first; ids by age."""
    with repo.open(clock=integer_clock()) as baton:
        return [baton.snapshot(f"step\t{n}", track=f"t {n}", files=False).stored.id for n in range(3)]


@pytest.mark.deep
def test_lists_are_newest_first_and_stable(repo: Sandbox, run: Run, three: list[str]) -> None:
    for verb in ("status", "tracks", "log"):
        words = [verb, *(["--all"] if verb == "log" else [])]
        rows = run(*words, "--porcelain").out.splitlines()
        assert rows[:2] == ["# baton porcelain v1", COLUMNS[verb]]
        names = COLUMNS[verb][2:].split(" ")
        cells = [dict(zip(names, row.split("\t"), strict=True)) for row in rows[2:]]
        assert [c["id"] for c in cells] == three[::-1] and [c["track"] for c in cells] == ["t 2", "t 1", "t 0"]
        if "current" in names:
            assert [c["current"] for c in cells] == ["*", "", ""]
        if "step" in names:
            assert cells[0]["step"] == '"step\\t2"'
        raw = run(*words, "-z").out.split("\0")
        assert raw[0] == rows[0] and raw[-1] == "" and (len(raw) - 3) == 3 * len(names)
        assert ("step\t2" in raw) == ("step" in names)
        found = json.loads(run(*words, "--json").out)
        assert found["v"] == 1
        listed = found["checkpoints"] if verb == "log" else [t["checkpoint"] for t in found["tracks"]]
        assert [c["id"] for c in listed] == three[::-1]
        text = run(*words)
        assert [text.out.index(f"t {n}") for n in (2, 1, 0)] == sorted(text.out.index(f"t {n}") for n in (2, 1, 0))
    assert run("status").out.splitlines()[1].startswith("* t 2  ") and "  = home  step?2\n" in run("status").out


@pytest.mark.deep
def test_log_options(repo: Sandbox, run: Run) -> None:
    assert run("log") == run("log", "--all") and "No checkpoints here yet." in run("log").out
    for number in range(4):
        run("snapshot", "--track", "main", "--step", f"s{number}", *(["--label", "v1"] if number == 2 else []))
    run("snapshot", "--track", "side", "--step", "x", "--no-set-current")
    steps = [row.split("s", 1)[1] for row in run("log").out.splitlines()]
    assert len(steps) == 4 and "[v1]" in run("log").out
    assert len(run("log", "-n", "2").out.splitlines()) == 2 and run("log", "-n", "0").out == ""
    assert len(run("log", "--all", "-n", "3").out.splitlines()) == 3 and "  side  " in run("log", "--all").out
    assert len(run("log", "side").out.splitlines()) == 1


@pytest.mark.deep
def test_no_stored_text_drives_a_terminal(repo: Sandbox, run: Run) -> None:
    with repo.open() as baton:
        words = {
            "note": EVIL,
            "next_cmd": " ".join(EVIL.splitlines()),
            "decisions": [EVIL],
            "label": EVIL,
            "extra": {"k": EVIL},
        }
        stored = baton.snapshot(EVIL, track="main", **words).stored
    repo.git("checkout", "-q", "-b", "b\u202e")
    repo.commit("more")
    run("snapshot", "--track", "main", "--step", EVIL)
    repo.git("checkout", "-q", "main")
    listed = [
        ("resume", "--live"),
        ("verify",),
        ("status",),
        ("log",),
        ("log", "--all"),
        ("show",),
        ("show", stored.id),
        ("tracks",),
    ]
    listed += [("show", EVIL[:-1]), ("show", "\x1b[2J"), ("resume", "--track", "x\x1b"), ("log", "\x9b"), ("tracks", EVIL[:-1])]
    listed += [(verb, "--porcelain") for verb in ("status", "log", "tracks")] + [
        (verb, "--json") for verb in ("status", "log", "show")
    ]
    listed += [
        ("snapshot", "--track", "main", "--step", EVIL[:-1]),
        ("snapshot", "--track", "main", "--step", EVIL[:-1], "--dry-run"),
    ]
    for argv in listed:
        done = run(*argv)
        assert done.out + done.err and all(c.isprintable() or c in "\n\t" for c in done.out + done.err), argv


@pytest.mark.deep
def test_show_says_everything(repo: Sandbox, run: Run) -> None:
    repo.write("b.txt", "new")
    run("snapshot", "--track", "main", "--step", "one", "--label", "L", "--note", "n")
    found = dict(read_lines("x=" + run("show", "--porcelain").out))
    oid = repo.git("rev-parse", "refs/checkpoints/main")
    assert found["x"] == f"checkpoint {oid}"
    assert (found["kind"], found["label"], found["track"], found["note"], found["changed"]) == ("manual", "L", "main", "n", "1")
    assert found["commit"] == repo.git("rev-parse", "refs/baton/tracks/main") and found["base"] == repo.head() == found["head"]
    assert found["files"] == repo.git("rev-parse", "refs/baton/tracks/main^{tree}")
    assert json.loads(run("show", "--json").out)["checkpoint"]["id"] == oid


def test_why_a_path_is_left_out_is_said_in_words() -> None:
    said = skipped_lines([Skipped(path="a b", reason=reason) for reason in SKIP_REASONS], verbose=True)
    assert len(set(said)) == len(SKIP_REASONS) and all(row.startswith(("'a b' is ", "'a b' did not pass ")) for row in said)
    assert not [reason for reason in SKIP_REASONS if any(row.endswith(f": {reason}") for row in said)]
