"""Results of other runs by their key: the subjects of all runs' commits are listed by one process, and few are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from gitbaton.errors import BatonError, GitError
from gitbaton.git.repo import Repo
from gitbaton.journal.values import Logged
from gitbaton.model import Oid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Runs(Protocol):
        """The runs of a repository: gitbaton.journal.chain.Journal."""

        repo: Repo

        def refs(self) -> dict[str, Oid]:
            """The local runs and their newest commits."""

        def records(self, run: str) -> tuple[Logged, ...]:
            """The records of a run, oldest first."""


_END = re.compile(r": end[ ,].*key ([0-9a-f]{12})\Z")


class Finder:
    """An index of the ends of all local runs by the first digits of their keys, brought up to date when it is asked."""

    def __init__(self, journal: Runs) -> None:
        self._journal = journal
        self._seen: dict[str, Oid] = {}
        self._ends: dict[str, set[Oid]] = {}

    def find(self, key: str, but: str) -> Logged | None:
        """See Journal.find."""
        refs = {run: oid for run, oid in self._journal.refs().items() if run != but}
        self._list(refs)
        commits = self._ends.get(key[:12])
        found: list[Logged] = []
        for run in refs if commits else ():
            try:
                records = self._journal.records(run)
            except BatonError:
                continue  # a run that is broken, or was dropped meanwhile, has nothing to serve
            found += [logged for logged in records if logged.commit in (commits or ()) and _servable(logged, key)]
        return max(found, key=lambda logged: logged.record.started, default=None)

    def _list(self, refs: dict[str, Oid]) -> None:
        """Take in the commits that came since the last question."""
        new = {run: oid for run, oid in refs.items() if self._seen.get(run) != oid}
        try:
            self._take(new, refs)
        except GitError:  # a run that cannot be read hides no other
            for run, oid in new.items():
                with suppress(GitError):
                    self._take({run: oid}, refs)

    def _take(self, new: Mapping[str, Oid], refs: Mapping[str, Oid]) -> None:
        if not new:
            return
        lines = [*new.values(), *(f"^{oid}" for run, oid in self._seen.items() if refs.get(run) == oid)]
        stdin = "".join(f"{line}\n" for line in lines).encode()
        raw = self._journal.repo.git.out("rev-list", "--first-parent", "--stdin", "--format=%s", stdin=stdin)
        rows = raw.decode("utf-8", "replace").split("\n")[:-1]
        for commit, text in zip(rows[::2], rows[1::2], strict=False):
            match = _END.search(text)
            if match:
                self._ends.setdefault(match.group(1), set()).add(commit.removeprefix("commit "))
        self._seen |= new


def _servable(logged: Logged, key: str) -> bool:
    """Whether a record is a result with that key that another run may serve."""
    r = logged.record
    return (
        r.type == "end"
        and r.key == key
        and r.effect in (None, "none")
        and r.stable is not False
        and not logged.foreign
        and r.writes is not None
        and r.writes.tree is not None
    )
