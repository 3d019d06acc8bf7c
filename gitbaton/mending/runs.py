"""The journal of a run put together again: only whole, for what is not known of a run may be an effect that happened."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gitbaton.codec import counted
from gitbaton.codec.text import MAX_BYTES
from gitbaton.errors import RecordError, UsageError
from gitbaton.git.objects import Commit, TreeEntry, author_at, commit_data, tree_data
from gitbaton.journal.chain import RECORD, foreign_until, subject
from gitbaton.journal.codec import decode, encode
from gitbaton.journal.state import is_mark
from gitbaton.journal.values import BLOBS, TREES, Cause, Reads, Record, Writes
from gitbaton.mending.survey import Lost, Made, Reach, Survey
from gitbaton.model import Oid
from gitbaton.store.chain import root_objects
from gitbaton.store.write import NOBODY
from gitbaton.values import replace, value

_CLOSES = re.compile(r": (end|fail|abort)(,|\Z)")
_LATEST = 3600  # seconds after a step began in which its record is sought


@value
class Held:
    """A record as it can be read, with what lies beside it, the author of its commit and the commit that it keeps."""

    record: Record
    parts: Mapping[str, Oid]
    author: bytes
    keeps: tuple[Oid, ...] = ()
    message: bytes = b""


class Runs:
    """The runs of one repository."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.root = survey, survey.store.root

    def mended(self, run: str, tip: Oid | None) -> Made:
        """A run whose ref points at ``tip`` (None: nobody knows). Where a record is gone of which nobody can say what it was,
        the run stays as it is: whoever began it afresh might do for a second time what must not be done twice. Where nobody
        knows which record is the newest, it could be anything here that cannot be read; else a mark on top of the run says that
        more may have followed."""
        out = way_out(run)
        found, closed, last = self._chain(run, tip)
        lineages = {held.record.lineage for held in found.values()}
        for held in self._about(run):
            if not lineages or held.record.lineage in lineages:
                found.setdefault(held.record.seq, held)
        torn = bool(self.survey.torn.keys() - self.survey.theirs) or bool(self.survey.packs)
        known = len({held.record.lineage for held in found.values()}) == 1 and (tip is not None or not torn)
        if not found:
            return Made(new=None, left=f"nothing of it can be read, so it stays unfinished; {out}")
        last = max(found) if last is None else last
        unknown = [seq for seq in range(last + 1) if seq not in found and seq not in closed]
        kept = [found[seq] for seq in sorted(found) if seq <= last or tip is None]
        if unknown or not known or not self._ends(tip, kept):
            said = "a record cannot be read, and nobody knows what it began, so the run stays unfinished"
            return Made(new=None, left=f"{said}; {out}")
        lost = [Lost(where=f"run '{run}': record {seq}", what=said) for seq, said in closed.items() if seq not in found]
        said = f"{counted(len(kept), 'record')} can be read"
        fetched = foreign_until(self.survey.repo, run)
        if tip is None and fetched is None:  # nothing was recorded here of a run that was fetched
            kept += [] if is_mark(kept[-1].record) else [_mark(kept[-1], len(kept))]
            said += ", and nobody knows whether more followed"
        parent = self.root
        for seq, held in enumerate(kept):
            whole = self._with_whole_parts(run, replace(held, record=replace(held.record, seq=seq)), lost)
            parent = self._commit(whole, parent)
        if fetched is not None and fetched != parent:
            return Made(new=None, left=f"what can be read of it is not what was fetched; {out}")
        self.survey.add(root_objects(self.survey.algorithm))
        return Made(new=parent, lost=tuple(lost), said=said)

    def _ends(self, tip: Oid | None, kept: Sequence[Held]) -> bool:
        """Whether the newest record is among those that were found: its commit can be read, or they come to its very id."""
        if tip is None or self.survey.info(tip) is not None:
            return True
        parent = self.root
        for held in kept[:-1]:
            parent = self._commit(held, parent)
        who, start = kept[-1].author.rsplit(b" ", 2)[0], int(kept[-1].record.started.timestamp() // 1)
        dates = (who + b" %d +0000" % second for second in range(start - 1, start + _LATEST))
        return any(self._commit(replace(kept[-1], author=author), parent) == tip for author in dates)

    def _chain(self, run: str, tip: Oid | None) -> tuple[dict[int, Held], dict[int, str], int | None]:
        """The records that can be read from the newest commit down; of those that cannot, and by their subject closed a step
        that had begun, that subject; and the number of the newest, where it is known."""
        oids = self.survey.first_parents(tip) if tip is not None else []
        found: dict[int, Held] = {}
        subjects: dict[int, bytes] = {}
        first = oids.index(self.root) - 1 if self.root in oids else None  # where the newest would be if the last is number 0
        for place, oid in enumerate(oids):
            commit = self.survey.commit(oid) if oid != self.root else None
            if commit is None:
                continue
            held = self._held(run, commit)
            if held is None:
                subjects[place] = commit.message
            else:
                found[held.record.seq] = held
                first = held.record.seq + place
        if first is None:
            return found, {}, None
        said = {first - place: text.decode("utf-8", "replace").strip() for place, text in subjects.items()}
        return found, {seq: text for seq, text in said.items() if _CLOSES.search(text)}, first

    def _held(self, run: str, commit: Commit) -> Held | None:
        names = {e.name.decode("utf-8", "replace"): e.oid for e in self.survey.entries(commit.tree) or ()}
        record = self._record(run, names.pop(RECORD, ""))
        if record is None:
            return None
        return Held(record=record, parts=names, author=commit.author, keeps=commit.parents[1:], message=commit.message)

    def _record(self, run: str, oid: Oid) -> Record | None:
        item = self.survey.read(oid, MAX_BYTES) if oid else None
        try:
            record = decode(item.data) if item is not None and item.kind == "blob" and item.data else None
        except RecordError:
            return None
        return record if record is not None and record.run == run else None

    def _about(self, run: str) -> list[Held]:
        """The records of a run that lie about: in commits, or only as text."""
        held = filter(None, (self._held(run, commit) for commit in self.survey.commits.values()))
        found = {encode(one.record): one for one in held}
        who = next((one.author.rsplit(b" ", 2)[0] for one in found.values()), NOBODY)
        bare = (Commit(tree=tree, parents=(), author=b"", message=b"") for tree in self.survey.run_trees)
        records = filter(None, (self._record(run, oid) for oid in self.survey.records))
        texts = [*filter(None, (self._held(run, commit) for commit in bare))]
        for one in (*texts, *(Held(record=record, parts=_named(record), author=b"") for record in records)):
            if encode(one.record) not in found:
                author = author_at(who, one.record.started)
                found[encode(one.record)] = replace(one, author=author)
        return list(found.values())

    def _with_whole_parts(self, run: str, held: Held, lost: list[Lost]) -> Held:
        """The record without what lies beside it and cannot be read; then its result is not served, and its key not made
        again."""
        record, parts, gone = held.record, dict(held.parts), list[str]()
        for name, oid in held.parts.items():
            bad = Reach(self.survey, self.survey.theirs, contents=True).walk([oid]).bad
            if bad:
                del parts[name]
                gone.append(name)
                paths = ", ".join(sorted(path.decode("utf-8", "replace") for path in bad.values() if path))
                lost.append(Lost(where=f"run '{run}': record {record.seq}", what=f"{name} {paths}".strip()))
        keeps = tuple(oid for oid in held.keeps if not Reach(self.survey, self.survey.theirs, contents=True).walk([oid]).bad)
        if not gone:
            return replace(held, keeps=keeps)
        empty = self.survey.make("tree", b"")
        changes: dict[str, object] = {"redacted": True}
        if record.reads is not None and "reads" in gone:
            changes["reads"] = Reads(globs=record.reads.globs, tree=empty, n=0)
            parts["reads"] = empty
        if record.writes is not None and {"pre", "writes"} & set(gone):
            pre = empty if "pre" in gone else record.writes.pre
            tree = empty if "writes" in gone else record.writes.tree
            changes["writes"] = Writes(globs=record.writes.globs, pre=pre, tree=tree, folders=record.writes.folders)
            parts |= {"pre": pre} | ({"writes": tree} if tree is not None else {})
        changes |= {"stable": False} if record.stable else {}
        changes |= {name: None for name in ("stdout", "stderr") if name in gone}
        changes |= {"undeclared": ()} if {"undeclared", "undeclared-after"} & set(gone) else {}
        return replace(held, record=replace(record, **changes), parts=parts, keeps=keeps)

    def _commit(self, held: Held, parent: Oid) -> Oid:
        """Put a record on top of a commit; the same record in the same place is the same commit."""
        try:
            raw = self.survey.make("blob", encode(held.record))
        except UsageError as error:
            raise RecordError(error.message) from None
        parts = [(b"40000" if name in TREES else b"100644", name, oid) for name, oid in held.parts.items()]
        entries = [TreeEntry(mode=mode, name=name.encode(), oid=oid) for mode, name, oid in (*parts, (b"100644", RECORD, raw))]
        tree = self.survey.make("tree", tree_data(entries))
        text = held.message or subject(held.record)
        data = commit_data(tree=tree, parents=(parent, *held.keeps), author=held.author, message=text)
        return self.survey.make("commit", data)


def way_out(run: str) -> str:
    """What a person may do about a run that stays unreadable."""
    return f"when you know that nothing of it would be done twice: git baton run prune {run} --force"


def _mark(last: Held, seq: int) -> Held:
    """The record that says that more may have followed."""
    old, text = last.record, "the ref of the run was lost, and perhaps records that followed"
    record = Record(
        type="release",
        run=old.run,
        lineage=old.lineage,
        started=old.at,
        host=old.host,
        pid=old.pid,
        boot=old.boot,
        seq=seq,
        state="stopped",
        cause=Cause(kind="lost"),
        text=text,
    )
    return Held(record=record, parts={}, author=last.author)


def _named(record: Record) -> dict[str, Oid]:
    """What lies beside a record, as far as it names it itself."""
    found = {
        "reads": record.reads.tree if record.reads else None,
        "pre": record.writes.pre if record.writes else None,
        "writes": record.writes.tree if record.writes else None,
        "stdout": record.stdout.oid if record.stdout else None,
        "stderr": record.stderr.oid if record.stderr else None,
    }
    return {name: oid for name, oid in found.items() if oid is not None and name in (*TREES, *BLOBS)}
