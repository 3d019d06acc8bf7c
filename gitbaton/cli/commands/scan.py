"""``git baton scan``."""

from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, path_document
from gitbaton.base.errors import MENDS, UsageError
from gitbaton.care.scanning import NAMED, NOT_SCANNED, UNFILTERED, Hit, scan, scanner
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.commands.retaining import clean, discreet
from gitbaton.cli.common import AsJson, one_of, opened, picked, print_json
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.cli.commands.finding import ThreadPlace

Place = tuple[Hit, "Optional[ThreadPlace]"]


def command(
    ctx: Invocation,
    names: Annotated[
        Optional[list[str]],
        Argument(metavar="[CHECKPOINT|TRACK|THREAD...]", help="Default: the whole current track; with --threads, all threads."),
    ] = None,
    track: Annotated[Optional[str], Option(metavar="NAME", help="The same as TRACK.")] = None,
    everything: Annotated[bool, Option("--all", help="Every track, safety checkpoint, note, conversation and thread.")] = False,
    files: Annotated[bool, Option("--files", help="Captured files, too, where HEAD's history does not hold them.")] = False,
    threads: Annotated[bool, Option("--threads", help="Threads of LangGraph instead: all, or the named.")] = False,
    json: AsJson = False,
) -> int:
    """Look for secrets in what is stored.

    Threads are looked through as they are when it begins, what git does not hold yet brought into it before. Exit status 1
    when something is found, 0 when nothing is, 128 when something could not be read.

    By default the words of the current track's checkpoints are looked through, with --files captured files that HEAD's history
    does not hold, too. --all means every track, safety checkpoint, note, conversation and thread. The secrets themselves are
    not printed.

    Examples:
        git baton scan
        git baton scan --all --files
    """
    names = [*(names or []), *([track] if track is not None else [])]
    if names and everything:
        raise UsageError("a checkpoint or track and --all exclude each other")
    one_of(all=everything, threads=threads)
    one_of(files=files, threads=threads)
    with opened(ctx, talks="" if json else "looking at objects") as baton, discreet(baton):
        if everything or threads:
            from gitbaton.cli.commands.finding import scan_threads

            report = scan_threads(baton, names, alone=threads, files=files)
        else:
            report = scan(baton, names, files=files)
        places: list[Place] = [(hit, None) for hit in report.hits]
        if any(hit.commit is not None and hit.checkpoint is None for hit in report.hits):
            from gitbaton.cli.commands.finding import placed

            places = list(placed(baton, report.hits))
        if json:
            rows = [_document(hit, state) for hit, state in places]
            print_json({"checkpoints": report.checkpoints, "hits": clean(baton, rows, scanner(baton))})
        else:
            _show(baton, places)
            if not (report.problems or files or threads):
                again = " ".join(["git baton scan --files", *(["--all"] if everything else map(in_shell, names))])
                said = "only words were looked through" if report.hits else "no secret in the words"
                terminal.tell(f"hint: {said}; '{again}' looks into captured files, too")
        for problem in report.problems:
            terminal.warn(scanner(baton).text(f"{in_quotes(problem.where)} is not scanned: {problem.reason}"))
        if report.problems:
            terminal.tell_hints([MENDS])
    return 1 if report.hits else 128 if report.problems else 0


def _document(hit: Hit, state: "Optional[ThreadPlace]") -> Json:
    """A hit as JSON: words have a field, files a path and a line."""
    name, file, thread = path_document(hit.path), hit.line or hit.kind == UNFILTERED, None
    if state is not None:
        from gitbaton.cli.commands.finding import id_of

        at = id_of(state, hit.path)
        thread = {"remote": state.remote, "name": state.thread, "namespace": state.namespace, "checkpoint": at}
    place: dict[str, Json] = {"field": None if file else name, "path": name if file else None, "line": hit.line or None}
    return {**picked(hit, "checkpoint", "commit"), **place, **picked(hit, "kind", "shown", "held"), "thread": thread}


def _show(baton: Baton, places: list[Place]) -> None:
    if not places:
        return
    from gitbaton.cli.commands.finding import REMOVE, forgets, hit_place, removes, unfiltered_hints

    text = scanner(baton).text
    for hit, state in places:
        place = text(hit_place(baton, hit, state))
        kind = "its bytes did not pass its filter" if hit.kind == UNFILTERED else hit.kind
        terminal.say(f"{place}: {kind}{' ' + hit.shown if hit.shown else ''}")
    terminal.tell_hints(unfiltered_hints(baton, [hit for hit, _ in places if hit.kind == UNFILTERED]))
    places = [place for place in places if place[0].kind != UNFILTERED]
    sure = [place for place in places if place[0].kind != NOT_SCANNED]
    hints = (
        (removes(sure), REMOVE),
        (any(hit.kind != NAMED for hit, _ in sure), "what is no secret may be named in baton.redactAllow"),
        (len(sure) < len(places), "texts over baton.maxFileSize are not scanned"),
    )
    terminal.tell_hints([*forgets(baton, (hit for hit, _ in sure)), *(text for holds, text in hints if holds)])
