"""Words of forgotten checkpoints that others say again, and what git keeps although nothing reaches it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import canonical, parse_note, payload
from gitbaton.errors import RecordError
from gitbaton.git.notes import walk
from gitbaton.git.objects import object_id
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.retention.forgetting import Forgetting
from gitbaton.retention.leftover import Held
from gitbaton.store import CHAINS, NOTES, SAFETY
from gitbaton.store.refs import REMOTES
from gitbaton.store.sound import own_refs
from gitbaton.store.values import MAX_COMMIT

_LEAST = 12  # characters: what is shorter is said by chance


def repeated(baton: Baton, made: Forgetting) -> Iterator[Held]:
    """Checkpoints of any chain, here or fetched, and notes that hold a text of theirs word for word. Raises GitError."""
    texts = list(dict.fromkeys(_texts(made)))
    if not texts:
        return
    found: dict[str, list[Oid]] = {}
    for oid, raw in _records(baton):
        for name in dict.fromkeys(name for name, text in texts if canonical([text]).strip(b"[]\n ")[1:-1] in raw):
            found.setdefault(name, []).append(oid)
    for name, ids in found.items():
        more = f" and {len(ids) - 1} other{'s' if len(ids) > 2 else ''}" if len(ids) > 1 else ""
        yield Held(what=f"its {name}", by=f"checkpoint {baton.short(ids[0])}{more}", ids=tuple(ids), repeated=True)
    yield from _noted(baton, texts)


def _texts(made: Forgetting) -> Iterator[tuple[str, str]]:
    """What was written in those that were named, each with what it is called; what an automatic one says of itself is not."""
    for stored in made.parts:
        c = stored.checkpoint
        if stored.id in made.ids:
            step = c.headline if c.carried or c.kind == "manual" else ""
            rows = [("step", step), ("note", c.note), ("next_cmd", c.next_cmd), *(("decision", text) for text in c.decisions)]
            yield from (
                (name, text) for name, text in [*rows, *(("extra", text) for _, text in c.extra)] if len(text) >= _LEAST
            )


def _records(baton: Baton) -> Iterator[tuple[Oid, bytes]]:
    """Every checkpoint once, with its JSON."""
    objects, seen = baton.store.objects, dict[Oid, None]()
    for ref, tip in own_refs(baton.store).items():
        fetched = ref.startswith(REMOTES) and ref.removeprefix(REMOTES).split("/")[1:2] == ["tracks"]
        if fetched or ref.startswith((CHAINS, SAFETY)):
            seen |= dict.fromkeys(objects.first_parents(tip))
    done: set[Oid] = set()
    for item in objects.read_many(list(seen), MAX_COMMIT):
        try:
            raw = payload(item.data.partition(b"\n\n")[2]) if item is not None and item.data else b""
        except RecordError:
            continue
        oid = object_id(objects.algorithm, "blob", raw)
        if raw and oid not in done:
            done.add(oid)
            yield oid, raw


def _noted(baton: Baton, texts: Sequence[tuple[str, str]]) -> Iterator[Held]:
    """Notes with such a text outside the entries of checkpoints."""
    tree = baton.store.notes_tree()[1]
    rows = list(walk(baton.store.objects, tree)) if tree else []
    for (commit, _), item in zip(rows, baton.store.objects.read_many([blob for _, blob in rows]), strict=True):
        said = parse_note(item.data).preamble if item is not None and item.data else b""
        for name in dict.fromkeys(name for name, text in texts if said and text.encode("utf-8", "surrogateescape") in said):
            yield Held(what=f"its {name}", by=f"the note of commit {commit} in '{NOTES}'", repeated=True)


def kept_by_git(repo: Repo) -> list[str]:
    """What git's garbage collection never removes here, in words."""
    top = repo.objects_dir
    folder, said = os.path.join(top, "pack"), []
    if os.path.isdir(folder) and any(name.endswith(".keep") for name in os.listdir(folder)):
        said.append("git keeps all that lies in packs with a '.keep' file, whatever it collects")
    alternates = os.path.join(top, "info", "alternates")
    if os.path.isfile(alternates) and os.path.getsize(alternates):
        said.append("git keeps all that lies in other object directories, which 'objects/info/alternates' names")
    return said
