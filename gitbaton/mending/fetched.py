"""What was fetched of remotes: refspecs that were written for another remote, and what stays of a remote that is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gitbaton.baton import Baton
from gitbaton.codec import decode_track, in_quotes
from gitbaton.errors import BatonError
from gitbaton.git.objectlists import reachable
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import names
from gitbaton.install.githooks import own_refspecs
from gitbaton.model import Finding, Oid
from gitbaton.render import first_few, in_shell, some
from gitbaton.store.refs import REMOTES, remote_of

# An address or a path that was named in place of a remote, and the digest of a long one: no configuration has these.
_UNNAMED = re.compile(r"/|.*:|.*-[0-9a-f]{12}\Z", re.DOTALL)


def examine(baton: Baton) -> Iterator[Finding]:
    """What the configuration fetches for us, and what was fetched of remotes that it has no more."""
    specs = own_refspecs(baton.repo)
    stale = {remote: meant for remote, _, meant in specs if remote != meant}
    for remote, meant in stale.items():
        text = f"'git fetch' brings our refs of {in_quotes(remote)} to where those of {in_quotes(meant)} lie"
        yield Finding(name="fetch", ok=False, text=text, mend=f"git baton install --fetch {in_shell(remote)}")
    fine = list(dict.fromkeys(in_quotes(remote) for remote, _, _ in specs if remote not in stale))
    if fine:
        yield Finding(name="fetch", ok=True, text=f"'git fetch' brings our refs of {', '.join(fine)}")
    renamed = {meant: remote for remote, meant in stale.items()}
    for remote, refs in gone(baton).items():
        tracks = [name for ref in refs if (name := _track(ref)) is not None]
        text = f"{in_quotes(remote)} is no remote any more; what was fetched of it stays"
        text += f": {some(len(tracks), first_few(tracks))}" if tracks else ""
        mend = "git baton doctor --fix" if _held(baton, refs).keys() == refs.keys() else ""
        if not mend and remote in renamed:
            mend = f"git baton fetch {in_shell(renamed[remote])}"
        yield Finding(name="remotes", ok=not mend, text=text, mend=mend)


def gone(baton: Baton) -> dict[str, dict[str, Oid]]:
    """The refs that were fetched of remotes that had a name and are configured no more, by that name."""
    there, found = set(names(baton.repo)), dict[str, dict[str, Oid]]()
    for ref, oid in baton.repo.objects.refs(REMOTES).items():
        remote = remote_of(ref)
        if remote is not None and remote[0] not in there and not _UNNAMED.match(remote[0]):
            found.setdefault(remote[0], {})[ref] = oid
    return found


def drop_held(baton: Baton) -> None:
    """Remove the refs of remotes that are gone, where other refs hold all that they lead to. Called with the lock held. Raises
    GitError."""
    for refs in gone(baton).values():
        held = _held(baton, refs)
        if held.keys() == refs.keys():
            baton.repo.objects.update([RefChange(name=ref, new=None, old=oid) for ref, oid in held.items()])


def _held(baton: Baton, refs: Mapping[str, Oid]) -> dict[str, Oid]:
    """Those of the refs that lead to nothing that only they hold; none where that cannot be told."""
    others = {oid for ref, oid in baton.repo.objects.refs("refs/").items() if ref not in refs}
    try:
        alone = reachable(baton.repo, list(refs.values()), others)
    except BatonError:
        return {}
    return {ref: oid for ref, oid in refs.items() if oid not in alone}


def _track(ref: str) -> str | None:
    rest = (remote_of(ref) or ("", ""))[1]
    return decode_track(rest.removeprefix("tracks/")) if rest.startswith("tracks/") else None
