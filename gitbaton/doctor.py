"""What is installed, what would not run, what is behind, and the one line that mends it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

from gitbaton import install, rewrites
from gitbaton.baton import Baton
from gitbaton.codec import plain
from gitbaton.errors import BatonError
from gitbaton.git import settings
from gitbaton.store import NOTES, TIPS, chain_ref, tip_ref, track_of
from gitbaton.values import value

MANY = 1000
STALE_LOCK = 10.0


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
    checks = (_doors, _hooks, _notes, _latest, _refs, _derived, _locks, _history, _filters)
    for check in checks:
        try:
            found += check(baton)
        except (BatonError, OSError) as error:
            found.append(Finding(name=check.__name__.strip("_"), ok=False, text=f"cannot be looked at: {plain(str(error))}"))
    return found


def fix(baton: Baton) -> list[str]:
    """Repair what is behind its chain and remove stale locks; what could not be done comes back. Raises BatonError."""
    tracks = baton.store.chains()[0]
    names = tuple(ref for track in tracks for ref in (chain_ref(track), tip_ref(track)))
    with baton.repo.lock((*names, NOTES)):
        pass  # taking the lock removes stale lock files beside these refs
    warnings = baton.refresh()
    with baton.repo.lock(()):
        rewrites.trim(baton.repo)
    return warnings


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
    repo = baton.repo
    way = install.route(repo)
    plan = install.plan_install(baton)
    hook_steps = [s.text for s in plan.steps if "notes." not in s.text]
    if way == "foreign":
        path = settings.hooks_path(repo)
        called = [e for e in install.EVENTS if _mentions(os.path.join(path or "", e))]
        if len(called) == len(install.EVENTS):
            yield Finding(name="hooks", ok=True, text=f"the hooks in '{path}' call ours")
        else:
            missing = ", ".join(e for e in install.EVENTS if e not in called)
            text = f"core.hooksPath is '{path}', and its hooks do not call ours: {missing}"
            yield Finding(name="hooks", ok=False, text=text, mend="git baton install prints the lines to add")
    elif hook_steps:
        yield Finding(name="hooks", ok=False, text=f"not in place: {hook_steps[0]}", mend="git baton install")
    else:
        yield Finding(name="hooks", ok=True, text=f"in place ({way})")
    if way == "config":
        folder = settings.default_hooks(repo)
        twice = [e for e in install.EVENTS if _mentions(os.path.join(folder, e))]
        if twice:
            text = f"called twice, from the configuration and from '{folder}': {', '.join(twice)}"
            yield Finding(name="hooks-once", ok=False, text=text, mend="git baton uninstall && git baton install")


def _mentions(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 16)
    except OSError:
        return False
    return os.access(path, os.X_OK) and (b"baton/hooks/" in text or install.MARK in text)


def _notes(baton: Baton) -> Iterator[Finding]:
    for key, purpose in (
        ("notes.displayRef", "'git log' shows the entries"),
        ("notes.rewriteRef", "amend and rebase keep them"),
    ):
        values = settings.all_values(baton.repo, key)
        if {install.GLOB, NOTES, "refs/notes/*"} & set(values):
            yield Finding(name=key, ok=True, text=f"set, so {purpose}")
        else:
            yield Finding(name=key, ok=key == "notes.displayRef", text="not set", mend="git baton install")


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
    tips = baton.store.tips()
    strangers = [ref for ref in baton.repo.objects.refs(TIPS) if track_of(ref) is None]
    for problem in tips.problems:
        yield Finding(name="refs", ok=False, text=f"'{problem.where}' is left alone: {problem.reason}")
    for ref in strangers:
        yield Finding(name="refs", ok=False, text=f"'{ref}' is left alone: the name is not one that gitbaton writes")
    if not tips.problems and not strangers:
        yield Finding(name="refs", ok=True, text=f"{len(tips.items)} tracks, every ref in our namespace is ours")


def _derived(baton: Baton) -> Iterator[Finding]:
    behind = baton.store.behind(baton.store.tips().items)
    for stored in behind:
        text = f"the tip or note of track '{stored.checkpoint.track}' is behind its chain"
        yield Finding(name="derived", ok=False, text=text, mend="git baton doctor --fix")
    if not behind:
        yield Finding(name="derived", ok=True, text="tips and notes are up to date")


def _locks(baton: Baton) -> Iterator[Finding]:
    common, stale = baton.repo.layout.common_dir, []
    for track in baton.store.chains()[0]:
        for ref in (chain_ref(track), tip_ref(track), NOTES):
            path = os.path.join(common, *ref.split("/")) + ".lock"
            if os.path.exists(path) and time.time() - os.stat(path).st_mtime > STALE_LOCK:
                stale.append(path)
    for path in dict.fromkeys(stale):
        yield Finding(name="locks", ok=False, text=f"'{path}' is a stale lock", mend="git baton doctor --fix")
    if not stale:
        yield Finding(name="locks", ok=True, text="no stale locks")


def _history(baton: Baton) -> Iterator[Finding]:
    total = sum(len(baton.repo.objects.first_parents(oid)) - 1 for oid in baton.store.chains()[0].values())
    algorithm = [text for _, text in settings.matching(baton.repo, r"^fetch\.negotiationalgorithm$")]
    if total > MANY and algorithm[-1:] != ["skipping"]:
        text = f"{total} checkpoints make 'git fetch' negotiate longer"
        yield Finding(name="history", ok=False, text=text, mend="git config fetch.negotiationAlgorithm skipping")
    else:
        yield Finding(name="history", ok=True, text=f"{total} checkpoints")


def _filters(baton: Baton) -> Iterator[Finding]:
    """Filters that git requires and whose program is not there: a snapshot then stores such files as they are."""
    rows = dict(settings.matching(baton.repo, r"^filter\..*\.(required|clean|process)$"))
    names = {key[7:].rsplit(".", 1)[0] for key in rows}
    for name in sorted(names):
        if rows.get(f"filter.{name}.required", "false").lower() not in ("true", "yes", "on", "1", ""):
            continue
        command = rows.get(f"filter.{name}.process") or rows.get(f"filter.{name}.clean") or ""
        program = command.split(" ")[0]
        if not program or shutil.which(program) is None:
            text = f"filter '{name}' is required and '{program}' is not there: its files are stored unfiltered"
            yield Finding(name="filters", ok=False, text=text, mend=f"install '{program}'")
