"""What must be so after a drive: what the model was told, which checkpoints are there, and that no hook failed."""

from __future__ import annotations

from typing import Any

from tests.clients.model import Model, Request, strings
from tests.clients.workshop import NEXT, NOTE, STEP, TRACK, Workshop

TITLE = f"git baton: the state of track '{TRACK}'"
REMINDER = f"git baton, track '{TRACK}'"
END = "To see this again: git baton resume --live"
MOVED = "drift: head-ahead:"
SINCE = "1 commit since"
BEFORE = "before a prompt (auto)"


def told(request: Request, title: str = TITLE) -> str:
    """The newest text of ours in a request; empty where there is none."""
    found = [text[text.rindex(title) :] for text in strings(request.body) if title in text]
    return found[-1].partition(END)[0] if found else ""


def assert_told(request: Request, *drift: str, title: str = TITLE) -> None:
    """The request holds step, next_cmd and drift; ``drift``: the words for it, and others that must be there."""
    text = told(request, title)
    assert text, f"request {request.number} ({request.kind}) holds no text of ours"
    for words in (f"step: {STEP}", f'next_cmd: "{NEXT}"', *drift):
        assert words in text, f"request {request.number} lacks {words!r}:\n{text[:3000]}"


def assert_once(request: Request, title: str = TITLE) -> None:
    """The request holds our text one time: what was said before the compaction is gone."""
    assert request.text.count(title) == 1, f"request {request.number}: {request.text.count(title)} times"


def assert_checkpoints(workshop: Workshop, *steps: str) -> list[dict[str, Any]]:
    """The track holds the manual checkpoint and these automatic ones, oldest first, each with the manual one's words."""
    *auto, manual = workshop.checkpoints()
    found = [c["step"] for c in reversed(auto)]
    assert found == list(steps), found
    assert (manual["kind"], manual["step"]) == ("manual", STEP)
    for c in auto:
        assert (c["kind"], c["next_cmd"], c["note"], c["validation"]) == ("auto", NEXT, NOTE, "green")
        assert (c["carried"]["id"], c["carried"]["step"]) == (manual["id"], STEP)
        assert c["decisions"] == ["no backtracking"]
    return auto


def assert_quiet(workshop: Workshop, model: Model) -> None:
    """No hook failed or complained, nothing was written to the work tree or the index, and no request was a stranger's."""
    for run in workshop.hooks():
        assert (run.code, run.err) == (0, ""), f"{run.agent} {run.event}: {run.code} {run.err}"
    logged = workshop.repo.path / ".git" / "baton" / "log"
    assert not logged.exists(), logged.read_text()
    assert workshop.repo.git("diff", "--cached", "--name-only") == ""
    assert not model.strays
    workshop.repo.fsck()


def skill(workshop: Workshop, folder: str) -> str:
    """The description of our skill: all that a client shows of it before it is used."""
    lines = (workshop.repo.path / folder / "gitbaton" / "SKILL.md").read_text().splitlines()
    return next(line for line in lines if line.startswith("description: ")).removeprefix("description: ").strip("'\"")
