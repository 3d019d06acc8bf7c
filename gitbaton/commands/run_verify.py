"""``git baton run verify``."""

from gitbaton import terminal
from gitbaton.cli.common import ARun, AsJson, opened, picked, print_json
from gitbaton.cli.options import Call
from gitbaton.codec import counted, plain
from gitbaton.journal.audit import verify
from gitbaton.journal.chain import Journal, chosen


def command(
    ctx: Call,
    run: ARun = None,
    json: AsJson = False,
) -> int:
    """Check whether the records of a run hold: their sequence, the objects they name, the keys made again; 1 if not.

    Examples:
        git baton run verify nightly
    """
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        run = chosen(journal, run)
        report = verify(journal, run)
        if json:
            print_json({"run": run, **picked(report, "records", "keys", "unproved", "problems")})
            return 1 if report.problems else 0
        for text in report.problems:
            terminal.say(plain(text))
        keys = f"{counted(report.keys, 'key')} made again{f', {report.unproved} could not be' if report.unproved else ''}"
        found = counted(len(report.problems), "problem") if report.problems else "whole"
        terminal.say(f"run '{run}': {counted(report.records, 'record')}, {keys}: {found}")
        return 1 if report.problems else 0
