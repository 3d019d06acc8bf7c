"""``git baton transcript``."""

import os
import sys
from typing import Annotated, Optional

from gitbaton.agents import transcripts
from gitbaton.agents.client import client
from gitbaton.agents.records import messages
from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import Stored
from gitbaton.care.tools import conversations
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.common import Newest, Track, checkpoint_of, looking, opened, paged
from gitbaton.cli.options import Argument, Invocation, Option

KEPT = "\n\t"


def command(
    ctx: Invocation,
    action: Annotated[str, Argument(metavar="show|export", help="Show it as text; write its lines.")],
    checkpoint: Newest = None,
    track: Track = None,
    output: Annotated[
        Optional[str], Option("-o", "--output", metavar="FILE", help="Export into a new file, readable by you alone.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Show the JSON lines of the agent's client.")] = False,
) -> int:
    """Show or export the conversation up to a checkpoint.

    It is read from the repository where baton.transcripts was 'full', the default, at that time, else from the file that the
    agent's client keeps on this machine. Either way secrets are replaced (baton.redact): what is exported has none.

    'show' prints it as text, 'export' the client's own lines, to a file or a pipe and not to a terminal.

    Examples:
        git baton transcript show claude
        git baton transcript export claude -o said.jsonl
    """
    if action not in ("show", "export"):
        raise UsageError(f"{in_quotes(action)} is not understood; it can be 'show' or 'export'")
    if json if action == "export" else output is not None:
        raise UsageError(f"{'--json' if json else '--output'} and '{action}' exclude each other")
    if action == "export" and output is None and sys.stdout.isatty():
        word = f" {in_shell(checkpoint)}" if checkpoint else f" --track {in_shell(track)}" if track else ""
        hints = "'-o FILE' writes them into a new file", f"'git baton transcript show{word}' shows what was said"
        raise UsageError("export writes bytes as they are, and this is a terminal", *hints)
    with opened(ctx) as baton:
        stored = checkpoint_of(baton, checkpoint, track)
        raw = transcripts.read(baton, stored, os.environ)
        if output is not None:
            conversations.save(output, raw)
        elif action == "export":
            terminal.write(raw.decode("utf-8", "surrogateescape"))
        else:
            _show(ctx, baton, stored, raw, json=json)
    return 0


def _show(ctx: Invocation, baton: Baton, stored: Stored, raw: bytes, *, json: bool) -> None:
    if json:
        text = raw.decode("utf-8", "surrogateescape")
        seen = sys.stdout.isatty() or "GIT_PAGER_IN_USE" in os.environ  # asked before a pager takes its place
        with paged(ctx, baton):
            terminal.write(plain(text, keep=KEPT) if seen else text)
        return
    look, rows = looking(ctx, baton), list[str]()
    prefix = look.paint("> ", "foreign") if stored.foreign else ""
    for who, said in blocks(baton, stored, raw):
        rows += [f"{prefix}{row}".rstrip() for row in (look.paint(who, "heading"), *(f"    {text}" for text in said), "")]
    with paged(ctx, baton):
        terminal.say_lines(rows[:-1])


def blocks(baton: Baton, stored: Stored, raw: bytes) -> list[tuple[str, list[str]]]:
    """Return the messages of a conversation: the speaker, and the lines, which drive no terminal and are to be indented, so
    that they can forge no message. Raises BatonError where there is none."""
    agent = stored.checkpoint.agent.name if stored.checkpoint.agent else ""
    of, found = client(agent), []
    for message in messages(of, raw) if of is not None else ():
        who = f"tool {plain(message.name)}:" if message.who == "tool" else f"{message.who}:"
        found.append((who, plain(message.text.replace("\r\n", "\n").strip("\n"), keep=KEPT).split("\n")))
    if not found:
        hint = f"'git baton transcript show --json {baton.short(stored.id)}' shows its lines as they are"
        raise BatonError(f"nothing can be shown of a conversation of {in_quotes(agent)}", hint)
    return found
