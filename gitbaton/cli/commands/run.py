"""``git baton run``: its options as tables, what may not go together, and the step or the plan carried out."""

import os
from collections.abc import Callable
from typing import Annotated, Any, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import UsageError
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.render import line
from gitbaton.cli.common import one_of, print_json
from gitbaton.cli.options import AFTER, Argument, Invocation, Option
from gitbaton.runs.journal.values import Step

OF_A_PLAN = ("--jobs", "--only", "--dry-run")
OF_A_START = ("--only", "--dry-run", "--max-runs", "--max-wall")
Text = Optional[str]
Texts = Optional[list[str]]
Number = Optional[int]
_O = Option


@value
class StepWords:
    """A step of the command line, as it was typed; None and False where nothing was."""

    after: Annotated[Texts, _O(metavar="STEP", help="A step that this one needs; may repeat.")] = None
    reads: Annotated[Texts, _O(metavar="GLOB", help="Files that the result depends on; may repeat.")] = None
    writes: Annotated[Texts, _O(metavar="GLOB", help="Files that CMD makes; may repeat.")] = None
    env: Annotated[Texts, _O(metavar="VAR", help="A variable that the result depends on; may repeat.")] = None
    key: Annotated[Texts, _O(metavar="TEXT", help="Anything else that it depends on; may repeat.")] = None
    effect: Annotated[Text, _O(metavar="none|idempotent|once", help="What CMD does outside git (none).")] = None
    compensate: Annotated[Text, _O(metavar="CMD", help="What undoes the effect.")] = None
    probe: Annotated[Text, _O(metavar="CMD", help="Asks whether it happened: exit 0 yes, 1 no, else unknown.")] = None
    verify: Annotated[Text, _O(metavar="CMD", help="Checks the outputs, alone with what was read.")] = None
    retries: Annotated[Number, _O(metavar="N", help="Further attempts after a failure (0).")] = None
    backoff: Annotated[Text, _O(metavar="SPEC", help="The pause before another: 1s,x2,max=60s,jitter.")] = None
    retry_on: Annotated[Text, _O(metavar="LIST", help="Try again only after these: 1,75,timeout.")] = None
    timeout: Annotated[Text, _O(metavar="TIME", help="How long an attempt may take: 10m.")] = None
    grace: Annotated[Text, _O(metavar="TIME", help="How long after TERM the KILL comes (10s).")] = None
    catch: Annotated[Text, _O(metavar="CMD", help="What is run when the last attempt has failed.")] = None
    isolate: Annotated[Text, _O(metavar="auto|tree|none", help="Whether CMD runs in a copy of the work tree.")] = None
    on_undeclared: Annotated[
        Text, _O(metavar="report|restore|fail", help="What becomes of changes outside the declared outputs (report).")
    ] = None
    gate: Annotated[Text, _O(metavar="TEXT", help="Wait for 'git baton run approve STEP' before CMD is run.")] = None
    no_cache: Annotated[bool, _O("--no-cache", help="Run CMD even if its result is known.")] = False
    allow_empty: Annotated[bool, _O("--allow-empty", help="A glob of --writes may match nothing afterwards.")] = False
    store: Annotated[Text, _O(metavar="all|none", help="Keep the outputs, or only their digests (all).")] = None
    checkpoint: Annotated[Text, _O(metavar="TRACK", help="Record a checkpoint when the step has ended.")] = None
    cwd: Annotated[Text, _O(metavar="DIR", help="Where CMD runs (the current directory).")] = None


@value
class RunWords:
    """Options of a run, as they were typed."""

    step: Annotated[Text, _O(metavar="NAME", help="Run CMD as this step.")] = None
    plan: Annotated[Text, _O(metavar="FILE", help="Run the steps of a plan file, or what is left of them.")] = None
    resume: Annotated[bool, _O("--continue", help="Go on with an unfinished run: RUN, or this work tree's.")] = False
    run: Annotated[Text, _O(metavar="RUN", help="The name of the run; default: this work tree's.")] = None
    jobs: Annotated[Number, _O(metavar="N", help="How many steps of a plan at a time (1).")] = None
    only: Annotated[Texts, _O(metavar="STEP", help="Of a plan this step and what it needs; may repeat.")] = None
    dry_run: Annotated[bool, _O("--dry-run", "-n", help="Say what would be run and why; run nothing.")] = False
    max_runs: Annotated[Number, _O(metavar="N", help="Stop when so many attempts were made (50).")] = None
    max_wall: Annotated[Text, _O(metavar="TIME", help="Stop when it takes longer (2h).")] = None
    wait: Annotated[Text, _O(metavar="TIME", help="How long to wait for another at the same files (0) or run (2h).")] = None
    take: Annotated[Text, _O(metavar="ours|theirs", help="Of an output that somebody edited: the step's, or theirs.")] = None
    foreign: Annotated[bool, _O("--foreign", help="Allow a run that was fetched from elsewhere.")] = False
    json: Annotated[bool, _O("--json", help="Print one JSON object a line for what happens, and not CMD's output.")] = False


def command(
    ctx: Invocation,
    words: Annotated[Texts, Argument(metavar="[RUN] [-- CMD...]", help="RUN: with --continue; CMD: with --step.")] = None,
    **typed: Annotated[Any, RunWords, StepWords],
) -> int:
    """Run a command as a step that is done once: with the same inputs its result is served, after a crash it is recovered.

    The exit status is CMD's own; 75 it waits at a gate, 76 its outcome is unknown, 77 a compensation failed, 78 somebody else
    has or changed its outputs, 79 a guard against loops, 124 its time was over, 125 its outputs are not as declared. Where
    CMD's own is one of these it is said in words, and the exit status is 1.

    --step runs one command, --plan the steps of a TOML file or what is left of them, --continue what is unfinished. Without
    --reads and --key a step always runs, but for a once effect that happened. Globs are relative to the current directory; of a
    variable only a digest is kept.

    TERM goes to the process group when --timeout is over, and KILL after --grace. --isolate runs CMD in a linked work tree that
    carries all that lies here (auto: with --writes, on another attempt or while another step is at work). --verify checks the
    outputs in a folder that holds nothing but what was read and written. The name of the run is --run, else GIT_BATON_RUN, else
    the one that this work tree used last.

    A command or a run that is called like a verb below 'git baton run' comes after an option: 'git baton run --continue show'.

    Examples:
        git baton run --step build --reads "*.txt" --writes out -- sh -c "cat a.txt > out"
        git baton run --plan plan.toml --run checks --dry-run
        git baton run --continue nightly   # after a crash, a gate or a failure
    """
    run = RunWords(**{name: typed[name] for name in RunWords.__annotations__})
    step = StepWords(**{name: typed[name] for name in StepWords.__annotations__})
    words = words or []
    count = len(words) - (ctx.meta.get(AFTER) or 0)
    if count < 0:
        raise UsageError("'--' stands where the value of an option is needed")
    names, argv = words[:count], words[count:]
    _check(run, step, names, argv)
    return _carry_out(ctx, run, step, names[0] if names else run.run, argv)


def _check(run: RunWords, step: StepWords, names: list[str], argv: list[str]) -> None:
    """Refuse what cannot be meant. Raises UsageError."""
    one_of(**{"step": run.step is not None, "plan": run.plan is not None, "continue": run.resume})
    way = "--step" if run.step is not None else "--plan" if run.plan is not None else "--continue" if run.resume else ""
    if not way and names:
        from gitbaton.cli.usage import unknown

        raise unknown("run", names[0])
    if not way:
        hint = "one step: 'git baton run --step NAME -- CMD...'; a plan: 'git baton run --plan FILE'"
        raise UsageError("none of --step, --plan and --continue is given", hint)
    if names and not run.resume:
        hint = "the command comes after '--'" if run.step is not None else "a run is named with --run"
        raise UsageError(f"unexpected argument {in_quotes(line(names[0]))}", hint)
    if len(names) > 1 or (names and run.run is not None):
        raise UsageError(f"unexpected argument {in_quotes(line(names[-1]))}", "--continue takes one run")
    if way == "--step":
        if not argv:
            raise UsageError("--step has no command", f"git baton run --step {line(run.step or '')} -- CMD...")
        wrong = [name for name in given(run) if name in OF_A_PLAN]
        hint = "it belongs to a plan"
    else:
        if argv:
            raise UsageError(f"{way} takes no command", "the plan has those of its steps")
        wrong = given(step) or [name for name in given(run) if run.resume and name in OF_A_START]
        hint = "a plan file says it in the table of the step" if given(step) else "it belongs to --plan"
    if wrong:
        raise UsageError(f"{way} and {wrong[0]} exclude each other", hint)


def given(words: object) -> list[str]:
    """The options that were typed, in the table's order, as they are typed."""
    items = ((name, getattr(words, name)) for name in type(words).__annotations__)
    fields = (name for name, item in items if item is not None and item is not False and item != [])
    return ["--" + {"resume": "continue"}.get(name, name).replace("_", "-") for name in fields]


def _carry_out(ctx: Invocation, run: RunWords, step: StepWords, name: Text, argv: list[str]) -> int:
    """Run one step, bring the steps of a plan file to their results, or go on with a run; the exit code. Raises UsageError."""
    from gitbaton.cli.commands.reporting import EventLines
    from gitbaton.cli.commands.stepping import desk, ended, forecast_document, say_forecasts, side, waiting
    from gitbaton.runs import plans
    from gitbaton.runs.journal.state import fold

    guards: dict[str, Any] = {}  # against loops
    if run.max_runs is not None:
        if run.max_runs < 1:
            raise UsageError(f"--max-runs is {run.max_runs}; it must be 1 or more")
        guards["max_runs"] = run.max_runs
    if run.max_wall is not None:
        guards["max_wall"] = plans.duration(run.max_wall, "--max-wall")
        if not guards["max_wall"]:
            raise UsageError("--max-wall must be more than nothing")
    how: dict[str, Any] = {"foreign": run.foreign, "take": side(run.take), "wait": waiting(run.wait)}
    planned = run.step is None
    with desk(ctx, json=run.json, run=name, new=not run.resume, planned=planned, plan=run.plan) as (at, found):
        if run.plan is not None:
            plan = replace(plans.read(os.path.join(at.directory, run.plan), at.top, name=run.plan), **guards)
            only = tuple(run.only or ())
            if run.dry_run:
                engine = at.engine()
                if run.json:
                    engine.watch = lambda event: None  # one object, and no line of what happens before it
                forecasts = engine.dry_run(plan, found, only=only)
                if run.json:
                    print_json({"run": found, "steps": [forecast_document(item) for item in forecasts]})
                else:
                    say_forecasts(forecasts)
                return 0
            outcome = at.engine().run_plan(plan, found, jobs=_jobs(run), only=only, **how)
        elif run.resume:
            outcome = at.engine().resume(found, jobs=_jobs(run), **how)
        else:
            outcome = at.engine().run_step(step_of(run.step or "", step, argv, at.prefix()), found, **how, **guards)
        code = ended(at, outcome)
        if run.resume and isinstance(at.show, EventLines) and not (code or outcome.states or outcome.left):
            why = "; ".join(fold(at.journal.records(found)).why)
            terminal.tell(plain(f"baton: run '{found}' is {f'not finished: {why}' if why else 'finished'}"))
        return code


def _jobs(run: RunWords) -> int:
    if run.jobs is not None and run.jobs < 1:
        raise UsageError(f"--jobs is {run.jobs}; it must be 1 or more")
    return run.jobs or 1


def step_of(called: str, words: StepWords, argv: list[str], prefix: str) -> Step:
    """The step that was asked for in the folder ``prefix`` of the work tree ('' at its top), to which globs and --cwd are
    relative. Raises UsageError that names the option."""
    from gitbaton.git.worktree import globs
    from gitbaton.runs import plans

    fields: dict[str, Any] = {
        "after": tuple(words.after or ()),
        "env": tuple(words.env or ()),
        "extra": tuple(words.key or ()),
        "reads": tuple(globs.relative(glob, prefix) for glob in words.reads or ()),
        "writes": tuple(globs.relative(glob, prefix) for glob in words.writes or ()),
    }
    as_typed = ("effect", "compensate", "probe", "verify", "retries", "catch", "isolate", "on_undeclared", "gate", "checkpoint")
    fields |= {name: item for name in (*as_typed, "store") if (item := getattr(words, name)) is not None}
    parsed: dict[str, Callable[[str, str], object]] = {
        "backoff": plans.backoff,
        "retry_on": plans.retry_on,
        "timeout": plans.duration,
        "grace": plans.duration,
    }
    for name, parse in parsed.items():
        if (item := getattr(words, name)) is not None:
            fields[name] = parse(item, f"--{name.replace('_', '-')}")
    folder = words.cwd if words.cwd and words.cwd[0] == "/" else "/".join(part for part in (prefix, words.cwd) if part) or "."
    fields |= {"cwd": folder, "cache": not words.no_cache, "allow_empty": words.allow_empty}
    return plans.checked(Step(name=called, argv=tuple(argv), **fields))
