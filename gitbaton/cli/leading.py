"""The options before the verb."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.options import Call, Option
from gitbaton.errors import UsageError
from gitbaton.git.repo import Repo
from gitbaton.values import value


@value
class Globals:
    """The options before the verb."""

    repo_root: Optional[str] = None
    checkpoint_dir: Optional[str] = None
    color: str = "auto"
    pager: bool = True
    repo: Optional[Repo] = None


def main(
    ctx: Call,
    repo_root: Annotated[
        Optional[str], Option(metavar="DIR", help="Work in the repository that holds DIR, instead of the current one.")
    ] = None,
    checkpoint_dir: Annotated[
        Optional[str],
        Option(metavar="DIR", help="Where LATEST.md and LATEST.json go: below the root, or absolute (runtime/checkpoints)."),
    ] = None,
    color: Annotated[str, Option(metavar="WHEN", help="Colour: always, never or auto; --color alone means always.")] = "auto",
    pager: Annotated[bool, Option("--pager/--no-pager", help="Send long output to a terminal through the pager.")] = True,
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
) -> int:
    """Hand the baton over inside git: checkpoints of an agent's work, kept in the repository itself."""
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
