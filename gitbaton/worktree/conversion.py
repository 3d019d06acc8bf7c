"""Conversions of another time: what git makes of a blob on its way into the work tree, by the attributes and settings of then.

The ``.gitattributes`` files of then lie in trees. What else has a say (``core.autocrlf``, ``core.eol``, ``core.symlinks``,
``core.attributesFile`` and ``info/attributes``) is of one machine: a file in the common directory tells since when it is what
it is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from gitbaton.git.objects import NewObject, new_object, object_id, tree_objects
from gitbaton.git.repo import Repo, put
from gitbaton.git.run import Git, quoted, taken_back
from gitbaton.model import Oid
from gitbaton.system.files import read_regular
from gitbaton.values import replace, value
from gitbaton.worktree.filetrees import is_safe
from gitbaton.worktree.gate import folders_of, has_links, setting
from gitbaton.worktree.rawbytes import ATTRIBUTES, Entry, attributes, conversion, entries

NAME = ".gitattributes"
_MOST = 100 << 20  # bytes of an attributes file that git reads
_KEPT = 1000  # changes of what this machine says that are remembered


@value
class LocalAttributes:
    """What has a say beside the ``.gitattributes`` files of trees: ``core.autocrlf`` and ``core.eol``, the texts of
    ``core.attributesFile`` and ``info/attributes``, and ``core.symlinks``."""

    autocrlf: str = ""
    eol: str = ""
    general: str = ""
    info: str = ""
    symlinks: str = "true"

    def converts_as(self, other: LocalAttributes) -> bool:
        """Whether files are converted in the same way."""
        return replace(self, symlinks=other.symlinks) == other


def is_attributes(path: str) -> bool:
    """Whether a path is that of an attributes file."""
    return path.rpartition("/")[2] == NAME


def local_attributes(repo: Repo) -> LocalAttributes:
    """What this machine says now."""
    given = repo.settings().get("core.attributesfile", [""])[-1]
    home = repo.git.env.get("XDG_CONFIG_HOME") or os.path.join(repo.git.env.get("HOME", ""), ".config")
    general = os.path.expanduser(given) if given else os.path.join(home, "git", "attributes")
    return LocalAttributes(
        autocrlf=setting(repo, "core.autocrlf"),
        eol=setting(repo, "core.eol"),
        general=_text(os.path.join(repo.layout.root or "", general)),
        info=_text(os.path.join(repo.layout.common_dir, "info", "attributes")),
        symlinks=str(has_links(repo)).lower(),
    )


def _text(path: str) -> str:
    return os.fsdecode(_bytes(path, follow=True) or b"")


def _memory(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "attributes")


def _remembered(repo: Repo) -> Iterator[tuple[str, LocalAttributes, bytes]]:
    """Since when what was said, the oldest first, each with its line; a line that cannot be read says nothing."""
    try:
        lines = read_regular(_memory(repo), _MOST).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            said = json.loads(line)
            since, texts = said["since"], {key: said[key] for key in ("autocrlf", "eol", "general", "info", "symlinks")}
        except (ValueError, KeyError, TypeError):
            continue
        if all(isinstance(text, str) for text in (since, *texts.values())):
            yield since, LocalAttributes(**texts), line


def remember_attributes(repo: Repo, since: datetime) -> None:
    """Write down what this machine says now, for the checkpoint that is made at ``since`` and those that follow. Raises
    OSError."""
    now, known = local_attributes(repo), list(_remembered(repo))
    if known and known[-1][1] == now:
        return
    said = {
        "since": _moment(since),
        "autocrlf": now.autocrlf,
        "eol": now.eol,
        "general": now.general,
        "info": now.info,
        "symlinks": now.symlinks,
    }
    lines = [*(line for _, _, line in known[1 - _KEPT :]), json.dumps(said).encode("ascii")]
    put(repo, _memory(repo), b"".join(line + b"\n" for line in lines))


def attributes_at(repo: Repo, moment: datetime) -> LocalAttributes | None:
    """What this machine said when a checkpoint was made here; None where nobody has written that down."""
    found = [said for since, said, _ in _remembered(repo) if since <= _moment(moment)]
    return found[-1] if found else None


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")


def attribute_files(repo: Repo, tree: Oid) -> dict[str, Oid]:
    """The attributes files of a tree, by path; git heeds none that is a link."""
    from gitbaton.worktree.checkout import differences  # late: a snapshot needs it where attributes changed

    nothing = object_id(repo.layout.algorithm, "tree", b"")
    found = differences(repo.git, nothing, tree, [f":(top,glob)**/{NAME}"])
    return {d.path: d.then.oid for d in found if d.then is not None and d.then.mode[:3] == "100"}


class Conversion:
    """How files were checked out by the attributes ``files`` (path, blob) of a tree, and by what the machine said then.

    ``folder`` is one of ours, ``local`` None where it is as now.
    """

    def __init__(self, repo: Repo, folder: str, files: Mapping[str, Oid], local: LocalAttributes | None) -> None:
        self.repo, self.files = repo, dict(files)
        self.place = os.path.join(folder, f"conversion.{time.monotonic_ns()}")
        self.now = local_attributes(repo)
        self.local = local or self.now

    def tree(self) -> list[NewObject]:
        """The objects of a tree of these attributes files, the tree last."""
        return tree_objects(self.repo.layout.algorithm, [(path, "100644", oid) for path, oid in self.files.items()])

    @cached_property
    def git(self) -> Git:
        """Git that converts so: bound to a repository of its own with these attributes, and with our objects. Filters are run
        where the user's git runs them. Raises GitError."""
        repo, root = self.repo, self.repo.layout.root or self.repo.layout.git_dir
        top = os.path.join(self.place, "files")
        self._lay_out(top)
        repo.settings()  # which says what filters there are
        env = {
            "GIT_DIR": self.place,
            "GIT_COMMON_DIR": self.place,
            "GIT_WORK_TREE": top,
            "GIT_INDEX_FILE": os.path.join(self.place, "index"),
            "GIT_OBJECT_DIRECTORY": repo.objects_dir,
        }
        settings = [f"core.autocrlf={self.local.autocrlf or 'false'}", f"core.eol={self.local.eol or 'native'}"]
        settings += [f"core.attributesFile={os.path.join(self.place, 'general')}", "core.safecrlf=false"]
        git = repo.git.changed(env, directory=top)
        first = (taken_back(git.env, repo.opened.env) + f"cd {quoted(root)} || exit; ").replace("%", "%%")
        for key, _, text in (one.partition("=") for one in git.config):
            if key.startswith("filter.") and key.endswith((".smudge", ".process")) and text:
                settings.append(f"{key}={first}{text}")
        return git.changed({}, *settings)

    def _lay_out(self, top: str) -> None:
        """Write the repository and its work tree, which hold nothing else."""
        repo, layout = self.repo, self.repo.layout
        for name in ("objects", "refs", "info", "files"):
            os.makedirs(os.path.join(self.place, name), exist_ok=True)
        includes = [os.path.join(layout.common_dir, "config"), os.path.join(layout.git_dir, "config.worktree")]
        text = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = " + layout.algorithm + "\n"
        for path in includes:
            text += '[include]\n\tpath = "' + path.replace("\\", "\\\\").replace('"', '\\"') + '"\n'
        written = {"HEAD": "ref: refs/heads/main\n", "config": text, "general": self.local.general}
        written["info/attributes"] = self.local.info
        for name, content in written.items():
            with open(os.path.join(self.place, name), "wb") as file:
                file.write(os.fsencode(content))
        for path, oid in self.files.items():
            found = repo.objects.read(oid, _MOST)
            if is_safe(path) and found is not None and found.data is not None:
                os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
                with open(os.path.join(top, path), "wb") as file:
                    file.write(found.data)

    def turned(self, git: Git, files: Sequence[Entry]) -> list[Entry]:
        """Those of the files that are converted otherwise than by ``git``, which sees what counts now. Raises GitError."""
        paths = [path for path, _, _ in files]
        then, now = dict(attributes(self.git, paths)), dict(attributes(git, paths))
        found = {path for path in paths if then[path] != now[path]}
        if (self.local.autocrlf, self.local.eol) != (self.now.autocrlf, self.now.eol):
            both = ((path, dict(zip(ATTRIBUTES, of[path], strict=True))) for of in (then, now) for path in paths)
            found |= {path for path, said in both if conversion(said, auto=True)}
        return [file for file in files if file[0] in found]

    def content(self, path: str, oid: Oid) -> bytes:
        """The bytes of a checkout of a blob. Raises GitError."""
        return self.git.out("cat-file", "--filters", f"--path={path}", oid)


def conversion_of(repo: Repo, folder: str, tree: Oid, now: Oid, local: LocalAttributes | None) -> Conversion:
    """The conversion by the attributes of a tree; ``now`` is the tree of the work tree. An attributes file on disk that neither
    has, because it is ignored, counts as it is. Raises GitError."""
    files, here = attribute_files(repo, tree), attribute_files(repo, now)
    names = {os.path.join(at, NAME) for at in folders_of(path for path, _, _ in entries(repo.git, tree))}
    found = {path: _bytes(os.path.join(repo.layout.root or "", path)) for path in names.difference(files, here)}
    blobs = {path: new_object(repo.layout.algorithm, "blob", data) for path, data in found.items() if data is not None}
    repo.stow(list(blobs.values()))
    return Conversion(repo, folder, files | {path: blob.oid for path, blob in blobs.items()}, local)


def _bytes(path: str, *, follow: bool = False) -> bytes | None:
    try:
        return read_regular(path, _MOST, follow=follow)
    except OSError:
        return None
