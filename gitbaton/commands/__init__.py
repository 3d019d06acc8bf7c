"""The verbs: one module each, imported when it is called. Each has a function ``command`` whose parameters are its options."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

VERBS: tuple[tuple[str, str], ...] = (
    ("snapshot", "Record a checkpoint: what is done, what comes next, and the whole work tree."),
    ("resume", "Print what the next runner needs to go on."),
    ("verify", "Say whether HEAD is where the checkpoint left it."),
    ("status", "Show every track against the present."),
    ("log", "List the checkpoints of a track, newest first."),
    ("show", "Show one checkpoint whole."),
    ("diff", "Show what changed since a checkpoint, or between two, as git diff shows it."),
    ("restore", "Put the files back as they were at a checkpoint, losing nothing."),
    ("transcript", "Show or export the conversation up to a checkpoint."),
    ("undo", "Take back the newest restore of this work tree."),
    ("redo", "Carry out again what undo took back."),
    ("rewind", "Pick a checkpoint from a list, see what would be restored, and restore it."),
    ("bisect", "Find the checkpoint that broke it: run CMD in a scratch work tree."),
    ("run", "Run commands as steps that are done once, served while nothing changed, and recovered."),
    ("steps", "Show the steps of a run: their state, and what would run again and why."),
    ("repair", "Do again what a mistake reaches, and nothing else, undoing first what it did outside git."),
    ("settle", "Decide whether the effect of an interrupted step happened."),
    ("approve", "Open, or reject, the gate at which a step waits."),
    ("compensate", "Undo what steps did outside git, the dependents' effects first."),
    ("journal", "Look at the journal of a run, verify it, export it, drop finished runs."),
    ("threads", "List the threads of LangGraph that are stored here, newest first."),
    ("thread", "Show a checkpoint of a thread of LangGraph, its values readably, or list its checkpoints."),
    ("worktree", "Check a checkpoint out beside this work tree."),
    ("branch", "Make a branch of a checkpoint: its head plus one commit of the files."),
    ("tracks", "List the tracks; choose the current one: tracks use NAME; or tracks delete NAME."),
    ("push", "Push tracks to a remote: what it lacks, after asking and a look for secrets."),
    ("fetch", "Fetch tracks from a remote or a bundle, and change none of the tracks here."),
    ("sync", "Fetch, join and push: afterwards both sides have every checkpoint."),
    ("prune", "Remove the checkpoints that no rule keeps."),
    ("pin", "Exempt a checkpoint from every prune."),
    ("unpin", "Take a pin back."),
    ("forget", "Remove checkpoints for good, so that no clone brings them back."),
    ("scan", "Look for secrets in what is stored."),
    ("du", "Show what each track, the transcripts and the rest cost on disk."),
    ("drill", "Prove recovery: kill, lose the context, resume and restore, in a scratch copy."),
    ("install", "Install hooks that warn when HEAD leaves a checkpoint; keep notes through rewrites."),
    ("uninstall", "Take back what install did; --purge deletes every checkpoint, too."),
    ("doctor", "Say what would not run or is behind, and the line that mends it."),
    ("export", "Write LATEST again; --history writes every checkpoint as files."),
    ("import", "Take the checkpoints of an older, file-based folder into tracks."),
    ("agent", "Join coding agents on: install or uninstall their hooks, list them, check that they run."),
    ("mcp", "Serve snapshot, resume, verify, log, show and diff to an MCP client."),
    ("hook", "What hook scripts call; it never fails."),
)


def verb_module(name: str) -> "ModuleType":
    """The module of a verb."""
    import importlib
    import keyword

    return importlib.import_module(f"gitbaton.commands.{name}{'_' if keyword.iskeyword(name) else ''}")
