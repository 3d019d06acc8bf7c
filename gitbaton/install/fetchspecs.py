"""``install --fetch``: refspecs by which a plain ``git fetch`` brings what others pushed, into our own namespace."""

from __future__ import annotations

import os

from gitbaton.baton import Baton
from gitbaton.errors import UsageError
from gitbaton.git import settings
from gitbaton.git.remotes import default, names
from gitbaton.install.hookfiles import Manifest
from gitbaton.install.steps import Plan, Step
from gitbaton.store import CHAINS, NOTES
from gitbaton.store.refs import META, remote_ref

SUFFIX = ".fetch"


def specs(remote: str) -> tuple[str, ...]:
    """The refspecs for a configured remote: globs, which are silent where the remote has nothing of the kind."""
    tracks, meta, notes = (remote_ref(remote, rest) for rest in ("tracks/*", "meta*", "notes*"))
    return f"+{CHAINS}*:{tracks}", f"+{META}*:{meta}", f"+{NOTES}*:{notes}"


def plan(baton: Baton, remote: str | None) -> Plan:
    """The refspecs to add to a remote, by default the one that git fetches from; nothing where they are all there.

    Raises UsageError for what is no configured remote.
    """
    repo = baton.repo
    name = default(repo, pushing=False) if remote is None else remote
    if name not in names(repo):
        raise UsageError(f"'{name}' is no configured remote", "'git remote' lists them")
    made = Manifest(os.path.join(repo.shared_dir, "installed"))
    key = f"remote.{name}{SUFFIX}"
    there = settings.local_values(repo, key)
    return Plan(steps=tuple(_step(baton, made, key, text) for text in specs(name) if text not in there))


def _step(baton: Baton, made: Manifest, key: str, text: str) -> Step:
    def run() -> None:
        made.add_config(key, text)
        settings.add_local(baton.repo, key, text)

    return Step(text=f"add {key} = {text} to the repository's configuration", run=run)


def added(baton: Baton) -> list[tuple[str, str]]:
    """The refspecs of ours in the repository's own configuration: what uninstall removes where no manifest tells."""
    found = [(f"remote.{name}{SUFFIX}", text) for name in names(baton.repo) for text in specs(name)]
    return [(key, text) for key, text in found if text in settings.local_values(baton.repo, key)]
