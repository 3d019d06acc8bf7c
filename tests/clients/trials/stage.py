"""The stage of a cold-start trial: a session is played with the real hooks, dies, and the next one is told something."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.conftest import GITCONFIG
from tests.kit import Outcome, Sandbox
from tests.kit.agents import Client
from tests.kit.places import ROOT
from tests.kit.talks import Talk

SAID = ("nothing", "manual", "stale-before", "stale-after", "observed", "observed-no-plan")
"""Conditions of what is told of a session that went straight on."""
BENT = ("killed", "rewound", "approved", "restored", "stale-facts")
"""Conditions of a session that did not: each is told what the same session's records hold."""
CONDITIONS = SAID + BENT
RUNS = (1, 2)
BEFORE = "5b105d9"  # the last commit that observed nothing
BEGAN = timedelta(minutes=80)  # before the next session's start
EARLIER = timedelta(days=8)  # before that: a session that ended
PAUSE = timedelta(minutes=12)  # between two turns
STEP = timedelta(seconds=20)  # between two records of a transcript
CLOCK = Path(__file__).parent / "clock"
TRANSCRIPT = "5e551011-0000-4000-8000-000000000001"
ENDED = "5e551011-0000-4000-8000-000000000000"
STALE = {
    "LICENSE": "an ended session was asked for it",
    "pyproject.toml": "an ended session had it in its plan, open",
    "Makefile": "an ended session had it approved, in a plan",
    ".editorconfig": "the last words of an ended session promise it",
    "VERSION": "older words than the newest have it as their step and their next command",
    "tox.ini": "a decision says so that was withdrawn",
    "py.typed": "the first prompt asks for it, the second one no longer does",
    "AUTHORS": "an item of a plan, which the plan that followed left out",
    "CONTRIBUTING.md": "a turn asked for it that was taken back",
    "CODEOWNERS": "the plan of a turn that was taken back holds it",
}
"""What nobody wants any more, by the name of the file that somebody makes who was told so: why it is stale."""


@dataclass(frozen=True)
class Detour:
    """A turn that the user takes back: what it asked for, planned and said contradicts the task."""

    prompt: str
    plan: tuple[str, ...]
    edited: Mapping[str, str]
    said: str


@dataclass(frozen=True)
class Task:
    """A task: the repository it begins with, the session that died over it, what finishes it, and the facts of the finished
    work. ``hidden`` are the facts that only what was said or planned can tell."""

    name: str
    files: Mapping[str, str]
    play: Callable[[Session], None]
    detour: Detour
    solution: Mapping[str, str | None]
    facts: Mapping[str, Callable[[Path], bool]]
    hidden: tuple[str, ...]


@dataclass
class Late(Client):
    """A client in the past, whose hooks are of some version of the code."""

    more: Callable[[], dict[str, str]] = dict

    def env(self) -> dict[str, str]:
        """What its hooks inherit."""
        return {**super().env(), **self.more()}


class Session(Talk):
    """The session that dies: it happens in the past, its commands really run, and every hook of the client is fired."""

    def __init__(
        self,
        repo: Sandbox,
        path: Path,
        condition: str,
        code: Path | None,
        began: datetime,
        task: Task,
        session: str = TRANSCRIPT,
    ) -> None:
        super().__init__(repo, path, session)
        self.now, self.condition, self.code, self.task = began, condition, code, task
        self.client = Late("claude", repo.path, session=session, more=self.env)
        self.session, self.parent, self.turns = session, "", 0
        self.planned: tuple[str, ...] = ()

    def env(self) -> dict[str, str]:
        """What a process of that time inherits."""
        late = (datetime.now(UTC) - self.now).total_seconds()
        path = [str(CLOCK), *([str(self.code)] if self.code else [])]
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{int(self.now.timestamp())} +0000")
        return {"TRIALS_LATE": str(late), "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1", **dates}

    def record(self, kind: str, content: Any, **more: Any) -> None:
        """One line of the transcript, a while after the one before, which it follows."""
        self.now += STEP
        at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        parent, self.parent = self.parent or None, f"u{next(self.ids)}"
        record = {"type": kind, "isSidechain": False, "uuid": self.parent, "parentUuid": parent, "sessionId": self.session}
        with self.path.open("a") as file:
            file.write(json.dumps({**record, "timestamp": at, **more, "message": {"role": kind, "content": content}}) + "\n")

    @property
    def dead(self) -> bool:
        """Whether no hook is heard any more: the process dies in the midst of this turn."""
        return self.condition == "killed" and self.turns >= 2

    def prompt(self, text: str) -> None:
        """A turn begins: the user says something, a while after the last one ended."""
        self.turns += 1
        if self.dead and self.turns > 2:
            return  # the second turn is still going on
        if self.turns == 3 and self.condition in ("rewound", "stale-facts"):
            self.rewound(self.task.detour if self.condition == "rewound" else UNWANTED)
        if self.condition == "stale-facts":
            text += {1: TYPED, 2: UNTYPED}.get(self.turns, "")
        self.now += PAUSE
        self.fire("prompt", prompt=text)
        self.ask(text)

    def rewound(self, detour: Detour) -> None:
        """A turn that the user takes back, with /rewind: the next record follows the one before it, the files come back."""
        parent, before = self.parent, {name: (self.repo.path / name).read_text() for name in detour.edited}
        self.now += PAUSE
        self.fire("prompt", prompt=detour.prompt)
        self.ask(detour.prompt)
        super().plan(**dict.fromkeys(detour.plan, "in_progress"))
        for name, text in detour.edited.items():
            self.edit(name, text)
        self.end(detour.said)
        self.parent = parent
        for name, text in before.items():
            self.repo.write(name, text)

    def change(self, name: str, old: str, new: str) -> None:
        """The agent edits a file."""
        text = (self.repo.path / name).read_text()
        assert text.count(old) == 1, (name, old)
        self.edit(name, text.replace(old, new))

    def edit(self, name: str, text: str) -> None:
        """A file is written, at that time, and the client's own tool and hook say so."""
        path = self.repo.write(name, text)
        os.utime(path, (self.now.timestamp(), self.now.timestamp()))
        self.call("Write", {"file_path": str(path), "content": text})
        self.fire("edit", tool_name="Write", tool_input={"file_path": str(path), "content": text})

    def run(self, command: str, output: str = "", status: int = 0) -> None:
        """A command is really run; what it printed is recorded."""
        done = self.repo.run("sh", "-c", command, env={**self.env(), "PYTHONPATH": ""})
        self.call("Bash", {"command": command}, (done.out + done.err).rstrip("\n"), done.code)

    def plan(self, **items: str) -> None:
        """The agent writes its plan, where the client has a tool for it; where plans are approved, the user does so once."""
        if self.condition == "stale-facts":
            items = {**items, **({"AUTHORS: who has worked on it": "pending"} if not self.planned else {})}
        new, self.planned = tuple(items) != self.planned, tuple(items)
        if self.condition == "approved" and new:
            self.call("ExitPlanMode", {"plan": approved(self.task.name, items)}, GRANTED)
        elif self.condition in ("approved", "observed-no-plan"):
            self.now += 2 * STEP  # so that commits have the same ids
        else:
            super().plan(**items)

    def words(self, step: str, **options: str) -> None:
        """The agent writes a checkpoint."""
        words = ["snapshot", "--track", self.repo.path.name, "--step", step]
        words += [word for key, text in options.items() for word in (f"--{key.replace('_', '-')}", text)]
        done = self.baton(*words)
        assert done.code == 0, done
        self.call("Bash", {"command": "git baton " + " ".join(repr(word) for word in words)}, done.out.rstrip("\n"))

    def fresh(self, step: str, **options: str) -> None:
        """The agent writes a checkpoint before it stops: the condition is that it did."""
        if self.condition == "manual":
            self.words(step, **options)

    def baton(self, *words: str) -> Outcome:
        """Our command, of the version and at the time that is played."""
        return self.repo.baton(*words, env=self.env())

    def end(self, text: str) -> None:
        """The turn ends, but for one in which the process dies."""
        if self.dead and self.turns > 2:
            return  # it was to be the last thing that is said
        self.say(text)
        if not self.dead:
            self.fire("turn", last_assistant_message=text)

    def restored(self) -> None:
        """A further turn says that all is done, in its plan and in words; the user takes its files back, with a restore."""
        here = self.repo.git("rev-parse", f"refs/checkpoints/{self.repo.path.name}")
        self.prompt("go on with the rest")
        for name, text in self.task.solution.items():
            if text is None:
                self.run(f"rm {name}")
            else:
                self.edit(name, text)
        self.run("python -m unittest discover -s tests -t .")
        super().plan(**dict.fromkeys(self.planned, "completed"))
        self.words("everything is done, nothing is left", validation="green", next_cmd="git log --oneline")
        self.end("All of it is done and the tests pass. Nothing is left.")
        self.now += PAUSE
        done = self.baton("restore", here, "--exact")
        assert done.code == 0, done


GRANTED = "User has approved your plan. You can now start coding. Start with updating your todo list if applicable"
TYPED = "\nAnd while you are at it, put an empty py.typed into the folder of the package."
UNTYPED = "\nForget about py.typed, I do not want it after all."
UNWANTED = Detour(
    prompt="Before you go on: write a CONTRIBUTING.md for newcomers, and whatever a hosted repository needs besides.",
    plan=("CONTRIBUTING.md for newcomers", "CODEOWNERS with one line"),
    edited={},
    said="I would write CONTRIBUTING.md first and then CODEOWNERS.",
)


def approved(name: str, items: Mapping[str, str]) -> str:
    """A plan as plan mode shows it."""
    return f"# {name}: what is to be done\n\n" + "\n".join(f"{n}. {text}" for n, text in enumerate(items, 1)) + "\n"


def ended(repo: Sandbox, path: Path, code: Path | None, task: Task, began: datetime) -> None:
    """Another session, which ended long ago: what it was asked, planned, decided and promised is nobody's wish any more."""
    old = Session(repo, path, "approved", code, began, task, ENDED)
    old.fire("start", source="startup")
    old.prompt("Add a LICENSE file, it is to be the MIT licence, and propose how we should package this.")
    old.plan(**{"Makefile with the targets test and clean": "pending"})
    Talk.plan(old, **{"pyproject.toml so that it can be installed": "in_progress"})
    old.words("packaging: write VERSION", next_cmd="echo 0.2.0 > VERSION", decision="the tests run on 3.9, too: keep a tox.ini")
    old.end("We stop here for now. When we go on I write an .editorconfig first.")
    old.fire("end", reason="prompt_input_exit")
    old.words("packaging is called off", withdraw="1")


@contextlib.contextmanager
def sealed(place: Path) -> Iterator[None]:
    """The environment of no user: as the tests have it."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("GIT", "BATON", "CLAUDE", "XDG_", "EDITOR", "VISUAL", "PAGER")):
            del os.environ[name]
    home = place / "home"
    home.mkdir(parents=True)
    (home / ".gitconfig").write_text(GITCONFIG)
    os.environ |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    os.environ["GITBATON_TEST_PROCESSES"] = "1"  # each with a clock of its own
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def code_before(place: Path) -> Path:
    """The package as it was before this part, from the history of this very repository."""
    asked = ["git", "-C", str(ROOT), "archive", BEFORE, "gitbaton", "hooks"]
    with tarfile.open(fileobj=io.BytesIO(subprocess.run(asked, check=True, capture_output=True).stdout)) as file:
        file.extractall(place, filter="data")
    return place


def played(task: Task, condition: str, place: Path, old: Path, now: datetime) -> tuple[Sandbox, str]:
    """The repository in which a session of this condition died, and what the next one is told there."""
    repo = Sandbox.init(place / task.name)
    began, code = now - BEGAN, old if condition == "stale-before" else None
    session = Session(repo, place / f"{TRANSCRIPT}.jsonl", condition, code, began - EARLIER, task)
    for name, text in task.files.items():
        os.utime(repo.write(name, text), (session.now.timestamp(), session.now.timestamp()))
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "first", env=session.env())
    if condition in ("manual", "stale-after"):
        repo.git("config", "baton.observe", "none")
    if condition == "stale-facts":
        ended(repo, place / f"{ENDED}.jsonl", code, task, began - EARLIER)
    session.now = began
    session.fire("start", source="startup")
    task.play(session)
    if condition == "restored":
        session.restored()
    session.now = now
    following = Late("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f", more=session.env)
    told = following.fire("start", source="startup")
    return repo, "" if condition == "nothing" else told


def stripped(repo: Sandbox, place: Path) -> None:
    """A copy of the branch and the work tree, without anything that a checkpoint, a hook or this stage left."""
    subprocess.run(["git", "clone", "-q", "--no-local", "--single-branch", "--no-tags", repo.path, place], check=True)
    copy = Sandbox(place)
    copy.git("remote", "remove", "origin")
    for path in place.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    left = shutil.ignore_patterns(".git", "runtime", "__pycache__")
    shutil.copytree(repo.path, place, dirs_exist_ok=True, ignore=left)
    copy.git("config", "user.name", "A U Thor")
    copy.git("config", "user.email", "author@example.com")
    copy.git("reset", "-q")
    shutil.rmtree(place / ".git" / "logs", ignore_errors=True)
    shutil.rmtree(place / ".git" / "hooks", ignore_errors=True)
    shutil.rmtree(place / ".git" / "refs" / "remotes", ignore_errors=True)
    for name in ("FETCH_HEAD", "ORIG_HEAD"):
        (place / ".git" / name).unlink(missing_ok=True)
    copy.git("gc", "-q", "--prune=now")
    assert copy.git("for-each-ref", "--format=%(refname)") == "refs/heads/main" and not copy.git("fsck", "--unreachable")
    assert not [path for path in place.rglob("*") if "baton" in path.name or (path.is_file() and b"baton" in path.read_bytes())]


def contents(place: Path) -> dict[str, bytes]:
    """Every file of a work tree."""
    found = {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if not name.startswith(".git/")}


def python(place: Path, *words: str, stdin: str = "", **env: str) -> Outcome:
    """Python in the folder of a finished work, for a judge."""
    more = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "", **env}
    done = subprocess.run(
        [sys.executable, *words], cwd=place, env={**os.environ, **more}, input=stdin, capture_output=True, text=True, timeout=30
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def unittests(place: Path) -> bool:
    """The work's own tests are there and pass."""
    done = python(place, "-m", "unittest", "discover", "-s", "tests", "-t", ".")
    return done.code == 0 and "Ran 0 tests" not in done.err


def judged(task: Task, work: Path, place: Path) -> dict[str, bool]:
    """Each fact of the finished work, looked at in a copy of it."""
    found = {}
    for number, (name, fact) in enumerate(task.facts.items()):
        copy = place / f"{number}"
        shutil.copytree(work, copy, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        try:
            found[name] = bool(fact(copy))
        except Exception:  # whatever a work does, it is a fact that is not there
            found[name] = False
        shutil.rmtree(copy)
    return found


def acted_upon(work: Path) -> list[str]:
    """The stale facts that somebody acted upon, by the file that is there."""
    return [name for name in STALE if any(path for path in work.rglob(name) if ".git" not in path.relative_to(work).parts)]
