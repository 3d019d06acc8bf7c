"""Help, and what is wrong with a command line: typer reads it, by the verbs' own declarations."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from gitbaton.commands import VERBS, verb_module
from gitbaton.commands.leading import main
from gitbaton.commands.options import AFTER, Declared, Option, after, declared, of_verb
from gitbaton.errors import UsageError
from gitbaton.git.repo import Repo

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Verbs(TyperGroup):
    """A group that imports a verb's module when it is called, and none to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in their order."""
        return [name for name, _ in VERBS]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb of a command line. Raises UsageError that names the nearest one."""
        if args and args[0] not in dict(VERBS) and not args[0].startswith("-"):
            from difflib import get_close_matches

            found = get_close_matches(args[0], dict(VERBS), n=3, cutoff=0.55)
            said = f"the most similar verb{' is' if len(found) == 1 else 's are'} " + ", ".join(f"'{name}'" for name in found)
            near = (said,) if found else ()
            raise UsageError(f"'{args[0]}' is not a verb of git baton", *near, "'git baton -h' lists the verbs")
        # What is after `--` are paths or a command, whatever they look like; the parser forgets where it stood.
        ctx.meta[AFTER] = after(args)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb as a command."""
        if cmd_name not in dict(VERBS):
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        module = verb_module(cmd_name)
        app.command(cmd_name, context_settings=CONTEXT)(typed(module.command, of_verb(module)))
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of verbs for ``-h``."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS))


def typed(command: Callable[..., int], parameters: list[Declared]) -> Callable[..., int]:
    """The same function with typer's own declarations."""

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
    call.__doc__ = command.__doc__
    return call


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    subcommand_metavar="VERB [ARGS]...",
)
app.callback(invoke_without_command=True)(typed(main, declared(main)))


def call_typer(words: list[str], begun: Repo | None = None) -> object:
    """Carry out a command line through typer; what the verb returns. Raises UsageError, in git's manner."""
    try:
        return app(words, prog_name="git baton", standalone_mode=False, obj=begun)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        raise _misused(error, words) from None


def _misused(error: Any, words: list[str]) -> UsageError:
    """What typer says of a command line, in git's manner: lower-case, the subject in quotes, a hint where to look."""
    text = error.format_message().split("\n")[0].rstrip(".").replace("valid int range", "number")
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"unexpected argument '\1'", text)
    hints = []
    if type(error).__name__ == "NoSuchOption":
        text = f"unknown option '{error.option_name}'"
        hints = [f"perhaps '{name}' is meant" for name in sorted(error.possibilities or ())[:3]]
    verb = next((f" {word}" for word in words if word in dict(VERBS)), "")
    command = error.ctx.command_path if getattr(error, "ctx", None) else f"git baton{verb}"
    return UsageError(text[:1].lower() + text[1:], *hints, f"'{command} -h' shows what there is")
