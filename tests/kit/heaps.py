"""Objects of git in memory, for what is pure; and a way to lay them into a real repository, for git to judge."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Mapping, Sequence

from gitbaton.base.errors import GitError
from gitbaton.git.objects import Algorithm, Kind
from gitbaton.langgraph.threads.build import Built, building
from gitbaton.langgraph.threads.chain import Batch, Entries, LateWrites, Object, ThreadChain
from gitbaton.langgraph.threads.codec import Id, ThreadCheckpoint, blob_of, hasher, json_text
from tests.kit import Sandbox


class Heap:
    """Objects by id; counts what is read."""

    def __init__(self, algorithm: Algorithm = "sha1") -> None:
        self.algorithm, self.identify = algorithm, hasher(algorithm)
        self.held: dict[Id, tuple[Kind, bytes]] = {}
        self.reads: list[Kind] = []

    def read(self, oid: Id) -> tuple[Kind, bytes]:
        if oid not in self.held:
            raise GitError(f"object {oid.hex()} is not here")
        self.reads.append(self.held[oid][0])
        return self.held[oid]

    def put(self, kind: Kind, data: bytes) -> Id:
        oid = self.identify(kind, data)
        self.held[oid] = (kind, data)
        return oid

    def take(self, built: Built) -> Built:
        for kind, oid, data in built.objects:
            assert self.put(kind, data) == oid
        return built

    def chain(self, tip: Id | None) -> ThreadChain:
        return ThreadChain(self.read, self.algorithm, tip, Entries())

    def late(self, tip: Id | None) -> LateWrites:
        return LateWrites(self.read, self.algorithm, tip)

    def rebuild(
        self,
        tip: Id | None,
        puts: Mapping[str, ThreadCheckpoint | None],
        rows: Mapping[str, Sequence[Batch]] | None = None,
        late: Id | None = None,
    ) -> Built:
        steps, given = building(self.chain(tip), puts, rows or {}, self.late(late)), list[Object]()
        while True:
            try:
                given += next(steps)
            except StopIteration as end:
                built: Built = end.value
                break
        # A flush stores what it is given meanwhile, and looks at nothing else.
        assert dict.fromkeys(given) == dict.fromkeys(built.objects)
        return self.take(built)

    def anew(self, built: Built) -> list[str]:
        """The checkpoints that have a new commit."""
        made = [oid for kind, oid, data in built.objects if kind == "commit" and b"\n\nlate writes\n" not in data]
        return [self.chain(None).entry(oid).id for oid in made]

    def entry(self, id: str, values: Mapping[str, bytes], *, parent: str | None = None, step: int = 0) -> ThreadCheckpoint:
        """A checkpoint as it is put, its blobs put already."""
        channels = {name: self.put("blob", blob_of(("bytes", value))) for name, value in values.items()}
        ck = json_text({"v": 2, "ts": f"2026-11-20T00:00:{step % 60:02}+00:00", "id": id, "channel_versions": {}})
        md = json_text({"source": "loop", "step": step, "parents": {}})
        assert ck is not None and md is not None
        return ThreadCheckpoint(id, parent, ck, md, channels)

    def lay(self, repo: Sandbox, refs: Mapping[str, Id | None]) -> None:
        """Write everything into a repository as loose objects, and point refs at some."""
        for oid, (kind, data) in self.held.items():
            name = oid.hex()
            repo.write(f".git/objects/{name[:2]}/{name[2:]}", zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data), 1))
        for ref, tip in refs.items():
            if tip is not None:
                repo.git("update-ref", ref, tip.hex())


def mutations(data: bytes, count: int, seed: int = 1) -> Iterable[bytes]:
    """Every truncation of some bytes, and as many random changes."""
    rng = random.Random(seed)
    yield from (data[:end] for end in range(len(data)))
    tokens = (
        b"\0",
        b'"',
        b"\\",
        b"\n",
        b"\n\n",
        b"[",
        b"]",
        b"{}",
        b"null",
        b"-1",
        b"1e9",
        b"NaN",
        b"true",
        b"\xff",
        b"9" * 5000,
    )
    for _ in range(count):
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        kind = rng.randrange(4)
        if kind == 0:
            yield data[:at] + bytes((rng.randrange(256),)) + data[at + 1 :]
        elif kind == 1:
            yield data[:at] + rng.choice(tokens) + data[at:]
        elif kind == 2:
            yield data[:at] + data[to:]
        else:
            yield data[:at] + data[to:] + data[at:to]
