"""Write a conversation back, as a new session of its client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC

from gitbaton.agents import transcripts
from gitbaton.agents.client import NewSession, client
from gitbaton.agents.converting import Converted, converted
from gitbaton.agents.records import line_of, open_call, renamed
from gitbaton.agents.transcripts.observing import selected
from gitbaton.base.clients import DATABASES, NAMES
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, NoAnswerError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.system.files import NEW
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell


@value
class ConversationPlan:
    """Plan of a session file. ``command`` resumes it, when given in ``directory``; ``call`` is a tool that was called last and
    had not answered; ``left_out``: how many lines could not be taken along. ``agent``: the client whose session it is;
    ``converted``: what it is made of, where that is not the client's own file."""

    target: Stored
    agent: str
    session: str
    path: str
    data: bytes
    directory: str
    command: str
    call: str | None = None
    left_out: int = 0
    converted: Converted | None = None

    def line(self, here: str) -> str:
        """Return the command line that resumes it, from the directory ``here``."""
        same = os.path.realpath(here) == os.path.realpath(self.directory)
        return self.command if same else f"cd {in_shell(self.directory)} && {self.command}"


def new_id() -> str:
    """Return a random id (UUID 4) for a session."""
    from uuid import uuid4

    return str(uuid4())


def targets() -> list[str]:
    """Return the names of the clients that resume sessions written for them."""
    return [name for name in NAMES if (of := client(name)) is not None and of.resume]


def plan(
    baton: Baton, target: Stored, env: Mapping[str, str], session: str, *, foreign: bool = False, to: str | None = None
) -> ConversationPlan:
    """Return the session file that would bring a checkpoint's conversation back under a new id, in its own client or ``to``
    another; writes nothing.

    For its own it is what the client's own file holds, secrets and all, where it still does, for it stays there; else, and for
    another, what is stored, redacted. Raises NoAnswerError where the client cannot resume what is written for it, BatonError
    where there is no conversation, or it was fetched from elsewhere and ``foreign`` is not set.
    """
    name = baton.short(target.id)
    source = target.checkpoint.agent.name if target.checkpoint.agent else ""
    if source not in DATABASES:
        transcripts.position(target)
    agent = to or source
    if target.foreign and not foreign:
        hint = f"'git baton transcript show {name}' shows what was said; --foreign writes it back all the same"
        raise BatonError(f"checkpoint {in_quotes(name)} was fetched from elsewhere", hint)
    directory = os.path.realpath(baton.repo.layout.root or baton.repo.layout.git_dir)
    by, of = client(source), client(agent)
    if to is not None and to not in (able := targets()):
        raise UsageError(f"no session can be written for {in_quotes(to)}; it can for {', '.join(able)}")
    if by is None or of is None or not of.resume or not env.get("HOME", "").startswith("/"):
        hints = [f"'git baton transcript export {name} -o FILE' writes what it holds, redacted"]
        hints += [f"'--as CLIENT' writes it for another: {', '.join(targets())}"] if by is not None and to is None else []
        raise NoAnswerError(
            f"a conversation of {in_quotes(source)} cannot be written as a session that {in_quotes(agent)} resumes", *hints
        )
    query = of.models(env)
    used = next(
        ((str(row["provider"]), str(row["model"])) for row in (selected(query) if query else ())), ("unknown", "unknown")
    )
    new = NewSession(id=of.session_of(session), directory=directory, now=baton.clock().astimezone(UTC), model=used)
    path = of.place(new, env)
    raw = transcripts.original(baton, target, env) if of is by else transcripts.read(baton, target, env)
    made = ConversationPlan(
        target=target,
        agent=agent,
        session=new.id,
        path=path,
        data=b"",
        directory=directory,
        command=of.resume.format(new.id, in_shell(path)),
    )
    if of is by and (done := renamed(of, raw, session, foreign=target.foreign)) is not None:
        return replace(made, data=done.data, call=open_call(of, raw), left_out=done.left_out)
    found = converted(by, raw)
    if not found.said:
        raise NoAnswerError(
            f"the conversation of checkpoint {in_quotes(name)} holds nothing that {in_quotes(agent)} could resume"
        )
    lines = (line_of(record) for record in of.written(found.messages, new))
    data = b"".join(line for line in lines if line is not None)
    return replace(made, data=data, call=found.open_call, converted=found)


def apply(plan: ConversationPlan) -> None:
    """Write the session file, readable by its owner alone. Raises BatonError where a file is there already."""
    os.makedirs(os.path.dirname(plan.path), mode=0o700, exist_ok=True)
    save(plan.path, plan.data)


def save(path: str, data: bytes) -> None:
    """Write a new file, whole or not at all. Raises BatonError where something is there already."""
    try:
        fd = os.open(path, NEW, 0o600)
    except FileExistsError:
        raise BatonError(f"{in_quotes(path)} exists, and is not written over") from None
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
    except BaseException:
        os.unlink(path)
        raise
