"""Errors: one tree; each knows its exit code and its hints.

BatonError                128  fatal, in one line
|- UsageError             129  the command line or a value given to the API is wrong
|- NotFoundError            2  no such checkpoint, track, run or step
|  `- NoCheckpointError      2  this repository has no checkpoint yet
|- NoAnswerError            1  the answer is no
|  |- UnchangedError        1  nothing is new since the newest checkpoint
|  `- RemoteError           1  a remote cannot be reached, refuses, or does not answer in its time
|- AmbiguousNameError     128  a name that could mean several checkpoints or runs
|- NotARepositoryError    128  no repository here, or git refuses to open it
|- GitError               128  git failed where it should not
|  |- CollectedError      128  an object is not here any more, or torn; nothing was recorded
|  |- DamagedIndexError   128  git cannot read the index
|  |- GitTimeoutError     128  git did not answer in its time
|  |- StaleError          128  the work tree or index is no longer what was looked at; nothing was written
|  `- PathError           128  some paths cannot be written or removed
|- RecordError            128  a stored record is not what gitbaton writes
|  `- UnreadableRunError    76  a run is here and cannot be read: what it did nobody knows
|- ScanError              128  the scanner for secrets failed; nothing was written
|- StoppedError           130  Ctrl-C, where something must be said of what it left
|- RunError                 *  a step did not do what it should: 75 to 79, 124, 125; 78 when nothing else is said
`- RefConflictError       128  somebody else moved a ref between our read and our write
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MENDS = "git baton doctor --mend"
NO_TRACK = "no track of this repository can be read"
TAKE_ONE = "take one with 'git baton snapshot \"what is done\"'"


class BatonError(Exception):
    """Something a user can read in one line; ``hints`` are further lines."""

    exit_code = 128

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints


class UsageError(BatonError):
    """The caller asked in a way that cannot be carried out."""

    exit_code = 129


class NotFoundError(BatonError):
    """There is no such checkpoint, track, run or step."""

    exit_code = 2


class NoCheckpointError(NotFoundError):
    """There is no checkpoint at all, and none that cannot be read."""

    def __init__(self) -> None:
        super().__init__("there is no checkpoint in this repository", TAKE_ONE)


class NoAnswerError(BatonError):
    """The question was understood and the answer is no."""

    exit_code = 1


class UnchangedError(NoAnswerError):
    """Nothing is new since the newest checkpoint, and nothing was recorded."""


class RemoteError(NoAnswerError):
    """A remote cannot be reached, refuses, or does not answer; ``kind`` is one of KINDS of gitbaton.git.bounded."""

    def __init__(self, message: str, *hints: str, kind: str = "other") -> None:
        super().__init__(message, *hints)
        self.kind = kind


class AmbiguousNameError(BatonError):
    """A name means more than one checkpoint or run; the hints list them."""


class NotARepositoryError(BatonError):
    """Git opens no repository at the place asked for."""


class GitError(BatonError):
    """A git command or a libgit2 call failed."""


class CollectedError(GitError):
    """An object is not here any more, or torn; nothing is recorded."""


class DamagedIndexError(GitError):
    """Git cannot read the index."""


class GitTimeoutError(GitError):
    """A git command did not end in its time and was killed."""


class StaleError(GitError):
    """The work tree or the index is no longer what a plan was made against; nothing was written. ``paths`` are what moved."""

    def __init__(self, message: str, *hints: str, paths: tuple[str, ...] = ()) -> None:
        super().__init__(message, *hints)
        self.paths = paths


class PathError(GitError):
    """Files cannot be written or removed; ``reasons`` says why, by path, and means what lies below it, too."""

    def __init__(self, message: str, *hints: str, reasons: Mapping[str, str]) -> None:
        super().__init__(message, *hints)
        self.reasons = reasons


class RecordError(BatonError):
    """A stored record breaks the format; nothing in it is used."""


class UnreadableRunError(RecordError):
    """Unreadable run: its ref, a commit or a record of it, so that its effects are unknown. ``reason``: what cannot be read."""

    exit_code = 76

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(f"run '{run}' cannot be read, so nobody knows what it did: {reason}", MENDS)
        self.reason = reason


class ScanError(BatonError):
    """The scanner for secrets failed on a text: nothing is known of it, so nothing was written."""


class StoppedError(BatonError):
    """Ctrl-C ended what was under way; the message says what has become of it."""

    exit_code = 130


class RunError(BatonError):
    """A step of a run could not be done, or waits; ``exit_code``: 75 at a gate, 76 the outcome is unknown, 77 a compensation
    failed, 78 a conflict over the write set, 79 a guard against loops, 124 its time was over, 125 its outputs are not as
    declared."""

    def __init__(self, message: str, *hints: str, code: int = 78) -> None:
        super().__init__(message, *hints)
        self.exit_code = code


class RefConflictError(BatonError):
    """A compare-and-swap of a ref lost; re-read and try again."""
