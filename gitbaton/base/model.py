"""Domain values: frozen, without I/O.

Texts are ``str``; paths are ``str`` with the surrogate escapes of ``os.fsdecode``, so that a name that is not UTF-8 survives.
Object ids are full lower-case hexadecimal, 40 or 64 digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from gitbaton.base.values import TYPE_CHECKING, late, value

Oid = str
if TYPE_CHECKING:
    from typing import Literal

    Validation = Literal["green", "pending", "failed"]
    Kind = Literal["manual", "auto", "safety", "imported"]
    Op = Literal["restore", "revert", "merge", "undo", "redo"]
else:
    Validation = Kind = Op = str

VALIDATIONS: tuple[Validation, ...] = ("green", "pending", "failed")
KINDS: tuple[Kind, ...] = ("manual", "auto", "safety", "imported")
BESIDE: tuple[Kind, ...] = ("safety", "imported")
"""The kinds of what stands in no track: states before restores, and turns of a client's own transcripts."""
STEPPING: tuple[Op, ...] = ("undo", "redo")
COMPOSED: tuple[Op, ...] = ("revert", "merge")
"""Steps to files and an index of which no checkpoint is the source."""
OPS: tuple[Op, ...] = ("restore", *COMPOSED, *STEPPING)
LAST_PROMPT = "; last prompt: "
"""What stands in the step of a turn's checkpoint between the session's first prompt and its last."""
TURN_ENDED, NOT_ENDED = "turn ended", "turn not ended"
"""How the step of a turn's checkpoint begins: taken at its end, or at a prompt while no end of it was heard of."""
BEFORE_PROMPT = "before a prompt (auto)"
"""The step of a checkpoint that holds what was changed before a prompt, by whomever: nothing of it is the turn's."""

ENDED = "session ended"
"""The step of the last checkpoint of a session."""


def is_turn(kind: str, step: str) -> bool:
    """Whether a checkpoint of this kind and step holds what a turn did."""
    return kind in ("auto", "imported") and step.startswith((TURN_ENDED, NOT_ENDED))


def at_prompt(kind: str, step: str) -> bool:
    """Whether a checkpoint of this kind and step was taken at a prompt: its files are of no turn that has ended."""
    return kind == "auto" and (step == BEFORE_PROMPT or step.startswith(NOT_ENDED))


UNBORN = "0" * 40
"""Stands for HEAD's commit where it has none and something must be said, as git has it."""


def prompt_in(step: str) -> str:
    """Return the prompt that the step of a turn's checkpoint names, or its beginning; empty where it names none."""
    return step.partition(": ")[2].rpartition(LAST_PROMPT)[2].removesuffix("...").rstrip()


IGNORED = "ignored-until-now"
"""Why an untracked path is left out that the rules of until now ignored: only the rules are gone."""
SKIP_REASONS = (
    "excluded",  # baton.exclude names it
    "too-large",  # over baton.maxFileSize
    "too-much",  # new files come to more than baton.maxUntracked, and it is one of the largest
    IGNORED,  # HEAD's ignore rules, or those of the newest checkpoint, cover it
    "unreadable",  # git could not read or store it
    "unstable",  # it changed or vanished each time it was read
    "special-file",  # a FIFO, socket or device stands there
    "filter-missing",  # stored as it is on disk, its required filter did not run: in checkpoints of before only
    "nested-repository",  # stored as a commit id, or not at all; its content is not
    "submodule-dirty",  # stored as a commit id; its uncommitted content is not
    "invalid-name",  # git refuses a path of this name
    "ignored",  # ignored, and a command is about to remove it: more than baton.guardIgnored takes in, or no file
    "ignored-held",  # ignored, and a command is about to remove it: its bytes stay in the git directory
    "untracked",  # baton.untracked is none
    "unfiltered",  # its clean filter did not run: its bytes stay in the git directory
)
IGNORED_HELD = "ignored-held"
KEPT = ("unfiltered", IGNORED_HELD)  # its bytes are kept all the same
INSIDE = ("submodule-dirty", "nested-repository")  # a repository of its own, held as a commit id


@value
class Flag:
    """Index bits of one path: ``a`` assume-unchanged, ``s`` skip-worktree, ``i`` intent-to-add, in this order."""

    path: str
    bits: str


@value
class IndexState:
    """The staged state: ``tree`` holds the stage-0 entries; ``unmerged`` counts paths in conflict."""

    tree: Oid
    flags: tuple[Flag, ...] = ()
    flags_more: int = 0
    unmerged: int = 0

    @property
    def whole(self) -> Oid | None:
        """The tree, where it holds every path of the index: not those in conflict, nor intent-to-add."""
        return None if self.unmerged or self.flags_more or any("i" in f.bits for f in self.flags) else self.tree


@value
class Operation:
    """A merge, rebase, am, cherry-pick, revert or bisect that was in progress."""

    kind: str
    head: Oid | None = None
    onto: Oid | None = None
    refs: tuple[tuple[str, str], ...] = ()


@value
class Skipped:
    """Path that the captured tree does not hold as it is on disk, and why (one of SKIP_REASONS)."""

    path: str
    reason: str


def covered(path: str, left: Mapping[str, str]) -> str | None:
    """The reason in ``left`` of a path or of a directory above it."""
    at = path
    while at:
        if at in left:
            return left[at]
        at = at.rpartition("/")[0]
    return None


@value
class WorktreeId:
    """Identity of the work tree that a checkpoint was taken in: its absolute path and when gitbaton first met it."""

    path: str
    created: datetime

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``RecordFacts.stored``

    def same(self, other: WorktreeId) -> bool:
        """Whether another identity is of this work tree, wherever it was moved; early records have whole seconds only."""
        if 0 in (self.created.microsecond, other.created.microsecond):
            return self.created.replace(microsecond=0) == other.created.replace(microsecond=0)
        return self.created == other.created


@value
class FileState:
    """The captured work tree and index; ``changed`` counts the paths that differ from the checkpoint before, ``raw`` those that
    also lie byte for byte beside the stages, because a checkout would not give them back as they were, and ``held`` those with
    bytes that are kept where they were taken, because a filter is a gate that they did not go through."""

    tree: Oid
    index: IndexState
    operation: Operation | None
    changed: int
    skipped: tuple[Skipped, ...]
    skipped_more: int = 0
    raw: int = 0
    held: int = 0
    worktree: WorktreeId

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``codec.known``

    def holding(self, paths: Sequence[str]) -> list[str]:
        """The paths less those that it says it does not hold, or that lie in a directory that could not be read. Of a submodule
        or nested repository it holds the commit, or that there was none."""
        left = {s.path: s.reason for s in self.skipped if s.reason not in INSIDE}
        return [path for path in paths if covered(path, left) is None] if left else list(paths)


@value
class Usage:
    """Tokens of a model: ``input`` that it read anew, ``output`` that it wrote, with its reasoning, and ``cached`` that it read
    from its cache."""

    input: int
    output: int
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Add those of other requests."""
        return Usage(input=self.input + other.input, output=self.output + other.output, cached=self.cached + other.cached)

    def __sub__(self, other: Usage) -> Usage:
        """Take those of some requests away."""
        return Usage(input=self.input - other.input, output=self.output - other.output, cached=self.cached - other.cached)

    def most(self, other: Usage) -> Usage:
        """Return the greater number of each kind."""
        pairs = ((self.input, other.input), (self.output, other.output), (self.cached, other.cached))
        read, wrote, cached = map(max, pairs)
        return Usage(input=read, output=wrote, cached=cached)


NO_TOKENS = Usage(input=0, output=0)


@value
class TurnsUsage:
    """The tokens of some ``turns``, and the models that answered in them, the newest first; ``untold``: how many other turns
    there are of which they are not known."""

    usage: Usage = NO_TOKENS
    turns: int = 0
    untold: int = 0
    models: tuple[str, ...] = ()


@value
class Agent:
    """The coding agent that took a checkpoint. ``transcript``: a Transcript as text, see gitbaton.base.codec.checkpoint.
    ``model``: the one that answered last in the turn that the checkpoint is of, and ``usage``: the tokens of that turn, without
    those of subagents; None where they are not known."""

    name: str
    session: str | None = None
    transcript: str | None = None
    model: str | None = None
    usage: Usage | None = None


def session_key(agent: Agent | None) -> tuple[str, str | None]:
    """Return the key of a session; an empty one without an agent."""
    return (agent.name, agent.session) if agent is not None else ("", None)


@value
class Transcript:
    """Position in a conversation: ``size`` bytes and ``lines`` of its file, both at a line's end, and the id of its last
    message. ``stored``: the commit that holds these bytes; None where only the position is kept."""

    size: int
    lines: int
    last: str | None = None
    stored: Oid | None = None


@value
class Here:
    """Position of a work tree on a track: ``at`` is the checkpoint of its state and words, and ``top`` the newest one that was
    taken back to come to it; the same one where nothing was."""

    at: Oid
    top: Oid


@value
class Carried:
    """Manual checkpoint with words that an automatic one takes along: its id, step, time, branch, HEAD and tree (None without
    files). ``turns``: how many turns of the agent have ended since; ``operation``: the kind that was in progress then;
    ``foreign``: the words were fetched from elsewhere; ``restored``: what was taken back to come to them, where nothing was
    written since."""

    id: Oid
    step: str
    created: datetime
    branch: str | None
    head: Oid | None
    tree: Oid | None
    turns: int = 0
    operation: str | None = None
    foreign: bool = False
    restored: Here | None = None

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``codec.known``


@value
class Restore:
    """Record of the restore that a safety checkpoint was taken before. ``origin`` (``from``): the current track's newest
    checkpoint then, if any; ``target`` (``to``): the checkpoint of the files that came back; ``position``: how many steps could
    be redone afterwards; ``index``: whether the whole index came back, too. ``tip``: the newest checkpoint of the target's
    track then; ``before`` and ``after``: where the work tree was on it, and is afterwards; ``after`` is None where only some
    paths came back, so that the words stay."""

    op: Op
    origin: Oid | None
    target: Oid
    position: int
    index: bool
    tip: Oid | None = None
    before: Here | None = None
    after: Here | None = None


@value
class PlanItem:
    """One item of a plan; ``state`` is ``open``, ``doing``, ``done`` or ``dropped``."""

    text: str
    state: str


@value
class ClientPlan:
    """Plan that an agent wrote with its client's own tool, or that was approved: its agent and session, when it last changed,
    and how many items are not listed. ``title``: its heading, where it has one."""

    agent: str
    session: str | None
    changed: datetime
    items: tuple[PlanItem, ...]
    more: int = 0
    title: str = ""


@value
class TestRun:
    """The newest run of one test command that a client has on record. ``result``: ``passed``, ``failed`` or ``unknown``, with
    the counts of its summary where it printed one and the names of tests that failed; ``empty``: no test ran. ``tree``: the
    files of the checkpoint that told of it first; ``edited``: those that had changed between the run and that checkpoint.
    ``exact``: all tests were asked for, their own exit status was 0, and the files of ``tree`` were those of the run from its
    beginning on; ``lacks``: why it is not, where a run has passed."""

    command: str
    result: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    names: tuple[str, ...] = ()
    started: datetime | None = None
    ended: datetime
    tree: Oid | None = None
    edited: tuple[str, ...] = ()
    edited_more: int = 0
    empty: bool = False
    exact: bool = False
    lacks: str = ""


@value
class Prompt:
    """Words of the user, the first line or more of them, and when.

    ``kind``: how it was said: a prompt of its own (empty), an ``answer`` to the agent's questions, words with which a tool was
    ``refused``, a plan that was ``approved`` or ``rejected``. ``about``: what that is an answer to: the question, the call, the
    plan's title, or the end of the agent's last words before a prompt that says nothing by itself. ``earlier``: it was asked
    in a session before the one that the rest is of.
    """

    text: str
    at: datetime
    kind: str = ""
    about: str = ""
    earlier: bool = False


@value
class Ran:
    """Command that an agent ran: ``status`` is None where it is unknown; ``output``: the last lines of one that failed."""

    command: str
    status: int | None
    started: datetime | None
    ended: datetime
    output: str = ""


@value
class Action:
    """Action of an agent in a turn: ``text`` in one line (``edited src/a.py``, a command, a subagent's task), how many times in
    a row it did the like, and the end of the last one: an exit status, None where it continues or is unknown. ``output``: the
    end of what a subagent answered."""

    text: str
    at: datetime
    count: int = 1
    status: int | None = None
    output: str = ""


@value
class Running:
    """Background work: a command, or a subagent's task, and since when."""

    text: str
    since: datetime


@value
class Told:
    """Conversation around a checkpoint, as far as it stays beside it.

    ``asked``: prompts that say something, oldest first; ``latest``: the newest of all, also one that says nothing by itself.
    ``approved``: the plan that the user approved last, whole. ``listed``: the agent's newest text with a list in it; ``said``:
    the last words of its last turn, and ``worked`` those of the last that did more than look and answer. Of the turn that has
    not ended: ``texts``, what the agent said in it, and ``actions``, what it did, both oldest first. ``commands``: its newest
    commands, oldest first; ``checks``: the newest run of each of its last test, build and lint commands, oldest first;
    ``error``: the newest failure that no later success has mended; ``running``: what goes on in the background; ``read``: the
    files that it read last, newest first; ``found``: others that its last searches and commands named.
    """

    asked: tuple[Prompt, ...] = ()
    latest: Prompt | None = None
    approved: Prompt | None = None
    listed: Prompt | None = None
    said: Prompt | None = None
    worked: Prompt | None = None
    texts: tuple[Prompt, ...] = ()
    actions: tuple[Action, ...] = ()
    commands: tuple[Ran, ...] = ()
    checks: tuple[Ran, ...] = ()
    error: Ran | None = None
    running: tuple[Running, ...] = ()
    read: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    @property
    def spoken(self) -> tuple[Prompt, ...]:
        """Last words, oldest first: of the turn that worked last, of the last one, and of one that has not ended."""
        before = self.worked if self.said is None or (self.worked is not None and self.worked.at < self.said.at) else None
        return tuple(one for one in (before, self.said, self.saying) if one is not None)

    @property
    def saying(self) -> Prompt | None:
        """Last words of the agent in a turn that has not ended."""
        return self.texts[-1] if self.texts else None


@value
class Observed:
    """Observations from a client's own records: plans, the newest first; the newest run of each test command; the files that
    the session's own tools edited, newest first; the first lines of the prompts.

    ``turns``: how many prompts the session has had; ``said``: the blob with what was said, which stays with the conversation;
    ``milestone``: what was asked before that moment is left out; ``until``: the time of the newest record; ``partial``: the
    beginning of a long conversation was not reached.
    """

    plans: tuple[ClientPlan, ...] = ()
    tests: tuple[TestRun, ...] = ()
    edited: tuple[str, ...] = ()
    edited_more: int = 0
    asked: tuple[Prompt, ...] = ()
    turns: int = 0
    said: Oid | None = None
    milestone: datetime | None = None
    until: datetime | None = None
    partial: bool = False

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``codec.known``


@value
class Decided:
    """Facts about a decision beside its text. ``number``: its own, in the order in which the track's decisions were made;
    ``made``: when it was given last, None by the very checkpoint that says it; ``about``: the paths that it is about;
    ``foreign``: it came from elsewhere, and was not given here since."""

    number: int
    made: datetime | None = None
    about: tuple[str, ...] = ()
    foreign: bool = False


@value
class Decision:
    """A decision that stands, with what is known of it; ``made`` as in Decided, and never None."""

    text: str
    number: int
    made: datetime
    about: tuple[str, ...] = ()
    foreign: bool = False


@value
class Withdrawn:
    """A decision that stands no more: its number, the digest of its text, and when it was withdrawn, None by the very
    checkpoint that says it. Its text is not kept with it, so that it can be forgotten."""

    number: int
    digest: str
    at: datetime | None = None


@value
class Standing:
    """Words of a checkpoint that stay when others are written, until they are withdrawn: ``decisions``, one for each of the
    checkpoint's; ``withdrawn``: the newest that were, newest last; ``last``: the greatest number that was ever given; ``note``:
    the part of the note that is kept; ``extra``: the keys of the extras that are."""

    decisions: tuple[Decided, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    last: int = 0
    note: str = ""
    extra: tuple[str, ...] = ()


@value
class Turn:
    """The turn of the session that took a checkpoint, up to there; the newest checkpoint with the same session and beginning is
    its end. ``began``: the checkpoint that holds the state which it began from; ``head``: HEAD then, or UNBORN, where no
    checkpoint was there yet, and no files but HEAD's. Neither: it is not known. ``ended``: the manual checkpoint of another, or
    the commit, that ended it before, so that nothing later is the turn's. ``edited``: the paths that the session's own tools
    edited in it, newest first, and ``edited_more`` how many more. ``unheard``: no hook heard its prompt, so that only these
    paths are known to be its own, and ``began`` holds the newest state that is surely older."""

    began: Oid | None = None
    head: Oid | None = None
    ended: Oid | None = None
    edited: tuple[str, ...] = ()
    edited_more: int = 0
    unheard: bool = False


@value
class ImportedTurn:
    """A turn as a client's own transcript tells it, which no hook has seen. ``since``: when its prompt was said; ``prompt`` and
    ``said``: that, and the agent's last words in it, of long ones less the middle; ``commits``: those that its commands are
    seen to have made."""

    since: datetime
    prompt: str
    said: str = ""
    commits: tuple[Oid, ...] = ()


@value
class Checkpoint:
    """The recorded state of one track at one moment. Its id is the blob id of its stored bytes and no field of it."""

    track: str
    step: str
    note: str = ""
    next_cmd: str = ""
    validation: Validation = "pending"
    decisions: tuple[str, ...] = ()
    label: str | None = None
    kind: Kind = "manual"
    branch: str | None = None
    head: Oid | None = None
    created: datetime
    extra: tuple[tuple[str, str], ...] = ()
    agent: Agent | None = None
    files: FileState | None = None
    previous: Oid | None = None
    restore: Restore | None = None
    carried: Carried | None = None
    observed: Observed | None = None
    standing: Standing | None = None
    turn: Turn | None = None
    imported: ImportedTurn | None = None

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``codec.known``

    @property
    def written(self) -> datetime:
        """Time of the words."""
        return self.carried.created if self.carried else self.created

    @property
    def decided(self) -> tuple[Decision, ...]:
        """Its decisions in the order of their numbers; where nothing more is known of them, all are its own."""
        known = self.standing.decisions if self.standing else ()
        known = known or tuple(Decided(number=number) for number, _ in enumerate(self.decisions, 1))
        written = self.written
        return tuple(
            Decision(text=text, number=m.number, made=m.made or written, about=m.about, foreign=m.foreign)
            for text, m in zip(self.decisions, known, strict=True)
        )

    @property
    def headline(self) -> str:
        """Step of the words: its own, or the carried one."""
        return self.carried.step if self.carried else self.step

    @property
    def place(self) -> Head:
        """Position of HEAD when the words were written."""
        source = self.carried or self
        return Head(branch=source.branch, oid=source.head)


@value
class Stored:
    """A checkpoint as it lies in a chain: ``raw`` is its canonical JSON, ``id`` that blob's id, ``commit`` the chain commit,
    ``base`` the commit it stands on. ``restored``: what was taken back to come to its words, and ``back`` where that led, as
    far as that was looked at (``Baton.here``)."""

    id: Oid
    commit: Oid
    base: Oid | None
    tree: Oid
    raw: bytes
    checkpoint: Checkpoint
    foreign: bool = False
    restored: str = ""
    back: Back | None = None

    if not TYPE_CHECKING:
        __getattr__ = late  # see ``RecordFacts.stored``

    @property
    def foreign_words(self) -> bool:
        """Whether its words, its own or carried ones, came from elsewhere."""
        return self.foreign or (self.checkpoint.carried is not None and self.checkpoint.carried.foreign)


@value
class Back:
    """Result of a restore, an undo or a redo on a track. ``gone``: the checkpoints that it took back, and ``left``: newer ones
    that it did not, and of these ``newer``, those that are newer than what is told; ``gone_asked`` and ``left_asked``: what the
    user said in them, and not before. All newest first."""

    here: Here
    gone: tuple[Stored, ...] = ()
    left: tuple[Stored, ...] = ()
    newer: tuple[Stored, ...] = ()
    gone_asked: tuple[Prompt, ...] = ()
    left_asked: tuple[Prompt, ...] = ()


@value
class DecisionChanges:
    """The checkpoints in which what a decision is about changed since it was made, the newest first, whether all since then
    were looked at, and the paths there at which the work tree is another one than the newest of all."""

    items: tuple[Stored, ...]
    whole: bool
    edited: tuple[str, ...] = ()


@value
class Head:
    """Position of HEAD: ``branch`` is None when detached, ``oid`` None when unborn."""

    branch: str | None
    oid: Oid | None


@value
class DriftWord:
    """One fact of drift: a word of the closed list, its arguments, and a sentence for people."""

    word: str
    sentence: str


@value
class Drift:
    """Difference of now from a checkpoint's git state; ``words`` in the order of the closed list."""

    words: tuple[DriftWord, ...] = ()

    def __str__(self) -> str:
        return ",".join(w.word for w in self.words) or "none"

    @property
    def moved(self) -> bool:
        """Whether HEAD is not at home: ``committed``, ``operation`` and ``files-changed`` do not count."""
        return bool(self.away)

    @property
    def away(self) -> tuple[DriftWord, ...]:
        """The facts by which HEAD is not at home."""
        return tuple(w for w in self.words if not w.word.startswith(("committed", "operation", "files-changed")))

    @property
    def anything(self) -> bool:
        """Whether HEAD or a file differs at all: what was captured and is committed does not."""
        return any(not w.word.startswith("committed") for w in self.words)


@value
class Since:
    """Events since the words of a checkpoint were written: turns of the agent that ended, paths that differ now from the files
    then (None where that cannot be said), commits that HEAD has and had not then (None likewise), and that it had and has
    ``gone`` from, but for a rewrite. ``branch``: the one of then and the one of now, where they are two; None for a detached
    HEAD."""

    turns: int
    files: int | None
    commits: int | None
    gone: int | None = 0
    branch: tuple[str | None, str | None] | None = None

    @property
    def stale(self) -> bool:
        """Whether files changed since, so that what was validated then is not what is there now."""
        return bool(self.files)


@value
class Live:
    """The repository now, against a checkpoint. ``files_changed`` is None where files were not compared; ``uncounted`` says why
    they could not be; ``said``: what else should be said of the look at them; ``unsaved``: submodules and nested repositories
    with uncommitted content that is in no checkpoint, so that nothing compares it; ``since`` what has happened since the words
    were written. ``words``: the same against where the words were written that an automatic checkpoint carries; None where they
    are its own.

    ``tests``: for each test run that a client had on record the paths that differ now from the files then, None where that
    cannot be said.
    """

    head: Head
    drift: Drift
    files_changed: int | None = None
    uncounted: str | None = None
    said: str = ""
    unsaved: tuple[str, ...] = ()
    since: Since | None = None
    tests: tuple[tuple[str, ...] | None, ...] = ()
    words: Live | None = None


@value
class DoctorFinding:
    """One thing that a doctor looked at. ``ok`` is False for a fault: it would not run, or should be mended; ``mend`` is the
    line that does it. ``remark``: no fault, and ``mend`` is the line that makes it otherwise."""

    name: str
    ok: bool
    text: str
    mend: str = ""
    remark: bool = False
