"""What a disk may hold after a command was cut short: the states that a recording leaves possible, by three models.

``killed``: the process and all its children died, and the power stayed. The first things that were done are there, whole, and
nothing after them; of what was being written just then half may be there. Git's locks are eleven seconds old, when one may know
that their process was killed; that of the index is of this very moment, for it says whose it is.

``ordered``: ext4 with ``data=ordered``, its default. Names, sizes and modes reach the disk in their order, as a beginning of
the journal; fsync of a file or folder that they changed brings the journal there up to now, with all that others did. Bytes
are allocated late: those of a file that nobody synced are there or not, and a file that grew by them then is as short as it
was. A file that took the place of another by a rename, or by being emptied and written anew, has its bytes there when the
journal has the rename, or the close (``auto_da_alloc``). What ``sync_file_range`` began is there with the next commit, for it
is allocated. Source: Linux, Documentation/admin-guide/ext4.rst, "data=ordered", "delalloc" and "auto_da_alloc".

``weaker``: what fsync(2) promises and little more. A name is there for sure when the file that it names, or the folder that it
is in, was synced after it; every other name, new, gone or moved, is there or not by itself, whatever came before or after it.
The bytes of a file that was not synced are there, or not, or zeros, or some sectors of each write are there. ``fdatasync``
holds bytes and size, no name. A sync of a file holds the new folders above it, too, as every file system of Linux has it. A
rename is never half done. Bytes that ``sync_file_range`` began are there after the next sync of any file: the disk empties its
cache once for all.

What was there before the recording counts as on disk. A state is one choice among these at one moment; ``states`` gives many by
a fixed seed, those first that are known to hurt. Not modelled: sectors that are half written, and what a file system does in
modes that are not its default.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from tests.kit.plug import FOLDER, GONE, LINK, Recording

MODELS = ("killed", "ordered", "weaker")
AGO = 3600 * 10**9  # how old a lock is when the machine has started again
STALE = 11 * 10**9  # how old it is when one may know that its process was killed
KEPT, ZEROS, LOST, TORN = "kept", "zeros", "lost", "torn"
SECTOR = 512
KILLED = MODELS[0]
Tree = dict[str, tuple[str, bytes, int, int, int]]
# Where a restore writes down the numbers of the files that it saw.
RECORDS = {"/baton/restore": rb'(?<="seen": \[\n    ")\d+', "/aside/list": rb"((?<=\0)|\A)\d+"}
T = TypeVar("T")


@dataclass(frozen=True)
class Cut:
    """One state that the disk may have: cut when ``at`` things were done; which of these are not there, which bytes are zeros,
    and of which some sectors are ``torn``; whether the last of them is ``half`` there. ``how`` says it for people."""

    model: str
    at: int
    lost: frozenset[int]
    zeros: frozenset[int]
    how: str
    half: bool = False
    torn: frozenset[int] = frozenset()

    @property
    def missing(self) -> frozenset[int]:
        """What is not there as it was done."""
        return self.lost | self.zeros | self.torn

    @property
    def name(self) -> str:
        return f"{self.model}, cut after {self.at}: {self.how}"


class Disk:
    """The disk of a recording: what may be lost at each moment, and what is there then."""

    def __init__(self, recording: Recording) -> None:
        self.rec, self.ops = recording, recording.ops
        self.sizes = {number: len(node.data) for number, node in recording.nodes.items()}
        self.grows: set[int] = set()  # writes that make their file longer
        self.names: dict[int, list[int]] = {}  # the things done with the name of each file, and with what is in each folder
        self.parents: dict[int, int] = {number: folder for (folder, _), number in recording.before.items()}
        self._read()

    def _read(self) -> None:
        sizes = dict.fromkeys(self.rec.nodes, 0) | {n: s for n, s in self.sizes.items() if n in set(self.rec.before.values())}
        for number, op in enumerate(self.ops):
            if op.kind == "write":
                end = op.offset + len(op.data)
                if end > sizes[op.file]:
                    self.grows.add(number)
                    sizes[op.file] = end
            elif op.kind == "size":
                sizes[op.file] = op.offset
            elif op.kind == "name":
                for file in {op.file, op.over, *(folder for folder, _, _ in op.names)} - {GONE}:
                    self.names.setdefault(file, []).append(number)
                for folder, _, named in op.names:
                    if named:
                        self.parents[named] = folder

    # What is sure.

    def committed(self, at: int) -> int:
        """Up to where the journal of ext4 is on disk for sure, when so many things were done."""
        done = 0
        for number, op in enumerate(self.ops[:at]):
            if op.kind == "sync" and (op.file == GONE or any(self._changes(op.file, i) for i in range(done, number))):
                done = number
        return done

    def _changes(self, file: int, number: int) -> bool:
        """Whether a thing done makes a sync of that file a commit."""
        op = self.ops[number]
        if op.kind == "name":
            return number in self.names.get(file, ())
        return op.file == file and (op.kind in ("size", "mode") or number in self.grows)

    def bytes_due(self, at: int, journal: int) -> set[int]:
        """ext4: the writes that need not be there, with the journal up to some point."""
        sure: dict[int, int] = {}
        all_sure = 0
        emptied: set[int] = set()
        for number, op in enumerate(self.ops[:at]):
            if op.kind == "sync" and op.file == GONE:
                all_sure = number
            elif op.kind in ("sync", "begun"):
                sure[op.file] = number
            elif op.kind == "size" and op.offset == 0:
                emptied.add(op.file)
            elif (op.kind == "name" and op.over and op.over != op.file and number < journal) or (
                op.kind == "closed" and op.file in emptied and number < journal
            ):
                sure[op.file] = number
        return {n for n, op in enumerate(self.ops[:at]) if op.kind == "write" and n >= max(all_sure, sure.get(op.file, 0))}

    def beyond(self, at: int, journal: int) -> set[int]:
        """ext4: what cannot be there, as the journal ends before it: names, sizes, and the bytes that need these."""
        gone = {n for n in range(journal, at) if self.ops[n].kind in ("name", "size", "mode")}
        cut = {self.ops[n].file for n in gone if self.ops[n].kind == "size"}
        made = {
            op.file for n, op in enumerate(self.ops[journal:at], journal) if op.kind == "name" and not self._was(op.file, n)
        }
        for n in range(journal, at):
            op = self.ops[n]
            if op.kind == "write" and (n in self.grows or op.file in cut or op.file in made):
                gone.add(n)
        return gone

    def _was(self, file: int, number: int) -> bool:
        return file in self.rec.before.values() or any(n < number for n in self.names.get(file, ()))

    def loose(self, at: int) -> tuple[set[int], set[int]]:
        """By the weaker model: the names and the writes that need not be there."""
        names, writes = set[int](), set[int]()
        begun: dict[int, int] = {}
        for number, op in enumerate(self.ops[:at]):
            if op.kind in ("name", "mode"):
                names.add(number)
            elif op.kind in ("write", "size"):
                writes.add(number)
            elif op.kind == "begun":
                begun[op.file] = number
            elif op.kind == "sync":
                if op.file == GONE:
                    names, writes = set(), set()
                    continue
                writes -= {n for n in writes if self.ops[n].file == op.file or n < begun.get(self.ops[n].file, 0)}
                if not op.only_data:
                    held, file = set[int](), op.file
                    while file:
                        held.update(self.names.get(file, ()) if file == op.file else self._made(file))
                        file = self.parents.get(file, GONE)
                    names -= held | {n for n in names if self.ops[n].kind == "mode" and self.ops[n].file == op.file}
        return names, writes

    def _made(self, folder: int) -> Iterator[int]:
        """The thing done that made a folder, or moved it."""
        return (n for n in self.names.get(folder, ()) if self.ops[n].file == folder)

    # What is there.

    def tree(self, cut: Cut) -> Tree:
        """Kind, bytes, mode, time and number of everything that is there, by path."""
        nodes = self.rec.nodes
        names = dict(self.rec.before)
        old = set(names.values())
        held = {n: bytearray(nodes[n].data) for n in old}
        modes, times = {n: nodes[n].mode for n in nodes}, {n: nodes[n].when or nodes[n].then for n in nodes}
        for number, op in enumerate(self.ops[: cut.at]):
            if number in cut.lost:
                continue
            if cut.half and number == cut.at - 1:
                op = replace(op, data=op.data[: len(op.data) // 2])
            if op.kind == "name":
                for folder, name, named in op.names:
                    if named:
                        names[folder, name] = named
                    else:
                        names.pop((folder, name), None)
            elif op.kind == "mode":
                modes[op.file] = op.offset if op.file in old else modes[op.file]
            elif op.kind in ("write", "size"):
                data = held.setdefault(op.file, bytearray())
                times[op.file] = nodes[op.file].then or int(op.when * 1e9)
                end = op.offset + len(op.data)
                data.extend(bytes(max(0, end - len(data))))
                if op.kind == "size":
                    del data[end:]
                elif number in cut.torn:
                    for start in (op.offset, *range(op.offset + SECTOR - op.offset % SECTOR, end, SECTOR)):
                        stop = min(end, start + SECTOR - start % SECTOR)
                        if random.Random(number * SECTOR + start).random() < 0.5:
                            data[start:stop] = op.data[start - op.offset : stop - op.offset]
                else:
                    data[op.offset : end] = bytes(len(op.data)) if number in cut.zeros else op.data
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), number in names.items():
            below.setdefault(folder, []).append((name, number))
        found: Tree = {}
        todo, seen = [(1, "")], {1}
        while todo:
            folder, path = todo.pop()
            for name, number in below.get(folder, ()):
                full, node = os.path.join(path, name), nodes[number]
                raw = node.data if node.kind == LINK else bytes(held.get(number, b""))
                found[full] = (node.kind, raw, modes[number], times[number], number)
                if node.kind == FOLDER and number not in seen:
                    seen.add(number)
                    todo.append((number, full))
        return found

    def put(self, cut: Cut) -> None:
        """Have the folder as it is after the cut. Files keep their times, but for locks; and where a record of ours holds the
        numbers of files, it gets those that they have now."""
        top, killed, start = self.rec.top, cut.model == KILLED, time.time_ns()
        shutil.rmtree(top)
        top.mkdir()
        tree, there = self.tree(cut), dict[int, str]()
        for path in sorted(tree):
            kind, data, mode, when, number = tree[path]
            full = top / path
            if kind == FOLDER:
                full.mkdir()
            elif kind == LINK:
                full.symlink_to(os.fsdecode(data))
            elif number in there:
                os.link(there[number], full)
            else:
                there[number] = os.fspath(full)
                full.write_bytes(data)
                full.chmod(mode)
                if path.endswith(".lock"):
                    when = when - AGO if not killed else start if path.endswith("/index.lock") else start - STALE
                os.utime(full, ns=(when, when))
        self._renumber(tree, there)

    def _renumber(self, tree: Tree, there: Mapping[int, str]) -> None:
        """Have what a restore wrote down of files mean those that are there now."""
        now = {b"%d" % self.rec.nodes[number].inode: b"%d" % os.stat(full).st_ino for number, full in there.items()}
        for path, (_, data, _, when, _) in tree.items():
            if pattern := next((numbers for name, numbers in RECORDS.items() if path.endswith(name)), None):
                (self.rec.top / path).write_bytes(re.sub(pattern, lambda found: now.get(found[0], found[0]), data))
                os.utime(self.rec.top / path, ns=(when, when))

    def digest(self, cut: Cut) -> str:
        """What tells the state from others."""
        lines = sorted((path, kind, data, mode) for path, (kind, data, mode, _, _) in self.tree(cut).items())
        return hashlib.sha256(repr(lines).encode()).hexdigest()

    def missing(self, cut: Cut) -> list[str]:
        """What of the recording is not there, in words: a path, and what became of it."""
        found = []
        for number in sorted(cut.missing):
            op = self.ops[number]
            path = self._paths(number)[-1]
            if op.kind == "name":
                gone = [name for _, name, named in op.names if not named]
                new = [name for _, name, named in op.names if named]
                found.append(f"{' -> '.join([*gone, *new]) if new else f'removal of {gone[0]}'} of {path}")
            else:
                what = "zeros in" if number in cut.zeros else "sectors of" if number in cut.torn else f"{op.kind} of"
                found.append(f"{what} {path}")
        return list(dict.fromkeys(found))

    # Which states.

    def cuts(self, model: str, at: int, rng: random.Random, *, each: bool) -> Iterator[Cut]:
        """States at one moment: the worst ones, with ``each`` those in which one thing alone is missing, and then, for ever,
        any."""
        yield from self._ordered(at, rng, each=each) if model == "ordered" else self._weaker(at, rng, each=each)

    def _ordered(self, at: int, rng: random.Random, *, each: bool) -> Iterator[Cut]:
        first = self.committed(at)

        def cut(journal: int, lost: Iterable[int], how: str) -> Cut:
            return Cut("ordered", at, frozenset(self.beyond(at, journal) | set(lost)), frozenset(), how)

        yield cut(at, self.bytes_due(at, at), "every name, no byte that was not synced")
        yield cut(first, self.bytes_due(at, first), "nothing since the last sync")
        yield cut(first, (), "no name since the last sync")
        if each:
            for file in self._shown(self.bytes_due(at, at)):
                lost = [n for n in self.bytes_due(at, at) if self.ops[n].file == file]
                yield cut(at, lost, "the bytes of one file are missing")
            ends = [n for n in range(first, at) if self.ops[n].kind == "name"]
            for journal in rng.sample(ends, len(ends)):
                yield cut(journal, self.bytes_due(at, journal), f"the journal ends at {journal}, no byte that was not synced")
        while True:
            journal = rng.randint(first, at)
            due = self.bytes_due(at, journal)
            lost = list[int]()
            for file in self._files(due):
                writes = sorted(n for n in due if self.ops[n].file == file)
                lost.extend(writes[rng.choice((0, 0, len(writes), rng.randint(0, len(writes)))) :])
            yield cut(journal, lost, f"the journal ends at {journal}, and some bytes are there")

    def _weaker(self, at: int, rng: random.Random, *, each: bool) -> Iterator[Cut]:
        names, writes = self.loose(at)

        def cut(lost: Iterable[int], zeros: Iterable[int], how: str) -> Cut:
            return Cut("weaker", at, frozenset(lost), frozenset(zeros), how)

        sizes = {n for n in writes if self.ops[n].kind == "size"}
        removals = {n for n in names if self.ops[n].kind == "name" and not any(named for _, _, named in self.ops[n].names)}
        yield cut(writes, (), "every name, no byte that was not synced")
        yield cut(names, (), "every byte, no name that was not synced")
        yield cut(names | writes, (), "nothing that was not synced")
        yield cut((), writes - sizes, "every name, zeros for bytes that were not synced")
        yield cut((names - removals) | writes, (), "what was removed is gone, nothing else is there")
        yield cut(removals, (), "what was removed is there")
        if each:
            for file in self._shown(writes):
                yield cut([n for n in writes if self.ops[n].file == file], (), "the bytes of one file are missing")
            for number in rng.sample(sorted(names), len(names)):
                yield cut([number], (), "one name is missing")
        while True:
            share = rng.choice((0.2, 0.5, 0.8))
            lost = {n for n in sorted(names) if rng.random() < share}
            zeros, torn = set[int](), set[int]()
            for file in self._files(writes):
                part = sorted(n for n in writes if self.ops[n].file == file)
                fate = rng.choice((KEPT, KEPT, LOST, ZEROS, TORN))
                lost.update(part[rng.randint(0, len(part)) :] if fate == LOST else ())
                zeros.update(set(part) - sizes if fate == ZEROS else ())
                torn.update(set(part) - sizes if fate == TORN else ())
            yield replace(cut(lost, zeros, "some names and some bytes"), torn=frozenset(torn))

    def _files(self, numbers: Iterable[int]) -> list[int]:
        return sorted({self.ops[n].file for n in numbers})

    def _shown(self, numbers: Iterable[int]) -> list[int]:
        """The files of some things done that are there in the end."""
        tree = self.tree(Cut("", len(self.ops), frozenset(), frozenset(), ""))
        return [file for file in self._files(numbers) if any(path in tree for path in self.rec.paths[file][-1:])]

    def moments(self, count: int) -> list[int]:
        """Moments in the middle, after a name changed or something was synced, spread over all that was done."""
        said = self.rec.said()
        return spread([n + 1 for n, op in enumerate(self.ops) if op.kind in ("name", "sync") and n + 1 < said], count)

    def _paths(self, number: int) -> list[str]:
        """What the file of a thing done was ever called."""
        return self.rec.paths.get(self.ops[number].file) or ["(no name)"]

    def kills(self) -> Iterator[Cut]:
        """The state before anything was done, and that after each thing that changed something; of what was written, half,
        too."""
        yield Cut(KILLED, 0, frozenset(), frozenset(), "nothing was done")
        for number, op in enumerate(self.ops):
            path = self._paths(number)[-1] if op.file else ""
            if op.kind == "write" and len(op.data) > 1:
                yield Cut(KILLED, number + 1, frozenset(), frozenset(), f"in the midst of writing {path}", half=True)
            if op.kind in ("name", "write", "size", "mode", "said"):
                yield Cut(KILLED, number + 1, frozenset(), frozenset(), f"the last was a {op.kind} of {path or 'the output'}")

    def states(self, model: str, count: int, seed: int, near: str = "") -> list[Cut]:
        """So many states of a model that differ: half of them after the command had said done, and half in the middle; fewer
        where there are not that many. Of those that a kill leaves: spread over all that was done, most of them over what was
        done to files whose path matches ``near``."""
        if model == KILLED:
            kills = list(self.kills())
            at = [c for c in kills if near and c.at and any(re.search(near, path) for path in self._paths(c.at - 1))]
            some = spread(at, count * 2 // 3)
            others = [cut for cut in kills if cut not in some]
            return some + spread(others, count - len(some))
        rng = random.Random(seed)
        found: dict[tuple[str, bool], Cut] = {}
        end, said = len(self.ops), self.rec.said()

        def take(cuts: Iterator[Cut], tries: int) -> None:
            for cut in islice(cuts, tries):
                if len(found) < count:
                    found.setdefault((self.digest(cut), cut.at >= said), cut)

        after = [self.cuts(model, at, rng, each=at == end) for at in dict.fromkeys((end, said))]
        middle = [self.cuts(model, at, rng, each=False) for at in self.moments(max(4, count // 4))]
        take(after[0], count // 2)
        for turn in range(12):
            for cuts in (*middle, *after):
                take(cuts, 1 + (turn == 0))
        return list(found.values())


def spread(found: Sequence[T], count: int) -> list[T]:
    """So many of a sequence at equal distances, the last one among them; all where there are fewer."""
    if len(found) <= count:
        return list(found)
    return [found[len(found) * (place + 1) // count - 1] for place in range(count)]
