"""``git baton run export``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import ARun, AsJson, DryRun, opened, print_json
from gitbaton.cli.options import Call, Option
from gitbaton.codec import counted, in_quotes, plain
from gitbaton.errors import UsageError
from gitbaton.journal.audit import export, to_export
from gitbaton.journal.chain import Journal, chosen


def command(
    ctx: Call,
    run: ARun = None,
    output: Annotated[Optional[str], Option(metavar="DIR", help="Where the files go (the run's name).")] = None,
    foreign: Annotated[bool, Option("--foreign", help="Allow a run that was fetched from elsewhere.")] = False,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> int:
    """Write the records of a run, and what its steps printed, as files into a folder.

    Examples:
        git baton run export nightly --output kept --dry-run
    """
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        run = chosen(journal, run)
        folder = output or run
        if not foreign and any(logged.foreign for logged in journal.records(run)):
            hint = f"look at it with 'git baton run show --records {run}'; --foreign allows it"
            raise UsageError(f"run '{run}' was fetched from elsewhere", hint)
        planned = to_export(journal, run, folder)
        if not dry_run:
            export(journal, folder, planned)
        if json:
            print_json({"run": run, "dry_run": dry_run, "folder": folder, "files": [file.path for file in planned]})
        elif dry_run:
            for file in planned:
                terminal.say(plain(f"would write {folder}/{file.path}"))
        else:
            terminal.say(f"{counted(len(planned), 'file')} written into {in_quotes(folder)}")
        return 0
