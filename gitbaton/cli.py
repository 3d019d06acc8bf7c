"""The command line: options before the verb, the verb's module on demand, and errors as exit codes."""

import os
import re
import sys

from gitbaton import terminal
from gitbaton.commands import OLD, find, verb_module
from gitbaton.commands.leading import main
from gitbaton.commands.options import AFTER, Call, Option, after, declared, of_verb, read, read_leading
from gitbaton.errors import BatonError
from gitbaton.git.repo import Repo

SIGINT, SIGPIPE, FATAL = 130, 141, 128  # git's; 128+n for signals


def arguments(words: list[str]) -> tuple[list[str], list[str]]:
    """The command line before the verb, with git's optional value of ``--color`` made explicit, and from the verb on, with
    git's ``-3`` made explicit where the verb takes ``-n 3``."""
    explicit = {"--color": "--color=always", "--no-color": "--color=never"}
    before: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        width = 2 if words[at] in ("--repo-root", "--checkpoint-dir") else 1
        before += [explicit.get(words[at], words[at]), *words[at + 1 : at + width]]
        at += width
    rest = words[at:]
    end = rest.index("--") if "--" in rest else len(rest)
    counts = [at for at, word in enumerate(rest[:end]) if re.fullmatch(r"-[0-9]+", word)]
    verb = find(rest)[0] if counts else ""
    if verb:
        parameters = (p for p in of_verb(verb_module(verb)) if isinstance(p.of, Option))
        kinds = {name: p.kind for p in parameters for name, _ in p.names()}
        for at in counts:
            if kinds.get("-n") is int and kinds.get(rest[at - 1], bool) is bool:  # else it is an option's value
                rest[at] = f"-n{rest[at][1:]}"
    return before, rest


def call(words: list[str], begun: Repo | None = None) -> int:
    """Carry out a command line, perhaps on a repository already found; its exit code.

    Every error is one line and its hints on standard error.
    """
    (before, rest), renamed = arguments(words), ""
    if rest and rest[0] in OLD:
        from gitbaton.commands.oldnames import modern

        rest, renamed = modern(rest)
    try:
        code = _call([*before, *rest], begun)
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
    finally:
        if renamed:
            terminal.tell(f"hint: {renamed}")


def _call(words: list[str], begun: Repo | None) -> object:
    """What the verb returns. A line that is well formed needs no typer, whose import takes as long as a small command."""
    try:
        before, rest = read_leading(declared(main), words)
        verb, rest = find(rest)
        module = verb_module(verb) if verb else verb_module("standing") if not rest else None
        given = read(of_verb(module), rest) if module else {}
    except ValueError:
        module = None
    if module is not None:
        ctx = Call(begun, f"git baton {verb}" if verb else "git baton", verb or "")
        ctx.meta[AFTER] = after(rest)
        main(ctx, **before)
        return module.command(ctx, **given) if verb or not before["version"] else 0
    from gitbaton.commands.usage import call_typer

    return call_typer(words, begun)


def _complain(message: str, hints: tuple[str, ...], code: int) -> int:
    from gitbaton.codec import plain

    terminal.tell("fatal: " + plain(" ".join(message.split("\n"))))
    for hint in hints:
        terminal.tell("hint: " + plain(hint))
    return code
