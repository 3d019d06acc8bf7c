"""Tree diffs: raw modes and ids, no renames; submodules by commit, whatever git is told to ignore."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from gitbaton.base.errors import MENDS, CollectedError, GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.process import Process, Result, together
from gitbaton.base.values import value
from gitbaton.git.objects import MAX_TREE, Object, Objects
from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, halves, refuse_index

MANY = 2000  # pairs of trees from which on two processes are worth it
TREES = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
PATCH = ("diff-tree", "-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")

Entry = str | None  # "MODE ID" as a tree has it; None where nothing stands
Pair = tuple[Oid, Oid]


@value
class PathChange:
    """One path on two sides, each ``MODE ID``; the id is zeros where git has not hashed a file."""

    path: str
    before: Entry
    after: Entry
    status: str


def differences(repo: Repo, pairs: Iterable[Pair], paths: Sequence[str] = ()) -> dict[Pair, dict[str, PathChange]]:
    """Return the differences between the two trees of each pair, by path; one process for all of them. ``paths``: only these,
    and what is below; a git that forgets them (2.36.0) tells more. Raises GitError."""
    wanted = list(dict.fromkeys(pairs))
    apart = [pair for pair in wanted if pair[0] != pair[1]]
    found: dict[Pair, dict[str, PathChange]] = {pair: {} for pair in wanted}
    if apart:
        found |= zip(apart, finished(started(repo, apart, paths), len(apart)), strict=True)
    return found


def raw_differences(repo: Repo, pairs: Iterable[Pair]) -> dict[Pair, dict[str, str]]:
    """Return what ``differences`` does as ``raw_records``, which is a tenth of the work."""
    wanted = list(dict.fromkeys(pairs))
    parts = halves(wanted, MANY) if wanted else []
    told = zip(parts, together(started(repo, part) for part in parts), strict=True)
    return dict(zip(wanted, [found for part, result in told for found in _raw(result, len(part))], strict=True))


def patch(repo: Repo, pair: Pair) -> bytes:
    """Return what differs between two trees as a patch, as far as git gives it."""
    return repo.git.run(*PATCH, *pair).out


def patches(repo: Repo, pairs: Iterable[Pair], most: int) -> dict[Pair, bytes]:
    """Return the ``patch`` of each pair of trees, of one over ``most`` bytes a beginning that is over it as well; by one
    process. Nothing where git does not give them all."""
    wanted = list(dict.fromkeys(pairs))
    lines = [f"{before} {after}\n".encode() for before, after in wanted]
    marks = [b"\n" + line for line in lines]  # before each patch, in which no line begins with an id
    texts, held, code = list[bytes](), b"\n", 1
    if not lines:
        return {}
    process = repo.git.start(*PATCH, "--stdin", stdin=b"".join(lines))
    try:
        for piece in process.pieces():
            held += piece
            while len(texts) < len(marks) and (end := held.find(marks[len(texts)])) >= 0:
                texts[-1:] = [(text + held[: end + 1])[: most + 2] for text in texts[-1:]]
                held = held[end + len(marks[len(texts)]) - 1 :]  # the end of that line may be the beginning of the next mark
                texts.append(b"")
            sure = max(0, len(held) - len(marks[0]))
            texts[-1:] = [(text + held[:sure])[: most + 2] for text in texts[-1:]]
            held = held[sure:]
    finally:
        if process.ended:
            code = process.reap()[0]
        else:
            process.stop()
    if code != 0 or len(texts) < len(marks):
        return {}
    texts[-1] = (texts[-1] + held)[: most + 2]
    return {pair: text[1:] for pair, text in zip(wanted, texts, strict=True)}


_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_WIDE = re.compile(rb"(\d+) ([^\0]+)\0(.{32})", re.DOTALL)


def changed_in_none(
    objects: Objects, before: Oid, after: Oid, others: Sequence[Oid], known: dict[Oid, dict[bytes, bytes]]
) -> bool:
    """Whether a path that differs ``before`` and ``after`` is plainly, by few trees, in none of the other trees as it is after.
    ``known`` keeps what was read."""

    def entries(oid: Oid) -> dict[bytes, bytes]:
        if oid and oid not in known:
            known[oid] = _entries(objects, objects.read(oid, MAX_TREE))
        return known[oid] if oid else {}

    old, new, rest = entries(before), entries(after), [entries(oid) for oid in others]
    for name in old.keys() | new.keys():
        was, now, told = old.get(name), new.get(name), [other.get(name) for other in rest]
        if was == now or now in told:
            continue
        files = [entry is not None and not entry.startswith(b"40000 ") for entry in (was, now, *told)]
        if all(entry == was for entry in told) or all(files[n] or (was, now)[n] is None for n in (0, 1)):
            return True
        if not any(files):
            inner = [(entry or b"")[6:].hex() for entry in (was, now, *told)]
            if changed_in_none(objects, inner[0], inner[1], inner[2:], known):
                return True
    return False


def read_entries(objects: Objects, trees: Iterable[Oid], known: dict[Oid, dict[bytes, bytes]]) -> None:
    """Read the entries of trees into what ``changed_in_none`` keeps, by few processes, as far as they can be read."""
    asked = [oid for oid in dict.fromkeys(trees) if oid and oid not in known]
    read = zip(asked, objects.read_many(asked, MAX_TREE), strict=True)
    known |= {oid: _entries(objects, found) for oid, found in read if found is not None}


def _entries(objects: Objects, found: Object | None) -> dict[bytes, bytes]:
    form = _WIDE if objects.algorithm == "sha256" else _ENTRY
    data = found.data if found is not None and found.kind == "tree" and found.data is not None else b""
    return {name: mode + b" " + raw for mode, name, raw in form.findall(data)}


def started(repo: Repo, pairs: Sequence[Pair], paths: Sequence[str] = ()) -> Process:
    """Start a process that compares the trees of each pair, while other things are done. Raises GitError."""
    only = [f":(top,literal){path}" for path in paths]
    stdin = "".join(f"{before} {after}\n" for before, after in pairs).encode()
    return repo.git.start(*TREES, "--", *only, stdin=stdin, env=no_index(repo))


def no_index(repo: Repo) -> dict[str, str]:
    """Return the variable with which git compares trees without reading the index, which it does not need then: a damaged one
    would stop it."""
    return {"GIT_INDEX_FILE": os.path.join(repo.own_dir, "none")}


def refuse_pathspecs(git: Git, specs: Sequence[str]) -> None:
    """Raise GitError with git's own words for pathspecs that it does not understand."""
    result = git.run("diff-tree", "--stdin", "--", *specs) if specs else None
    if result is not None and result.code != 0:
        refuse_index(result)
        raise GitError(result.fatal())


def finished(process: Process, count: int) -> list[dict[str, PathChange]]:
    """Return what a comparison found of so many pairs, by path. Raises CollectedError where a tree cannot be read."""
    groups = records(compared(process.finish()))[1:]
    if len(groups) != count:  # git passes over a tree that is not there without failing
        raise CollectedError("cannot compare trees: one of them cannot be read", MENDS)
    return [{c.path: c for c in changes} for _, changes in groups]


def raw_records(process: Process, count: int) -> list[dict[str, str]]:
    """Return what a comparison found of so many pairs: by path git's raw record, which ``entries_in`` takes apart. It takes a
    tenth of what ``finished`` does, and raises the same."""
    return _raw(process.finish(), count)


def _raw(result: Result, count: int) -> list[dict[str, str]]:
    parts = os.fsdecode(compared(result)).split("\0")
    heads, paths, found = parts[::2], parts[1::2], list[dict[str, str]]()
    starts = [n for n, head in enumerate(heads) if head[:1] != ":"]
    for start, end in zip(starts, [*starts[1:], len(paths)], strict=True):
        *before, heads[start] = heads[start].split("\n")  # the lines of pairs without a difference, and that of this one
        found += [{} for _ in before[1:]]
        if before:
            found.append(dict(zip(paths[start:end], heads[start:end], strict=True)))
    if len(found) != count:
        raise CollectedError("cannot compare trees: one of them cannot be read", MENDS)
    return found


class RawRecords:
    """Differences of many pairs of trees, asked of git at once, while other things are done, and read when one is needed."""

    def __init__(self, repo: Repo, pairs: Iterable[Pair]) -> None:
        self._pairs = list(dict.fromkeys(pairs))
        self._process = started(repo, self._pairs) if self._pairs else None
        self._found: dict[Pair, dict[str, str]] = {}

    def of(self, pairs: Sequence[Pair]) -> list[dict[str, str]] | None:
        """Return the raw records of some pairs by path, as ``raw_records`` does; None where not all were asked for, or not all
        can be read."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(GitError):
                self._found = dict(zip(self._pairs, raw_records(process, len(self._pairs)), strict=True))
        return [self._found[pair] for pair in pairs] if all(pair in self._found for pair in pairs) else None

    def stop(self) -> None:
        """Take no interest in it any more."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()


def entries_in(record: str) -> tuple[Entry, Entry]:
    """Return what a raw record says of a path before and after."""
    old, new, before, after, _ = record[1:].split(" ")
    return _entry(old, before), _entry(new, after)


def compared(result: Result) -> bytes:
    """Return what ``git diff-tree`` printed. Raises CollectedError where a tree cannot be read, DamagedIndexError."""
    if result.code != 0:
        refuse_index(result)
        raise CollectedError(f"'git diff-tree' failed: {result.fatal()}", MENDS)
    return result.out


def records(raw: bytes) -> list[tuple[str, list[PathChange]]]:
    """Parse git's ``--raw -z`` output in groups; each but the first follows a line of its own."""
    groups: list[tuple[str, list[PathChange]]] = [("", [])]
    at = 0
    while at < len(raw):
        if raw[at : at + 1] != b":":
            end = raw.index(b"\n", at)
            groups.append((raw[at:end].decode("ascii"), []))
            at = end + 1
            continue
        middle = raw.index(b"\0", at)
        end = raw.index(b"\0", middle + 1)
        old, new, before, after, status = raw[at + 1 : middle].decode("ascii").split(" ")
        change = PathChange(
            path=os.fsdecode(raw[middle + 1 : end]), before=_entry(old, before), after=_entry(new, after), status=status
        )
        groups[-1][1].append(change)
        at = end + 1
    return groups


def _entry(mode: str, oid: str) -> Entry:
    return f"{mode} {oid}" if mode.strip("0") else None
