"""``git baton blame``."""

import os
import tempfile
from collections.abc import Sequence
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.cli.columns import cut
from gitbaton.cli.common import AsJson, opened, paged, print_json, warn_all
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.codec import Json, plain
from gitbaton.errors import BatonError, NotFoundError
from gitbaton.render import path_in_quotes, stored_document, title
from gitbaton.tools.blaming import Commit, Line, blame

_COLUMNS = (Column(), Column(goes=2), Column(goes=1, right=True), Column(goes=3), Column())
_WORDS = 40  # columns of a checkpoint's words beside a line


def command(
    ctx: Call,
    file: Annotated[str, Argument(metavar="FILE", help="A file of the work tree, as it is now.")],
    lines: Annotated[
        Optional[list[str]], Option("-L", metavar="RANGE", help="Only these lines, as for git blame: 3,7 or 3,+5; may repeat.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Show with which checkpoint each line of a file came, or with which commit.

    A line came with the checkpoint of any track that held it first while its own HEAD did not, else with a commit. Lines that
    nobody committed are included; 'now' is what no checkpoint holds yet.

    Examples:
        git baton blame a.txt
        git baton blame a.txt -L 1,1
    """
    with opened(ctx) as baton, tempfile.TemporaryDirectory(prefix="gitbaton-") as scratch:
        found = of_file(baton, scratch, ctx.obj.repo_root, file, lines or ())
        if json:
            print_json({"file": file, "lines": [line_document(line) for line in found]})
            return 0
        with paged(ctx, baton) as look:
            ids = look.ids(one.oid if isinstance(one, Commit) else one.id for one in (line.origin for line in found) if one)
            wide = len(str(found[-1].number)) if found else 1
            rows = [[*_origin(look, ids, line), f"{line.number:{wide}}  {shown(line)}"] for line in found]
            for text in look.table(_COLUMNS, rows):
                terminal.say(text)
    return 0


def of_file(baton: Baton, scratch: str, start: Optional[str], file: str, ranges: Sequence[str]) -> list[Line]:
    """The lines of a file that is named as seen from the current directory; ``scratch`` is a folder for objects, to be removed
    after the last use of ``baton``. Raises NotFoundError, UsageError."""
    root = baton.repo.layout.root
    if root is None:
        raise BatonError("there is no work tree to look at")
    here = os.path.realpath(start or os.getcwd())
    folder, name = os.path.split(os.path.join(here, file))
    path = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(root))
    if path.startswith("../") or not name:
        raise NotFoundError(f"{path_in_quotes(file)} is no file of this work tree")
    found, warnings = blame(baton, path, scratch, ranges)
    warn_all([text for text in warnings if path_in_quotes(path) in text])
    return found


def shown(line: Line) -> str:
    """The text of a line, fit for a terminal."""
    return plain(line.text.decode("utf-8", "replace").expandtabs(4).rstrip("\r"))


def _origin(look: Look, ids: dict[str, Cell], line: Line) -> list[Cell | str]:
    one = line.origin
    if one is None:
        return [(("now", "drift"),), "", "", "in no checkpoint yet"]
    if isinstance(one, Commit):
        return [ids[one.oid], "commit", look.age(one.created), cut(plain(one.summary), _WORDS)]
    track = plain(one.checkpoint.track)
    return [ids[one.id], track, look.age(one.checkpoint.created), look.words(one, cut(title(one)[0], _WORDS))]


def line_document(line: Line) -> dict[str, Json]:
    """The JSON of a line and of what it came with."""
    one = line.origin
    origin: Json = None
    if isinstance(one, Commit):
        origin = {"commit": one.oid, "author": one.author, "summary": one.summary}
    elif one is not None:
        origin = {"checkpoint": stored_document(one)}
    text = line.text.decode("utf-8", "replace")
    return {"line": line.number, "text": text, "origin": origin, "path": line.path, "then": line.then}
