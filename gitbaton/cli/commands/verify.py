"""``git baton verify``."""

from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, bare, counted, first_line, in_quotes, path_document, plain, timestamp
from gitbaton.base.errors import MENDS
from gitbaton.base.model import Live, Stored, TestRun
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, live_document, path_in_line, test_result, uncompared
from gitbaton.cli.columns import broken, screen
from gitbaton.cli.common import AsJson, Track, one_meant, opened, print_json, refuse, tell_foreign, warn_all
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.care.tools.proving import Proof, SeenRun
    from gitbaton.cli.look import Look

_MOST = 50
_FEW = 3  # runs, and paths of one, that are told


def command(
    ctx: Invocation,
    checkpoint: Annotated[
        Optional[str],
        Argument(metavar="[CHECKPOINT]", help="A track, or as for show; default: the track's newest. With --ci a commit."),
    ] = None,
    track: Track = None,
    words: Annotated[
        bool, Option("--words", help="Judge since the words were written, not since the newest checkpoint.")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Exit 1 for an operation in progress and changed files, too.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print nothing; the exit status says it.")] = False,
    ci: Annotated[
        bool, Option("--ci", help="Say whether a test run was seen green on exactly the files of a commit, HEAD by default.")
    ] = False,
    foreign: Annotated[bool, Option("--foreign", help="Count test runs that were fetched, too; only with --ci.")] = False,
    signed: Annotated[bool, Option("--signed", help="Count only test runs that a signed checkpoint tells; with --ci.")] = False,
    signatures: Annotated[
        bool, Option("--signatures", help="Say whose signature each checkpoint has, of all tracks or of one.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Say whether HEAD is where the checkpoint left it: 0 at home, 1 on drift, 2 without a checkpoint.

    At home is also who has committed just what was captured, or amended or rebased the commit that it stands on.
    Changed files and an operation in progress are said, too, and leave the exit status at 0 without --strict.

    A commit of just what was captured is said as committed:N. An operation in progress and changed files (files-changed:N) make
    it 1 with --strict.

    It is judged against the newest checkpoint of the track, also one that a hook took. --words judges from where somebody wrote
    the words that such a one carries: what turns and commits have done since counts, too.

    With --ci it exits 0 where an agent's client has on record that all tests ran and ended with status 0 on exactly the files
    of the commit, and 1 otherwise, with what is known: of other files, of a part of the tests, with an unknown end, or nothing.
    A run that was filtered, ran elsewhere, or after which a file was written proves nothing, and neither does one on files of
    which some are not in the commit. A failure that was seen later on the same files outweighs it. What was fetched is what
    somebody else says, and counts with --foreign alone. Files that git ignores, and services, are not known to it. What is all
    of the tests can be named with baton.testCommand.

    With --ci --signed only a run counts that a checkpoint with a good signature tells of.

    With --signatures it exits 0 where every checkpoint, fetched ones too, has a good signature by a key that is trusted
    here, and names the others: without a signature, by another key, forged, or with that of another checkpoint. Git judges,
    as of signed commits: by gpg.ssh.allowedSignersFile, without which your own key alone is trusted, or by gpg's trust.
    CHECKPOINT is a track, or one checkpoint. Snapshots are signed where baton.sign is true.

    Examples:
        git baton verify
        git baton verify --words
        git baton verify --strict --quiet   # for a script
        git baton verify --ci HEAD          # were all tests seen green on its very files?
        git baton verify --signatures       # whose signature has which checkpoint?
    """
    refuse(
        (ci and signatures, "--ci and --signatures exclude each other"),
        (ci and (words or strict or track is not None), "--ci goes with --foreign, --signed, --quiet and --json alone"),
        (signatures and (words or strict), "--signatures goes with --track, --quiet and --json alone"),
        (foreign and not ci, "--foreign goes with --ci"),
        (signed and not ci, "--signed goes with --ci"),
    )
    if ci:
        name = "HEAD" if checkpoint is None else checkpoint
        return _proof(ctx, name, foreign=foreign, signed=signed, quiet=quiet, json=json)
    one_meant(checkpoint, track)
    if signatures:
        return _signatures(ctx, checkpoint if track is None else track, quiet=quiet, json=json)
    with opened(ctx, talks="" if json or quiet else "comparing files") as baton:
        stored, live = baton.verify(track, name=checkpoint, words=words)
        lower = bool(baton.store.unread)  # there is a newer one that nobody can compare
        if not quiet:
            tell_foreign(baton, stored)
        code = 1 if live.drift.moved or lower or (strict and (live.drift.anything or live.uncounted)) else 0
        ask = bool(code) and not (quiet or json)
        way = MENDS if lower else way_on(baton, stored, live, checkpoint, track, words=words) if ask else ""
    if quiet:
        return code
    if json:
        print_json(document(stored, live))
        return code
    for word in live.drift.words:
        terminal.say_lines(broken(f"{word.word}: {plain(word.sentence)}", screen()[0]))
    warn_all(uncompared(live))
    if code:
        away = ", ".join(word.word for word in live.drift.away)
        makes = "make" if len(live.drift.away) > 1 else "makes"
        because = (
            f"{away} {makes} the exit status 1; " if 0 < len(live.drift.away) < len(live.drift.words) and not strict else ""
        )
        terminal.tell("\n".join(broken(f"hint: {because}{way}", screen(2)[0])))
    return code


def _signatures(ctx: Invocation, name: Optional[str], *, quiet: bool, json: bool) -> int:
    """Say whose signature each checkpoint has, of all tracks, of one, or one checkpoint."""
    from gitbaton.checkpoints.store.signatures import verdicts

    with opened(ctx, talks="" if json or quiet else "checking signatures") as baton:
        if name is None:
            found = baton.store.whole()
            items, problems = found.items, found.problems
            if not items and not problems:
                raise baton.store.none()
        elif baton.is_track(name):
            found = baton.history(name)
            items, problems = found.items, found.problems
        else:
            items, problems = (baton.resolve(name),), ()
        judged, warnings = verdicts(baton.store, items)
        rows = [(stored, judged[stored.checkpoint.track, stored.id]) for stored in items]
        short = {stored.id: baton.short(stored.id) for stored, verdict in rows if not verdict.good} if not quiet else {}
    warnings += [f"{in_quotes(problem.where)} is left out: {problem.reason}" for problem in problems]
    code = 1 if problems or any(not verdict.good for _, verdict in rows) else 0
    if json:
        told = [{"id": s.id, "track": s.checkpoint.track, "foreign": s.foreign, **verdict.document} for s, verdict in rows]
        print_json({"good": not code, "checkpoints": told, "warnings": [*warnings]})
    elif not quiet:
        for track in dict.fromkeys(stored.checkpoint.track for stored, _ in rows):
            own = [(stored, verdict) for stored, verdict in rows if stored.checkpoint.track == track]
            good = [verdict for _, verdict in own if verdict.good]
            by = ", ".join(dict.fromkeys(verdict.words.removeprefix("signed ") for verdict in good))
            said = f"{len(good)} of {counted(len(own), 'checkpoint')} signed{f' {by}' if by else ''}"
            terminal.say_lines(broken(f"{bare(track)}: {said}", screen()[0]))
            for stored, verdict in own:
                if not verdict.good:
                    step = plain(first_line(stored.checkpoint.step))
                    line = f"  {'> ' if stored.foreign else ''}{short[stored.id]} {verdict.words}: {step}"
                    terminal.say_lines(broken(line, screen()[0]))
        warn_all(warnings)
    return code


def _proof(ctx: Invocation, name: str, *, foreign: bool, signed: bool, quiet: bool, json: bool) -> int:
    """Say whether a test run was seen green on exactly the files of a commit."""
    from gitbaton.care.tools.proving import prove
    from gitbaton.cli.common import looking

    with opened(ctx) as baton:
        proof = prove(baton, name, foreign=foreign, signed=signed)
        if json:
            print_json({"ref": name, **_proof_document(proof)})
        elif not quiet:
            look = looking(ctx, baton)
            where = f"{in_quotes(name)} ({baton.abbreviate(proof.commit)})"
            said = "seen green on exactly the files" if proof.green else "not seen green on the files"
            terminal.say_lines(broken(f"{said} of {where}", screen()[0]))
            shown = [one for one in proof.runs if one.counts or one.against] if proof.green else proof.runs
            for one in shown[:_FEW]:
                terminal.say_lines(broken(f"  {_told(look, one)}", screen()[0]))
            if not proof.runs:
                terminal.say_lines(["  no test run is on record"])
            warn_all([*proof.warnings])
            for hint in _hints(proof, name):
                terminal.tell("\n".join(broken(f"hint: {hint}", screen(2)[0])))
    return 0 if proof.green else 1


def _told(look: "Look", one: "SeenRun") -> str:
    """``pytest -q: passed (3 passed), 5 minutes ago, checkpoint 1a2b3c4d of track 'main'; 2 files differ: a.py, b.py``."""
    run, stored = one.run, one.stored
    command = plain(first_line(run.command))
    told = f"{'> ' if stored.foreign else ''}{command}: {test_result(run)}, {look.age(run.ended)}, "
    told += f"checkpoint {stored.id[:10]} of track {in_quotes(stored.checkpoint.track)}{', fetched' if stored.foreign else ''}"
    differs = one.differs
    if differs is None:
        return f"{told}; of files that are not here"
    if differs:
        named = ", ".join(path_in_line(path) for path in differs[:_FEW])
        return f"{told}; {counted(len(differs), 'file')} differ{'s' if len(differs) == 1 else ''}: {named}"
    return told if one.counts or one.against else f"{told}; {plain(first_line(run.lacks)) or _old(run)}"


def _old(run: TestRun) -> str:
    """Say why a run without a reason of its own proves nothing."""
    return "files changed after it" if run.edited else "it is no proof" if run.result == "passed" else "it did not pass"


def _hints(proof: "Proof", commit: str) -> list[str]:
    if proof.green:
        return []
    if proof.unsigned:
        said = f"{counted(proof.unsigned, 'run')} would do, and no checkpoint with a good signature tells of it"
        return [f"{said}: 'git baton verify --signatures' says whose signature each one has"]
    if proof.foreign:
        said = f"{counted(proof.foreign, 'run')} that somebody else saw would do"
        return [f"{said}: 'git baton verify --ci --foreign {in_shell(commit)}'"]
    part = next((one.run for one in proof.runs if one.same and one.run.lacks.endswith("may leave tests out")), None)
    if part is not None:
        return [f"if that is all of them: git config --add baton.testCommand {in_shell(plain(first_line(part.command)))}"]
    return ["let the agent run all tests, alone in a command, when nothing is left to edit, and commit what they ran on"]


def _proof_document(proof: "Proof") -> dict[str, Json]:
    runs: list[Json] = []
    for one in proof.runs:
        run, c = one.run, one.stored.checkpoint
        told: dict[str, Json] = {"command": run.command, "result": run.result, "passed": run.passed, "failed": run.failed}
        told |= {
            "skipped": run.skipped,
            "started": timestamp(run.started) if run.started else None,
            "ended": timestamp(run.ended),
        }
        told |= {"tree": run.tree, "exact": run.exact, "lacks": run.lacks or None, "counts": one.counts, "against": one.against}
        told |= {} if one.vouched else {"signed": False}
        told["edited"] = [path_document(path) for path in run.edited]
        told["differs"] = None if one.differs is None else [path_document(path) for path in one.differs[:_MOST]]
        told["differing"] = None if one.differs is None else len(one.differs)
        runs.append(
            {
                **told,
                "checkpoint": one.stored.id,
                "track": c.track,
                "agent": c.agent.name if c.agent else None,
                "foreign": one.stored.foreign,
            }
        )
    return {"commit": proof.commit, "tree": proof.tree, "green": proof.green, "left_out": proof.foreign, "runs": runs}


def document(stored: Stored, live: Live) -> dict[str, Json]:
    """Return the JSON of how HEAD and the files have moved since a checkpoint."""
    facts: list[Json] = [{"word": w.word, "sentence": plain(w.sentence)} for w in live.drift.words]
    strange: dict[str, Json] = {"foreign": True} if stored.foreign_words else {}
    return {"track": stored.checkpoint.track, "id": stored.id, **strange, "live": live_document(live), "facts": facts}


def since_head(baton: Baton, stored: Stored, live: Live) -> Optional[str]:
    """Return the command that shows what has happened to HEAD; None where files are others, too, or HEAD's commit is not to be
    had."""
    was, words = stored.checkpoint, [word.word for word in live.drift.words]
    if live.files_changed != 0 or was.head is None or "head-missing" in words:
        return None
    if words == ["branch-switched"] and was.branch is not None:
        return f"'git switch {in_shell(was.branch)}' goes back to its branch"
    return f"'git log --oneline --left-right {baton.abbreviate(was.head)}...' shows what happened to HEAD; no file has changed"


def way_on(
    baton: Baton, stored: Stored, live: Live, checkpoint: Optional[str], track: Optional[str], *, words: bool = False
) -> str:
    """Return the hint for drift, of the checkpoint or of the ``words``, which an automatic one only carries. A track that is at
    home in another work tree is not taken over."""
    carried, name = stored.checkpoint.carried, in_shell(stored.checkpoint.track)
    seen = in_shell(checkpoint) if checkpoint else name if track else "@"
    seen = stored.id[:10] if stored.restored else seen  # other names mean what is not here
    if words and carried is not None:
        seen = carried.id[:10] if checkpoint or stored.restored else f"{seen.removesuffix('@')}@{{manual}}"
    shows = f"'git baton diff {seen}' shows what changed"
    if (elsewhere := baton.home(stored)) is not None:
        return f"{shows}; it was taken in the work tree {in_quotes(elsewhere)}"
    shows = since_head(baton, stored, live) or shows
    return f"{shows}; 'git baton snapshot --track {name} \"what is done\"' records where you are"
