"""Selection of a chain's checkpoints: by time, kind, agent, words, and by what their files changed; git walks and compares."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence

from gitbaton.base.codec import decode, in_quotes, parse, payload, timestamp
from gitbaton.base.errors import MENDS, CollectedError, GitError, GitTimeoutError, RecordError, UsageError
from gitbaton.base.model import Oid, at_prompt
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Chains
from gitbaton.git.objects import parse_commit
from gitbaton.git.questions import version
from gitbaton.git.treediff import no_index, refuse_pathspecs

_EXTENDED, _ICASE = 1, 2  # REG_EXTENDED and REG_ICASE of glibc, musl and the BSDs
_ROOM = 128  # times eight bytes, for a regex_t: 64 in all there
_PLAIN = re.compile(r"[A-Za-z0-9 _]+\Z")
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

MANY = 2000  # comparisons that look through files, and are worth two processes
_CHAINS = 50  # of which git walks in two processes
_PARTS = (500, 4000)  # how far a limited list looks back before it looks at all
_MARKS = re.compile(rb'\n  "kind": "([a-z]+)",\n(?:  "[^\n]*\n)*?  "created": "([0-9TZ:.-]{27})"')
_NO_FILES = b'\n  "files": null'
_LOG = (
    "log",
    "-z",
    "--first-parent",
    "--no-notes",
    "--no-decorate",
    "--no-color",
    "--encoding=UTF-8",
    "--format=%H %ct %T %P%n%B",
)
_TREES = ("diff-tree", "--stdin", "-r", "--raw", "--no-abbrev", "--no-relative", "--ignore-submodules=none")


class Expression:
    """A text to look for as ``git log`` reads it: a ``basic`` or ``extended`` expression, or a ``fixed`` string. Raises
    UsageError."""

    def __init__(self, text: str, form: str = "basic", *, ignore_case: bool = False) -> None:
        self.fixed = text if form == "fixed" or _PLAIN.match(text) else None
        self.ignore_case = ignore_case
        if self.fixed is not None:
            return
        import ctypes

        self._c, self._compiled = ctypes.CDLL(None), (ctypes.c_longlong * _ROOM)()
        flags = (_EXTENDED if form == "extended" else 0) | (_ICASE if ignore_case else 0)
        code = self._c.regcomp(self._compiled, os.fsencode(text), flags)
        if code:
            said = ctypes.create_string_buffer(200)
            self._c.regerror(code, self._compiled, said, len(said))
            raise UsageError(f"{in_quotes(text)} is not a regular expression: {os.fsdecode(said.value)}")

    def search(self, line: str) -> bool:
        """Whether the expression occurs in a line."""
        if self.fixed is not None:
            return self.fixed.lower() in line.lower() if self.ignore_case else self.fixed in line
        data = line.encode("utf-8", "surrogateescape").replace(b"\0", b"?")
        return not self._c.regexec(self._compiled, data, 0, None, 0)

    def may_be_in(self, raw: bytes) -> bool:
        """Whether the expression can occur in words that were encoded as JSON; only of plain letters and digits that is
        known."""
        if self.fixed is None or not _PLAIN.match(self.fixed):
            return True
        plain_word = self.fixed.encode("ascii")
        return plain_word.lower() in raw.lower() if self.ignore_case else plain_word in raw


@value
class Selection:
    """A filter of a chain; an empty field asks for nothing, and of several all must hold.

    ``since``, ``until``: moments, both included. ``kinds``, ``agents``: one of them. ``words``: one matches in a line of what
    was written for this checkpoint: step, note, decisions, next_cmd, label, prompt. ``text``: how often it occurs changed;
    ``paths``: a file changed that these pathspecs match as seen from ``directory``; both against the checkpoint before, of the
    first one against HEAD when its turn began.
    """

    since: datetime | None = None
    until: datetime | None = None
    kinds: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    words: tuple[Expression, ...] = ()
    text: str | None = None
    paths: tuple[str, ...] = ()
    directory: str | None = None


@value
class _Link:
    """A commit of a chain, as it is walked; without a tree where it cannot be read. ``seconds``: when it was committed;
    ``fits``: whether its words are wanted; ``files``: whether it holds any; ``message``: only of a chain's first."""

    oid: Oid
    seconds: int
    tree: Oid
    parent: Oid
    fits: bool
    files: bool
    message: bytes


def check(store: Chains, wanted: Selection) -> None:
    """Refuse pathspecs that git does not understand. Raises GitError."""
    refuse_pathspecs(store.repo.git.changed(no_index(store.repo), directory=wanted.directory), wanted.paths)


def picked(store: Chains, wanted: Selection, starts: Sequence[Oid], limit: int | None) -> dict[Oid, list[Oid]]:
    """Return the commits of the chain from each start on that are wanted, newest first, with a ``limit`` the newest so many of
    all and those that are as old as the last of these; and with them those that are no checkpoint, which the reader reports.
    Raises GitError."""
    kept, links, trees, chains = list[_Link](), list[_Link](), dict[Oid, Oid](), dict[Oid, list[Oid]]()
    for most in (None,) if limit is None else (*_PARTS, None):
        few = most is None or (most == _PARTS[1] and limit is not None and len(kept) * _PARTS[1] < limit * _PARTS[0])
        if few and (touching := _touching(store, wanted, starts)) is not None:
            kept, chains = touching
            break
        more = _known_links(store, wanted, starts, {link.oid for link in links}) if few else None
        if more is not None:
            most = None
        else:
            more = _links(store, wanted, starts, most, len(links))
        if more is None:  # torn: all that can be read is looked at, and where it began does not matter
            more, links, kept, most = _torn_links(store, wanted, starts), [], [], None
        trees |= {link.oid: link.tree for link in more}
        fitting = [link for link in more if link.oid != store.root and link.fits]
        if wanted.paths or wanted.text is not None:
            fitting = _changing(store, wanted, fitting, trees)
        links, kept = [*links, *more], [*kept, *fitting]
        if limit is None or most is None or len(links) < most:
            break
        if len(kept) >= limit > 0 and kept[limit - 1].seconds > links[-1].seconds:
            kept = [link for link in kept if link.seconds >= kept[limit - 1].seconds]
            break
    found, chains = {link.oid for link in kept}, chains or store.objects.chains(starts)
    return {start: [oid for oid in oids if oid in found] for start, oids in chains.items()}


def wants(wanted: Selection, raw: bytes) -> bool:
    """Whether a record that holds no files, by its bytes, is wanted."""
    return not wanted.paths and wanted.text is None and _fits(b"\n\n" + raw, wanted)


def _touching(store: Chains, wanted: Selection, starts: Sequence[Oid]) -> tuple[list[_Link], dict[Oid, list[Oid]]] | None:
    """Return the wanted links of chains where pathspecs alone tell of changes and no time is asked for, and the commits of each
    chain: git walks by them, and most records are not read. None where else is asked, or one of the chains is torn."""
    if not wanted.paths or not starts or any(one is not None for one in (wanted.text, wanted.since, wanted.until)):
        return None
    git = store.repo.git.changed(no_index(store.repo), "core.commitGraph=false", directory=wanted.directory)
    try:
        words = ("rev-list", "--first-parent", "--stdin", "--", *wanted.paths)
        told = git.divided(*words, lines=[f"{oid}\n".encode() for oid in starts], large=_CHAINS).decode("ascii").split()
    except GitTimeoutError:
        raise
    except GitError:
        return None
    chains = store.objects.chains(starts)
    last = {oids[-1] for oids in chains.values() if oids}  # the root; of a shallow chain what nothing is known below
    first = {oids[-2] for oids in chains.values() if oids[-1:] == [store.root] and oids[1:]}
    asked = [*first, *(oid for oid in dict.fromkeys(told) if oid not in first and oid not in last)]
    links = list[_Link]()
    for oid, found in zip(asked, store.objects.read_many(asked, MAX_COMMIT), strict=True):
        commit = parse_commit(found.data) if found is not None and found.data else None
        if commit is None:
            return None
        links.append(_link(store, wanted, oid, 0, commit.tree, commit.parents[0], commit.message))
    links = [link for link in links if link.fits]
    begun = _changing(store, wanted, [link for link in links if link.oid in first], {})
    return [*begun, *(link for link in links if link.oid not in first and link.files)], chains


def _known_links(store: Chains, wanted: Selection, starts: Sequence[Oid], past: Collection[Oid]) -> list[_Link] | None:
    """Return the links of chains less those that are ``past``, where a text alone is asked for, and pathspecs: only records of
    which nothing is known are read. None where else is asked, nothing is known at all, or one of the chains is torn."""
    plain = not (wanted.kinds or wanted.agents or wanted.words) and wanted.since is wanted.until is None
    if not plain or not starts or not store.facts.load():
        return None
    git = store.repo.git.changed({}, "core.commitGraph=false")
    stdin = "".join(f"{oid}\n" for oid in starts).encode()
    told = git.run("rev-list", "--first-parent", "--format=%H %ct %T %P", "--stdin", stdin=stdin)
    if told.code != 0:
        return None
    rows = [row.split(" ")[:4] for row in told.out.decode("ascii").splitlines() if not row.startswith("commit ")]
    rows = [row for row in rows if row[0] not in past]
    asked = [oid for oid, _, _, parent in rows if parent == store.root or store.facts.has_files(oid) is None]
    read = zip(asked, store.objects.read_many(asked, MAX_COMMIT), strict=True)
    text = {oid: found.data.partition(b"\n\n")[2] for oid, found in read if found is not None and found.data}
    if len(text) < len(asked):
        return None
    return [
        _link(store, wanted, oid, int(seconds), tree, parent, text[oid])
        if oid in text
        else _Link(
            oid=oid,
            seconds=int(seconds),
            tree=tree,
            parent=parent,
            fits=True,
            files=bool(store.facts.has_files(oid)),
            message=b"",
        )
        for oid, seconds, tree, parent in rows
    ]


def _links(store: Chains, wanted: Selection, starts: Sequence[Oid], most: int | None, past: int = 0) -> list[_Link] | None:
    """Return the links of chains as one process tells them, the newest of all first, ``most`` less the ``past`` that were told
    before; None where one of them is torn."""
    if not starts:  # git would walk from HEAD
        return []
    words = [f"--skip={past}"] + ([] if most is None else [f"--max-count={most - past}"])
    for name, moment in (("max", wanted.since), ("min", wanted.until)):
        words += [f"--{name}-age={int(moment.timestamp())}"] if moment is not None else []
    git = store.repo.git.changed({}, "log.showSignature=false")
    process = git.start(*_LOG, *words, "--stdin", stdin="".join(f"{oid}\n" for oid in starts).encode())
    links, rest = list[_Link](), b""
    for piece in process.pieces():  # a year of words is not to lie in memory
        *rows, rest = (rest + piece).split(b"\0")
        for head, _, text in (row.partition(b"\n") for row in rows):
            oid, seconds, tree, parent = head.decode("ascii").split(" ")[:4]
            links.append(_link(store, wanted, oid, int(seconds), tree, parent, text))
    return links if process.finish().code == 0 else None


def _torn_links(store: Chains, wanted: Selection, starts: Sequence[Oid]) -> list[_Link]:
    """Return the links of chains of which some are torn, each as far as it can be read."""
    told = _links(store, wanted, starts, None)
    if told is not None:
        return told
    if len(starts) > 1:
        return list({link.oid: link for start in starts for link in _torn_links(store, wanted, [start])}.values())
    oids, links = store.objects.chains(starts).get(starts[0], []), list[_Link]()
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        try:
            commit = parse_commit(found.data if found is not None and found.kind == "commit" and found.data else b"")
        except RecordError:
            links.append(_link(store, wanted, oid, 0, "", "", b""))
        else:
            links.append(_link(store, wanted, oid, 0, commit.tree, (*commit.parents, "")[0], commit.message))
    return links


def _link(store: Chains, wanted: Selection, oid: Oid, seconds: int, tree: Oid, parent: Oid, text: bytes) -> _Link:
    first = text if parent == store.root else b""
    files = _NO_FILES not in text
    return _Link(oid=oid, seconds=seconds, tree=tree, parent=parent, fits=_fits(text, wanted), files=files, message=first)


def _fits(message: bytes, wanted: Selection) -> bool:
    """Whether a record is wanted by its words; an unreadable one is, and the reader reports it."""
    found = _MARKS.search(message)
    if found is not None:  # sooner told by its bytes than taken apart
        if (
            (wanted.kinds and found[1].decode() not in wanted.kinds)
            or not _between(found[2].decode(), wanted)
            or (wanted.words and not any(word.may_be_in(message) for word in wanted.words))
        ):
            return False
        if not (wanted.agents or wanted.words):
            return True
    try:
        item: Any = parse(payload(message))
        agent = item["agent"]["name"] if item["agent"] else None
        own = item["kind"] in wanted.kinds or not wanted.kinds, agent in wanted.agents or not wanted.agents
        if not (all(own) and _between(item["created"], wanted)):
            return False
        return not wanted.words or any(
            p.search(row) for p in wanted.words for text in own_words(item) for row in text.split("\n")
        )
    except (RecordError, LookupError, TypeError, ValueError, AttributeError):
        return True


def _between(created: str, wanted: Selection) -> bool:
    after = wanted.since is None or created >= timestamp(wanted.since)
    return after and (wanted.until is None or created <= timestamp(wanted.until))


def own_prompt(item: Any) -> str:
    """Return what was asked in the turn of a record, and not before; empty where nothing was."""
    if "imported" in item:
        return str(item["imported"]["prompt"])
    turn = item["kind"] == "auto" and not at_prompt(item["kind"], item["step"])
    asked = (item.get("observed") or {}).get("asked") if turn else None
    return str(asked[-1]["text"]) if asked else ""


def own_words(item: Any) -> list[str]:
    """Return what was written for the very checkpoint of a record: not the words that it carries, nor what was asked before its
    last turn."""
    asked = own_prompt(item)
    found = [item["step"], item["label"] or "", *([asked] if asked else [])]
    if item.get("carried"):
        return found
    known = (item.get("standing") or {}).get("decisions") or [{}] * len(item["decisions"])
    decided = (text for text, one in zip(item["decisions"], known, strict=True) if "made" not in one)
    return [*found, item["note"], item["next_cmd"], *decided]


def _first_base(store: Chains, message: bytes) -> Oid | None:
    """Return the commit that a track's first checkpoint is counted against; None of one that cannot be read."""
    try:
        return store.first_base(decode(payload(message)))
    except RecordError:
        return None


def _changing(store: Chains, wanted: Selection, links: Sequence[_Link], trees: Mapping[Oid, Oid]) -> list[_Link]:
    """Return the commits that changed files against the checkpoint before, as pathspecs and a string ask; one git process."""
    pairs: dict[Oid, str] = {}
    first = {link.oid: _first_base(store, link.message) for link in links if link.parent == store.root}
    asked = {link.parent for link in links if link.oid not in first} | {base for base in first.values() if base is not None}
    known = {**trees, **store.trees_of(sorted(oid for oid in asked if oid and not trees.get(oid)))}
    for link in links:
        before = known.get(link.parent)
        if link.oid in first:
            before = known.get(first[link.oid] or "") or store.base_tree(first[link.oid])
        if before and link.tree != before and link.files:
            pairs[link.oid] = f"{before} {link.tree}"
    pickaxe = [] if wanted.text is None else ["-M", "--textconv", f"-S{wanted.text}"]
    git = store.repo.git.changed({} if pickaxe else no_index(store.repo), directory=wanted.directory)
    lines = [f"{pair}\n".encode() for pair in dict.fromkeys(pairs.values())]
    # git 2.36.0 forgets the paths after the first pair
    parts = [[line] for line in lines] if wanted.paths and version(store.repo) == (2, 36) else [lines] if lines else []
    words, large = (*_TREES, *pickaxe, "--", *wanted.paths), MANY if pickaxe else len(lines)
    told = b"".join(git.divided(*words, lines=part, large=large) for part in parts)
    headers, changed, pair = 0, set[bytes](), b""
    for row in told.splitlines():
        if row.startswith(b":"):
            changed.add(pair)
        else:
            headers, pair = headers + 1, row
    if headers != len(lines):  # git passes over a tree that is not there without failing
        raise CollectedError("cannot compare checkpoints: a tree of one cannot be read", MENDS)
    return [link for link in links if not link.tree or pairs.get(link.oid, "").encode() in changed]
