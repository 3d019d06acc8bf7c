"""The table of verbs: their names, groups and lines of help, and which one a command line means."""

from collections.abc import Callable, Sequence

# What ``git baton -h`` shows: a line of at most 60 characters a verb. One of two words stands under the first one.
GROUPS: dict[str, dict[str, str]] = {
    "every day": {
        "snapshot": "record what is done, what comes next, and all files",
        "resume": "print what the next runner needs to go on",
        "status": "show every track, where it is and how it stands",
        "log": "list what happened on a track, newest first",
        "diff": "show what changed since a checkpoint, or between two",
        "restore": "put files back as they were, losing nothing",
        "revert": "take back what a turn changed, and nothing else",
        "merge": "take in what another track did, and commit nothing",
        "undo": "take back the newest restore, revert or merge",
        "redo": "do again what undo took back",
        "rewind": "pick a turn, see what would change, take it back",
    },
    "look": {
        "show": "show one checkpoint whole",
        "blame": "show which checkpoint or commit each line came with",
        "why": "show the prompt and the words behind a line",
        "search": "find what was said and written, in all tracks",
        "overlap": "show where live tracks would not merge",
        "verify": "say whether HEAD is where the checkpoint left it",
        "page": "write what tracks did over time as one HTML file",
        "summary": "write what a track has done as Markdown",
        "bisect": "find the checkpoint that broke it",
        "worktree": "check a checkpoint out beside this work tree",
        "branch": "make a branch of a checkpoint",
        "transcript": "show or export the conversation up to a checkpoint",
    },
    "share": {
        "push": "push tracks to a remote, after a look for secrets",
        "fetch": "fetch tracks from a remote, changing none here",
        "sync": "fetch, join and push: both sides have everything",
        "export": "write LATEST, or every checkpoint, as files",
        "import": "take in a client's past conversations, or old files",
    },
    "keep": {
        "tracks": "list tracks; make one current, rename or delete one",
        "pin": "keep a checkpoint from every prune, and name it",
        "unpin": "take a pin back",
        "prune": "remove the checkpoints that no rule keeps",
        "forget": "remove checkpoints for good, in every clone",
        "du": "show what is stored costs on disk",
        "scan": "look for secrets in what is stored",
    },
    "agents": {
        "agent": "join agents on: install, uninstall, list, doctor",
        "mcp": "serve the main verbs to an MCP client",
        "pause": "silence the hooks of a repository for a while",
        "statusline": "print where the track stands in one line",
    },
    "runs": {
        "run": "run commands as steps that are done once",
        "run list": "list the runs: state, age, how many steps are done",
        "run show": "show the steps of a run, and what would run again",
        "run why": "say why a step would run again",
        "run repair": "do again what a mistake reaches, and nothing else",
        "run settle": "decide an outcome that nobody knows",
        "run approve": "open, or reject, the gate at which a step waits",
        "run compensate": "undo what steps did outside git",
        "run verify": "check whether the records of a run hold",
        "run export": "write the records of a run as files",
        "run prune": "drop finished runs",
    },
    "langgraph": {
        "thread list": "list the threads that are stored here",
        "thread log": "list a thread's checkpoints, newest first",
        "thread show": "show a checkpoint of a thread, its values readably",
        "thread delete": "delete a thread",
    },
    "care": {
        "install": "install hooks that warn when HEAD leaves a checkpoint",
        "uninstall": "take back what install did; --purge deletes all",
        "doctor": "say what is behind or broken, and what mends it",
        "drill": "prove recovery in a scratch copy",
        "completion": "print or install the completion of a shell",
        "help": "show the page of a verb, or a guide",
    },
    # Not for people, and not in the list.
    "": {"hook": "what hook scripts call; it never fails", "complete": "what the completion of a shell calls"},
}
VERBS: dict[str, str] = {name: text for verbs in GROUPS.values() for name, text in verbs.items()}
# Verbs by the names that they had before 0.2; they work through 0.3.x.
OLD = {
    "steps": "run show",
    "journal": "run show --records",
    "threads": "thread list",
    **{verb: f"run {verb}" for verb in ("repair", "settle", "approve", "compensate")},
}
# Verbs that stand in a file with others of their family.
FILES = {
    "": "status.standing",
    "revert": "restore.revert",
    "merge": "restore.merge",
    "undo": "restore.undo",
    "redo": "restore.redo",
    "why": "blame.why",
    "push": "exchange.push",
    "fetch": "exchange.fetch",
    "sync": "exchange.synchronize",
    "import": "export.take_in",
    "unpin": "pin.unpin",
    "run list": "run_journal.list_runs",
    "run verify": "run_journal.verify_run",
    "run export": "run_journal.export_run",
    "run prune": "run_journal.prune_runs",
    "run why": "run_show.why",
    "run settle": "run_decide.settle_step",
    "run approve": "run_decide.approve_step",
    "run compensate": "run_decide.compensate_steps",
    "thread list": "thread.list_threads",
    "thread log": "thread.log_thread",
    "thread show": "thread.show_thread",
    "thread delete": "thread.delete_thread",
    "uninstall": "install.uninstall",
    "complete": "completion.complete",
}
_VALUED = ("-p", "--step", "--output", "--keep", "--older")  # of journal
# Verbs that take something away for good: nobody is led to one by a slip of the finger.
DESTROY = ("prune", "forget", "uninstall", "run prune", "thread delete")


def find(words: "Sequence[str]") -> "tuple[str, list[str]]":
    """Split a command line into the verb that it begins with and the words after it; no verb where it is none.

    As in git the first word decides: ``run list`` is a verb, and a command or a run called ``list`` comes after an option.
    """
    name = " ".join(words[:2])
    if name in VERBS and len(words) > 1:
        return name, list(words[2:])
    return (words[0], list(words[1:])) if words and words[0] in VERBS else ("", list(words))


def below(name: str) -> dict[str, str]:
    """Return the verbs under a word, by their second words."""
    return {other.split()[1]: text for other, text in VERBS.items() if other.startswith(f"{name} ")}


def verb_function(name: str) -> "Callable[..., int]":
    """Import a verb and return its function; the parameters are its options. Of no verb: what ``git baton`` alone does."""
    import importlib

    module, _, function = FILES.get(name, f"{name.replace(' ', '_')}.command").partition(".")
    found: Callable[..., int] = getattr(importlib.import_module(f"gitbaton.cli.commands.{module}"), function)
    return found


def modern(words: list[str]) -> tuple[list[str], str]:
    """Replace the old name of a verb in a command line; return the line and the hint to print."""
    old, new, rest = words[0], OLD[words[0]], words[1:]
    if old == "steps" and (asked := [at for at, word in enumerate(rest) if word.partition("=")[0] == "--why"]):
        _, equals, step = rest.pop(asked[0]).partition("=")
        new, rest = "run why", [*([step] if equals else [rest.pop(asked[0])] if rest[asked[0] :] else []), *rest]
    if old == "journal":
        plain = [at for at, word in enumerate(rest) if word[:1] != "-" and (not at or rest[at - 1] not in _VALUED)]
        if plain and rest[plain[0]] in ("show", "verify", "export", "prune"):
            action = rest.pop(plain[0])
            old, new = f"{old} {action}", new if action == "show" else f"run {action}"
    return [*new.split(), *rest], f"'git baton {old}' is now 'git baton {new}'"
