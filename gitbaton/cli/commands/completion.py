"""``git baton completion``, and ``complete``: what it offers for a command line, from the verbs' own declarations."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import counted, first_line, plain
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.system.files import shipped, write_atomic
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import kept_names, title_of
from gitbaton.checkpoints.store.meta import read
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.cli.common import located, one_of
from gitbaton.cli.options import Argument, Declared, Invocation, Option, declared, main
from gitbaton.cli.verbs import GROUPS, VERBS, below, find, verb_function

# The file of each shell in the package, the variable that names a user's folder, its default, and the path below it.
SHELLS = {
    "bash": ("git-baton", "XDG_DATA_HOME", ".local/share", "bash-completion/completions/git-baton"),
    "zsh": ("_git-baton", "XDG_DATA_HOME", ".local/share", "zsh/site-functions/_git-baton"),
    "fish": ("git-baton.fish", "XDG_CONFIG_HOME", ".config", "fish/conf.d/git-baton.fish"),
}
MAN = "~/.local/share/man"  # man looks here where ~/.local/bin is on PATH
SHARES = "/usr/local/share:/usr/share:/opt/homebrew/share"  # where bash-completion lies, unless XDG_DATA_DIRS says


def place_of(shell: str) -> str:
    """Return the file in the user's folder where a shell finds its completion."""
    _, variable, default, path = SHELLS[shell]
    return os.path.join(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), default), path)


def is_ours(place: str) -> bool:
    """Whether the completion at a place is ours. Raises OSError where none does, or it cannot be read."""
    with open(place, encoding="utf-8", errors="replace") as file:
        return "gitbaton:" in file.read()


def installed() -> list[str]:
    """List the shells whose completion in the user's folder is ours."""
    found = []
    for shell in SHELLS:
        with suppress(OSError):
            found += [shell] if is_ours(place_of(shell)) else []
    return found


def _man_pages() -> dict[str, str]:
    """List the man pages of this installation: the place of each below ``MAN``, and what a link there says. It is relative, as
    those of pipx, which links pages by itself, are not."""
    found = {}
    for section in ("man1", "man7"):
        shared, folder = os.path.join(sys.prefix, "share/man", section), os.path.join(os.path.expanduser(MAN), section)
        with suppress(OSError):
            for name in os.listdir(shared):
                if name.startswith(("git-baton", "gitbaton-")):
                    page = os.path.join(os.path.realpath(shared), name)
                    found[os.path.join(folder, name)] = os.path.relpath(page, os.path.realpath(folder))
    return found


def _link_man_pages() -> None:
    """Link the pages where man finds them, unless it finds ours by itself, beside a program on PATH."""
    folders = [os.path.join(os.path.dirname(one), "share/man") for one in os.environ.get("PATH", "").split(os.pathsep)]
    if any(os.path.exists(f"{one}/man1/git-baton.1") for one in folders if one != os.path.expanduser(MAN)):
        return
    missing = {place: page for place, page in _man_pages().items() if not os.path.exists(place)}
    for place, page in missing.items():
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.islink(place):  # to what is gone
            os.unlink(place)
        os.symlink(page, place)
    if missing:
        terminal.say(f"linked {counted(len(missing), 'man page')} into {MAN}, where man looks while ~/.local/bin is on PATH")


def _unlink_man_pages() -> int:
    """Remove the links and count them."""
    ours = [place for place, page in _man_pages().items() if os.path.islink(place) and os.readlink(place) == page]
    for place in ours:
        os.unlink(place)
    return len(ours)


def command(
    ctx: Invocation,
    shell: Annotated[str, Argument(metavar="bash|zsh|fish", help="For which shell.")],
    install: Annotated[bool, Option("--install", help="Write it into your own folder, where the shell finds it.")] = False,
    uninstall: Annotated[bool, Option("--uninstall", help="Remove it from there.")] = False,
) -> int:
    """Print the completion of a shell, or write it where the shell finds it: for 'git baton' and for 'git-baton'.

    Verbs, options, values, tracks, checkpoints with their steps, runs, threads and paths are completed. The folder is below
    XDG_DATA_HOME (~/.local/share) for bash and zsh, below XDG_CONFIG_HOME (~/.config) for fish. A new shell has it. bash
    needs bash-completion, zsh needs the folder in fpath: the hints of --install say so. --install also links the man pages into
    ~/.local/share/man where man does not find them by itself, as after 'uv tool install'; then 'git baton --help' shows one.
    They go with the last completion.

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
        if there := os.path.exists(place):
            if not is_ours(place):
                raise UsageError(f"'{place}' is not ours; it is left as it is")
            os.unlink(place)
            terminal.say(f"removed {place}")
        pages = 0 if installed() else _unlink_man_pages()  # they go with the last completion
        if pages:
            terminal.say(f"removed {counted(pages, 'man page')} from {MAN}")
        elif not there:
            terminal.say("nothing of ours is installed")
        return 0
    if not install:
        terminal.write(text)
        return 0
    if os.path.lexists(place) and not is_ours(place):
        raise UsageError(f"'{place}' is not ours; it is left as it is")
    os.makedirs(os.path.dirname(place), exist_ok=True)
    write_atomic(place, text.encode())
    terminal.say(f"wrote {place}")
    _link_man_pages()
    if shell == "zsh":
        terminal.tell(f"hint: in ~/.zshrc, before compinit: fpath=({os.path.dirname(place)} $fpath)")
    elif shell == "bash":
        shares = (os.environ.get("XDG_DATA_DIRS") or SHARES).split(":")
        if not any(os.path.exists(os.path.join(share, "bash-completion/bash_completion")) for share in shares):
            terminal.tell("hint: bash-completion, which reads it, is not found: install the package 'bash-completion'")
    terminal.tell(f"hint: a new shell completes 'git baton': 'exec {shell}' begins one here")
    return 0


FILES = "\tfiles"  # the line that asks the shell for its own completion of paths
_STEPS = 20  # checkpoints of a track that are offered
_PATHS = {"PATH", "FILE", "DIR", "GLOB"}
Found = Iterator[tuple[str, str]]


def complete(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]], Argument(metavar="[WORD]...", help="The words after 'git baton', the last one unfinished.")
    ] = None,
) -> int:
    """Print what may stand for the last word, one candidate a line with a tab before what it means; never fails."""
    *before, word = words or [""]
    with suppress(BatonError, OSError):
        for name, meaning in _candidates(ctx, before, word):
            if name == FILES:
                terminal.say(FILES)
            elif name.startswith(word) and name.isprintable() and plain(name) == name:
                terminal.say(f"{name}\t{meaning}" if meaning else name)
    return 0


def _candidates(ctx: Invocation, before: list[str], word: str) -> Found:
    """Yield candidates that may follow these words, with their meanings."""
    while before and before[0].startswith("-"):  # options before the verb
        del before[: 2 if before[0] in ("--repo-root", "--checkpoint-dir") else 1]
    verb, rest = find(before)
    under = before[0] if len(before) == 1 else ""
    if below(under):
        yield from below(under).items()
    if not verb:
        if not before:
            yield from _verbs()
            yield from _options(declared(main)) if word.startswith("-") else ()
        return
    parameters = declared(verb_function(verb))
    named = {name: p for p in parameters if not isinstance(p.of, Argument) for name, _ in p.names()}
    if "--" in rest:
        yield FILES, ""
        return
    option, equals, _ = word.partition("=")
    last = named.get(rest[-1]) if rest else None
    if word.startswith("--") and equals and option in named:
        for name, meaning in _values(ctx, _kind(option, named[option]), verb, rest):
            yield (name, meaning) if name == FILES else (f"{option}={name}", meaning)
    elif last is not None and last.kind is not bool:
        yield from _values(ctx, _kind(rest[-1], last), verb, rest)
    elif word.startswith("-"):
        yield from _options(parameters)
    else:
        valued = {option for option, one in named.items() if one.kind is not bool}
        plain_words = [w for above, w in pairwise(["", *rest]) if w[:1] != "-" and above not in valued]
        arguments = [p for p in parameters if isinstance(p.of, Argument)]
        if arguments:
            at = min(len(plain_words), len(arguments) - 1)
            yield from _values(ctx, arguments[at].of.metavar or "", verb, plain_words)


def _kind(option: str, parameter: Declared) -> str:
    return {"--track": "TRACK", "--withdraw": "DECISION", "--keep": "KEPT"}.get(option, parameter.of.metavar or "")


def _verbs() -> Found:
    yield from ((name, text) for title, verbs in GROUPS.items() if title for name, text in verbs.items() if " " not in name)
    yield from ((name, f"{', '.join(below(name))}") for name in dict.fromkeys(v.split()[0] for v in VERBS) if name not in VERBS)


def _options(parameters: list[Declared]) -> Found:
    for p in parameters:
        if not isinstance(p.of, Argument):
            yield from ((name, p.of.help) for name, _ in p.names() if name.startswith("--"))
    yield "--help", "Show the page of the verb."


def _values(ctx: Invocation, metavar: str, verb: str, given: list[str]) -> Found:
    """Yield candidates for a value by its metavar: words in small letters as they are, those in capitals by their kind."""
    kinds = set(re.findall(r"\b[A-Z]+\b", metavar))
    if "CLIENT" in kinds or ("agent" in (verb, *kinds) and given):
        from gitbaton.base.clients import NAMES

        yield from ((name, "") for name in NAMES)
    elif "|" in metavar and not (given and kinds):
        yield from ((name, "") for name in re.findall(r"\b[a-z]+\b", metavar))
    if verb == "help":
        from gitbaton.cli.pages import guides

        yield from (*_verbs(), *((name, "a guide") for name in guides()))
    if kinds & {"TRACK", "CHECKPOINT", "RUN", "THREAD", "REMOTE"} or (verb == "tracks" and given):
        yield from _stored(ctx, kinds | ({"TRACK"} if verb == "tracks" else set()), given)
    if kinds & {"DECISION", "KEPT"}:
        yield from _standing(ctx, kinds, given)
    if kinds & _PATHS:
        yield FILES, ""


def _standing(ctx: Invocation, kinds: set[str], given: list[str]) -> Found:
    """Yield the decisions that stand, by their numbers, and what else of the words is kept, or could be."""
    with Baton(repo=located(ctx)) as baton:
        track = given[given.index("--track") + 1] if "--track" in given[:-1] else None
        c = baton.with_standing(baton.here(baton.tip(track))).checkpoint
        yield from ((str(one.number), f"{'> ' * one.foreign}{plain(first_line(one.text))}") for one in c.decided)
        if "KEPT" in kinds:
            yield from ((name, "") for name in (*(["note"] if c.note else []), *(f"extra.{key}" for key, _ in c.extra)))
        else:
            yield from ((name, "is kept") for name in kept_names(c).split(", ") if name)


def _step(stored: Stored) -> str:
    """Return the step of a checkpoint, behind a ``>`` where it is foreign."""
    return f"{'> ' * stored.foreign_words}{plain(first_line(title_of(stored.checkpoint)))}"


def _stored(ctx: Invocation, kinds: set[str], given: list[str]) -> Found:
    """Yield tracks, checkpoints with their steps, runs, threads and remotes of this repository."""
    with Baton(repo=located(ctx)) as baton:
        if "REMOTE" in kinds and not given:
            from gitbaton.git.remotes import names as remotes

            yield from ((name, "a remote") for name in remotes(baton.repo))
        if kinds & {"TRACK", "CHECKPOINT"}:
            yield from ((s.checkpoint.track, _step(s)) for s in baton.readable_tips().items)
        if "CHECKPOINT" in kinds:
            with suppress(BatonError):
                rows = baton.history(limit=_STEPS).items
                yield "@", _step(rows[0]) if rows else ""
                yield from ((f"@~{n}", _step(s)) for n, s in enumerate(rows) if n)
                yield from ((s.checkpoint.label, f"{'> ' * s.foreign}a label") for s in rows if s.checkpoint.label)
                yield from ((name, "a pin") for name in read(baton.store).names.values())
        if "RUN" in kinds:
            from gitbaton.runs.journal.chain import Journal

            journal = Journal(baton.repo, author=b"", clock=baton.clock)
            yield from ((name, f"{'' if journal.ours.knows(of_run(name)) else '> '}a run") for name in journal.names())
        if "THREAD" in kinds:
            from gitbaton.cli.commands.thread import foreign, listed, store_of

            with store_of(baton) as store:
                places = store.chains() if store is not None else []
            strange = {thread for thread, _ in foreign(baton, places)}
            names = dict.fromkeys(thread for thread, _ in places if listed(thread) == thread)
            yield from ((name, f"{'> ' * (name in strange)}a thread") for name in names)
