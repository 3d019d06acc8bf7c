"""The command line: options before the verb, the verb's module on demand, and errors as exit codes."""

import os
import re
import sys

from gitbaton import terminal
from gitbaton.commands import VERBS, verb_module
from gitbaton.commands.leading import main
from gitbaton.commands.options import AFTER, Call, after, declared, of_verb, read, read_leading
from gitbaton.errors import BatonError
from gitbaton.git.repo import Repo

SIGINT, SIGPIPE, FATAL = 130, 141, 128  # git's; 128+n for signals


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
        code = _call(arguments(words), begun)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BatonError as error:
        return _complain(error.message, error.hints, error.exit_code)
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


def _call(words: list[str], begun: Repo | None) -> object:
    """What the verb returns. A line that is well formed needs no typer, whose import takes as long as a small command."""
    try:
        before, (verb, *rest) = read_leading(declared(main), words)
        module = verb_module(verb) if verb in dict(VERBS) else None
        given = read(of_verb(module), rest) if module else {}
    except ValueError:
        module = None
    if module is not None:
        ctx = Call(begun, f"git baton {verb}", verb)
        ctx.meta[AFTER] = after(rest)
        main(ctx, **before)
        return module.command(ctx, **given)
    from gitbaton.commands.usage import call_typer

    return call_typer(words, begun)


def _complain(message: str, hints: tuple[str, ...], code: int) -> int:
    from gitbaton.codec import plain

    terminal.tell("fatal: " + plain(" ".join(message.split("\n"))))
    for hint in hints:
        terminal.tell("hint: " + plain(hint))
    return code
