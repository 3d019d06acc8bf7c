"""Help, and what is wrong with a command line: typer reads it, by the verbs' own declarations."""

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from gitbaton.base import terminal
from gitbaton.base.errors import UsageError
from gitbaton.cli.options import AFTER, Declared, Option, after, declared, in_full, main, read
from gitbaton.cli.verbs import DESTROY, GROUPS, VERBS, below, find, verb_function
from gitbaton.git.repo import Repo

HELP = ["-h", "--help"]
GONE = {
    "--radius": "a repair is not widened any more: name the steps above with --step, which may repeat",
    "worktree -b": "for a branch there, before 'git worktree add PATH NAME': git baton branch NAME CHECKPOINT",
    "--as": "to go on with the conversation in another client: git baton restore --conversation-only --as codex",
}
# Options of other tools, by the ones here that do it, of one verb or of any that has them; "--" are paths. A word that stands
# beside nothing has no such option here, however near one is spelled.
ELSEWHERE = {
    "snapshot --step": "--message --msg --title --description --text --comment --subject",
    "snapshot --note": "--notes --body",
    "snapshot --next-cmd": "--todo --command --cmd",
    "snapshot --label": "--name --tag",
    "snapshot --validation": "--validate --status --test --green",
    "--max-count": "--limit --count --number --last --lines",
    "--dry-run": "--plan --simulate --preview --check",
    "--grep": "--search --find",
    "--kind": "--type",
    "--json": "--format",
    "--track": "--branch",
    "--stat": "--shortstat --numstat --compact-summary",
    "--name-only": "--name-status --names",
    "--patch": "-u --diff",
    "--ignore-all-space": "-b --ignore-space-change",
    "--output": "--out --outfile",
    "--watch": "--follow --tail --live",
    "--quiet": "--silent",
    "restore --index": "--staged --cached",
    "revert --merge": "-3 --3way",
    "--repo-root": "-C --git-dir --work-tree --directory --cwd",
    "--": "--path --paths --file --files",
    "": "--oneline --cached --staged --stat --once --abort --amend --date --merges --patch --watch",
}
# Verbs that take no word, and the line that is meant by one.
BESIDE = {
    "undo": ("to take back a turn, and not a restore: git baton revert TURN",),
    "pause": ("for a while: git baton pause --for 1h", "to let the hooks act again: git baton pause --end"),
}
CONTEXT = {"help_option_names": ["-h"], "max_content_width": 100}


class Verbs(TyperGroup):
    """A group that imports a verb's module when it is called, and none to list them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb of a command line. Raises UsageError that names the nearest one."""
        verb, rest = find(args)
        if not verb:
            if args[1:2] and args[1] in HELP and below(args[0]):
                terminal.say("\n".join(f"git baton {args[0]} {name:<10} {text}" for name, text in below(args[0]).items()))
                raise typer.Exit
            under = args[0] if below(args[0]) else ""
            raise unknown(under, *args[len(under) > 0 :])
        if "--help" in rest[: rest.index("--") if "--" in rest else None]:
            return "help", self.get_command(ctx, "help"), verb.split()
        # What is after `--` are paths or a command, whatever they look like; the parser forgets where it stood.
        ctx.meta[AFTER] = after(args)
        return verb, self.get_command(ctx, verb), in_full(declared(verb_function(verb)), rest)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb as a command."""
        if cmd_name not in VERBS:
            return None
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        command, under = verb_function(cmd_name), " ".join(below(cmd_name))
        more = f"Verbs under it, each with its own -h: {under}\n\n" if under else ""
        more += f"'git baton help {cmd_name}' says more."
        app.command(cmd_name, context_settings=CONTEXT, epilog=more)(typed(command, declared(command)))
        return typer.main.get_command(app)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of ``git baton -h``."""
        from gitbaton.cli.pages import overview

        formatter.write(overview())


_STEP = 'snapshot {"what is done"}'
# Words that people type, of git, jj, and the clients of agents, and the lines that do what is meant; "TEXT: LINE" where the
# verb's own text does not say it. In braces: what stands for the words after the one that was typed.
MEANT: tuple[tuple[str, ...], ...] = (
    ("save checkpoint commit record store ci backup back-up shelve write describe desc new", _STEP),
    ("stash add amend", 'snapshot "what is done"'),
    ("stash", "restore CHECKPOINT"),
    ("handover handoff hand-over hand-off pass relay", _STEP, "resume"),
    ("compact", 'snapshot "what is done"', "resume"),
    (
        "init setup set-up start begin create",
        'to begin: snapshot "what is done"',
        "to see which agents it can join on: agent list",
    ),
    ("reset", "restore {CHECKPOINT}"),
    ("back rollback roll-back reset takeback take-back goback go-back rewind-turn", "revert {}"),
    ("back rollback roll-back takeback take-back goback go-back rewind-turn", "restore {CHECKPOINT}"),
    ("revert-turn undo-turn uncommit abandon", "revert {}"),
    ("checkout co load apply pop recover retrieve recall goto jump edit", "restore {CHECKPOINT}"),
    ("checkout switch use select set-track", "tracks use {NAME}"),
    ("continue takeover take-over pickup pick-up go-on catch-up context memory next todo todos whereami", "resume {}"),
    ("list ls reflog op checkpoints snapshots entries", "log"),
    ("history hist timeline shortlog evolog oplog whatchanged", "log {}"),
    ("grep find ack rg lookup look-up", "search {WORDS...}", "to search the files: log --all -S {WORDS}"),
    ("graph tree lanes", "to draw how tracks and commits lie: log --graph --all"),
    ("info st stat state stats current dashboard overview", "status"),
    ("prompt ps1 status-line statusbar", "statusline"),
    ("watch top monitor", "to draw it anew at each change: status --watch"),
    ("cost usage tokens spend billing", "to see the tokens of today: status", "to see those of a track by day: summary"),
    ("trailers trailer", "to name agents in their commits: install --trailers"),
    ("plugin plugins extension extensions marketplace", "agent install --plugin"),
    ("ci", "to ask for a green run of a commit's files: verify --ci"),
    ("cat view print display inspect info", "show {}"),
    ("ls-files files", "to list the files that one changed: show --name-only"),
    ("changes changed compare cmp di", "diff {}"),
    ("annotate praise who", "blame {FILE}"),
    ("explain because", "why {FILE:LINE}"),
    ("keep protect milestone", "pin {CHECKPOINT}"),
    ("label tag name bookmark", "to name a checkpoint: pin @ {NAME}"),
    ("unkeep untag unlabel unprotect", "unpin {CHECKPOINT}"),
    ("track", "tracks"),
    ("rename mv move", "to rename a track: tracks rename {OLD NEW}"),
    ("delete del rm remove drop delete-track remove-track", "to delete a track, after asking: tracks delete NAME"),
    ("rm delete del remove drop erase", "to see what goes where one checkpoint is: forget CHECKPOINT --dry-run"),
    ("rebase cherry-pick", "to make a branch that git merges: branch NAME CHECKPOINT"),
    ("undelete", "to bring a deleted track back: tracks restore NAME"),
    ("unrestore", "undo"),
    ("clean risk at-risk", "to see what 'git clean' would take: status --at-risk"),
    ("gc shrink clean cleanup tidy compress repack expire", "to see what a prune would remove: prune --keep-last 20 --dry-run"),
    ("gc shrink clean cleanup tidy compress repack expire size disk", "du"),
    ("off disable silence mute quiet suspend hush sleep", "pause"),
    ("on enable unpause unmute wake", "to let the hooks act again: pause --end"),
    ("pull update download", "fetch {}"),
    ("clone", "fetch"),
    ("pull update synchronize synchronise syncronize join", "sync {}"),
    ("upload publish share send", "push {}"),
    ("fork", "branch NAME CHECKPOINT"),
    ("fork workspace", "worktree PATH CHECKPOINT"),
    ("check validate", "verify {}"),
    ("check validate health fsck diagnose", "doctor"),
    ("hooks", "install", "to see which agents it can join on: agent list"),
    ("chat conversation session sessions", "transcript show {}"),
    ("report changelog pr", "summary {}"),
    ("web html", "page"),
    ("tui gui ui picker re-wind", "rewind"),
    ("archive bundle tar zip", "to write every checkpoint as files: export --history"),
    ("secrets leaks audit", "scan"),
    ("jobs runs", "run list"),
    ("exec", "to run a command as a step: run --step NAME -- CMD..."),
    ("serve server", "mcp"),
    ("config settings options preferences configure", "to read which settings there are: help git-baton"),
    ("man manual docs guide guides topics", "help {}"),
    ("commands verbs usage", "help"),
    ("version ver about", "to print the version: --version"),
    ("thread-ls thread-all", "thread list"),
    ("thread-history thread-checkpoints", "thread log {THREAD}"),
    ("thread-cat thread-get thread-view", "thread show {THREAD}"),
)


def _lines(word: str, typed: list[str]) -> list[str]:
    """Return a hint for each line that a word stands for in ``MEANT``, with the words typed after it where they fit."""
    from gitbaton.base.codec import means_else

    found = [line for words, *lines in MEANT if word in words.split() for line in lines]
    return [_line(line, typed) for line in found if not (line.startswith("tracks use") and means_else("".join(typed[:1])))]


def _line(line: str, typed: list[str]) -> str:
    from gitbaton.checkpoints.render import in_shell

    text, _, line = line.rpartition(": ")
    start, brace, rest = line.partition("{")
    instead = rest.rstrip("}")
    verb, fixed = find(start.split())
    if brace and typed and all(word.isprintable() for word in typed):
        parameters = declared(verb_function(verb))
        if any(word.startswith("-") for word in typed) and "CHECKPOINT" in instead:
            typed = [word for word in typed if re.search(r"[@~]", word)] or typed  # 'reset --hard @~1'
        plain = not any(word.startswith("-") for word in typed)
        words = [" ".join(typed)] if plain and instead in ('"what is done"', "WORDS") else typed
        with suppress(ValueError, UsageError):
            given = read(parameters, in_full(parameters, [*fixed, *words]))
            fits = plain or not (fixed or len(given.get("words") or ()) > 1)
            if fits and (verb != "tracks" or len(typed) == len(instead.split())):
                instead = " ".join(map(in_shell, words))
    return f"{text or f'to {VERBS[verb]}'}: git baton {start}{instead}".rstrip()


def unknown(under: str, word: str = "", *typed: str) -> UsageError:
    """Return the error for a word that is no verb: of ``git baton``, or of what stands ``under`` a word of it. It names the
    lines that are meant, with what was ``typed`` after the word, or the nearest verbs, but none that destroys."""
    called = f"git baton {under}".rstrip()
    names = list(below(under)) if under else list(dict.fromkeys(name.split()[0] for name in VERBS if name not in GROUPS[""]))
    if not word:
        return UsageError(f"no verb of '{called}' is given", f"it can be {', '.join(map(repr, names))}")
    wrong, more = f"'{word}' is not a verb of {called}", f"'{called} -h' lists the verbs"
    if hints := _lines(f"{under}-{word}" if under else word, [*typed]):
        return UsageError(wrong, *hints, more)
    near = nearest(word, names) or [name for name in names if len(word) > 2 and name.startswith(word)]
    if any(f"{under} {name}".lstrip() in DESTROY for name in near):
        near = []
    elif not near and not under:
        hints = [
            line for other in nearest(word, " ".join(words for words, *_ in MEANT).split()) for line in _lines(other, [*typed])
        ]
    said = f"the most similar verb{' is' if len(near) == 1 else 's are'} " + ", ".join(f"'{name}'" for name in near)
    return UsageError(wrong, *([said] if near else dict.fromkeys(hints)), more)


def nearest(word: str, names: Sequence[str], long: int = 5) -> list[str]:
    """Return the names of which a word may be a misspelling, of those only the nearest: two letters are wrong in a ``long``
    one at most, and one in a shorter one."""
    far = {name: distance(word, name) for name in names}
    return [name for name in names if far[name] == min(far.values()) <= (1 if len(word) < long else 2)]


def distance(one: str, other: str) -> int:
    """Return the edit distance of two words: letters put in, left out, replaced, or exchanged with the next."""
    before, row = list[int](), list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[-1] = min(row[-1], older[j - 2] + 1)
    return row[-1]


def typed(command: Callable[..., int], parameters: list[Declared]) -> Callable[..., int]:
    """Return the same function with typer's own declarations."""

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
    call.__doc__ = (command.__doc__ or "").split("\n\n")[0]
    return call


app = typer.Typer(
    cls=Verbs,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={**CONTEXT, "help_option_names": HELP},
    pretty_exceptions_enable=False,
    subcommand_metavar="VERB [ARGS]...",
)
app.callback(invoke_without_command=True)(typed(main, declared(main)))


def call_typer(words: list[str], begun: Repo | None = None) -> object:
    """Carry out a command line through typer, and return the verb's result. Raises UsageError, in git's manner."""
    try:
        return app(words, prog_name="git baton", standalone_mode=False, obj=begun)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        raise _misused(error, words) from None


def _misused(error: Any, words: list[str]) -> UsageError:
    """Return typer's error in git's manner: lower-case, the subject in quotes, a hint where to look."""
    text = error.format_message().split("\n")[0].rstrip(".").replace("valid int range", "number")
    text = re.sub(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", r"unexpected argument '\1'", text)
    hints = []
    if text.startswith("unexpected argument"):
        hints = [*BESIDE.get(words[0], ())]
        if words[:2] == ["worktree", "add"]:  # of git
            hints = [_line("worktree {PATH CHECKPOINT}", words[2:])]
    verb = next((f" {word}" for word in words if word in VERBS), "")
    command = error.ctx.command_path if getattr(error, "ctx", None) else f"git baton{verb}"
    if type(error).__name__ == "NoSuchOption":
        text = f"unknown option '{error.option_name}'"
        hints = options_meant(command.removeprefix("git baton").lstrip(), error.option_name)
    return UsageError(text[:1].lower() + text[1:], *hints, f"'{command} -h' shows what there is")


def options_meant(verb: str, name: str) -> list[str]:
    """Return a hint at each option of a verb that an unknown one may stand for."""
    if gone := GONE.get(f"{verb} {name}", GONE.get(name)):
        return [gone]
    parameters = declared(verb_function(verb) if verb else main)
    names = [known for p in parameters if isinstance(p.of, Option) for known, _ in p.names()]
    if any(not isinstance(p.of, Option) and "[PATH]" in (p.of.metavar or "") for p in parameters):
        names.append("--")
    meant = [target.split() for target, others in ELSEWHERE.items() if name in others.split()]
    near = [target[-1] for target in meant if target and target[:-1] in ([], [verb]) and target[-1] in names]
    if not meant and name.startswith("--"):
        near = nearest(name, [known for known in names if len(known) > 2], 10)
    return ["paths come after '--'" if other == "--" else f"perhaps '{other}' is meant" for other in near[:3]]
