"""git baton log takes what git log takes, over checkpoints: one scripted history, with git's own log as the judge."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.base import model
from gitbaton.base.model import Agent, Observed, Prompt
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Request
from gitbaton.checkpoints.restore import Order, apply, open_plan
from gitbaton.checkpoints.store.selection import Expression
from tests.kit import Sandbox
from tests.kit.manytracks import many_tracks, track
from tests.kit.places import ROOT
from tests.kit.tables import each
from tests.verbs.test_retention import filled
from tests.verbs.test_tty import on_terminal

CHAIN = "refs/baton/tracks/t"
NOW = datetime.now(UTC).replace(microsecond=0)


def ago(minutes: int) -> str:
    """A moment of the history, however long the tests before it take."""
    return (NOW - timedelta(minutes=minutes)).isoformat()


HUMAN, CLAUDE, CODEX = None, Agent(name="claude"), Agent(name="codex")

# minutes ago, kind, agent, step, other words, files written
HISTORY: tuple[tuple[int, str, Agent | None, str, dict[str, Any], dict[str, str]], ...] = (
    (
        300,
        "manual",
        HUMAN,
        "lexer (first)",
        {"note": "keeps offsets\nand a.c", "next_cmd": "pytest -x"},
        {"src/lex.py": "lex\n"},
    ),
    (240, "auto", CLAUDE, "turn ended (auto)", {}, {}),
    (180, "auto", CLAUDE, "turn ended (auto)", {}, {"src/lex.py": "lex\nneedle\n"}),
    (120, "manual", CODEX, "Docs", {"decisions": ("keep a|b",), "label": "v1"}, {"docs/a b.md": "needle needle\n"}),
    (60, "auto", CODEX, "turn ended (auto)", {}, {"src/lex.py": "lexed\n"}),
    (30, "manual", HUMAN, "last", {"note": "needle"}, {"src/lex.py": "lexed\nmore\n"}),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Track ``t`` with the history above, its steps numbered from the oldest, and a track ``u`` beside it."""
    box = Sandbox.begun(tmp_path_factory.mktemp("log") / "r")
    box.git("config", "user.name", "A")
    box.git("config", "user.email", "a@example.com")
    box.write("src/lex.py", "before\n")
    box.git("add", "-A")
    box.git("commit", "-qm", "before")
    moment = NOW
    with box.open(clock=lambda: moment) as baton:
        for ago, kind, agent, step, words, files in HISTORY:
            moment = NOW - timedelta(minutes=ago)
            for name, text in files.items():
                box.write(name, text)
            baton.snapshot(step, track="t", kind=kind, agent=agent, **words)
        moment = NOW - timedelta(minutes=90)
        box.write("src/lex.py", "elsewhere needle\n")
        baton.snapshot("beside", track="u", set_current=False)
        box.write("src/lex.py", "lexed\nmore\n")
    return box


def listed(box: Sandbox, *words: str, cwd: Path | None = None) -> list[str]:
    """The numbers of the checkpoints that are listed, newest first; of track ``u`` its name."""
    done = box.baton("log", "--json", *words, cwd=cwd)
    assert (done.code, done.err) == (0, ""), done
    times = {NOW - timedelta(minutes=row[0]): str(number) for number, row in enumerate(HISTORY, 1)}
    found = [(row["track"], datetime.fromisoformat(row["created"])) for row in json.loads(done.out)["checkpoints"]]
    return [times[created] if track == "t" else track for track, created in found]


def judged(box: Sandbox, *words: str, paths: tuple[str, ...] = ()) -> list[str]:
    """The numbers that git's own log lists of the chain, without its root."""
    every = box.git("rev-list", "--first-parent", "--reverse", CHAIN).splitlines()
    form = ("--first-parent", "--diff-merges=first-parent", "-s", "--format=%H")
    rows = box.git("log", *form, *words, CHAIN, "--", *paths)
    return [str(every.index(oid)) for oid in rows.splitlines() if oid != every[0]]


@pytest.mark.deep
@each(
    "words, wanted",
    [
        ((), "654321"),
        (("--since", "170 minutes ago"), "654"),
        ((f"--after={ago(150)}", "--before", ago(45)), "54"),
        (("--until", ago(120)), "4321"),
        (("--since", ago(120)), "654"),
        (("--kind", "manual"), "641"),
        (("--kind", "auto", "-1"), "5"),
        (("--kind", "manual", "--kind", "auto", "-n", "2"), "65"),
        (("--kind", "safety"), ""),
        (("--agent", "claude"), "32"),
        (("--agent", "codex", "--kind", "auto"), "5"),
        (("--agent", "claud"), ""),
        (("--grep", "needle"), "6"),
        (("--grep", "offsets"), "1"),  # which later ones carry along, and did not write
        (("--grep", "^and a.c$"), "1"),
        (("--grep", "pytest -x"), "1"),
        (("--grep", "docs"), ""),
        (("--grep", "docs", "-i"), "4"),
        (("--grep", "a|b"), "4"),
        (("--grep", "(first)"), "1"),
        (("-E", "--grep", "(first|Docs)$"), "4"),
        (("-F", "--grep", "a.c", "--grep", "v1"), "41"),
        (("--grep", r"\(first\|^last\)"), "61"),
        (("--grep", "turn ended"), "532"),
        (("t", "--", "src"), "6531"),
        (("src/lex.py",), "6531"),
        (("t", "src/lex.py", "-2"), "65"),
        (("--", "docs/*.md"), "4"),
        (("--", ":(exclude)src"), "4"),
        (("--", "a.txt"), ""),
        (("-S", "needle"), "543"),
        (("-S", "needle", "--", "src"), "53"),
        (("-Sneedle", "--kind", "manual"), "4"),
        (("--all", "-S", "needle", "-2"), "5u"),
        (("--all", "--since", ago(100), "--", "src"), "65u"),
        (("t~2", "--kind", "manual"), "41"),
        (("v1", "-1", "--agent", "claude"), "3"),
    ],
)
def test_what_is_listed(made: Sandbox, words: tuple[str, ...], wanted: str) -> None:
    assert "".join(listed(made, *words)) == wanted
    rows = made.ok("log", "--porcelain", *words).out.splitlines()
    assert len([row for row in rows if not row.startswith("#")]) == len(wanted)


@pytest.mark.deep
@each(
    "words",
    [
        (),
        ("--since=110 minutes ago",),
        ("--until=110 minutes ago",),
        ("-Sneedle",),
        ("-Slexed",),
        ("-Smore", "-1"),
    ],
)
def test_git_says_the_same_of_the_chain(made: Sandbox, words: tuple[str, ...]) -> None:
    assert listed(made, *words) == judged(made, *words) != []


@pytest.mark.deep
@each("spec", ["src", "docs", "*.md", ":(icase)SRC/LEX.PY", ":!src", "nowhere"])
def test_git_says_the_same_of_paths(made: Sandbox, spec: str) -> None:
    """But for the first checkpoint: git compares it with nothing, and we with its HEAD."""
    theirs = [number for number in judged(made, paths=(spec,)) if number != "1"]
    assert [number for number in listed(made, "--", spec) if number != "1"] == theirs


@pytest.mark.deep
def test_a_path_is_seen_from_the_current_directory(made: Sandbox) -> None:
    assert listed(made, "--", "lex.py", cwd=made.path / "src") == list("6531")
    assert listed(made, "lex.py", "-1", cwd=made.path / "src") == ["6"]
    done = made.baton("--repo-root", str(made.path / "src"), "log", "--json", "--", "lex.py", cwd=made.path.parent)
    assert len(done.json["checkpoints"]) == 4


@pytest.mark.deep
def test_no_git_setting_changes_what_is_listed(made: Sandbox) -> None:
    names = ("log.follow", "log.showSignature", "diff.relative", "diff.noprefix", "diff.mnemonicPrefix")
    odd = {f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(names)} | {f"GIT_CONFIG_VALUE_{n}": "true" for n in range(5)}
    for words in (("--", "src/lex.py"), ("-S", "needle"), ("--since", ago(150))):
        done = made.baton("log", "--porcelain", *words, env={**odd, "GIT_CONFIG_COUNT": "5"})
        assert (done.out, done.err) == (made.ok("log", "--porcelain", *words).out, "")


@pytest.mark.full
@each(
    "options, paths",
    [
        (("--stat",), ()),
        (("-p",), ()),
        (("--stat", "-p"), ()),
        (("-p",), ("src",)),
        (("-p", "-Sneedle"), ()),
        (("--stat", "-3"), ()),
    ],
)
def test_what_changed_is_shown_as_git_log_shows_it(made: Sandbox, options: tuple[str, ...], paths: tuple[str, ...]) -> None:
    """Of the first checkpoint as git diff does, against its HEAD; in batches; with the user's settings and colours."""
    odd = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "diff.noprefix", "GIT_CONFIG_VALUE_0": "true", "COLUMNS": "50"}
    odd |= {"GIT_CONFIG_KEY_1": "color.diff.new", "GIT_CONFIG_VALUE_1": "blue"}
    shown = [option for option in options if option != "-3"]
    for env in ({"COLUMNS": "80"}, odd):
        wanted = ""
        asked = [*(o for o in options if o not in ("--stat", "-p")), "--", *paths]
        rows = made.ok("--color", "log", "--no-fold", *asked, env=env).out.splitlines()
        for number, row in zip(listed(made, *asked), rows, strict=True):
            log = ("log", "-1", "--format=", "--diff-merges=first-parent", f"{CHAIN}~{6 - int(number)}")
            words = log if number != "1" else ("diff", "HEAD", f"{CHAIN}~5")
            changed = made.git(words[0], "--color=always", *words[1:], *shown, "--", *paths, env=env).strip("\n")
            wanted += f"{row}\n" + (f"\n{changed}\n\n" if changed else "")
        done = made.baton("--color", "log", "--no-fold", *options, "--", *paths, env=env)
        assert (done.code, done.err, done.out) == (0, "", wanted)


def test_what_changed_is_asked_of_git_in_parts(repo: Sandbox) -> None:
    """Of 16 checkpoints at first."""
    filled(repo, 40)

    def changes(text: str) -> list[str]:
        return [row for row in text.splitlines() if row.startswith(("diff --git", "+", "-"))]

    wanted = changes(repo.git("log", "--first-parent", "--diff-merges=first-parent", "-p", "--format=", f"{CHAIN}~39..{CHAIN}"))
    assert changes(repo.ok("log", "t", "-p").out)[: len(wanted)] == wanted and wanted


@pytest.mark.deep
def test_what_changed_goes_through_the_pager_byte_for_byte(made: Sandbox) -> None:
    made.write("bytes", b"caf\xe9 \xff\n")
    made.ok("snapshot", "--track", "bytes", "--no-set-current", "bytes")
    (made.path / "bytes").unlink()
    locale = "C" if str(ROOT).isascii() else "C.UTF-8"  # in the first one Python 3.11.2 cannot read where it finds us
    shown = on_terminal(made, "log", "bytes", "-p", env={"GIT_PAGER": "od -c | sed 's/^/paged: /'", "LC_ALL": locale})[1]
    assert "paged:" in shown and "351" in shown and "377" in shown


@pytest.mark.deep
def test_today_is_since_midnight(made: Sandbox) -> None:
    assert listed(made, "--since", "today") == listed(made, "--since", "midnight")
    assert made.baton("log", "@{today}").code == made.baton("log", "@{midnight}").code


@pytest.mark.deep
@each(
    "words, code, said",
    [
        (("--since", "blurb"), 129, "'blurb' is not a time that git understands"),
        (("--kind", "odd"), 129, "--kind is 'odd'; it can be 'manual', 'auto', 'safety' or 'imported'"),
        (("-S", ""), 129, "-S has nothing to look for"),
        (("--grep", r"\(a"), 129, r"'\(a' is not a regular expression"),
        (("-E", "-F", "--grep", "a"), 129, "-E and --fixed-strings exclude each other"),
        (("--", ":(odd)x"), 128, "Invalid pathspec magic 'odd'"),
        (("--all", "--", ":(odd)x"), 128, "Invalid pathspec magic 'odd'"),
        (("t", "nowhere.py"), 2, "there is no path 'nowhere.py'"),
        (("--stat", "--json"), 129, "--stat and --json exclude each other"),
        (("-p", "-z"), 129, "-p and --porcelain exclude each other"),
        (("nowhere.py",), 2, "there is no checkpoint 'nowhere.py'"),
    ],
)
def test_what_cannot_be_meant(made: Sandbox, words: tuple[str, ...], code: int, said: str) -> None:
    done = made.baton("log", *words)
    assert (done.code, done.out) == (code, "") and said in done.err.splitlines()[0], done


@pytest.mark.deep
def test_a_limited_list_begins_with_the_newest_restore(repo: Sandbox) -> None:
    for text in ("one", "two"):
        repo.write("a.txt", text)
        repo.ok("snapshot", text, "--track", "t")
    repo.ok("restore", "t~1")
    first = repo.ok("log").out.splitlines()[0].split()
    assert "restored" in first
    for words in (["-n", "1"], ["-2"], ["t", "-2"], ["t"]):
        assert repo.ok("log", *words).out.splitlines()[0].split() == first, words


@pytest.mark.full
def test_a_limited_list_looks_back_as_far_as_it_must(repo: Sandbox) -> None:
    """It begins with the newest 500."""
    repo.write("src", "needle\n")
    many_tracks(repo.path, 1, depth=600)
    for words in (("--", "src"), ("-S", "needle"), ("--grep", "step 0 of"), ("--until", "2026-01-01T00:00:00Z")):
        whole = repo.here("log", track(0), "--json", *words).json["checkpoints"]
        assert [row["step"] for row in whole] == ["step 0 of agent 0"]
        for count in range(3):
            found = repo.here("log", track(0), "--json", f"-n{count}", *words).json["checkpoints"]
            assert found == whole[:count], words


def test_a_shallow_chain_is_listed(made: Sandbox, tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "shallow")
    box.git("fetch", "-q", "--depth=3", f"file://{made.path}", f"{CHAIN}:{CHAIN}")
    listed = box.ok("log", "t", "--json", "--grep", ".").json["checkpoints"]
    assert [row["step"] for row in listed] == ["last", "turn ended (auto)", "Docs"]
    assert box.ok("log", "t", "--json", "--", "src").json["checkpoints"] == listed[:2]


@pytest.mark.deep
def test_a_pattern_is_looked_for_in_the_prompt_of_the_turn_that_it_began(repo: Sandbox) -> None:
    asked = [Prompt(text=text, at=NOW) for text in ("make half round", "now the message")]
    with repo.open() as baton:
        for count, text in enumerate(("one\n", "two\n"), 1):
            repo.write("a.txt", text)
            plan = baton.plan(Request(step="turn ended (auto)", track="t", kind="auto"))
            seen = replace(plan.draft.checkpoint, observed=Observed(asked=tuple(asked[:count]), turns=count))
            baton.apply(replace(plan, draft=replace(plan.draft, checkpoint=seen)))
    found = [len(repo.ok("log", "t", "--json", "--grep", word).json["checkpoints"]) for word in ("half", "message", "m")]
    assert found == [1, 1, 2]


@pytest.mark.full
def test_a_restore_is_among_the_safety_checkpoints(repo: Sandbox) -> None:
    for text in ("one\n", "two\n"):
        repo.write("a.txt", text)
        repo.ok("snapshot", "--track", "t", "--step", text.strip())
    repo.ok("restore", "t~1")
    assert [row["kind"] for row in repo.ok("log", "--kind", "safety", "--json").json["checkpoints"]] == ["safety"]
    both = repo.ok("log", "--all", "--kind", "safety", "--kind", "manual", "--json").json["checkpoints"]
    assert [row["kind"] for row in both] == ["safety", "manual", "manual"]
    assert repo.ok("log", "t~1", "--kind", "safety", "--json").json["checkpoints"] == []


@pytest.mark.deep
def test_a_torn_chain_is_listed_as_far_as_it_can_be_read(repo: Sandbox) -> None:
    for text in ("one\n", "two\n", "three\n"):
        repo.write("a.txt", text)
        repo.ok("snapshot", "--track", "t", "--step", f"step {text.strip()}")
    repo.loose(repo.git("rev-parse", "refs/baton/tracks/t~2")).unlink()
    done = repo.baton("log", "--json", "--grep", "t[wh]")
    assert [row["step"] for row in done.json["checkpoints"]] == ["step three", "step two"]
    assert done.err.startswith("warning: ") and "cannot be read" in done.err
    assert [row["step"] for row in repo.baton("log", "--json", "-1", "--", "a.txt").json["checkpoints"]] == ["step three"]


TEXTS = (
    *("foo", "foo(bar)", "a+b", "a|b", "aab", "ab", "x*y", "*star", "^hat", "a^b", "cost$", "$5 a", "a]b", "a\\b", "Foo Bar"),
    *("tab\there", "a{2}", "aa", "under_score", "1.5", "(", "[x]", "-", "é", "word boundary", "ba", "b", "a.c", "abc"),
)
PATTERNS = (
    *("foo", "foo(bar)", "a+b", r"a\+b", "a|b", r"a\|b", "x*y", "a*b", "*star", "^hat", r"^\*", "a^b", "cost$", "$5", "a]b"),
    *(r"a\\b", r"\<bound", "aa*b", r"a\{2\}", "a{2}", "[]x]", "[^]x]", r"[a-c]\{2\}", "a.c", r"a\.c", r"\(a\)\1", "^", "."),
    *(r"\(foo\)(bar)", r"[\]", "[[]", "[.]", "$", "[[:space:]]here", r"\w_\w", r"a\?b", "^a*b$", r"x\*y", "(a|b)", "(a)b"),
    *("a++b", "(a|aa)+$", "[[:alpha:]]b", "a**", "(?i)FOO"),
    *("a(b|])", r"\(^a\|^b\)", "é", "[é]", "^*star", "a{1,2}", r"\bword", "[[:digit:].]", "[^[:digit:]a-z]"),
)


@pytest.mark.full
@each("form, flag", [("basic", ()), ("extended", ("-E",)), ("fixed", ("-F",))])
def test_a_pattern_matches_what_git_log_finds(repo: Sandbox, form: str, flag: tuple[str, ...]) -> None:
    if not repo.try_git("rev-parse", "-q", "--verify", "refs/heads/words").out:
        tree = repo.git("rev-parse", "HEAD^{tree}")
        who = "committer A <a@b> 0 +0000\n"
        rows = (f'commit refs/heads/words\n{who}data {len(t.encode())}\n{t}\nM 040000 {tree} ""\n\n' for t in TEXTS)
        subprocess.run(["git", "fast-import", "--quiet"], input="".join(rows).encode(), cwd=repo.path, check=True)
    for pattern in PATTERNS:
        theirs = repo.try_git("log", "--format=%s", *flag, f"--grep={pattern}", "words")
        if theirs.code == 0:  # a star after nothing is an error of an extended one
            found = Expression(pattern, form)
            assert {t for t in TEXTS if found.search(t)} == set(theirs.out.splitlines()), pattern


def observing(box: Sandbox, track: str, step: str, asked: str, turns: int, ran: str | None, at: datetime, text: str) -> None:
    """A checkpoint that a hook takes at the end of a turn, with what the client's records tell of it."""
    box.write("a.txt", text)
    with box.open(clock=lambda: at) as baton:
        plan = baton.plan(Request(step=step, track=track, kind="auto"))
        draft = plan.draft
        tests = (model.TestRun(command="pytest -q", result=ran, ended=at, tree=draft.tree),) if ran else ()
        seen = Observed(asked=(Prompt(text=asked, at=at),), turns=turns, tests=tests)
        baton.apply(replace(plan, draft=replace(draft, checkpoint=replace(draft.checkpoint, observed=seen))))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Track ``parser``: two manual checkpoints, turns with and without an edit, a restore; and a clone that fetched it."""
    box = Sandbox.begun(tmp_path_factory.mktemp("told") / "r")
    for name, text in (("user.name", "A"), ("user.email", "a@example.com"), ("core.abbrev", "8")):
        box.git("config", name, text)

    begun = datetime.now(UTC) - timedelta(seconds=5)

    def ago(minutes: int) -> datetime:
        return begun - timedelta(minutes=minutes)

    with box.open(clock=lambda: ago(130)) as baton:
        box.write("a.txt", "before\n")
        baton.snapshot("before the rewrite", track="parser", validation="failed")
    with box.open(clock=lambda: ago(125)) as baton:
        box.write("a.txt", "lexer\n")
        baton.snapshot("lexer done; tokens carry positions", track="parser", validation="green", label="first light")
    turns: list[tuple[str, str | None, str]] = [
        ("what is a token?", None, "lexer\n"),
        ("and where?", None, "lexer\n"),
        ("good", None, "lexer\n"),
    ]
    turns += [("make half() round to even", "passed", "half\n"), ("does it?", None, "half\n")]
    turns += [("now the error messages \u6f22\u5b57", "failed", "errors\n"), ("why?", None, "errors\n")]
    for number, (asked, ran, text) in enumerate(turns, 1):
        observing(box, "parser", "turn ended (auto)", asked, number, ran, ago(65 - 9 * number), text)
    with box.open(clock=lambda: ago(70)) as baton, open_plan(baton, "restore", Order(checkpoint="parser~8")) as plan:
        apply(plan)
    box.write("a.txt", "errors\n")
    box.ok("pin", "parser~6")
    return box


def screen(box: Sandbox, *words: str, columns: int | None = None) -> list[str]:
    """The lines of a list, its ids by their places in the track."""
    done = box.ok("log", *words, env={"COLUMNS": str(columns)} if columns else {})
    ids = [row["id"][:8] for row in box.ok("log", "--all", "--json").json["checkpoints"]]
    return [re.sub(r"\b[0-9a-f]{8}\b", lambda m: f"{ids.index(m[0])}" * 8, row) for row in done.out.splitlines()]


WIDE = """\
00000000  .   2m  . -       0 files  turn 7  why?
11111111  .  11m  x failed   1 file  turn 6  now the error messages \u6f22\u5b57
22222222  .  20m  . -       0 files  turn 5  does it?
33333333  .  29m  + passed   1 file  turn 4  make half() round to even
                                     (2 turns without an edit)
66666666  .  56m  . -       0 files  (pinned) turn 1  what is a token?
          <   1h                     restored 88888888: before the rewrite
77777777  o   2h  + green    1 file  [first light] lexer done; tokens carry positions
88888888  o   2h  x failed   1 file  before the rewrite
"""
NARROW = """\
00000000  .   2m  . -       turn 7  why?
11111111  .  11m  x failed  turn 6  now the error messages\u2026
22222222  .  20m  . -       turn 5  does it?
33333333  .  29m  + passed  turn 4  make half() round to ev\u2026
                            (2 turns without an edit)
66666666  .  56m  . -       (pinned) turn 1  what is a toke\u2026
          <   1h            restored 88888888: before the r\u2026
77777777  o   2h  + green   [first light] lexer done; token\u2026
88888888  o   2h  x failed  before the rewrite
"""
MINUTES = r" \d\d?m(?= )"
GOLDEN = {0: WIDE, 200: WIDE, 120: WIDE, 80: WIDE.replace("positions", "pos\u2026"), 60: NARROW}


@pytest.mark.deep
def test_undos_and_redos_that_follow_each_other_are_one_line(repo: Sandbox) -> None:
    for n in ("1", "2"):
        repo.write("a.txt", n)
        repo.ok("snapshot", "--track", "t", f"step {n}")
    repo.ok("restore", "t~1")
    repo.ok("undo")

    def rows(*words: str) -> list[str]:
        return [row.split(maxsplit=2)[2] for row in repo.ok("log", *words).out.splitlines() if row.strip()]

    (undone,) = rows()[:-2]
    assert undone.startswith("(undone) restored ") and undone.endswith(": step 1")
    repo.ok("redo")
    holds = undone.removeprefix("(undone) ")
    assert rows()[:-2] == [holds], "what holds now"
    repo.ok("undo")
    repo.ok("restore", "t~1", "--index")
    assert rows()[:-2] == [holds, undone] and len(rows("--no-fold")) == 7, "each restore is a line"
    repo.ok("snapshot", "--track", "t", "step 3")
    repo.ok("undo")
    shown = rows()
    assert shown[0].startswith("undo of restore of ") and shown[2:4] == [undone, undone], "a checkpoint lies between"
    assert [len(rows(f"-{many}")) for many in range(6)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.full
@pytest.mark.parametrize("columns", GOLDEN)
def test_the_screen(told: Sandbox, columns: int) -> None:
    shown = "\n".join([*screen(told, columns=columns), ""])
    assert re.sub(MINUTES, "m", shown) == re.sub(MINUTES, "m", GOLDEN[columns]), "minutes may pass meanwhile"


@pytest.mark.deep
@each(
    "words, rows",
    [
        (("-1",), "0"),
        (("-4",), "0123"),
        (("-5",), "0123(6"),  # a line of turns is none of the five
        (("-6",), "0123(6<"),  # a restore counts
        (("-7",), "0123(6<7"),
        (("-0",), ""),
        (("--no-fold",), "0123456<78"),
        (("-5", "--no-fold"), "01234"),
        (("parser~4",), "456<78"),  # the newest of a list is there
        (("--since", "28 minutes ago"), "012"),
        (("--until", "28 minutes ago"), "3(678"),
        (("--kind", "auto"), "0123456"),
        (("--grep", "token"), "67"),
        (("--all",), "0123(6<78"),
    ],
)
def test_turns_without_an_edit_are_one_line_where_nobody_asks_for_them(
    told: Sandbox, words: tuple[str, ...], rows: str
) -> None:
    shown = screen(told, *words)
    assert "".join(row.lstrip()[0] for row in shown) == rows
    assert all("(2 turns without an edit)" in row for row in shown if row.lstrip()[0] == "(")
    whole = told.ok("log", "--json", *(w for w in words if w != "--no-fold")).json["checkpoints"]
    if not words or not re.match("-[567]", words[0]):
        assert len(whole) == len(rows.replace("(", "45").replace("<", "")), "what is read by programs is never folded"


@pytest.mark.deep
def test_a_list_of_all_tracks_names_them(told: Sandbox) -> None:
    assert screen(told, "--all", "-2") == [
        "00000000  .   2m  parser  . -       0 files  turn 7  why?",
        "11111111  .  11m  parser  x failed   1 file  turn 6  now the error messages \u6f22\u5b57",
    ]


@pytest.mark.deep
def test_colours_and_signs(told: Sandbox) -> None:
    rows = told.ok("--color", "log").out.splitlines()
    assert "\x1b[31mx failed\x1b[m" in rows[1] and "\x1b[32m+ passed\x1b[m" in rows[3] and "\x1b[36m<\x1b[m" in rows[6]
    assert "\x1b[1mo\x1b[m" in rows[7] and "\x1b[1m[first light] \x1b[m" in rows[7] and "\x1b" not in told.ok("log").out


@pytest.mark.deep
def test_words_from_elsewhere_are_quoted(told: Sandbox, repo: Sandbox) -> None:
    repo.git("remote", "add", "origin", str(told.path))
    repo.git("config", "core.abbrev", "8")
    repo.ok("fetch", "origin")
    rows = repo.ok("log", "parser").out.splitlines()
    assert rows[-1].endswith("1 file  > before the rewrite (foreign: origin)")
    assert rows[-2].endswith("1 file  > [first light] lexer done; tokens carry positions (foreign: origin)")


@pytest.mark.full
def test_a_turn_that_a_prune_left_without_the_edit_before_it_is_shown(repo: Sandbox) -> None:
    """It changed no file when it was taken; against what is before it now it did."""
    repo.git("config", "core.abbrev", "8")
    for number, text in enumerate(("one\n", "two\n", "two\n", "two\n", "two\n"), 1):
        observing(repo, "t", "turn ended (auto)", f"ask {number}", number, None, NOW - timedelta(hours=9 - number), text)
    assert [row[:1] for row in repo.ok("log", "t").out.splitlines()][1] == " "
    rows = repo.ok("log", "t", "--json").json["checkpoints"]
    repo.ok("forget", rows[3]["id"], "--yes")
    assert [row.partition("  turn")[2][1:2] for row in repo.ok("log", "t").out.splitlines()] == ["5", "4", "3", "1"]


@pytest.mark.deep
def test_a_graph_shows_tracks_as_lanes_and_the_commits_between_them(repo: Sandbox) -> None:
    now = datetime.now(UTC)

    def commit(ago: int, text: str) -> str:
        repo.write("a.py", text)
        date = {"GIT_COMMITTER_DATE": f"{int((now - timedelta(minutes=ago)).timestamp())} +0000"}
        repo.git("add", "-A")
        assert repo.run("git", "commit", "-qm", f"commit {text}", env=date).code == 0
        return repo.head()

    def snapshot(ago: int, track: str, step: str) -> None:
        with Baton(repo.path, clock=lambda: now - timedelta(minutes=ago)) as baton:
            baton.snapshot(step, track=track)

    first = commit(60, "one")
    snapshot(50, "parser", "lexer done")
    repo.write("a.py", "two")
    snapshot(40, "parser", "parser done")
    second = commit(35, "two")
    snapshot(30, "docs", "pages")
    snapshot(20, "parser", "errors")
    repo.ok("restore", "parser~2", "--force")
    rows = repo.ok("log", "--graph").out.splitlines()
    assert rows[:2] == ["parser", "| docs"]
    drawn = [(row[:3].rstrip(), row.split("  ")[-1].strip()) for row in rows[2:]]
    assert drawn[0][0] == "<" and drawn[0][1].startswith("restored ")
    assert drawn[1:4] == [("o", "errors"), ("| o", "pages"), ("*-*", "commit: commit two")]
    assert drawn[4:] == [("o", "parser done"), ("o", "lexer done"), ("*", "commit: commit one")]
    assert second[:7] in rows[5] and first[:7] in rows[-1]
    one = repo.ok("log", "--graph", "parser").out
    assert one.startswith("parser\n<") and "pages" not in one
    for number in range(12):
        snapshot(10, f"t{number}", f"of t{number}")
    rows = repo.ok("log", "--graph").out.splitlines()
    assert rows[0] == "parser" and rows[7].startswith("| " * 7 + "t") and rows[7].count(", ") == 6
    for other in ("--json", "--porcelain", "--stat"):
        assert repo.baton("log", "--graph", other).code == 129


@pytest.mark.deep
def test_a_commit_stands_in_its_order_whatever_gits_seconds_are(repo: Sandbox) -> None:
    """Checkpoints and commits of one second, of two tracks; then a commit that says it is of tomorrow."""
    second = (datetime.now(UTC) - timedelta(hours=1)).replace(microsecond=0)
    order: list[str] = []

    def commit(name: str, when: datetime = second) -> None:
        date = {"GIT_COMMITTER_DATE": f"{int(when.timestamp())} +0000"}
        assert repo.run("git", "commit", "-q", "--allow-empty", "-m", name, env=date).code == 0
        order.append(f"commit: {name}")

    def snapshot(ms: int, track: str, step: str) -> None:
        with Baton(repo.path, clock=lambda: second + timedelta(milliseconds=ms)) as baton:
            baton.snapshot(step, track=track)
        order.append(step)

    snapshot(-5000, "t", "begun")
    snapshot(200, "t", "before the commit")
    snapshot(250, "u", "of another track")
    commit("one")
    commit("two")
    snapshot(500, "t", "after both")
    commit("three")
    snapshot(600, "u", "after the third")
    commit("four", second + timedelta(days=1))
    snapshot(700, "t", "after the fourth")
    repo.git("checkout", "-q", "HEAD~2")
    snapshot(800, "u", "on the second again")
    repo.git("checkout", "-q", "HEAD~1")
    snapshot(2000, "t", "on the first, later")
    rows = [row.split("  ")[-1].strip() for row in repo.ok("log", "--graph").out.splitlines()[2:]]
    assert rows[:-1] == list(reversed(order))
    repo.ok("page")
    text = (repo.path / ".git/baton/page.html").read_text()
    shown = re.findall(r"<span>(.*?)</span>", text[text.index("<main") :])
    assert shown[:-1] == list(reversed(order))


@pytest.mark.deep
def test_after_a_prune_files_are_counted_against_the_checkpoint_below(repo: Sandbox) -> None:
    def counts(*words: str) -> list[str]:
        return [re.sub(r".* (\d+) files? ", r"\1", row) for row in repo.ok("log", *words).out.splitlines()]

    for n, files in enumerate(((), ("a.txt",), (), ("a.txt", "b.txt"), (), ())):
        for name in files:
            repo.write(name, f"{n}\n")
        repo.ok("snapshot", "--track", "t", f" {n}")
    assert counts() == ["0 5", "0 4", "2 3", "0 2", "1 1", "0 0"]
    repo.ok("forget", "t~1", "t~2", "t~4", "--yes")
    assert counts() == ["2 5", "1 2", "0 0"] and counts("--", "a.txt") == ["2 5", "1 2"] and counts("-1") == ["2 5"]


@pytest.mark.deep
def test_what_lies_far_back_in_many_tracks_is_found_however_few_are_asked_for(repo: Sandbox) -> None:
    repo.commit()
    many_tracks(repo.path, 30, depth=180)

    def steps(*words: str) -> list[str]:
        rows = repo.ok("log", "--all", "--json", *words).json["checkpoints"]
        return [row["step"] for row in rows]

    for pattern in ("step 3 ", "step 170 ", "step 1[0-7]9 "):  # below the first 4,000, among them, and here and there
        whole = steps("--grep", pattern)
        assert len(whole) in (30, 240)
        assert all(steps("--grep", pattern, "-n", str(n)) == whole[:n] for n in (1, 20, 200))
    torn = repo.path / ".git" / "refs" / "baton" / "tracks" / track(3)
    torn.parent.mkdir(parents=True, exist_ok=True)
    torn.write_text(f"{'1' * 40}\n")
    found = repo.baton("log", "--all", "--json", "--grep", "step 3 ", "-n", "5")
    assert [row["step"] for row in found.json["checkpoints"]] == [f"step 3 of agent {n}" for n in (29, 28, 27, 26, 25)]
    assert found.code == 0 and track(3) in found.err
