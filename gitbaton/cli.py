"""The command line: options before the verb, the verb's module on demand, and errors as exit codes."""

import importlib
import keyword
import os
import re
import sys
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperGroup

from gitbaton import terminal
from gitbaton.commands import AFTER, VERBS
from gitbaton.errors import BatonError, UsageError
from gitbaton.git.repo import Repo

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
USAGE, SIGINT, SIGPIPE, FATAL = 129, 130, 141, 128  # git's; 128+n for signals


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
        ctx.meta[AFTER] = len(args) - args.index("--") - 1 if "--" in args else None
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb as a command."""
        if cmd_name not in dict(VERBS):
            return None
        name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        module = importlib.import_module(f"gitbaton.commands.{name}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command(cmd_name, context_settings=CONTEXT)(module.command)
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of verbs for ``-h``."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS))


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
    pretty_exceptions_enable=False,
    subcommand_metavar="VERB [ARGS]...",
)


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    repo_root: Annotated[
        Optional[str], typer.Option(metavar="DIR", help="Work in the repository that holds DIR, instead of the current one.")
    ] = None,
    checkpoint_dir: Annotated[
        Optional[str],
        typer.Option(
            metavar="DIR", help="Where LATEST.md and LATEST.json go: below the root, or absolute (runtime/checkpoints)."
        ),
    ] = None,
    color: Annotated[
        str, typer.Option(metavar="WHEN", help="Colour: always, never or auto; --color alone means always.")
    ] = "auto",
    pager: Annotated[bool, typer.Option("--pager/--no-pager", help="Send long output to a terminal through the pager.")] = True,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> int:
    """Hand the baton over inside git: checkpoints of an agent's work, kept in the repository itself."""
    from gitbaton.commands.common import Globals

    if checkpoint_dir == "":
        raise UsageError("--checkpoint-dir is empty")
    if color not in ("always", "never", "auto"):
        raise UsageError(f"--color is '{color}'; it can be 'always', 'never' or 'auto'")
    ctx.obj = Globals(repo_root=repo_root, checkpoint_dir=checkpoint_dir, color=color, pager=pager, repo=ctx.obj)
    if version:
        from gitbaton import __version__

        terminal.say(f"git-baton {__version__}")
        return 0
    if ctx.invoked_subcommand is None:
        raise UsageError("no verb is given", "'git baton -h' lists them")
    return 0


def arguments(words: list[str]) -> list[str]:
    """The command line with git's optional value of ``--color`` made explicit, before the verb, and its ``-3`` after one that
    lists."""
    explicit = {"--color": "--color=always", "--no-color": "--color=never"}
    result: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        width = 2 if words[at] in ("--repo-root", "--checkpoint-dir") else 1
        result += [explicit.get(words[at], words[at]), *words[at + 1 : at + width]]
        at += width
    rest = words[at:]
    return result + (_counted(rest) if rest[:1] in (["log"], ["rewind"], ["thread"]) else rest)


def _counted(words: list[str]) -> list[str]:
    """``-3`` as ``-n3``, where it is no option's value and stands before ``--``."""
    end = words.index("--") if "--" in words else len(words)
    valued = ("-n", "--max-count", "--track", "--ns")
    return [
        f"-n{word[1:]}" if at < end and re.fullmatch(r"-[0-9]+", word) and words[at - 1] not in valued else word
        for at, word in enumerate(words)
    ]


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
        return _complain(*_misused(error, words), USAGE)
    except KeyboardInterrupt:
        return SIGINT
    except (BrokenPipeError, SystemExit):  # typer turns the one into the other
        return SIGPIPE
    except OSError as error:
        name = f"'{os.fsdecode(error.filename)}': " if isinstance(error.filename, (str, bytes)) else ""
        return _complain(f"{name}{error.strerror or error}", (), FATAL)
    except Exception as error:  # the last door: a user sees one line, whatever went wrong
        if "GIT_BATON_TRACE" in os.environ:
            raise
        hint = "this is a bug in gitbaton; GIT_BATON_TRACE=1 shows where"
        return _complain(f"{type(error).__name__}: {error}", (hint,), FATAL)


def _misused(error: Any, words: list[str]) -> tuple[str, tuple[str, ...]]:
    """What typer says of a command line, in git's manner: lower-case, the subject in quotes, a hint where to look."""
    text = error.format_message().split("\n")[0].rstrip(".").replace("valid int range", "number")
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"unexpected argument '\1'", text)
    hints = []
    if type(error).__name__ == "NoSuchOption":
        text = f"unknown option '{error.option_name}'"
        hints = [f"perhaps '{name}' is meant" for name in sorted(error.possibilities or ())[:3]]
    verb = next((f" {word}" for word in words if word in dict(VERBS)), "")
    command = error.ctx.command_path if getattr(error, "ctx", None) else f"git baton{verb}"
    return text[:1].lower() + text[1:], (*hints, f"'{command} -h' shows what there is")


def _complain(message: str, hints: tuple[str, ...], code: int) -> int:
    from gitbaton.codec import plain

    terminal.tell("fatal: " + plain(" ".join(message.split("\n"))))
    for hint in hints:
        terminal.tell("hint: " + plain(hint))
    return code
