"""Drill: recovery proven step by step in a scratch clone. The repository stays as it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from typing import Any, cast

from gitbaton.baton import TAKE_ONE, Baton
from gitbaton.codec import Json, canonical, in_quotes, plain
from gitbaton.errors import AmbiguousNameError, BatonError, NoAnswerError, NotFoundError
from gitbaton.git.objects import RefChange
from gitbaton.model import Head, Oid, Stored
from gitbaton.render import stored_document
from gitbaton.store import CHAINS, CURRENT, NOTES, TIPS, tip_ref
from gitbaton.system.files import remove
from gitbaton.system.process import Result
from gitbaton.values import value
from gitbaton.worktree.scratch import ScratchClone, look, scratch_copy

FOLDER = "gitbaton-drill"
_LATEST = ("latest/LATEST.json", "latest/LATEST.md")
STEPS = ("place", "record", "change", "kill snapshot", "resume", "restore", "undo", "kill restore", "collect")
WORDS = {
    "--step": "drill: a step\nof two lines",
    "--note": 'a "note" with \u00fcml\u00e4uts,\ttabs\n\nand an empty line',
    "--next-cmd": "echo 'never run'",
    "--validation": "green",
    "--label": "drill label",
}
LISTS = (("--decision", "one; because"), ("--decision", "two"), ("--extra", "key=value = more"))

SNAPSHOT_KILLS = (
    ("os.posix_spawn", "write-tree"),
    ("fcntl.flock", ""),
    ("os.posix_spawn", "pack-objects"),
    ("os.posix_spawn", "update-ref"),
)
RESTORE_KILLS = (
    ("gitbaton.restore", "begin"),
    ("gitbaton.restore", "files"),
    ("gitbaton.restore", "index"),
    ("gitbaton.restore", "rename"),
)


@value
class Step:
    """One step of the drill: whether it held, what was proven or what went wrong, and how long it took."""

    name: str
    ok: bool
    text: str
    milliseconds: int


@value
class State:
    """Files and index of the copy, as trees that plain git made of them."""

    files: Oid
    staged: Oid


def chosen(baton: Baton) -> Stored:
    """The newest checkpoint of the current or only track. Raises NotFoundError, AmbiguousNameError with a hint."""
    tracks = baton.store.chains()[0]
    if not tracks:
        raise NotFoundError("there is no checkpoint in this repository", TAKE_ONE)
    if baton.store.current() is None and len(tracks) > 1:
        raise AmbiguousNameError("no track is current in this work tree", "set one with 'git baton tracks use NAME'")
    return baton.tip()


def drill(baton: Baton) -> Iterator[Step]:
    """Carry the drill out and give one value a step. Raises NotFoundError, AmbiguousNameError before anything is done.

    A step that fails is a value, too, and does not end the drill.
    """
    stored, before = chosen(baton), look(baton.repo)
    began = time.monotonic()
    try:
        with copied(baton, stored) as copy:
            count = len(baton.store.chains()[0])
            tracks = "1 track" if count == 1 else f"{count} tracks"
            yield _step("copy", True, f"{tracks} in a scratch copy that borrows the objects", began)
            under_way = Drill(copy, stored)
            for name in STEPS:
                yield under_way.step(name)
    except (BatonError, OSError) as error:
        yield _step("copy", False, str(error), began)
    began = time.monotonic()
    now = look(baton.repo)
    moved = [name for name, was in before.items() if now[name] != was]
    text = f"changed meanwhile: {', '.join(moved)}" if moved else "HEAD, refs, index and status of this repository are the same"
    yield _step("untouched", not moved, text, began)


def _step(name: str, ok: bool, text: str, began: float) -> Step:
    return Step(name=name, ok=ok, text=plain(" ".join(text.split("\n"))), milliseconds=int((time.monotonic() - began) * 1000))


def copied(baton: Baton, stored: Stored) -> AbstractContextManager[ScratchClone]:
    """A scratch copy with every chain, tip and note, and with HEAD where it was at a checkpoint. Raises GitError."""
    refs = {name: oid for name, oid in baton.repo.objects.refs(CHAINS, TIPS).items() if oid.strip("0")}
    notes = baton.repo.objects.info(NOTES)
    refs |= {NOTES: notes.oid} if notes else {}
    checkpoint = stored.checkpoint
    branch = checkpoint.branch if checkpoint.head or checkpoint.branch else "main"
    head = Head(branch=branch, oid=checkpoint.head)
    return scratch_copy(baton.repo, refs, head, {CURRENT: tip_ref(checkpoint.track)})


class Drill:
    """The steps in a scratch copy. What one proves, the next stand on; each gives a sentence or raises NoAnswerError."""

    def __init__(self, copy: ScratchClone, stored: Stored) -> None:
        self.copy, self.stored = copy, stored
        self.track = stored.checkpoint.track
        self.folder = FOLDER
        self.states: dict[str, State] = {}
        self.documents: dict[str, dict[str, Json]] = {}

    def step(self, name: str) -> Step:
        """Carry one step out, whatever comes of it."""
        began = time.monotonic()
        work: Callable[[], str] = getattr(self, name.replace(" ", "_"))
        try:
            return _step(name, True, work(), began)
        except (BatonError, OSError) as error:
            return _step(name, False, str(error), began)
        except (KeyError, TypeError, ValueError) as error:
            return _step(name, False, f"an answer is not what it should be: {type(error).__name__}: {error}", began)

    def place(self) -> str:
        """The files of the newest checkpoint, put into the copy by plain git."""
        files = self.stored.checkpoint.files
        tree = files.tree if files else self.stored.tree
        self.copy.git.out("read-tree", "--reset", "-u", tree)
        names = os.fsdecode(self.copy.git.out("ls-tree", "--name-only", "-z", tree)).split("\0")
        while self.folder in names:
            self.folder += "_"
        self.copy.git.out("config", "baton.checkpointDir", f"{self.folder}/latest")
        self.copy.git.out("config", "baton.untracked", "all")
        _same("the tree of the files", self.copy.tree(files=True), tree)
        return f"the files of {in_quotes(self.track)} {self.stored.id[:10]} are in a work tree, tree {tree[:10]}"

    def record(self) -> str:
        """A checkpoint with every kind of word; nothing of it is lost."""
        self._write("one.txt", "one\n")
        self._write("two \u00fc.txt", "two\n")
        self._remove("link")
        os.symlink("one.txt", self._path("link"))
        document = self._snapshot("first", [*(w for pair in WORDS.items() for w in pair), *(w for pair in LISTS for w in pair)])
        _same("'previous'", document["previous"], self.stored.id)
        return f"checkpoint {self._id('first')[:10]}: its tree is the one that plain git makes"

    def change(self) -> str:
        """Files edited, added and deleted, and recorded."""
        self._tree("first")
        paths = self.copy.plain_files(self.folder)
        for path in paths[:1]:
            with open(os.path.join(self.copy.path, path), "ab") as file:
                file.write(b"edited by the drill\n")
        for path in paths[1:2]:
            self._remove(os.path.join(self.copy.path, path))
        self._write("one.txt", "one, edited\n")
        self._write("program", "#!/bin/sh\n")
        os.chmod(self._path("program"), 0o755)
        self._remove("two \u00fc.txt")
        self._write("new/empty", "")
        self._snapshot("second", ["--step", "drill: changed"])
        count = self.copy.git.out("diff-tree", "-r", "-z", "--name-only", self._tree("first"), self._tree("second")).count(
            b"\0"
        )
        files = cast(dict[str, Json], self.documents["second"]["files"])
        _same("the number of changed paths", files["changed"], count)
        return f"{count} paths edited, added and deleted, and recorded as checkpoint {self._id('second')[:10]}"

    def kill_snapshot(self) -> str:
        """Killed wherever it writes, a snapshot is there whole or not at all, and the next one goes on."""
        self._tree("second")
        known = self._ids()
        for event, word in SNAPSHOT_KILLS:
            self._killed(event, word, "snapshot", "--track", self.track, "--step", "drill: killed")
            now = self._ids()
            if now[-len(known) :] != known or len(now) > len(known) + 1:
                raise NoAnswerError(f"killed at {in_quotes(word or event)}, it left another chain than before")
            known = now
        self._snapshot("second", ["--step", "drill: after the kill"])
        _same("'previous'", self.documents["second"]["previous"], known[0])
        return f"SIGKILL at {len(SNAPSHOT_KILLS)} places: the chain stayed whole, and the next snapshot went on from it"

    def resume(self) -> str:
        """Everything that is derived is lost; a new process knows every word, and puts it back."""
        self._snapshot(
            "words", [*(w for pair in WORDS.items() for w in pair if pair[0] != "--label"), *(w for p in LISTS for w in p)]
        )
        self._lose()
        found = self._answer("resume", "--json")["checkpoint"]
        _same("what 'resume' says", found, self.documents["words"])
        said = cast(dict[str, Json], self._answer("show", self.stored.id, "--json")["checkpoint"])
        del said["pinned"]  # which is no word of the checkpoint's
        _same("what 'show' says of the checkpoint before the drill", said, _loads(canonical(stored_document(self.stored))))
        for flag, word in WORDS.items():
            if flag != "--label":
                _same(f"'{flag}'", cast(dict[str, Json], found)[flag[2:].replace("-", "_")], word)
        self._derived()
        return "without LATEST, tips and notes, a new process gave back every word, and all three"

    def restore(self) -> str:
        """After the files were wrecked, they and the index come back."""
        self._tree("words")
        self._wreck()
        self.states["wrecked"] = self._state()
        self._baton("restore", self._id("words"), "--exact", "--index", "--force")
        self._is("words")
        return f"files and index are back, tree {self._tree('words')[:10]}; HEAD stayed"

    def undo(self) -> str:
        """The state before the restore comes back."""
        self._baton("undo")
        self._is("wrecked")
        return f"undo gave back the state before the restore, tree {self._tree('wrecked')[:10]}"

    def kill_restore(self) -> str:
        """Killed in the middle, the next command ends it one way or the other, and nothing is in between."""
        self._is("wrecked")
        words = ("restore", self._id("words"), "--exact", "--index", "--force")
        said = []
        for event, word in RESTORE_KILLS:
            self._killed(event, word, *words)
            told = self._baton("status").err
            state = self._state()
            if state not in (self.states["words"], self.states["wrecked"]):
                raise NoAnswerError(
                    f"killed at {in_quotes(word)}, it left files or an index that are neither the old nor the new ones"
                )
            _same("the next command's account", "completed" in told, state == self.states["words"])
            said.append("completed" if "completed" in told else "rolled back")
            if state == self.states["words"]:
                self._baton("undo")
                self._is("wrecked")
        self._baton(*words)
        self._is("words")
        return f"SIGKILL at {len(said)} places: the next command made it whole ({', '.join(said)})"

    def collect(self) -> str:
        """Garbage is collected; every checkpoint and the safety states are still there."""
        self._is("words")
        self.copy.git.out("reflog", "expire", "--expire=now", "--all")
        self.copy.git.out("gc", "-q", "--prune=now")
        self._baton("restore", self._id("first"), "--exact", "--index", "--force")
        self._is("first")
        self._baton("undo")
        self._is("words")
        self._baton("undo")
        self._is("wrecked")
        return "after 'git gc --prune=now', the first checkpoint and the states before both restores came back"

    def _write(self, name: str, text: str) -> None:
        path = self._path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _remove(self, name: str) -> None:
        remove(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.copy.path, self.folder, name)

    def _snapshot(self, name: str, words: list[str]) -> dict[str, Json]:
        """Record a checkpoint by a new process, and hold it against what plain git sees."""
        answer = self._answer("snapshot", "--track", self.track, "--json", *words)
        document = cast(dict[str, Json], answer["checkpoint"])
        state = self._state()
        files = cast(dict[str, Json], document["files"])
        _same("the recorded tree", files["tree"], state.files)
        _same("the recorded index", cast(dict[str, Json], files["index"])["tree"], state.staged)
        self.states[name], self.documents[name] = state, document
        return document

    def _wreck(self) -> None:
        """What an agent may do to a work tree: files overwritten, deleted, replaced, added; some of it staged."""
        self._write("one.txt", "wrecked\n")
        self.copy.git.out("-c", "core.safecrlf=false", "add", "-f", "--", f"{self.folder}/one.txt")
        self._write("one.txt", "wrecked again\n")
        for name in ("program", "link"):
            self._remove(name)
        self._write("link/inside", "a folder now\n")
        self._write("untracked.txt", "untracked\n")
        for path in self.copy.plain_files(self.folder)[:3]:
            with open(os.path.join(self.copy.path, path), "wb"):
                pass

    def _lose(self) -> None:
        """Remove what is derived from the chains: tips, notes, LATEST."""
        with closing(self.copy.open()) as repo:
            notes = repo.objects.info(NOTES)
            lost = repo.objects.refs(TIPS) | ({NOTES: notes.oid} if notes else {})
            repo.objects.update([RefChange(name=name, new=None, old=oid) for name, oid in lost.items()])
        for name in _LATEST:
            self._remove(name)

    def _derived(self) -> None:
        """Tips, notes and LATEST say what the chains say."""
        with closing(self.copy.open()) as repo:
            tips = {name.removeprefix(TIPS) for name in repo.objects.refs(TIPS)}
            chains = {name.removeprefix(CHAINS) for name in repo.objects.refs(CHAINS)}
            tip = repo.objects.info(tip_ref(self.track))
        _same("the list of tips", tips, chains)
        _same("the tip", tip.oid if tip else None, self._id("words"))
        if self.stored.checkpoint.head is not None:
            note = self.copy.git.out("notes", "--ref", NOTES, "show", self.stored.checkpoint.head).decode("utf-8", "replace")
            _same("the note", f"checkpoint {self._id('words')}\n" in note, True)
        with open(self._path(_LATEST[0]), "rb") as file:
            latest = _loads(file.read())
        _same("LATEST.json", latest["tracks"][self.track]["id"], self._id("words"))
        _same("LATEST.md", os.path.isfile(self._path(_LATEST[1])), True)

    def _ids(self) -> list[str]:
        """The track's checkpoints, newest first; none may be broken."""
        done = self._baton("log", self.track, "--json")
        if done.err:
            raise NoAnswerError(done.err.strip())
        return [checkpoint["id"] for checkpoint in _loads(done.out)["checkpoints"]]

    def _id(self, name: str) -> Oid:
        if name not in self.documents:
            raise NoAnswerError("an earlier step has failed")
        return str(self.documents[name]["id"])

    def _tree(self, name: str) -> Oid:
        if name not in self.states:
            raise NoAnswerError("an earlier step has failed")
        return self.states[name].files

    def _state(self) -> State:
        return State(files=self.copy.tree(files=True), staged=self.copy.tree(files=False))

    def _is(self, name: str) -> None:
        """Files and index are as in that state, and HEAD has not moved."""
        self._tree(name)
        now, then = self._state(), self.states[name]
        _same("the tree of the files", now.files, then.files)
        _same("the tree of the index", now.staged, then.staged)
        with closing(self.copy.open()) as repo:
            _same("HEAD", repo.objects.head().oid, self.stored.checkpoint.head)

    def _answer(self, *words: str) -> dict[str, Json]:
        found = _loads(self._baton(*words).out)
        return cast(dict[str, Json], found)

    def _baton(self, *words: str) -> Result:
        """``git baton`` as a new process; it must succeed."""
        done = self.copy.baton(*words)
        if done.code != 0:
            said = done.fatal() if "fatal: " in done.err else done.err.strip().rpartition("\n")[2]
            raise NoAnswerError(f"'git baton {words[0]}' exited with {done.code}: {said}")
        return done

    def _killed(self, event: str, word: str, *words: str) -> None:
        """``git baton`` as a new process that is killed at an audit event; it must come so far."""
        done = self.copy.baton(*words, kill=(event, word))
        if done.code != -signal.SIGKILL:
            raise NoAnswerError(
                f"'git baton {words[0]}' was not killed at {in_quotes(word or event)}: it exited with {done.code}"
            )


def _loads(raw: bytes) -> Any:
    import json

    return json.loads(raw)


def _same(what: str, found: object, wanted: object) -> None:
    """Raises NoAnswerError when both are not equal."""
    if found != wanted:
        raise NoAnswerError(f"{what} is '{found}' and not '{wanted}'"[:300])
