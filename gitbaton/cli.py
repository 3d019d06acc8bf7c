"""The command line: options before the verb, the verb's module on demand, and errors as exit codes."""

import importlib
import os
import sys
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from gitbaton import terminal
from gitbaton.commands import VERBS
from gitbaton.errors import BatonError, UsageError
from gitbaton.git.repo import Repo

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
USAGE, SIGINT, SIGPIPE, FATAL = 129, 130, 141, 128  # git's; 128+n for signals


class Verbs(TyperGroup):
    """A group that imports a verb's module when it is called, and none to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in their order."""
        return [name for name, _ in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb as a command."""
        if cmd_name not in dict(VERBS):
            return None
        module = importlib.import_module(f"gitbaton.commands.{cmd_name}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(cmd_name, context_settings=CONTEXT)(module.command)
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of verbs for ``-h``."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS))


app = typer.Typer(
    cls=Verbs, add_completion=False, rich_markup_mode=None, context_settings=CONTEXT, pretty_exceptions_enable=False
)


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    repo_root: Annotated[Optional[str], typer.Option(metavar="DIR", help="Any directory of the repository.")] = None,
    checkpoint_dir: Annotated[
        Optional[str], typer.Option(metavar="DIR", help="Where LATEST lies; relative to the root, or absolute.")
    ] = None,
    color: Annotated[str, typer.Option(metavar="WHEN", help="always, never or auto.")] = "auto",
    pager: Annotated[bool, typer.Option("--pager/--no-pager", help="Page long output.")] = True,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    """Hand the baton over inside git: checkpoints of an agent's work, kept in the repository itself."""
    from gitbaton.commands.common import Globals

    if color not in ("always", "never", "auto"):
        raise UsageError(f"--color is '{color}'; it can be always, never or auto")
    ctx.obj = Globals(repo_root=repo_root, checkpoint_dir=checkpoint_dir, color=color, pager=pager, repo=ctx.obj)
    if version:
        from gitbaton import __version__

        terminal.say(f"git-baton {__version__}")
        return 0
    if ctx.invoked_subcommand is None:
        raise UsageError("no verb is given", "'git baton -h' lists them")
    return 0


def arguments(words: list[str]) -> list[str]:
    """The command line with git's optional value of ``--color`` made explicit."""
    plain = {"--color": "--color=always", "--no-color": "--color=never"}
    end = next((i for i, w in enumerate(words) if w in dict(VERBS)), len(words))
    return [plain.get(w, w) for w in words[:end]] + words[end:]


def call(words: list[str], begun: Repo | None = None) -> int:
    """Carry out a command line, perhaps on a repository already found; its exit code.

    Every error is one line and its hints on standard error.
    """
    try:
        code = app(arguments(words), prog_name="git baton", standalone_mode=False, obj=begun)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BatonError as error:
        return _complain(error.message, error.hints, error.exit_code)
    except typer.Abort:
        return SIGINT
    except typer.TyperException as error:
        return _complain(error.format_message().rstrip("."), ("'git baton -h' shows what there is",), USAGE)
    except KeyboardInterrupt:
        return SIGINT
    except BrokenPipeError:
        return SIGPIPE
    except Exception as error:  # the last door: a user sees one line, whatever went wrong
        if "GIT_BATON_TRACE" in os.environ:
            raise
        hint = "this is a bug in gitbaton; GIT_BATON_TRACE=1 shows where"
        return _complain(f"{type(error).__name__}: {error}", (hint,), FATAL)


def _complain(message: str, hints: tuple[str, ...], code: int) -> int:
    from gitbaton.codec import plain

    terminal.tell("fatal: " + plain(" ".join(message.split("\n"))))
    for hint in hints:
        terminal.tell("hint: " + plain(hint))
    return code
