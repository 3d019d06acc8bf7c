"""The options of ``git baton run``: tables that typer reads as if they were a function's parameters, and what they mean."""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, Optional

import typer

from gitbaton.errors import UsageError
from gitbaton.journal.values import Step
from gitbaton.render import line
from gitbaton.values import value

Text = Optional[str]
Texts = Optional[list[str]]
Number = Optional[int]
_O = typer.Option


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
    gate: Annotated[Text, _O(metavar="TEXT", help="Wait for 'git baton approve STEP' before CMD is run.")] = None
    no_cache: Annotated[bool, _O("--no-cache", help="Run CMD even if its result is known.")] = False
    allow_empty: Annotated[bool, _O("--allow-empty", help="A glob of --writes may match nothing afterwards.")] = False
    store: Annotated[Text, _O(metavar="all|none", help="Keep the outputs, or only their digests (all).")] = None
    checkpoint: Annotated[Text, _O(metavar="TRACK", help="Record a checkpoint when the step has ended.")] = None
    cwd: Annotated[Text, _O(metavar="DIR", help="Where CMD runs (the current directory).")] = None


@value
class RunWords:
    """What is to be run, and how, as it was typed."""

    step: Annotated[Text, _O(metavar="NAME", help="Run CMD as this step.")] = None
    plan: Annotated[Text, _O(metavar="FILE", help="Run the steps of a plan file, or what is left of them.")] = None
    resume: Annotated[bool, _O("--continue", help="Go on with an unfinished run: RUN, or this work tree's.")] = False
    run: Annotated[Text, _O(metavar="RUN", help="The name of the run; default: this work tree's.")] = None
    jobs: Annotated[Number, _O(metavar="N", help="How many steps of a plan at a time (1).")] = None
    only: Annotated[Texts, _O(metavar="STEP", help="Of a plan this step and what it needs; may repeat.")] = None
    dry_run: Annotated[bool, _O("--dry-run", "-n", help="Say what would be run and why; run nothing.")] = False
    max_runs: Annotated[Number, _O(metavar="N", help="Stop when so many attempts were made (50).")] = None
    max_wall: Annotated[Text, _O(metavar="TIME", help="Stop when it takes longer (2h).")] = None
    wait: Annotated[Text, _O(metavar="TIME", help="How long to wait where another writes the same files (0).")] = None
    take: Annotated[Text, _O(metavar="ours|theirs", help="Of an output that somebody edited: the step's, or theirs.")] = None
    foreign: Annotated[bool, _O("--foreign", help="Allow a run that was fetched from elsewhere.")] = False
    json: Annotated[bool, _O("--json", help="Print one JSON object a line for what happens, and not CMD's output.")] = False


def options(*tables: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator: typer sees the fields of the tables where the function has ``**given``."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        own = [p for p in Signature.from_callable(function).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        rows = [(name, kind, getattr(table(), name)) for table in tables for name, kind in table.__annotations__.items()]
        more = [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind) for name, kind, default in rows]
        function.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
        return function

    return decorate


def given(words: object) -> list[str]:
    """The options that were typed, in the table's order, as they are typed."""
    names = {"resume": "continue"}
    items = ((name, getattr(words, name)) for name in type(words).__annotations__)
    fields = (name for name, item in items if item is not None and item is not False and item != [])
    return ["--" + names.get(name, name).replace("_", "-") for name in fields]


def split(words: dict[str, Any]) -> tuple[RunWords, StepWords]:
    """What typer passes to ``**given``, as the tables' values."""
    of_run = {name: item for name, item in words.items() if name in RunWords.__annotations__}
    of_step = {name: item for name, item in words.items() if name in StepWords.__annotations__}
    return RunWords(**of_run), StepWords(**of_step)


def step_of(name: str, words: StepWords, argv: list[str], prefix: str) -> Step:
    """The step that was asked for in the folder ``prefix`` of the work tree ('' at its top), to which globs and --cwd are
    relative. Raises UsageError that names the option."""
    from gitbaton.running import options as languages
    from gitbaton.running.plans import checked
    from gitbaton.worktree import globs

    fields: dict[str, Any] = {"after": tuple(words.after or ()), "env": tuple(words.env or ())}
    fields |= {"reads": tuple(globs.relative(glob, prefix) for glob in words.reads or ())}
    fields |= {"writes": tuple(globs.relative(glob, prefix) for glob in words.writes or ())}
    for option in ("effect", "compensate", "probe", "verify", "retries", "catch", "isolate", "on_undeclared", "gate", "store"):
        fields |= {option: item} if (item := getattr(words, option)) is not None else {}
    fields |= {"checkpoint": words.checkpoint} if words.checkpoint is not None else {}
    fields |= {"backoff": languages.backoff(words.backoff, "--backoff")} if words.backoff is not None else {}
    fields |= {"retry_on": languages.retry_on(words.retry_on, "--retry-on")} if words.retry_on is not None else {}
    for option in ("timeout", "grace"):
        fields |= {option: languages.duration(item, f"--{option}")} if (item := getattr(words, option)) is not None else {}
    folder = words.cwd if words.cwd and words.cwd[0] == "/" else "/".join(part for part in (prefix, words.cwd) if part) or "."
    step = Step(
        name=name,
        argv=tuple(argv),
        cwd=folder,
        extra=tuple(words.key or ()),
        cache=not words.no_cache,
        allow_empty=words.allow_empty,
        **fields,
    )
    return checked(step)


def seconds(text: Text, option: str) -> float:
    """A duration of the command line; 0 where none was given. Raises UsageError."""
    from gitbaton.running.options import duration

    return duration(text, option) if text is not None else 0.0


def choice(text: Text, option: str, *words: str) -> Text:
    """One of some words, or None. Raises UsageError."""
    if text is not None and text not in words:
        listed = ", ".join(f"'{word}'" for word in words[:-1])
        raise UsageError(f"{option} is '{line(text)}'; it can be {listed} or '{words[-1]}'")
    return text
