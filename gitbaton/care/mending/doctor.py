"""Doctor: what is installed, would not run or is behind, each with the line that mends it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gitbaton.agents.install import githooks as install
from gitbaton.agents.install import kepthooks
from gitbaton.agents.install.githooks import own_refspecs
from gitbaton.agents.install.levels import EVERYWHERE, UNHEEDED
from gitbaton.agents.install.plan import read
from gitbaton.base.codec import counted, decode_track, in_quotes, plain
from gitbaton.base.errors import MENDS, BatonError, DamagedIndexError, GitError, RecordError
from gitbaton.base.model import DoctorFinding, Oid
from gitbaton.base.system.files import kind_of, mode_of, names_in
from gitbaton.care.mending.survey import brought_back, missing
from gitbaton.care.retention.inventory import known as known_name
from gitbaton.care.retention.inventory import strange
from gitbaton.checkpoints import config
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.mirror import NAMES, LatestPlace
from gitbaton.checkpoints.render import first_few, in_shell, some
from gitbaton.checkpoints.store import CURRENT, NOTES, chain_ref, meta, state, tip_ref, track_of
from gitbaton.checkpoints.store.read import own_refs, strays, torn_refs, unreadable_refs, user_tips
from gitbaton.checkpoints.store.refs import META, REMOTES, RUNS, remote_of
from gitbaton.checkpoints.survey import read_head
from gitbaton.git import objectlists, questions
from gitbaton.git.damage import torn
from gitbaton.git.loose import index_anew, index_is_torn
from gitbaton.git.mergetree import LEAST
from gitbaton.git.objectlists import reachable
from gitbaton.git.objects import RefChange, in_the_way
from gitbaton.git.publish import WORKSHOP, stale_keeps
from gitbaton.git.remotes import names
from gitbaton.git.repo import PROGRAMS, Repo
from gitbaton.git.run import zsplit
from gitbaton.git.worktree import crashmarker, locks
from gitbaton.git.worktree.capture import OURS
from gitbaton.git.worktree.crashmarker import LARGEST, NAME
from gitbaton.git.worktree.gate import gated, requiring
from gitbaton.git.worktree.heldbytes import HeldStore
from gitbaton.langgraph.threads.health import checked, stuck, waiting
from gitbaton.langgraph.threads.names import LATE, THREADS

MANY = 1000
STALE_LOCK = 10.0
LOCK_WAIT = 5.0
_SHOWN = 20
_FIX, _INSTALL = "git baton doctor --fix", "git baton install"


def examine(baton: Baton) -> list[DoctorFinding]:
    """Make every check, in a fixed order. Only looks; a check that cannot be made is itself a finding."""
    found: list[DoctorFinding] = []
    checks = (
        _settings,
        _doors,
        _hooks,
        _notes,
        _signing,
        _remotes,
        _latest,
        _refs,
        _derived,
        _ours,
        _runs_here,
        _work_trees,
        _git_folders,
        _own_files,
        _threads,
        _claims,
        _head,
        _index,
        _locks,
        _history,
        _filters,
        _held,
    )
    for check in checks:
        try:
            found += check(baton)
        except (BatonError, OSError, ValueError) as error:
            mend = next(iter(error.hints), "") if isinstance(error, BatonError) else ""
            mend = index_anew(baton.repo.layout.index) if isinstance(error, DamagedIndexError) else mend
            found.append(_amiss(check.__name__.strip("_"), f"cannot be looked at: {plain(str(error))}", mend))
    return found


def _amiss(name: str, text: str, mend: str) -> DoctorFinding:
    return DoctorFinding(name=name, ok=False, text=text, mend=mend)


def _remark(name: str, text: str, mend: str) -> DoctorFinding:
    return DoctorFinding(name=name, ok=True, text=text, mend=mend, remark=True)


def _fine(name: str, text: str) -> DoctorFinding:
    return DoctorFinding(name=name, ok=True, text=text)


def fix(baton: Baton) -> list[str]:
    """Repair refs that are behind their chain, remove stale locks and what killed commands left; return what could not be done.
    Raises BatonError."""
    with baton.repo.lock(tuple(_locked(baton)), wait=LOCK_WAIT):  # taking it removes stale lock files beside these refs
        questions.trim_rewrites(baton.repo)
        said = baton.store.ours.mend()
        drop_held(baton)
    crashmarker.sweep(baton.repo)
    return [*said, *baton.refresh()]


def _locked(baton: Baton) -> list[str]:
    """Return the refs beside which a killed process may have left a lock file."""
    tracks = (ref for track in baton.store.chains()[0] for ref in (chain_ref(track), tip_ref(track)))
    lost = (ref for refs in _gone_remotes(baton).values() for ref in refs)
    return [*tracks, NOTES, *baton.repo.objects.refs(RUNS), *lost]


def _settings(baton: Baton) -> Iterator[DoctorFinding]:
    wrong: list[str] = []
    config.load(baton.repo, wrong.append)
    for text in wrong:
        yield _amiss("settings", f"{text}; hooks take the default", f"git config {text.split(' ', 1)[0]} ...")
    if said := baton.repo.unheeded.get("baton.everywhere"):
        drop, off = "git config --unset-all baton.everywhere", said.lower() in ("false", "no", "off", "0", "")
        text = UNHEEDED + ("; baton.auto=off there takes no checkpoints" if off else "")
        yield _amiss("baton.everywhere", text, drop + ("" if off else f" && {EVERYWHERE}"))


def _doors(baton: Baton) -> Iterator[DoctorFinding]:
    from gitbaton import __version__

    major, minor = questions.version(baton.repo)
    text = f"gitbaton {__version__}, git {major}.{minor}"
    old = (major, minor) < (2, 36)
    yield _amiss("git", f"{text}; git 2.36 or newer is needed", "upgrade git") if old else _fine("git", text)
    if (2, 36) <= (major, minor) < LEAST:
        text = f"git {major}.{minor} merges nothing in memory: where live tracks overlap is not told"
        yield _remark("overlap", text, f"upgrade git to {LEAST[0]}.{LEAST[1]} or newer")
    with Baton(baton.repo.layout.root or baton.repo.layout.git_dir) as other:
        opened = type(other.repo.objects).__name__ == "Libgit2Objects"
    closed = "libgit2 does not open this repository; the git binary serves"
    yield _fine("doors", "libgit2 opens this repository" if opened else closed)
    on_path = shutil.which("git-baton")
    if on_path:
        yield _fine("path", f"git-baton is {in_quotes(on_path)}")
    elif install.installed(baton.repo):
        yield _amiss("path", "git-baton is not on PATH: hooks stay silent", "put it on PATH")
    else:
        yield _remark("path", "git-baton is not on PATH, so git does not know 'git baton'", "put it on PATH")


def _hooks(baton: Baton) -> Iterator[DoctorFinding]:
    """Whether git reaches each of our scripts, once, where they were installed."""
    repo, way, called = baton.repo, install.route(baton.repo), dict[str, list[str]]()
    yield from state.silence(repo, baton.clock())
    if not install.installed(repo) and repo.boolean("baton.trailers"):
        yield _amiss("hooks", "baton.trailers is true, and the hook that writes trailers is not installed", _INSTALL)
        return
    if not install.installed(repo):
        yield _remark("hooks", "git's hooks are not installed; they say when HEAD leaves a checkpoint", _INSTALL)
        return
    for event in kepthooks.wanted(repo):
        hook = install.caller(repo, event)
        called[event] = ["the configuration"] if way == "config" and install.has_config_hook(repo, event) else []
        called[event] += [in_quotes(hook)] if hook is not None else []
    missing = [event for event, found in called.items() if not found]
    twice = [event for event, found in called.items() if len(found) > 1]
    names, more = ", ".join(missing), "install prints the lines to add"
    if missing and way == "foreign":
        yield _amiss(
            "hooks", f"the hooks in {in_quotes(install.hooks_folder(repo))} do not call ours: {names}; {more}", _INSTALL
        )
    elif missing:
        yield _amiss("hooks", f"git does not call ours: {names}", _INSTALL)
    else:
        yield _fine("hooks", f"called from {called[kepthooks.EVENTS[0]][0]}")
    draft = kepthooks.HooksDraft(repo)
    if gone := kepthooks.gone(draft):
        text = f"{in_quotes(gone[0])} has gone from beside hooks that are kept in {in_quotes(draft.folder)}"
        yield _amiss("hooks", text, "remove by hand a hook that nothing needs any more")
    if twice:
        yield _amiss("hooks-once", f"called twice, from {' and '.join(called[twice[0]])}: {', '.join(twice)}", _INSTALL)
    for event, data in install.scripts().items() if len(missing) < len(called) else ():
        if event not in called:
            continue
        path = os.path.join(install.script_folder(repo), event)
        there = read(path)
        if there != data or not os.access(path, os.X_OK):
            what = "is missing" if there is None else "is of another version" if there != data else "cannot be executed"
            yield _amiss("scripts", f"{in_quotes(path)} {what}", _INSTALL)


def _notes(baton: Baton) -> Iterator[DoctorFinding]:
    for key, purpose, lost, needed in (
        ("notes.displayRef", "'git log' shows the entries", "'git log' does not show the entries", False),
        ("notes.rewriteRef", "amend and rebase keep them", "amend and rebase leave them behind", True),
    ):
        covered = bool(install.COVERING & set(questions.all_values(baton.repo, key)))
        if covered or not needed:
            yield _fine(key, f"set, so {purpose}" if covered else f"not set, so {lost}")
        else:
            yield (_amiss if install.installed(baton.repo) else _remark)(key, f"not set, so {lost}", _INSTALL)
    if questions.all_values(baton.repo, "notes.rewriteMode")[-1:] == ["cat_sort_uniq"]:
        text = "cat_sort_uniq sorts the lines of entries when commits are squashed"
        yield _remark("notes.rewriteMode", text, "git config notes.rewriteMode concatenate")


def _latest(baton: Baton) -> Iterator[DoctorFinding]:
    where = baton.latest
    tracked = questions.tracked(baton.repo, where.paths()) if where is not None else ()
    if tracked:
        text = f"{in_quotes(tracked[0])} is tracked by git, so it is not ours and is not written"
        yield _amiss("latest", text, f"git rm --cached {in_quotes(tracked[0])}")
    elif where is not None and baton.latest_is_stale():
        yield _amiss("latest", "LATEST is behind the tracks", "git baton export")
    elif where is not None:
        yield _fine("latest", "LATEST says what the tracks say")


def _refs(baton: Baton) -> Iterator[DoctorFinding]:
    store = baton.store
    tips, refs = store.tips(), own_refs(store)
    wrong = {problem.where: problem.reason for problem in (*tips.problems, *strays(store))}
    strangers = [error for ref, error in strange(store, refs) if ref not in wrong]
    torn_ones = _broken(baton, refs)
    broken = {ref: why for ref, why in torn_ones.items() if ref not in wrong}
    text = "{} is left alone: {}"
    for ref, why in wrong.items():
        yield _amiss("refs", text.format(in_quotes(ref), why), MENDS if known_name(ref) or ref in torn_ones else "")
    try:
        meta.read(store)
    except RecordError as error:  # then nothing is synced, pruned or pinned
        yield _amiss("refs", plain(error.message), MENDS)
        broken.pop(META, None)
    yield from (_amiss("refs", text.format(in_quotes(ref), why), MENDS) for ref, why in broken.items())
    # nor is anything pruned or forgotten beside a stranger
    yield from (_amiss("refs", error.message, next(iter(error.hints), "")) for error in strangers)
    gone = missing(store.ours, refs)
    for ref in gone:
        track = track_of(ref)
        ways = brought_back(baton.repo, track) if track is not None else []
        said = f"{in_quotes(ref)} is gone, and nobody removed it by gitbaton: a fetch that prunes a mirror does that"
        killed = "one whose first writer was killed looks the same"
        yield _amiss("refs", "; ".join((said, killed, *ways)), f"{MENDS} --dry-run")
    if not (wrong or strangers or broken or gone):
        yield _fine("refs", f"{counted(len(tips.items), 'track')}, every ref in our namespace is ours")


def _broken(baton: Baton, refs: Mapping[str, Oid]) -> dict[str, str]:
    """Return our refs that lead to objects that cannot be read, each with why: every loose object is read, and packed ones are
    only met."""
    store = baton.store
    found = unreadable_refs(store, refs)
    rest = {ref: oid for ref, oid in refs.items() if ref not in found}
    try:
        whole = not rest or objectlists.are_there(baton.repo, rest.values(), torn(baton.repo))
    except (GitError, RecordError):
        whole = False
    return dict(sorted((found if whole else {**found, **torn_refs(store, rest, user_tips(store))}).items()))


def _derived(baton: Baton) -> Iterator[DoctorFinding]:
    behind = [in_quotes(stored.checkpoint.track) for stored in baton.store.behind(baton.store.tips().items)]
    texts = ["a change of several refs was begun and is not finished"] if state.pending(baton.repo) else []
    texts += [f"the tip or note of track {track} is behind its chain" for track in behind]
    yield from (_amiss("derived", text, _FIX) for text in texts)
    yield from () if behind else (_fine("derived", "tips and notes are up to date"),)


def _ours(baton: Baton) -> list[DoctorFinding]:
    """Whether the record of what was made here can be read; what it does not name is foreign."""
    text = "{} does not say what was made here: {}; what it does not name is foreign"
    return [_amiss("ours", text.format(in_quotes(path), why), _FIX) for path, why in baton.store.ours.damaged()]


def _runs_here(baton: Baton) -> Iterator[DoctorFinding]:
    """Yield the runs with a journal that cannot be read; an unfinished run is fine."""
    from gitbaton.runs.journal.chain import Journal
    from gitbaton.runs.journal.state import fold

    journal, unfinished = Journal(baton.repo, author=b"", clock=baton.clock), 0
    runs = journal.names()
    for run in runs:
        try:
            unfinished += not fold(journal.records(run)).finished
        except BatonError as error:
            unfinished += 1
            yield _amiss("runs", plain(error.message), MENDS)
    if runs:
        yield _fine("runs", f"{counted(len(runs), 'run')}, {unfinished} unfinished")


def _signing(baton: Baton) -> Iterator[DoctorFinding]:
    """Whether the user's key signs, where checkpoints are to be signed; and programs for it that do not count."""
    for key in sorted(PROGRAMS.keys() & baton.repo.unheeded.keys()):
        text = f"{key} of a repository does not count when checkpoints are signed and verified, since it names a program to run"
        yield _remark("signing", text, f"git config --unset-all {key}")
    if not baton.settings.sign:
        return
    from gitbaton.checkpoints.store.signatures import SECONDS
    from gitbaton.git.signing import check, sign

    try:
        made = sign(baton.repo, b"gitbaton doctor\n", seconds=SECONDS, asking=True)
        said = check(baton.repo, [made])[0]
    except GitError as error:
        yield _amiss("signing", f"baton.sign is on, and the key does not sign: {plain(error.message)}", "".join(error.hints))
        return
    who = f", as {in_quotes(plain(said.signer))}" if said.letter == "G" and said.signer else ""
    if said.letter == "G":
        yield _fine("signing", f"checkpoints are signed{who}")
    else:
        yield _remark("signing", "checkpoints are signed with a key that is not trusted here", "git baton verify --signatures")


def _work_trees(baton: Baton) -> Iterator[DoctorFinding]:
    """Whether killed commands left work trees of their own; the next run, bisect or drill removes them, too."""
    for path, made, marker in crashmarker.left(baton.repo):
        if made:
            yield _amiss("work-trees", f"a killed command left {in_quotes(path)}", _FIX)
        else:
            text = f"a crash marker names {in_quotes(path)}, which does not say that it was made for it; it is left alone"
            yield _amiss("work-trees", text, plain(_move_aside(baton.repo, marker)))


def _git_folders(baton: Baton) -> list[DoctorFinding]:
    """Whether this user may write where git keeps objects and refs: else nothing is recorded, and a hook does not say so."""
    repo = baton.repo
    common, objects = repo.layout.common_dir, repo.objects_dir
    below = [os.path.join(objects, name) for name in sorted(names_in(objects))]
    places = [common, objects, *(path for path in below if not os.path.islink(path))]
    for name in ("reftable", "refs", "refs/baton", "refs/checkpoints", "refs/notes", "refs/baton/tracks", "refs/baton/safety"):
        places.append(os.path.join(common, name))
    shut = [path for path in places if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK)]
    found = [
        _amiss("folders", f"{in_quotes(path)} cannot be written here: nothing is recorded", _opens(repo, path)) for path in shut
    ]
    return found[:_SHOWN] + ([_amiss("folders", f"and {len(found) - _SHOWN} more", "")] if len(found) > _SHOWN else [])


def _opens(repo: Repo, path: str) -> str:
    """Return the command that lets this user write into a folder; none where its file system is read-only."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""
    if os.stat(path).st_uid == os.geteuid():
        return f"chmod u+rwx {shlex.quote(plain(path))}"
    shared = mode_of(repo.settings().get("core.sharedrepository", [""])[-1])
    return f"sudo {'chmod g+rwx' if shared else f'chown {os.geteuid()}'} {shlex.quote(plain(path))}"


def _own_files(baton: Baton) -> list[DoctorFinding]:
    """Whether the files and folders at our places are ours."""
    found = list(odd(baton.repo, baton.latest))
    return found[:_SHOWN] + ([_amiss("files", f"and {len(found) - _SHOWN} more", "")] if len(found) > _SHOWN else [])


def _threads(baton: Baton) -> Iterator[DoctorFinding]:
    """Whether LangGraph's threads can be read, and whether anything of them waits to be brought into git."""
    refs = baton.repo.objects.refs(THREADS, LATE)
    folder = os.path.join(baton.repo.shared_dir, "wal")
    waits = waiting(folder)
    if refs:
        with Baton(baton.repo.layout.root or baton.repo.layout.git_dir) as other:
            rows = list(checked(other.repo.objects, baton.repo.layout.algorithm, refs))
        texts = (f"thread {in_quotes(r.thread)} cannot be read: {r.wrong} ({in_quotes(r.ref)})" for r in rows if r.wrong)
        yield from (_amiss("threads", plain(text), MENDS) for text in texts)
        count = counted(sum(row.count for row in rows), "checkpoint")
        yield _fine("threads", f"{counted(len({row.thread for row in rows}), 'thread')}, {count}")
    if waits:
        text = f"records of the log that git does not have yet: {waits}"
        yield _fine("threads-log", f"{text}; if nobody is at work, 'git baton thread list' stores them")
        for thread, wrong in sorted(stuck(folder, baton.repo.objects).items()):
            text = f"thread {in_quotes(thread)} cannot be brought into git: {wrong}; the log keeps what it has of it"
            yield _amiss("threads-log", plain(text), "git fsck")
    for path in stale_keeps(baton.repo):
        yield _amiss("threads-packs", f"{in_quotes(path)} keeps a pack for a process that has ended", "git baton thread list")


def _claims(baton: Baton) -> Iterator[DoctorFinding]:
    """Whether another machine holds a step: only that machine can tell if it still works at it."""
    from gitbaton.runs.claims import Claims

    for held in Claims(baton.repo).elsewhere():
        whose = f"step {in_quotes(held.step)} of run {in_quotes(held.run)}"
        text = f"{whose} is claimed by process {held.pid} on {in_quotes(held.host)}, another machine"
        mend = f"if nothing of it runs there any more: mv {shlex.quote(held.path)} {shlex.quote(held.path)}.over"
        yield _remark("claims", plain(text), plain(mend))


def _head(baton: Baton) -> list[DoctorFinding]:
    """Whether HEAD's branch holds an id, and its commit can be read."""
    unread = read_head(baton.store)[1]
    return [_amiss("head", unread, MENDS)] if unread else []


def _index(baton: Baton) -> list[DoctorFinding]:
    """Whether git can read the index of this work tree."""
    path = baton.repo.layout.index
    damaged = os.path.lexists(path) and index_is_torn(path, baton.repo.layout.algorithm)
    return [_amiss("index", f"{in_quotes(path)} is damaged", index_anew(path))] if damaged else []


def _locks(baton: Baton) -> Iterator[DoctorFinding]:
    layout, stale = baton.repo.layout, []
    paths = [os.path.join(layout.common_dir, *ref.split("/")) for ref in _locked(baton)]
    for path in (f"{path}.lock" for path in (*paths, os.path.join(layout.git_dir, CURRENT))):
        with suppress(FileNotFoundError):
            if time.time() - os.stat(path).st_mtime > STALE_LOCK:
                stale.append(path)
    rows = [(f"{in_quotes(path)} is a stale lock", _FIX) for path in stale]
    rows += [(said, mend) for path, said, mend in locks.stale(baton.repo, STALE_LOCK) if path not in stale]
    yield from (_amiss("locks", said, mend) for said, mend in rows)
    yield from () if rows else (_fine("locks", "no stale locks"),)


def _history(baton: Baton) -> Iterator[DoctorFinding]:
    total, tips = 0, baton.store.chains()[0]
    walked = baton.repo.objects.chains(tips.values())
    for track, tip in tips.items():
        oids = walked.get(tip, [])
        if len(oids) < 2:  # it leads to no chain, which is said of its ref
            continue
        total += len(oids) - 1
        if torn := baton.store.torn(track, oids):
            yield _amiss("history", torn, MENDS)
    algorithm = [text for _, text in questions.matching(baton.repo, r"^fetch\.negotiationalgorithm$")]
    if total > MANY and algorithm[-1:] != ["skipping"]:
        mend = "git config fetch.negotiationAlgorithm skipping"
        yield _remark("history", f"{total} checkpoints make 'git fetch' negotiate longer", mend)
    else:
        yield _fine("history", counted(total, "checkpoint"))


def _filters(baton: Baton) -> Iterator[DoctorFinding]:
    """Yield the filters of tracked files that do not clean them: what these hold stays on this machine then."""
    repo = baton.repo
    rows = dict(questions.matching(repo, r"^filter\..*\.(clean|process)$"))
    tracked = zsplit(repo.git.out("ls-files", "-z")) if repo.layout.root else []
    first: dict[str, str] = {}
    for path, name in gated(repo, repo.layout.root or "", tracked).items():
        first.setdefault(name, path)
    amiss = False
    for name, path in sorted(first.items()):
        command = rows.get(f"filter.{name}.process") or rows.get(f"filter.{name}.clean") or ""
        what = "it has no command" if not command else f"'{command}' cannot run" if not _runs(command) else ""
        git = requiring(repo.git, (name,))
        if not what and git.run("hash-object", "--stdin", f"--path={path}", stdin=b"").code != 0:
            what = f"'{command}' fails"
        if what:
            amiss = True
            said = f"{in_quotes(path)} needs the filter {in_quotes(name)}, and {what}"
            yield _amiss("filters", said, f"install and configure {in_quotes(name)}")
    if not amiss:
        yield _fine("filters", "every filter that is needed can run")


def _held(baton: Baton) -> Iterator[DoctorFinding]:
    """Yield the bytes that passed no filter and are kept in files."""
    files = HeldStore(baton.repo).names()
    if files:
        kinds = f"{counted(len(files), 'file')} that passed no filter, or that git ignores"
        yield _fine("held", f"{kinds}: {sum(files.values()):,} bytes in 'baton/held'")


def _runs(command: str) -> bool:
    """Whether the program of a filter is there. Git gives the command to a shell, so its first word decides."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return bool(words) and shutil.which(words[0]) is not None


# An address or a path that was named in place of a remote, and the digest of a long one: no configuration has these.
_UNNAMED = re.compile(r"/|.*:|.*-[0-9a-f]{12}\Z", re.DOTALL)


def _remotes(baton: Baton) -> Iterator[DoctorFinding]:
    """Yield the remotes from which 'git fetch' brings refs of ours, and those that are configured no more."""
    specs = own_refspecs(baton.repo)
    stale = {remote: meant for remote, _, meant in specs if remote != meant}
    for remote, meant in stale.items():
        text = f"'git fetch' brings our refs of {in_quotes(remote)} to where those of {in_quotes(meant)} lie"
        yield DoctorFinding(name="fetch", ok=False, text=text, mend=f"git baton install --fetch {in_shell(remote)}")
    fine = list(dict.fromkeys(in_quotes(remote) for remote, _, _ in specs if remote not in stale))
    if fine:
        yield DoctorFinding(name="fetch", ok=True, text=f"'git fetch' brings our refs of {', '.join(fine)}")
    renamed = {meant: remote for remote, meant in stale.items()}
    for remote, refs in _gone_remotes(baton).items():
        tracks = [name for ref in refs if (name := _track_fetched(ref)) is not None]
        text = f"{in_quotes(remote)} is no remote any more; what was fetched of it stays"
        text += f": {some(len(tracks), first_few(tracks))}" if tracks else ""
        mend = "git baton doctor --fix" if _kept_elsewhere(baton, refs).keys() == refs.keys() else ""
        if not mend and remote in renamed:
            mend = f"git baton fetch {in_shell(renamed[remote])}"
        yield _remark("remotes", text, mend) if mend else _fine("remotes", text)


def _gone_remotes(baton: Baton) -> dict[str, dict[str, Oid]]:
    """Return the refs that were fetched of remotes that had a name and are configured no more, by that name."""
    there, found = set(names(baton.repo)), dict[str, dict[str, Oid]]()
    for ref, oid in baton.repo.objects.refs(REMOTES).items():
        remote = remote_of(ref)
        if remote is not None and remote[0] not in there and not _UNNAMED.match(remote[0]):
            found.setdefault(remote[0], {})[ref] = oid
    return found


def drop_held(baton: Baton) -> None:
    """Remove the refs of remotes that are gone, where other refs hold all that they lead to. Called with the lock held. Raises
    GitError."""
    for refs in _gone_remotes(baton).values():
        held = _kept_elsewhere(baton, refs)
        if held.keys() == refs.keys():
            baton.repo.objects.update([RefChange(name=ref, new=None, old=oid) for ref, oid in held.items()])


def _kept_elsewhere(baton: Baton, refs: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return the refs that lead to nothing that only they hold; none where that cannot be told."""
    others = {oid for ref, oid in baton.repo.objects.refs("refs/").items() if ref not in refs}
    try:
        alone = reachable(baton.repo, list(refs.values()), others)
    except BatonError:
        return {}
    return {ref: oid for ref, oid in refs.items() if oid not in alone}


def _track_fetched(ref: str) -> str | None:
    rest = (remote_of(ref) or ("", ""))[1]
    return decode_track(rest.removeprefix("tracks/")) if rest.startswith("tracks/") else None


_FOLDERS = (
    *("attempts", "broken", "claims", "foreign", "foreign-runs", "held", "hooks", "isolated", "lanes", "lanes.new", "late"),
    *("deleted", "lock", "pushed", "sessions", "tmp", "transcripts", "wal"),
)
_FILES = (
    *("agents", "boot", "detached", "expect", "facts", "files.cache", "flock", "index-facts", "installed", "late-hook"),
    *(
        "late-hook-waits",
        "latest",
        "log",
        "log.old",
        "modes",
        "newest",
        "overlaps",
        "page.html",
        "paused",
        "pruned",
        "pruning",
        "quiet",
    ),
    *(f"search.sqlite{tail}" for tail in ("", "-journal", "-shm", "-wal")),
    *("repacking", "restore", "restoring", "revision", "rewritten", "run", "statusline", "titles", "worktree"),
)
_SWEPT = ("isolated", "tmp")  # what lies there and is ours has a name by which it is known
_COPIES = ("broken", "lanes", "lanes.new")  # of what is the user's, or git's


def _odd(path: str, why: str, mend: str) -> DoctorFinding:
    """Return a file or folder at a place of ours that is not ours, or not the owner's: why, and a command that mends it."""
    return _amiss("files", f"{in_quotes(path)} {why}", plain(mend))


def odd(repo: Repo, where: LatestPlace | None) -> Iterator[DoctorFinding]:
    """Yield all that is odd in the folders of ours of every work tree, and at the places of LATEST (``where``). Only looks."""
    common = repo.layout.common_dir
    owner = None if repo.settings().get("core.sharedrepository") else os.stat(common).st_uid
    for _, git_dir, _ in questions.worktrees(repo):
        if current := in_the_way(git_dir, CURRENT):
            yield _other(repo, os.path.join(git_dir, CURRENT), f"is {current}, and no ref")
        top = os.path.join(git_dir, "baton")
        try:
            found = os.lstat(top)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _theirs(top, found, owner)
            yield from _below(repo, top, owner, 0)
        else:
            yield _other(repo, top, f"is {kind_of(found.st_mode)}, and no folder of ours")
    for path in (os.path.join(where.directory, name) for name in NAMES) if where is not None else ():
        with suppress(OSError):
            if not stat.S_ISREG(mode := os.lstat(path).st_mode):
                yield _other(repo, path, f"is {kind_of(mode)}, and no file of ours")


def _move_aside(repo: Repo, path: str) -> str:
    """Return the command that moves a file out of a place of ours."""
    target = os.path.join(repo.layout.common_dir, f"{os.path.basename(path)}.odd")
    return f"mv {shlex.quote(path)} {shlex.quote(target)}"


def _below(repo: Repo, folder: str, owner: int | None, depth: int) -> Iterator[DoctorFinding]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield _odd(folder, f"cannot be read: {error.strerror}", f"chmod u+rwx {shlex.quote(folder)}")
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # it has just gone
            continue
        wrong = _wrong(entry.name, os.path.basename(folder), found, depth)
        if wrong:
            yield _other(repo, entry.path, wrong)
            continue
        yield from _theirs(entry.path, found, owner)
        if stat.S_ISDIR(found.st_mode) and entry.name not in _COPIES and os.path.basename(folder) != "tmp":
            yield from _below(repo, entry.path, owner, depth + 1)


def _wrong(name: str, folder: str, found: os.stat_result, depth: int) -> str:
    """Return why an entry of a folder of ours is none of ours; empty where it may be."""
    is_folder, is_file = stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode)
    swept = folder if depth == 1 and folder in _SWEPT else ""
    kinds = _FILES if depth == 0 else (name,) if swept == "isolated" else ()  # of which no folder is ours
    if not (is_folder or is_file) or (is_folder and name in kinds) or (is_file and depth == 0 and name in _FOLDERS):
        return f"is {kind_of(found.st_mode)}, and no {'folder' if depth == 0 and name in _FOLDERS else 'file'} of ours"
    if swept and not {"isolated": NAME.match(name), "tmp": OURS.match(name) or name.startswith(WORKSHOP)}[swept]:
        return "has no name that we give, and stays"
    return "is larger than what we write there" if swept == "isolated" and found.st_size > LARGEST else ""


def _other(repo: Repo, path: str, why: str) -> DoctorFinding:
    return _odd(path, why, _move_aside(repo, path))


def _theirs(path: str, found: os.stat_result, owner: int | None) -> Iterator[DoctorFinding]:
    """Yield an entry that does not belong to the repository's owner, or may not be read."""
    if owner is not None and found.st_uid != owner:
        mend = f"sudo chown -h {owner} {shlex.quote(plain(path))}"
        yield _odd(path, f"belongs to user {found.st_uid}, and the repository to user {owner}", mend)
    elif found.st_uid == os.geteuid() and found.st_mode & 0o600 != 0o600 and stat.S_ISREG(found.st_mode):
        yield _odd(path, "may not be read and written by its owner", f"chmod u+rw {shlex.quote(path)}")
