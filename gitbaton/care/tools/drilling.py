"""Drill: recovery proven step by step in a scratch clone. The repository stays as it is."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from gitbaton.base.codec import canonical, counted, in_quotes, os_error, plain
from gitbaton.base.errors import AmbiguousNameError, BatonError, NoAnswerError
from gitbaton.base.model import Head, Oid, Stored
from gitbaton.base.system.process import Result
from gitbaton.base.values import value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import stored_document
from gitbaton.checkpoints.store import CHAINS, CURRENT, NOTES, TIPS, tip_ref
from gitbaton.git.worktree.scratch import ScratchClone, fingerprint, scratch_copy

FOLDER = "gitbaton-drill"
STEPS: dict[str, tuple[str, ...]] = {  # each with the states that it starts from
    "place": (),
    "record": (),
    "change": ("first",),
    "kill snapshot": ("second",),
    "resume": (),
    "restore": ("words",),
    "undo": ("wrecked",),
    "kill restore": ("words", "wrecked"),
    "collect": ("first", "words", "wrecked"),
}
WORDS = {
    "--step": "drill: a step\nof two lines",
    "--note": 'a "note" with \u00fcml\u00e4uts,\ttabs\n\nand an empty line',
    "--next-cmd": "echo 'never run'",
    "--validation": "green",
}
LISTS = ("--decision", "one; because", "--decision", "two", "--extra", "key=value = more")
SPOKEN = [*(word for pair in WORDS.items() for word in pair), *LISTS]
SNAPSHOT_KILLS = (
    ("os.posix_spawn", "write-tree"),
    ("fcntl.flock", ""),
    ("os.posix_spawn", "pack-objects"),
    ("os.posix_spawn", "update-ref"),
)
RESTORE_KILLS = tuple(("gitbaton.restore", place) for place in ("begin", "files", "index", "rename"))
# Work of a drill, by sh: $0 is its folder, and the words are files of the user's that git stores as they are. A CDPATH of
# theirs says nothing of a name that begins with a dot.
_MAKE = 'mkdir -p "$0"; cd "./$0"; echo one >one.txt; echo two >\'two \u00fc.txt\'; rm -rf link; ln -s one.txt link'
_EDIT = """
[ $# -lt 1 ] || echo 'edited by the drill' >>"$1"; [ $# -lt 2 ] || rm -f -- "$2"
cd "./$0"; echo 'one, edited' >one.txt; echo '#!/bin/sh' >program; chmod 755 program
rm -f 'two \u00fc.txt'; mkdir -p new; : >new/empty
"""
_MORE = 'echo more >>"$0/one.txt"'  # so that a snapshot has objects to pack
_STAGE = 'echo wrecked >"$0/one.txt"'
_WRECK = """
for path; do : >"$path"; done
cd "./$0"; echo 'wrecked again' >one.txt; rm -rf program link; mkdir link; echo 'a folder now' >link/inside
echo untracked >untracked.txt
"""


@value
class DrillStep:
    """One step of the drill: whether it held, what was proven or what went wrong, and how long it took."""

    name: str
    ok: bool
    text: str
    milliseconds: int


def chosen(baton: Baton) -> Stored:
    """Return the newest checkpoint of the current or only track. Raises NotFoundError, AmbiguousNameError with a hint."""
    tracks = baton.store.chains()[0]
    if not tracks:
        raise baton.store.none()
    if baton.store.current() is None and len(tracks) > 1:
        raise AmbiguousNameError("no track is current in this work tree", "set one with 'git baton tracks use NAME'")
    return baton.tip()


def drill(baton: Baton) -> Iterator[DrillStep]:
    """Carry the drill out and give one value a step. Raises NotFoundError, AmbiguousNameError before anything is done.

    A step that fails is a value, too, and does not end the drill.
    """
    stored, before, began = chosen(baton), fingerprint(baton.repo), time.monotonic()
    try:
        with copied(baton, stored) as copy:
            tracks = counted(len(baton.store.chains()[0]), "track")
            yield _step("copy", True, f"{tracks} in a scratch copy that borrows the objects", began)
            yield from map(Drill(copy, stored).step, STEPS)
    except (BatonError, OSError) as error:
        yield _step("copy", False, os_error(error), began)
    began, now = time.monotonic(), fingerprint(baton.repo)
    moved = [name for name, was in before.items() if now[name] != was]
    text = f"changed meanwhile: {', '.join(moved)}" if moved else "HEAD, refs, index and status of this repository are the same"
    yield _step("untouched", not moved, text, began)


def _step(name: str, ok: bool, text: str, began: float) -> DrillStep:
    spent = int((time.monotonic() - began) * 1000)
    return DrillStep(name=name, ok=ok, text=plain(" ".join(text.split("\n"))), milliseconds=spent)


def copied(baton: Baton, stored: Stored) -> AbstractContextManager[ScratchClone]:
    """Open a scratch copy with every chain, tip and note, and with HEAD where it was at a checkpoint. Raises GitError."""
    refs = {name: oid for name, oid in baton.repo.objects.refs(CHAINS, TIPS).items() if oid.strip("0")}
    notes = baton.repo.objects.info(NOTES)
    refs |= {NOTES: notes.oid} if notes else {}
    checkpoint = stored.checkpoint
    head = Head(branch=checkpoint.branch if checkpoint.head or checkpoint.branch else "main", oid=checkpoint.head)
    return scratch_copy(baton.repo, refs, head, {CURRENT: tip_ref(checkpoint.track)})


class Drill:
    """The steps in a scratch copy, each of which gives a sentence or raises NoAnswerError. ``states``: by name the trees that
    plain git made of the files and of the index; ``documents``: the checkpoints that recorded them."""

    def __init__(self, copy: ScratchClone, stored: Stored) -> None:
        self.copy, self.stored, self.track, self.folder = copy, stored, stored.checkpoint.track, FOLDER
        self.states: dict[str, tuple[Oid, Oid]] = {}
        self.documents: dict[str, dict[str, Any]] = {}

    def step(self, name: str) -> DrillStep:
        """Carry one step out, whatever comes of it."""
        began = time.monotonic()
        try:
            if not self.states.keys() >= {*STEPS[name]}:
                raise NoAnswerError("an earlier step has failed")
            return _step(name, True, getattr(self, name.replace(" ", "_"))(), began)
        except (BatonError, OSError) as error:
            return _step(name, False, os_error(error), began)
        except (KeyError, TypeError, ValueError) as error:
            return _step(name, False, f"an answer is not what it should be: {type(error).__name__}: {error}", began)

    def place(self) -> str:
        """Put the files of the newest checkpoint into the copy by plain git."""
        files = self.stored.checkpoint.files
        tree = files.tree if files else self.stored.tree
        self._git("read-tree", "--reset", "-u", tree)
        names = self._git("ls-tree", "--name-only", "-z", tree).split("\0")
        while self.folder in names:
            self.folder += "_"
        self._git("config", "baton.checkpointDir", f"{self.folder}/latest")
        self._git("config", "baton.untracked", "all")
        _same("the tree of the files", self._state()[0], tree)
        return f"the files of {in_quotes(self.track)} {self.stored.id[:10]} are in a work tree, tree {tree[:10]}"

    def record(self) -> str:
        """Record a checkpoint with every kind of word."""
        self._sh(_MAKE)
        found = self._snapshot("first", *SPOKEN, "--label", "drill label")
        _same("'previous'", found["previous"], self.stored.id)
        return f"checkpoint {found['id'][:10]}: its tree is the one that plain git makes"

    def change(self) -> str:
        """Edit, add and delete files, and record that."""
        self._sh(_EDIT, *self.copy.plain_files(self.folder)[:2])
        found = self._snapshot("second", "--step", "drill: changed")
        trees = self.states["first"][0], self.states["second"][0]
        count = self._git("diff-tree", "-r", "-z", "--name-only", *trees).count("\0")
        _same("the number of changed paths", found["files"]["changed"], count)
        return f"{count} paths edited, added and deleted, and recorded as checkpoint {found['id'][:10]}"

    def kill_snapshot(self) -> str:
        """Kill snapshots wherever they write: one is there whole or not at all, and the next one goes on."""
        known = self._ids()
        for kill in SNAPSHOT_KILLS:
            self._sh(_MORE)
            self._baton("snapshot", "--track", self.track, "--step", "drill: killed", kill=kill)
            now = self._ids()
            if now[-len(known) :] != known or len(now) > len(known) + 1:
                raise NoAnswerError(f"killed at {in_quotes(kill[1] or kill[0])}, it left another chain than before")
            known = now
        _same("'previous'", self._snapshot("second", "--step", "drill: after the kill")["previous"], known[0])
        return f"SIGKILL at {len(SNAPSHOT_KILLS)} places: the chain stayed whole, and the next snapshot went on from it"

    def resume(self) -> str:
        """Lose all that is derived: a new process knows every word, and puts it back."""
        self._snapshot("words", *SPOKEN)
        lost = self._git("for-each-ref", "--format=delete %(refname)", TIPS.rstrip("/"), NOTES)
        self._git("update-ref", "--stdin", stdin=os.fsencode(lost))
        self._sh('rm -rf "$0/latest"')
        found = self._json("resume")["checkpoint"]
        _same("what 'resume' says", found, self.documents["words"])
        said = self._json("show", self.stored.id)["checkpoint"]
        wanted = json.loads(canonical(stored_document(self.stored)))
        for word in ("foreign", "restored"):  # said about it, as pins and signatures are: the drill wrote on top of it
            wanted.pop(word, None)
        _same("what 'show' says of the checkpoint before the drill", {key: said.get(key) for key in wanted}, wanted)
        for flag, word in WORDS.items():
            _same(f"'{flag}'", found[flag[2:].replace("-", "_")], word)
        self._derived(found["id"])
        return "without LATEST, tips and notes, a new process gave back every word, and all three"

    def restore(self) -> str:
        """Wreck files and index, and bring them back."""
        self._sh(_STAGE)
        self._git("-c", "core.safecrlf=false", "add", "-f", "--", f"{self.folder}/one.txt")
        self._sh(_WRECK, *self.copy.plain_files(self.folder)[:3])
        self.states["wrecked"] = self._state()
        self._restore("words")
        return f"files and index are back, tree {self.states['words'][0][:10]}; HEAD stayed"

    def undo(self) -> str:
        """Bring back the state before the restore."""
        self._undo("wrecked")
        return f"undo gave back the state before the restore, tree {self.states['wrecked'][0][:10]}"

    def kill_restore(self) -> str:
        """Kill restores in the middle: the next command ends each one way or the other, and nothing is in between."""
        self._is("wrecked")
        said = []
        for kill in RESTORE_KILLS:
            self._restore("words", kill=kill)
            completed = "completed" in self._baton("status").err
            state = self._state()
            if state not in (self.states["words"], self.states["wrecked"]):
                where = in_quotes(kill[1])
                raise NoAnswerError(f"killed at {where}, it left files or an index that are neither the old nor the new ones")
            _same("the next command's account", completed, state == self.states["words"])
            said.append("completed" if completed else "rolled back")
            if completed:
                self._undo("wrecked")
        self._restore("words")
        return f"SIGKILL at {len(said)} places: the next command made it whole ({', '.join(said)})"

    def collect(self) -> str:
        """Collect garbage: every checkpoint and the safety states are still there."""
        self._is("words")
        self._git("reflog", "expire", "--expire=now", "--all")
        self._git("gc", "-q", "--prune=now")
        self._restore("first")
        self._undo("words")
        self._undo("wrecked")
        return "after 'git gc --prune=now', the first checkpoint and the states before both restores came back"

    def _derived(self, newest: Oid) -> None:
        """Compare tips, notes and LATEST with the chains."""
        tips, chains = (self._git("for-each-ref", f"--format=%(refname:lstrip={n})", of) for n, of in ((2, TIPS), (3, CHAINS)))
        _same("the list of tips", tips, chains)
        _same("the tip", self._git("rev-parse", tip_ref(self.track)).strip(), newest)
        if self.stored.checkpoint.head is not None:
            note = self._git("notes", "--ref", NOTES, "show", self.stored.checkpoint.head)
            _same("the note", f"checkpoint {newest}\n" in note, True)
        latest = json.loads(self._sh('test -f "$0/latest/LATEST.md"; cat "$0/latest/LATEST.json"'))
        _same("LATEST.json", latest["tracks"][self.track]["id"], newest)

    def _snapshot(self, name: str, *words: str) -> dict[str, Any]:
        """Record a checkpoint by a new process, and compare it with what plain git sees."""
        document: dict[str, Any] = self._json("snapshot", "--track", self.track, *words)["checkpoint"]
        state = self._state()
        _same("the recorded tree", document["files"]["tree"], state[0])
        _same("the recorded index", document["files"]["index"]["tree"], state[1])
        self.states[name], self.documents[name] = state, document
        return document

    def _restore(self, name: str, kill: tuple[str, str] | None = None) -> None:
        self._baton("restore", self.documents[name]["id"], "--exact", "--index", "--force", kill=kill)
        if kill is None:
            self._is(name)

    def _undo(self, name: str) -> None:
        self._baton("undo")
        self._is(name)

    def _is(self, name: str) -> None:
        """Compare files, index and HEAD with those of a state."""
        for what, now, then in zip(("files", "index"), self._state(), self.states[name], strict=True):
            _same(f"the tree of the {what}", now, then)
        head = self.copy.git.run("rev-parse", "-q", "--verify", "HEAD").out.decode("ascii").strip()
        _same("HEAD", head or None, self.stored.checkpoint.head)

    def _state(self) -> tuple[Oid, Oid]:
        return self.copy.tree(files=True), self.copy.tree(files=False)

    def _ids(self) -> list[str]:
        """Return the ids of the track's checkpoints, newest first; none may be broken."""
        done = self._baton("log", self.track, "--json")
        if done.err:
            raise NoAnswerError(done.err.strip())
        return [checkpoint["id"] for checkpoint in json.loads(done.out)["checkpoints"]]

    def _sh(self, line: str, *words: str) -> bytes:
        done = self.copy.run("sh", "-ec", line, self.folder, *words)
        if done.code:
            raise NoAnswerError(done.err.strip() or f"there is no {self.folder}/latest/LATEST.md")
        return done.out

    def _git(self, *words: str, stdin: bytes = b"") -> str:
        return os.fsdecode(self.copy.git.out(*words, stdin=stdin))

    def _json(self, *words: str) -> Any:
        return json.loads(self._baton(*words, "--json").out)

    def _baton(self, *words: str, kill: tuple[str, str] | None = None) -> Result:
        """Run ``git baton`` as a new process, which must succeed, or come to the audit event at which it is killed."""
        done = self.copy.baton(*words, kill=kill)
        if kill is not None and done.code != -signal.SIGKILL:
            text = f"'git baton {words[0]}' was not killed at {in_quotes(kill[1] or kill[0])}: it exited with {done.code}"
            raise NoAnswerError(text)
        if kill is None and done.code != 0:
            said = done.fatal() if "fatal: " in done.err else done.err.strip().rpartition("\n")[2]
            raise NoAnswerError(f"'git baton {words[0]}' exited with {done.code}: {said}")
        return done


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise NoAnswerError(f"{what} is '{found}' and not '{wanted}'"[:300])
