"""Rendering: values as lines that people read and scripts parse. Pure; stored text can forge no line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from gitbaton.base.codec import (
    Json,
    bare,
    canonical,
    counted,
    cut,
    digest,
    document,
    escaped,
    first_line,
    idle,
    in_double_quotes,
    in_quotes,
    is_hidden,
    path_document,
    plain,
    timestamp,
)
from gitbaton.base.codec.words import ODD_BLANKS
from gitbaton.base.model import (
    BEFORE_PROMPT,
    IGNORED,
    IGNORED_HELD,
    KEPT,
    LAST_PROMPT,
    TURN_ENDED,
    Back,
    Checkpoint,
    ClientPlan,
    Decision,
    DecisionChanges,
    FileState,
    Live,
    Observed,
    Oid,
    Prompt,
    Ran,
    Since,
    Skipped,
    Stored,
    TestRun,
    Told,
    TurnsUsage,
    Usage,
    at_prompt,
    is_turn,
    prompt_in,
)
from gitbaton.base.values import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from gitbaton.base.secrets import Redacted

_BEGUN = 60  # characters by which a prompt that was cut is known
_AGES = (("year", 31_536_000), ("month", 2_592_000), ("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60))
_MARKUP, _QUOTES = (str.maketrans({char: f"\\{char}" for char in chars}) for chars in ("<[", "'`"))
_NAMED = 3  # paths that a sentence names
_SKIPPED = 10  # paths that a snapshot left out and names
_ORDER = {"doing": 0, "open": 1, "done": 2, "dropped": 3}  # of the items of a plan
_FILES = 5  # that changed since a test ran, and are named
_ASKED = 160  # characters of what was asked for in what was taken back
_CANDIDATE = 200  # characters of a step in a sentence
_CAUSE = 80  # characters of the prompt or step that changed a file
NO_CHANGES: Mapping[int, DecisionChanges] = MappingProxyType({})
_LEFT_OUT = {
    "excluded": "is left out: baton.exclude names it",
    "too-large": "is left out: it is larger than baton.maxFileSize",
    "too-much": "is left out: new untracked files come to more than baton.maxUntracked",
    IGNORED: "is left out: it was ignored until now",
    "unreadable": "is left out: git cannot read it",
    "unstable": "is left out: it changed each time it was read",
    "special-file": "is left out: it is a socket, a pipe or a device",
    "filter-missing": "is in the checkpoint as it is on disk: its filter does not run",
    "nested-repository": "is a repository of its own: what it holds is left out",
    "submodule-dirty": "is a submodule: what is not committed inside it is left out",
    "invalid-name": "is left out: git takes no such name",
    "ignored": "is left out: it is ignored, and larger than baton.guardIgnored takes in, or no regular file",
    "ignored-held": "is ignored: its bytes stay on this machine, and only here a restore brings them back",
    "untracked": "is left out: baton.untracked is none",
    "unfiltered": "did not pass its filter: its bytes stay on this machine, and only here a restore brings them back",
}
_C_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}

Changed = Sequence[str] | None


def key_value(key: str, value: str) -> str:
    """Return ``key=value`` as one or more lines: further lines of the value begin with a tab, control characters are ``?``."""
    return f"{key}=" + plain(value, keep="\n\t").replace("\n", "\n\t")


def resume_lines(
    checkpoint: Checkpoint,
    short_head: str,
    live: Live | None,
    short_live: str,
    since: Since | None = None,
    observed: Sequence[tuple[str, str]] = (),
    changes: Mapping[int, DecisionChanges] = NO_CHANGES,
    back: str = "",
) -> list[str]:
    """Return the lines of ``git baton resume``, in their promised order; carried words first, then the title, what was taken
    ``back`` and what has happened since the words, then the observations. ``changes``: what changed the files that decisions
    are about, by the numbers of these."""
    c = checkpoint
    words = [("track", c.track), ("step", c.headline), ("note", c.note), ("validation", validation(c, since))]
    place = [("branch", c.branch or ""), ("head", short_head), ("next_cmd", c.next_cmd)]
    now = [("live_branch", live.head.branch or ""), ("live_head", short_live), ("drift", str(live.drift))] if live else []
    more = [
        *((f"extra.{key}", text) for key, text in c.extra),
        *([("kept", kept_names(c))] if kept_names(c) else []),
        *([("carried", f"{c.carried.id} {timestamp(c.carried.created)}")] if c.carried is not None else []),
        *([("title", title_of(c))] if c.kind == "auto" else []),
        *([("restored", back)] if back else []),
        *([("since", happened(c, since))] if c.carried is not None and since is not None else []),
        *observed,
        *now,
    ]
    return [
        *(key_value(*pair) for pair in (*words, *place)),
        *_decision_lines(c, changes),
        *(key_value(*pair) for pair in more),
    ]


def _decision_lines(c: Checkpoint, changes: Mapping[int, DecisionChanges]) -> list[str]:
    """Each decision that stands, and below it its number with what is known of it; a stranger's begin with ``> ``."""
    rows = list[str]()
    for one in c.decided:
        said = [key_value("decision", one.text)]
        said.append(key_value(f"decision.{one.number}", f"made {timestamp(one.made)}{decision_facts(c, one, changes)}"))
        rows += [f"> {text}" for row in said for text in row.split("\n")] if one.foreign else said
    return rows


def decision_facts(c: Checkpoint, one: Decision, changes: Mapping[int, DecisionChanges] = NO_CHANGES) -> str:
    """Return the facts of a decision that stands at a checkpoint, as the end of a sentence: what it is about, what changed that
    since, and that it was made in what a restore took back: it stands all the same; or that it was withdrawn there."""
    facts = (
        (one.about, f"about {', '.join(map(quoted, one.about))}"),
        (one.number in changes, changed_by(changes[one.number]) if one.number in changes else ""),
        (one.made > c.written, "decided in what was taken back"),
        (stands_again(c, one), "stands again: its withdrawal was taken back"),
        (one.foreign, "from elsewhere"),
    )
    return "".join(f"; {said}" for holds, said in facts if holds and said)


def stands_again(c: Checkpoint, one: Decision) -> bool:
    """Whether a decision that stands at a checkpoint was withdrawn in what a restore took back."""
    gone = c.standing.withdrawn if c.standing else ()
    return bool(gone) and digest(one.text) in {ended.digest for ended in gone}


def changed_by(changes: DecisionChanges) -> str:
    """``since changed in this work tree, by turn 12, "make it async"``, and how many times before; empty where nothing did."""
    if not changes.items and not changes.edited:
        return "" if changes.whole else "what changed long ago is not looked for"
    parts = [
        *(["in this work tree"] if changes.edited else []),
        *([f"by {_as_cause(changes.items[0])}"] if changes.items else []),
    ]
    more = len(changes.items) - 1
    return f"since changed {', '.join(parts)}" + (f", and {counted(more, 'time')} before" if more > 0 else "")


def _as_cause(stored: Stored) -> str:
    """A checkpoint as what changed a file: a turn by its number and prompt, a manual one by its step."""
    c = stored.checkpoint
    if c.kind == "auto" and c.step == BEFORE_PROMPT:
        return "an edit between two turns"
    number, _, prompt = (named := title_of(c)).partition("  ")
    if turn_of(c) and number.startswith("turn "):
        return f"{number}, {in_double_quotes(_short(prompt))}"
    return in_double_quotes(_short(first_line(named)))


def _short(text: str, size: int = _CAUSE) -> str:
    return text if len(text) <= size else text[: size - 3].rstrip() + "..."


def kept_names(c: Checkpoint) -> str:
    """Return the names of the words that later checkpoints take over, besides decisions."""
    s = c.standing
    return ", ".join([*(["note"] if s.note else []), *(f"extra.{key}" for key in s.extra)]) if s else ""


def decisions_document(c: Checkpoint, changes: Mapping[int, DecisionChanges] = NO_CHANGES) -> Json:
    """Return the decisions that stand, as JSON; ``changed`` by which checkpoints, newest first, of one that is about paths;
    None where that is not known."""
    found: list[Json] = []
    for one in c.decided:
        known = changes.get(one.number)
        ids = [s.id for s in known.items] if known else []
        unseen = bool(one.about) and not (ids or (known and known.whole))
        found.append(
            {
                "number": one.number,
                "text": one.text,
                "made": timestamp(one.made),
                "foreign": one.foreign,
                **({"again": True} if stands_again(c, one) else {}),
                **({"edited": [path_document(path) for path in known.edited]} if known and known.edited else {}),
                "about": [path_document(path) for path in one.about],
                "changed": None if unseen else ids,
            }
        )
    return found


def validation(c: Checkpoint, since: Since | None) -> str:
    """Return the state of the tests; where files changed afterwards, or that is unknown, it says so and is no word that a
    script takes for ``green``."""
    holds = _holds(c, since)
    if holds or c.validation == "pending":  # which claims nothing
        return c.validation
    if holds is None:
        return f"{c.validation} (not compared with the files of today)"
    count = counted(since.files, "file") if since is not None and since.files else "files"
    return f"{c.validation} (stale: {count} changed since)"


def verdict(stored: Stored, since: Since | None = None) -> str:
    """Return ``green``, ``pending`` or ``failed`` in one word; ``stale`` for a ``green`` that was said of other files, or that
    is carried and cannot be compared."""
    c = stored.checkpoint
    holds = _holds(c, since)
    stale = holds is False or (holds is None and c.carried is not None)
    return "stale" if stale and c.validation == "green" else c.validation


def _holds(c: Checkpoint, since: Since | None) -> bool | None:
    """Whether the files that were validated are those of the checkpoint, or of today where ``since`` has compared them; None
    where that cannot be said."""
    if since is not None and since.files is not None:
        return not since.files
    if c.carried is None:
        return True if since is None else None
    if c.carried.tree is None or c.files is None:
        return None
    if c.carried.tree != c.files.tree:
        return False
    return True if since is None else None


def happened(c: Checkpoint, since: Since | None, step: str | None = None) -> str:
    """Describe what has happened since a checkpoint's words were written, which it names: ``"lexer done": 2 turns, 3 files, 1
    commit, branch main -> feature``; ``nothing`` where that is so. ``step``: their first line, where it is to be another."""
    if since is None:
        return ""
    named = in_double_quotes(first_line(c.headline) if step is None else step)
    unknown = since.files is None and c.files is not None and c.carried is not None and c.carried.tree is not None
    parts = [*([passed(since)] if passed(since) else []), *(["files not compared"] if unknown else [])]
    return f"{named}: {', '.join(parts) or 'nothing'}"


def restored(stored: Stored, step: Stored | None, back: Back, paths: Sequence[str], came: Stored | None = None) -> str:
    """Describe what was taken back to come to the words of a checkpoint; empty where nothing was. ``step``: the restore that
    nothing has followed; ``back``: where that led; ``paths``: what came back where that was named; ``came``: the checkpoint
    that came back, where ``stored`` carries its words."""
    done = step.checkpoint.restore if step is not None else None
    own = step is not None and step.checkpoint.track == stored.checkpoint.track
    if step is not None and done is not None and (not own or done.after is None):
        if done.op == "undo" or (done.after is None and not paths):
            return ""
        taken = step.checkpoint.step.removeprefix("before ").removeprefix("redo of ")
        files = f": {some(len(paths), first_few(paths))}" if paths else ""
        if taken.startswith("revert of "):
            which, _, prompt = taken.removeprefix("revert of ").partition(": ")
            which = f"turn {in_double_quotes(first_line(prompt))}" if prompt else which
            there = "" if own else f" of track {in_quotes(step.checkpoint.track)}"
            return f"taken back: {which}{there}{files}"
        if taken.startswith("merge of "):
            return f"taken in: {first_line(taken).removeprefix('merge of ').partition(': ')[0]}{files}"
        said = step.checkpoint.step.partition("restore of ")[2].partition(": ")[2]
        of = f"{in_double_quotes(first_line(said))}{'' if own else f' of track {in_quotes(step.checkpoint.track)}'}"
        return f"put back from {of}: {some(len(paths), first_few(paths))}" if paths else f"the files are those of {of}"
    carried = stored.checkpoint.carried
    if done is not None and done.after is not None and done.after.at != stored.id:
        return "restored to a checkpoint that is not here any more"
    if step is None and (carried is None or carried.restored is None):
        return ""
    at = stored if step is not None else came
    name = title_of(at.checkpoint) if at is not None else stored.checkpoint.headline
    said = f"restored to {in_double_quotes(_short(first_line(name)))}"
    parts = {"taken back": (back.gone, back.gone_asked), "not taken back": (back.left, back.left_asked)}
    listed = {key: _listed(items, asked, foreign=stored.foreign_words) for key, (items, asked) in parts.items() if items}
    return "; ".join([said, *(f"{key}: {text}" for key, text in listed.items())])


def _listed(items: Sequence[Stored], asked: Sequence[Prompt], *, foreign: bool) -> str:
    """Checkpoints in a sentence: the words of manual ones, how many turns, and what the user asked for in them."""
    named = [s.checkpoint.step for s in items if s.checkpoint.kind == "manual" and foreign >= s.foreign]
    turns = sum(is_turn(s.checkpoint.kind, s.checkpoint.step) for s in items)
    parts = [*_some_texts(named, _CAUSE), *([counted(turns, "turn")] if turns else [])] or [counted(len(items), "checkpoint")]
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    said = _some_texts([one.text for one in asked], _ASKED)
    return f"{listed} (asked: {', '.join(said)})" if said else listed


def _some_texts(texts: Sequence[str], size: int) -> list[str]:
    """Return the first few texts in quotes, each in so many characters, and how many more there are."""
    shown = [in_double_quotes(_short(first_line(text), size)) for text in texts[:_NAMED]]
    return [*shown, f"{len(texts) - _NAMED} more"] if len(texts) > _NAMED else shown


def passed(since: Since) -> str:
    """Describe the turns, files, commits and branch of ``since``; empty where nothing has happened."""
    parts = [counted(many, noun) for many, noun in ((since.turns, "turn"), (since.files, "file")) if many]
    if since.commits is None or since.gone is None:
        parts.append("commit not here")
    elif since.commits and since.gone:
        parts.append(f"diverged {since.commits}/{since.gone}")
    elif since.commits or since.gone:
        parts.append(counted(since.commits, "commit") if since.commits else f"{counted(since.gone, 'commit')} behind")
    if since.branch is not None:
        before, now = (bare(name) if name else "detached HEAD" for name in since.branch)
        parts.append(f"branch {before} -> {now}")
    return ", ".join(parts)


def done(checkpoint: Checkpoint) -> str:
    """Return what was done after a safety checkpoint, by its step: ``restored ID: TITLE``, ``undo of restore of ID: TITLE``."""
    said = line(checkpoint.step).removeprefix("before ")
    op = checkpoint.restore.op if checkpoint.restore is not None else ""
    return said.replace(f"{op} of", {"restore": "restored", "revert": "reverted", "merge": "merged"}.get(op, f"{op} of"), 1)


def line(text: str) -> str:
    """Return the first line of a stored text that is not blank, safe for a terminal."""
    return first_line(text)


def age(then: datetime, now: datetime) -> str:
    """Return an age in git's words (``3 hours ago``)."""
    seconds = int((now - then).total_seconds())
    if seconds < -1:
        return "in the future"
    for unit, length in _AGES:
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return f"{max(seconds, 0)} second{'' if seconds == 1 else 's'} ago"


def quoted(value: str) -> str:
    """Return a value of ``--porcelain``, C-quoted as git quotes a path when it has a tab, newline, quote, backslash or what
    cannot be seen."""
    if value.isprintable() and '"' not in value and "\\" not in value and plain(value) == value:
        return value
    odd = {char: _octal(char) for char in value if not char.isprintable() or is_hidden(char)} | _C_ESCAPES
    return '"' + "".join(odd.get(char, char) for char in value) + '"'


def path_in_line(path: str, *, blanks: bool = False) -> str:
    """A path in a sentence: as git quotes it where a line cannot hold it as it is, else like any other word."""
    return bare(path, blanks=blanks) if path.isprintable() and plain(path) == path else quoted(path)


def porcelain(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    nul: bool,
    foreign: Iterable[Stored] = (),
    more: Sequence[str] = (),
) -> str:
    """Format version 1 of the stable output: ``#`` headers, then tab-separated rows; with ``nul`` raw values ended by NUL.

    Of ``foreign`` those that are so have a header ``# foreign ID`` each; ``more``: further headers. With ``nul`` every header
    and every field ends in NUL; the last header names the columns, so their number is known.
    """
    head = [
        "# baton porcelain v1",
        *(f"# foreign {s.id}" for s in foreign if s.foreign_words),
        *more,
        "# " + " ".join(header),
    ]
    if nul:
        return "".join(field.replace("\0", "?") + "\0" for field in [*head, *(f for row in rows for f in row)])
    return "\n".join([*head, *("\t".join(map(quoted, row)) for row in rows), ""])


def origin(stored: Stored, remotes: Sequence[str] = ()) -> str:
    """Return ``(foreign)`` for a checkpoint that came from elsewhere, or with words that did, with the remotes that are known
    to have it; else empty."""
    return f"({' '.join(['foreign:' if remotes else 'foreign', *map(bare, remotes)])})" if stored.foreign_words else ""


def quoting(stored: Stored) -> str:
    """Return the mark before each line of a stored text: ``> `` where it is foreign."""
    return "> " if stored.foreign_words else ""


def quote(rows: Iterable[str], stored: Stored) -> list[str]:
    """Return lines as they are, or each with ``> `` before it where they are of a foreign checkpoint."""
    mark = quoting(stored)
    return [text if text.startswith(mark) else mark + text for row in rows for text in row.split("\n")] if mark else list(rows)


def decision_texts(stored: Stored) -> list[str]:
    """Return the decisions of a checkpoint, those of others quoted where the checkpoint as a whole is not."""
    c = stored.checkpoint
    if c.standing is None:  # all are its own
        return list(c.decisions)
    known = ((one.text, one.foreign and not stored.foreign_words) for one in c.decided)
    return ["> " + text.replace("\n", "\n> ") if quoted else text for text, quoted in known]


def redacted_document(items: Iterable[Redacted]) -> list[Json]:
    """Return the fields that held a secret, and its kind, as JSON."""
    return [{"field": item.field, "kind": item.kind} for item in items]


def in_shell(text: str) -> str:
    """Quote a word of a command line to be copied into a shell; what cannot be seen is an escape of bash, ksh and zsh."""
    if text.isascii() and text.replace("-", "").replace("/", "").replace(".", "").isalnum():
        return text  # nearly always, and shlex is dear to import
    odd = {char for char in text if is_hidden(char) or char in ODD_BLANKS}
    if not odd:
        from shlex import quote

        return quote(text)
    return "$'" + "".join(_octal(char) if char in odd else f"\\{char}" if char in "\\'" else char for char in text) + "'"


def _octal(char: str) -> str:
    """The bytes of a character as octal escapes: a byte of a name that is no UTF-8 as itself, half a pair by its number."""
    errors = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", errors))


def stored_document(stored: Stored) -> dict[str, Json]:
    """Return the JSON object of a stored checkpoint: its fields, its id, the commit and base of its chain."""
    return {**document(stored.checkpoint), **_where(stored)}


def stored_json(stored: Stored, more: Mapping[str, Json], *, written: bool = False) -> str:
    """Return the text of that object with ``more`` fields, in which every character can be seen. ``written``: its bytes are
    canonical."""
    return _extended(stored, {**_where(stored), **more}, written=written)


def _where(stored: Stored) -> dict[str, Json]:
    more: dict[str, Json] = {"restored": stored.restored} if stored.restored else {}
    return {"id": stored.id, "commit": stored.commit, "base": stored.base, "foreign": stored.foreign_words, **more}


def _extended(stored: Stored, more: Mapping[str, Json], *, written: bool) -> str:
    """Return the text of the JSON of a checkpoint with more fields behind its own."""
    raw = stored.raw if written else b""
    if raw.startswith(b'{\n  "v": 1,\n  "track": %s,\n' % canonical(stored.checkpoint.track)[:-1]):
        said = raw.removesuffix(b"\n}\n") + b"," + canonical({**more}).removeprefix(b"{")
    else:
        said = canonical({**document(stored.checkpoint), **more})
    return escaped(said.decode("utf-8"))


def tokens(usage: Usage) -> str:
    """Return numbers of tokens in one line: ``12k tokens in, 1.2k out, 210k cached``."""
    read, wrote, cached = map(_thousands, (usage.input, usage.output, usage.cached))
    return f"{read} tokens in, {wrote} out, {cached} cached"


def _thousands(count: int) -> str:
    """Return a number as people write it, two or three digits of it: ``950``, ``1.2k``, ``12k``, ``3.1M``."""
    power = next((power for power in range(4) if count < 999.5 * 1000**power), 4)
    number = count / 1000**power
    return f"{number:.{int(power > 0 and number < 9.95)}f}{('', 'k', 'M', 'G', 'T')[power]}"


def turns_tokens(found: TurnsUsage) -> str:
    """Return the tokens of turns in one line, with the models; empty where they are known of none."""
    if not found.turns:
        return ""
    untold = f", not known of {found.untold} more" if found.untold else ""
    models = f" ({', '.join(map(line, found.models))})" if found.models else ""
    return f"{tokens(found.usage)}, {counted(found.turns, 'turn')}{untold}{models}"


def live_document(live: Live) -> dict[str, Json]:
    """Return the JSON object of the present state and its drift."""
    return {
        "branch": None if live.head.branch is None else path_document(live.head.branch),
        "head": live.head.oid,
        **_drift_document(live),
        **({"words": _drift_document(live.words)} if live.words is not None else {}),
        "since": since_document(live.since),
        **({"not_compared": [path_document(path) for path in live.unsaved]} if live.unsaved else {}),
    }


def _drift_document(live: Live) -> dict[str, Json]:
    return {"drift": [w.word for w in live.drift.words], "moved": live.drift.moved, "files_changed": live.files_changed}


def since_document(since: Since | None) -> Json:
    """Return the JSON object of what has happened since the words were written."""
    if since is None:
        return None
    branch = None if since.branch is None else [None if name is None else path_document(name) for name in since.branch]
    counts = {"turns": since.turns, "files_changed": since.files, "commits": since.commits, "gone": since.gone}
    return {**counts, "stale": since.stale, **({"branch": branch} if branch else {})}


def latest_json(current: str | None, generated: str, tips: Sequence[Stored], more: int = 0) -> bytes:
    """LATEST.json: the tips by track, and how many tracks are not among them."""
    tracks: dict[str, Json] = {s.checkpoint.track: _told(s) for s in tips}
    others: dict[str, Json] = {"tracks_more": more} if more else {}
    return _seen({"current_track": current, "generated": generated, "tracks": tracks, **others})


def latest_markdown(current: str | None, generated: str, tips: Sequence[Stored], more: int = 0) -> bytes:
    """LATEST.md: the current track, then each track that is named; stored text is indented, so that it can forge no heading."""
    chosen = next((s for s in tips if s.checkpoint.track == current), None)
    parts = [f"<!-- written by git baton at {generated}; the truth is in refs/baton/tracks -->", "## CURRENT", ""]
    parts += _section(chosen) if chosen else ["No track is current in this work tree.", ""]
    for stored in tips:
        parts += [f"## {_heading(stored.checkpoint.track)}", "", *_section(stored)]
    if more:
        parts += [f"{counted(more, 'older track')} not named here: 'git baton tracks' lists them all."]
    return ("\n".join(parts).rstrip("\n") + "\n").encode("utf-8", "replace")


def _heading(track: str) -> str:
    """A track's name as a heading, which is no other one of ours and no markup."""
    return (in_quotes(track) if track.casefold() == "current" else bare(track, blanks=True)).translate(_MARKUP)


def exported_json(stored: Stored, *, written: bool = False) -> bytes:
    """One exported checkpoint: its JSON plus ``id``. ``written``: its bytes are canonical, and all of it may be told."""
    return _extended(stored, _about(stored), written=written).encode("utf-8")


def _seen(value: Json) -> bytes:
    """The bytes of JSON in a file that people and models read."""
    return escaped(canonical(value).decode("utf-8")).encode("utf-8")


def _told(stored: Stored) -> dict[str, Json]:
    """A checkpoint's JSON plus ``id``; a foreign one says that it is."""
    return {**document(stored.checkpoint), **_about(stored)}


def _about(stored: Stored) -> dict[str, Json]:
    more: dict[str, Json] = {"restored": stored.restored} if stored.restored else {}
    return {"id": stored.id, **({"foreign": True} if stored.foreign_words else {}), **more}


def checkpoint_markdown(stored: Stored) -> bytes:
    """One exported checkpoint for people; stored text is indented, so that it can forge no heading."""
    said = f"{_heading(stored.checkpoint.track)}: {line(title_of(stored.checkpoint)).translate(_MARKUP)}"
    heading = f"## {said} {origin(stored)}".rstrip()
    return ("\n".join([heading, "", *_section(stored)]).rstrip("\n") + "\n").encode("utf-8", "replace")


def _section(stored: Stored) -> list[str]:
    c = stored.checkpoint
    told = resume_lines(c, c.head or "", None, "", back=stored.restored)
    if c.standing is None:  # as it always was: a file of before is not behind
        told = [row for row in told if not row.startswith("decision.")]
    text = [f"id={stored.id}", f"created={timestamp(c.created)}", *told]
    text = [*(["foreign=yes"] if stored.foreign_words else []), *quote(text, stored)]
    return ["    " + row.expandtabs(4) for part in text for row in part.split("\n")] + [""]


def skipped_lines(skipped: Sequence[Skipped], name: str = "", *, verbose: bool = False) -> list[str]:
    """Warnings for paths that a snapshot left out, the first few by name, or all; the checkpoint ``name`` has them all."""
    shown = skipped if verbose else skipped[:_SKIPPED]
    rows = [f"{path_in_quotes(s.path)} {left_out(s.reason)}" for s in shown]
    more = len(skipped) - len(shown)
    rest = f"; 'git baton show --json {name}' lists them" if name else ""
    return rows + ([f"and {more} more{rest}"] if more > 0 else [])


def left_out(reason: str) -> str:
    """Describe a reason of ``skipped`` for a path, as the end of a sentence."""
    return _LEFT_OUT.get(reason, f"is left out: {plain(reason)}")


def kept_here(files: FileState | None, *, named: bool = True) -> str:
    """That bytes of a checkpoint are on the machine where it was taken alone, in words; empty where none are. Not ``named``:
    but for those that did not pass their filter."""
    if files is None or not files.held:
        return ""
    ignored = [s.path for s in files.skipped if s.reason == IGNORED_HELD]
    shut = [s.path for s in files.skipped if s.reason in KEPT and s.reason != IGNORED_HELD]
    exact, filters = files.held - len(shut) - len(ignored), "its filter" if len(shut) == 1 else "their filters"
    parts = (
        (ignored, f"git ignores {some(len(ignored), first_few(ignored))}"),
        (shut and named, f"{some(len(shut), first_few(shut))} did not pass {filters}"),
        (exact > 0, f"{counted(exact, 'file')} {'has' if exact == 1 else 'have'} other exact bytes than a filter gives back"),
    )
    said = [text for holds, text in parts if holds]
    return f"{', and '.join(said)}: that stays on the machine where it was taken" if said else ""


def path_in_quotes(path: str) -> str:
    """A path in a sentence of ours, as ``codec.in_quotes`` a word; C-quoted where it is odd, so that it can be found."""
    text = quoted(path)
    return text.translate(_QUOTES) if text.startswith('"') else in_quotes(text)


def first_few(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the first few paths, each in quotes, for a sentence."""
    return tuple(map(path_in_quotes, paths[:_NAMED]))


def some(count: int, named: Sequence[str]) -> str:
    """So many paths for a sentence: those that are named, and how many more there are."""
    more = count - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def uncompared(live: Live) -> list[str]:
    """Return what could not be compared: all files, or what no checkpoint can hold; and other warnings of the comparison."""
    said = [live.said] if live.said else []
    if not live.unsaved:
        return [*said, live.uncounted] if live.uncounted else said
    inside = some(len(live.unsaved), first_few(live.unsaved))
    return [*said, f"what is not committed inside {inside} is in no checkpoint and is not compared"]


def sentences(live: Live) -> list[str]:
    """One plain sentence for each fact of drift."""
    return [plain(w.sentence) for w in live.drift.words]


def candidate(stored: Stored, short: Callable[[Oid], str]) -> str:
    """A checkpoint in a list of several that a name could mean."""
    said = f"{short(stored.id)} {bare(stored.checkpoint.track)}: {cut(line(title_of(stored.checkpoint)), _CANDIDATE)}"
    return f"{quoting(stored)}{said} {origin(stored)}".rstrip()


def since_run(run: TestRun, later: Changed) -> Changed:
    """The paths that changed since a test ran: until the checkpoint that told of it first, and ``later``; None where that
    cannot be said."""
    return None if later is None else tuple(dict.fromkeys((*run.edited, *later)))


def test_line(run: TestRun, at: str, changed: Changed, more: int = 0, named: int = _FILES) -> str:
    """``pytest -q: failed (1 failed, 2 passed), 5 minutes ago``; what changed since makes it stale. Nothing that was observed
    is called green."""
    return f"{bare(first_line(run.command), blanks=True)}: {test_result(run)}, {at}{test_changes(changed, more, named)}"


def test_changes(changed: Changed, more: int = 0, named: int = _FILES) -> str:
    """Return what changed since a test ran, as the end of a sentence; empty where nothing did."""
    if changed is None:
        return "; what changed since cannot be compared"
    if not changed:
        return ""
    paths = ", ".join(path_in_line(path) for path in changed[:named])
    rest = len(changed) - named + more
    return f"; stale: {paths}{f' and {rest} more' if rest > 0 else ''} changed since"


def test_result(run: TestRun) -> str:
    """Describe the result of a test run, as ``failed (1 failed, 2 passed)`` or ``unknown (no test ran)``."""
    if run.empty:
        return f"{run.result} (no test ran)"
    counts = ((run.failed, "failed"), (run.passed, "passed"), (run.skipped, "skipped"))
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{run.result} ({said})" if said else run.result


def plan_heading(plan: ClientPlan, at: str) -> str:
    """Return the heading of a plan: its agent, its age, and the count of its items by state."""
    states = [item.state for item in plan.items]
    count = ", ".join(f"{states.count(state)} {state}" for state in _ORDER if state in states)
    return f"{bare(first_line(plan.agent)[:40])}, changed {at}: {count}{f', {plan.more} not listed' if plan.more else ''}"


def plan_items(plan: ClientPlan) -> list[str]:
    """The items, what is being done and what is open first."""
    items = sorted(plan.items, key=lambda item: _ORDER.get(item.state, 1))
    return [f"{item.state}: {first_line(item.text)}" for item in items]


def current_plans(observed: Observed) -> tuple[ClientPlan, ...]:
    """The newest plan, and older ones of other sessions where something in them is left."""
    left = [plan for plan in observed.plans[1:] if any(item.state in ("doing", "open") for item in plan.items)]
    return (*observed.plans[:1], *left)


def observed_pairs(
    observed: Observed | None,
    later: Sequence[Changed],
    told: Told | None = None,
    when: Callable[[datetime], str] = timestamp,
    before: Callable[[datetime], str] | None = None,
) -> list[tuple[str, str]]:
    """Return keys and values for ``resume`` and its like; times are moments, which scripts can read, or what ``when`` makes of
    them, and ``before`` of those before a text. ``later``: for each test run the paths that changed since the checkpoint that
    told of it first. ``told``: what was said, where that is stored here."""
    if observed is None:
        return []
    before = before or when
    asked = [*(told.asked if told else observed.asked)]
    known = max((one.at for one in asked), default=None)
    asked += [one for one in observed.asked if known is not None and one.at > known]  # heard since that was stored
    if (
        told is not None
        and told.latest is not None
        and (told.latest.at, told.latest.text) not in {(o.at, o.text) for o in asked}
    ):
        asked.append(told.latest)
    found = [
        *(("asked", _prompt_line(one, before)) for one in asked),
        *(("approved", _prompt_line(one, before)) for one in (told.approved if told else None,) if one),
        *(("plan", "\n".join([plan_heading(p, when(p.changed)), *plan_items(p)])) for p in current_plans(observed)),
    ]
    for run, paths in zip(observed.tests, later, strict=True):
        text = test_line(run, when(run.ended), since_run(run, paths), run.edited_more)
        found.append(("tests", "\n".join([text, *(f"failed: {first_line(name)}" for name in run.names)])))
    if told is not None:
        shown = {(ran.command, ran.ended) for ran in told.commands}
        spoken = [*([("listed", told.listed)] if told.listed else []), *(("said", one) for one in told.spoken)]
        found += [
            *((key, f"{before(one.at)} {one.text}") for key, one in spoken),
            *(("ran", _ran_line(one, when)) for one in told.commands),
            *(("check", command_line(r, when(r.ended))) for r in told.checks if (r.command, r.ended) not in shown),
            *([("error", _ran_line(told.error, when))] if told.error is not None else []),
            *(("running", f"{before(one.since)} {first_line(one.text)}") for one in told.running),
            *((key, "\n".join(map(quoted, names))) for key, names in (("read", told.read), ("found", told.found)) if names),
        ]
    if observed.edited:
        more = f"\nand {observed.edited_more} more" if observed.edited_more else ""
        found.append(("edited", "\n".join(map(quoted, observed.edited)) + more))
    return found


def _ran_line(ran: Ran, when: Callable[[datetime], str]) -> str:
    """Return a command with its end, and below it the output of one that failed."""
    return "\n".join([command_line(ran, when(ran.ended)), ran.output]).rstrip("\n")


def _prompt_line(prompt: Prompt, when: Callable[[datetime], str]) -> str:
    """Return a prompt, when it was said, and the question of an answer."""
    return f"{when(prompt.at)} {prompt.text}" + (f"\nanswers: {prompt.about}" if prompt.about else "")


def leads(c: Checkpoint) -> bool:
    """Whether the observations are newer than the words: there are none; or the agent worked since, and files changed or a test
    failed."""
    o = c.observed
    if o is None or (c.kind != "manual" and c.carried is None):
        return o is not None
    written = c.carried.created if c.carried else c.created
    if o.until is None or o.until <= written:
        return False
    changed = c.carried is not None and (c.files is None or c.carried.tree != c.files.tree)
    return changed or any(run.result == "failed" and run.ended > written for run in o.tests)


def turn_of(c: Checkpoint) -> int:
    """Return the number of the turn that a checkpoint ended, or was taken in, as its client counts; 0 where none is known, and
    for what was there before a prompt."""
    return c.observed.turns if c.observed is not None and c.kind != "manual" and not at_prompt(c.kind, c.step) else 0


def title(stored: Stored) -> tuple[str, TestRun | None]:
    """Return a checkpoint's title for a list, and of a turn that a client's records tell of the newest test that ran in it."""
    c = stored.checkpoint
    if not _is_told_turn(c) or c.observed is None:
        return title_of(c, told=False), None
    return title_of(c, told=True), next((run for run in c.observed.tests[:1] if run.tree == stored.tree), None)


def title_of(c: Checkpoint, *, told: bool | None = None) -> str:
    """Return the title of a checkpoint: its step; of a turn that a client's records tell of ``turn 7 now the error
    messages``. ``told``: whether it is one, if that is known."""
    if c.observed is not None and (_is_told_turn(c) if told is None else told):
        until = [one for one in c.observed.asked if one.at <= c.created]  # after an undo it tells of later ones, too
        return f"turn {c.observed.turns}  {first_line(turn_prompt(c.step, until or c.observed.asked).text)}"
    if not is_turn(c.kind, c.step):
        return c.step
    before, _, last = c.step.rpartition(LAST_PROMPT)  # what was asked last tells turns apart
    return f"{before.partition(': ')[0]}: {last}" if before else c.step


def _is_told_turn(c: Checkpoint) -> bool:
    """Whether a client's records tell of a turn that a checkpoint ended; of one that did not end only the step tells."""
    told = is_turn(c.kind, c.step) and c.step.startswith(TURN_ENDED) and bool(c.observed and c.observed.asked)
    return told and (c.files is not None or c.kind == "imported")


def turn_prompt(step: str, asked: Sequence[Prompt]) -> Prompt:
    """The prompt of the turn that a checkpoint ended: of those that its session has had, the newest that its step names; else
    what its step has of it, and the newest of all where that is nothing; both where the step's own only says to go on."""
    own, said = [one for one in asked if not one.earlier], _said_in(step)
    named = next((one for one in reversed(own) if names_prompt(step, one)), None)
    if named is None and own and (not said or idle(said)):
        after = f"{said}, after {in_double_quotes(first_line(own[-1].text))}"
        return replace(own[-1], text=after) if said else own[-1]
    return named or replace(asked[-1], text=step.partition(": ")[2].rpartition(LAST_PROMPT)[2] or step, earlier=False)


def names_prompt(step: str, prompt: Prompt) -> bool:
    """Whether the step of a turn's checkpoint names a prompt as the turn's own."""
    own, text = _said_in(step), " ".join(first_line(prompt.text).split())
    begun = text.removesuffix("...").rstrip() if text.endswith("...") else ""
    return own != "" and (text.startswith(own) or (len(begun) > _BEGUN and own.startswith(begun)))


def _said_in(step: str) -> str:
    """Return the prompt that the step of a turn's checkpoint names, as a client's records have it: without marks of images."""
    return " ".join(re.sub(r"(?i)\[image[^]]*\]", "", prompt_in(step)).split()) if is_turn("auto", step) else ""


def command_line(ran: Ran, at: str) -> str:
    """A command and how it ended."""
    how = "no exit status is known" if ran.status is None else f"exit status {ran.status}"
    return f"{bare(first_line(ran.command), blanks=True)}: {how}, {at}"
