"""Capture: the work tree and the index as trees, through a private index, with a reason for every path left out."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.errors import DamagedIndexError, GitError, StaleError
from gitbaton.base.model import IGNORED_HELD, Flag, Oid, Skipped, covered
from gitbaton.base.system.files import READ, closing_fd, memory_file, open_file
from gitbaton.base.system.process import Result, remove_later
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.git.loose import index_anew
from gitbaton.git.objects import NewObject, Objects, lookup, new_object, parse_commit
from gitbaton.git.repo import Repo, clear_old, make_folder, silent
from gitbaton.git.run import checked, signature, zsplit
from gitbaton.git.worktree.filetrees import EXECUTABLE, FILE, LINK
from gitbaton.git.worktree.gate import filters, gated, has_attributes, may_have_attributes, requiring
from gitbaton.git.worktree.heldbytes import HeldOid, HeldStore, read_held
from gitbaton.git.worktree.index import (
    DENIED,
    FILTER,
    IndexFacts,
    PrivateIndex,
    fresh_index,
    index_entries,
    listed,
    modified,
    real_links,
    stages_tree,
)
from gitbaton.git.worktree.modes import Modes, survey
from gitbaton.git.worktree.rawbytes import KeptBytes, conversions, keep
from gitbaton.git.worktree.untracked import (
    CaptureRules,
    filtered_until_now,
    inside_gitlinks,
    ours,
    regular,
    sort_out,
    special,
    specials,
)

if TYPE_CHECKING:
    from gitbaton.git.worktree.checkout import GitEntry

ROOM = "held-index"  # beside the stages: stand-ins for entries of the index
_FEW = 500
_FILES = 100  # of more changes git makes one pack, and not a file of each
_ATTEMPTS = 4
_ONE_BY_ONE = 200
_AGAIN = "again"
_PATIENCE = 3  # files that a filter may fail on before no other is tried
_FATAL = re.compile(r"^fatal: ", re.M)
_CLOSED = re.compile(r"^warning: could not open directory '(.*)/': ", re.M)
_LEFTOVER_SECONDS = 3600.0
OURS = re.compile(r"[0-9]+\.[0-9]+(?:\.gone)?\Z")
"""What folders of ours that are removed again are called in the git directory."""


@value
class Captured:
    """The work tree as ``tree``; the index as ``staged`` (its stage-0 entries), flags and unmerged stages.

    ``flags_more`` are flags that ``flags`` has no room for; a blob in ``stages`` then holds them all. ``stages`` are objects
    not yet written, the last one the tree ``1/ 2/ 3/ flags raw/ held/`` of an index commit's second parent; ``kept`` are the
    files with bytes, or stand-ins for them, in it, because a checkout of ``tree`` would not give them back; ``shut`` are the
    paths that their filter did not clean, and ignored ones that are held: git always finds them changed; ``modes`` are the
    permissions that are narrower than a checkout would give; ``links`` are symbolic links where core.symlinks says that there
    are none. ``warning``: what should be said of the capture; ``blind``: why it had better not be recorded.
    """

    tree: Oid
    staged: Oid
    flags: tuple[Flag, ...]
    flags_more: int
    unmerged: int
    stages: tuple[NewObject, ...]
    kept: KeptBytes
    shut: frozenset[str]
    modes: Modes
    links: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    warning: str = ""
    blind: str = ""


class _IndexChanges:
    """The differences to the index: tracked paths, untracked ones, and what to leave alone.

    ``tracked`` is None when git could not say, so that it must look at everything; ``never`` are untracked paths of ours.
    """

    def __init__(self) -> None:
        self.tracked: list[str] | None = []
        self.untracked: list[str] = []
        self.never: list[str] = []
        self.skipped: list[Skipped] = []

    def __bool__(self) -> bool:
        return self.tracked is None or bool(self.tracked or self.untracked)

    def few(self) -> list[str] | None:
        """Return all the paths, when they are few enough to be named one by one, and no attributes are among them that may
        be gone: by those in the index git may have found other files unchanged."""
        if self.tracked is None or len(self.tracked) + len(self.untracked) > _FEW:
            return None
        if any(p.rpartition("/")[2] == ".gitattributes" for p in self.tracked):
            return None
        return [*self.tracked, *(p.rstrip("/") for p in self.untracked)]


@contextmanager
def private_folder(repo: Repo) -> Iterator[str]:
    """Provide a folder of our own in the git directory; what killed processes left there goes after an hour. Raises
    GitError."""
    parent = os.path.join(repo.own_dir, "tmp")
    folder = os.path.join(parent, f"{os.getpid()}.{time.monotonic_ns()}")
    try:
        make_folder(repo, parent)
        os.mkdir(folder, 0o700)  # in a shared repository, too: a file that only its owner may read can lie in it
    except OSError as error:
        raise GitError(f"'{parent}' cannot be written: {error.strerror}") from None
    since = time.time() - _LEFTOVER_SECONDS
    clear_old(repo, parent, lambda name, s: bool(OURS.match(name)) and s.st_mtime < since and not _lives(name))
    try:
        yield folder
    finally:
        remove_later(folder)


def _lives(name: str) -> bool:
    """Whether the process runs that a folder's name begins with: a step may take longer than an hour."""
    number = name.partition(".")[0]
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def capture(
    repo: Repo, folder: str, rules: CaptureRules, reachable: Collection[Oid], *, fresh: bool = False
) -> tuple[Captured, PrivateIndex, IndexFacts]:
    """Store the state of the work tree and index of ``repo`` now as objects; return it, the private index that the tree was
    written from, with stat data that fits the work tree, and the facts of the real index.

    Equal to ``git add -A`` on a private index, plus edits that assume-unchanged and skip-worktree hide, less what ``rules`` and
    the file system refuse. ``reachable`` are trees known to be kept by gc (see PrivateIndex.facts). The real index is read and
    never written. The private one is in ``folder`` and may still be the real one, to be read only, until it is copied. Raises
    GitError.

    ``fresh``: as if the index were HEAD's, each file read anew. So it is, with a warning, where git cannot read the index.
    """
    read = signature(repo.layout.index, 0)
    try:
        return _from_index(repo, folder, rules, reachable, fresh_index(repo, folder) if fresh else repo.layout.index)
    except DamagedIndexError as error:
        if fresh:
            raise DamagedIndexError(error.message, index_anew(repo.layout.index)) from None
        found = _from_index(repo, folder, rules, reachable, fresh_index(repo, folder))
        said = f"{error.message}; every file was read anew, and what was staged is not in it"
        return replace(found[0], warning=said), *found[1:]
    except GitError:
        if fresh or (os.path.basename(folder) == _AGAIN and signature(repo.layout.index, 0) == read):
            raise
    # Git has collected what the index named that was read, or what it found stored already.
    again = os.path.join(folder, _AGAIN)
    make_folder(repo, again)
    return capture(repo, again, rules, reachable)


def _from_index(
    repo: Repo, folder: str, rules: CaptureRules, reachable: Collection[Oid], source: str
) -> tuple[Captured, PrivateIndex, IndexFacts]:
    root = repo.layout.root
    if root is None:
        raise GitError(f"'{repo.layout.git_dir}' has no work tree")
    repo.progress("looking at files", 0, 0)
    for attempt in range(_ATTEMPTS):
        index = PrivateIndex(repo, source, os.path.join(folder, f"{os.path.basename(source)}.{attempt}"))
        index.git = repo.writing(index.git)
        if attempt:  # somebody writes the index while we read: stay on a copy
            index.copy()
        facts = index.reveal(index.facts(reachable), root)
        changes = _look(index, facts, folder, root, rules)
        index.cover(changes.untracked)
        if changes or facts.stages or rules.going[0]:
            index.copy()
        if index.whole():
            break
    return _captured(index, facts, _Intake(index, facts, folder, root, rules, changes)), index, facts


def _captured(index: PrivateIndex, facts: IndexFacts, intake: _Intake) -> Captured:
    skipped = [*intake.changes.skipped, *(Skipped(path=path, reason="unreadable") for path in facts.lost)]
    doubt = doubtful(index, facts, intake.root, intake.changes.untracked)
    if doubt:
        index.copy()
        intake.doubt(doubt)
    if intake.changes or doubt:
        skipped += intake.run()
    skipped += intake.hold_ignored() if any(intake.rules.going) else []
    index.repo.progress("storing files", 0, 0)
    moved = intake.changes or doubt or intake.going
    tree = _tree(index, facts, skipped) if moved or facts.stages else facts.tree
    kept = keep(index, tree, intake.examined()) | intake.kept if moved else KeptBytes()
    if doubt:
        facts, more = with_stand_ins(index, facts, doubt)
        kept = replace(kept, staged=tuple(more))
    modes, links = survey(index, intake.root, intake.touched()), real_links(index, intake.root)
    skipped += inside_gitlinks(index, facts, intake.root, changed=bool(intake.changes))
    unique = {s.path.rstrip("/"): s for s in reversed(skipped)}
    ordered = sorted(unique.items(), key=lambda item: os.fsencode(item[0]))
    left = tuple(Skipped(path=path, reason=s.reason) for path, s in ordered)
    return Captured(
        tree=tree,
        staged=facts.tree,
        flags=listed(facts.flags),
        flags_more=len(facts.flags) - len(listed(facts.flags)),
        unmerged=len({path for _, path, _, _ in facts.stages}),
        stages=_stages(index, facts, kept, left, modes, links),
        kept=kept,
        shut=frozenset((*intake.shut, *intake.going)),
        modes=modes,
        links=links,
        skipped=left,
        blind=_blind(index, {path: s.reason for path, s in unique.items() if s.reason == "unreadable"}),
    )


def _blind(index: PrivateIndex, unreadable: Mapping[str, str]) -> str:
    """Return a warning if more than half of the tracked files cannot be read; one that is missing was deleted."""
    tracked = zsplit(index.git.out("ls-files", "-z")) if unreadable else []
    shut = sum(covered(path, unreadable) is not None for path in tracked)
    return f"{shut} of {len(tracked)} tracked files cannot be read" if 2 * shut > len(tracked) else ""


def with_raw(captured: Captured, index: PrivateIndex, facts: IndexFacts, paths: Collection[str]) -> Captured:
    """Return the capture with the exact bytes of more paths, which need not differ from the index. What was captured counts,
    with the index that it came with. Raises GitError."""
    more = keep(index, captured.tree, [*{*paths}.difference(captured.kept.oids)])
    return with_modes(replace(captured, kept=captured.kept | more), index, facts, captured.modes) if more else captured


def with_modes(captured: Captured, index: PrivateIndex, facts: IndexFacts, modes: Modes) -> Captured:
    """Return the capture with these permissions."""
    stages = _stages(index, facts, captured.kept, captured.skipped, modes, captured.links)
    return replace(captured, modes=modes, stages=stages)


def _stages(
    index: PrivateIndex, facts: IndexFacts, kept: KeptBytes, skipped: Sequence[Skipped], modes: Modes, links: Sequence[str]
) -> tuple[NewObject, ...]:
    rooms = {"raw": kept.raw, "held": kept.held, ROOM: kept.staged}
    return stages_tree(index, facts, rooms, skipped, modes.encode(), links)


def _look(index: PrivateIndex, facts: IndexFacts, folder: str, root: str, rules: CaptureRules) -> _IndexChanges:
    """List what differs, by two listings at once: stat of what is tracked, and the untracked files."""
    look = index.listings(facts, walk=rules.walk)
    changes = _IndexChanges()
    changes.skipped = [Skipped(path=p, reason="special-file") for p in specials(index.git, root, set(facts.gitlinks))]
    result = look.tracked(facts.gitlinks)
    # It fails at a racily clean path whose required filter is missing, and at a broken submodule.
    changes.tracked = list(dict.fromkeys(zsplit(result.out)[1::2])) if result.code == 0 else None
    shown = look.untracked()
    untracked = zsplit(checked(shown, "ls-files"))
    changes.untracked, left = sort_out(index.repo, folder, root, untracked, rules)
    changes.never = [p for p in untracked if ours(p, rules.never)]
    nested = [Skipped(path=p, reason="nested-repository") for p in changes.untracked if p.endswith("/")]
    closed = _CLOSED.findall(shown.err) + DENIED.findall(result.err)
    changes.skipped += [*left, *nested, *(Skipped(path=p, reason="unreadable") for p in closed)]
    return changes


class _Intake:
    """The intake of changes into the private index with git's own ``add``, whatever stands in its way."""

    def __init__(
        self, index: PrivateIndex, facts: IndexFacts, folder: str, root: str, rules: CaptureRules, changes: _IndexChanges
    ) -> None:
        self.index, self.facts, self.folder, self.root, self.rules, self.changes = index, facts, folder, root, rules, changes
        kinds = ("nested-repository", "unreadable", "untracked")  # `add` comes to no harm there, or nowhere near
        refused = [s.path for s in changes.skipped if s.reason not in kinds]
        self.left = [p.rstrip("/") for p in (*refused, *(changes.never if rules.untracked == "all" else ()))]
        self.behind: dict[str, str] = {}  # what changed and stands behind a filter, with its name
        self.shut: dict[str, str] = {}  # what did not pass its filter
        self.doubted: Mapping[str, Doubtful] = {}
        self.asked: set[str] = set()  # filters that were tried alone
        self.kept = KeptBytes()
        self.going: list[str] = []  # ignored files that are held
        self.appeared: list[str] = []  # taken in, though they were not there when changes were listed

    def run(self) -> list[Skipped]:
        """Take everything in, and return what did not get in, and why. Raises GitError when git can take nothing in."""
        skipped: list[Skipped] = []
        paths, culprits, users = self.changes.few(), set[str](), self.index.git
        self._require()
        for attempt in range(3):
            result = self._filtered_add(paths)
            if result.code not in (0, 1) and attempt == 2:
                culprits = self._one_by_one()
            if paths is None:  # more than was listed may have come in
                skipped += self._unwelcome()
            if result.code == 0:
                reasons = {}
                break
            reasons = {p: self._reason(p, p in culprits) for p in self._left_behind() | culprits}
            if result.code == 1 and "unstable" not in reasons.values():
                break
            paths = None
        skipped += [Skipped(path=path, reason=reason) for path, reason in reasons.items()]
        skipped += self._hold(self.shut, self._entries(self.shut), "unfiltered")[0] if self.shut else []
        self.index.git = users  # a checkout that follows shall not miss the smudge of a filter that only cleans
        return skipped

    def hold_ignored(self) -> list[Skipped]:
        """Hold here what git ignores and a command is about to remove, and return all that is ignored: no push takes it
        along."""
        skipped, self.going = self._hold(dict.fromkeys(self.rules.going[0], ""), {}, IGNORED_HELD)
        return [*self.rules.going[1], *skipped]

    def doubt(self, found: Mapping[str, Doubtful]) -> None:
        """Keep staged files out that no filter made."""
        self.doubted = found
        self._shut({path: d.driver for path, d in found.items()})

    def _require(self) -> None:
        """Have git stop at whatever its filter does not clean: it would store that as it is. Asks git only where filters are
        in play."""
        changes = self.changes
        paths = [*(changes.tracked or ()), *(p for p in changes.untracked if not p.endswith("/"))]
        if changes.tracked is None or any(p.rpartition("/")[2] == ".gitattributes" for p in paths):  # any may be looked at
            paths += zsplit(self.index.git.out("ls-files", "-z"))
        repo, paths = self.index.repo, list(dict.fromkeys(paths))
        self.behind = gated(repo, self.root, paths, self.index.git)
        if self.behind:
            self.index.git = requiring(self.index.git, set(self.behind.values()))
        changed = paths if changes.tracked is None else [*changes.tracked, *changes.untracked]
        if self.behind and any(
            p.endswith(".gitattributes") and not os.path.lexists(os.path.join(self.root, p)) for p in changed
        ):
            self._shut(self._uncovered({*changed}))
        rest = [p for p in changed if p not in self.behind and regular(os.path.join(self.root, p))]
        if rest and self.rules.past is not None:  # a turn that loses its attributes takes no gate away
            self._shut(filtered_until_now(repo, self.folder, rest, self.rules.past()))

    def _uncovered(self, changed: Collection[str]) -> dict[str, str]:
        """Return what stands behind a filter only by attributes that are gone from disk, and will be from the tree: of the
        files that changed, and of those so young that git would look at them again."""
        none = self.index.git.changed({"GIT_INDEX_FILE": os.path.join(self.folder, "none")})
        still, made = filters(none, list(self.behind)), self.index.signature[2]
        return {p: d for p, d in self.behind.items() if still.get(p) != d and (p in changed or self._younger(p, made))}

    def _younger(self, path: str, moment: int) -> bool:
        """Whether git looks at a file again because its index, of that moment in nanoseconds, may be as old: it compares
        seconds."""
        try:
            return os.lstat(os.path.join(self.root, path)).st_mtime_ns // 10**9 >= moment // 10**9
        except OSError:
            return False

    def _filtered_add(self, paths: list[str] | None) -> Result:
        """Run ``add`` without what a filter fails on: git then stops and keeps the *old* index, and ``write-tree`` succeeds.

        After a few such files no other that stands behind the same filter is tried.
        """
        while True:
            result = self._add(paths)
            path, name = self._culprit(result.err) if result.code not in (0, 1) else ("", "")
            if not path or path in self.shut:
                dead = self._dead() if result.code not in (0, 1) else set()
                if not dead:
                    return result
                self._shut({p: driver for p, driver in self.behind.items() if driver in dead and p not in self.shut})
                continue
            more = {path: name}
            if sum(driver == name for driver in self.shut.values()) + 1 >= _PATIENCE:
                young = [p for p in zsplit(self.index.git.out("ls-files", "-z")) if self._younger(p, self.index.signature[2])]
                self.behind |= gated(self.index.repo, self.root, young, self.index.git)
                more |= {p: driver for p, driver in self.behind.items() if driver == name and p not in self.shut}
            self._shut(more)

    def _dead(self) -> set[str]:
        """Return the filters that do not even start: where a long-running one is missing git names no path. Each is asked
        once."""
        first = {driver: path for path, driver in reversed(self.behind.items()) if driver not in self.asked}
        self.asked |= first.keys()
        words = ("hash-object", "--stdin")
        return {d for d, path in first.items() if self.index.git.run(*words, f"--path={path}", stdin=b"").code != 0}

    def _shut(self, paths: Mapping[str, str]) -> None:
        """Keep paths out, each behind its filter, and have git look at none of them: with stat data it would look at racily
        clean files again, and stop there, whenever it writes the index."""
        self.shut |= paths
        self.index.put({p: f"{mode} {oid}" for p, (mode, oid) in self._entries(paths).items()} if paths else {})

    def _culprit(self, said: str) -> tuple[str, str]:
        """Return the path that git stopped at, and its filter; other lines before may look like the beginning of that one."""
        found = [m for start in _FATAL.finditer(said) if (m := FILTER.match(said, start.start()))]
        known = [m for m in found if m.group(1) in self.behind or os.path.lexists(os.path.join(self.root, m.group(1)))]
        return (known[0].group(1), known[0].group(2)) if known else ("", "")

    def _add(self, paths: list[str] | None) -> Result:
        """Run ``git add`` of paths, or of everything, less those left out and those that a filter fails on; with nothing in its
        way that is only there to warn a person. Many files go into a pack, as git does with what it takes for large."""
        index, named = self.index, [":(top)"] if paths is None else self._named(paths)
        if not named:
            return Result(code=0, out=b"", err="")
        stdin = b"".join(
            os.fsencode(s) + b"\0" for s in (*named, *(f":(top,exclude,literal){p}" for p in (*self.left, *self.shut)))
        )
        settings = ["core.safecrlf=false", "advice.addEmbeddedRepo=false", "advice.addIgnoredFile=false"]
        if (paths is None or len(paths) > _FILES) and index.source == index.repo.layout.index:
            settings += ["core.bigFileThreshold=1", "pack.compression=1", "pack.packSizeLimit=0"]
        git, update = index.git.changed({}, *settings), self.rules.untracked == "none"
        options = ("-u" if update else "-A", "--ignore-errors", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
        count = len(paths) if paths is not None else len(self.changes.tracked or ()) + len(self.changes.untracked)
        index.unlock()
        if index.repo.progress is silent or not count:
            return git.run("add", *options, stdin=stdin)
        done = 0

        def heard(lines: bytes) -> None:
            nonlocal done
            done += lines.count(b"\n")
            index.repo.progress("capturing files", done, count)

        heard(b"")
        return git.start("add", "-v", *options, stdin=stdin).finish(heard)

    def _named(self, paths: list[str]) -> list[str]:
        """Return pathspecs for what was listed, and for no more: where a file stood, a directory may stand by now, and what
        is in it was not looked at."""
        folders = {*self.facts.gitlinks, *(p.rstrip("/") for p in self.changes.untracked if p.endswith("/"))}
        above = {p[:at] for p in self.changes.untracked for at, char in enumerate(p.rstrip("/")) if char == "/"} - folders
        named = [p for p in paths if p not in self.shut and p not in above]
        shut = [f":(top,exclude,literal){p}/" for p in named if p not in folders]
        return [f":(top,literal){p}" for p in named] + shut

    def _one_by_one(self) -> set[str]:
        """Find the paths that git stops at (a broken submodule, an encoding that does not fit, a file that shrinks)."""
        culprits: set[str] = set()
        waiting = [sorted(self._left_behind() | set(self.facts.gitlinks))]
        while waiting:
            paths = waiting.pop()
            if not paths:
                continue
            result = self._filtered_add(paths)
            if result.code in (0, 1):
                continue
            half = len(paths) // 2
            if half:
                waiting += [paths[:half], paths[half:]]
            elif result.code > 0 and os.path.lexists(os.path.join(self.root, paths[0])):
                culprits.add(paths[0])
            if len(culprits) > _ONE_BY_ONE:  # no more patience: what is left is listed, too
                culprits.update(*waiting)
                break
        return culprits

    def _left_behind(self) -> set[str]:
        """Return paths that still differ from the private index after ``add`` failed on some."""
        listing = ("ls-files", "-o", "-z", "--exclude-standard")
        untracked = [] if self.rules.untracked == "none" else zsplit(self.index.git.out(*listing))
        specs = [f":(top,exclude,literal){p}" for p in self.shut]
        tracked = zsplit(modified(self.index.git, "--name-only", specs=specs).out)
        left = dict.fromkeys(self.left, "")  # a folder of which nothing is tracked is one of them
        untracked = [p for p in untracked if covered(p.rstrip("/"), left) is None]
        return {p.rstrip("/") for p in (*tracked, *untracked)}.difference(self.left, self.shut)

    def _unwelcome(self) -> list[Skipped]:
        """Take out again what appeared after the untracked files were listed and must not be stored."""
        known = {*self.changes.untracked, *(f.path for f in self.facts.flags if "i" in f.bits)}
        known |= {os.fsdecode(path) for _, path, _, _ in self.facts.stages}
        new = [p for p in self._differing("A") if p not in known and p + "/" not in known]
        taken, left = sort_out(self.index.repo, self.folder, self.root, new, self.rules, self.changes.untracked)
        self.appeared += taken
        late = gated(self.index.repo, self.root, [p for p in taken if p not in self.behind], self.index.git)
        if late:  # nobody saw to it that their filters are required
            self.index.forget(late)
            self.shut |= late
        refused = set(new).difference(taken)
        if refused:
            self.index.forget(refused)
            self.left += refused
        return left

    def _entries(self, paths: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the entries of some paths in the private index, but for those in conflict: mode and id."""
        specs = [f":(top,literal){p}" for p in paths] if len(paths) <= _FEW else []
        rows = index_entries(self.index.git, specs)
        return {path: (mode, oid) for mode, oid, stage, path in rows if stage == "0" and path in paths}

    def _hold(
        self, paths: Mapping[str, str], there: Mapping[str, tuple[str, str]], reason: str
    ) -> tuple[list[Skipped], list[str]]:
        """Keep files here that passed no filter, each with its name, or that git ignores; return what is skipped, with the
        reason, and the paths that have an entry. A tracked file's entry (``there``) stays as git made it, and a stand-in is
        that of any other; what the index holds just as it is on disk git has let pass itself."""
        index, repo, store = self.index, self.index.repo, HeldStore(self.index.repo)
        head = {path: (d.committed.mode, d.committed.oid) for path, d in self.doubted.items() if d.committed is not None}
        known = {path: entry for path, entry in there.items() if path not in self.doubted} | head
        filemode = repo.boolean("core.filemode", default=True)
        intents = {f.path for f in self.facts.flags if "i" in f.bits}
        skipped, entries, held, texts = list[Skipped](), dict[str, str](), list[tuple[str, str, Oid]](), list[NewObject]()
        for path, driver in paths.items():
            fd = open_file(self.root, path)
            if fd is None and path in self.doubted and not os.path.lexists(os.path.join(self.root, path)):
                index.forget([path])
                continue
            link = self._link(path) if fd is None and driver else None
            if link is not None:  # git passes no link through a filter
                texts.append(new_object(repo.layout.algorithm, "blob", link))
                entries[path] = f"{LINK} {texts[-1].oid}"
                continue
            if fd is None:
                skipped.append(Skipped(path=path, reason=self._reason(path, culprit=False)))
                continue
            with open(fd, "rb", buffering=0) as file:
                old, oid = known.get(path, ("", ""))
                bits = os.fstat(file.fileno()).st_mode
                mode = old if old[:3] == "100" and not filemode else EXECUTABLE if bits & 0o100 else FILE
                keeps = old[:3] == "100" and path not in intents
                try:
                    if keeps and store.hold(path, file.fileno(), driver, cleaned=False, store=False)[1] == oid:
                        entries[path] = f"{mode} {oid}"
                        continue
                    found, _ = store.hold(path, file.fileno(), driver, cleaned=False, wait=bool(driver))
                except StaleError:
                    skipped.append(Skipped(path=path, reason="unstable"))
                    continue
            texts.append(new_object(repo.layout.algorithm, "blob", found.text))
            entries[path] = f"{mode} {oid if keeps else texts[-1].oid}"
            held.append((path, mode, texts[-1].oid))
            skipped.append(Skipped(path=path, reason=reason))
        store.sync()
        repo.stow(texts)
        index.put({path: entry for path, entry in entries.items() if entry.split(" ") != [*there.get(path, ())]})
        self.kept |= KeptBytes(held=tuple(held))
        return skipped, [*entries]

    def _link(self, path: str) -> bytes | None:
        """Return the target of a symbolic link; None where there is none."""
        try:
            return os.readlink(os.fsencode(os.path.join(self.root, path)))
        except OSError:
            return None

    def examined(self) -> list[str]:
        """Return the paths that were taken in, to be looked at for bytes that a checkout would not give back. Git is asked
        where it may know of more: where it has looked at everything."""
        changes = self.changes
        paths = [*(changes.tracked or ()), *changes.untracked, *self.appeared]
        held = {path for path, _, _ in self.kept.held}
        if changes.few() is None and (changes.tracked is None or conversions(self.index.repo, self.root, paths)):
            paths += self._differing("d")
        return [path for path in dict.fromkeys(paths) if path not in held]

    def touched(self) -> list[str] | None:
        """Return the paths with permissions that no earlier look has seen; None where git could not say."""
        changes = self.changes
        files = [p for p in (*changes.untracked, *self.appeared, *self.going) if not p.endswith("/")]
        return None if changes.tracked is None else [*changes.tracked, *files]

    def _differing(self, kinds: str) -> list[str]:
        """Return paths with an entry in the private index that is not the staged one."""
        options = ("--cached", "-z", "--name-only", "--no-renames", f"--diff-filter={kinds}", "--ignore-submodules=all")
        return zsplit(self.index.git.out("diff-index", *options, self.facts.tree))

    def _reason(self, path: str, culprit: bool) -> str:
        """Return why git did not take a path in."""
        full = os.path.join(self.root, path)
        if special(full):
            return "special-file"
        if os.path.isdir(full) and not os.path.islink(full):
            return "nested-repository"
        try:
            if not os.path.islink(full):
                os.close(os.open(full, READ))
        except FileNotFoundError:
            return "unstable"
        except OSError:
            return "unreadable"
        parts = [part.lower() for part in path.split("/")]
        if any(p in (".git", "git~1") or p.startswith(".git") or "\\" in p or ":" in p for p in parts):
            return "invalid-name"
        return "unreadable" if culprit else "unstable"


def _tree(index: PrivateIndex, facts: IndexFacts, skipped: list[Skipped]) -> Oid:
    """Write the private index as a tree; a path still unmerged there could not be read and has no entry."""
    if facts.stages:
        unread = {row.split("\t", 1)[1] for row in zsplit(index.git.out("ls-files", "-u", "-z"))}
        if unread:
            index.forget(unread)
            skipped += [Skipped(path=p, reason="unreadable") for p in unread]
    return index.write_tree()


@value
class Doubtful:
    """A staged file that its filter may not have made: ``staged`` is its entry, ``committed`` HEAD's, ``driver`` the filter."""

    staged: GitEntry
    committed: GitEntry | None
    driver: str


def doubtful(index: PrivateIndex, facts: IndexFacts, root: str, untracked: Collection[str]) -> dict[str, Doubtful]:
    """Return the staged files that differ from HEAD, and from a commit that is just being merged or picked, and stand behind
    a filter that does not run now. Asks git only where something is staged and filters may be in play. Raises GitError."""
    repo, head = index.repo, None
    with suppress(GitError):  # of a commit that cannot be read, nobody knows what it holds
        head = _commit_tree(repo.objects, repo.objects.head().oid)
    if head == facts.tree:
        return {}
    deeper = any(path.endswith("/.gitattributes") for path in untracked) or may_have_attributes(repo)
    if not (deeper or has_attributes(repo, root, (), b"filter")):
        return {}
    from gitbaton.git.worktree.checkout import differences  # late: of most captures nothing is staged behind a filter

    base = head or new_object(repo.layout.algorithm, "tree", b"").oid
    if head is None:
        repo.objects.write([new_object(repo.layout.algorithm, "tree", b"")])
    staged = {d.path: d for d in differences(index.git, base, facts.tree) if d.then is not None and d.then.mode[:3] == "100"}
    behind = gated(repo, root, list(staged), index.git)
    first = {name: path for path, name in reversed(behind.items())}
    asked = ((name, ("hash-object", "--stdin", f"--path={path}")) for name, path in first.items())
    dead = {name for name, words in asked if requiring(index.git, (name,)).run(*words, stdin=b"").code != 0}
    found = {
        p: Doubtful(staged=d.then, committed=d.now, driver=behind[p])
        for p, d in staged.items()
        if d.then and behind.get(p) in dead
    }
    operation = repo.operation() if found else None
    commits = [*(oid for _, oid in operation.refs), operation.head] if operation is not None else []
    others = [_commit_tree(repo.objects, oid) for oid in commits]
    return {path: d for path, d in found.items() if not any(_holds(repo.objects, tree, path, d.staged.oid) for tree in others)}


def _commit_tree(objects: Objects, commit: str | None) -> Oid | None:
    found = objects.read(commit) if commit else None
    return parse_commit(found.data).tree if found is not None and found.kind == "commit" and found.data else None


def _holds(objects: Objects, tree: Oid | None, path: str, oid: Oid) -> bool:
    entry = lookup(objects, tree, os.fsencode(path)) if tree is not None else None
    return entry is not None and entry.oid == oid


def with_stand_ins(
    index: PrivateIndex, facts: IndexFacts, found: Mapping[str, Doubtful]
) -> tuple[IndexFacts, list[tuple[str, str, Oid]]]:
    """Return the facts of the index with stand-ins for these files, and the stand-ins: path, mode and blob. The bytes are
    kept here. Raises GitError."""
    from gitbaton.git.worktree.checkout import GitEntry, changed_tree

    repo, store, texts = index.repo, HeldStore(index.repo), dict[str, NewObject]()
    for path, d in found.items():
        item = repo.objects.read(d.staged.oid, 1 << 40)
        if item is None or item.data is None:
            raise GitError(f"object {d.staged.oid} of the index cannot be read")
        with closing_fd(memory_file(item.data)) as fd:
            held, _ = store.hold(path, fd, d.driver, cleaned=False)
        texts[path] = new_object(repo.layout.algorithm, "blob", held.text)
    repo.stow(list(texts.values()))
    entries = {path: GitEntry(mode=found[path].staged.mode, oid=text.oid) for path, text in texts.items()}
    tree = changed_tree(index, entries, facts.tree)
    return IndexFacts(tree=tree, flags=facts.flags, stages=facts.stages, gitlinks=facts.gitlinks), [
        (path, entry.mode, entry.oid) for path, entry in entries.items()
    ]


def real_entry(repo: Repo, path: str, entry: GitEntry, held: Mapping[str, HeldOid]) -> GitEntry | None:
    """Return what an entry of a staged state stands for, written as git had it; itself where it stands for nothing, and None
    where the bytes are not here. Raises GitError."""
    if held.get(path) != entry.oid:
        return entry
    from gitbaton.git.worktree.checkout import GitEntry

    said, store = read_held(repo.objects, entry.oid), HeldStore(repo)
    if said is None or not store.has(said):
        return None
    blob = new_object(repo.layout.algorithm, "blob", store.read(path, said))
    repo.objects.write([blob])
    return GitEntry(mode=entry.mode, oid=blob.oid)
