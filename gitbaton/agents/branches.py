"""The branch of a conversation that leads to its last record: what the user took back is not on it.

Only prompts fork: clients write the results of calls that ran at once beside each other, and all of them count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitbaton.agents.signs import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    Stays = Callable[[str], bool]

_ABOVE, _NOTHING = -1, -2  # stand for what is above the records, and for a conversation's beginning
_ASIDE = Step(aside=True)


class Branch:
    """The branch through some records, given as their steps.

    ``above``: whether there are records above them that are not here. ``kept``: whether each is on the branch; ``goes_on``:
    whether the branch goes on from the last record above, as far as can be said from here; else ``from_key`` names the one that
    it goes on from, empty where it begins anew or takes back more than is here. ``last``: the key of its last record;
    ``linked``: whether its records name the ones that they follow.
    """

    def __init__(self, steps: Sequence[Step | None], *, above: bool, linked: bool = False) -> None:
        self._steps = [step or _ASIDE for step in steps]
        self._above = above
        self._at: dict[str, int] = {}
        self._after: list[int] = []
        self._foreign: dict[int, str] = {}  # those that follow one that is not here
        self.linked = linked or any(step.after for step in self._steps)
        head, beyond = _ABOVE, False
        for number, step in enumerate(self._steps):
            if step.back or step.to is not None:
                found = self._taken_back(head, step)
                head, beyond = (found, beyond) if found is not None else (_ABOVE if above else _NOTHING, True)
            after = self._place(number, step, head)
            self._after.append(after)
            if step.key:
                self._at[step.key] = number
            if not (step.aside or step.back or step.to is not None):
                head = number
        self._settle(head, beyond=beyond)

    def _place(self, number: int, step: Step, head: int) -> int:
        """What a record follows."""
        if step.after is None or (step.after == "" and not self.linked):
            return head
        if step.after == "":
            return head if step.aside or not step.prompt else _NOTHING
        found = self._at.get(step.after)
        if found is not None:
            return found
        if self._above and (head == _ABOVE or not step.aside):
            self._foreign[number] = step.after
            return _ABOVE
        return head

    def _taken_back(self, head: int, step: Step) -> int | None:
        """The record after which the conversation goes on; None where that is not here."""
        left, found, last = step.back, None, head
        while head >= 0 and (left or step.to is not None):
            here = self._steps[head]
            if here.key == step.to or (step.to is None and here.prompt):
                found, left = self._after[head], left - 1  # of one that was written again, the first
            head = self._after[head]
        if step.to is None and left and not self._above:
            return last if found is None else found  # what comes before all prompts is not theirs
        return None if step.to is None and left else found

    def _settle(self, head: int, *, beyond: bool) -> None:
        chain, key = set[int](), self._steps[head].key if head >= 0 else ""
        self.last, self.from_key, first = key, "", head
        while head >= 0:
            chain.add(head)
            first, head = head, self._after[head]
        chain.add(head)
        self.goes_on = head == _ABOVE and not beyond and first not in self._foreign
        self.from_key = self._foreign.get(first, "") if head == _ABOVE and not beyond else ""
        firm: dict[int, int] = {_ABOVE: _ABOVE, _NOTHING: _NOTHING}
        for number, step in enumerate(self._steps):
            own = step.prompt or (step.after is None and not step.aside)
            firm[number] = number if own else firm[self._after[number]]
        self.kept = [firm[number] in chain for number in range(len(self._steps))]
