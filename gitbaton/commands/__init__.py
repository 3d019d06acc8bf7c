"""The verbs: one module each, imported when it is called. Each has a function ``command`` for typer."""

AFTER = "gitbaton.after"  # how many words stood after `--`, in typer's context; None without it

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
    ("worktree", "Check a checkpoint out beside this work tree."),
    ("branch", "Make a branch of a checkpoint: its head plus one commit of the files."),
    ("tracks", "List the tracks, or choose the current one: tracks use NAME."),
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
