"""Unfinished runs, and the command that goes on with each, for `resume`. It costs next to nothing where there is no run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from gitbaton.base.codec import Json, in_quotes
from gitbaton.base.errors import MENDS, GitError, NotFoundError, UnreadableRunError
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.checkpoints.store.refs import RUNS
from gitbaton.git.reffiles import below

if TYPE_CHECKING:
    from gitbaton.checkpoints.baton import Baton
    from gitbaton.runs.claims import Held
    from gitbaton.runs.journal.state import RunState, StepState
    from gitbaton.runs.journal.values import Logged

_COMPLETE = b"\n\nrun: release, complete\n"  # how the newest commit of a run that is at its end ends
_MIXED = "its newest records came from elsewhere"
SHOWN = 5  # steps of a repair that a sentence names


@value
class Unfinished:
    """A run that is not finished: why, and what ``git baton run --continue RUN`` would do, a sentence each. ``torn``: it cannot
    be read, and must be mended before anything else. ``mixed``: its newest records came from elsewhere."""

    run: str
    why: tuple[str, ...]
    would: tuple[str, ...]
    torn: bool = False
    mixed: bool = False

    @property
    def going_on(self) -> str:
        """The command that goes on with it, and what that would do."""
        return f"{self.command} ({'; '.join(self.would)})" if self.would else self.command

    @property
    def command(self) -> str:
        """The command that goes on with it."""
        name = in_shell(self.run)
        if self.mixed:
            return f"git baton run --continue {name} --foreign"
        return MENDS if self.torn else f"git baton run --continue {name}"

    @property
    def document(self) -> dict[str, Json]:
        """Its JSON."""
        return {"run": self.run, "why": list(self.why), "would": list(self.would)}


def unfinished(baton: Baton) -> tuple[Unfinished, ...]:
    """Return the runs of this repository that are not finished, in the order of their names; one that cannot be read says
    so as its reason. A foreign one is left out, and foreign records on top of ours are not told."""
    found = []
    for run, state in _open(baton, ours=True):
        if isinstance(state, UnreadableRunError):
            why = f"it cannot be read, so nobody knows what it did: {state.reason}; {MENDS}"
            found.append(Unfinished(run=run, why=(why,), would=(), torn=True))
        elif state.foreign:
            found.append(Unfinished(run=run, why=(_MIXED,), would=(), mixed=True))
        else:
            found.append(Unfinished(run=run, why=state.why, would=would(state, _at_work(baton, state))))
    return tuple(found)


def recording(baton: Baton, track: str) -> tuple[Unfinished, ...]:
    """Return the unfinished runs that have a step whose checkpoints go to a track, or may have one: they cannot be read."""
    from gitbaton.runs.plans import kept_plan, whole

    objects, found = baton.repo.objects, []
    for run, state in _open(baton):
        torn = isinstance(state, UnreadableRunError)
        try:
            steps = () if isinstance(state, UnreadableRunError) else whole(kept_plan(state, objects), state, objects).steps
        except GitError:  # what its plan says is not here
            torn, steps = True, ()
        if torn or any(step.checkpoint == track for step in steps):
            found.append(Unfinished(run=run, why=(), would=(), torn=torn))
    return tuple(found)


def _open(baton: Baton, *, ours: bool = False) -> Iterator[tuple[str, RunState | UnreadableRunError]]:
    """The state of each run that is not finished, by its name; of one that cannot be read, why. ``ours``: but for those of
    which nothing was done here."""
    with suppress(OSError):  # a folder that cannot be listed may hold some: the journal says which it cannot read
        if not below(baton.repo, RUNS):
            return
    from gitbaton.runs.journal.chain import Journal
    from gitbaton.runs.journal.state import fold

    journal = Journal(baton.repo, author=b"", redactor=None, clock=baton.clock)
    tips = sorted(journal.refs().items())
    for (run, _), commit in zip(tips, baton.repo.objects.read_many([oid for _, oid in tips]), strict=True):
        at_end = commit is not None and (commit.data or b"").endswith(_COMPLETE)  # then no record of it is read
        if at_end or (ours and not journal.ours.knows(of_run(run))):
            continue
        try:
            state = fold(journal.records(run))
        except UnreadableRunError as error:
            yield run, error
            continue
        except NotFoundError:  # somebody has just dropped it
            continue
        if not state.finished:
            yield run, state


def _at_work(baton: Baton, state: RunState) -> Mapping[str, Held]:
    """The steps that have begun and at which another process, or what it left running, is now."""
    if not any(step.begun is not None for step in state.steps.values()):
        return {}
    from gitbaton.runs.claims import Claims

    return {held.step: held for held in Claims(baton.repo).others() if held.run == state.run}


def would(state: RunState, at_work: Mapping[str, Held] | None = None) -> tuple[str, ...]:
    """Return what going on with a run would do, a half sentence each, in order. ``at_work``: the claims of steps at work
    now."""
    repair, alone, at = state.repair, state.plan is None or state.over, at_work or {}
    found = [text for step in state.steps.values() for text in _step(state, step, at.get(step.name), alone=alone)]
    if repair is not None:
        names = ", ".join(in_quotes(name) for name in repair.record.region[:SHOWN])
        more = len(repair.record.region) - SHOWN + repair.record.region_more
        found.append(f"go on with the repair of {names}{f' and {more} more' if more > 0 else ''}")
    if state.plan is not None and not state.over:
        path = state.plan.record.plan
        found.append(f"go on with the plan {in_quotes(path)}" if path else "go on with its plan")
    elif state.cut:
        found.append("take it that nothing else is lost, but of steps that must not happen twice")
    return tuple(found)


def _step(run: RunState, step: StepState, held: Held | None, *, alone: bool) -> list[str]:
    name, gate = f"{in_shell(step.name)} --run {in_shell(run.run)}", f"gate of step {in_quotes(step.name)}"
    texts = (
        [f"go on undoing the effect of step {in_quotes(step.name)}"] if any(e.state == "undoing" for e in step.effects) else []
    )
    if step.begun is not None and held is not None and held.dead:
        texts.append(f"end the command of step {in_quotes(step.name)}, which outlived its process")
    if step.begun is not None and held is not None and not held.dead:
        texts.append(f"wait for step {in_quotes(step.name)}, at which process {held.pid} is")
    elif step.begun is not None or step.unknown is not None:
        texts.append(_asking(run.run, step, step.begun or step.last))
    elif step.bare is not None:
        texts.append(f"stop at step {in_quotes(step.name)}, whose outputs are not here: 'git baton run settle {name} --done'")
    elif step.failed is not None and run.unfinished(step) and (alone or step.defined is not None):
        texts.append(f"run step {in_quotes(step.name)} again")
    if step.gate == "rejected" and step.end is None:
        texts.append(f"stop at the {gate}, which was rejected: 'git baton run approve {name}' opens it")
    if step.gate == "waiting":
        texts.append(f"wait at the {gate}: 'git baton run approve {name}' opens it")
    return texts


def _asking(run: str, step: StepState, logged: Logged | None) -> str:
    """Return how a step is described whose effect is unknown, or whose begin has no end."""
    record = logged.record if logged is not None else None
    if record is None or record.effect != "once":
        return f"run step {in_quotes(step.name)} again"
    if record.probe is None:
        from gitbaton.runs.context import settling

        commands = settling(f"{in_shell(step.name)} --run {in_shell(run)}")
        return f"stop at step {in_quotes(step.name)}, whose outcome is unknown: {commands}"
    return f"ask the probe of step {in_quotes(step.name)} whether its effect happened"
