"""Which runs are not finished, and what would go on with them: for `resume`. It costs next to nothing where there is no run."""

from __future__ import annotations

import os

from gitbaton.store.refs import RUNS
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.baton import Baton
    from gitbaton.journal.state import RunState, StepState


@value
class Unfinished:
    """A run that is not finished: why, and what ``git baton run --continue RUN`` would do, a sentence each."""

    run: str
    why: tuple[str, ...]
    would: tuple[str, ...]


def any_run(baton: Baton) -> bool:
    """Whether this repository has a run of its own; by a look at files where git keeps refs in files."""
    common = baton.repo.layout.common_dir
    if os.path.isdir(os.path.join(common, *RUNS.split("/"))):
        return True
    if os.path.isdir(os.path.join(common, "reftable")):
        return bool(baton.repo.objects.refs(RUNS))
    try:
        with open(os.path.join(common, "packed-refs"), "rb") as file:
            return b" " + RUNS.encode() in file.read()
    except OSError:
        return False


def unfinished(baton: Baton) -> tuple[Unfinished, ...]:
    """The runs of this repository that are not finished, in the order of their names; a journal that cannot be read says so
    as its reason."""
    if not any_run(baton):
        return ()
    from gitbaton.errors import BatonError
    from gitbaton.journal.chain import Journal
    from gitbaton.journal.state import fold

    journal = Journal(baton.repo, author=b"", redactor=None, clock=baton.clock)
    found = []
    for run in journal.names():
        try:
            state = fold(journal.records(run))
        except BatonError as error:
            found.append(Unfinished(run=run, why=(error.message,), would=()))
            continue
        if not state.finished:
            found.append(Unfinished(run=run, why=state.why, would=would(state)))
    return tuple(found)


def would(state: RunState) -> tuple[str, ...]:
    """What going on with a run would do."""
    found = [text for step in state.steps.values() for text in _step(step)]
    if state.plan is not None and not _released(state):
        found.append(f"go on with the plan '{state.plan.record.plan}'" if state.plan.record.plan else "go on with its plan")
    return tuple(found)


def _released(state: RunState) -> bool:
    return state.finished


def _step(step: StepState) -> list[str]:
    texts = []
    for effect in step.effects:
        if effect.state == "undoing":
            texts.append(f"go on undoing the effect of step '{step.name}'")
    if step.begun is not None:
        record = step.begun.record
        if record.effect == "once" and record.probe is None:
            texts.append(f"stop at step '{step.name}', whose outcome is unknown: 'git baton settle {step.name}' decides")
        elif record.effect == "once":
            texts.append(f"ask the probe of step '{step.name}' whether its effect happened")
        else:
            texts.append(f"run step '{step.name}' again")
    if step.gate == "waiting":
        texts.append(f"wait at the gate of step '{step.name}': 'git baton approve {step.name}' opens it")
    return texts
