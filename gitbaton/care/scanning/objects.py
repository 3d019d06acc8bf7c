"""Scan for secrets in what is stored or about to be sent, and for bytes that passed no filter: objects in, places out."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec import Json, known, message, parse, path_of, payload, plain
from gitbaton.base.codec.shape import texts_in
from gitbaton.base.errors import MENDS, GitError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.secrets import Redactor
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import names_secrets
from gitbaton.checkpoints.store import CHAINS, NOTES, SAFETY, TIPS, Problem, Store, chain_ref
from gitbaton.checkpoints.store.chain import INDEX, STAGES, beside
from gitbaton.checkpoints.store.refs import IMPORTED, remote_of
from gitbaton.git.objectlists import at_paths, contents, entry_names, first_bytes, introduced, named, reachable, sizes
from gitbaton.git.objects import OID, Object, Objects, RawCommit, TreeEntry, lookup, object_id, parse_commit, parse_tree
from gitbaton.git.repo import Repo

NAMED = "secret-file"  # the kind of a hit that is a file whose very name says that it holds secrets
UNFILTERED = "unfiltered"  # the kind of a hit that is a file's bytes which did not go through their clean filter
NOT_SCANNED = "not-scanned"  # the kind of a hit that is a text over the limit: what nobody looked at is never passed over
MAX_MESSAGE = MAX_TREE = 16 << 20
_MAX_TREE = 64 << 20
# Folders of file bytes beside an index, and in a record of a run, where no filter has a say.
_KEPT, _RECORD = ("raw", "after-raw"), ("reads", "pre", "writes", "orphan", "undeclared", "undeclared-after")
_ASIDE = re.compile(rb"(%s)/(?=[^\n])" % "|".join((*_KEPT, *_RECORD)).encode())
_TIPS = 20  # whose attributes are asked for, beside those of now
_LOOK = 8000  # git itself takes a NUL among so many bytes for the sign of a binary file
_SHOWN, _LONG = 4, 20
# Stands between texts that are looked at together: no rule takes what is on both sides of it for one secret.
_BETWEEN = "\n}-----PuTTY-User{\n"
_TOGETHER = 256 << 10
_REMEMBERED, _SHORT = 10_000, 4096  # texts that were looked at, and characters of one
_LATE = re.compile(rb"i\.[^/]*/[wx]\.[^/]*\Z")  # what came late for one of these
_CHUNK = re.compile(rb"chunks/[0-9]{8}\Z")
_ENTRY = re.compile(rb"^checkpoint ([0-9a-f]{64}|[0-9a-f]{40})\r?$", re.MULTILINE)
_PLACEHOLDER = re.compile(rb"\[redacted:([a-z0-9-]{1,40})\]")
# The sizes of a thread's checkpoint, and of its metadata at the end; no text before them can hold a quote without a backslash.
_SIZES = re.compile(rb'\n\n[^\n]*\n\n\{"v":1,[^\n]*?,"size":\[\d{1,12},(\d{1,12})\],')
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_HELD = re.compile(rb"(?:.*/)?[crwx]\.[A-Za-z0-9_%-]*\Z", re.DOTALL)  # what a thread of LangGraph's holds,
_VALUE = re.compile(rb"[a-z][a-z0-9_+-]{0,63}\0|\[\[")  # a value with its type, or writes after their list
_LEAST = 16  # no secret that is known by its form is shorter
_READ, _OTHER, _NUL = b"r", b"-", b"0"
_CLASS = bytes(ord(_READ if n in b"\t\n\r" or 32 <= n < 127 else _OTHER if n else _NUL) for n in range(256))
_RUN = re.compile(rb"r{%d,}" % _LEAST)
_WIDE = re.compile(rb"(?:[\t\n\r -~]\0){%d,}" % _LEAST)
# In the row of a table one value stands right behind the other, so that nothing says where a key begins and ends.
_ALONE = re.compile(rb"(?:AKIA|ASIA|ABIA|ACCA)(?=[A-Z]{0,15}[0-9])[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}")
_BEGINS = re.compile(rb"(?<=[0-9A-Za-z_])(?:sk-(?=proj-|svcacct-|[A-Za-z0-9]{32})|gl[a-z]{2,5}-|npm_|hf_|gsk_|pplx-|xai-)")
_WORDS = ("step", "note", "next_cmd", "label")
_DULL = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z)\Z")  # an id or a time


@value
class Hit:
    """Place of a secret; never the secret itself.

    ``checkpoint``: the one that has these words, or that brought the file in first; None where none did. ``commit``: the commit
    that holds it, as far as there is one. ``path`` and ``line`` (from 1): in a file; ``line`` is 0 for words; their ``path`` is
    ``step``, ``note``, ``extra.KEY``, ... or ``message`` for a commit's own text. ``kind``: what it looks like, NAMED,
    NOT_SCANNED, or UNFILTERED, of a file's whole bytes, with line 0 as well. ``shown``: its first characters, where they are no
    secret. ``blob``: the file's contents; ``held``: where what is stored was looked at, the checkpoints of all tracks that hold
    them, newest first.
    """

    checkpoint: Oid | None
    commit: Oid | None
    path: str
    line: int
    kind: str
    shown: str = ""
    blob: Oid | None = None
    held: tuple[Oid, ...] = ()

    @property
    def where(self) -> str:
        """``path:line``, or the name of the words."""
        return f"{self.path}:{self.line}" if self.line else self.path


@value
class ScanReport:
    """Result of a scan of what is stored: the hits, how many checkpoints were looked at, and what could not be read."""

    hits: tuple[Hit, ...]
    checkpoints: int
    problems: tuple[Problem, ...]


def scanner(baton: Baton) -> Redactor:
    """Return the redactor to look with: as redaction is set, and at least by its usual rules."""
    settings = baton.settings
    return Redactor("strict" if settings.redact == "strict" else "on", settings.redact_allow)


def is_clean(redact: Redactor, stored: Stored) -> bool:
    """Whether a checkpoint's bytes are canonical, and hold no text that would be redacted."""
    texts = texts_in(stored.raw)
    return texts is not None and redact.leaves({stored.restored, stored.checkpoint.track, *texts})


def lacking(
    baton: Baton, wants: Sequence[Oid], haves: Sequence[Oid] = (), names: Mapping[str, str] | None = None
) -> tuple[Hit, ...]:
    """Return the hits that must not leave: secrets in every object that is reachable from ``wants`` and not from ``haves``.

    Words of checkpoints are held against all rules; files, notes, conversations, other messages, and ``names`` by what they are
    called, against those that cannot be mistaken. Of ``haves``, what is not here excludes nothing. Raises GitError where an
    object cannot be read.
    """
    scan = Scan(baton)
    scan.texts(names or {})
    scan.objects(wants, haves)
    return tuple(scan.hits)


def ungated(baton: Baton, wants: Sequence[Oid], haves: Sequence[Oid] = ()) -> tuple[Hit, ...]:
    """Return as ``lacking`` does, but only what went through no filter."""
    scan = Scan(baton)
    scan.gate(wants, haves)
    return tuple(scan.hits)


class Scan:
    """One scan: what it has found so far, in ``hits``. What was looked at once is not looked at again. ``thorough``: whatever
    would be redacted today in the lines of a conversation counts."""

    def __init__(self, baton: Baton, *, thorough: bool = False) -> None:
        self.repo, self.limit = baton.repo, baton.settings.max_file_size
        self.redactor = scanner(baton)
        self.find, self.thorough = self.redactor.find, thorough
        self.hits: list[Hit] = []
        self.checkpoints: dict[Oid, Oid] = {}  # commit -> id
        self.states: set[Oid] = set()  # the commits that are checkpoints of threads
        self._ids: set[Oid] = set()
        self._seen: set[Oid] = set()
        self._names_seen: set[bytes] = set()
        self._harmless: set[str] = set()  # names and paths that each checkpoint repeats
        self._harmless_words: set[str] = set()  # and prompts, plans and decisions, which stay for a while
        self._missed: list[tuple[Oid, Oid | None, str]] = []  # commit, HEAD and path of what was stored without its filter
        self._linked: dict[Oid, list[tuple[Oid, Oid | None, str]]] = {}  # the commits of which that is known
        self._bases: dict[Oid, Oid] = {}  # base -> the id of the first checkpoint on it
        self._ours: dict[Oid, Oid | None] = {}  # index commit -> its stages commit

    def commits(self, oids: Sequence[Oid]) -> None:
        """Look at the messages of commits."""
        fresh = [oid for oid in dict.fromkeys(oids) if oid not in self._seen]
        self._messages(fresh)

    def together(self, oids: Sequence[Oid]) -> bool:
        """Look at the messages of commits; whether all of them can be read. Where not, nothing of it counts."""
        seen, hits, missed = self._seen.copy(), len(self.hits), len(self._missed)
        try:
            self.commits(oids)
        except GitError:
            self._seen = seen
            del self.hits[hits:], self._missed[missed:]
            return False
        return True

    def objects(self, wants: Sequence[Oid], haves: Sequence[Oid]) -> None:
        """Look at every object that is reachable from ``wants`` and not from ``haves``. Raises GitError."""
        self.repo.progress("listing objects", 0, 0)
        paths = reachable(self.repo, wants, haves)
        items: dict[str, list[Object]] = {"blob": [], "tree": []}
        messages: list[Oid] = []
        for item in sizes(self.repo.objects, [oid for oid in paths if oid not in self._seen]):
            if item.kind in items:
                items[item.kind].append(item)
            else:
                messages.append(item.oid)
        self._messages(messages)
        self._unfiltered(paths, (wants, haves))
        self._files(items["blob"], paths, _Found(self, wants, haves))
        self._names(items["tree"], paths, (wants, haves))

    def gate(self, wants: Sequence[Oid], haves: Sequence[Oid]) -> None:
        """Look at nothing but what went through no filter. Raises GitError."""
        paths = reachable(self.repo, wants, haves)
        commits = [item for item in sizes(self.repo.objects, list(paths)) if item.kind == "commit" and item.size <= MAX_MESSAGE]
        for item in commits:
            self._missed += self._linked.get(item.oid, ())
        for item, data in contents(self.repo.objects, [item for item in commits if item.oid not in self._linked]):
            self._link_to(item.oid, parse_commit(data))
        self._unfiltered(paths, (wants, haves))

    def _link_to(self, oid: Oid, commit: RawCommit) -> tuple[bytes, dict[str, Json] | None]:
        """Remember what a commit of ours is to others; the record in its message, as ``record_in``."""
        raw, record = record_in(commit.message)
        if record is not None:
            self._link(oid, commit, raw)
            self._linked[oid] = [(oid, record_head(record), path) for path in without_filter(record)]
            self._missed += self._linked[oid]
        elif commit.message in (INDEX, STAGES):
            self._ours[oid] = commit.parents[1] if len(commit.parents) > 1 else None
        self._linked.setdefault(oid, [])
        return raw, record

    def _link(self, oid: Oid, commit: RawCommit, raw: bytes) -> None:
        own = self.checkpoints[oid] = object_id(self.repo.layout.algorithm, "blob", raw)
        self._ids.add(own)
        if len(commit.parents) > 1:
            self._bases.setdefault(commit.parents[1], own)
        self._linked[oid] = []

    def _unfiltered(self, paths: Mapping[Oid, bytes], ends: tuple[Sequence[Oid], Sequence[Oid]]) -> None:
        """Look for what stands behind a filter and did not go through it."""

        for found in unfiltered(self.repo, paths, ends, self._missed):
            owner = self.owner(found.commit)
            hit = Hit(checkpoint=owner, commit=found.commit, path=found.path, line=0, kind=UNFILTERED, blob=found.blob)
            self.hits += [hit] if hit not in self.hits else []
        self._missed.clear()

    def each(self, refs: Sequence[tuple[str, Oid]]) -> Iterator[tuple[str, str]]:
        """Look at all that refs reach; those of which something cannot be read, each with why."""
        seen, names, count = self._seen.copy(), self._names_seen.copy(), len(self.hits)
        try:
            self.objects([oid for _, oid in refs], [])
        except GitError as error:
            self._seen, self._names_seen = seen, names
            del self.hits[count:]
            half = len(refs) // 2
            if half:
                yield from self.each(refs[:half])
                yield from self.each(refs[half:])
            else:
                yield refs[0][0], error.message

    def _names(self, trees: Sequence[Object], paths: Mapping[Oid, bytes], ends: tuple[Sequence[Oid], Sequence[Oid]]) -> None:
        """Look at the names of files and folders; where each belongs is asked for those only that are a secret."""
        bad: dict[bytes, Oid] = {}
        for item, data in self._read("scanning folders", [item for item in trees if item.size <= MAX_TREE]):
            self._seen.add(item.oid)
            fresh = entry_names(data, self.repo.layout.algorithm, self._names_seen)
            self._names_seen |= fresh
            if fresh and self.find(b"\n".join(fresh), sure=True):
                bad |= {name: item.oid for name in fresh if self.find(name, sure=True)}
        places = named(self.repo.git, bad, *ends) if bad else {}
        for name, tree in bad.items():
            commit, path = places.get(name, (None, (paths[tree] + b"/" + name).lstrip(b"/")))
            at = Hit(checkpoint=self.owner(commit) if commit else None, commit=commit, path="", line=0, kind="")
            shown = self.redactor.text(os.fsdecode(path))
            for kind in dict.fromkeys(finding.kind for finding in self.find(name, sure=True)):
                self.hits.append(replace(at, path=f"name of {shown}", kind=kind))

    def _messages(self, oids: Sequence[Oid]) -> None:
        large, before = list[Hit](), len(self.hits)
        for done, (oid, found) in enumerate(zip(oids, self.repo.objects.read_many(oids, MAX_MESSAGE), strict=True)):
            self.repo.progress("scanning messages", done, len(oids))
            at = Hit(checkpoint=None, commit=oid, path="message", line=0, kind=NOT_SCANNED)
            if found is None or (found.data is None and found.size <= MAX_MESSAGE):
                raise GitError(f"object {oid} cannot be read", MENDS)
            if found.data is None:
                large.append(at)
                continue
            self._seen.add(oid)
            if found.kind == "commit":
                self._commit(oid, found.data)
            else:
                self._text(replace(at, kind=""), found.data, sure=True)
        self.hits[before:before] = large

    def _read(self, what: str, items: Sequence[Object]) -> Iterator[tuple[Object, bytes]]:
        """Yield each object with its bytes, and word of how many there were."""
        for done, found in enumerate(contents(self.repo.objects, items)):
            self.repo.progress(what, done, len(items))
            yield found

    def _commit(self, oid: Oid, data: bytes) -> None:
        """Look at the words of a checkpoint and what stands around them; of any other commit at everything."""
        commit = parse_commit(data)
        author = commit.author.rsplit(b" ", 2)[0].decode("utf-8", "replace")
        if author in self._harmless and self._is_clean(oid, commit):
            return
        raw, record = self._link_to(oid, commit)
        if record is None:
            at = Hit(checkpoint=None, commit=oid, path="message", line=0, kind="")
            self._text(at, data, sure=True)
            self._metadata(replace(at, path="metadata"), data)
            return
        at = Hit(checkpoint=self.checkpoints[oid], commit=oid, path="message", line=0, kind="")
        found = self._record_words(at, record)
        self._author(replace(at, path="author"), author)
        if commit.message != message(str(record["step"]), raw) and not found:  # else the subject is cut from the step
            self._text(at, commit.message.replace(raw, b"", 1), sure=True)

    def _is_clean(self, oid: Oid, commit: RawCommit) -> bool:
        """Whether a commit is a checkpoint's in which nothing would be redacted; what it is to others is remembered then."""
        try:
            raw = payload(commit.message)
            texts = texts_in(raw)
            if texts is None or b'"filter-missing"' in raw or commit.message != message(known(raw).step, raw):
                return False
        except RecordError:
            return False
        if not self.redactor.leaves(texts):
            return False
        self._link(oid, commit, raw)
        return True

    def _author(self, at: Hit, author: str) -> None:
        """Look at the author of a checkpoint; nearly always it is that of the last one."""
        before = len(self.hits)
        if author not in self._harmless:
            self._text(at, author, sure=True)
        if len(self.hits) == before and len(self._harmless) < _REMEMBERED:
            self._harmless.add(author)

    def _metadata(self, at: Hit, data: bytes) -> None:
        """Look by all rules at what a checkpoint of a thread says of itself, as at the words of any checkpoint."""
        size = _SIZES.search(data)
        if size is not None:
            self.states.add(at.commit or "")
            known = {hit.kind for hit in self.hits if hit.commit == at.commit}
            self._text(at, data[-2 - int(size[1]) : -2], sure=False)
            self.hits = [hit for hit in self.hits if hit.commit != at.commit or hit.path != at.path or hit.kind not in known]

    def texts(self, called: Mapping[str, str]) -> None:
        """Look at texts, each under what it is called for people."""
        for shown, text in called.items():
            self._text(Hit(checkpoint=None, commit=None, path=self.redactor.text(shown), line=0, kind=""), text, sure=True)

    def _record_words(self, at: Hit, record: dict[str, Json]) -> bool:
        """Look at what a checkpoint says; whether there was something."""
        before = len(self.hits)
        said = list(words(record))
        fresh = {head + text for _, head, text in said} - self._harmless_words
        if fresh and self.find(_BETWEEN.join(fresh), sure=False):
            for name, head, text in said:
                self._text(replace(at, path=name), text, sure=False, head=head)
        elif len(self._harmless_words) < _REMEMBERED:
            self._harmless_words.update(text for text in fresh if len(text) <= _SHORT)
        rest = others(record, {w[2] for w in said}, self._harmless)
        if rest and self.find(_BETWEEN.join([text for _, text in rest]), sure=True):
            for name, text in rest:
                self._text(replace(at, path=name), text, sure=True)
        if len(self.hits) == before and len(self._harmless) < _REMEMBERED:
            self._harmless.update(text for _, text in rest)
        return len(self.hits) > before

    def _text(self, at: Hit, text: str | bytes, *, sure: bool, head: str = "") -> None:
        """Look at one text that has no lines to name; each kind counts once. ``head``: what it is called by."""
        whole = head + text if isinstance(text, str) else text
        found = {f.kind: f for f in reversed(self.find(whole, sure=sure)) if f.end > len(head)} if text else {}
        for kind, finding in found.items():
            said = whole[finding.start : finding.end]
            unmistakable = sure or any(f.kind == kind for f in self.find(said, sure=True))
            self.hits.append(replace(at, kind=kind, shown=_masked(said) if unmistakable else ""))

    def _files(self, blobs: Sequence[Object], paths: Mapping[Oid, bytes], found: _Found) -> None:
        """Look at the contents of files; where each hit belongs is asked at last, for those blobs only."""
        small = [item for item in blobs if item.size <= self.limit]
        for item in blobs:
            if item.size > self.limit and names_secrets(os.fsdecode(paths[item.oid])):
                found.add(item.oid, paths[item.oid], _nowhere(1, NAMED))
            if item.size > self.limit:
                head = first_bytes(self.repo.git, item.oid, _LOOK)
                if not _binary(head) or _is_value(paths[item.oid], head):
                    found.add(item.oid, paths[item.oid], _nowhere(1, NOT_SCANNED))
        group: list[tuple[Oid, bytes]] = []
        size = 0
        for item, data in self._read("scanning files", small):
            self._seen.add(item.oid)
            text = b"" if not paths[item.oid] and self._is_tip(item.oid, data) else text_of(data, paths[item.oid])
            if size + len(text) > _TOGETHER:
                self._group(group, paths, found)
                group, size = [], 0
            if data and names_secrets(os.fsdecode(paths[item.oid]), data):
                self._named(item.oid, text, paths[item.oid], found)
                continue
            group += [(item.oid, text)] if text else []
            size += len(text)
        self._group(group, paths, found)
        self.hits += found.settled()

    def _group(self, group: Sequence[tuple[Oid, bytes]], paths: Mapping[Oid, bytes], found: _Found) -> None:
        """Look at some files together, and at each where there is something."""
        if self.thorough:
            for oid, text in group:
                if _CHUNK.match(paths[oid]):
                    self._lines(oid, text, paths[oid], found)
            group = [(oid, text) for oid, text in group if not _CHUNK.match(paths[oid])]
        if not self.redactor.suspects(text for _, text in group):
            return
        if len(group) > 1 and not self.find(_BETWEEN.encode().join([text for _, text in group]), sure=True):
            return
        for oid, text in group:
            # A path of a notes tree, with any fan-out, is a commit's id.
            noted = OID.match(paths[oid].replace(b"/", b"").decode("ascii", "replace")) is not None
            for finding in self.find(text, sure=True):
                hit = _nowhere(text.count(b"\n", 0, finding.start) + 1, finding.kind)
                ids = [m.group(1).decode() for m in _ENTRY.finditer(text, 0, finding.start)] if noted else []
                shown = _masked(text[finding.start : finding.end])
                found.add(oid, paths[oid], replace(hit, shown=shown, checkpoint=ids[-1] if ids else None))

    def _named(self, oid: Oid, text: bytes, path: bytes, found: _Found) -> None:
        """Look by all rules at a file with a name that says that it holds secrets; readable parts of others are no words."""
        found.add(oid, path, _nowhere(1, NAMED))
        for finding in self.find(text, sure=b"\0" in text):
            found.add(oid, path, _nowhere(text.count(b"\n", 0, finding.start) + 1, finding.kind))

    def _lines(self, oid: Oid, text: bytes, path: bytes, found: _Found) -> None:
        """Look at the lines of a conversation as redaction does; each kind counts once a line."""
        for number, line, clean in self.redactor.lines(text):
            before = _PLACEHOLDER.findall(line)
            for kind in dict.fromkeys(_PLACEHOLDER.findall(clean)):
                if clean.count(b"[redacted:%s]" % kind) > before.count(kind):
                    found.add(oid, path, _nowhere(number, kind.decode()))

    def _is_tip(self, oid: Oid, data: bytes) -> bool:
        """Whether a blob that stands in no tree is a checkpoint's JSON; one of a chain that was looked at says nothing new."""
        record = record_in(b"\n\n" + data)[1] if oid not in self._ids else {}
        if record:
            self._record_words(Hit(checkpoint=oid, commit=None, path="", line=0, kind=""), record)
        return record is not None

    def owner(self, commit: Oid) -> Oid | None:
        """Return the checkpoint that a commit is, or is a part of."""
        if commit in self._ours:
            index = next((i for i, stages in self._ours.items() if stages == commit), commit)
            return self._bases.get(index)
        return self.checkpoints.get(commit)


class _Found:
    """Hits in files before the commit that brought them in is known."""

    def __init__(self, scan: Scan, wants: Sequence[Oid], haves: Sequence[Oid]) -> None:
        self.scan, self.wants, self.haves = scan, wants, haves
        self.hits: dict[Oid, list[Hit]] = {}
        self.paths: dict[Oid, bytes] = {}

    def add(self, oid: Oid, path: bytes, hit: Hit) -> None:
        """Remember a hit in a blob that git names by ``path``."""
        self.hits.setdefault(oid, []).append(hit)
        self.paths[oid] = path

    def settled(self) -> Iterator[Hit]:
        """Yield every hit with its path, commit and checkpoint, less those in blobs that ``haves`` hold elsewhere."""
        git = self.scan.repo.git
        if not self.hits:
            return
        # rev-list stops at the trees of the commits it ends at; older ones may hold a blob as well.
        held = introduced(git, self.hits, self.haves, (), paths=sorted(set(self.paths.values())))
        left = [oid for oid in self.hits if oid not in held]
        brought = introduced(git, left, self.wants, self.haves)
        for oid in left:
            places = brought.get(oid, [])
            if any(hit.kind == NAMED for hit in self.hits[oid]):  # the same bytes may stand under other names, too
                places = [place for place in places if place[1] == self.paths[oid]] or places
            own = next((place for place in places if self.scan.owner(place[0])), None)
            # Threads hold the same value in one blob: each is named, since one may be deleted and another stay.
            several = [place for place in places if place[0] in self.scan.states or _LATE.match(place[1])]
            named = [own] if own else several or places[:1]
            for commit, path in named if named else [(None, self.paths[oid])]:
                owner, where = self.scan.owner(commit) if commit else None, self._path(path, commit)
                at = {"path": where, "commit": commit, "blob": oid}
                yield from (replace(hit, **at, checkpoint=hit.checkpoint or owner) for hit in self.hits[oid])

    def _path(self, path: bytes, commit: Oid | None) -> str:
        """Return the path as people know it; that of a conversation's chunk after the conversation."""
        if commit is not None and _CHUNK.match(path):
            return _conversation(self.scan, commit) + os.fsdecode(path)
        return os.fsdecode(path) or "message"


def _conversation(scan: Scan, commit: Oid) -> str:
    """``transcripts/AGENT/SESSION/`` of the commit of a conversation; empty where it is none."""
    objects = scan.repo.objects
    found = objects.read(commit)
    try:
        entry = lookup(objects, parse_commit(found.data).tree, b"meta") if found and found.data else None
        meta = objects.read(entry.oid) if entry else None
        said = parse(meta.data) if meta and meta.data else None
    except RecordError:
        return ""
    return f"transcripts/{said.get('agent')}/{said.get('session')}/" if isinstance(said, dict) else ""


def text_of(data: bytes, path: bytes = b"") -> bytes:
    """Return a file's text in UTF-8 or whatever it is in; of a binary file, and of what a thread holds, what can be read."""
    if data[:2] in _UTF16:
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    return readable(data) if _binary(data) or _is_value(path, data) else data


def _binary(data: bytes) -> bool:
    return b"\0" in data[:_LOOK]


def _is_value(path: bytes, data: bytes) -> bool:
    """Whether a blob looks like one of a thread: values are packed in it, also where no NUL says so."""
    return _HELD.match(path) is not None and _VALUE.match(data) is not None


def _nowhere(line: int, kind: str) -> Hit:
    return Hit(checkpoint=None, commit=None, path="", line=line, kind=kind)


def _masked(said: str | bytes) -> str:
    """Return the first characters of what is long and of a form with a well-known beginning."""
    text = said if isinstance(said, str) else said.decode("ascii", "replace")
    return plain(text[:_SHOWN]) + "…" if len(text) >= _LONG else ""


def readable(data: bytes) -> bytes:
    """Return the runs of readable characters in a binary file, of one or two bytes each, apart from each other; its line
    feeds are kept, so that a line of the result is one of the file's."""
    said = data.translate(_CLASS)
    if (_READ + _NUL) * _LEAST in said:
        data = _WIDE.sub(lambda match: b"\0" + match.group()[::2] + b"\0", data)
        said = data.translate(_CLASS)
    parts, done = [], 0
    for match in _RUN.finditer(said):
        start, end = match.span()
        parts += [b"\n" * data.count(b"\n", done, start), data[start:end]]
        done = end
    text = b"\0".join(parts)
    return _BEGINS.sub(rb"\0\g<0>", _ALONE.sub(rb"\0\g<0>\0", text))


def record_in(text: bytes) -> tuple[bytes, dict[str, Json] | None]:
    """Return the JSON in a message and what it says; None where it is no checkpoint."""
    try:
        raw = payload(text)
        record = parse(raw)
    except RecordError:
        return b"", None
    return (raw, record) if isinstance(record, dict) and "track" in record and "step" in record else (b"", None)


def record_head(record: Mapping[str, Json]) -> Oid | None:
    """Return the commit that a record stands on, as far as it is an id."""
    head = record.get("head")
    return head if isinstance(head, str) and OID.match(head) else None


def without_filter(record: Mapping[str, Json]) -> list[str]:
    """Return the paths that a record says were stored as they were on disk, because their filter did not run."""
    files = record.get("files")
    skipped = files.get("skipped") if isinstance(files, dict) else None
    rows = [row for row in skipped if isinstance(row, dict)] if isinstance(skipped, list) else []
    found = []
    for row in rows:
        if row.get("reason") == "filter-missing" and "path" in row:
            with suppress(RecordError):
                found.append(path_of(row["path"]))
    return found


def words(record: Mapping[str, Json]) -> Iterator[tuple[str, str, str]]:
    """Yield the written texts: a name, what it is called by where that counts, and the text."""
    carried = record.get("carried")
    texts: list[tuple[str, str, Json]] = [(name, "", record.get(name)) for name in _WORDS]
    texts.append(("carried.step", "", carried.get("step") if isinstance(carried, dict) else None))
    decisions, extra = record.get("decisions"), record.get("extra")
    texts += [("decision", "", text) for text in decisions] if isinstance(decisions, list) else []
    standing = record.get("standing")
    texts.append(("note", "", standing.get("note") if isinstance(standing, dict) else None))
    texts += [(f"extra.{key}", f"{key}=", text) for key, text in extra.items()] if isinstance(extra, dict) else []
    return ((name, head, text) for name, head, text in texts if isinstance(text, str) and text)


def others(record: Mapping[str, Json], said: Collection[str], harmless: Collection[str]) -> list[tuple[str, str]]:
    """Return all other texts, names and paths, and what we do not know, each with its field; but for those that are
    ``harmless``."""
    found = list[tuple[str, str]]()
    for key, item in record.items():
        texts = [key]
        _gather(item, texts)
        found += [(key, text) for text in texts if text not in harmless and text not in said and not _DULL.match(text)]
    return found


def _gather(item: Json, into: list[str]) -> None:
    """Put all texts of a value into a list."""
    if isinstance(item, str):
        into.append(item)
    elif isinstance(item, dict):
        for key, inner in item.items():
            into.append(key)
            if isinstance(inner, str):
                into.append(inner)
            elif inner:
                _gather(inner, into)
    elif isinstance(item, list):
        for inner in item:
            _gather(inner, into)


def scan(
    baton: Baton,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    files: bool = False,
    refs: Mapping[str, Oid] | None = None,
    called: Mapping[str, str] | None = None,
) -> ScanReport:
    """Look for secrets in what is stored: the words of the named checkpoints and whole tracks (default: the current track).

    ``everything``: all tracks, safety checkpoints, notes, conversations, and what else lies in our namespace, fetched or not.
    ``files``: the contents of captured files as well, those that HEAD's history does not hold. ``refs``: all that these reach,
    and nothing else; threads, for example. ``called``: names to look at, each under what it is called. A problem, with the rest
    looked at, is a ref of which anything cannot be read, and what of the other checkpoints cannot be searched for a file that
    was found. Raises NotFoundError, AmbiguousNameError, and GitError where files of a named checkpoint cannot be read.
    """
    looking, problems = Scan(baton, thorough=True), []
    if refs is None:
        chains, singles, others = _chosen(baton, names, everything=everything)
    else:
        chains, singles, others = {}, [], dict(refs)
    looking.texts(called or {})
    walked, root = baton.repo.objects.chains(chains.values()), baton.store.root
    listed = [walked.get(tip, []) for tip in chains.values()]
    is_whole = all(oids[-1:] == [root] for oids in listed)
    is_done = is_whole and looking.together([oid for oids in listed for oid in oids if oid != root])
    for ref, tip in () if is_done else chains.items():
        try:
            looking.commits([oid for oid in baton.repo.objects.first_parents(tip) if oid != root])
        except GitError as error:
            problems.append(Problem(where=ref, reason=error.message))
    looking.commits([stored.commit for stored in singles])
    broken = {problem.where for problem in problems}
    whole, haves = {ref: tip for ref, tip in chains.items() if ref not in broken}, _present(baton)
    look = looking.objects if files else looking.gate
    try:
        look([*whole.values()], haves)
    except GitError:  # one of them, which hides none of the others
        for ref, tip in whole.items():
            try:
                look([tip], haves)
            except GitError as error:
                problems.append(Problem(where=ref, reason=error.message))
    if not files:
        for stored in singles:
            looking.gate([stored.commit], [*haves, *baton.repo.objects.first_parents(stored.commit, 2)[1:]])
    problems += [Problem(where=ref, reason=reason) for ref, reason in looking.each(list(others.items()))]
    for stored in singles if files else ():
        before = len(looking.hits)
        looking.objects(captured_trees(baton.store, stored), haves)
        looking.hits[before:] = [replace(h, checkpoint=stored.id, commit=stored.commit) for h in looking.hits[before:]]
    hits, unread = held(baton, looking.hits) if files else (looking.hits, [])
    return ScanReport(
        hits=tuple(hits),
        checkpoints=len(looking.checkpoints) + len(looking.states),
        problems=tuple({problem.where: problem for problem in [*problems, *unread]}.values()),
    )


def held(baton: Baton, hits: Sequence[Hit]) -> tuple[list[Hit], list[Problem]]:
    """Return the same hits, each in a file with all checkpoints of all tracks that hold it, captured or staged; and what of the
    tracks cannot be read, which may hold it, too."""
    blobs = {hit.blob for hit in hits if hit.blob is not None and hit.line}
    if not blobs:
        return list(hits), []
    chains, broken = baton.store.chains()
    history = baton.store.everything(chains)
    problems = [*broken, *history.problems]
    found = holding(baton.store, history.items, blobs, problems)
    ids = {blob: tuple(stored.id for stored in found.get(blob, ())) for blob in blobs}
    return [replace(h, held=ids[h.blob]) if h.blob in blobs and h.line else h for h in hits], problems


def _chosen(baton: Baton, names: Sequence[str], *, everything: bool) -> tuple[dict[str, Oid], list[Stored], dict[str, Oid]]:
    """Return the chains by ref, the checkpoints and the other refs to look at."""
    store = baton.store
    if everything:
        refs = store.objects.refs("refs/baton/", TIPS)
        notes = store.objects.info(NOTES)
        fetched = {ref for ref in refs if (remote_of(ref) or ("", ""))[1].startswith("tracks/")}
        chains = {ref: oid for ref, oid in refs.items() if ref.startswith((CHAINS, SAFETY, IMPORTED)) or ref in fetched}
        others = {ref: oid for ref, oid in refs.items() if ref not in chains}
        return chains, [], others | ({NOTES: notes.oid} if notes else {})
    known = store.chains()[0]
    tracks = [unicodedata.normalize("NFC", name) for name in names]
    singles = [baton.resolve(name) for name, track in zip(names, tracks, strict=True) if track not in known]
    if not names:
        tracks = [baton.tip().checkpoint.track]
    return {chain_ref(track): known[track] for track in tracks if track in known}, singles, {}


def _present(baton: Baton) -> list[Oid]:
    """HEAD and, for the sake of what is compared with it by trees alone, its tree."""
    head = baton.repo.objects.head().oid
    tree = baton.store.tree_of(head)
    return [oid for oid in (head, tree) if oid]


def captured_trees(store: Store, stored: Stored) -> list[Oid]:
    """Return the trees that a checkpoint has captured: its files, its index and what is beside it."""
    commit = store.commit(stored.base)
    index = commit.tree if commit is not None and commit.message == INDEX else None
    return [tree for tree in (stored.tree, index, beside(store, stored)) if tree]


def holding(
    store: Store, items: Iterable[Stored], blobs: Collection[Oid], problems: list[Problem] | None = None
) -> dict[Oid, list[Stored]]:
    """Return which of some checkpoints have captured each of some blobs. One that cannot be read is added to ``problems``;
    without them, RecordError or GitError is raised."""
    search, found = BlobSearch(store.objects, blobs), dict[Oid, list[Stored]]()
    for stored in items:
        try:
            for oid in {oid for _, oid in search.places(*captured_trees(store, stored))}:
                found.setdefault(oid, []).append(stored)
        except (RecordError, GitError) as error:
            if problems is None:
                raise
            problems.append(Problem(where=stored.commit, reason=error.message))
    return found


class BlobSearch:
    """Search of trees for some ``blobs``; each tree is read once."""

    def __init__(self, objects: Objects, blobs: Collection[Oid]) -> None:
        self.objects, self.blobs = objects, blobs
        self._seen: dict[Oid, tuple[tuple[bytes, Oid], ...]] = {}

    def places(self, *trees: Oid | None) -> Iterator[tuple[bytes, Oid]]:
        """Yield each path of some trees with one of the blobs, and which; an absent tree has none. Raises RecordError."""
        for tree in trees:
            if tree is not None and self.blobs:
                self._search(tree)
                yield from self._seen[tree]

    def _search(self, tree: Oid) -> None:
        """Look through a tree, and before it through those below it, however deep they are."""
        waiting, read = [tree], dict[Oid, list[TreeEntry]]()
        while waiting:
            at = waiting[-1]
            if at in self._seen:
                waiting.pop()
                continue
            entries = read[at] = read[at] if at in read else self._entries(at)
            below = [entry.oid for entry in entries if entry.is_tree and entry.oid not in self._seen]
            waiting += below
            if not below:
                held = ((e.name + b"/", self._seen[e.oid]) if e.is_tree else (e.name, ((b"", e.oid),)) for e in entries)
                places = ((name + path, oid) for name, those in held for path, oid in those)
                self._seen[at] = tuple((path, oid) for path, oid in places if oid in self.blobs)
                del read[at]

    def _entries(self, tree: Oid) -> list[TreeEntry]:
        found = self.objects.read(tree, _MAX_TREE)
        if found is not None and (found.kind != "tree" or found.data is None):
            raise RecordError(f"object {tree} cannot be read as a tree")
        return parse_tree(found.data or b"", self.objects.algorithm) if found is not None else []


@value
class Unfiltered:
    """A blob at a path of the work tree that is no work of the filter which it stands behind; ``commit`` brought it in."""

    blob: Oid
    path: str
    driver: str
    commit: Oid


def unfiltered(
    repo: Repo,
    paths: Mapping[Oid, bytes],
    ends: tuple[Sequence[Oid], Sequence[Oid]],
    missed: Sequence[tuple[Oid, Oid | None, str]],
) -> Iterator[Unfiltered]:
    """Yield those of the objects ``paths``, each with a path, which git lists between two ``ends``. ``missed``: what
    checkpoints say that they stored without its filter: the commit, its HEAD and the path. What HEAD's history has at the
    same path git has published itself. Raises GitError."""
    from gitbaton.git.worktree.heldbytes import read_held

    yield from _said(repo, paths, missed)
    asked = {oid: path for oid, path in paths.items() if _ASIDE.match(path)}
    drivers = behind(repo, sorted({_inside(path) for path in asked.values()}), ends[0]) if asked else {}
    asked = {oid: path for oid, path in asked.items() if _inside(path) in drivers and read_held(repo.objects, oid) is None}
    places = introduced(repo.git, asked, *ends) if asked else {}
    names = sorted({os.fsencode(_inside(path)) for path in asked.values()})
    gone = {*introduced(repo.git, asked, ends[1], (), paths=sorted(set(asked.values())))} if asked else set()
    gone |= {*introduced(repo.git, asked, _head(repo), (), paths=names)} if asked else set()
    found = [(oid, commit, path) for oid in asked if oid not in gone for commit, path in places.get(oid, ())]
    found = [place for place in found if _ASIDE.match(place[2]) and _inside(place[2]) in drivers]
    records = at_paths(repo.git, [(commit, b"record.json") for _, commit, _ in found])
    for (oid, commit, path), record in zip(found, records, strict=True):
        if record is not None if path.partition(b"/")[0].decode() in _RECORD else _is_stages(repo, commit):
            yield Unfiltered(blob=oid, path=_inside(path), driver=drivers[_inside(path)], commit=commit)


def _said(repo: Repo, paths: Mapping[Oid, bytes], missed: Sequence[tuple[Oid, Oid | None, str]]) -> Iterator[Unfiltered]:
    named = [(commit, head, path) for commit, head, path in missed if "\n" not in path]
    then = at_paths(repo.git, [(commit, os.fsencode(path)) for commit, _, path in named])
    before = at_paths(repo.git, [(head or commit, os.fsencode(path)) for commit, head, path in named])
    for (commit, head, path), oid, old in zip(named, then, before, strict=True):
        if oid is not None and oid in paths and not (head is not None and oid == old):
            yield Unfiltered(blob=oid, path=path, driver="", commit=commit)


def _inside(path: bytes) -> str:
    return os.fsdecode(path.partition(b"/")[2])


def _is_stages(repo: Repo, commit: Oid) -> bool:
    found = repo.objects.read(commit)
    return found is not None and found.data is not None and found.data.endswith(b"\n\ngitbaton stages 1\n")


def _head(repo: Repo) -> list[Oid]:
    head = repo.objects.head().oid
    return [head] if head else []


def behind(repo: Repo, names: Sequence[str], tips: Sequence[Oid]) -> dict[str, str]:
    """Return the filter that each path stands behind, by the attributes of now, of HEAD, or of what is looked at."""
    from gitbaton.git.worktree.gate import filters

    found: dict[str, str] = {}
    for tip in [*_head(repo), *tips][:_TIPS]:
        with suppress(GitError):  # before 2.40 git cannot be asked
            found |= filters(repo.git, names, f"--source={tip}")
    with suppress(GitError):
        found |= filters(repo.git, names)
    return found
