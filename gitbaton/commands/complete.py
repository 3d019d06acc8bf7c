"""``git baton complete``: what the completion of a shell offers for a command line, from the verbs' own declarations."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.cli.common import located
from gitbaton.cli.leading import main
from gitbaton.cli.options import Argument, Call, Declared, declared, of_verb
from gitbaton.cli.verbs import GROUPS, VERBS, below, find, verb_module
from gitbaton.codec import first_line, plain
from gitbaton.errors import BatonError
from gitbaton.model import Stored
from gitbaton.render import kept_names, title_of

FILES = "\tfiles"  # the line that asks the shell for its own completion of paths
_STEPS = 20  # checkpoints of a track that are offered
_PATHS = {"PATH", "FILE", "DIR", "GLOB"}
Found = Iterator[tuple[str, str]]


def command(
    ctx: Call,
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


def _candidates(ctx: Call, before: list[str], word: str) -> Found:
    """What may follow these words, with what it means."""
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
    parameters = of_verb(verb_module(verb))
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
        plain_words = [w for at, w in enumerate(rest) if w[:1] != "-" and not _valued(named, rest[:at])]
        arguments = [p for p in parameters if isinstance(p.of, Argument)]
        if arguments:
            at = min(len(plain_words), len(arguments) - 1)
            yield from _values(ctx, arguments[at].of.metavar or "", verb, plain_words)


def _kind(option: str, parameter: Declared) -> str:
    return {"--track": "TRACK", "--withdraw": "DECISION", "--keep": "KEPT"}.get(option, parameter.of.metavar or "")


def _valued(named: dict[str, Declared], before: list[str]) -> bool:
    """Whether the word after these is the value of an option."""
    return bool(before) and before[-1] in named and named[before[-1]].kind is not bool


def _verbs() -> Found:
    yield from ((name, text) for title, verbs in GROUPS.items() if title for name, text in verbs.items() if " " not in name)
    yield from ((name, f"{', '.join(below(name))}") for name in dict.fromkeys(v.split()[0] for v in VERBS) if name not in VERBS)


def _options(parameters: list[Declared]) -> Found:
    for p in parameters:
        if not isinstance(p.of, Argument):
            yield from ((name, p.of.help) for name, _ in p.names() if name.startswith("--"))
    yield "--help", "Show the page of the verb."


def _values(ctx: Call, metavar: str, verb: str, given: list[str]) -> Found:
    """What a value may be, by what it is called: words in small letters as they are, those in capitals by their kind."""
    kinds = set(re.findall(r"\b[A-Z]+\b", metavar))
    if "agent" in (verb, *kinds) and given:
        from gitbaton.agents.values import NAMES

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


def _standing(ctx: Call, kinds: set[str], given: list[str]) -> Found:
    """The decisions that stand, by their numbers, and what else of the words is kept, or could be."""
    with Baton(repo=located(ctx)) as baton:
        track = given[given.index("--track") + 1] if "--track" in given[:-1] else None
        c = baton.with_standing(baton.here(baton.tip(track))).checkpoint
        yield from ((str(one.number), f"{'> ' * one.foreign}{plain(first_line(one.text))}") for one in c.decided)
        if "KEPT" in kinds:
            yield from ((name, "") for name in (*(["note"] if c.note else []), *(f"extra.{key}" for key, _ in c.extra)))
        else:
            yield from ((name, "is kept") for name in kept_names(c).split(", ") if name)


def _step(stored: Stored) -> str:
    """What a checkpoint says is done, behind a ``>`` where it is foreign."""
    return f"{'> ' * stored.foreign_words}{plain(first_line(title_of(stored.checkpoint)))}"


def _stored(ctx: Call, kinds: set[str], given: list[str]) -> Found:
    """Tracks, checkpoints with their steps, runs, threads and remotes of this repository."""
    with Baton(repo=located(ctx)) as baton:
        if "REMOTE" in kinds and not given:
            from gitbaton.git.remotes import names as remotes

            yield from ((name, "a remote") for name in remotes(baton.repo))
        if kinds & {"TRACK", "CHECKPOINT"}:
            tips = baton.readable_tips().items
            yield from ((s.checkpoint.track, _step(s)) for s in tips)
        if "CHECKPOINT" in kinds:
            with suppress(BatonError):
                rows = baton.history(limit=_STEPS).items
                yield "@", _step(rows[0]) if rows else ""
                yield from ((f"@~{n}", _step(s)) for n, s in enumerate(rows) if n)
                yield from ((s.checkpoint.label, f"{'> ' * s.foreign}a label") for s in rows if s.checkpoint.label)
                from gitbaton.store.meta import read

                yield from ((name, "a pin") for name in read(baton.store).names.values())
        if "RUN" in kinds:
            from gitbaton.journal.chain import Journal
            from gitbaton.store.provenance import of_run

            journal = Journal(baton.repo, author=b"", clock=baton.clock)
            yield from ((name, f"{'' if journal.ours.knows(of_run(name)) else '> '}a run") for name in journal.names())
        if "THREAD" in kinds:
            from gitbaton.commands.threads import foreign, listed, store_of

            with store_of(baton) as store:
                places = store.chains() if store is not None else []
            strange = {thread for thread, _ in foreign(baton, places)}
            names = dict.fromkeys(thread for thread, _ in places if listed(thread) == thread)
            yield from ((name, f"{'> ' * (name in strange)}a thread") for name in names)
