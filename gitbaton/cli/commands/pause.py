"""``git baton pause``."""

from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, NoAnswerError, UsageError
from gitbaton.checkpoints.store import state
from gitbaton.cli.common import one_of, opened
from gitbaton.cli.options import Invocation, Option


def command(
    ctx: Invocation,
    length: Annotated[Optional[str], Option("--for", metavar="LENGTH", help="For so long, as in 30m, 8h or 1d.")] = None,
    until: Annotated[
        Optional[str], Option("--until", metavar="TIME", help="Until then, as in 18:00, 2026-01-31 or '2026-01-31 09:00'.")
    ] = None,
    end: Annotated[bool, Option("--end", help="Let the hooks act again.")] = False,
) -> int:
    """Silence the hooks of this repository: for a while, or until you end it.

    Agents' hooks record nothing and tell nothing, but for one line when a session starts that says so; git's hooks do not warn.
    It holds in every work tree of the repository. What you type works as ever, and 'git baton status' says that hooks are
    silent. Given again, the new end counts.

    Times are local. A time of the day is the next such one.

    Examples:
        git baton pause --for 8h
        git baton pause --until 18:00
        git baton pause --end   # the hooks act again
    """
    one_of(**{"for": length is not None, "until": until is not None, "end": end})
    with opened(ctx) as baton:
        now = baton.clock()
        moment = None if length is None else now + timedelta(seconds=_seconds(length))
        moment = moment if until is None else _moment(until, now)
        try:
            if end and state.end_pause(baton.repo, now) is None:
                raise NoAnswerError("the hooks of this repository are not silent")
            terminal.say("the hooks act again" if end else state.told_pause(state.pause(baton.repo, now, moment)))
        except OSError as error:
            raise BatonError(f"the pause cannot be written: {error.strerror}") from None
        if not end:
            terminal.tell("hint: 'git baton pause --end' ends it")
    return 0


def _seconds(text: str) -> float:
    from gitbaton.runs.plans import duration

    found = duration(text, "--for")
    if found < 1:
        raise UsageError(f"--for is {in_quotes(text)}; it must be a second at least")
    return found


def _moment(text: str, now: datetime) -> datetime:
    """A local time in UTC, the next one where no day is given. Raises UsageError for one that cannot be read or is over."""
    here = now.astimezone()
    try:
        at = datetime.combine(here.date(), time.fromisoformat(text))
        at = at if at.astimezone() > here else at + timedelta(days=1)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"--until is {in_quotes(text)}; it must be like 18:00, 2026-01-31 or '2026-01-31 09:00'") from None
    try:
        found = at.astimezone(UTC)
    except (ValueError, OverflowError):  # at the ends of the calendar
        raise UsageError(f"--until is {in_quotes(text)}; its year must lie between 2 and 9998") from None
    if found <= now:
        raise UsageError(f"--until is {in_quotes(text)}, and that is over")
    return found
