"""Options and arguments of the verbs, and those before the verb: declared once, read here where a line is well formed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Optional

from gitbaton import __version__
from gitbaton.base import terminal
from gitbaton.base.errors import UsageError
from gitbaton.base.values import value
from gitbaton.git.repo import Repo

AFTER = "gitbaton.after"  # how many words stood after `--`, in a context's meta; None without it
# Words that people mean by themselves, and no beginnings of others: '--h' is '--help', and '--check' of other tools a dry run.
_WHOLE = ("--all", "--checkpoint", "--file", "--agent", "--check", "--h", "--he", "--hel")


class Invocation:
    """Invocation of a verb: its context beside its own words; typer's context has the same attributes."""

    def __init__(self, obj: Any, command_path: str, invoked_subcommand: str | None = None) -> None:
        self.obj, self.command_path, self.invoked_subcommand = obj, command_path, invoked_subcommand
        self.meta: dict[str, Any] = {}


class Option:
    """One option: its names (default: the parameter's, a switch with its ``--no-``), what its value is called, and its help."""

    def __init__(self, *names: str, metavar: Optional[str] = None, help: str, min: Optional[int] = None) -> None:
        self.names, self.metavar, self.help, self.min = names, metavar, help, min


class Argument:
    """An argument: what it is called, and its help."""

    def __init__(self, *, metavar: str, help: str, show_default: bool = True) -> None:
        self.metavar, self.help, self.show_default = metavar, help, show_default


@value
class Declared:
    """One parameter of a verb: ``kind`` is str, int, float or bool, ``many`` a list of them."""

    name: str
    of: Option | Argument
    annotation: Any
    kind: type
    many: bool
    required: bool
    default: Any

    def names(self) -> Iterator[tuple[str, bool]]:
        """Yield the names that an option is typed with, and for a switch its value by each."""
        assert isinstance(self.of, Option)
        long = "--" + self.name.replace("_", "-")
        usual = (f"{long}/--no-{long[2:]}",) if self.kind is bool else (long,)
        for name in self.of.names or usual:
            on, _, off = name.partition("/")
            yield on, True
            if off:
                yield off, False


def declared(command: Callable[..., int]) -> list[Declared]:
    """Return the parameters of a function in their order, then the fields of the tables that its ``**typed`` stands for."""
    code, defaults = command.__code__, command.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    known = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    found = [_declared(name, command.__annotations__[name], known) for name in names if name != "ctx"]
    tables = command.__annotations__["typed"].__metadata__ if "typed" in command.__annotations__ else ()
    fields = [(table(), name, kind) for table in tables for name, kind in table.__annotations__.items()]
    return found + [_declared(name, kind, {name: getattr(empty, name)}) for empty, name, kind in fields]


def _declared(name: str, annotation: Any, known: Mapping[str, Any]) -> Declared:
    kind: Any = annotation.__origin__
    inner: Any = getattr(kind, "__args__", ())
    if type(None) in inner:
        kind = inner[0]
    many = getattr(kind, "__origin__", None) is list
    return Declared(
        name=name,
        of=annotation.__metadata__[0],
        annotation=annotation.__origin__,
        kind=kind.__args__[0] if many else kind,
        many=many,
        required=name not in known,
        default=known.get(name),
    )


def read(parameters: Sequence[Declared], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a verb's parameters by their names, as typer would give them.

    Raises ValueError where typer is to look: help is asked for, something is wrong, or it is spelled in a way that is not known
    here.
    """
    found, plain, _ = _options(parameters, in_full(parameters, words), leading=False)
    for parameter in (p for p in parameters if isinstance(p.of, Argument)):
        if parameter.many:
            found[parameter.name], plain = plain or None, []
        elif plain:
            found[parameter.name] = plain.pop(0)
    if plain or any(p.required and found.get(p.name) is None for p in parameters):
        raise ValueError(words)
    return {**{p.name: p.default for p in parameters}, **found}


def read_leading(parameters: Sequence[Declared], words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the options before the first word that is none, and the words from there on. Raises ValueError as
    above."""
    found, _, rest = _options(parameters, words, leading=True)
    return {**{p.name: p.default for p in parameters}, **found}, rest


def in_full(parameters: Sequence[Declared], words: Sequence[str]) -> list[str]:
    """Return the words of a verb with the beginnings of long options written in full, where they begin one only, as git takes
    them. Raises UsageError for the beginning of several."""
    options = {name: p for p in parameters if isinstance(p.of, Option) for name, _ in p.names()}
    found: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return [*found, *words[at:]]
        name, equals, text = word.partition("=")
        before = options.get(found[-1]) if found else None
        if len(name) > 2 and name[:2] == "--" and name not in (*options, *_WHOLE) and (before is None or before.kind is bool):
            meant = [other for other in options if other.startswith(name)]
            if len({options[other].name for other in meant}) > 1:
                raise UsageError(f"'{name}' could be {' or '.join(map(repr, meant))}")
            word = f"{meant[0]}{equals}{text}" if meant else word
        found.append(word)
    return found


def as_typed(parameters: Sequence[Declared], words: Sequence[str], text: str) -> str:
    """Return a text that begins with an option by the name of it which the words have, where they have another one."""
    first, _, rest = text.partition(" ")
    of = [name for p in parameters if isinstance(p.of, Option) for name in p.of.names if first in p.of.names]
    typed = {word.partition("=")[0] for word in in_full(parameters, words)}
    return text if first in typed else next((f"{name} {rest}" for name in of if name in typed), text)


def _options(
    parameters: Sequence[Declared], words: Sequence[str], *, leading: bool
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the options' values, the other words, and with ``leading`` the words from the first of them on."""
    options = {name: (p, on) for p in parameters if isinstance(p.of, Option) for name, on in p.names()}
    found, plain, rest = dict[str, Any](), list[str](), list(words)
    while rest:
        word = rest[0]
        if word == "-" or not word.startswith("-"):
            if leading:
                break
            plain.append(rest.pop(0))
            continue
        del rest[0]
        if word == "--" and not leading:
            plain, rest = plain + rest, []
            break
        name, equals, text = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        parameter, on = options.get(name, (None, False))
        if parameter is None or (parameter.kind is bool and (equals or text)):
            raise ValueError(word)
        if parameter.kind is bool:
            found[parameter.name] = on
            continue
        if not equals and not text:
            if not rest:
                raise ValueError(word)
            text = rest.pop(0)
        found[parameter.name] = [*found.get(parameter.name, ()), text] if parameter.many else text
    for parameter in (p for p in parameters if p.name in found and p.kind in (int, float)):
        item = found[parameter.name] = parameter.kind(found[parameter.name])
        if isinstance(parameter.of, Option) and parameter.of.min is not None and item < parameter.of.min:
            raise ValueError(item)
    return found, plain, rest


def after(words: list[str]) -> int | None:
    """Return the number of words after ``--``: paths or a command, whatever they look like; None without it."""
    return len(words) - words.index("--") - 1 if "--" in words else None


@value
class Globals:
    """The options before the verb."""

    repo_root: Optional[str] = None
    checkpoint_dir: Optional[str] = None
    color: str = "auto"
    pager: bool = True
    repo: Optional[Repo] = None


def main(
    ctx: Invocation,
    repo_root: Annotated[
        Optional[str], Option(metavar="DIR", help="Work in the repository that holds DIR, instead of the current one.")
    ] = None,
    checkpoint_dir: Annotated[
        Optional[str],
        Option(metavar="DIR", help="Where LATEST.md and LATEST.json go: below the root, or absolute (runtime/checkpoints)."),
    ] = None,
    color: Annotated[str, Option(metavar="WHEN", help="Colour: always, never or auto; --color alone means always.")] = "auto",
    pager: Annotated[bool, Option("--pager/--no-pager", help="Send long output to a terminal through the pager.")] = True,
    version: Annotated[bool, Option("--version", "-v", help="Print the version and exit.")] = False,
) -> int:
    """Hand the baton over inside git: checkpoints of an agent's work, kept in the repository itself."""
    if checkpoint_dir == "":
        raise UsageError("--checkpoint-dir is empty")
    if color not in ("always", "never", "auto"):
        raise UsageError(f"--color is '{color}'; it can be 'always', 'never' or 'auto'")
    ctx.obj = Globals(repo_root=repo_root, checkpoint_dir=checkpoint_dir, color=color, pager=pager, repo=ctx.obj)
    if version:
        terminal.say(f"git-baton {__version__}")
        return 0
    if ctx.invoked_subcommand is None:
        raise UsageError("no verb is given", "'git baton -h' lists them")
    return 0
