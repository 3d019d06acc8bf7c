"""The open turn of this work tree in ``log`` and ``status``: it is no checkpoint yet, and a command takes it back."""

from typing import TYPE_CHECKING

from gitbaton.codec import Json, counted, first_line, timestamp
from gitbaton.model import NOT_ENDED
from gitbaton.render import line, quoted

if TYPE_CHECKING:
    from gitbaton.store.turns import UnderWay

TAKE_BACK = "'git baton revert' takes it back"


def step(one: "UnderWay") -> str:
    """What an open turn is called, as the checkpoint that would end it."""
    return f"{NOT_ENDED}: {line(one.span.prompt)}" if one.span.prompt else NOT_ENDED


def sentence(one: "UnderWay", prompt: str) -> str:
    """An open turn with the beginning of its prompt, what it has changed so far, and the command that takes it back."""
    said = f'{NOT_ENDED}: "{prompt}"' if prompt else NOT_ENDED
    return f"{said}, {counted(len(one.paths), 'file')} so far; {TAKE_BACK}"


def document(one: "UnderWay") -> dict[str, Json]:
    """An open turn for ``--json``."""
    session, since = one.span.session, one.span.since
    return {
        "track": one.track,
        "agent": session.name if session is not None else None,
        "session": session.session if session is not None else None,
        "prompt": one.span.prompt,
        "since": timestamp(since) if since is not None else None,
        "began": one.span.began.id if one.span.began is not None else None,
        "files": len(one.paths),
    }


def header(one: "UnderWay") -> str:
    """An open turn for ``--porcelain``: the track, how many files, and the prompt."""
    return f"# open-turn {quoted(one.track)}\t{len(one.paths)}\t{quoted(first_line(one.span.prompt))}"
