"""Requests and results of the Python API, as values."""

from __future__ import annotations

from gitbaton.model import Agent, Carried, Checkpoint, Kind, Live, Since, Stored, Validation
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.secrets import Redacted
    from gitbaton.store.write import Draft


@value
class Request:
    """The words of a snapshot. ``track`` may be None when GIT_BATON_TRACK or baton.track names one; ``step`` may be empty
    when ``label`` is given."""

    track: str | None = None
    step: str = ""
    note: str = ""
    next_cmd: str = ""
    validation: Validation = "pending"
    decisions: tuple[str, ...] = ()
    label: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    kind: Kind = "manual"
    agent: Agent | None = None
    carried: Carried | None = None
    files: bool = True
    set_current: bool = True


@value
class Plan:
    """What a snapshot would record; ``apply`` records it. ``checkpoint.previous`` and ``created`` may still move on."""

    draft: Draft
    request: Request
    warnings: tuple[str, ...]
    redacted: tuple[Redacted, ...] = ()
    quiet: bool = False  # LATEST is brought up to date only where it is

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint as planned."""
        return self.draft.checkpoint


@value
class Snapshot:
    """A recorded checkpoint, what should be said about it, and the secrets that its words held."""

    stored: Stored
    warnings: tuple[str, ...]
    redacted: tuple[Redacted, ...] = ()


@value
class Resumed:
    """A track's newest checkpoint; ``live`` is None unless asked for. ``since``: what has happened since somebody wrote its
    words, as far as it was looked at; None when they are its own and ``live`` was not asked for."""

    stored: Stored
    live: Live | None
    warnings: tuple[str, ...]
    since: Since | None = None


@value
class TrackStatus:
    """One track: its newest checkpoint against the present, and whether it is current in this work tree. ``remotes``: where it
    is from, while no checkpoint of here follows. ``place``: the work tree whose present that is; None in a bare repository."""

    stored: Stored
    live: Live
    current: bool
    remotes: tuple[str, ...] = ()
    place: str | None = None
