"""Traces of forgotten checkpoints besides objects: their words in reflogs, LATEST, exported files, logs and records of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.codec import canonical, timestamp
from gitbaton.git import questions
from gitbaton.git.repo import Repo
from gitbaton.mirror import EXPORTED
from gitbaton.model import Oid, Stored
from gitbaton.retention import removing
from gitbaton.retention.forgetting import Forgetting
from gitbaton.store import CURRENT, NOTES
from gitbaton.store.sound import own_refs
from gitbaton.transcripts import proofs

_EXPORTED = re.compile(rf"{EXPORTED}.+\.(?:md|json)\Z", re.DOTALL)
_LOGS = ("log", "log.old")
_RECORDS = ("restore", "restore.bad", "restore.new", "LATEST.md.new", "LATEST.json.new")
_MAX_FILE = 64 << 20
_SHORTEST = 6  # letters of a word of theirs that is looked for


def erase(baton: Baton, made: Forgetting) -> list[str]:
    """Remove what may hold their words, in every work tree; what could not be is said. Raises nothing of the disk's."""
    _clear_reflogs(baton.repo, {*own_refs(baton.store), *made.seen})
    # A digest of a text of which only a password is unknown gives it away.
    known = [talk.ref for talk in made.conversations if not proofs.forgotten(baton.repo, talk.ref)]
    said = _removed(proofs.path(baton.repo, ref) for ref in known)
    said += _removed(os.path.join(baton.repo.shared_dir, name) for name in _LOGS)  # whatever a hook could not do, it said there
    needles = words(made.parts)
    for _, git_dir, root in questions.worktrees(baton.repo):
        said += _removed(_records(os.path.join(git_dir, "baton"), made, needles))
        for there in removing.places(baton, root) if root else ():
            said += _exported(baton, made, there, root)
    return [*said, *removing.refresh(baton)]


def words(parts: Iterable[Stored]) -> tuple[bytes, ...]:
    """The texts of checkpoints line by line, plain and as JSON writes them; short ones are left out."""
    found: set[bytes] = set()
    for stored in parts:
        c = stored.checkpoint
        texts = [c.step, c.note, c.next_cmd, *c.decisions, c.label or "", *(text for _, text in c.extra)]
        texts += [c.carried.step] if c.carried else []
        for text in (line.strip() for whole in texts for line in whole.split("\n")):
            if len(text) >= _SHORTEST:
                found |= {text.encode("utf-8", "surrogateescape"), quoted(text)}
    return tuple(sorted(found))


def quoted(text: str) -> bytes:
    """A text as it stands between the quotes of JSON."""
    return canonical([text]).strip(b"[]\n ")[1:-1]


def _clear_reflogs(repo: Repo, refs: Iterable[str]) -> None:
    """Empty the reflogs of our refs; those of refs that are gone, too."""
    common = repo.layout.common_dir
    if os.path.isdir(os.path.join(common, "reftable")):
        for ref in sorted(refs):
            repo.git.run("reflog", "expire", "--expire=all", "--expire-unreachable=all", ref)
        return
    for top in ("refs/baton", "refs/checkpoints", NOTES, *sorted(refs)):
        path = os.path.join(common, "logs", top)
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            _removed([path])
    _removed(os.path.join(git_dir, "logs", CURRENT) for _, git_dir, _ in questions.worktrees(repo))


def _removed(paths: Iterable[str]) -> list[str]:
    """Remove files; of which that failed is said."""
    said = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            said.append(f"'{path}' may hold their words and cannot be removed: {error.strerror}")
    return said


def _records(place: str, made: Forgetting, needles: Sequence[bytes]) -> list[str]:
    """Records of ours in the git directory of a work tree: of restores that name them, of sessions that say their words."""
    ids = [oid.encode() for oid in made.all_ids] + [s.commit.encode() for s in made.parts]
    sessions = {s.checkpoint.agent.session for s in made.parts if s.checkpoint.agent}
    sessions |= {sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:40] for name in sessions if name}
    theirs = tuple(f"-{session}" for session in sessions if session)
    folder = os.path.join(place, "sessions")
    paths = [os.path.join(place, name) for name in _RECORDS]
    paths += [os.path.join(folder, name) for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())]
    return [path for path in paths if os.path.basename(path).endswith(theirs) or holds(path, [*ids, *needles])]


def holds(path: str, needles: Iterable[bytes]) -> bool:
    """Whether a regular file holds any of some texts."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(_MAX_FILE)
    except OSError:
        return False
    return any(needle in data for needle in needles)


def _exported(baton: Baton, made: Forgetting, there: mirror.Place, root: str) -> Iterator[str]:
    ids = _shown(made.all_ids)
    try:
        names = [name for name in sorted(os.listdir(there.directory)) if _EXPORTED.match(name)]
    except OSError:
        return
    found = [name for name in names if holds(os.path.join(there.directory, name), ids)]
    if there.inside is not None and found:
        paths = {os.path.normpath(os.path.join(there.inside, name)): name for name in found}
        for path in questions.tracked(baton.repo, tuple(paths), root):
            found.remove(paths[path])
            yield f"'{path}' is tracked by git and stays"
    yield from _removed(os.path.join(there.directory, name) for name in found)
    if there.inside is not None:  # a label is in the name of its file
        stamps = [f"{EXPORTED}{re.sub('[-:.]', '', timestamp(s.checkpoint.created))}_" for s in made.parts]
        yield from mirror.unignore(baton.repo, [os.path.normpath(os.path.join(there.inside, stamp)) for stamp in stamps])


def _shown(ids: Iterable[Oid]) -> list[bytes]:
    """How files of ours show that they hold one of some checkpoints; others only name it as the one before."""
    return [text for oid in ids for text in (f'"id": "{oid}"'.encode(), f"    id={oid}\n".encode())]


def latest_holding(baton: Baton, ids: Iterable[Oid]) -> list[str]:
    """The LATEST files of all work trees that still show one of some checkpoints."""
    needles, roots = _shown(ids), [root for _, _, root in questions.worktrees(baton.repo) if root]
    places = [place.directory for root in roots for place in removing.places(baton, root)]
    paths = [os.path.join(place, name) for place in dict.fromkeys(places) for name in mirror.NAMES]
    return [path for path in paths if holds(path, needles)]
