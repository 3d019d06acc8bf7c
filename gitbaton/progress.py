"""Progress of a plan as one terminal line, and durations as people read them. Pure."""

from __future__ import annotations

from gitbaton.codec import plain
from gitbaton.columns import cut, width

LEAST = 12  # columns below which a line says nothing useful


def spent(seconds: float) -> str:
    """How long something took, in seconds: ``8.1 s``, ``2 min 5 s``, ``1 h 2 min``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def pause(seconds: float) -> str:
    """How long something is waited for, in seconds: ``2 s``, ``0.25 s``, ``2 min 5 s``."""
    return f"{max(seconds, 0):.3g} s" if seconds < 60 else spent(seconds)


def ticking(seconds: float) -> str:
    """How long something has taken so far, in seconds: ``0:12``, ``1:02:03``."""
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """What a run has come to: ``total`` steps, those that are done, those of them that were served, those at work."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.cached = 0
        self._done: set[str] = set()
        self._since: dict[str, float] = {}

    @property
    def done(self) -> int:
        """How many steps have ended."""
        return len(self._done)

    def begin(self, step: str, now: float) -> None:
        """A step is at work from ``now`` on, in seconds of any clock; a further attempt goes on with the same one."""
        self._done.discard(step)  # a step of the region is done again
        self._since.setdefault(step, now)

    def end(self, step: str, *, cached: bool = False) -> None:
        """A step has ended; ``cached``: its recorded result was served."""
        self.leave(step)
        if step not in self._done:
            self._done.add(step)
            self.cached += cached

    def leave(self, step: str) -> None:
        """A step is not at work any more, and has no result."""
        self._since.pop(step, None)

    def line(self, now: float, columns: int) -> str:
        """``[3/12] build 0:12, 2 cached`` in less than so many columns, the names cut first; empty where nothing is at work
        or there is no room."""
        if not self._since or columns < LEAST:
            return ""
        room = columns - 1  # a full last column makes some terminals begin another line
        total = max(self.total, self.done + len(self._since))
        head = f"[{self.done + len(self._since)}/{total}] " if total > 1 else ""
        tail = f", {self.cached} cached" if self.cached else ""
        works = [(plain(step), " " + ticking(now - since)) for step, since in self._since.items()]
        for end in (tail, ""):
            shown = _fitted(works, room - width(head) - width(end))
            if shown:
                return head + shown + end
        return cut(head.rstrip(), room)


def _fitted(works: list[tuple[str, str]], room: int) -> str:
    """The steps at work in so many columns: all of them, the first ones and how many more, or one with its name cut."""
    for count in range(len(works), 0, -1):
        more = len(works) - count
        text = ", ".join(name + time for name, time in works[:count]) + (f" and {more} more" if more else "")
        if width(text) <= room:
            return text
    name, time = works[0]
    time += f" and {len(works) - 1} more" if len(works) > 1 else ""
    left = room - width(time)
    return cut(name, left) + time if left >= 4 else ""
