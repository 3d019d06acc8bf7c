"""Every screen as text at 60, 80, 120 and 200 columns, as tests/data/screens has it; GITBATON_TEST_SCREENS=1 writes that."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from gitbaton.agents.hooks.auto import carry
from gitbaton.base import model
from gitbaton.base.clients import HookEvent
from gitbaton.base.model import Agent, Observed, Prompt
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton, Request
from gitbaton.checkpoints.store import sessions
from gitbaton.cli.columns import width
from gitbaton.cli.verbs import GROUPS, VERBS, find
from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.journals import journal, record, step_of
from tests.kit.places import DATA
from tests.kit.talks import Talk
from tests.kit.threads import QUIET
from tests.verbs.test_threads_verbs import packed, put, write

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIDTHS = (60, 80, 120, 200)


def at(**ago: int) -> datetime:
    """A moment, so long ago."""
    return NOW - timedelta(**ago)


def take(
    box: Sandbox, track: str, step: str, when: datetime, *, current: bool = False, files: bool = True, **words: str
) -> None:
    with box.open(door="binary", clock=lambda: when) as baton:
        agent = Agent(name=name, session=f"s-{name}") if (name := words.pop("agent", "")) else None
        request = Request(track=track, step=step, set_current=current, files=files, agent=agent, **words)  # type: ignore[arg-type]
        baton.apply(baton.plan(request))


def turn(box: Sandbox, track: str, prompt: str, when: datetime, **ran: object) -> None:
    """The end of a turn, as a hook records it, with what was observed in it."""
    with box.open(door="binary", clock=lambda: when) as baton:
        tip = baton.tip(track)
        plan = baton.plan(Request(track=track, step="turn ended", kind="auto", agent=Agent(name="claude", session="s-claude")))
        run = model.TestRun(command="pytest -q", result="failed", failed=1, passed=2, ended=when, tree=plan.draft.tree)
        seen = Observed(tests=(replace(run, **ran),), asked=(Prompt(text=prompt, at=when),), turns=9, until=when)
        checkpoint = carry(replace(plan.draft.checkpoint, observed=seen), tip, 1)
        baton.apply(replace(plan, draft=replace(plan.draft, checkpoint=checkpoint)))


@pytest.fixture
def house(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """Tracks of all kinds: at work, ended, in another work tree, fetched, wide, long."""
    theirs = Sandbox.begun(tmp_path / "theirs")
    take(theirs, "deploy", "staging is up; the rest waits for a word from elsewhere", at(days=2))
    repo.git("fetch", "-q", str(theirs.path), "+refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*")
    take(
        repo,
        "\u8a9e\u5f59",
        "\u5b57\u53e5\u89e3\u6790\u5668\u304c\u7d42\u308f\u308a\u307e\u3057\u305f " * 6,
        at(days=40),
        validation="green",
    )
    take(repo, "build-the-documentation-and-check-its-links", "links checked", at(hours=3), validation="failed")
    repo.git("worktree", "add", "-q", "-b", "docs", "../wt-docs")
    take(Sandbox(tmp_path / "wt-docs"), "docs", "site builds; links checked", at(hours=1), agent="codex", validation="green")
    take(repo, "parser", "lexer done; tokens carry positions", at(minutes=31), current=True, next_cmd="pytest tests/parser -x")
    repo.write("a.txt", "half\n")
    turn(repo, "parser", "now the error messages, each with its line and its column", at(minutes=2))
    repo.commit("parser: positions", other_txt="x\n")
    repo.write("new.txt", "x\n")
    with repo.open(door="binary") as baton:
        for name, ended, moment in (("claude", False, at(minutes=2)), ("codex", True, at(minutes=50))):
            event = HookEvent(agent=name, name="Stop", moment="turn", session=f"s-{name}")
            sessions.save(baton.repo, event, ended=ended, open=not ended, task="t")
            path = sessions.facts_path(baton.repo, event).removesuffix(".facts")
            os.utime(path, (moment.timestamp(), moment.timestamp()))
    return repo


def screens(
    monkeypatch: pytest.MonkeyPatch,
    box: Sandbox,
    *words: str,
    widths: Sequence[int] = WIDTHS,
    wraps: bool = False,
    code: int | None = 0,
    said: bool = False,
) -> str:
    """A screen at each width, once for those at which it is the same; none is wider than it may be, but for whole texts, which
    a terminal ``wraps``. ``said``: with what it says on standard error. ``code``: its exit code; None: it is shown, too."""
    monkeypatch.setitem(cast(dict[str, object], Baton.__init__.__kwdefaults__), "clock", lambda: NOW)
    shown: dict[str, list[int]] = {}
    for columns in widths:
        monkeypatch.setenv("COLUMNS", str(columns))
        done = box.here(*words)
        assert (code is None or done.code == code) and (said or done.err == ""), done.err
        assert wraps or all(width(row) <= columns for row in done.out.splitlines()), done.out
        text = done.out + "".join(f"! {row}\n" for row in done.err.splitlines())
        text += f"exit {done.code}\n" if code is None and done.code else ""
        shown.setdefault(text, []).append(columns)
    head = f"# git baton {' '.join(words)}".rstrip()
    return "".join(f"{head}  ({', '.join(map(str, at))} columns)\n{text}\n" for text, at in shown.items())


def kept(name: str, shown: str) -> str:
    """What the file of that name holds; GITBATON_TEST_SCREENS=1 writes what is shown into it."""
    file = DATA / "screens" / f"{name}.txt"
    if os.environ.get("GITBATON_TEST_SCREENS"):
        file.write_text(shown, "utf-8")
    return file.read_text("utf-8")


@pytest.mark.deep
def test_status(house: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screens(monkeypatch, house, "status")
    assert shown == kept("status", shown)


@pytest.mark.deep
def test_tracks(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    theirs = Sandbox.begun(tmp_path / "theirs")
    take(theirs, "deploy", "staging is up; the rest waits for a word from elsewhere", at(days=2), files=False)
    repo.git("fetch", "-q", str(theirs.path), "+refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*")
    take(repo, "build-the-documentation-and-check-its-links", "links checked", at(days=300), files=False)
    take(repo, "parser", "lexer done; tokens carry positions " * 6, at(minutes=31), current=True, files=False)
    shown = screens(monkeypatch, repo, "tracks")
    assert shown == kept("tracks", shown)


@pytest.mark.deep
def test_overlap(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(repo.path)
    beside = Sandbox(tmp_path / "beside")
    repo.git("worktree", "add", "-q", str(beside.path), "-b", "api")
    for place, track in ((repo, "parser"), (beside, "api")):
        place.write("a.txt", f"{track}\n")
        take(place, track, f"{track} begun", at(minutes=31))
    shown = screens(monkeypatch, repo, "overlap", code=1, wraps=True)
    assert shown == kept("overlap", shown)


@pytest.mark.deep
def test_merge(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(repo.path)
    beside = Sandbox(tmp_path / "beside")
    repo.git("worktree", "add", "-q", str(beside.path), "-b", "api")
    for place, track in ((repo, "parser"), (beside, "api")):
        place.write("a.txt", f"{track}\n")
        place.write(f"src/{track}.py", "new\n")
        take(place, track, f"{track} begun", at(minutes=31), current=True)
    shown = "".join(
        [
            screens(monkeypatch, repo, "merge", "api", "-n", code=1, wraps=True, said=True),
            screens(monkeypatch, repo, "merge", "api", "--", "src", said=True),
            screens(monkeypatch, repo, "merge", "parser", code=128, wraps=True, said=True),
        ]
    )
    assert shown == kept("merge", shown)


@pytest.mark.deep
def test_alone(house: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = screens(monkeypatch, house)
    assert shown == kept("alone", shown)
    assert all(len(part.splitlines()) <= 6 for part in shown.split("\n\n"))


def test_help(monkeypatch: pytest.MonkeyPatch, repo: Sandbox) -> None:
    shown = screens(monkeypatch, repo, "-h")
    assert shown == kept("help", shown)
    assert len(repo.here("-h").out.splitlines()) <= 64


@pytest.mark.deep
def test_pages(monkeypatch: pytest.MonkeyPatch, repo: Sandbox) -> None:
    shown = screens(monkeypatch, repo, "help", "pin") + screens(monkeypatch, repo, "pin", "-h")
    assert shown == kept("pages", shown)


def test_threads(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        for number in range(3):
            put(store, "1f1e7799-1fb8-6a94-8001-f1879e1fd7cc", number, run_id="nightly", parent=None)
        for number in range(10, 14):
            put(store, "support/4711", number, parent=None if number == 10 else 10 if number == 13 else -1)
        write(store, "support/4711", "id-0013", "__interrupt__", packed(["sure?"]), -3)
        put(store, "support/4711", 12, namespace="child:x", parent=None, id="inner")
    far = ref_of("far", "").replace("baton/", "baton/remotes/origin/")
    repo.git("update-ref", far, repo.git("rev-parse", ref_of("support/4711", "")))
    shown = screens(monkeypatch, repo, "thread", "list")
    assert shown == kept("thread-list", shown)
    shown = screens(monkeypatch, repo, "thread", "show", "support/4711", wraps=True)
    shown = re.sub(r"commit=.*", "commit=", shown)
    assert shown == kept("thread-show", shown)
    shown = screens(monkeypatch, repo, "thread", "log", "support/4711")
    assert shown == kept("thread-log", shown)


@pytest.mark.deep
def test_runs(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    j = journal(repo)
    for run, days in (("nightly-of-the-whole-documentation", 60), ("r-20260227-c213", 2)):
        step_of(j, "build", "x", run=run, started=at(days=days))
    j.append(run, record("gate", "deploy", run=run, lineage=run, started=at(days=2), key="a" * 64, text="look at it"))
    shown = screens(monkeypatch, repo, "run", "list", said=True)
    assert shown == kept("run-list", shown)
    shown = screens(monkeypatch, repo, "run", "show", "r-20260227-c213", "--records")
    assert shown == kept("run-show", shown)
    shown = ""
    for words in RUNS:
        shown += screens(monkeypatch, repo, *words.split(), widths=(80,), wraps=True, said=True, code=None)
    shown = re.sub(r"'[^']*/(r-\w+-\w+)'", r"'/place/\1'", re.sub(r"\b[0-9a-f]{10}\b", "0123456789", shown))
    assert shown == kept("run-deeds", shown)


def steady(box: Sandbox, shown: str) -> str:
    """A text with the ids of checkpoints and commits as they are in no run, but the same in each; and without what depends on
    the machine."""
    every = box.ok("log", "--all", "--json").json["checkpoints"]
    every.sort(key=lambda row: (row["track"], row["created"]))
    git = box.git("log", "--all", "--reflog", "--format=%H", "--author-date-order").split()
    ids = [*dict.fromkeys(oid for row in every for oid in (row["id"], row["commit"])), *git]
    made = {oid: hashlib.sha1(str(number).encode()).hexdigest() for number, oid in enumerate(ids)}

    def same(match: re.Match[str]) -> str:
        unknown = "f" * len(match[0]) if re.search(r"\d", match[0]) else match[0]
        return next((fake[: len(match[0])] for oid, fake in made.items() if oid.startswith(match[0])), unknown)

    shown = re.sub(r"\b(?:[0-9a-f]{7}|[0-9a-f]{10}|[0-9a-f]{40})\b", same, shown)
    shown = shown.replace(str(box.path.parent), "/place")
    shown = re.sub(r"'[^']*/git-baton'", "'/place/git-baton'", shown)
    shown = re.sub(r" +OWN +SHARED", "  OWN  SHARED", shown)
    shown = re.sub(r"\((not )?on PATH\)", "(on PATH or not)", shown)
    shown = re.sub(r"(?m)^! hint: .* is not on PATH here, so nothing calls its hooks yet\n", "", shown)
    return re.sub(r"(gitbaton|git) \d[.\w]*", r"\1 N", re.sub(r" *\d+(\.\d+)? (KiB|bytes?)", "  N KiB", shown))


@pytest.fixture
def full(house: Sandbox, tmp_path: Path) -> Sandbox:
    """The house, with more of one track, a remote, and ids of seven digits: four of them are not always unique."""
    house.git("config", "core.abbrev", "7")
    for number in range(3):
        house.write("a.txt", f"half\nof {number}\n")
        said = f"step {number}: the lexer is done and every token carries its position, as the standard asks for"
        take(house, "parser", said, at(seconds=100 - number), note="keeps offsets", validation="green" if number else "failed")
    far = Sandbox.begun(tmp_path / "far")
    far.git("checkout", "-q", "-b", "aside")
    house.git("remote", "add", "origin", "../far")
    house.git("push", "-q", "origin", "main")
    take(far, "deploy", "staging is up; the rest waits for a word from elsewhere", at(days=2))
    take(far, "a-track-of-the-other-machine-with-a-name-of-some-length", "nothing to see", at(days=1), agent="codex")
    return house


SCREENS: dict[str, tuple[tuple[str, ...], ...]] = {
    "keeping": (
        ("prune", "--keep-last", "1", "-n"),
        ("forget", "parser", "parser~1", "-n"),
        ("tracks", "delete", "parser", "-n"),
        ("pin", "parser~1"),
        ("pin", "parser~1"),
        ("unpin", "parser~1"),
        ("unpin", "parser~1"),
        ("pin", "parser~1", "before-the-rewrite"),
    ),
    "doing": (
        ("snapshot", "the parser is done, and every token carries its line and its column", "--next-cmd", "pytest -x"),
        ("restore", "parser~2"),
        ("undo", "-n"),
        ("undo",),
        ("redo", "-n"),
        ("redo",),
        ("log", "-4"),
        ("log", "--stat", "-1"),
        ("branch", "topic/then", "parser~1", "-n"),
        ("run", "--run", "nightly", "--step", "build", "--reads", "a.txt", "--", "sh", "-c", "echo built"),
        ("run", "verify", "nightly"),
        ("run", "prune", "-n"),
        ("export",),
        ("install", "-n"),
        ("uninstall", "-n"),
    ),
    "sharing": (
        ("push", "origin", "--dry-run", "parser", "docs"),
        ("sync", "origin", "--dry-run"),
        ("fetch", "origin"),
    ),
    "looking": (
        ("log", "parser"),
        ("log", "--all", "--graph"),
        ("blame", "a.txt"),
        ("why", "a.txt:2"),
        ("why", "a.txt:1"),
        ("search", "tests", "-n2"),
    ),
    "files": (
        ("restore", "parser~2", "-n"),
        ("worktree", "../then", "parser~1", "-n"),
        ("bisect", "--good", "parser~2", "--", "sh", "-c", "! grep -q 2 a.txt"),
    ),
    "whole": (
        ("show", "parser~1"),
        ("resume", "--live"),
        ("verify", "build-the-documentation-and-check-its-links"),
        ("summary", "parser"),
        ("agent", "list"),
        ("doctor",),
        ("scan", "--all"),
        ("du",),
    ),
}
MORE: dict[
    str, tuple[str, ...]
] = {  # what is shown once, at 80 columns, for a second time it says another thing; any exit code
    "more": (
        "revert -n",
        "revert",
        "undo -n",
        "undo",
        "log --graph -n 6",
        "rewind",
        "page",
        "pause --for 8h",
        "pause",
        "pause --end",
        "statusline --long",
        "tracks use docs",
        "tracks rename docs documents",
        "transcript show",
        "transcript export",
        "import nowhere",
        "completion tcsh",
        "completion bash --uninstall",
        "agent install claude -n",
        "agent install claude",
        "agent uninstall claude -n",
        "agent doctor",
        "thread delete nope",
    ),
    "errors": (
        "restroe",
        "log --nope",
        "log --kind x",
        "restore nope",
        "restore parser~99",
        "show parser:nope",
        "diff nope",
        "verify nope",
        "resume nope",
        "why a.txt:999",
        "search of --in files",
        "blame nope",
        "pin nope",
        "push nowhere",
        "tracks delete nope",
        "worktree ../wt-docs parser",
        "branch main parser",
        "run",
        "run show nope",
        "bisect",
        "snapshot --validation maybe x",
        "help nope",
    ),
}
RUNS = (
    "run settle build",
    "run settle build --done --run r-20260227-c213",
    "run approve deploy --run r-20260227-c213",
    "run show r-20260227-c213",
    "run repair r-20260227-c213 -n --step build",
    "run compensate --run r-20260227-c213 -n",
    "run export r-20260227-c213 -n",
)
WRAPS = (
    "why",
    "bisect",
    "show",
    "resume",
    "summary",
    "doctor",
    "scan",
    "agent",
)  # whole texts, for programs or to be copied
ONCE = ("pin", "unpin", "prune", "snapshot", "restore", "undo", "redo", "run", "export")  # a second time it says another thing
SAYS = (
    "undo",
    "redo",
    "run",
    "snapshot",
    "install",
    "uninstall",
    "push",
    "forget",
    "fetch",
    "sync",
    "tracks",
    "restore",
    "resume",
    "verify",
    "bisect",
    "scan",
)
CODES = {"verify": 1, "scan": 1}


@pytest.mark.full
@pytest.mark.parametrize("name", SCREENS)
def test_screens(full: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(full.path)
    shown = ""
    if name == "whole":
        full.git("config", "baton.redact", "off")  # as it was stored before there was redaction
        take(full, "docs", "links checked with ghp_" + "Ab3dE5fG7h" * 3 + "Ab3dE5", at(seconds=90))
        full.git("config", "baton.redact", "on")
    for words in SCREENS[name]:
        verb = words[0]
        once = verb in ONCE and "-n" not in words
        widths = (60,) if once else WIDTHS
        wraps = verb in WRAPS or (name == "doing" and verb in ("branch", "snapshot", "run", "install", "uninstall", "export"))
        shown += screens(monkeypatch, full, *words, widths=widths, wraps=wraps, said=verb in SAYS, code=CODES.get(verb, 0))
    shown = steady(full, shown)
    assert shown == kept(name, shown)


@pytest.mark.deep
def test_resume_and_show(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("src/api.py", "x\n" * 10)
    with repo.open(door="binary", clock=lambda: at(minutes=31)) as baton:
        baton.snapshot(
            "lexer done; tokens carry positions",
            track="parser",
            validation="green",
            next_cmd="cd services/api && pytest tests/parser -x --maxfail=1 --no-header -q && git baton snapshot done",
            note="offsets are kept in bytes, for the error messages need them\nsee docs/lexer.md for why",
            decisions=("keep the old API until 2.0, for two customers have scripts that call it", "no new dependency"),
            about=("src/api.py",),
            extra={"ticket": "ABC-12"},
            label="first-light",
        )
    for number in range(40):
        repo.write(f"src/generated/of/some/depth/number-{number:02}.txt", "x\n" * number)
    repo.write("src/api.py", "half\n")
    turn(repo, "parser", "make half() round to even, as the standard does\n\nAnd do not touch the lexer.", at(minutes=2))
    repo.commit("more", other_txt="x\n")
    theirs = Sandbox.begun(tmp_path / "theirs")
    words = {"note": "first line\ndrift     = home\n" + "long" * 60, "next_cmd": "true" + " " * 70 + "next      rm -rf here"}
    take(theirs, "deploy", "staging is up", at(days=2), note=words["note"], next_cmd=words["next_cmd"])
    repo.git("fetch", "-q", str(theirs.path), "+refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*")
    shown = ""
    for line in ("resume --live", "show", "show first-light", "resume deploy"):
        shown += screens(monkeypatch, repo, *line.split(), wraps=line != "resume deploy", said="deploy" in line)
    assert all(row[:1] in (">", "!", "#", "") for row in shown.partition("# git baton resume deploy")[2].splitlines()[1:])
    shown = steady(repo, re.sub(r"(?<=  )[0-9a-f]{4}(?=  )|(?<=show )[0-9a-f]{4}\b", "1d1d", shown))
    assert shown == kept("view", shown)


@pytest.mark.deep
def test_what_was_said_run_and_changed(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.ok("run", "--run", "nightly", "--step", "build", "--reads", "a.txt", "--", "true")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make half() round to even, as the standard does, and say in the changelog for whom that is another number")
    talk.edit("a.txt", "half\n")
    talk.run("pytest -q", "3 passed in 0.10s")
    talk.say("half() rounds to even.")
    talk.stop()
    repo.write("b.txt", "b\n")
    shown = screens(monkeypatch, repo, "run", "why", "build", "nightly", wraps=True)
    shown += screens(monkeypatch, repo, "transcript", "show", wraps=True)
    shown = re.sub(r"\b[0-9a-f]{10}\b", "0123456789", shown.replace(str(repo.path), "/place"))
    for words in (("diff", "--stat"), ("diff", "--name-status"), ("diff",)):
        monkeypatch.setenv("COLUMNS", "60")  # its form and its width are git's
        shown += f"# git baton {' '.join(words)}  (60 columns)\n{repo.ok(*words).out}\n"
    assert shown == kept("said", shown)


@pytest.mark.full
@pytest.mark.parametrize("name", MORE)
def test_more_screens(full: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(full.path)
    shown = ""
    for words in MORE[name]:
        shown += screens(monkeypatch, full, *words.split(), widths=(80,), wraps=True, said=True, code=None)
    shown = steady(full, shown)
    assert shown == kept(name, shown)


@pytest.mark.deep
def test_usage(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = "".join(screens(monkeypatch, repo, *verb.split(), "-h") for verb in VERBS if verb not in GROUPS[""])
    assert shown == kept("usage", shown)


def test_every_verb_has_a_screen() -> None:
    """That is more than its usage, but for one that only programs start, and one that takes a minute."""
    heads = [
        line.split()[3:]
        for file in (DATA / "screens").iterdir()
        for line in file.read_text("utf-8").splitlines()
        if line.startswith("# git baton ")
    ]
    seen = {find(words)[0] for words in heads if "-h" not in words}
    assert seen >= {verb for verb in VERBS if verb not in GROUPS[""]} - {"mcp", "drill"}


@pytest.mark.full
@pytest.mark.skipif(find_spec("textual") is None, reason="the extra 'ui' is not installed")
def test_picker(full: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.verbs.test_rewind_picker import on_screen, planned, text, until

    monkeypatch.chdir(full.path)
    monkeypatch.setitem(cast(dict[str, object], Baton.__init__.__kwdefaults__), "clock", lambda: NOW)
    full.write("b.txt", "not captured\n")
    shown = ""

    def drawn(picker: Any, title: str) -> str:
        rows = [strip.text.rstrip() for strip in picker.screen._compositor.render_strips()]
        assert all(width(row) <= picker.size.width for row in rows)
        return f"# git baton rewind, {title}  ({picker.size.width} columns)\n" + "\n".join(rows) + "\n\n"

    async def keys(picker: Any, pilot: Any) -> None:
        nonlocal shown
        await until(pilot, lambda: len(picker.tracks) > 2 and "step 2" in text(picker))
        await pilot.pause()
        shown += drawn(picker, "words")
        for key, title, there in (
            ("3", "diff", lambda: "not captured" in text(picker)),
            ("2", "plan", lambda: bool(planned(picker))),
            ("question_mark", "keys", lambda: "another one" in text(picker)),
        ):
            await pilot.press(key)
            await until(pilot, there)
            await pilot.pause()
            shown += drawn(picker, title)
        await pilot.press("1", "down", "enter")
        await until(pilot, lambda: picker.planning and len(planned(picker)) > 1)
        await pilot.pause()
        shown += drawn(picker, "a plan of another")

    for columns in WIDTHS:
        on_screen(full, keys, size=(columns, 24), track="parser")
    shown = steady(full, shown)
    assert shown == kept("picker", shown)
