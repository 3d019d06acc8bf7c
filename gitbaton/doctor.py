"""Doctor: what is installed, would not run or is behind, each with the line that mends it."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping

from gitbaton import config, rewrites
from gitbaton.baton import Baton
from gitbaton.codec import counted, plain
from gitbaton.errors import MENDS, BatonError, GitError, RecordError
from gitbaton.git import settings, usage
from gitbaton.git.packkeep import left
from gitbaton.git.tornfiles import torn
from gitbaton.install import githooks as install
from gitbaton.install.hookfiles import read
from gitbaton.model import Oid
from gitbaton.retention.looking import known as known_name
from gitbaton.retention.looking import strange
from gitbaton.store import CURRENT, NOTES, chain_ref, fetched, intent, meta, sound, tip_ref
from gitbaton.store.refs import META, RUNS
from gitbaton.store.sound import own_refs
from gitbaton.threads.health import checked, stuck, waiting
from gitbaton.threads.names import LATE, THREADS
from gitbaton.values import value

MANY = 1000
STALE_LOCK = 10.0
LOCK_WAIT = 5.0


@value
class Finding:
    """One thing that was looked at. ``ok`` is False where something should be mended; ``mend`` is the line that does it."""

    name: str
    ok: bool
    text: str
    mend: str = ""


def examine(baton: Baton) -> list[Finding]:
    """Every check, in a fixed order. Only looks; a check that cannot be made is itself a finding."""
    found: list[Finding] = []
    checks = (
        _settings,
        _doors,
        _hooks,
        _notes,
        _latest,
        _refs,
        _derived,
        _runs_here,
        _threads,
        _claims,
        _locks,
        _history,
        _filters,
    )
    for check in checks:
        try:
            found += check(baton)
        except (BatonError, OSError, ValueError) as error:
            mend = next(iter(error.hints), "") if isinstance(error, BatonError) else ""
            text = f"cannot be looked at: {plain(str(error))}"
            found.append(Finding(name=check.__name__.strip("_"), ok=False, text=text, mend=mend))
    return found


def fix(baton: Baton) -> list[str]:
    """Repair what is behind its chain and remove stale locks; what could not be done comes back. Raises BatonError."""
    tracks = baton.store.chains()[0]
    names = tuple(ref for track in tracks for ref in (chain_ref(track), tip_ref(track)))
    names += tuple(baton.repo.objects.refs(RUNS))
    with baton.repo.lock((*names, NOTES), wait=LOCK_WAIT):  # taking it removes stale lock files beside these refs
        rewrites.trim(baton.repo)
    return baton.refresh()


def _settings(baton: Baton) -> Iterator[Finding]:
    wrong: list[str] = []
    config.load(baton.repo, wrong.append)
    for text in wrong:
        key = text.split(" ", 1)[0]
        yield Finding(name="settings", ok=False, text=f"{text}; hooks take the default", mend=f"git config {key} ...")


def _doors(baton: Baton) -> Iterator[Finding]:
    from gitbaton import __version__

    major, minor = settings.version(baton.repo)
    text = f"gitbaton {__version__}, git {major}.{minor}"
    if (major, minor) < (2, 36):
        yield Finding(name="git", ok=False, text=f"{text}; git 2.36 or newer is needed", mend="upgrade git")
    else:
        yield Finding(name="git", ok=True, text=text)
    with Baton(baton.repo.layout.root or baton.repo.layout.git_dir) as other:
        opened = type(other.repo.objects).__name__ == "Libgit2Objects"
    said = "libgit2 opens this repository" if opened else "libgit2 does not open this repository; the git binary serves"
    yield Finding(name="doors", ok=True, text=said)
    on_path = shutil.which("git-baton")
    missing = Finding(name="path", ok=False, text="git-baton is not on PATH: hooks stay silent", mend="put it on PATH")
    yield Finding(name="path", ok=True, text=f"git-baton is '{on_path}'") if on_path else missing


def _hooks(baton: Baton) -> Iterator[Finding]:
    """Whether git reaches each of our scripts, once."""
    repo, folder = baton.repo, install.hooks_folder(baton.repo)
    way = install.route(repo)
    called: dict[str, list[str]] = {event: [] for event in install.EVENTS}
    for event, found in called.items():
        if way == "config" and install.has_config_hook(repo, event):
            found.append("the configuration")
        hook = install.caller(repo, event)
        if hook is not None:
            found.append(f"'{hook}'")
    missing = [event for event, found in called.items() if not found]
    twice = [event for event, found in called.items() if len(found) > 1]
    if missing and way == "foreign":
        text = f"the hooks in '{folder}' do not call ours: {', '.join(missing)}; install prints the lines to add"
        yield Finding(name="hooks", ok=False, text=text, mend="git baton install")
    elif missing:
        text = f"git does not call ours: {', '.join(missing)}"
        yield Finding(name="hooks", ok=False, text=text, mend="git baton install")
    else:
        yield Finding(name="hooks", ok=True, text=f"called from {called[install.EVENTS[0]][0]}")
    if twice:
        text = f"called twice, from {' and '.join(called[twice[0]])}: {', '.join(twice)}"
        yield Finding(name="hooks-once", ok=False, text=text, mend="git baton install")
    for event, data in install.scripts().items() if len(missing) < len(called) else ():
        path = os.path.join(install.script_folder(repo), event)
        there = read(path)
        if there != data or not os.access(path, os.X_OK):
            what = "is missing" if there is None else "is of another version" if there != data else "cannot be executed"
            yield Finding(name="scripts", ok=False, text=f"'{path}' {what}", mend="git baton install")


def _notes(baton: Baton) -> Iterator[Finding]:
    for key, purpose, lost, needed in (
        ("notes.displayRef", "'git log' shows the entries", "'git log' does not show the entries", False),
        ("notes.rewriteRef", "amend and rebase keep them", "", True),
    ):
        covered = bool(install.COVERING & set(settings.all_values(baton.repo, key)))
        text = f"set, so {purpose}" if covered else "not set" if needed else f"not set, so {lost}"
        yield Finding(name=key, ok=covered or not needed, text=text, mend="" if covered else "git baton install")
    mode = settings.all_values(baton.repo, "notes.rewriteMode")[-1:]
    if mode == ["cat_sort_uniq"]:
        text = "cat_sort_uniq sorts the lines of entries when commits are squashed"
        yield Finding(name="notes.rewriteMode", ok=False, text=text, mend="git config notes.rewriteMode concatenate")


def _latest(baton: Baton) -> Iterator[Finding]:
    where = baton.latest
    if where is None:
        return
    tracked = settings.tracked(baton.repo, where.paths())
    if tracked:
        text = f"'{tracked[0]}' is tracked by git, so it is not ours and is not written"
        yield Finding(name="latest", ok=False, text=text, mend=f"git rm --cached '{tracked[0]}'")
        return
    stale = baton.latest_is_stale()
    text = "LATEST is behind the tracks" if stale else "LATEST says what the tracks say"
    yield Finding(name="latest", ok=not stale, text=text, mend="git baton export" if stale else "")


def _refs(baton: Baton) -> Iterator[Finding]:
    store = baton.store
    tips, refs = store.tips(), own_refs(store)
    strays = fetched.strays(store)
    known = {problem.where for problem in (*tips.problems, *strays)}
    strangers = [(ref, wrong) for ref, wrong in strange(store, refs) if ref not in known]
    torn_ones = _broken(baton, refs)
    broken = {ref: why for ref, why in torn_ones.items() if ref not in known}
    for problem in (*tips.problems, *strays):
        mend = MENDS if known_name(problem.where) or problem.where in torn_ones else ""
        yield Finding(name="refs", ok=False, text=f"'{problem.where}' is left alone: {problem.reason}", mend=mend)
    try:
        meta.read(store)
    except RecordError as error:  # then nothing is synced, pruned or pinned
        yield Finding(name="refs", ok=False, text=plain(error.message), mend=MENDS)
        broken.pop(META, None)
    for ref, why in broken.items():
        yield Finding(name="refs", ok=False, text=f"'{plain(ref)}' is left alone: {why}", mend=MENDS)
    for _, wrong in strangers:  # nor is anything pruned or forgotten
        yield Finding(name="refs", ok=False, text=wrong.message, mend=next(iter(wrong.hints), ""))
    if not tips.problems and not strangers and not strays and not broken:
        yield Finding(name="refs", ok=True, text=f"{counted(len(tips.items), 'track')}, every ref in our namespace is ours")


def _broken(baton: Baton, refs: Mapping[str, Oid]) -> dict[str, str]:
    """Our refs that lead to what cannot be read, each with why: every loose object is read, and what is packed is only met."""
    store = baton.store
    found = sound.broken(store, refs)
    rest = {ref: oid for ref, oid in refs.items() if ref not in found}
    try:
        reached = usage.reached(baton.repo, rest.values()) if rest else {}
        whole = reached.keys() <= usage.sizes(baton.repo, reached).keys() and not torn(baton.repo).keys() & reached.keys()
    except (GitError, RecordError):
        whole = False
    return dict(sorted((found if whole else {**found, **sound.astray(store, rest, sound.theirs(store))}).items()))


def _derived(baton: Baton) -> Iterator[Finding]:
    behind = baton.store.behind(baton.store.tips().items)
    if intent.pending(baton.repo):
        text = "a change of several refs was begun and is not finished"
        yield Finding(name="derived", ok=False, text=text, mend="git baton doctor --fix")
    for stored in behind:
        text = f"the tip or note of track '{stored.checkpoint.track}' is behind its chain"
        yield Finding(name="derived", ok=False, text=text, mend="git baton doctor --fix")
    if not behind:
        yield Finding(name="derived", ok=True, text="tips and notes are up to date")


def _runs_here(baton: Baton) -> Iterator[Finding]:
    """Whether the journals of runs can be read; that one is unfinished is nobody's fault."""
    from gitbaton.journal.chain import Journal
    from gitbaton.journal.state import fold

    journal, unfinished = Journal(baton.repo, author=b"", clock=baton.clock), 0
    runs = journal.names()
    for run in runs:
        try:
            unfinished += not fold(journal.records(run)).finished
        except BatonError as error:
            unfinished += 1
            yield Finding(name="runs", ok=False, text=plain(error.message), mend=MENDS)
    if runs:
        yield Finding(name="runs", ok=True, text=f"{counted(len(runs), 'run')}, {unfinished} unfinished")


def _threads(baton: Baton) -> Iterator[Finding]:
    """Whether LangGraph's threads can be read, and whether anything of them waits to be brought into git."""
    refs = baton.repo.objects.refs(THREADS, LATE)
    folder = os.path.join(baton.repo.shared_dir, "wal")
    waits = waiting(folder)
    if refs:
        with Baton(baton.repo.layout.root or baton.repo.layout.git_dir) as other:
            rows = list(checked(other.repo.objects, baton.repo.layout.algorithm, refs))
        for row in rows:
            if row.wrong:
                text = f"thread '{row.thread}' cannot be read: {row.wrong} ('{row.ref}')"
                yield Finding(name="threads", ok=False, text=plain(text), mend=MENDS)
        names = {row.thread for row in rows}
        yield Finding(
            name="threads",
            ok=True,
            text=f"{counted(len(names), 'thread')}, {counted(sum(row.count for row in rows), 'checkpoint')}",
        )
    if waits:
        text = f"records of the log that git does not have yet: {waits}; if nobody is at work, 'git baton threads' stores them"
        yield Finding(name="threads-log", ok=True, text=text)
        for thread, wrong in sorted(stuck(folder, baton.repo.objects).items()):
            text = f"thread '{thread}' cannot be brought into git: {wrong}; the log keeps what it has of it"
            yield Finding(name="threads-log", ok=False, text=plain(text), mend="git fsck")
    for path in left(baton.repo):
        text = f"'{path}' keeps a pack for a process that has ended"
        yield Finding(name="threads-packs", ok=False, text=text, mend="git baton threads")


def _claims(baton: Baton) -> Iterator[Finding]:
    """Whether another machine holds a step: nobody else can see whether it still works at it."""
    from gitbaton.running.claims import Claims

    for path, held in Claims(baton.repo).elsewhere():
        text = f"step '{held.step}' of run '{held.run}' is claimed by process {held.pid} on '{held.host}', another machine"
        mend = f"if nothing of it runs there any more: mv {shlex.quote(path)} {shlex.quote(path)}.over"
        yield Finding(name="claims", ok=False, text=plain(text), mend=plain(mend))


def _locks(baton: Baton) -> Iterator[Finding]:
    layout = baton.repo.layout
    names = [*(ref for track in baton.store.chains()[0] for ref in (chain_ref(track), tip_ref(track))), NOTES]
    names += baton.repo.objects.refs(RUNS)
    paths = [os.path.join(layout.common_dir, *ref.split("/")) + ".lock" for ref in names]
    stale = []
    for path in (*paths, os.path.join(layout.git_dir, CURRENT) + ".lock"):
        try:
            if time.time() - os.stat(path).st_mtime > STALE_LOCK:
                stale.append(path)
        except FileNotFoundError:
            continue
    for path in stale:
        yield Finding(name="locks", ok=False, text=f"'{path}' is a stale lock", mend="git baton doctor --fix")
    if not stale:
        yield Finding(name="locks", ok=True, text="no stale locks")


def _history(baton: Baton) -> Iterator[Finding]:
    total = 0
    for track, tip in baton.store.chains()[0].items():
        try:
            oids = baton.repo.objects.first_parents(tip)
        except GitError:  # said of its ref
            continue
        total += len(oids) - 1
        if torn := baton.store.torn(track, oids):
            yield Finding(name="history", ok=False, text=torn, mend=MENDS)
    algorithm = [text for _, text in settings.matching(baton.repo, r"^fetch\.negotiationalgorithm$")]
    if total > MANY and algorithm[-1:] != ["skipping"]:
        text = f"{total} checkpoints make 'git fetch' negotiate longer"
        yield Finding(name="history", ok=False, text=text, mend="git config fetch.negotiationAlgorithm skipping")
    else:
        yield Finding(name="history", ok=True, text=counted(total, "checkpoint"))


def _filters(baton: Baton) -> Iterator[Finding]:
    """Filters that files of this repository need and that cannot run: such files are stored as they are."""
    rows = dict(settings.matching(baton.repo, r"^filter\..*\.(required|clean|process)$"))
    names = {key[7:].rpartition(".")[0] for key in rows} | {"lfs"}
    amiss = False
    for name in sorted(names):
        needed = rows.get(f"filter.{name}.required", "false").lower() in ("true", "yes", "on", "1", "")
        command = rows.get(f"filter.{name}.process") or rows.get(f"filter.{name}.clean") or ""
        if (not needed and name != "lfs") or _runs(command):
            continue
        path = settings.filtered(baton.repo, name) if baton.repo.layout.root else None
        if path is not None:
            amiss = True
            what = f"'{command}' cannot run" if command else "it has no command"
            text = f"'{path}' needs the filter '{name}', and {what}"
            yield Finding(name="filters", ok=False, text=text, mend=f"install and configure '{name}'")
    if not amiss:
        yield Finding(name="filters", ok=True, text="every filter that is needed can run")


def _runs(command: str) -> bool:
    """Whether the program of a filter is there. Git gives the command to a shell, so its first word decides."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return bool(words) and shutil.which(words[0]) is not None
