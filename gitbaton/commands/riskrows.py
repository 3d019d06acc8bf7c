"""``git baton status --at-risk``: the rows, for people and for programs."""

import os
import tempfile
from typing import TYPE_CHECKING

from gitbaton import terminal
from gitbaton.cli.common import MOST, opened, paged, print_json
from gitbaton.cli.look import Column
from gitbaton.cli.options import Call
from gitbaton.codec import Json, path_document, timestamp
from gitbaton.commands.retaining import amount
from gitbaton.render import in_shell, porcelain, quoted

if TYPE_CHECKING:
    from gitbaton.tools.atrisk import AtRisk, Row

TABLE = (
    Column(name="SIZE", right=True),
    Column(name="AGE", goes=2, right=True),
    Column(name="REASON"),
    Column(name="TAKEN BY", goes=1),
    Column(name="PATH"),
)
COLUMNS = ("size", "files", "commits", "changed", "reason", "by", "whole", "path")
TAKES = (("clean", "'git clean -fdx'"), ("checkout", "'git checkout .'"))
NOTHING = "nothing is at risk: checkpoints or HEAD hold all that is here"


def show_at_risk(ctx: Call, *, everything: bool, json: bool, stable: bool, nul: bool) -> int:
    """Print what only this work tree has."""
    with opened(ctx, talks="" if json or stable else "looking at files") as baton:
        from gitbaton.tools.atrisk import at_risk

        with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
            found = at_risk(baton, folder)
        if json:
            print_json(_document(found))
        elif stable:
            terminal.write(porcelain(COLUMNS, map(_fields, found.rows), nul=nul))
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
                for text in look.table(TABLE, cells, heading=True):
                    terminal.say(text)
                if len(shown) < len(found.rows):
                    terminal.say(f"and {len(found.rows) - len(shown):,} more (--all lists them)")
                terminal.say(_sum(found))
        if not (json or stable):
            for path in found.worktrees:
                place = in_shell(os.path.relpath(os.path.join(baton.repo.layout.root or "", path)))
                terminal.say(f"{quoted(path)} is a work tree of its own: git -C {place} baton status --at-risk")
    return 0


def _counted(row: "Row") -> str:
    """How much a row stands for, where that is not one file."""
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
    rows: list[Json] = [
        {
            "path": path_document(row.path),
            "reason": row.reason,
            "by": row.by,
            "size": row.size,
            "files": row.files,
            "commits": row.commits,
            "changed": timestamp(row.changed) if row.changed else None,
            "whole": row.whole,
        }
        for row in found.rows
    ]
    sums: dict[str, Json] = {}
    for name, takers in (("clean", ("clean",)), ("checkout", ("checkout",)), ("disk", ())):
        files, size, commits = found.taken(*takers)
        sums[name] = {"files": files, "size": size, "commits": commits}
    return {"at_risk": rows, "sum": sums, "worktrees": [path_document(path) for path in found.worktrees]}


def _fields(row: "Row") -> tuple[str, ...]:
    numbers = (str(row.size), str(row.files), str(row.commits))
    return (*numbers, timestamp(row.changed) if row.changed else "", row.reason, row.by, "yes" if row.whole else "no", row.path)
