"""``git baton show``."""

from gitbaton import terminal
from gitbaton.cli.common import AsJson, Newest, Track, checkpoint_of, opened, paged, print_json
from gitbaton.cli.options import Call
from gitbaton.commands.retaining import marked
from gitbaton.model import FileState
from gitbaton.render import key_value, observed_pairs, quote, quoted, resume_lines, stored_document
from gitbaton.survey import tests_then


def command(
    ctx: Call,
    checkpoint: Newest = None,
    track: Track = None,
    json: AsJson = False,
) -> int:
    """Show one checkpoint whole.

    CHECKPOINT is a track (its newest), TRACK~3 (three before), 'TRACK@{2 hours ago}', an id or its first four or more digits,
    a label, the name that pin gave, a commit (the newest checkpoint its note names), @ (the newest of the current track, or of
    the only one), or REMOTE/TRACK (what was fetched of it).

    Examples:
        git baton show
        git baton show parser~1
        git baton show "parser@{manual}"
    """
    with opened(ctx) as baton:
        stored = checkpoint_of(baton, checkpoint, track)
        if json:
            print_json({"checkpoint": {**stored_document(stored), **marked(baton).document(stored.id)}})
            return 0
        c = stored.checkpoint
        with paged(ctx, baton) as look:
            terminal.say(look.paint(f"checkpoint {stored.id}", "id"))
            pins = marked(baton)
            marks = [("foreign=yes", stored.foreign_words), ("pinned=yes", pins.pinned(stored.id))]
            marks += [(key_value("name", name), True) for name in (pins.names.get(stored.id),) if name]
            for text in (text for text, on in marks if on):
                terminal.say(text)
            head = [
                ("kind", c.kind),
                ("label", c.label or ""),
                ("created", look.beside(c.created)),
                ("previous", c.previous or ""),
            ]
            head += [("commit", stored.commit), ("base", stored.base or "")]
            head += [("agent", f"{c.agent.name} {c.agent.session or ''}".strip())] if c.agent else []
            stands = baton.with_standing(stored)  # where chains were joined: numbered as 'resume' numbers them
            seen = observed_pairs(c.observed, tests_then(baton.store, stored), baton.told(stored))
            changes = baton.decision_changes(stands)
            said = resume_lines(stands.checkpoint, c.head or "", None, "", observed=seen, changes=changes)
            said += [key_value("withdrew", f"{one.number}: {one.text}") for one in baton.withdrew(stored)]
            for text in quote([*(key_value(*pair) for pair in head), *said, *_files(c.files)], stored):
                terminal.say(text)
    return 0


def _files(files: FileState | None) -> list[str]:
    if files is None:
        return ["files="]
    rows = [f"files={files.tree}", f"changed={files.changed}", f"index={files.index.tree}"]
    rows += [f"unmerged={files.index.unmerged}"] if files.index.unmerged else []
    rows += [f"flag={f.bits} {quoted(f.path)}" for f in files.index.flags]
    rows += [key_value("operation", files.operation.kind)] if files.operation else []
    rows += [f"skipped={s.reason} {quoted(s.path)}" for s in files.skipped]
    return rows + ([f"skipped_more={files.skipped_more}"] if files.skipped_more else [])
