"""``git baton status``, its rows of what is at risk, and what ``git baton`` alone says."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from gitbaton.base import terminal
from gitbaton.base.codec import Json, bare, counted, in_quotes, path_document, plain, timestamp, usage_document
from gitbaton.base.errors import (
    AmbiguousNameError,
    BatonError,
    NotARepositoryError,
    NotFoundError,
    RecordError,
    UsageError,
)
from gitbaton.base.model import Live, Oid, Stored, TurnsUsage
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton, TrackStatus
from gitbaton.checkpoints.overlap import Overlap, Overlaps, at_hand
from gitbaton.checkpoints.render import (
    decisions_document,
    happened,
    in_shell,
    kept_here,
    line,
    live_document,
    passed,
    porcelain,
    quoted,
    stored_document,
    turns_tokens,
    uncompared,
    verdict,
)
from gitbaton.checkpoints.store import imported, state
from gitbaton.checkpoints.store.refs import CHAINS, CURRENT, TIPS
from gitbaton.cli.columns import brief, broken, width
from gitbaton.cli.commands.verify import since_head
from gitbaton.cli.common import (
    MOST,
    AsJson,
    Nul,
    Porcelain,
    amount,
    left_out,
    looking,
    one_of,
    opened,
    paged,
    picked,
    print_json,
    signature_of,
    warn_all,
)
from gitbaton.cli.look import Cell, Column, Look, step_of, tests_of, turn_document, turn_header, turn_sentence
from gitbaton.cli.options import Invocation, Option
from gitbaton.git.questions import worktrees
from gitbaton.git.reffiles import folders

if TYPE_CHECKING:
    from gitbaton.care.tools.atrisk import AtRisk, RiskRow
    from gitbaton.checkpoints.store.turns import UnderWay

TABLE = (
    Column(name="  TRACK", named=True),
    Column(name="WHERE", goes=3, named=True),
    Column(name="WHO", goes=4),
    Column(name="AGE", goes=1, right=True),
    Column(name="TESTS"),
    Column(name="DRIFT", goes=2),
    Column(name="OVERLAP", goes=1, named=True),
    Column(name="SINCE", goes=5),
    Column(name="STEP"),
)
NONE = "No checkpoints here yet."
BESIDE = 3  # lines of the screen that are no track: the heading, the last line, the prompt; one more where words are older
COLUMNS = ("current", "track", "id", "created", "validation", "drift", "step", "place", "since")


def command(
    ctx: Invocation,
    everything: Annotated[bool, Option("--all", help="Show every track, or row, however many there are.")] = False,
    risk: Annotated[
        bool, Option("--at-risk", help="Show what here no checkpoint holds, and what would take it; with --all every row.")
    ] = False,
    watch: Annotated[bool, Option("--watch", help="Draw it anew whenever something moves, until q or Ctrl-C.")] = False,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """Show every track: where it is, who was at work on it, how its tests stand and what moved since.

    The current track is the first, then the newest, as many as fit on the screen, or 50; a narrow one leaves columns out.
    DRIFT is what moved since its newest checkpoint, SINCE what happened since somebody wrote words for it. OVERLAP is in how
    many files the track would not merge with other live ones; 'git baton overlap' shows them.
    A track is held against the work tree that its newest checkpoint was taken in, while that exists. 'today' is what the turns
    of our tracks that ended today took in tokens, without those of subagents, as far as the client tells. The last line
    is a turn of it that goes on, or was cut short, and has changed files; 'git baton revert' takes it back.

    --at-risk lists what only this work tree has: what neither a checkpoint of its tracks nor HEAD holds, the largest first.
    REASON is ignored (by git), changed or new (since the newest checkpoint), secret, excluded, too-large and the like (left out
    of checkpoints), or uncommitted and unpushed (inside a submodule or nested repository: commits that no remote has). TAKEN BY
    is the mildest of 'git clean -fdx', 'git checkout .' and a dead disk that would take it. What is only staged is not looked
    at, nor what a nested repository ignores.

    Examples:
        git baton status
        git baton status --at-risk   # what would git clean take?
        git baton status --json
    """
    one_of(watch=watch, json=json, porcelain=stable or nul)
    one_of(**{"at-risk": risk, "watch": watch})
    if risk:
        return show_at_risk(ctx, everything=everything, json=json, stable=stable or nul, nul=nul)
    if watch:
        return _watch(ctx, everything=everything)
    with opened(ctx, talks="" if json or stable or nul else "comparing files") as baton:
        look = looking(ctx, baton)
        whole = everything or json or stable or nul
        tracks, tips = baton.status(brief=not json, most=None if whole else _room(look))
        going = open_turn(baton, tracks)
        beside = Overlaps() if stable or nul else at_hand(baton)
        if json:
            print_json(standing_document(baton, tracks, tips.items, going, beside))
        elif stable or nul:
            also = [turn_header(going)] if going else []
            terminal.write(porcelain(COLUMNS, map(_fields, tracks), nul=nul, foreign=[t.stored for t in tracks], more=also))
        elif tracks:
            terminal.say_lines(dashboard(baton, look, tracks, tips.items, going, beside, everything=everything))
        elif not tips.problems:
            begin(baton, look)
        warn_all(baton.newer([t.stored for t in tracks]))
    left_out(tips.problems)
    warn_all(list(dict.fromkeys(text for t in tracks for text in uncompared(t.live))))
    kept = [(t.stored.checkpoint.track, said) for t in tracks if (said := kept_here(t.stored.checkpoint.files))]
    warn_all([f"{in_quotes(track)}: {said}" for track, said in kept])
    if not tracks and tips.problems:
        raise baton.store.none()
    return 0


def _room(look: Look) -> int:
    """Return the number of tracks that a screen has room for, at most."""
    return MOST if look.rows is None else max(look.rows - BESIDE, 1)


def _watch(ctx: Invocation, *, everything: bool) -> int:
    """Draw the dashboard again when a ref, HEAD or an index of any work tree moves, or a session says something."""
    if not os.isatty(1) or os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("--watch draws on a terminal, and this is none", "git baton status")
    from gitbaton.cli.waiting import watch

    def draw() -> tuple[list[str], Callable[[], bool]]:
        with opened(ctx) as baton:
            ctx.obj, repo = replace(ctx.obj, repo=None), baton.repo
            files = ("HEAD", CURRENT, "index", os.path.join("logs", "HEAD"), os.path.join("baton", "sessions"))
            places = [os.path.join(git_dir, name) for _, git_dir, _ in worktrees(repo) for name in files]
            before = folders(repo, CHAINS, TIPS, *places)
            look = looking(ctx, baton)
            tracks, tips = baton.status(brief=True, most=None if everything else _room(look))
            going = open_turn(baton, tracks)
            beside = at_hand(baton)
            shown = dashboard(baton, look, tracks, tips.items, going, beside, everything=everything) if tracks else [NONE]
            torn = (f"{in_quotes(p.where)} is left out: {p.reason}" for p in tips.problems)
            lines = [*shown, *map(plain, torn), *map(plain, baton.store.unread.values())]
            baton.store.unread.clear()
        return lines, lambda: folders(repo, CHAINS, TIPS, *places) == before

    return watch(draw)


def standing_document(
    baton: Baton, tracks: Sequence[TrackStatus], tips: Sequence[Stored], going: "UnderWay | None", beside: Overlaps
) -> dict[str, Json]:
    """Return the JSON of how tracks stand; ``tips``: the newest checkpoints of all."""
    listed: list[Json] = [
        {
            "current": t.current,
            "checkpoint": stored_document(t.stored),
            "decisions": decisions_document(t.stored.checkpoint),
            "live": live_document(t.live),
            "place": None if t.place is None else path_document(t.place),
            **({"remotes": list(t.remotes)} if t.remotes else {}),
            **({"overlaps": [overlapped(one) for one in found]} if (found := _overlaps(t, beside)) else {}),
        }
        for t in tracks
    ]
    silent = state.paused(baton.repo, baton.clock())
    ends = None if silent is None or silent.until is None else timestamp(silent.until)
    paused: dict[str, Json] = {"paused": {"since": timestamp(silent.since), "until": ends}} if silent else {}
    used = used_today(baton, tips)
    today: dict[str, Json] = {"today": {"turns": used.turns, "untold": used.untold, **usage_document(used.usage)}}
    return {
        "tracks": listed,
        **paused,
        **({"open_turn": turn_document(going)} if going else {}),
        **(today if used.turns else {}),
    }


def used_today(baton: Baton, newest: Sequence[Stored]) -> TurnsUsage:
    """Return the tokens of the turns of our tracks, by their newest checkpoints, that ended today, by the local time."""
    midnight = baton.clock().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    tips = [s.commit for s in newest if s.checkpoint.created >= midnight and not s.foreign]
    if not tips:
        return TurnsUsage()
    from gitbaton.checkpoints.store.turns import turns_usage

    words = ("rev-list", "--first-parent", f"--since={int(midnight.timestamp())}", "--basic-regexp", '--grep=^  "turn": {')
    oids = baton.repo.git.run(*words, "--stdin", stdin="".join(f"{oid}\n" for oid in tips).encode()).out.decode("ascii").split()
    turns: dict[str, Stored] = {}
    for oid, found in zip(oids, baton.store.objects.read_many(oids), strict=True):
        with suppress(RecordError):
            stored = baton.store.stored(found, None, oid)
            turns[stored.id] = stored
    return turns_usage(turns.values())


def open_turn(baton: Baton, tracks: Sequence[TrackStatus]) -> "UnderWay | None":
    """Return the turn of the current track that is open in this work tree and has changed files."""
    first = next((t for t in tracks if t.current), None)
    return baton.under_way(first.stored.checkpoint.track) if first is not None and first.live.files_changed != 0 else None


def dashboard(
    baton: Baton,
    look: Look,
    tracks: Sequence[TrackStatus],
    tips: Sequence[Stored],
    going: "UnderWay | None",
    beside: Overlaps,
    *,
    everything: bool,
    option: str = "--all",
) -> Iterator[str]:
    """Yield the current track first, then the newest; one line each, as many as the screen takes; at last all of them, by
    their newest checkpoints, ``tips``, in one line, and where the words of the current one are older, what has happened since,
    and the open turn, ``going``. ``option``: what shows all."""
    tracks = sorted(tracks, key=lambda t: not t.current)
    first = tracks[0]
    older = first.current and first.stored.checkpoint.carried is not None
    back = plain(first.stored.restored) if first.current else ""
    silent = state.paused(baton.repo, look.now)
    used = turns_tokens(used_today(baton, tips))
    lines = older + bool(back) + bool(silent) + bool(going) + bool(used) if look.rows is not None else 0
    shown = tracks if everything else tracks[: max(_room(look) - lines, 1)]
    signed = _signed(baton, [t.stored for t in shown])
    rows = [_cells(baton, look, t, signed.get(t.stored.id, ""), beside) for t in shown]
    yield from look.table(TABLE, rows, heading=True)
    foreign, hidden = sum(s.foreign for s in tips), len(tips) - len(shown)
    parts = [
        counted(len(tips), "track"),
        f"{foreign} foreign" * bool(foreign),
        f"{hidden} not shown ({option})" * bool(hidden),
    ]
    said = ", ".join(filter(None, parts))
    if first.current:
        drift = ((f"{said}.  {bare(first.stored.checkpoint.track)}: ", ""), *look.drift(first.live, short=look.narrow))
        yield from look.table((Column(),), [(drift,)])
        if back:
            yield look.fit(look.mark(first.stored), back)
        if older:
            c = first.stored.checkpoint
            yield look.fit(look.mark(first.stored), f"since {happened(c, first.live.since, look.cut(brief(c.headline)))}")
    else:
        yield said
    if used:
        yield look.fit(f"today: {used}")
    if going is not None:
        yield look.fit(turn_sentence(going, look.cut(brief(going.span.prompt))))
    if silent:
        yield look.fit(f"{state.told_pause(silent)}; 'git baton pause --end' ends that")


def since_of(stored: Stored, live: Live) -> str:
    """Return what has happened since the words were written; empty where they are the checkpoint's own."""
    return passed(live.since) if stored.checkpoint.carried is not None and live.since is not None else ""


_JUDGED = 20  # foreign tracks of which the signature is looked at
_WORDS = {"good": "", "missing": "not signed", "untrusted": "key not trusted", "unchecked": "signature not checked"}


def _signed(baton: Baton, shown: Sequence[Stored]) -> dict[Oid, str]:
    """Return what is to be said of the signatures of the first foreign ones of these checkpoints: of a good one nothing."""
    found: dict[Oid, str] = {}
    foreign = [one for one in shown if one.foreign][:_JUDGED]
    tracks = {one.checkpoint.track for one in foreign}
    told = tracks if baton.settings.sign else baton.store.signed(tracks)
    for stored in [one for one in foreign if one.checkpoint.track in told]:
        signed = signature_of(baton, stored)
        found[stored.id] = _WORDS.get(signed.state, "bad signature") if signed is not None else ""
    return found


def _overlaps(t: TrackStatus, beside: Overlaps) -> tuple[Overlap, ...]:
    """Overlaps of a track, as it is here or at a remote."""
    track = t.stored.checkpoint.track
    return next(filter(None, map(beside.of, (track, *(f"{remote}/{track}" for remote in t.remotes)))), ())


def overlapped(one: Overlap) -> dict[str, Json]:
    """Return the JSON of an overlap beside its first track."""
    return {"track": one.other.name, "files": len(one.files) + one.more}


def overlap_words(found: Sequence[Overlap]) -> str:
    """Return the number of files in which a track overlaps, and with which other."""
    if not found:
        return ""
    files = len({file.mine.path for one in found for file in one.files}) + sum(one.more for one in found)
    return f"{counted(files, 'file')} with {plain(found[0].other.name) if len(found) == 1 else counted(len(found), 'track')}"


def _cells(baton: Baton, look: Look, t: TrackStatus, signed: str, beside: Overlaps) -> tuple[Cell | str, ...]:
    here, place = baton.repo.layout.root, t.place or ""
    where = os.path.relpath(place, here) if here and place else place
    overlaps = overlap_words(_overlaps(t, beside))
    if look.columns is not None and width(overlaps) > look.columns // 5:  # to which the column is cut
        overlaps = overlaps.partition(" with ")[0]
    return (
        look.track(t.stored, current=t.current),
        plain(", ".join(filter(None, (*t.remotes, signed))) if t.stored.foreign else where) or "-",
        _who(baton, look, t.stored),
        look.age(t.stored.checkpoint.created),
        tests_of(t.stored, t.live, look),
        look.drift(t.live, short=True),
        ((overlaps, "stale"),),
        since_of(t.stored, t.live),
        step_of(t.stored, look),
    )


def _fields(t: TrackStatus) -> tuple[str, ...]:
    c, said = t.stored.checkpoint, verdict(t.stored, t.live.since)
    head = ("*" if t.current else "", c.track, t.stored.id, timestamp(c.created), said)
    return (*head, str(t.live.drift), c.headline, t.place or "", since_of(t.stored, t.live))


def _who(baton: Baton, look: Look, stored: Stored) -> str:
    """Return the client that took a checkpoint, and whether its session is at work, as far as that is recorded here."""
    agent = stored.checkpoint.agent
    if agent is None or stored.foreign:
        return "-"
    from gitbaton.checkpoints.store.sessions import AT_WORK, last

    name, found = line(agent.name), last(baton.repo, agent) if agent.session else None
    if found is None:
        return name
    session, moment = found
    idle = look.now.timestamp() - moment
    if session.ended:
        return f"{name}, ended"
    return f"{name}, at work" if session.open and idle < AT_WORK else f"{name}, idle {look.lasting(idle)}"


RISK_TABLE = (
    Column(name="SIZE", right=True),
    Column(name="AGE", goes=2, right=True),
    Column(name="REASON"),
    Column(name="TAKEN BY", goes=1),
    Column(name="PATH"),
)
RISK_COLUMNS = ("size", "files", "commits", "changed", "reason", "by", "whole", "path")
TAKES = (("clean", "'git clean -fdx'"), ("checkout", "'git checkout .'"))
NOTHING = "nothing is at risk: checkpoints or HEAD hold all that is here"


def show_at_risk(ctx: Invocation, *, everything: bool, json: bool, stable: bool, nul: bool) -> int:
    """Print what only this work tree has."""
    with opened(ctx, talks="" if json or stable else "looking at files") as baton:
        import tempfile

        from gitbaton.care.tools.atrisk import at_risk

        with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
            found = at_risk(baton, folder)
        if json:
            print_json(_document(found))
        elif stable:
            terminal.write(porcelain(RISK_COLUMNS, map(_risk_fields, found.rows), nul=nul))
        elif not found.rows:
            terminal.say(NOTHING)
        else:
            with paged(ctx, baton) as look:
                shown = found.rows if everything else found.rows[:MOST]
                cells = [
                    (
                        ("" if row.whole else ">= ") + amount(row.size),
                        look.age(row.changed) if row.changed else "",
                        row.reason,
                        row.by,
                        quoted(row.path) + _counted(row),
                    )
                    for row in shown
                ]
                terminal.say_lines(look.table(RISK_TABLE, cells, heading=True))
                if len(shown) < len(found.rows):
                    terminal.say(f"and {len(found.rows) - len(shown):,} more (--all lists them)")
                terminal.say(_sum(found))
        if not (json or stable):
            for path in found.worktrees:
                place = in_shell(os.path.relpath(os.path.join(baton.repo.layout.root or "", path)))
                terminal.say(f"{quoted(path)} is a work tree of its own: git -C {place} baton status --at-risk")
    return 0


def _counted(row: "RiskRow") -> str:
    """Return the number of files or commits that a row stands for, where that is not one file."""
    if row.commits:
        return f" ({row.commits:,} commit{'s' * (row.commits != 1)})"
    if row.path.endswith("/") and (row.files or not row.whole):
        return f" ({row.files:,} file{'s' * (row.files != 1)})" if row.files else " (not looked into)"
    return ""


def _sum(found: "AtRisk") -> str:
    files, size, commits = found.taken()
    each = [f"{command} takes {many:,}" for by, command in TAKES if (many := found.taken(by)[0])]
    said = f"{files:,} file{'s' * (files != 1)}" + (f" and {commits:,} commit{'s' * (commits != 1)}" if commits else "")
    return f"{said}, {amount(size)}, that no checkpoint holds: {', '.join([*each, 'a dead disk all'])}"


def _document(found: "AtRisk") -> dict[str, Json]:
    rows = [
        {
            "path": path_document(row.path),
            **picked(row, "reason", "by", "size", "files", "commits"),
            "changed": timestamp(row.changed) if row.changed else None,
            "whole": row.whole,
        }
        for row in found.rows
    ]
    takers = {"clean": ("clean",), "checkout": ("checkout",), "disk": ()}
    sums = {name: dict(zip(("files", "size", "commits"), found.taken(*by), strict=True)) for name, by in takers.items()}
    return {"at_risk": rows, "sum": sums, "worktrees": [path_document(path) for path in found.worktrees]}


def _risk_fields(row: "RiskRow") -> tuple[str, ...]:
    numbers = (str(row.size), str(row.files), str(row.commits))
    return (*numbers, timestamp(row.changed) if row.changed else "", row.reason, row.by, "yes" if row.whole else "no", row.path)


INSTALL = ("git baton agent install claude", "let the agent do it")
MOVED = "'git baton diff' shows what changed since"
AWAY = "taken in another work tree; 'git baton restore --dry-run' shows what its files change here"
AWAY_FOREIGN = "taken in another work tree; 'git baton restore --foreign --dry-run' shows what its files change here"
NEXT = 'git baton snapshot "what is done" --next-cmd "what is next"'


def standing(ctx: Invocation) -> int:
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
    """Say how to begin, or how to choose a track, where none is current."""
    tips = baton.readable_tips()
    left_out(tips.problems)
    if not tips.items:
        if tips.problems:
            raise baton.store.none()
        begin(baton, look)
        return
    terminal.say(f"{counted(len(tips.items), 'track')}, and none is current in this work tree.")
    name = in_shell(tips.items[0].checkpoint.track)
    rows = [("git baton status", "shows them")]
    rows += _taking(baton, name) if tips.items[0].foreign else [(f"git baton tracks use {name}", "goes on with the newest")]
    _suggest(look, rows)


def begin(baton: Baton, look: Look) -> None:
    """Print that there is no checkpoint, and how to begin; what is installed already is not advised."""
    from gitbaton.agents.install import levels, plugins

    layout = baton.repo.layout
    try:
        found = plugins.rows(levels.places(os.environ, layout.root, layout.git_dir, baton.repo.shared_dir))
    except BatonError:
        found = []
    there = [row for row in found if row.state not in ("not installed", "off", "not taken")]
    terminal.say(NONE)
    past = len(imported.commits(baton.store))
    listed = [("git baton log --kind imported", f"list {counted(past, 'imported turn')}")] if past else []
    _suggest(look, [*listed, *_fetching(baton), (NEXT, "take one"), *([] if there or layout.root is None else [INSTALL])])
    if there:
        plugged = any(row.level == "plugin" for row in there) and baton.repo.boolean("baton.everywhere", default=True)
        acts = plugged or baton.repo.boolean("baton.everywhere") or any(row.level == "project" for row in there)
        names = ", ".join(dict.fromkeys(row.client.title for row in there))
        when = "at the end of a turn" if acts else "once there is one"  # a client that does not trust them runs none
        said = f"the hooks of {names} are installed, to act here {when}: 'git baton agent doctor' says whether they run"
        terminal.say_lines(broken(said, look.columns))


def _fetching(baton: Baton) -> list[tuple[str, str]]:
    """Return the command that fetches what was pushed, where there is a remote to ask."""
    from gitbaton.git.remotes import find

    try:
        find(baton.repo, None, baton.repo.layout.root or ".")
    except UsageError:
        return []
    return [("git baton fetch", "bring what others have pushed")]


def _taking(baton: Baton, name: str) -> list[tuple[str, str]]:
    """Return the commands that continue a fetched track."""
    files = [(f"git baton restore {name} --foreign", "its files")] if baton.repo.layout.root is not None else []
    return [(f"git baton resume --track {name}", "what is done and what comes next, in somebody else's words"), *files]


def _runs(baton: Baton) -> None:
    """Name the unfinished runs."""
    from gitbaton.runs.current import unfinished

    runs = unfinished(baton)
    if len(runs) > 1:
        terminal.say(f"{len(runs)} runs are not finished: git baton run list")
    elif runs:
        terminal.say(plain(f"run '{runs[0].run}' is not finished: {runs[0].command}"))


def _suggest(look: Look, rows: list[tuple[str, str]]) -> None:
    """Print commands, each with what it does, as far as that has room."""
    wide = max(len(words) for words, _ in rows)
    for words, what in rows:
        said = f"{words:{wide}}  {what}"
        terminal.say(said if look.columns is None or len(said) <= look.columns else words)


def _say(baton: Baton, look: Look, stored: Stored) -> None:
    live = baton.verify(stored.checkpoint.track)[1]
    c, mark = stored.checkpoint, look.mark(stored)
    name = (*mark, (plain(c.track), "current"))
    where = f"from {', '.join(map(plain, origins))}" if (origins := baton.store.origins(c.track)) else "from elsewhere"
    signed = signature_of(baton, stored) if stored.foreign else None
    where = f"{where}, {signed.words}" if signed is not None else where
    drift = ((where, "foreign"),) if stored.foreign else look.drift(live, short=look.narrow)
    since = f"  since the words: {said}" if (said := since_of(stored, live)) else ""
    tests = tests_of(stored, live, look)
    facts = (
        *(look.state("pending", "no tests known") if tests == look.state("pending") else tests),
        (f"  {look.ago(c.created)}  ", ""),
        *drift,
        (since, ""),
        (f"  {plain(stored.restored)}" if stored.restored else "", ""),
    )
    next_ = [((("next", "heading"),), (*mark, (line(c.next_cmd), "")))] if c.next_cmd else []
    terminal.say_lines(look.table((Column(named=True), Column()), [(name, step_of(stored, look)), ("", facts), *next_]))
    if stored.foreign:
        _suggest(look, _taking(baton, in_shell(c.track)))
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
