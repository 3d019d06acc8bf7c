"""``git baton push``, ``fetch`` and ``sync``: the exchange, the question before a first push, words and JSON."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Annotated, Optional, Union

from gitbaton.base import terminal
from gitbaton.base.codec import Json, bare, check_track, counted, in_quotes, path_document, plain, timestamp
from gitbaton.base.errors import MENDS, RecordError, UsageError
from gitbaton.base.values import replace
from gitbaton.care import sync
from gitbaton.care.sync.items import Choice, Exposure, Fetched, Gathered, Item, Joined, Joining, Move, Pushing, called, said
from gitbaton.care.sync.push import Manner
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, in_shell, some
from gitbaton.checkpoints.store import chain_ref
from gitbaton.checkpoints.store.join import marks
from gitbaton.cli.columns import brief
from gitbaton.cli.common import (
    AsJson,
    Verbose,
    amount,
    askable,
    broken_document,
    confirmed,
    looking,
    opened,
    picked,
    print_json,
    say_broken,
    summed,
    tell_error,
    warn_all,
)
from gitbaton.cli.look import Cell, Look
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.git.remotes import Connection, Remote, configured, configured_names, find, temporary_folder
from gitbaton.langgraph.threads.names import LATE

Tracks = Annotated[
    Optional[list[str]], Option("--track", metavar="NAME", help="Only this track, as a TRACK after REMOTE; may repeat.")
]
Timeout = Annotated[float, Option(metavar="SECONDS", help="How long the whole exchange may take.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask before a first push.")]
Scan = Annotated[bool, Option("--scan/--no-scan", help="Look for secrets in what the remote lacks.")]
DryRun = Annotated[bool, Option("--dry-run", "-n", help="Print the plan; change nothing here or there.")]
TIMEOUT = 60.0
_NAMED = 20  # threads and unfiltered files that are named; there may be thousands
_NEWS = ("new", "newer", "rewritten")
_NEAR = 50  # checkpoints of a track among which the one is looked for on top of which the newest was made
_ITEMS = {"track": ("{}", "track"), "run": ("{}", "run"), "thread": ("{}", "thread"), "": ("{}", "other ref")}


@contextmanager
def exchange(
    baton: Baton,
    verb: str,
    words: Optional[list[str]],
    tracks: Optional[list[str]],
    seconds: float,
    *,
    dry_run: bool = False,
    transcripts: bool = False,
    threads: bool = False,
    runs: bool = False,
    prune: bool = False,
) -> Iterator[tuple[Remote, Connection, Choice]]:
    """Open the exchange with the remote that the first word means, and the choice of the other words and options, after others
    of this repository; in a dry run what comes lands in a folder that is removed. Raises UsageError."""
    remote = _remote(baton, words[0] if words else None, verb, threads=threads)
    named = [*(words or [])[1:], *(tracks or [])]
    # With threads only sync.named tells what names mean.
    chosen = tuple(dict.fromkeys(check_track(word) for word in ([] if threads else named))) or None
    choice = Choice(tracks=chosen, transcripts=transcripts, threads=threads, runs=runs, prune=prune)
    if not 0 < seconds < 1e9:
        raise UsageError(f"--timeout is '{seconds:g}'; it must be a number of seconds above 0")
    with temporary_folder() if dry_run else nullcontext() as folder:
        if folder is not None:
            baton.redirect(folder)
        line = Connection(baton.repo, remote, seconds, prompts=askable())
        places = remote.push if verb == "push" else (None,)
        with closing(line), nullcontext() if dry_run else line.turn():
            choice = sync.named(baton, line, choice, named, ours=verb != "fetch", places=places, write=not dry_run)
            yield remote, line, choice


def _remote(baton: Baton, word: Optional[str], verb: str, *, threads: bool) -> Remote:
    """Return the remote that a word means. Raises UsageError, which says so where it is a track, or one of the ``threads``."""
    marks = (os.path.join(word or "", name) for name in ("HEAD", ".git"))  # a folder that is called like a track has neither
    there_is = word is not None and (os.path.isfile(word) or any(map(os.path.exists, marks)))
    config = configured(baton.repo)
    if word is not None and not there_is and word not in configured_names(config):
        kind = "track" if word in baton.store.chains()[0] else "thread" if threads and sync.is_thread(baton, word) else ""
        if kind:
            said, there = f"{in_quotes(word)} is a {kind} and no remote", configured_names(config)
            if not there:
                raise UsageError(said, "no remote is configured: name a URL or a path before it")
            option = f"--threads {in_shell(there[0])}" if threads else "--track"
            raise UsageError(said, f"to {verb} only that: git baton {verb} {option} {in_shell(word)}")
    remote = find(baton.repo, word, os.getcwd(), pushing=verb == "push", config=config)
    if verb == "push" and not remote.push:
        raise UsageError(f"{in_quotes(remote.shown)} is a bundle, which cannot be pushed to", "git bundle create makes one")
    return remote


def ask_consent(remote: Remote, public: Exposure, *, yes: bool) -> bool:
    """Return the answer to the question before a first push: --yes, or what is said on a terminal; without one it is no."""
    _say_public(remote, public)
    return yes or (askable() and confirmed("push?"))


def _say_public(remote: Remote, public: Exposure) -> None:
    """Say on standard error which data a first push makes public."""
    names = [*(in_quotes(track) for track in public.tracks), *(f"run '{run}'" for run in public.runs)]
    terminal.tell(
        f"first push of {_listed(names, public.threads)} to {bare(remote.shown)}; beyond what its refs hold this makes public:"
    )
    counts = (
        (public.checkpoints, "checkpoint"),
        (public.commits, "unpublished commit"),
        (len(public.untracked), "untracked file"),
    )
    parts = [
        *(counted(many, noun) for many, noun in counts if public.tracks),
        *([f"{counted(public.records, 'record')} with what the steps read, wrote and printed"] if public.runs else []),
        *([f"{counted(public.states, 'checkpoint')} of threads with all their values"] if public.threads else []),
        *(
            [f"{counted(public.conversations, 'conversation')}, redacted, with all that was said"]
            if public.conversations
            else []
        ),
        amount(public.bytes),
    ]
    terminal.tell("  " + ", ".join(parts))
    if public.untracked:
        terminal.tell(f"  untracked: {some(len(public.untracked), first_few(public.untracked))}")
    if public.secret_files:
        terminal.tell(
            f"  by their names these files hold secrets: {some(len(public.secret_files), first_few(public.secret_files))}"
        )
    for text in public.kept:
        terminal.tell(f"  {text}")
    if public.observed:
        kept = "the agent's plan, test commands with their results, edited files, first lines of prompts"
        terminal.tell(f"  {public.observed} of the checkpoints tell what was observed: {kept} ('git config baton.observe')")


def _listed(names: Sequence[str], threads: Sequence[str]) -> str:
    """Join names, and those of the first few threads."""
    shown = [*names, *(called((thread, "")) for thread in threads[:_NAMED])]
    left = len(threads) - _NAMED
    return ", ".join(shown) + (f" and {counted(left, 'more thread')}" if left > 0 else "")


def _full(item: Item) -> str:
    """Describe an item by its kind and its name."""
    return called(item[1:]) if item[0] == "thread" else f"{item[0]} {in_quotes(item[1])}"


def _brief(look: Look, item: Item) -> str:
    """Describe it at the beginning of a line, where a track's name stands alone, and is no longer than a third of it."""
    return look.short(item[1]) if item[0] == "track" else _full(item)


def say_gathered(look: Look, remote: Remote, found: Gathered, *, verbose: bool, news_only: bool = False) -> None:
    """Print one line for each track, run and thread of a fetch; of many how many."""
    there = plain(remote.shown)
    rows = [row for row in found.rows if row.state != "broken" and not (news_only and row.state == "same")]
    texts = (
        (row.state, look.fit(f"{_brief(look, row.item)}: {_fetched_text(row, there)}", *_fetched_step(row))) for row in rows
    )
    words = {state: (f"{{}} {state}", "") for state in ("new", "newer", "rewritten", "same", "gone", "pruned")}
    terminal.say_lines(summed(texts, words, verbose=verbose, lists="--verbose"))
    for row in found.rows:
        if row.state == "broken":
            terminal.warn(f"{_full(row.item)} of {there} is left out: {row.reason}")
        if not news_only:
            _say_late(row)
    for ref in found.strange:
        terminal.warn(f"{in_quotes(ref)} of {there} is left out: the name is not one that gitbaton writes")


def _fetched_step(row: Fetched) -> tuple[str | Cell, ...]:
    """Return the step of the newest checkpoint of a track that has news; it is not ours."""
    news = row.item[0] == "track" and row.state in _NEWS
    return (": ", (("> ", "foreign"), (brief(row.step), ""))) if news else ()


def _fetched_text(row: Fetched, there: str) -> str:
    """Describe the state of an item of the remote ``there``."""
    kind = row.item[0]
    many = counted(row.count, "record" if kind == "run" else "checkpoint")
    return {
        "new": f"new, {many}",
        "newer": f"{row.count} newer" if row.count or kind != "thread" else "newer writes",
        "rewritten": f"rewritten, {many if kind == 'run' else f'{row.count} newer'}",
        "same": "same",
        "gone": f"gone at {there}",
        "pruned": f"gone at {there}, and what was fetched of it, too",
    }[row.state]


def _say_late(row: Union[Fetched, Joined]) -> None:
    """Warn of each checkpoint of a track from the future."""
    for item in row.late:
        terminal.warn(
            f"checkpoint {item.id} of {in_quotes(row.item[1])} is from the future ({timestamp(item.created)}):"
            " it is not joined before then"
        )


def say_joining(look: Look, baton: Baton, found: Joining, current: Optional[str], *, verbose: bool, dry_run: bool) -> None:
    """Print one line for each track and thread that changed; of many how many. ``current``: the current track before."""
    would, texts = "would be " if dry_run else "", list[tuple[str, str]]()
    for row in found.rows:
        counts = ((row.added, "joined"), (row.changed, "changed"), (row.removed, "removed"))
        parts = ", ".join(f"{count} {would}{what}" for count, what in counts if count)
        was = f" (was {baton.short(row.was)})" if row.was is not None and (row.removed or row.changed) else ""
        back = "; it was deleted here, and went on there" if row.back else ""
        if parts:
            texts.append((row.item[0], look.fit(f"{_brief(look, row.item)}: {parts}{was}{back}")))
    terminal.say_lines(summed(texts, _ITEMS, start=f"{would}joined: ", verbose=verbose, lists="--verbose"))
    for row in found.rows:
        if row.problem:
            terminal.warn(f"{_full(row.item)} is not joined: {row.problem}")
        _say_late(row)
        if row.removed and row.item[0] == "track" and not dry_run and not baton.store.has(row.item[1]):
            back = (
                f"'git baton tracks restore {in_shell(row.item[1])}' brings back what was deleted elsewhere, while git has it"
            )
            terminal.tell(f"hint: {back}")
            if row.item[1] == current and baton.current() is None:
                terminal.tell(f"hint: {in_quotes(current)} was the current track; another one: git baton tracks use NAME")
    if not dry_run:
        _say_parallel(baton, [row.item[1] for row in found.rows if row.added and not row.new and row.item[0] == "track"])
    warn_all(found.warnings)


def _say_parallel(baton: Baton, tracks: Sequence[str]) -> None:
    """Hint at tracks that continued on both sides: the newest checkpoint does not hold the files of the one below, as each was
    recorded on top of another one."""
    store = baton.store
    tips = {ref: oid for ref, oid in store.pointing([chain_ref(track) for track in tracks]).items() if oid.strip("0")}
    walks = store.walks([*tips.values()], _NEAR) if tips else {}
    for track in tracks:
        oids = walks.get(tips.get(chain_ref(track), ""), [])  # none where it was deleted since
        ids = [mark[1] for mark in marks(store, oids) if mark is not None]
        tip = baton.store.own_tip(track) if len(ids) > 1 else None
        followed = tip.checkpoint.previous if tip is not None else None
        if tip is None or tip.id != ids[0] or followed is None or followed == ids[1] or followed not in ids:
            continue
        newest, other = baton.short(ids[0]), baton.short(ids[1])
        said = f"{in_quotes(track)} went on at both sides: {newest} was not made on top of {other}, and has not its files"
        terminal.tell(f"hint: {said}; 'git baton diff {other} {newest}' compares them")
        terminal.tell(f"hint: to merge them with git: 'git baton branch other-side {other}' makes a branch of one")


def say_pushing(
    look: Look, baton: Baton, remote: Remote, done: Pushing, *, verbose: bool, dry_run: bool, hint: str = ""
) -> None:
    """Print the moves of a push, of many how many, and why it, or a part of it, was refused. ``hint``: for what was refused."""
    would = "would " if dry_run else ""
    rows = [(move.kind, look.fit(plain(would + _push_text(look, move)))) for move in done.moves if move.changes]
    if dry_run and done.exposure is not None:
        _say_public(remote, done.exposure)
    if not done.failure and (dry_run or not (done.hits or _halted(done))):
        terminal.say_lines(summed(rows, _ITEMS, start=f"{would}push ", verbose=verbose, lists="--verbose"))
        if done.contents:
            terminal.say(f"{would}push the content of {counted(done.contents, 'file')} by git-lfs")
        if not (rows or done.refused):  # else what follows says what did not go
            terminal.say("nothing to push")
        elif done.bytes is not None:
            terminal.say(f"{'would send' if dry_run else 'sent'} {amount(done.bytes)}")
    warn_all(done.warnings)
    refused = [move for move in done.moves if move.action == "refused"]
    for move in refused:
        terminal.tell(f"refused: {plain(move.reason)}")
    for text in dict.fromkeys(move.hint or hint for move in refused):
        if text and text != MENDS:
            terminal.tell(f"hint: {text}")
    if done.failure:
        tell_error(f"not pushed: {done.failure}", ())
    if done.keeps:
        why = f"{in_quotes(remote.shown)} keeps {done.keeps}: it refuses rewriting"
        tell_error(why, ("whoever runs it can let our refs be rewritten or remove them there",))
    if done.hits:
        _tell_hits(baton, done)
    if done.declined or done.private:
        names = [in_quotes(track) for track in done.declined]
        what = "nothing is pushed" if _halted(done) else "not pushed: " + _listed(names, done.private)
        tell_error(f"{what}: nobody agreed to make it public", ("--yes agrees; so does 'git config baton.push true'",))


def say_broken_refs(broken: Mapping[str, str], pushed: Sequence[Pushing] = ()) -> None:
    """Print the refs here that were left alone because they are broken, with reasons, and the hint that mends them and the refs
    that were refused already."""
    refused = {move.ref for part in pushed for move in part.moves if move.broken}
    if say_broken({ref: why for ref, why in broken.items() if ref not in refused}) and refused:
        terminal.tell(f"hint: {MENDS}")


def _push_text(look: Look, move: Move) -> str:
    """Describe a push of one ref."""
    name = move.ref if not move.item else look.quoted(move.name) if move.kind == "track" else _full(move.item)
    name = f"late writes of {name}" if move.ref.startswith(LATE) else name
    counts = ((move.count, "record" if move.kind == "run" else "checkpoint"),)
    removed = [f"{move.dropped} removed"] if move.dropped and move.action in ("rewrite", "delete") else []
    private = ((move.commits, "unpublished commit"), (move.untracked, "untracked file"))
    made, hidden = ([counted(many, noun) for many, noun in pairs if many] for pairs in (counts, private))
    said = "; ".join(", ".join(part) for part in ([move.action, *made, *removed], hidden) if part)
    return f"push {name}: {said}{f' [{move.ref}]' if name != move.ref else ''}"


def _tell_hits(baton: Baton, done: Pushing) -> None:
    """Print the place of each secret, and the hints."""
    from gitbaton.care.scanning import UNFILTERED, held, scanner
    from gitbaton.cli.commands.finding import REMOVE, forgets, hit_place, placed, removes, unfiltered_hints

    text = scanner(baton).text
    open_hits = [hit for hit in done.hits if hit.kind == UNFILTERED]
    for hit in open_hits[:_NAMED]:
        terminal.tell(f"unfiltered: {text(hit_place(baton, hit))} holds bytes that did not pass its filter")
    if len(open_hits) > _NAMED:
        terminal.tell(f"and {len(open_hits) - _NAMED} more")
    if open_hits:
        many = len(open_hits)
        files = "1 file that did not pass its filter" if many == 1 else f"{many} files that did not pass their filters"
        tell_error(f"nothing is pushed: {files} would leave", unfiltered_hints(baton, open_hits))
    places = list(placed(baton, [hit for hit in done.hits if hit.kind != UNFILTERED]))
    if not places:
        return
    for hit, state in places:
        which = "checkpoint " if hit.checkpoint else ""
        terminal.tell(f"secret: {which}{text(hit_place(baton, hit, state))}: {hit.kind} {plain(hit.shown)}".rstrip())
    hints = (
        "'git config --add baton.redactAllow REGEX' names what is none",
        *forgets(baton, held(baton, [hit for hit, _ in places])[0]),
        *([REMOVE] if removes(places) else []),
        *([] if open_hits else ["--no-scan pushes all the same"]),
    )
    tell_error(f"nothing is pushed: {counted(len(places), 'secret')} would leave", hints)


def _halted(done: Pushing) -> bool:
    """Whether a push sent nothing for lack of consent."""
    moves = [move for move in done.moves if move.item]
    return any(move.name in (done.private if move.kind == "thread" else done.declined) for move in moves)


def gathered_document(found: Gathered) -> dict[str, Json]:
    """Return the JSON object of a fetch."""
    names = ("state", "count", "reason")
    return {
        "tracks": _documents(found.rows, "track", "state", "count", "step", "reason"),
        "runs": _documents(found.rows, "run", *names),
        "threads": _documents(found.rows, "thread", *names),
        "left_out": list(found.strange),
        "others": found.others,
        "broken": broken_document(found.apart),
    }


def joining_document(found: Joining) -> dict[str, Json]:
    """Return the JSON object of a join."""
    tracks = _documents(found.rows, "track", "added", "removed", "was", "problem")
    threads = _documents(found.rows, "thread", "added", "changed", "removed", "was", "back", "problem")
    return {"tracks": tracks, "threads": threads, "warnings": list(found.warnings)}


def _documents(rows: Sequence[Union[Fetched, Joined]], kind: str, *names: str) -> list[Json]:
    """Return the JSON objects of the items of a kind: the item, and some attributes by their names."""
    found: list[Json] = []
    for row in (row for row in rows if row.item[0] == kind):
        late = [{"id": item.id, "created": timestamp(item.created)} for item in row.late]
        found.append({**_named(row.item), **picked(row, *names), **({"future": late} if kind == "track" else {})})
    return found


def _named(item: Item) -> dict[str, Json]:
    """Return the attributes of a JSON object that name an item."""
    return dict(zip((*item[:1], "namespace"), item[1:], strict=False))


def _by_name(public: Exposure) -> dict[str, Json]:
    return {"secret_files": [path_document(path) for path in public.secret_files]} if public.secret_files else {}


def pushing_document(done: Pushing) -> dict[str, Json]:
    """Return the JSON object of a push to one place."""
    public = (
        "tracks",
        "checkpoints",
        "commits",
        "untracked",
        "bytes",
        "runs",
        "records",
        "threads",
        "states",
        "observed",
        "conversations",
    )
    unnamed: dict[str, Json] = {"track": None, "run": None, "thread": None, "namespace": ""}
    counts = ("new", "count", "dropped", "forgotten", "commits", "untracked", "reason")
    same = (
        Move(ref=chain_ref(track), item=("track", track), action="same", seen=tip, new=tip) for track, tip in done.same.items()
    )
    tracks = sorted((*same, *(move for move in done.moves if move.kind == "track")), key=lambda move: move.name)
    moves = [
        {"ref": move.ref, **unnamed, **_named(move.item), "action": move.action, "old": move.seen, **picked(move, *counts)}
        for move in (*tracks, *(move for move in done.moves if move.kind != "track"))
    ]
    return {
        "moves": moves,
        "first": {**picked(done.exposure, *public), **_by_name(done.exposure)} if done.exposure is not None else None,
        "bytes": done.bytes,
        **picked(done, "declined", "private"),
        "hits": [picked(hit, "checkpoint", "commit", "path", "line", "kind") for hit in done.hits],
        **picked(done, "warnings", "failure", "keeps", "contents"),
        "broken": broken_document(done.apart),
    }


def push(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL or a path; default: as git chooses."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[
        bool, Option("--with-transcripts", help="Also push the conversations that the checkpoints name.")
    ] = False,
    threads: Annotated[bool, Option("--threads", help="Also push threads: all, or those that are named.")] = False,
    runs: Annotated[bool, Option("--runs", help="Also push the journals of runs.")] = False,
    prune: Annotated[bool, Option("--prune", help="Delete threads there that were deleted here.")] = False,
    yes: Yes = False,
    scan: Scan = True,
    timeout: Timeout = TIMEOUT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Push tracks to a remote, by default all: what it lacks, with pins, tombstones and notes.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named go.
    The first push of a track, run or thread shows what becomes public and asks; without a terminal it needs --yes or
    baton.push. Where the remote has checkpoints that are not here, it is refused: 'git baton sync'.

    REMOTE is a configured name, a URL or a path; without it the one that git would push to. The question names what becomes
    public beyond the branches of the remote: commits, untracked files, bytes. A clone's own first push asks, too, where it
    would make such private things public.

    Every message, file and file name that the remote lacks is looked through for secrets first (in files only for formats that
    nothing else has, in compressed ones for none), and one stops the push, unless --no-scan is given. Safety checkpoints are
    never sent. --timeout bounds the whole exchange (60 seconds). Exits with 1 when the remote refuses or cannot be reached.

    Examples:
        git baton push origin --dry-run
        git baton push origin parser --yes
    """
    if prune and not threads:
        raise UsageError("--prune deletes threads, and needs --threads")
    kinds = {"transcripts": transcripts, "threads": threads, "runs": runs, "prune": prune}
    with (
        opened(ctx, dry_run=dry_run, talks="" if json else "looking at tracks") as baton,
        exchange(baton, "push", words, track, timeout, dry_run=dry_run, **kinds) as (remote, line, choice),
    ):
        done = sync.push(
            baton,
            line,
            choice,
            Manner(agree=partial(ask_consent, remote, yes=yes), scan=scan, write=not dry_run),
        )
        if json:
            print_json({"remote": remote.shown, "dry_run": dry_run, "places": [pushing_document(part) for part in done]})
        else:
            look, hint = looking(ctx, baton), f"git baton sync {in_shell(remote.shown)}"
            for part in done:
                say_pushing(look, baton, remote, part, verbose=verbose, dry_run=dry_run, hint=hint)
            say_broken_refs({ref: why for part in done for ref, why in part.apart.items()}, done)
    return 1 if any(part.refused for part in done) else 0  # something did not reach the remote that should have


def fetch(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL, a path or a bundle's file."),
    ] = None,
    track: Tracks = None,
    prune: Annotated[bool, Option("--prune", help="Drop what was fetched of what is gone there.")] = False,
    transcripts: Annotated[bool, Option("--with-transcripts", help="Also fetch conversations.")] = False,
    threads: Annotated[bool, Option("--threads", help="Also fetch threads: all, or those that are named.")] = False,
    runs: Annotated[bool, Option("--runs", help="Also fetch the journals of runs.")] = False,
    timeout: Timeout = TIMEOUT,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Fetch tracks from a remote, by default all, and change none of the tracks here.

    They land below refs/baton/remotes/. 'git baton sync' joins them, and so does the first snapshot of a track that is only
    there. With --threads a name that is no track there is a thread's: then only the threads and tracks that are named come.

    What is only fetched is shown as foreign. --prune drops what was fetched of tracks (with --runs of runs, with --threads of
    threads, too) that are gone there. A file made by 'git bundle' will do for REMOTE.

    Examples:
        git baton fetch origin
    """
    kinds = {"transcripts": transcripts, "threads": threads, "runs": runs}
    with opened(ctx, talks="" if json else "looking at tracks") as baton:
        with exchange(baton, "fetch", words, track, timeout, **kinds) as (remote, line, choice):
            seen, found = sync.fetch(baton, line, choice, prune=prune)
        problem = ""  # why nothing of what the remote has can be joined
        try:
            said(baton.store, seen)
        except RecordError as error:
            problem = error.message
        whole = not problem and not found.broken
        if json:
            print_json({"remote": remote.shown, **gathered_document(found), "problem": problem})
        else:
            say_gathered(looking(ctx, baton), remote, found, verbose=verbose)
            if whole and not (found.rows or found.strange):
                terminal.say(f"{in_quotes(remote.shown)} has no tracks")
            if problem:
                tell_error(problem, ())
            say_broken_refs(found.apart)
            news = any(row.state in _NEWS for row in found.rows if row.item[0] != "run")
            if news or baton.newer(baton.readable_tips().items):
                more = " --threads" if threads else ""
                terminal.tell(f"hint: 'git baton sync {in_shell(remote.shown)}{more}' joins what is new")
        warn_all(baton.refresh())
    return 0 if whole else 1


def synchronize(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL, a path or a bundle's file."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[bool, Option("--with-transcripts", help="Also exchange conversations.")] = False,
    threads: Annotated[bool, Option("--threads", help="Also exchange threads: all, or those that are named.")] = False,
    yes: Yes = False,
    scan: Scan = True,
    timeout: Timeout = TIMEOUT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Fetch, join and push tracks, by default all that are here or there; again when somebody was faster.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named count.
    A joined track has the checkpoints of both sides in the order of time, and is the same on all machines. A bundle is fetched
    and joined.

    A checkpoint dated more than ten minutes in the future is listed and left out. With --threads each thread has, by id, the
    checkpoints of both sides, less what either removed since they last met.

    Examples:
        git baton sync origin --yes
    """
    from gitbaton.care.retention import removing

    kinds = {"transcripts": transcripts, "threads": threads}
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at tracks") as baton:
        with exchange(baton, "sync", words, track, timeout, dry_run=dry_run, **kinds) as (remote, line, choice):
            manner = Manner(agree=partial(ask_consent, remote, yes=yes), scan=scan, write=not dry_run, partly=True)
            current, done = baton.current(), sync.sync(baton, line, choice, manner)
            if json:
                moved: dict[str, Json] = {
                    "fetched": gathered_document(done.gathered),
                    "joined": joining_document(done.joining),
                    "pushed": [pushing_document(part) for part in done.pushing],
                }
                print_json({"remote": remote.shown, "dry_run": dry_run, **moved, **picked(done, "failure", "rounds")})
            else:
                look = looking(ctx, baton)
                say_gathered(look, remote, done.gathered, verbose=verbose, news_only=True)
                say_joining(look, baton, done.joining, current, verbose=verbose, dry_run=dry_run)
                for part in done.pushing:
                    new = tuple(text for text in part.warnings if text not in done.joining.warnings)
                    say_pushing(look, baton, remote, replace(part, warnings=new), verbose=verbose, dry_run=dry_run)
                if done.failure:
                    tell_error(f"not pushed: {done.failure}", ())
                say_broken_refs(done.apart, done.pushing)
        if not dry_run:
            warn_all([*baton.refresh(), *removing.refresh(baton, baton.latest)])
    return int(any((done.gathered.broken, done.joining.broken, done.failure, *(part.refused for part in done.pushing))))
