"""Trailers: the agents that make a commit, each with its model, in the commit's message (``baton.trailers``).

A commit is an agent's where git runs in a command of its client's, as the variables tell that the client sets there. What it
left running after its turn, and a terminal that it once opened, have them, too: where its hooks tell of sessions, a turn must
be open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from glob import iglob

from gitbaton.agents.client import client
from gitbaton.agents.records import where
from gitbaton.agents.transcripts.observing import model_now
from gitbaton.base.clients import HookEvent, agents_of
from gitbaton.base.model import Agent
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import sessions
from gitbaton.checkpoints.store.state import paused
from gitbaton.git.questions import add_trailers, without_comments

KEY = "Assisted-by"
_MOST = 1 << 20  # bytes of a message
_SCISSORS = b"------------------------ >8 ------------------------\n"


def sign(baton: Baton, path: str, env: Mapping[str, str]) -> None:
    """Add a trailer for each agent that makes a commit to its message, a file; not to an empty one, which git refuses, nor one
    that is there. Raises BatonError, OSError."""
    if not baton.repo.boolean("baton.trailers") or paused(baton.repo, baton.clock()):
        return
    with open(path, "rb") as file:
        message = file.read(_MOST)
    edited = env.get("GIT_EDITOR") != ":"  # git says so where no editor follows, and comments are part of the message
    written = without_comments(baton.repo, message.partition(_SCISSORS)[0]) if edited else message
    made = list(dict.fromkeys(_named(baton, env))) if written.strip() else []
    if made:
        if not message.endswith(b"\n"):  # git puts no empty line behind a subject without one, as that of a merge
            with open(path, "ab") as file:
                file.write(b"\n")
        add_trailers(baton.repo, path, [f"{KEY}: {one}" for one in made])


def _named(baton: Baton, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the agents at work, each with its model where that is known."""
    for agent in agents_of(env):
        event = _at_work(baton, agent, env)
        if event is not None:
            model = model_now(event)
            yield baton.redactor.text(f"{agent.name}:{model}" if model else agent.name)


def _at_work(baton: Baton, agent: Agent, env: Mapping[str, str]) -> HookEvent | None:
    """The session of an agent that runs this command; None where its hooks tell that no turn is open."""
    session, transcript = agent.session, ""
    if session is not None:
        found = sessions.last(baton.repo, agent)
        if found is not None and not _goes_on(*found) and (found[0].prompt or found[0].ended):
            return None  # of one without prompts a client does not tell when its turn begins
        transcript = found[0].transcript if found is not None else ""
    elif known := [one for one in sessions.known(baton.repo) if one[0].agent == agent.name]:
        going = [one for one in known if _goes_on(*one[1:])]
        if not going:
            return None
        if len(going) > 1:  # either may be the one that runs this
            return HookEvent(agent=agent.name, name="", moment="other")
        session, transcript = going[0][0].session, going[0][1].transcript
    of = client(agent.name)
    places = where(of, session or "", env) if of is not None and not transcript else []
    transcript = transcript or next((path for folder, name in places for path in iglob(os.path.join(folder, name))), "")
    return HookEvent(agent=agent.name, name="", moment="other", session=session, transcript=transcript or None)


def _goes_on(session: sessions.Session, heard: float) -> bool:
    """Whether a session, ``heard`` of last then, has a turn that has not ended."""
    silent = time.time() - max(heard, sessions.written(session.transcript))
    return session.open and (not session.transcript or silent < sessions.AT_WORK)
