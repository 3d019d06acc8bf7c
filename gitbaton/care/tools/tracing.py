"""Agent Trace records (specification 0.1.0) of commits: the lines that agents wrote, each with its conversation and model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from gitbaton import __version__
from gitbaton.base.codec import Json, in_quotes, timestamp
from gitbaton.base.errors import UsageError
from gitbaton.base.model import Oid
from gitbaton.care.tools.blaming import BlamedCommit, BlamedLine, blame, commits, turns_behind
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.turns import Span
from gitbaton.git.questions import commit_named
from gitbaton.git.run import zsplit

VERSION = "0.1.0"
_HUNK = re.compile(rb"^@@ -[0-9,]+ \+([0-9]+)(?:,([0-9]+))? @@", re.M)
_VENDORS = (("claude-", "anthropic"), ("gpt-", "openai"), ("codex-", "openai"), ("gemini-", "google"))  # as models.dev has them


def records(baton: Baton, scratch: str, word: str) -> Iterator[dict[str, Json]]:
    """Yield the records of the commits that a word means, the newest first, of those with lines known to be an agent's.
    ``scratch`` is a folder for objects, to be removed after the last use of ``baton``. Raises UsageError."""
    found = _named(baton, word)
    baton.redirect(scratch)
    for commit in found:
        if (told := _record(baton, scratch, commit)) is not None:
            yield told


def _named(baton: Baton, word: str) -> list[BlamedCommit]:
    """Return the commits, the newest first, that a range or the name of one means; no merges, which bring no lines of their
    own. Raises UsageError."""
    walk = [] if ".." in word else ["--no-walk"]
    told = baton.repo.git.run("rev-list", "--no-merges", *walk, "--end-of-options", word, "--")
    # Git lists nothing of a merge, and nothing of a file or a folder either.
    if told.code != 0 or (walk and not told.out and commit_named(baton.repo, word) is None):
        raise UsageError(f"{in_quotes(word)} is no commit and no range of commits", "such as HEAD, main..topic or HEAD~3..")
    return commits(baton, told.out.decode("ascii").split())


def _record(baton: Baton, scratch: str, commit: BlamedCommit) -> dict[str, Json] | None:
    files: list[Json] = []
    for path, numbers in _brought(baton, commit.oid):
        lines = blame(baton, path, scratch, at=commit)[0] if numbers else []
        came = [line for line in lines if line.number in numbers and not _is_older(line, commit)]
        if talks := _conversations(turns_behind(baton, came)):
            files.append({"path": os.fsencode(path).decode("utf-8", "replace"), "conversations": talks})
    if not files:
        return None
    import uuid

    return {
        "version": VERSION,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"git-baton:{commit.oid}")),
        "timestamp": timestamp(baton.clock()),
        "vcs": {"type": "git", "revision": commit.oid},
        "tool": {"name": "gitbaton", "version": __version__},
        "files": files,
    }


def _is_older(line: BlamedLine, commit: BlamedCommit) -> bool:
    """Whether a line came from an earlier commit, of a file that had another name."""
    return isinstance(line.origin, BlamedCommit) and line.origin.oid != commit.oid


def _brought(baton: Baton, commit: Oid) -> Iterator[tuple[str, set[int]]]:
    """Yield the files that a commit changed, each with the numbers of the lines that it brought."""
    words = iter(zsplit(baton.repo.git.out("diff-tree", "--root", "-r", "-M", "--no-commit-id", "-z", "--raw", commit)))
    for about in words:
        _, mode, old, new, status = about.split(" ")
        source = next(words)
        path = next(words) if status[0] in "RC" else source
        if mode.startswith("100") and status[0] != "D":
            yield path, _added(baton, old, new)


def _added(baton: Baton, old: Oid, new: Oid) -> set[int]:
    """Return the numbers of the lines of a blob that another one, which may be none, has not."""
    plainly = ("--no-color", "--no-ext-diff", "--no-textconv", "-U0")
    if not old.strip("0"):
        old = baton.repo.git.out("hash-object", "-w", "--stdin", stdin=b"").decode("ascii").strip()  # into the scratch folder
    told = baton.repo.git.out("diff", *plainly, old, new) if old != new else b""
    hunks = ((int(first), int(many or 1)) for first, many in _HUNK.findall(told))
    return {number for first, many in hunks for number in range(first, first + many)}


def _conversations(behind: dict[int, Span]) -> list[Json]:
    """Return the conversations in whose turns lines came, each with its ranges of them."""
    found: dict[tuple[str, str | None, str], tuple[Span, list[int]]] = {}
    for number, span in sorted(behind.items()):
        if span.session is not None:
            key = span.session.name, span.session.session, span.end.id if span.end is not None else ""
            found.setdefault(key, (span, []))[1].append(number)
    return [_conversation(span, numbers) for span, numbers in found.values()]


def _conversation(span: Span, numbers: Sequence[int]) -> Json:
    agent = span.end.checkpoint.agent if span.end is not None else None
    model = agent.model if agent is not None and span.session is not None and agent.session == span.session.session else None
    contributor: dict[str, Json] = {"type": "ai", **({"model_id": _model_id(model)} if model else {})}
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    ranges: list[Json] = [{"start_line": first, "end_line": last} for first, last in zip(firsts, lasts, strict=True)]
    where: dict[str, Json] = {"url": f"git-baton:{span.end.id}"} if span.end is not None else {}
    return {**where, "contributor": contributor, "ranges": ranges}


def _model_id(model: str) -> str:
    """Return a model's name as models.dev has it, with its vendor, where that is known by it."""
    vendor = next((vendor for begin, vendor in _VENDORS if model.startswith(begin)), "")
    return model if "/" in model or not vendor else f"{vendor}/{model}"
