"""Help, and what is wrong with a command line: typer reads it, by the verbs' own declarations."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from gitbaton.base import terminal
from gitbaton.base.errors import UsageError
from gitbaton.cli.options import AFTER, Declared, Option, after, declared, main
from gitbaton.cli.verbs import DESTROY, GROUPS, VERBS, below, find, verb_function
from gitbaton.git.repo import Repo

HELP = ["-h", "--help"]
GONE = {"--radius": "a repair is not widened any more: name the steps above with --step, which may repeat"}
CONTEXT = {"help_option_names": ["-h"], "max_content_width": 100}


class Verbs(TyperGroup):
    """A group that imports a verb's module when it is called, and none to list them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb of a command line. Raises UsageError that names the nearest one."""
        verb, rest = find(args)
        if not verb:
            if args[1:2] and args[1] in HELP and below(args[0]):
                terminal.say("\n".join(f"git baton {args[0]} {name:<10} {text}" for name, text in below(args[0]).items()))
                raise typer.Exit
            raise unknown(*args[:2]) if below(args[0]) else unknown("", args[0])
        if "--help" in rest[: rest.index("--") if "--" in rest else None]:
            return "help", self.get_command(ctx, "help"), verb.split()
        # What is after `--` are paths or a command, whatever they look like; the parser forgets where it stood.
        ctx.meta[AFTER] = after(args)
        return verb, self.get_command(ctx, verb), rest

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb as a command."""
        if cmd_name not in VERBS:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        command, under = verb_function(cmd_name), " ".join(below(cmd_name))
        more = f"Verbs under it, each with its own -h: {under}\n\n" if under else ""
        more += f"'git baton help {cmd_name}' says more."
        app.command(cmd_name, context_settings=CONTEXT, epilog=more)(typed(command, declared(command)))
        return typer.main.get_command(app)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of ``git baton -h``."""
        from gitbaton.cli.pages import overview

        formatter.write(overview())


MEANT = (  # words that people type, and what to say of each
    ("label tag name", "to name a checkpoint: git baton pin CHECKPOINT NAME"),
    ("clean risk at-risk", "to see what 'git clean' would take: git baton status --at-risk"),
    *(
        (words, *(f"'{name}': {VERBS[name]}" for name in verbs))
        for words, *verbs in (
            ("save checkpoint commit record store", "snapshot"),
            ("keep", "pin"),
            ("back rollback reset revert-turn undo-turn", "revert", "restore"),
            ("list ls history", "log"),
            ("cat", "show"),
            ("rename mv delete rm remove track", "tracks"),
            ("off disable silence mute quiet", "pause"),
            ("gc shrink", "prune", "du"),
        )
    ),
)


def unknown(under: str, word: str = "") -> UsageError:
    """Return the error for a word that is no verb: of ``git baton``, or of what stands ``under`` a word of it. It names the
    nearest verbs, but none that destroys."""
    called = f"git baton {under}".rstrip()
    names = list(below(under)) if under else list(dict.fromkeys(name.split()[0] for name in VERBS if name not in GROUPS[""]))
    if not word:
        return UsageError(f"no verb of '{called}' is given", f"it can be {', '.join(map(repr, names))}")
    far = {name: distance(word, name) for name in names}
    near = [name for name in names if far[name] == min(far.values()) <= (1 if len(word) < 5 else 2)]
    near = near or [name for name in names if len(word) > 2 and name.startswith(word)]
    wrong = f"'{word}' is not a verb of {called}"
    hints = next((hints for words, *hints in MEANT if word in words.split()), []) if not under else []
    if hints:
        return UsageError(wrong, *hints)
    if any(f"{under} {name}".lstrip() in DESTROY for name in near):
        near = []
    said = f"the most similar verb{' is' if len(near) == 1 else 's are'} " + ", ".join(f"'{name}'" for name in near)
    return UsageError(wrong, *([said] if near else []), f"'{called} -h' lists the verbs")


def distance(one: str, other: str) -> int:
    """Return the edit distance of two words: letters put in, left out, replaced, or exchanged with the next."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[-1] = min(row[-1], older[j - 2] + 1)
    return row[-1]


def typed(command: Callable[..., int], parameters: list[Declared]) -> Callable[..., int]:
    """Return the same function with typer's own declarations."""

    def call(ctx: typer.Context, **given: Any) -> int:
        return command(ctx, **given)

    found = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for p in parameters:
        default, of = ... if p.required else p.default, p.of
        if isinstance(of, Option):
            made = typer.Option(default, *of.names, metavar=of.metavar, help=of.help, min=of.min)
        else:
            made = typer.Argument(default, metavar=of.metavar, help=of.help, show_default=of.show_default)
        found.append(inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=p.annotation))
    call.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    call.__doc__ = (command.__doc__ or "").split("\n\n")[0]
    return call


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={**CONTEXT, "help_option_names": HELP},
    pretty_exceptions_enable=False,
    subcommand_metavar="VERB [ARGS]...",
)
app.callback(invoke_without_command=True)(typed(main, declared(main)))


def call_typer(words: list[str], begun: Repo | None = None) -> object:
    """Carry out a command line through typer, and return the verb's result. Raises UsageError, in git's manner."""
    try:
        return app(words, prog_name="git baton", standalone_mode=False, obj=begun)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        raise _misused(error, words) from None


def _misused(error: Any, words: list[str]) -> UsageError:
    """Return typer's error in git's manner: lower-case, the subject in quotes, a hint where to look."""
    text = error.format_message().split("\n")[0].rstrip(".").replace("valid int range", "number")
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"unexpected argument '\1'", text)
    hints = []
    if text.startswith("unexpected argument") and words[:1] == ["undo"]:
        hints = ["to take back a turn, and not a restore: git baton revert TURN"]
    if type(error).__name__ == "NoSuchOption":
        text = f"unknown option '{error.option_name}'"
        near = sorted(error.possibilities or (), key=lambda name: (not name.startswith(error.option_name), name))
        hints = [GONE[error.option_name]] if error.option_name in GONE else [f"perhaps '{name}' is meant" for name in near[:3]]
    verb = next((f" {word}" for word in words if word in VERBS), "")
    command = error.ctx.command_path if getattr(error, "ctx", None) else f"git baton{verb}"
    return UsageError(text[:1].lower() + text[1:], *hints, f"'{command} -h' shows what there is")
