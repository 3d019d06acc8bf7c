"""Who brought what: one path as it is now, and whose work that is."""

from __future__ import annotations

from gitbaton.model import Oid
from gitbaton.values import value

Step = tuple[Oid, Oid]  # two trees, before and after
Contents = dict[str, str]  # by path: ``mode id``; empty for an absent path


@value
class Present:
    """One path as it is now: a blob's id and its mode ("100644", "100755", "120000"), or None and "" when it is absent."""

    path: str
    oid: Oid | None
    mode: str


@value
class Owner:
    """Who brought a path's present content: the other ``track`` (None: a commit did) and the id of that checkpoint or
    commit."""

    path: str
    track: str | None
    where: Oid
