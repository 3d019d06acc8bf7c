"""A run as ordinary files: a folder for each record, and each tree once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from gitbaton.errors import NoAnswerError, RecordError, UsageError
from gitbaton.git.objects import lookup, parse_commit, parse_tree
from gitbaton.journal.chain import Journal
from gitbaton.journal.reading import RECORD
from gitbaton.journal.values import TREES
from gitbaton.model import Oid
from gitbaton.values import value
from gitbaton.worktree.filetrees import is_safe

_MAX_BLOB = 1 << 30
_MAX_TREE = 64 << 20
_DEPTH = 200
_LINK, _EXECUTABLE, _TREE = b"120000", b"100755", b"40000"


@value
class File:
    """A file to be written: its path below the folder, its mode as git has it, the blob that it holds."""

    path: str
    mode: bytes
    oid: Oid


@value
class Plan:
    """The folder and what is written into it, in order."""

    folder: str
    files: tuple[File, ...]


def plan(journal: Journal, run: str, folder: str) -> Plan:
    """What an export writes: ``<number>/record.json``, ``stdout``, ``stderr``, ``plan.toml``, and ``trees/<id>/...`` for the
    trees that the records name. Raises NotFoundError; RecordError for what cannot be a file; NoAnswerError where something
    stands in the way."""
    files: list[File] = []
    trees: set[Oid] = set()
    for logged in journal.records(run):
        place = f"{logged.record.seq:06d}"
        found = journal.repo.objects.read(logged.commit)
        if found is None or found.data is None:
            raise RecordError(f"commit {logged.commit} cannot be read")
        entry = lookup(journal.repo.objects, parse_commit(found.data).tree, RECORD.encode())
        if entry is None:
            raise RecordError(f"commit {logged.commit} holds no {RECORD}")
        files.append(File(path=f"{place}/{RECORD}", mode=b"100644", oid=entry.oid))
        for name, oid in sorted(logged.parts.items()):
            if name not in TREES:
                files.append(File(path=f"{place}/{name}", mode=b"100644", oid=oid))
            elif oid not in trees:
                trees.add(oid)
                files += _below(journal, oid, f"trees/{oid}", _DEPTH)
    _free(folder, files)
    return Plan(folder=folder, files=tuple(files))


def _below(journal: Journal, tree: Oid, path: str, left: int) -> Iterator[File]:
    """The files of a tree that anybody may have written."""
    found = journal.repo.objects.read(tree, _MAX_TREE)
    if found is None or found.kind != "tree" or found.data is None or not left:
        raise RecordError(f"tree {tree} cannot be read")
    names: set[bytes] = set()
    for entry in parse_tree(found.data, journal.repo.objects.algorithm):
        name = os.fsdecode(entry.name)
        if "/" in name or not is_safe(name) or entry.name in names:
            raise RecordError(f"tree {tree} holds a name that can be no file's")
        names.add(entry.name)
        if entry.mode == _TREE:
            yield from _below(journal, entry.oid, f"{path}/{name}", left - 1)
        elif entry.mode in (_LINK, _EXECUTABLE, b"100644"):
            yield File(path=f"{path}/{name}", mode=entry.mode, oid=entry.oid)
        else:
            raise RecordError(f"tree {tree} holds '{name}', which is no file")


def _free(folder: str, files: Iterable[File]) -> None:
    """Nothing that is there is written over, nor written below."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"'{folder}' is not a folder")
    tops = dict.fromkeys(file.path.split("/", 1)[0] for file in files)
    for name in tops:
        if os.path.lexists(os.path.join(folder, name)):
            raise NoAnswerError(f"'{os.path.join(folder, name)}' is there already; nothing is written", "--output DIR")


def apply(journal: Journal, planned: Plan) -> int:
    """Write the files; how many. Raises OSError, and NoAnswerError where a file has come to stand there meanwhile."""
    objects = journal.repo.objects
    for file in planned.files:
        path = os.path.join(planned.folder, file.path)
        found = objects.read(file.oid, _MAX_BLOB)
        if found is None or found.kind != "blob" or found.data is None:
            raise RecordError(f"object {file.oid} cannot be read")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            _put(path, file.mode, found.data)
        except FileExistsError:
            raise NoAnswerError(f"'{path}' has come to stand there; it is left as it is") from None
    return len(planned.files)


def _put(path: str, mode: bytes, data: bytes) -> None:
    if mode == _LINK:
        os.symlink(os.fsdecode(data), path)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o777 if mode == _EXECUTABLE else 0o666)
    with open(fd, "wb") as file:
        file.write(data)
