"""Destructive commands: which commands of a shell line remove or write over files that no commit may hold, and which files. No
I/O.

A command that is not known here, and a script that cannot be read, counts as harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from gitbaton.agents.shell import DEPTH, Segment, UnreadableError, names_of, pieces, scripts, segments, unassigned, words_of
from gitbaton.agents.testcommands import started
from gitbaton.base.values import replace, value

_LONG = 100_000
_MOST_PLACES = 8  # folders in which a command may run
_ALL = ("",)


@value
class Danger:
    """A command that may take away what no commit holds, its ``text`` on one line. ``folders``: where it may run, each the
    folders that it was changed to one after the other; None for one that cannot be told. ``paths``: what goes or is written
    over, as seen from there; a word may be a pattern of the shell's, or hold a variable. ``whole``: it counts whether or not
    anything is there, else only where something is at one of the paths. ``ignored``: ignored files below the paths go, too;
    ``names``: patterns of the only ones that do, where they are known. ``over``: it counts only where one of the paths is a
    file that git would see. ``files``: only where one of them is no folder. ``below``: repositories below the paths go, too.
    ``refs``: what stops naming a commit, or names another one afterwards; ``stash@{*}`` for every stash."""

    text: str
    folders: tuple[tuple[str | None, ...], ...] = ((),)
    paths: tuple[str, ...] = ()
    whole: bool = False
    ignored: bool = False
    names: tuple[str, ...] = ()
    over: bool = False
    files: bool = False
    below: bool = False
    refs: tuple[str, ...] = ()


def dangers(command: str, own: Sequence[str] = ()) -> tuple[Danger, ...]:
    """The commands of a line that are destructive, in their order. ``own``: what the user named besides; a command that begins
    with the words of one is taken for one that may change any file."""
    mine = tuple(words for text in own if (words := words_of(text)))
    return tuple(_line(command[:_LONG], mine, [()], 0))


def shown(found: Sequence[Danger]) -> str:
    """Tell of destructive commands on one line."""
    return "; ".join(dict.fromkeys(" ".join(one.text.split()) for one in found))


Place = tuple[str | None, ...]


def _line(text: str, own: Sequence[tuple[str, ...]], places: list[Place], depth: int) -> Iterator[Danger]:
    """The destructive commands of a line that runs in one of some places."""
    if depth > DEPTH:
        return
    for inner in islice(scripts(text), 100):
        yield from _line(inner, own, places, depth + 1)
    try:
        parts = segments(text)
    except UnreadableError:
        parts = tuple(
            Segment(text=piece, redirected=piece, before=";", after=";", loose=True, turned=False, grouped=False, hidden=())
            for piece in pieces(text)
        )
    for part in parts:
        for inner in part.inner:
            yield from _line(inner, own, places, depth + 1)
        try:
            words = part.words
        except UnreadableError:
            words = unassigned(part.text.split())
        files = tuple(file for file in part.files if not file.startswith("/dev/"))
        if files:
            yield Danger(text=part.text + "".join(f" > {file}" for file in files), folders=(*places,), paths=files, over=True)
        if not words:
            continue
        if words[0] in ("cd", "pushd", "chdir", "popd"):
            places = _moved(places, words, part)
            continue
        yield from (replace(found, text=found.text or part.text) for found in _command(words, own, places, depth))


def _moved(places: list[Place], words: Sequence[str], part: Segment) -> list[Place]:
    """Return the folders in which the next command may run after a change of the folder."""
    given = [word for word in words[1:] if not re.match(r"-[LPe@]*\Z", word) and word != "--"]
    to = None if words[0] == "popd" or words[1:2] == ("-",) else given[0] if given else "~"
    moved = [(*place, to) for place in places]
    stays = part.grouped or part.loose or part.before in ("||", "|") or part.after in ("||", "|", "&") or words[0] == "popd"
    return list(dict.fromkeys([*moved, *(places if stays else ())]))[:_MOST_PLACES]


def _command(words: tuple[str, ...], own: Sequence[tuple[str, ...]], places: list[Place], depth: int) -> Iterator[Danger]:
    """Yield the dangers of a simple command, behind all that only starts another one."""
    if depth > DEPTH:
        return
    fed = False  # its files come from its standard input, or from a search
    for _ in range(DEPTH):
        words = unassigned(words)
        if not words:
            return
        name = words[0].rstrip("/").rpartition("/")[2]
        if any((name, *words[1:])[: len(one)] == one or words[: len(one)] == one for one in own):
            yield Danger(text="", folders=(*places,), whole=True)
            return
        if name in _SHELLS or name in ("eval", "trap"):
            script = _script(name, words)
            if script is not None:
                yield from _line(script, own, places, depth + 1)
            return
        inner = started(words)
        if not inner:
            break
        fed, words = fed or name == "xargs", inner
    else:
        return
    if name == "find":
        yield from _find(words, own, places, depth)
        return
    asks = _git if name == "git" else _PROGRAMS.get(name)
    if asks is None:
        return
    for found in asks(words, fed):
        yield replace(found, folders=tuple((*place, *more) for place in places for more in found.folders))


_SHELLS = names_of("sh bash dash zsh ksh ash fish su")


def _script(name: str, words: Sequence[str]) -> str | None:
    """The line that a shell, ``eval`` or ``trap`` is given; None where it runs a file."""
    if name in ("eval", "trap"):
        return " ".join(words[1:] if name == "eval" else words[1:2])
    for at, word in enumerate(words[1:], 1):
        if word == "--command" or re.match(r"-[A-Za-z]*c[A-Za-z]*\Z", word):
            return next((given for given in words[at + 1 :] if not given.startswith("-")), None)
        if not word.startswith(("-", "+")) and name != "su" and words[at - 1] not in ("-o", "-O"):
            return None
    return None


@value
class _Given:
    """Options and operands of a command: long options without their values, the letters of short ones."""

    long: frozenset[str]
    short: str
    rest: tuple[str, ...]
    after: tuple[str, ...] | None  # what stands behind ``--``

    def has(self, letters: str, *names: str) -> bool:
        """Whether an option is given by one of its letters or names; a long one also by its beginning, as programs take it."""
        begun = any(len(word) > 3 and name.startswith(word) for name in names for word in self.long)
        return begun or any(letter in self.short for letter in letters)

    @property
    def paths(self) -> tuple[str, ...]:
        """All operands."""
        return (*self.rest, *(self.after or ()))


def _given(words: Sequence[str], valued: str = "") -> _Given:
    takes, long, short, rest = names_of(valued), list[str](), list[str](), list[str]()
    at, after = 0, None
    while at < len(words):
        word = words[at]
        if word == "--":
            after = tuple(words[at + 1 :])
            break
        if word.startswith("--"):
            long.append(word.partition("=")[0])
        elif word.startswith("-") and len(word) > 1:
            short.append(word[1:])
        else:
            rest.append(word)
        at += 2 if word in takes else 1
    return _Given(long=frozenset(long), short="".join(short), rest=tuple(rest), after=after)


def _git(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    """Yield the dangers of git's own commands."""
    at, moved = 1, list[str]()
    while at < len(words) and words[at].startswith("-"):
        if words[at] in ("-C", "--work-tree") and at + 1 < len(words):
            moved.append(words[at + 1])
        elif words[at].startswith("--work-tree="):
            moved.append(words[at].partition("=")[2])
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env") else 1
    verb = words[at] if at < len(words) else ""
    asks = _GIT.get(verb)
    if asks is None:
        return
    given = _given(words[at + 1 :], _GIT_VALUED.get(verb, ""))
    found = asks(replace(given, after=("*", *(given.after or ()))) if fed else given)
    if found is not None:
        yield replace(found, folders=(tuple(moved),))


_WHOLE = Danger(text="", whole=True)
_GIT_VALUED = {
    "checkout": "-b --orphan --conflict --pathspec-from-file",
    "clean": "-e --exclude",
    "restore": "-s --source --conflict",
    "stash": "-m --message",
    "update-ref": "-m",
    "branch": "-u --set-upstream-to --sort --format --contains --merged",
}


def _when(of: Callable[[_Given], bool]) -> Callable[[_Given], Danger | None]:
    return lambda given: _WHOLE if of(given) else None


def _checkout(given: _Given) -> Danger | None:
    """Of a branch git refuses to write over anything, unless it is forced; a word that names a file is a path."""
    if given.has("fpm", "--force", "--patch", "--merge", "--ours", "--theirs", "--pathspec-from-file", "--conflict"):
        return _WHOLE
    if given.after is not None:
        return _WHOLE if given.after else None
    if given.has("B"):
        return _renewed(given)
    if given.has("btd", "--orphan", "--detach", "--track"):
        return None
    return _named(given.rest) if given.rest else None


def _switch(given: _Given) -> Danger | None:
    if given.has("C") or "--force-create" in given.long:  # of which --force is no beginning
        return _renewed(given)
    return _WHOLE if given.has("fm", "--force", "--discard-changes", "--merge", "--conflict") else None


def _renewed(given: _Given) -> Danger | None:
    """Return the danger of having a branch, the first operand, begin elsewhere."""
    return replace(_WHOLE, refs=(f"refs/heads/{given.paths[0]}",)) if given.paths else None


def _update_ref(given: _Given) -> Danger | None:
    return replace(_WHOLE, refs=given.paths[:1]) if given.paths else None


def _named(paths: tuple[str, ...]) -> Danger:
    """Return the danger to paths as git writes them: a pattern matches at any depth, and one may begin at the top or leave some
    out."""
    known = not any(path.startswith(":") or re.search(r"[*?\[]", path) for path in paths)
    return Danger(text="", paths=paths if known else (), whole=not known)


def _clean(given: _Given) -> Danger | None:
    if given.has("n", "--dry-run"):
        return None
    nested = given.short.count("f") + sum("--force".startswith(word) for word in given.long) > 1
    return Danger(text="", whole=True, paths=given.paths or (".",), ignored=given.has("xX"), below=nested)


def _stash(given: _Given) -> Danger | None:
    verb = given.rest[0] if given.rest else "push"
    if verb not in ("push", "save", "drop", "clear", "pop", "branch"):
        return None
    if verb in ("push", "save"):
        return Danger(text="", whole=True, paths=(".",), ignored=given.has("a", "--all"))
    number = re.fullmatch(r"(?:(?:refs/)?stash@\{)?(\d+)\}?", given.rest[-1]) if len(given.rest) > 1 else None
    return replace(_WHOLE, refs=(f"stash@{{{'*' if verb == 'clear' else number[1] if number else 0}}}",))


def _branch(given: _Given) -> Danger | None:
    return replace(_WHOLE, refs=tuple(f"refs/heads/{name}" for name in given.paths)) if given.has("DMCf", "--force") else None


def _rm_tracked(given: _Given) -> Danger | None:
    return _named(given.paths) if given.has("f", "--force") and not given.has("n", "--cached") else None


_GIT: dict[str, Callable[[_Given], Danger | None]] = {
    "reset": _when(lambda given: given.has("", "--hard", "--merge", "--keep")),
    "checkout": _checkout,
    "restore": _when(lambda given: not given.has("S", "--staged") or given.has("W", "--worktree")),
    "switch": _switch,
    "update-ref": _update_ref,
    "clean": _clean,
    "stash": _stash,
    "rebase": _when(lambda given: not given.has("", "--continue", "--quit", "--edit-todo", "--show-current-patch")),
    "pull": _when(lambda given: given.has("r", "--rebase")),
    "branch": _branch,
    "worktree": lambda given: (
        Danger(text="", paths=given.paths[1:], ignored=True, below=True) if given.rest[:1] == ("remove",) else None
    ),
    "rm": _rm_tracked,
    "mv": lambda given: _onto(given.paths, given.has("f", "--force")),
    **dict.fromkeys(("merge", "cherry-pick", "revert", "am"), _when(lambda given: given.has("", "--abort", "--skip"))),
    "read-tree": _when(lambda given: given.has("u", "--reset")),
    "checkout-index": _when(lambda given: given.has("f", "--force")),
    "submodule": _when(lambda given: given.rest[:1] in (("deinit",), ("update",)) and given.has("f", "--force")),
    **dict.fromkeys(("filter-branch", "filter-repo"), _when(lambda given: not given.has("h", "--help", "--analyze"))),
}


def _removing(valued: str = "") -> Callable[[tuple[str, ...], bool], Iterator[Danger]]:
    """Return the check of a program that removes its operands, or writes them over."""

    def asks(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
        given = _given(words[1:], valued)
        if fed:
            yield Danger(text="", whole=True, paths=(".",), ignored=True, below=True)
        elif given.paths:
            yield Danger(text="", paths=given.paths, ignored=True, below=True)

    return asks


def _onto(paths: Sequence[str], forced: bool) -> Danger | None:
    """Return the danger to a destination: itself, or where it is a folder the file of that name in it."""
    if len(paths) < 2 or not forced:
        return None
    *sources, to = paths
    inside = (f"{to.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}" for source in sources)
    return Danger(text="", paths=(to, *inside), ignored=True, files=True)


def _placing(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    given = _given(words[1:], "-t --target-directory -S --suffix -m --mode -o --owner -g --group")
    folder = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in ("-t", "--target-directory")), None)
    paths = (*given.paths, folder) if folder is not None else given.paths
    if folder is None and fed:
        yield _WHOLE
    elif found := _onto(paths, not given.has("n", "--no-clobber")):
        yield found
        if words[0].endswith("cp") and given.has("rRa", "--recursive", "--archive"):  # what is in a folder goes over its like
            yield replace(found, paths=found.paths[1:], files=False)


def _editing(script: str, valued: str = "") -> Callable[[tuple[str, ...], bool], Iterator[Danger]]:
    """Return the check of a program that edits files in place: of several at once the user reads none. ``script``: options that
    give what is done, else the first operand does; ``valued``: letters of those, and of others, behind which there is a value
    and no further option."""
    in_place = re.compile(rf"-(?:(?![i{valued}])[A-Za-z0-9])*i|--in-place")

    def asks(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
        if not any(in_place.match(word) for word in words[1:]):
            return
        given = _given(words[1:], script)
        coded = any(word in names_of(script) or re.match(rf"-[A-Za-z0-9]*[{script[1]}]\Z", word) for word in words)
        valued = [words[at + 1] for at, word in enumerate(words[:-1]) if re.match(rf"-[A-Za-z0-9]+[{script[1]}]\Z", word)]
        files = [path for path in given.paths if path not in valued] if coded else list(given.paths[1:])
        if fed or len(files) > 1 or any(re.search(r"[*?\[$`]", file) for file in files):
            yield _WHOLE

    return asks


def _linking(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    given = _given(words[1:], "-t --target-directory -S --suffix")
    if found := _onto(given.paths, given.has("f", "--force")):
        yield found


def _tee(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    given = _given(words[1:])
    if given.paths and not given.has("a", "--append"):
        yield Danger(text="", paths=given.paths, over=True)


def _dd(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    files = tuple(word[3:] for word in words[1:] if word.startswith("of="))
    if files and not any(word.startswith("conv=") and "notrunc" in word and "seek=" in " ".join(words) for word in words):
        yield Danger(text="", paths=files, ignored=True, files=True)


def _rsync(words: tuple[str, ...], fed: bool) -> Iterator[Danger]:
    given = _given(words[1:], "-e --rsh --exclude --include --filter -f --exclude-from --files-from --password-file")
    deletes = any(word.startswith(("--delete", "--del")) for word in given.long)
    if deletes and len(given.paths) > 1 and ":" not in given.paths[-1] and not given.has("n", "--dry-run"):
        yield Danger(text="", paths=given.paths[-1:], ignored=True, below=True)


_PROGRAMS: dict[str, Callable[[tuple[str, ...], bool], Iterator[Danger]]] = {
    **dict.fromkeys(("rm", "unlink"), _removing()),
    "shred": _removing("-n --iterations -s --size"),
    "truncate": _removing("-s --size -r --reference"),
    **dict.fromkeys(("mv", "cp"), _placing),
    **dict.fromkeys(("sed", "gsed"), _editing("-e -f --expression --file", "efl")),
    "perl": _editing("-e -E -M", "eEImMxF"),
    "ruby": _editing("-e -r", "eIrxCEFKTW"),
    "ln": _linking,
    "dd": _dd,
    "tee": _tee,
    "rsync": _rsync,
    **dict.fromkeys(("git-filter-repo", "bfg"), lambda words, fed: iter((_WHOLE,))),
}


def _find(words: tuple[str, ...], own: Sequence[tuple[str, ...]], places: list[Place], depth: int) -> Iterator[Danger]:
    """Yield the dangers of a search to the files that it finds."""
    at = 1
    while at < len(words) and words[at] in ("-H", "-L", "-P"):
        at += 1
    starts = list[str]()
    while at < len(words) and not words[at].startswith(("-", "(", "!")):
        starts.append(words[at])
        at += 1
    tests = words[at:]
    asked = [tests[n + 1] for n, word in enumerate(tests[:-1]) if word in ("-name", "-iname")]
    known = asked if not {"!", "-not", "-path", "-ipath", "-regex", "-iregex", "-prune"} & set(tests) else []
    gone = Danger(text="", folders=(*places,), paths=tuple(starts or ["."]), ignored=True, names=tuple(known))
    if "-delete" in tests:
        yield gone
        return
    end = 0
    for n, word in enumerate(tests):
        if n < end or word not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        end = next((m for m in range(n + 1, len(tests)) if tests[m] in (";", "+")), len(tests))
        for found in _command(("xargs", *tests[n + 1 : end]), own, places, depth + 1):
            yield gone if found.ignored else replace(found, text="")


_NO_WORD = "[!A-Za-z0-9_.-]"  # beside a program's name; in JSON the letter of a line end or tab may be between
_SAYS = (
    "--hard --keep --merge --abort --skip checkout restore git*switch git*clean stash rebase filter- branch*%-[DMCf] "
    "branch*%-[a-z][DMCf] branch*%--force worktree*remove read-tree update-ref submodule*-f unlink shred truncate -delete "
    "--del --in-place perl*%-0*i pull*%-r pull*%--rebase bfg"
)
_SHORT = ("[rm][mv]", "cp", "dd", "tee", "ln")
_LETTERS = ("", "[A-Za-z0-9]", "[A-Za-z0-9][A-Za-z0-9]")  # before the i of an editor's option
_PARTS = (
    *_SAYS.split(),
    *(f"{name}*%-{letters}i" for name in ("sed", "perl", "ruby") for letters in _LETTERS),
    *(f"{before}{word}{_NO_WORD}" for word in _SHORT for before in (_NO_WORD, f"{_NO_WORD}[nrt]")),
    *(r"\>[!%\&/\>\=\(]", r"\>%[!/\&]", r"\>/[!d]", r"\>%/[!d]", r"\>/d[!e]", r"\>%/d[!e]"),
)
FILTER = "|".join(f"*{part}*" for part in _PARTS).replace("%", r"\ ")
"""Patterns of the shell's ``case``: a payload that matches none of them holds no destructive command that is known here."""
