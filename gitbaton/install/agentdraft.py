"""A plan of an install in the making: what each file will be, what is remembered of it, and what is left alone and said."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from gitbaton.agents.settings import MalformedError, undone
from gitbaton.install.agentfiles import check_writable
from gitbaton.install.agentmerge import Found
from gitbaton.install.agentplaces import Place, Target, found_in, refused, text_of
from gitbaton.install.agentrecords import Change, Record, Records, carry_out
from gitbaton.install.hookfiles import digest
from gitbaton.install.steps import Step
from gitbaton.values import value


@value
class Plan:
    """What is to be done. ``notices`` always matter; ``remarks`` are for when something is done."""

    steps: tuple[Step, ...]
    changes: tuple[Change, ...]
    records: Records
    folders: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class Draft:
    """A plan in the making, at one place."""

    def __init__(self, where: Place) -> None:
        self.where, self.records = where, Records(where.records, where.others)
        self.steps: list[Step] = []
        self.changes: list[Change] = []
        self.folders: list[str] = []
        self.notices: list[str] = []
        self.seen: set[str] = set()

    def plan(self, remarks: Iterable[str] = ()) -> Plan:
        """The plan."""
        return Plan(
            steps=tuple(self.steps),
            changes=tuple(self.changes),
            records=self.records,
            folders=tuple(self.folders),
            notices=tuple(dict.fromkeys(self.notices)),
            remarks=tuple(remarks) if self.steps else (),
        )

    def spare(self, path: str) -> bool:
        """Leave a file out of the plan from here on; whether it was left out or met before: two names may lead to one."""
        real = os.path.realpath(path)
        before = real in self.seen
        self.seen.add(real)
        return before

    def put(self, target: Target) -> None:
        """Plan to have a part in its file. Raises BatonError for a file that must be refused."""
        file, text = target.file, text_of(target)
        there = found_in(target)
        if self.spare(file.real) or not self._may_replace(target, text, there):
            return
        exact, old = self.records.exact(file), self.records.of(file)
        base = undone(text, exact.edits) if exact and exact.edits is not None and not target.part.whole else text
        try:
            merged = target.part.put(base)
        except (MalformedError, RecursionError) as error:
            raise refused(target, error) from None
        if merged.text == text and file.data is not None:
            return
        first = exact is not None or there.count == 0
        record = Record(
            digest=digest(merged.text.encode("utf-8", target.part.errors)),
            edits=merged.edits if first and not target.part.whole else None,
            made=merged.made if first else (*old.made, *merged.made) if old and old.made is not None else None,
            created=exact.created if exact else file.data is None or bool(old and old.created and not first),
            folders=old.folders if old else (),
        )
        self._change(target, _said(target, there), merged.text, record)

    def take(self, target: Target) -> None:
        """Plan to have a part out of its file, and the file away if install made it and nothing else is in it."""
        file, text = target.file, text_of(target)
        there = found_in(target)
        self.foreign(file.shown, there.foreign)
        if file.data is None or there.count == 0 or self.spare(file.real):
            return
        exact, old = self.records.exact(file), self.records.of(file)
        if exact is None and not target.part.known(text):
            self.notices.append(f"{target.part.kept(file.shown)} changed since it was installed, and stays")
            return
        if exact is not None and exact.edits is not None:
            after = undone(text, exact.edits)
            gone = exact.created
        else:
            after = target.part.take(text, old.made if old else None).text
            bare = old is not None and old.created and target.part.is_bare(after, old.made or ())
            gone = target.part.whole or bare or (old is None and target.part.fresh(text))
        if gone:
            self.folders += old.folders if old else ()
            self.folders += [os.path.dirname(file.real)] if os.path.basename(file.real) == "SKILL.md" else []
        what = f"remove '{file.shown}'" if gone else f"take {target.about} out of '{file.shown}'"
        self._change(target, what, None if gone else after)

    def _change(self, target: Target, text: str, after: str | None, record: Record | None = None) -> None:
        """Plan new text for a file, or none."""
        check_writable(target.file, gone=after is None)
        data = after.encode("utf-8", target.part.errors) if after is not None else None
        change = Change(file=target.file, after=data, record=record)
        self.changes.append(change)
        self.steps.append(Step(text=text, run=partial(carry_out, change, self.records)))

    def _may_replace(self, target: Target, text: str, there: Found) -> bool:
        """Whether a part may be written: what is there of it is as we wrote it, and a file of our own is ours."""
        file = target.file
        self.foreign(file.shown, there.foreign)
        if file.data is None:
            return True
        if target.part.whole and there.count == 0:
            self.notices.append(f"'{file.shown}' is not ours, and is left as it is")
            return False
        if there.count and self.records.exact(file) is None and not target.part.known(text):
            self.notices.append(f"{target.part.kept(file.shown)} changed since it was installed, and is left as it is")
            return False
        return True

    def foreign(self, shown: str, lines: Iterable[str]) -> None:
        """Tell of lines of the user's own that call us."""
        for line in lines:
            words = line if len(line) <= 60 else line[:57] + "..."
            self.notices.append(f"'{shown}' has a line of your own that names our hook, and it is left as it is: {words}")


def _said(target: Target, there: Found) -> str:
    """What the user is told of a part that is put into its file, a change of its track included."""
    shown, track = target.file.shown, target.part.track
    if there.count == 0:
        return f"{'write' if target.file.data is None else 'add'} {target.about} to '{shown}'"
    changed = f", {_named(track)} instead of {_several(there.tracks)}" if there.tracks != (track,) else ""
    return f"renew {target.about} in '{shown}'{changed}"


def _several(tracks: tuple[str | None, ...]) -> str:
    return " and ".join(_named(track) for track in tracks)


def _named(track: str | None) -> str:
    return "no track" if track is None else f"track '{track}'"
