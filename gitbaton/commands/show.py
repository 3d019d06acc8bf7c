"""``git baton show``."""

import typer

from gitbaton import terminal
from gitbaton.codec import timestamp
from gitbaton.commands.common import AsJson, Newest, Track, checkpoint_of, opened, paged, print_json
from gitbaton.commands.retaining import marked
from gitbaton.model import FileState, Stored
from gitbaton.observed import pairs
from gitbaton.render import age, key_value, quote, quoted, resume_lines, stored_document
from gitbaton.survey import tests_then


def command(
    ctx: typer.Context,
    checkpoint: Newest = None,
    track: Track = None,
    json: AsJson = False,
) -> int:
    """Show one checkpoint whole.

    CHECKPOINT is a track (its newest), TRACK~3 (three before), 'TRACK@{2 hours ago}', an id or its first four or more digits,
    a label, a commit (the newest checkpoint its note names), or @ (the newest of the current track).
    """
    with opened(ctx) as baton:
        stored = checkpoint_of(baton, checkpoint, track)
        if json:
            print_json({"checkpoint": {**stored_document(stored), "pinned": marked(baton).pinned(stored.id)}})
            return 0
        with paged(ctx, baton) as paint:
            terminal.say(paint(f"checkpoint {stored.id}", "id"))
            ago = age(stored.checkpoint.created, baton.clock())
            marks = (("foreign=yes", stored.foreign_words), ("pinned=yes", marked(baton).pinned(stored.id)))
            for text in (text for text, on in marks if on):
                terminal.say(text)
            seen = pairs(stored.checkpoint.observed, tests_then(baton.store, stored), baton.told(stored))
            said = resume_lines(stored.checkpoint, stored.checkpoint.place.oid or "", None, "", observed=seen)
            rows = [*_head(stored, ago), *said]
            for text in quote([*rows, *_files(stored.checkpoint.files)], stored):
                terminal.say(text)
    return 0


def _head(stored: Stored, ago: str) -> list[str]:
    c = stored.checkpoint
    pairs = [("kind", c.kind), ("label", c.label or ""), ("created", f"{timestamp(c.created)} ({ago})")]
    pairs += [("previous", c.previous or ""), ("commit", stored.commit), ("base", stored.base or "")]
    if c.agent:
        pairs += [("agent", f"{c.agent.name} {c.agent.session or ''}".strip())]
    return [key_value(key, value) for key, value in pairs]


def _files(files: FileState | None) -> list[str]:
    if files is None:
        return ["files="]
    rows = [f"files={files.tree}", f"changed={files.changed}", f"index={files.index.tree}"]
    rows += [f"unmerged={files.index.unmerged}"] if files.index.unmerged else []
    rows += [f"flag={f.bits} {quoted(f.path)}" for f in files.index.flags]
    rows += [key_value("operation", files.operation.kind)] if files.operation else []
    rows += [f"skipped={s.reason} {quoted(s.path)}" for s in files.skipped]
    return rows + ([f"skipped_more={files.skipped_more}"] if files.skipped_more else [])
