"""What ``git baton`` alone says: where the current track stands, and the one most useful next command."""

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.cli.common import left_out, looking, opened, warn_all
from gitbaton.cli.look import Column, Look
from gitbaton.cli.options import Call
from gitbaton.codec import counted, plain
from gitbaton.commands.status import since_of, step_of, tests_of
from gitbaton.commands.verify import since_head
from gitbaton.errors import AmbiguousNameError, NotARepositoryError, NotFoundError, UsageError
from gitbaton.model import Stored
from gitbaton.render import in_shell, line, uncompared

BEGIN = (
    ('git baton snapshot "what is done" --next-cmd "what is next"', "take one"),
    ("git baton agent install claude", "let the agent do it"),
)
MOVED = "'git baton diff' shows what changed since"
AWAY = "taken in another work tree; 'git baton restore --dry-run' shows what its files change here"
AWAY_FOREIGN = "taken in another work tree; 'git baton restore --foreign --dry-run' shows what its files change here"
NEXT = 'git baton snapshot "what is done" --next-cmd "what is next"'


def command(ctx: Call) -> int:
    """Say where the current track stands, in five lines at most, and how to begin where there is none."""
    try:
        with opened(ctx) as baton:
            look = looking(ctx, baton)
            try:
                stored = baton.here(baton.tip())
            except (NotFoundError, AmbiguousNameError):
                _without(baton, look)
                _runs(baton)
            else:
                _say(baton, look, stored)
    except NotARepositoryError as error:
        if error.hints or ctx.obj.repo_root is not None:
            raise
        terminal.say(f"{plain(error.message)}")
        terminal.say("'git init' begins one; 'git baton -h' lists the verbs")
    return 0


def _without(baton: Baton, look: Look) -> None:
    """No track is current: how to begin, or how to choose one."""
    tips = baton.readable_tips()
    left_out(tips.problems)
    if not tips.items:
        terminal.say("No checkpoints here yet.")
        rows = [*_fetching(baton), *BEGIN]
    else:
        terminal.say(f"{counted(len(tips.items), 'track')}, and none is current in this work tree.")
        name = in_shell(tips.items[0].checkpoint.track)
        rows = [("git baton status", "shows them")]
        rows += _taking(name) if tips.items[0].foreign else [(f"git baton tracks use {name}", "goes on with the newest")]
    _suggest(look, rows)


def _fetching(baton: Baton) -> list[tuple[str, str]]:
    """How to come by what others have pushed, where there is a remote to ask."""
    from gitbaton.git.remotes import find

    try:
        find(baton.repo, None, baton.repo.layout.root or ".")
    except UsageError:
        return []
    return [("git baton fetch", "bring what others have pushed")]


def _taking(name: str) -> list[tuple[str, str]]:
    """How to go on from a track that was fetched."""
    return [
        (f"git baton resume --track {name}", "what is done and what comes next, in somebody else's words"),
        (f"git baton restore {name} --foreign", "its files"),
    ]


def _runs(baton: Baton) -> None:
    """What is to be gone on with besides a track."""
    from gitbaton.running.current import unfinished

    runs = unfinished(baton)
    if len(runs) > 1:
        terminal.say(f"{len(runs)} runs are not finished: git baton run list")
    elif runs:
        terminal.say(plain(f"run '{runs[0].run}' is not finished: {runs[0].command}"))


def _suggest(look: Look, rows: list[tuple[str, str]]) -> None:
    """Commands, each with what it does, as far as that has room."""
    wide = max(len(words) for words, _ in rows)
    for words, what in rows:
        said = f"{words:{wide}}  {what}"
        terminal.say(said if look.columns is None or len(said) <= look.columns else words)


def _say(baton: Baton, look: Look, stored: Stored) -> None:
    live = baton.verify(stored.checkpoint.track)[1]
    c, mark = stored.checkpoint, look.mark(stored)
    name = (*mark, (plain(c.track), "current"))
    where = f"from {', '.join(map(plain, origins))}" if (origins := baton.store.origins(c.track)) else "from elsewhere"
    drift = ((where, "foreign"),) if stored.foreign else look.drift(live)
    since = f"  since the words: {said}" if (said := since_of(stored, live)) else ""
    facts = (
        *tests_of(stored, live, look),
        (f"  {look.age(c.created)}  ", ""),
        *drift,
        (since, ""),
        (f"  {plain(stored.restored)}" if stored.restored else "", ""),
    )
    next_ = [((("next", "heading"),), (*mark, (line(c.next_cmd), "")))] if c.next_cmd else []
    for text in look.table((Column(named=True), Column()), [(name, step_of(stored, look)), ("", facts), *next_]):
        terminal.say(text)
    if stored.foreign:
        _suggest(look, _taking(in_shell(c.track)))
    elif any(not word.word.startswith("committed:") for word in live.drift.words):
        if c.files is None or baton.repo.layout.root is None or c.files.worktree.same(baton.repo.worktree_id()):
            terminal.say(since_head(baton, stored, live) or MOVED)
        else:
            terminal.say(AWAY_FOREIGN if stored.foreign_words else AWAY)
    elif not c.next_cmd:
        terminal.say(NEXT)
    if not stored.foreign:  # five lines may be taken
        _runs(baton)
    warn_all([*uncompared(live), *baton.newer([stored])])
