"""``git baton doctor``."""

from typing import Annotated

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, plain
from gitbaton.base.errors import GitError, UsageError
from gitbaton.care.mending import doctor
from gitbaton.checkpoints.baton import Baton
from gitbaton.cli.common import AsJson, Verbose, opened, picked, print_json, say_findings, summed, warn_all
from gitbaton.cli.options import Invocation, Option
from gitbaton.git import questions


def command(
    ctx: Invocation,
    fix: Annotated[bool, Option("--fix", help="Repair what is behind; remove stale locks.")] = False,
    mend: Annotated[bool, Option("--mend", help="Put aside what is damaged; find again what can be found.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="With --mend: print the plan; change nothing.")] = False,
    from_remote: Annotated[
        str | None, Option("--from-remote", metavar="REMOTE", help="With --mend: also look in this remote.")
    ] = None,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Say what is installed, what would not run, what is behind, and the one line that mends it.

    --mend is for a damaged disk. What is torn goes to '.git/baton/broken/', is written again from the work tree, the index,
    packs and other work trees where they still hold it, and each track, run and thread goes on from what can be read; what is
    lost is listed. Nothing that is not gitbaton's is touched.

    --fix repairs derived refs and removes stale locks and what killed commands left. --dry-run prints the plan. Of damage that
    is your own it names the command of git's that helps. Exits with 1 when something should be mended, is lost, or was left as
    it is; what begins with 'note' is no fault. A run of which a record is lost stays unfinished, so that nothing happens twice.

    Examples:
        git baton doctor
        git baton doctor --mend --dry-run
    """
    if (dry_run or from_remote is not None) and not mend:
        raise UsageError("--dry-run and --from-remote go with --mend")
    with opened(ctx, talks="" if json else "examining tracks") as baton:
        if mend:
            return _mend(baton, from_remote, dry_run=dry_run, verbose=verbose, json=json)
        if fix:
            warn_all(doctor.fix(baton))
        found = doctor.examine(baton)
    return say_findings(found, json=json)


def _mend(baton: Baton, remote: str | None, *, dry_run: bool, verbose: bool, json: bool) -> int:
    """Mend, or say what would be; 1 where something is lost, left as it is, or not ours to mend."""
    from gitbaton.care.mending.planning import apply, plan

    found = plan(baton, remote)
    warnings = list(found.warnings)
    if not dry_run:
        warnings += apply(baton, found)
        try:
            warnings += doctor.fix(baton)
        except GitError as error:  # of what is not ours; it is named below
            warnings.append(error.message)
    torn = [oid for oid, _ in found.torn]
    amiss = bool(found.lost or found.left or found.theirs or warnings)
    warn_all(warnings)
    if json:
        refs = [{"ref": m.name, "old": m.old, "new": m.new, "text": m.said} for m in found.moves]
        lost, left = ([picked(item, "where", "what") for item in items] for items in (found.lost, found.left))
        theirs = [picked(item, "text", "hint") for item in found.theirs]
        counts: dict[str, Json] = {"ok": not amiss, "torn": torn, "written": len(found.objects), "found": found.found}
        print_json({**counts, "refs": refs, "lost": lost, "left": left, "theirs": theirs})
        return int(amiss)
    lines = [in_quotes(text[:80].decode("utf-8", "replace").rstrip()) for text in found.lines]
    asked = dry_run and found.lost and remote is None and questions.matching(baton.repo, r"^remote\..*\.url$")
    written = f"written: {counted(len(found.objects), 'object')}, {found.found} of them found elsewhere"
    more = "     a remote may still have it: git baton doctor --mend --dry-run --from-remote REMOTE"
    texts = [
        *(f"torn: object {oid}" for oid in torn),
        *(f"damaged: {in_quotes(path)}" for path in (*found.packs, *found.files)),
        *(f"damaged: the line {text} of 'packed-refs'" for text in lines),
        *(f"log: the log of {in_quotes(name)} is written anew without what cannot be read" for name, _ in found.logs),
        *([written] if found.objects else []),
        *(f"ref: {in_quotes(move.name)} {(move.new or 'goes')[:10]}: {plain(move.said)}" for move in found.moves),
        *(f"lost: {plain(item.where)}: {plain(item.what)}" for item in found.lost),
        *([more] if asked else []),
        *(f"left as it is: {plain(item.where)}: {plain(item.what)}" for item in found.left),
        *(text for item in found.theirs for text in (f"not ours: {plain(item.text)}", f"     {plain(item.hint)}")),
        *([] if found.changes or amiss else ["nothing is damaged"]),
    ]
    rows = [(text.partition(":")[0], text) for text in texts]
    words = {"torn": ("torn: {}", "object"), "damaged": ("damaged: {}", "file"), "log": ("logs: {}", ""), "ref": ("{}", "ref")}
    terminal.say_lines(summed(rows, words, verbose=verbose, lists="--verbose"))
    return int(amiss)
