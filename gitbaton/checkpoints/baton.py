"""An open repository: plan, lock and record a checkpoint; resume, verify, LATEST. The Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType

from gitbaton.base.codec import check_track, encode, in_quotes, os_error, timestamp
from gitbaton.base.codec.checkpoint import read_told
from gitbaton.base.errors import (
    MENDS,
    TAKE_ONE,
    AmbiguousNameError,
    BatonError,
    CollectedError,
    GitError,
    NotFoundError,
    RecordError,
    UsageError,
)
from gitbaton.base.model import (
    IGNORED,
    Agent,
    Carried,
    Checkpoint,
    Decision,
    DecisionChanges,
    FileState,
    Head,
    IndexState,
    Kind,
    Live,
    Observed,
    Oid,
    Prompt,
    Since,
    Stored,
    Told,
    Validation,
    WorktreeId,
    covered,
)
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints import config, mirror
from gitbaton.checkpoints.render import NO_CHANGES, left_out, path_in_quotes, restored, uncompared
from gitbaton.checkpoints.store import (
    CURRENT,
    NOTES,
    SAFETY,
    History,
    Problem,
    Store,
    chain_ref,
    read,
    safety_ref,
    state,
    tip_ref,
    track_of,
)
from gitbaton.checkpoints.store.chain import beside, paths_beside
from gitbaton.checkpoints.survey import Surveyor, compared
from gitbaton.git import questions
from gitbaton.git.loose import is_known
from gitbaton.git.objects import lookup
from gitbaton.git.repo import Door, Progress, Repo, discover, neighbour, no_id, silent

if TYPE_CHECKING:
    from gitbaton.base.secrets import Redacted, Redactor
    from gitbaton.checkpoints.store.selection import Selection
    from gitbaton.checkpoints.store.standing import Stands
    from gitbaton.checkpoints.store.turns import UnderWay
    from gitbaton.checkpoints.store.write import SnapshotDraft
    from gitbaton.git.worktree.capture import Captured
    from gitbaton.git.worktree.untracked import CaptureRules, Past

    Follow = Callable[[SnapshotDraft, Stored | None], Checkpoint]


_MAX_TOLD = 1 << 20
_FEW = 5  # tracks of which each is asked for by itself
_LOOKS = 3  # work trees that git looks at at once
_PAST = 60  # checkpoints below a track's newest that are looked at for one that was taken here


@value
class Request:
    """The words of a snapshot. ``track`` may be None when GIT_BATON_TRACK or baton.track names one; ``step`` may be empty
    when ``label`` is given. ``include``: pathspecs, as seen from ``directory`` (default: the top of the work tree), of what is
    taken in though it was ignored until now. ``going``: paths from the top of the work tree that a command is about to remove:
    of the ignored files at and below them (with ``going_names`` those of such names alone) what is small is held here, and what
    is not is named; None for no such command.

    ``decisions`` are added to those that stand. ``withdraw`` ends some: each a number as ``resume`` shows it, the text, or an
    unambiguous beginning of it; ``note`` and ``extra.KEY`` end what is kept. ``keep``: the ``note`` and each ``extra.KEY`` that
    later snapshots take over; a decision so named is affirmed as of now. ``about``: the paths, as seen from ``directory``, that
    all decisions given or affirmed here are about."""

    track: str | None = None
    step: str = ""
    note: str = ""
    next_cmd: str = ""
    validation: Validation = "pending"
    decisions: tuple[str, ...] = ()
    label: str | None = None
    extra: tuple[tuple[str, str], ...] = ()
    kind: Kind = "manual"
    agent: Agent | None = None
    carried: Carried | None = None
    files: bool = True
    set_current: bool = True
    include: tuple[str, ...] = ()
    going: tuple[str, ...] | None = None
    going_names: tuple[str, ...] = ()
    directory: str | None = None
    withdraw: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


@value
class SnapshotPlan:
    """Plan of a snapshot; ``apply`` records it. ``checkpoint.previous`` and ``created`` may still change. ``ended``: the
    decisions that it withdraws."""

    draft: SnapshotDraft
    request: Request
    warnings: tuple[str, ...]
    ended: tuple[Decision, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    quiet: bool = False  # LATEST is brought up to date only where it is

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint as planned."""
        return self.draft.checkpoint


@value
class Snapshot:
    """A recorded checkpoint, what should be said about it, the secrets that its words held, and the decisions that it
    withdrew."""

    stored: Stored
    warnings: tuple[str, ...]
    redacted: tuple[Redacted, ...] = ()
    ended: tuple[Decision, ...] = ()


@value
class Resumed:
    """A track's newest checkpoint; ``live`` is None unless asked for. ``since``: what has happened since its words were
    written, as far as it was looked at; None when they are its own and ``live`` was not asked for. ``changes``: what changed
    the files that its decisions are about, by the numbers of these."""

    stored: Stored
    live: Live | None
    warnings: tuple[str, ...]
    since: Since | None = None
    changes: Mapping[int, DecisionChanges] = NO_CHANGES


@value
class TrackStatus:
    """One track: its newest checkpoint against the present, and whether it is current in this work tree. ``remotes``: where
    it is from, while no checkpoint of here follows. ``place``: the work tree that it was compared with; None in a bare
    repository."""

    stored: Stored
    live: Live
    current: bool
    remotes: tuple[str, ...] = ()
    place: str | None = None


def _is_from(stored: Stored, place: WorktreeId | None) -> bool:
    """Whether a checkpoint holds files that were captured in a work tree of this machine."""
    files = stored.checkpoint.files
    return not stored.foreign and files is not None and place is not None and files.worktree.same(place)


def _age(stored: Stored) -> tuple[datetime, Oid]:
    return stored.checkpoint.created, stored.id


def system_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


class Baton:
    """An open repository.

    ``path``: any directory in it (default: the current one, with ``GIT_DIR`` and friends as git would take them).
    ``checkpoint_dir``: where LATEST lies (default: baton.checkpointDir, then ``runtime/checkpoints``).
    ``door``: ``binary``, ``libgit2``, or None for libgit2 where it can open the repository.
    ``clock``: gives the time of a snapshot, in UTC. ``repo``: an opened repository, instead of ``path``.
    ``settings``: instead of the repository's own. ``progress``: is told of long work, as ``("capturing files", done, total)``.
    Raises NotARepositoryError. A context manager.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        checkpoint_dir: str | None = None,
        door: Door | None = None,
        clock: Callable[[], datetime] = system_clock,
        repo: Repo | None = None,
        settings: config.Settings | None = None,
        progress: Progress = silent,
    ) -> None:
        self.repo: Repo = repo or discover(None if path is None else os.fspath(path), door=door, named=True)
        self.repo.progress = progress
        self.repo.prefetch_settings()
        self.store = Store(self.repo)
        self.clock = clock
        self._checkpoint_dir = checkpoint_dir
        self._settings = settings
        self._redactor: Redactor | None = None
        self._known: dict[Oid, Stands] | None = None  # what stands at tips, by their commits, as ``share`` says
        self._compared: tuple[Oid, Oid, bytes] = ("", "", b"")

    def __enter__(self) -> Baton:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close processes and handles."""
        self.repo.close()

    @property
    def passed(self) -> list[str]:
        """Warning of a bare repository that was passed over. No hint leads there: a stranger may have made it."""
        bare, root = self.repo.passed, self.repo.layout.root or ""
        return [f"{in_quotes(bare)}, a bare repository, lies in the work tree {in_quotes(root)}, which is used"] if bare else []

    @property
    def settings(self) -> config.Settings:
        """``baton.*`` of this repository."""
        if self._settings is None:
            self._settings = config.load(self.repo)
        return self._settings

    @property
    def redactor(self) -> Redactor:
        """Redactor of secrets in words, by baton.redact and baton.redactAllow. Raises UsageError."""
        if self._redactor is None:
            from gitbaton.base.secrets import Redactor

            self._redactor = Redactor(self.settings.redact, self.settings.redact_allow)
        return self._redactor

    def exported(self, items: Sequence[Stored]) -> tuple[Stored, ...]:
        """Checkpoints as they may stand in files and reach a model: older ones may hold secrets. Raises ScanError."""
        redact = self.redactor
        return tuple(replace(s, checkpoint=redact.checkpoint(s.checkpoint), restored=redact.text(s.restored)) for s in items)

    def share(self, other: Baton, known: dict[Oid, Stands]) -> None:
        """Share what is ``known`` to stand at tips of tracks, and with another Baton of this repository which texts hold no
        secret: for one command that tells several work trees of the same tracks."""
        ours, theirs = self.settings, other.settings
        self._known = known
        if (ours.redact, ours.redact_allow) == (theirs.redact, theirs.redact_allow):
            self._redactor = other.redactor

    def told(self, stored: Stored) -> Told | None:
        """Return the conversation around a checkpoint, as it may be shown; None where that is not stored here, or not readable.
        Raises ScanError."""
        own, turn = stored.checkpoint.observed, stored.checkpoint.imported
        if turn is not None:
            asked = Prompt(text=turn.prompt, at=turn.since)
            said = Prompt(text=turn.said, at=stored.checkpoint.created) if turn.said else None
            return self.redactor.told(Told(asked=(asked,), latest=asked, said=said))
        told, back = self._said(own.said if own else None), stored.back
        if back is None or not back.newer:
            return told
        from gitbaton.checkpoints.store.standing import gone_on

        for observed in reversed([s.checkpoint.observed for s in back.newer]):
            later = self._said(observed.said if observed else None)
            told = gone_on(told, later) if told is not None and later is not None else told or later
        return told

    def _said(self, oid: Oid | None) -> Told | None:
        if oid is None:
            return None
        try:
            found = self.repo.objects.read(oid, _MAX_TOLD)
            raw = found.data if found is not None and found.kind == "blob" and found.data else None
            return self.redactor.told(read_told(raw)) if raw is not None else None
        except (RecordError, GitError):
            return None

    @property
    def latest(self) -> mirror.LatestPlace | None:
        """Place of this work tree's LATEST files."""
        return mirror.place(self.repo, self._checkpoint_dir or self.settings.checkpoint_dir)

    def short(self, oid: Oid) -> str:
        """The first digits of a checkpoint's id; a name that any command takes."""
        return oid[: self.settings.short]

    def abbreviate(self, oid: Oid | None) -> str:
        """An object's id as git would abbreviate it; empty for None."""
        return self.repo.objects.abbreviate(oid, min(self.settings.short, len(oid))) if oid else ""

    def snapshot(self, step: str = "", *, track: str | None = None, **words: object) -> Snapshot:
        """Record a checkpoint: ``plan`` and ``apply`` in one. ``words`` are the other fields of Request; ``extra`` may be
        a mapping, and ``decisions``, ``withdraw``, ``about`` and ``keep`` any sequences of strings. Raises UsageError before
        anything is written."""
        extra = words.pop("extra", ())
        pairs = tuple(extra.items()) if isinstance(extra, Mapping) else extra
        for name in ("decisions", "withdraw", "about", "keep"):
            given = words.get(name, ())
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise UsageError(f"{name} must be a sequence of strings")
            words[name] = tuple(given)
        try:
            request = Request(step=step, track=track, extra=pairs, **words)  # type: ignore
        except TypeError as error:
            raise UsageError(str(error).replace("Request.__init__() ", "")) from None
        return self.apply(self.plan(request))

    def dry_run(self, request: Request) -> SnapshotPlan:
        """The plan of a snapshot, leaving nothing behind: this object can do nothing else afterwards."""
        import tempfile

        with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
            self.redirect(folder)
            return self.plan(request)

    def redirect(self, folder: str) -> None:
        """From now on write objects and files of our own into ``folder``, which the caller removes: for a dry run."""
        self.repo.redirect(folder)
        before, self.store = self.store, Store(self.repo)
        self.store.kept, self.store.facts = before.kept, before.facts

    def plan(self, request: Request, *, fresh: bool = False) -> SnapshotPlan:
        """Capture the work tree and put a checkpoint together; only objects are written that nothing refers to yet.

        ``fresh``: read every file anew, as after objects were lost.
        Raises UsageError for words that cannot be stored, ScanError when they cannot be scanned, GitError when the work tree
        cannot be captured.
        """
        from gitbaton.base.secrets import differences, told
        from gitbaton.checkpoints.store.write import SnapshotDraft, refuse_name

        if request.next_cmd.splitlines() not in ([], [request.next_cmd]):
            hint = "join commands with '&&'; what needs more lines goes into the note"
            raise UsageError("the next command has a line break: it is one line that can be run as it is", hint)
        _ = self.latest  # refuse a bad checkpoint directory before anything is written
        head, warnings = self.head()
        written = self._words(request, head)
        tip = self.store.before(written.track)
        here = self.here(tip) if tip is not None else None
        follow, about, ended = None, self._about(request), tuple[Decision, ...]()
        if request.kind == "manual":
            written, ended, follow, said = self._taking_over(request, written, tip, tuple(about))
            warnings += said
        encode(written)
        checkpoint = self.redactor.checkpoint(written)  # before the capture: a scanner that fails leaves no object
        redacted = differences(written, checkpoint) if checkpoint is not written else ()
        if tip is None or tip.foreign:
            with suppress(RecordError):  # one that cannot be read is there
                if self.store.own_tip(checkpoint.track) is None:
                    refuse_name(self.store, checkpoint.track)
        captured = self._capture(tip, head, request, fresh=fresh) if request.files and self.repo.layout.root else None
        if request.kind == "manual" and tip is not None and not tip.foreign:
            checkpoint = replace(checkpoint, observed=self._seen_before(here or tip))
            if captured is not None and (away := self.home(tip)) is not None:
                newest = f"its newest checkpoint was taken in the work tree {in_quotes(away)}"
                warnings.append(f"track {in_quotes(checkpoint.track)} goes on here from now on; {newest}")
        author, said = self.author()
        warnings += [
            *said,
            *([told(redacted)] if redacted else []),
            *([captured.warning] if captured and captured.warning else []),
        ]
        if captured and captured.blind:
            raise GitError(f"{captured.blind}; nothing is recorded")
        if request.files and self.repo.layout.root is None:
            warnings.append("this repository is bare: there are no files to take, and only the words are recorded")
        if head.branch is None:
            warnings.append("HEAD is detached; the checkpoint names no branch")
        if captured:
            warnings += self._unseen(about, captured.tree)
        files = self.file_state(captured) if captured else None
        draft = SnapshotDraft(
            checkpoint=replace(checkpoint, files=files),
            author=author,
            tree=captured.tree if captured else self.store.base_tree(head.oid),
            stages=captured.stages if captured else (),
            count_changed=self.count_changed,
            follow=follow,
        )
        quiet = request.kind == "auto"  # nobody asked for files
        return SnapshotPlan(draft=draft, request=request, warnings=tuple(warnings), ended=ended, redacted=redacted, quiet=quiet)

    def _taking_over(
        self, request: Request, new: Checkpoint, tip: Stored | None, about: tuple[str, ...]
    ) -> tuple[Checkpoint, tuple[Decision, ...], Follow, list[str]]:
        """New words with what stands on top of a track's newest checkpoint, the decisions that they withdraw, how they are
        fitted to another one that came in between, and what should be said. Raises UsageError, AmbiguousNameError."""
        from gitbaton.checkpoints.store import standing

        stands, words = self._stands(tip)
        given = standing.asked(
            stands, words, new, about=about, withdraw=request.withdraw, keep=request.keep, meant=self.redactor.text
        )
        over = standing.taken_over(new, words, stands, given)

        def follow(draft: SnapshotDraft, newest: Stored | None) -> Checkpoint:
            """Called with the lock held, so that nothing that was decided meanwhile is left out."""
            if newest is None or (tip is not None and newest.id == tip.id):
                return draft.checkpoint
            plain = replace(draft.checkpoint, note=new.note, decisions=new.decisions, extra=new.extra, standing=None)
            now, before = self._stands(newest)
            return self.redactor.checkpoint(standing.taken_over(plain, before, now, given))

        return over, standing.ended(stands, over), follow, standing.said(stands, given, over)

    def _stands(self, tip: Stored | None) -> tuple[Stands, Checkpoint | None]:
        """Return what stands on a track for words that are to be written, and the words that are here."""
        from gitbaton.checkpoints.store import standing

        here = self.here(tip) if tip is not None else None
        if tip is None or here is None or here.id == tip.id:
            return standing.at(self.store, tip, None), here.checkpoint if here else None
        return standing.stands(self.store, tip, here, None), here.checkpoint

    def _about(self, request: Request) -> dict[str, str]:
        """The paths that decisions are about, seen from the top of the work tree, each as it was given. Raises UsageError."""
        top, found = self.repo.layout.root, dict[str, str]()
        for path in request.about:
            if not path or "\0" in path:
                raise UsageError("a path that a decision is about is empty, or holds a NUL")
            if top is None:
                found[os.path.normpath(path)] = path
                continue
            there = os.path.normpath(os.path.join(request.directory or top, path))
            inside = os.path.relpath(there, top)
            if inside.split("/")[0] == "..":
                inside = os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(there)), os.path.basename(there)), top)
            if inside.split("/")[0] == "..":
                raise UsageError(f"{in_quotes(path)} is outside the work tree {in_quotes(top)}")
            found[inside] = path
        return found

    def _unseen(self, about: Mapping[str, str], tree: Oid) -> list[str]:
        """Warn of paths with changes that no checkpoint would tell."""
        top, said = self.repo.layout.root or "", list[str]()
        for inside, path in about.items():
            if inside == "." or lookup(self.repo.objects, tree, os.fsencode(inside)) is not None:
                continue
            there = os.path.lexists(os.path.join(top, inside))
            why = "is left out of checkpoints, so no change of it will be told" if there else "is not there yet"
            said.append(f"{path_in_quotes(path)} {why}")
        return said

    def head(self) -> tuple[Head, list[str]]:
        """Return HEAD and warnings: one with a commit that cannot be read counts as unborn."""
        head = self.repo.objects.head()
        with suppress(GitError):
            if not no_id(self.repo, head) and (head.oid is None or self.store.tree_of(head.oid) is not None):
                return head, []
        return replace(head, oid=None), ["HEAD's commit cannot be read; the checkpoint names none"]

    def home(self, stored: Stored) -> str | None:
        """The path of the other work tree in which a checkpoint was taken, while that exists; None where it was this one."""
        there = stored.checkpoint.files.worktree if stored.checkpoint.files else None
        here = questions.met(self.repo.layout.git_dir, self.repo.layout.root or "")
        if there is None or (here is not None and there.same(here)):
            return None
        return next((place.path for _, place in questions.others(self.repo) if place is not None and place.same(there)), None)

    def _seen_before(self, tip: Stored) -> Observed | None:
        """Return the observations until now, to stand beside the words; as far as ``baton.observe`` still wants them."""
        mode, seen = self.settings.observe, tip.checkpoint.observed
        if mode == "none" or seen is None:
            return None
        c = tip.checkpoint
        seen = replace(seen, milestone=c.created) if c.kind == "manual" and c.label is not None else seen
        return seen if mode == "all" else replace(seen, asked=(), said=None)

    def author(self) -> tuple[bytes, list[str]]:
        """``Name <email>`` of the user, or ours where git has no identity."""
        from gitbaton.checkpoints.store.write import NOBODY

        author = self.repo.identity()
        said = f"git knows no identity (user.name, user.email); the author is '{NOBODY.decode()}'"
        return (author, []) if author else (NOBODY, [said])

    def _words(self, request: Request, head: Head) -> Checkpoint:
        track = request.track if request.track is not None else self.settings.track
        return Checkpoint(
            track=check_track(track) if track is not None else self.chosen(),
            step=request.step or request.label or "",
            note=request.note,
            next_cmd=request.next_cmd,
            validation=request.validation,
            decisions=request.decisions,
            label=request.label,
            kind=request.kind,
            branch=head.branch,
            head=head.oid,
            created=self.clock(),
            extra=request.extra,
            agent=request.agent,
            carried=request.carried,
        )

    def rules(self, tip: Stored | None = None, held: Sequence[Oid] = ()) -> CaptureRules:
        """Return the rules for untracked files of a capture, on top of a track's newest checkpoint, if it is one of these.
        ``held``: trees of which all is taken in that was ignored until now."""
        from gitbaton.git.worktree.untracked import CaptureRules

        where = self.latest
        return CaptureRules(
            untracked=self.settings.untracked,
            max_size=self.settings.max_file_size,
            exclude=self.settings.exclude,
            never=frozenset(where.paths() if where and not mirror.foreign(where) else ()),
            past=lambda: self._past(tip, held),
            telling=config.WITH_TOKEN if self.settings.exclude[: len(config.EXCLUDE)] == config.EXCLUDE else {},
        )

    def _past(self, tip: Stored | None, held: Sequence[Oid]) -> Past:
        """Return what was ignored until now: by HEAD, and when the newest checkpoints of that and the current track were
        taken."""
        from gitbaton.git.worktree.untracked import Past, forgotten

        current, kept = self.store.current(), dict[str, str]()
        other = self._own_tip(current) if tip is None or current != tip.checkpoint.track else None
        newest_ones = [here for s in (tip, other) if s is not None and (here := self._taken_here(s)) is not None]
        for stored in newest_ones:
            files = stored.checkpoint.files
            kept |= {s.path: s.reason for s in files.skipped if s.reason == IGNORED} if files else {}
            if files and files.skipped_more:
                kept |= dict.fromkeys(paths_beside(self.store, stored, IGNORED.encode()) or (), IGNORED)
        trees, head = [s.tree for s in newest_ones], self.head()[0].oid
        held = (*held, *trees[:1])
        trees += [self.store.base_tree(head)] if head else []
        shut = {path: name for stored in newest_ones for path, name in self._shut(stored).items()}
        return Past(trees=tuple(dict.fromkeys(trees)), held=held, kept=kept, excludes=forgotten(self.repo), shut=shut)

    def _shut(self, stored: Stored) -> dict[str, str]:
        """The paths that did not pass their filter when a checkpoint was taken, each with its name."""
        files = stored.checkpoint.files
        if files is None or not files.held:
            return {}
        from gitbaton.git.worktree.heldbytes import read_held
        from gitbaton.git.worktree.rawbytes import read_raw

        side = beside(self.store, stored)
        kept = read_raw(self.repo.objects, side, b"held") if side is not None else {}
        found = {path: read_held(self.repo.objects, oid) for path, oid in kept.items()}
        return {path: held.driver for path, held in found.items() if held is not None and held.driver and not held.cleaned}

    def _taken_here(self, tip: Stored) -> Stored | None:
        """The newest checkpoint of a track, at or below one, that was taken in this work tree; where none was, the newest that
        is not foreign: a stranger's ignore rules have no say."""
        here, spare = questions.met(self.repo.layout.git_dir, self.repo.layout.root or ""), None
        for stored in (tip, *(self.store.below(tip, _PAST).items if not _is_from(tip, here) else ())):
            if _is_from(stored, here):
                return stored
            spare = spare or (stored if not stored.foreign and stored.checkpoint.files else None)
        return spare

    def _capture(self, tip: Stored | None, head: Head, request: Request, *, fresh: bool) -> Captured:
        from gitbaton.git.worktree.capture import capture, private_folder, with_raw
        from gitbaton.git.worktree.untracked import asked_for, divide_ignored

        kept = {self.store.base_tree(head.oid)} if head.oid else set()
        if tip and tip.checkpoint.files:
            kept.add(tip.checkpoint.files.index.tree)
        rules = self.rules(tip)
        if request.kind == "auto":
            rules = replace(rules, most=self.settings.max_untracked, held=lambda path, size: self._holds(tip, path, size))
        wanted = {}
        if request.include:
            wanted = asked_for(self.repo, request.directory, request.include)
            rules = replace(rules, include=frozenset(path for paths in wanted.values() for path in paths))
        with private_folder(self.repo) as folder:
            if request.going is not None:
                rules = replace(
                    rules,
                    going=divide_ignored(
                        self.repo, folder, rules, request.going, request.going_names, self.settings.guard_ignored
                    ),
                )
            captured, index, facts = capture(self.repo, folder, rules, kept, fresh=fresh)
            captured = with_raw(captured, index, facts, self._converted(tip, head, captured, folder))
        left = {s.path: s.reason for s in captured.skipped}
        for spec, paths in wanted.items():
            reasons = [covered(path.rstrip("/"), left) for path in paths]
            if reasons and reasons[0] is not None and None not in reasons:
                raise UsageError(f"{in_quotes(spec)} cannot be included: it {left_out(reasons[0])}")
        return captured

    def _converted(self, tip: Stored | None, head: Head, captured: Captured, folder: str) -> list[str]:
        """Return the files of a capture that git found unchanged, with bytes that may differ from a checkout's all the same:
        those of which the newest checkpoint kept such bytes, and those that attributes convert otherwise since."""
        from gitbaton.git.worktree.rawbytes import NAME, attributes_at, conversion_of, entries, local_attributes, read_kept

        files, found = tip.checkpoint.files if tip is not None else None, list[str]()
        if tip is not None and files is not None and (files.raw or files.held):
            side = beside(self.store, tip)
            found += read_kept(self.repo.objects, side) if side is not None else ()
        before = tip.tree if tip is not None else self.store.base_tree(head.oid) if head.oid else captured.tree
        local = attributes_at(self.repo, tip.checkpoint.created) if tip is not None and not tip.foreign else None
        names = b""
        with suppress(CollectedError):  # a tree that is torn is stored anew, of files that are all read then
            names = self._changed(before, captured.tree) if before != captured.tree else b""
        if f"{NAME}\0".encode() in names or (local is not None and not local.converts_as(local_attributes(self.repo))):
            then = conversion_of(self.repo, folder, before, captured.tree, local)
            found += (path for path, _, _ in then.turned(self.repo.git, entries(self.repo.git, captured.tree)))
        return found

    def _holds(self, tip: Stored | None, path: str, size: int) -> bool:
        """Whether a checkpoint's tree has a file of that size at a path."""
        entry = lookup(self.repo.objects, tip.tree, os.fsencode(path)) if tip is not None else None
        found = self.repo.objects.info(entry.oid) if entry is not None else None
        return found is not None and found.size == size

    def file_state(self, captured: Captured) -> FileState:
        """Return a capture as a checkpoint tells it; ``changed`` is counted when it is recorded."""
        index = IndexState(
            tree=captured.staged, flags=captured.flags, flags_more=captured.flags_more, unmerged=captured.unmerged
        )
        return FileState(
            tree=captured.tree,
            index=index,
            operation=self.repo.operation(),
            changed=0,
            skipped=captured.skipped,
            raw=len(captured.kept.raw),
            held=len(captured.kept.held),
            worktree=self.repo.worktree_id(),
        )

    def count_changed(self, before: Oid, after: Oid) -> int:
        """Count the paths that differ between two trees."""
        return self._changed(before, after).count(b"\0")

    def changed_paths(self, before: Oid, after: Oid, most: int) -> list[str]:
        """List the paths that differ between two trees; none where they are more than so many."""
        found = self._changed(before, after).split(b"\0")[:-1] if before != after else []
        return [os.fsdecode(path) for path in found] if len(found) <= most else []

    def _changed(self, before: Oid, after: Oid) -> bytes:
        """The names that git lists; a hook asks for those of one pair twice."""
        if (before, after) != self._compared[:2]:
            options = ("-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none")
            result = self.repo.git.run("diff-tree", *options, before, after)
            if result.code != 0:  # the tree before cannot be read: then all is new
                result = self.repo.git.run("ls-tree", "-r", "-z", "--name-only", after)
            if result.code != 0:
                raise CollectedError(f"an object is not here, or torn: {result.fatal()}", MENDS)
            self._compared = before, after, result.out
        return self._compared[2]

    def apply(self, plan: SnapshotPlan) -> Snapshot:
        """Record a planned checkpoint: the chain first, then what is derived from it. Where git has collected an object of it,
        or a power cut has torn one, the work tree is captured once more, each file read anew. Raises BatonError."""
        files = plan.request.files and self.repo.layout.root is not None
        hollow = self._torn() if files else {}
        try:
            return self._record(plan if not hollow else self._afresh(plan, hollow))
        except CollectedError:
            if not files or hollow:
                raise
            from gitbaton.git.damage import torn

            again = self._afresh(plan, torn(self.repo))
        return self._record(again)

    def _torn(self) -> Mapping[Oid, str]:
        if is_known(self.repo.shared_dir):
            return {}
        from gitbaton.git.damage import since_start

        return since_start(self.repo)

    def _afresh(self, plan: SnapshotPlan, torn: Mapping[Oid, str]) -> SnapshotPlan:
        """The same checkpoint with files that were read anew, once torn objects are out of the way."""
        from gitbaton.git.damage import set_aside

        moved = set_aside(self.repo, torn)
        fresh = self.plan(plan.request, fresh=True)
        now = fresh.draft.checkpoint
        checkpoint = replace(plan.draft.checkpoint, files=now.files, branch=now.branch, head=now.head)
        draft = replace(plan.draft, checkpoint=checkpoint, tree=fresh.draft.tree, stages=fresh.draft.stages, fresh=True)
        return replace(
            plan, draft=draft, warnings=(*plan.warnings, *(f"{said}; what the files hold is stored anew" for said in moved))
        )

    def _record(self, plan: SnapshotPlan) -> Snapshot:
        from gitbaton.checkpoints.store.write import append, contents
        from gitbaton.git.maintenance import tend

        track = plan.checkpoint.track
        warnings = list(plan.warnings)
        with contents(self.store, plan.draft) as draft, self.repo.lock((chain_ref(track), tip_ref(track), NOTES)):
            new = self.repo.objects.info(chain_ref(track)) is None
            known = None if state.pending(self.repo) else state.take_newest(self.repo)
            mirror.drop_mark(self.repo)
            if new and self.store.at_remotes(track):
                from gitbaton.checkpoints.store.revision import adopt

                warnings += adopt(self.store, track, plan.checkpoint.created)
                self.store.chains()  # it is a track of our own now
            stored = append(self.store, draft, warnings.append)
            self.repo.clear()
            try:
                if stored.checkpoint.head is not None:
                    questions.forget_rewrite(self.repo, stored.checkpoint.head)
                if plan.request.set_current:
                    self._make_current(track)
                files = stored.checkpoint.files
                staged = files.index.whole if files else None
                known = known.after(stored, new=new) if known else None
                if known:
                    state.keep_newest(self.repo, known)
                warnings += self._mirror(
                    lambda: state.show_newest(self.store, known), only_existing=plan.quiet, staged=staged, mark=self._mark()
                )
                if files:
                    from gitbaton.git.worktree.rawbytes import remember_attributes
                    from gitbaton.git.worktree.untracked import remember

                    remember(self.repo)
                    remember_attributes(self.repo, stored.checkpoint.created)
            except (BatonError, OSError) as error:
                warnings.append(f"the checkpoint is recorded, but not all that is derived from it: {os_error(error)}")
        if self.settings.sign:
            from gitbaton.checkpoints.store.signatures import sign_newest

            warnings += sign_newest(self.store, stored, automatic=stored.checkpoint.kind == "auto")
        tend(self.repo)
        return Snapshot(stored=stored, warnings=tuple(warnings), redacted=plan.redacted, ended=plan.ended)

    def _make_current(self, track: str) -> None:
        if self.repo.objects.symref(CURRENT) != tip_ref(track):
            self.repo.objects.set_symref(CURRENT, tip_ref(track))

    def _mirror(
        self, tips: Callable[[], tuple[History, int]], *, only_existing: bool = False, staged: Oid | None = None, mark: str = ""
    ) -> list[str]:
        """Bring LATEST and ``expect`` in line with the tracks; called with the lock held. ``tips``: those that LATEST names,
        and how many others there are; asked only where LATEST is not as it was left with this ``mark``."""
        current = self.store.current()
        tip = self._own_tip(current)
        head = self.here(tip).checkpoint.head if tip else None
        if head is not None and head != self.repo.objects.head().oid:
            head = questions.successor(questions.rewritten_commits(self.repo), head)
        self.repo.expect(head)
        if tip is not None and os.path.isdir(os.path.join(self.repo.layout.common_dir, "worktrees")):
            mirror.expect_elsewhere(self.repo, tip.checkpoint)
        where = self.latest
        if where is None:
            return []

        def told() -> mirror.LatestContent:
            return self._latest_content(tips(), tip, current)

        return mirror.refresh(self.repo, where, told, only_existing=only_existing, staged=staged, mark=mark)

    def _own_tip(self, track: str | None) -> Stored | None:
        """The newest checkpoint of a track that this repository has itself; None also where it cannot be read."""
        try:
            return self.store.own_tip(track) if track else None
        except RecordError:
            return None

    def _latest_content(self, found: tuple[History, int], tip: Stored | None, current: str | None) -> mirror.LatestContent:
        """Return the content of LATEST: the newest tracks, and the current one, wherever it stands among them."""
        tips, more = found
        items = tips.items
        if tip is not None and more and all(s.checkpoint.track != current for s in items):
            items, more = (*items, tip), more - 1
        wrong = f"{in_quotes(tips.problems[0].where)}: {tips.problems[0].reason}" if tips.problems else ""
        named = self.exported(self._here(items))
        return mirror.LatestContent(tips=named, more=more, current=current, generated=timestamp(self.clock()), wrong=wrong)

    def _mark(self) -> str:
        """Return the cache key of LATEST; empty means do not cache."""
        layout = self.repo.layout
        step = self.repo.objects.info(safety_ref(layout.git_dir, layout.common_dir))
        words = (self.store.current(), step.oid if step else "", self.settings.redact, *self.settings.redact_allow)
        return state.mark(self.repo, words)

    def latest_is_stale(self) -> bool:
        """Whether LATEST.json is there and says something else than the tracks do."""
        where, current = self.latest, self.store.current()
        if where is None:
            return False
        return mirror.is_stale(where, self._latest_content(state.show_newest(self.store), self._own_tip(current), current))

    def refresh(self, *, only_existing: bool = False, track: str | None = None) -> list[str]:
        """Repair what is derived from the chains, and LATEST; a repository that cannot be written is left as it is.

        ``track``: only of this one, and of those that LATEST names where it has to be written.
        """
        try:
            with self.repo.lock((), wait=2.0):
                warnings = self.store.settle()

                def repaired(items: Iterable[Stored]) -> None:
                    for stored in self.store.behind(items):
                        from gitbaton.checkpoints.store.write import repair

                        repair(self.store, stored, warnings.append)

                def tips() -> tuple[History, int]:
                    found = state.show_newest(self.store)
                    repaired(found[0].items)
                    return found

                own = self._own_tip(track)
                repaired(self.store.lagging() if track is None else [own] if own is not None else [])
                return warnings + self._mirror(tips, only_existing=only_existing, mark=self._mark())
        except (BatonError, OSError) as error:
            return [f"nothing is refreshed: {os_error(error)}"]

    def tip(self, track: str | None = None) -> Stored:
        """The newest checkpoint of a track: of the one named, the current one, or the only one.

        Raises NotFoundError, or AmbiguousNameError that lists the tracks.
        """
        if track is not None:
            stored = self.store.readable(check_track(track))
            if stored is None:
                raise NotFoundError(f"there is no track {in_quotes(track)}", *self._instead(track))
            return stored
        current = self.store.current()
        stored = self.store.readable(current) if current else None
        if stored is not None:
            return stored
        if current:
            raise NotFoundError(f"the current track {in_quotes(current)} has no checkpoint any more", *self._instead(current))
        chains = self.store.meant()
        if not chains:
            raise self.store.none()
        if len(chains) > 1:
            raise AmbiguousNameError("no track is current in this work tree; name one with --track", *self._others())
        return self.tip(chains[0])

    def chosen(self, given: str | None = None, *, automatic: bool = False) -> str:
        """The track that is meant in this work tree where none is named, as ``checkpoints.store.read`` has it. Raises
        UsageError."""
        return read.choose(self.store, self.settings.track, given, automatic=automatic)

    def lead(self, name: str | None = None, track: str | None = None) -> Stored:
        """The checkpoint that a verb begins with: what ``name`` means, a track before anything else; else as ``tip``.

        Raises as ``resolve`` and ``tip``.
        """
        if name is None:
            return self.tip(track)
        try:
            stored = self.store.readable(check_track(name)) if track is None else None
        except UsageError:  # no track can be called so
            stored = None
        return stored or self.resolve(name, track)

    def is_track(self, name: str) -> bool:
        """Whether a name is a track's, here or as fetched."""
        try:
            return self.store.has(check_track(name))
        except UsageError:  # no track can be called so
            return False

    def _instead(self, track: str) -> list[str]:
        """Return hints for a track that is not here: how it comes back where it was deleted, or which there are."""
        from gitbaton.checkpoints.names import comes_back

        return comes_back(self.store, track) or self._others()

    def _others(self) -> list[str]:
        listed = {*self.store.chains()[0], *(s.checkpoint.track for s in self.readable_tips().items)}
        tracks = [in_quotes(track) for track in sorted(listed)]
        more = f" and {len(tracks) - 20} more: git baton tracks" if len(tracks) > 20 else ""
        said = f"{'the track is' if len(tracks) == 1 else 'the tracks are'} {', '.join(tracks[:20])}{more}"
        return [said if tracks else TAKE_ONE]

    def resume(self, track: str | None = None, *, live: bool = False, name: str | None = None) -> Resumed:
        """Return the newest checkpoint of a track, or the one that ``name`` means, and with ``live`` its drift.

        Also repairs what is derived from the chains and refreshes LATEST. Raises NotFoundError, AmbiguousNameError.
        """
        try:
            stored = self._begun(name, track)
        except BatonError:
            if name is None and os.path.isdir(self.repo.shared_dir):  # LATEST of a track that was removed elsewhere
                self.refresh(only_existing=True, track=track or self.store.current() or "")
            raise
        found = self._surveyor().live(stored) if live else None
        missed = uncompared(found) if found else ()
        since = found.since if found else None
        if found is None and stored.checkpoint.carried is not None:
            since = Surveyor(self.store, self.settings.short).recorded(stored, self.count_changed)
        tip = self._own_tip(stored.checkpoint.track) if name is not None else None
        return Resumed(
            stored=stored,
            changes=self.decision_changes(stored),
            live=found,
            warnings=(*missed, *self.refresh(track=stored.checkpoint.track), *self.newer([tip or stored])),
            since=since,
        )

    def here(self, stored: Stored) -> Stored:
        """A track's newest checkpoint as it is in this work tree: the one that a restore brought back, with what was taken
        back, while nothing has followed it; else the very same one."""
        return self._here((stored,), stored.checkpoint.track)[0]

    def _here(self, items: Sequence[Stored], track: str | None = None, *, brief: bool = False) -> list[Stored]:
        """Return several tracks as ``here`` does; ``track``: the only one; ``brief``: without what others decided."""
        items = items if brief else self.all_standing(items)
        layout = self.repo.layout
        told = any(s.checkpoint.carried is not None and s.checkpoint.carried.restored for s in items)
        if not told and self.repo.objects.info(safety_ref(layout.git_dir, layout.common_dir)) is None:
            return list(items)  # nearly always
        from gitbaton.checkpoints.store.standing import last_steps, stance

        steps = last_steps(self.store, track)
        found = [stance(self.store, stored, steps) for stored in items]
        return [
            replace(one.stored, restored=restored(one.stored, one.step, one.back, one.paths, one.came), back=one.back)
            for one in found
        ]

    def _begun(self, name: str | None, track: str | None) -> Stored:
        """Return the checkpoint of ``lead``, and where that is the newest of a track as it is in this work tree."""
        stored = self.lead(name, track)
        newest = name is None or (track is None and self.is_track(name))
        return self.here(stored) if newest else self.with_standing(stored)

    def with_standing(self, stored: Stored) -> Stored:
        """A checkpoint with all decisions that stood at it: where others' checkpoints were joined, with theirs, too. The very
        same one where its own words say it."""
        return self.all_standing((stored,))[0]

    def all_standing(self, items: Sequence[Stored]) -> list[Stored]:
        """Several checkpoints, each as ``with_standing`` has it."""
        asked = [s for s in items if s.foreign or self.store.ours.mixed(s.checkpoint.track)]
        if not asked:
            return [*items]
        from gitbaton.checkpoints.store import standing

        stands = {} if self._known is None else self._known
        fresh = [s for s in asked if s.commit not in stands]
        stands |= dict(zip((s.commit for s in fresh), standing.several(self.store, fresh), strict=True))
        return [
            replace(s, checkpoint=standing.shown(s.checkpoint, stands[s.commit])) if s.commit in stands else s for s in items
        ]

    def decision_changes(self, stored: Stored) -> Mapping[int, DecisionChanges]:
        """Return what changed the files that a checkpoint's decisions are about since they were made, and which of them are
        others in this work tree; costs nothing where there are none. What cannot be compared is left out."""
        tied = [one for one in stored.checkpoint.decided if one.about]
        if not tied:
            return NO_CHANGES
        from gitbaton.checkpoints.store import standing

        found = dict[int, DecisionChanges]()
        with suppress(GitError, RecordError):
            found = standing.changes(self.store, stored, tied)
            paths = self._surveyor().edited(stored, [path for one in tied for path in one.about])
            for one in tied if paths else ():
                here = tuple(standing.touches(one.about, paths))
                found[one.number] = replace(found[one.number], edited=here)
        return found

    def withdrew(self, stored: Stored) -> tuple[Decision, ...]:
        """The decisions that a checkpoint withdrew, as far as the one below it still has their texts."""
        c = stored.checkpoint
        if c.standing is None or c.carried is not None or all(one.at for one in c.standing.withdrawn):
            return ()
        from gitbaton.checkpoints.store import standing

        below = self.store.below(stored, 2).items[1:]
        return standing.ended(standing.at(self.store, below[0]), c) if below else ()

    def newer(self, tips: Iterable[Stored]) -> list[str]:
        """Warn of remotes that have newer checkpoints of tracks; nothing where nothing was fetched."""
        tips = [(self._own_tip(s.checkpoint.track) if s.restored else None) or s for s in tips]
        one = tips[0].checkpoint.track if len(tips) == 1 else None
        if one is not None:
            elsewhere = {one: chains} if (chains := self.store.at_remotes(one)) else {}
        else:
            elsewhere = self.store.elsewhere()
        if not elsewhere:
            return []
        return [found.sentence for found in read.newer(self.store, elsewhere, tips, self.clock())]

    def _surveyor(self, *, brief: bool = False) -> Surveyor:
        return Surveyor(self.store, self.settings.short, self.rules(), brief=brief)

    def verify(self, track: str | None = None, *, name: str | None = None, words: bool = False) -> tuple[Stored, Live]:
        """A track's newest checkpoint, or the one that ``name`` means, against the present; writes nothing. ``words``: as it
        stood where the words were written that it carries.

        Raises as ``lead``.
        """
        stored, surveyor = self._begun(name, track), self._surveyor()
        live = surveyor.live(stored)
        return (surveyor.written(stored), live.words) if words and live.words is not None else (stored, live)

    def status(self, *, brief: bool = False, most: int | None = None) -> tuple[list[TrackStatus], History]:
        """All tracks, newest first and those dated in the future last, and their newest checkpoints with what in our namespace
        is not ours. Each is held against the work tree that its newest checkpoint was taken in, while that exists, else against
        this one. ``brief``: for a table, which tells neither what others decided nor which paths were committed otherwise.
        ``most``: no more tracks than these, the current one among them."""
        tips = self.readable_tips()
        current = self.store.current()
        limit = self.clock() + read.SLACK  # a clock that is wrong elsewhere must not put its tracks before all others
        items = sorted(tips.items, key=lambda s: s.checkpoint.created > limit)
        if most is not None:
            first = {s.checkpoint.track for s in sorted(items, key=lambda s: s.checkpoint.track != current)[:most]}
            items = [s for s in items if s.checkpoint.track in first]
        found = []
        for stored, live, place in self._at_home(items, brief=brief):
            track = stored.checkpoint.track
            remotes = self.store.origins(track)
            if stored.foreign and not remotes:  # joined, and nothing of here follows yet
                remotes = tuple(remote for remote, oid in self.store.elsewhere().get(track, ()) if oid == stored.commit)
            found.append(TrackStatus(stored=stored, live=live, current=track == current, remotes=remotes, place=place))
        return found, tips

    def readable_tips(self) -> History:
        """The newest checkpoint of each track that can be read, newest first, and what is wrong elsewhere."""
        return self._lowered(self.store.all_tips(), 1, self.store)

    def _lowered(self, found: History, limit: int | None, store: Store) -> History:
        """A history with what can still be read of the tracks that are left out of it, as ``store`` sees it."""
        lower: list[Stored] = []
        lost: list[Problem] = []
        for problem in found.problems:
            track = track_of(problem.where)
            try:
                stored = self.store.readable(track) if track is not None else None
            except RecordError:
                stored = None
            if stored is None:
                lost.append(problem)
            else:
                lower += store.below(stored, limit).items
        items = tuple(sorted((*found.items, *lower), key=_age, reverse=True)) if lower else found.items
        return replace(found, items=items, problems=tuple(lost))

    def _at_home(self, items: Sequence[Stored], *, brief: bool) -> list[tuple[Stored, Live, str | None]]:
        """Each checkpoint against the work tree that it was taken in, or this one: as it is there (``here``), and where that
        is."""
        layout = self.repo.layout
        place_here = questions.met(layout.git_dir, layout.root or "")
        taken = {n: s.checkpoint.files.worktree for n, s in enumerate(items) if s.checkpoint.files is not None}
        away = {n: place for n, place in taken.items() if place_here is None or not place.same(place_here)}
        from gitbaton.git.worktree.index import list_ahead

        with ExitStack() as stack:
            homes: list[tuple[Baton, list[int]]] = []
            for git_dir, place in questions.others(self.repo) if away else ():
                numbers = [n for n, known in away.items() if place is not None and known.same(place)]
                baton = self._neighbour(git_dir, place) if numbers and place is not None else None
                if baton is not None:
                    homes.append((stack.enter_context(baton), numbers))
                    away = {n: known for n, known in away.items() if n not in numbers}
            left = {*range(len(items))}.difference(n for _, numbers in homes for n in numbers)
            homes.append((self, sorted(left)))
            surveyors = [baton._surveyor(brief=brief) for baton, _ in homes]
            for other, _ in homes[:_LOOKS]:  # git looks at some of these while others, and what it has told, are compared
                list_ahead(other.repo, entries=True)
            if len(items) > _FEW:
                from gitbaton.git.ancestry import Ancestry

                heads = [head for s in items for head in (s.checkpoint.head, s.checkpoint.place.oid)]
                heads += [one.head.oid for one in surveyors]
                ancestry = Ancestry(self.repo, filter(None, heads))
                for surveyor in surveyors:
                    surveyor.follow(surveyors[0], ancestry)
                surveyors[0].learn((oid for s in items for oid in compared(s)), heads)
            here = [baton._here([items[n] for n in numbers], brief=brief) for baton, numbers in homes]
            if len(items) > _FEW:
                asked = list(zip(surveyors, here, strict=True))
                stack.enter_context(surveyors[0].learn_files(asked))
                surveyors[0].learn_commits(asked)
            found: dict[int, tuple[Stored, Live, str | None]] = {}
            for at, ((baton, numbers), there, surveyor) in enumerate(zip(homes, here, surveyors, strict=True)):
                for other, _ in homes[at : at + _LOOKS]:
                    list_ahead(other.repo, entries=True)
                lives = surveyor.lives(there, tests=True)
                found |= {n: (s, live, baton.repo.layout.root) for n, s, live in zip(numbers, there, lives, strict=True)}
        return [found[n] for n in range(len(items))]

    def _neighbour(self, git_dir: str, place: WorktreeId) -> Baton | None:
        """Another work tree of this repository, opened; None where something else has taken its place."""
        repo = neighbour(self.repo, git_dir, place.path)
        return Baton(repo=repo, clock=self.clock) if repo is not None else None

    def history(
        self,
        track: str | None = None,
        *,
        limit: int | None = None,
        everything: bool = False,
        name: str | None = None,
        wanted: Selection | None = None,
        brief: bool = False,
    ) -> History:
        """Checkpoints, newest first: of one track (default: as ``tip``), from the one that ``name`` means on, or of all;
        of them those that are ``wanted``, also safety checkpoints if that asks for them. ``brief``: all of them as
        ``store.whole`` has it, by ``store.surely``.

        Raises NotFoundError, and GitError for pathspecs that git does not understand.
        """
        store = self.store if wanted is None else self._picking(wanted)
        start: Stored | None = None
        kinds = wanted.kinds if wanted is not None else ()
        asks = "imported" in kinds and track is None and name is None  # they are of no track
        if asks and len(set(kinds)) == 1:
            of, found = None, History(items=())
        elif everything:
            of, found = None, self._lowered(store.whole(limit, brief=brief), limit, store)
        elif name is not None and (track is not None or not self.is_track(name)):
            start = self.lead(name, track)
            of, found = start.checkpoint.track, self._of_remote(store, name, limit) or store.below(start, limit)
        else:
            named = track if name is None else name
            of = self.tip().checkpoint.track if named is None else check_track(named)
            found = self._of_track(store, of, limit)
        if asks or (everything and not kinds):
            from gitbaton.checkpoints.store import imported, selection

            turns = imported.records(self.store, limit if wanted is None else None)
            picked = [s for s in turns.items if wanted is None or selection.wants(wanted, s.raw)]
            items = tuple(sorted((*found.items, *picked), key=_age, reverse=True)) if picked else found.items
            found = replace(found, items=items, problems=(*found.problems, *turns.problems))
        if wanted is None or "safety" not in wanted.kinds:
            return replace(found, items=found.items[:limit])
        from gitbaton.checkpoints.names import renamed
        from gitbaton.checkpoints.store.standing import called_now

        chains = [store.chain(ref, None) for ref in self.store.objects.refs(SAFETY)]
        steps = [s for chain in chains for s in chain.items]
        more = (s for s in called_now(steps, renamed(self.store) if steps else ()) if of in (None, s.checkpoint.track))
        more = (s for s in more if start is None or s.checkpoint.created <= start.checkpoint.created)
        problems = (*found.problems, *(problem for chain in chains for problem in chain.problems))
        items = tuple(sorted((*found.items, *more), key=_age, reverse=True)[:limit])
        return replace(found, items=items, problems=problems)

    def _of_remote(self, store: Store, name: str, limit: int | None) -> History | None:
        """Return what was fetched of ``REMOTE/TRACK``; None where the name is none."""
        if "/" not in name or not store.elsewhere():
            return None
        there = read.addresses(store).get(name)
        return read.history_at(store, *there, limit) if there is not None else None

    def _of_track(self, store: Store, track: str, limit: int | None) -> History:
        """A track as ``store`` sees it, from the newest checkpoint on that can be read."""
        try:
            return store.history(track, limit)
        except NotFoundError as error:
            raise NotFoundError(error.message, *self._instead(track)) from None
        except RecordError:
            stored = self.store.readable(track)
            if stored is None:
                raise
            return store.below(stored, limit)

    def _picking(self, wanted: Selection) -> Store:
        """The store as one that only sees what is wanted."""
        from gitbaton.checkpoints.store import selection

        store = Store(self.repo)
        selection.check(store, wanted)
        store.pick = lambda starts, limit: selection.picked(self.store, wanted, starts, limit)
        return store

    def resolve(self, name: str | None = "@", track: str | None = None) -> Stored:
        """The checkpoint that a name means, as ``checkpoints.names`` has it; without one that of ``tip``. ``@`` stands for
        ``track`` if one is given.

        Raises NotFoundError, AmbiguousNameError.
        """
        if name is None:
            return self.tip(track)
        from gitbaton.checkpoints import names

        at = check_track(track) if track is not None else None
        return names.resolve(self.store, name, self.settings.short, at, later=self.under_way)

    def under_way(self, track: str) -> UnderWay | None:
        """The turn of a track that goes on in this work tree, or was cut short, where it has changed files since the newest
        checkpoint; ``TRACK~1`` is that checkpoint then."""
        if not os.path.isdir(os.path.join(self.repo.layout.git_dir, "baton", "sessions")):
            return None  # nearly always where no agent was
        from gitbaton.checkpoints.store.turns import under_way

        return under_way(self.store, track, self.rules)

    def current(self) -> str | None:
        """The current track of this work tree."""
        return self.store.current()

    def use(self, track: str) -> list[str]:
        """Make a track current in this work tree; what could not be refreshed comes back. Raises NotFoundError."""
        stored = self.tip(track)
        with self.repo.lock(()):
            self._make_current(stored.checkpoint.track)
        return self.refresh(track=stored.checkpoint.track)
