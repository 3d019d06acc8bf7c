"""``git baton completion``."""

import os
from typing import Annotated

from gitbaton import terminal
from gitbaton.cli.common import one_of
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.errors import UsageError
from gitbaton.system.files import shipped, write_atomic

# The file of each shell in the package, the variable that names a user's folder, its default, and the path below it.
SHELLS = {
    "bash": ("git-baton", "XDG_DATA_HOME", ".local/share", "bash-completion/completions/git-baton"),
    "zsh": ("_git-baton", "XDG_DATA_HOME", ".local/share", "zsh/site-functions/_git-baton"),
    "fish": ("git-baton.fish", "XDG_CONFIG_HOME", ".config", "fish/conf.d/git-baton.fish"),
}
SHARES = "/usr/local/share:/usr/share:/opt/homebrew/share"  # where bash-completion lies, unless XDG_DATA_DIRS says


def place_of(shell: str) -> str:
    """The file in the user's folder where a shell finds its completion."""
    _, variable, default, path = SHELLS[shell]
    return os.path.join(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), default), path)


def is_ours(place: str) -> bool:
    """Whether the completion that lies there is ours. Raises OSError where none does, or it cannot be read."""
    with open(place, encoding="utf-8", errors="replace") as file:
        return "gitbaton:" in file.read()


def command(
    ctx: Call,
    shell: Annotated[str, Argument(metavar="bash|zsh|fish", help="For which shell.")],
    install: Annotated[bool, Option("--install", help="Write it into your own folder, where the shell finds it.")] = False,
    uninstall: Annotated[bool, Option("--uninstall", help="Remove it from there.")] = False,
) -> int:
    """Print the completion of a shell, or write it where the shell finds it: for 'git baton' and for 'git-baton'.

    Verbs, options, values, tracks, checkpoints with their steps, runs, threads and paths are completed. The folder is below
    XDG_DATA_HOME (~/.local/share) for bash and zsh, below XDG_CONFIG_HOME (~/.config) for fish. A new shell has it. bash
    needs bash-completion, zsh needs the folder in fpath: the hints of --install say so.

    Examples:
        git baton completion bash
        git baton completion zsh --install
        git baton completion zsh --uninstall
    """
    one_of(install=install, uninstall=uninstall)
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for '{shell}'", f"it can be {', '.join(map(repr, SHELLS))}")
    text, place = shipped("completion", SHELLS[shell][0]), place_of(shell)
    if uninstall:
        try:
            ours = is_ours(place)
        except FileNotFoundError:
            terminal.say("nothing of ours is installed")
            return 0
        if not ours:
            raise UsageError(f"'{place}' is not ours; it is left as it is")
        os.unlink(place)
        terminal.say(f"removed {place}")
        return 0
    if not install:
        terminal.write(text)
        return 0
    if os.path.lexists(place) and not is_ours(place):
        raise UsageError(f"'{place}' is not ours; it is left as it is")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    write_atomic(place, text.encode())
    terminal.say(f"wrote {place}")
    if shell == "zsh":
        terminal.tell(f"hint: in ~/.zshrc, before compinit: fpath=({os.path.dirname(place)} $fpath)")
    elif shell == "bash":
        shares = (os.environ.get("XDG_DATA_DIRS") or SHARES).split(":")
        if not any(os.path.exists(os.path.join(share, "bash-completion/bash_completion")) for share in shares):
            terminal.tell("hint: bash-completion, which reads it, is not found: install the package 'bash-completion'")
    terminal.tell(f"hint: a new shell completes 'git baton': 'exec {shell}' begins one here")
    return 0
