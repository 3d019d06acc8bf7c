"""Command line: git is started before the rest is imported, the verb is found and called, errors become exit codes."""

from __future__ import annotations

import gc

gc.disable()  # a process of milliseconds: collecting while we are imported costs a tenth of its start

import os
import sys

from gitbaton.base import terminal
from gitbaton.cli.verbs import OLD, find, modern, verb_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gitbaton.base.errors import BatonError
    from gitbaton.git.repo import Repo

sys.setrecursionlimit(9_000)  # a path that the kernel takes has up to 2,047 folders, and up to four calls walk each

_FATAL, _SIGINT, _SIGPIPE = 128, 130, 141  # git's; 128+n for signals


def head_start(words: list[str], place: str | None = None) -> Repo | None:
    """Find the repository, that of ``place`` or here, and let git read it, or look at its work tree where files count, while
    the rest is imported.

    Nothing is begun with options before the verb, with a call for help or for a dry run; the verb then begins by itself. All
    that may be written is our own folder for new objects, which ``call`` removes.
    """
    given = set(words)
    verb, rest = find(words)
    dry = any(len(word) > 2 and "--dry-run".startswith(word) for word in given)
    if (rest and not verb) or dry or given & {"-h", "--help", "-n"}:
        return None
    from gitbaton.base.errors import BatonError
    from gitbaton.git.repo import discover

    try:
        repo = discover(place, door="binary")
        repo.prefetch_settings()
        if verb in ("snapshot", "restore", "revert", "merge", "undo", "redo"):
            if "--no-files" not in given and not any(w == "-" or w.endswith("=-") for w in words):
                from gitbaton.git.worktree.index import list_ahead

                list_ahead(repo, walk=verb != "snapshot")  # else files are replaced
                if os.path.isdir(repo.own_dir):
                    repo.quarantine()  # before the process that reads it is started
        elif verb in ("", "status") or (verb == "verify" and "--ci" not in given) or (verb == "resume" and "--live" in given):
            from gitbaton.git.worktree.index import list_ahead

            list_ahead(repo)
        elif verb == "statusline":
            repo.objects.warm()
    except BatonError:
        return None  # the verb meets the same error and says it
    return repo


def run() -> NoReturn:
    """Carry out the command line of this process. What Python would clean up, the kernel frees sooner."""
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = _SIGINT
    except BrokenPipeError:
        code = _SIGPIPE
    except OSError as error:
        code = _FATAL
        os.write(2, f"fatal: the output cannot be written: {error.strerror}\n".encode())
    except BaseException:
        if not _guarding():
            raise
    os._exit(0 if _guarding() else code)  # a guard never breaks the guarded


def _guarding() -> bool:
    """Whether the verb is one that is called by what must not fail for it."""
    words, at = sys.argv[1:], 0
    while at < len(words) and words[at][:1] == "-":
        at += _width(words[at])
    return words[at : at + 1] in (["hook"], ["statusline"])


def _width(option: str) -> int:
    """Return how many words an option before the verb takes with it."""
    return 2 if option in ("--repo-root", "--checkpoint-dir") else 1


def _run(words: list[str]) -> int:
    terminal.prepare()
    if words[:1] == ["hook"] and len(words) > 2:  # a hook is waited for: no command line
        from gitbaton.agents.hooks import dispatch

        dispatch(words[1:])
        return 0
    helped = any(word.startswith(("-h", "--h")) for word in words)
    if "statusline" in words[:2] and words[0].startswith(("statusline", "--color", "--no-")) and not helped:
        from gitbaton.cli.statusline import asked, shown_again  # it is waited for, too

        return 0 if shown_again() else call(words, head_start(words, asked().told.place))
    return call(words, head_start(words))


def arguments(words: list[str]) -> tuple[list[str], list[str]]:
    """The command line before the verb, with git's optional value of ``--color`` made explicit, and from the verb on, with
    git's ``-3`` made explicit where the verb takes ``-n 3``."""
    explicit = {"--color": "--color=always", "--no-color": "--color=never"}
    import re

    from gitbaton.cli.options import Option, declared

    before: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        if words[at] in ("-v", "--version"):  # the verb is not run, as git has it
            return [*before, words[at]], []
        width = _width(words[at])
        before += [explicit.get(words[at], words[at]), *words[at + 1 : at + width]]
        at += width
    rest = words[at:]
    if rest == ["version"]:
        return [*before, "--version"], []
    end = rest.index("--") if "--" in rest else len(rest)
    counts = [at for at, word in enumerate(rest[:end]) if re.fullmatch(r"-[0-9]+", word)]
    verb = find(rest)[0] if counts else ""
    if verb:
        parameters = (p for p in declared(verb_function(verb)) if isinstance(p.of, Option))
        kinds = {name: p.kind for p in parameters for name, _ in p.names()}
        for at in counts:
            word = rest[at - 1]
            begun = (kind for name, kind in kinds.items() if len(word) > 2 and name.startswith(word))
            if kinds.get("-n") is int and (kinds.get(word) or next(begun, bool)) is bool:  # else it is an option's value
                rest[at] = f"-n{rest[at][1:]}"
    return before, rest


def call(words: list[str], begun: Repo | None = None) -> int:
    """Carry out a command line, perhaps on a repository already found; its exit code.

    Every error is one line and its hints on standard error.
    """
    from gitbaton.base.errors import BatonError

    (before, rest), renamed = arguments(words), ""
    if rest and rest[0] in OLD:
        rest, renamed = modern(rest)
    try:
        code = _call([*before, *rest], begun)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BatonError as error:
        return _complain(error.message, error.hints or _why_held(error), error.exit_code)
    except KeyboardInterrupt:
        return _SIGINT
    except (BrokenPipeError, SystemExit):  # typer turns the one into the other
        return _SIGPIPE
    except OSError as error:
        from gitbaton.base.codec import os_error  # late: a hook that has nothing to do needs none of it

        return _complain(os_error(error), (), _FATAL)
    except Exception as error:  # the last door: a user sees one line, whatever went wrong
        if "GIT_BATON_TRACE" in os.environ:
            raise
        hint = "this is a bug in gitbaton; GIT_BATON_TRACE=1 shows where"
        return _complain(f"{type(error).__name__}: {error}", (hint,), _FATAL)
    finally:
        if begun is not None:
            begun.clear()  # a command line that was refused has not opened it
        if renamed:
            terminal.tell(f"hint: {renamed}")


def _call(words: list[str], begun: Repo | None) -> object:
    """Call the verb, and return its result. A line that is well formed needs no typer: importing that takes as long as a small
    command."""
    from gitbaton.base.errors import UsageError
    from gitbaton.cli.options import AFTER, Invocation, after, as_typed, declared, main, read, read_leading

    try:
        before, rest = read_leading(declared(main), words)
        verb, rest = find(rest)
        command = verb_function(verb) if verb or not rest else None
        given = read(declared(command), rest) if command else {}
    except ValueError:
        command = None
    if command is not None:
        ctx = Invocation(begun, f"git baton {verb}" if verb else "git baton", verb or "")
        ctx.meta[AFTER] = after(rest)
        main(ctx, **before)
        try:
            return 0 if before["version"] else command(ctx, **given)
        except UsageError as error:
            error.message = as_typed(declared(command), rest, error.message)
            raise
    from gitbaton.cli.usage import call_typer

    return call_typer(words, begun)


def _why_held(error: BatonError) -> tuple[str, ...]:
    """Return what is known of a lock of git's that was in the way."""
    if ".lock'" not in error.message:
        return ()
    from gitbaton.git.worktree.locks import why_held

    return tuple(why_held(error.message))


def _complain(message: str, hints: tuple[str, ...], code: int) -> int:
    from gitbaton.base.codec import plain

    terminal.tell("fatal: " + plain(" ".join(message.split("\n"))))
    terminal.tell_hints(hints)
    return code
