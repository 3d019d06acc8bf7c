"""Questions to git, and small changes: its version, single settings, its work trees and nested repositories, the last move of
HEAD, and which commits were rewritten: the old and new ids that post-rewrite keeps in ``<common dir>/baton/rewritten``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress

from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid, WorktreeId
from gitbaton.base.system.files import born, open_regular, read_or_none, read_regular, remove_folder, sync_paths
from gitbaton.base.values import value
from gitbaton.git.objects import OID, in_the_way
from gitbaton.git.repo import PROTECTED, Repo, add, put
from gitbaton.git.run import Git, base_environment, configured, zsplit

# Not compiled before they are needed: each costs every command a tenth of a millisecond.
_MADE = r"([0-9a-f]+) commit(?: \((?:amend|initial)\))?: "
_LEFT = r"[0-9a-f]+ checkout: moving from (\S+) to \S+$"
_RENAMED = r"[0-9a-f]+ Branch: renamed refs/heads/(\S+) to refs/heads/(\S+)$"
_MOVED = r"([0-9a-f]+) HEAD@\{([0-9]+)\} (commit)?"
FSYNC = ("always", "ordered", "never")  # what baton.fsync can be
CONFIG_HOOKS = (2, 54)  # hook.<name>.command; a failing one fails the command it watches


def version(repo: Repo) -> tuple[int, int]:
    """Return git's version, as major and minor number."""
    match = re.match(rb"git version (\d+)\.(\d+)", repo.git.out("version"))
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def local_values(repo: Repo, key: str) -> list[str]:
    """Return all values of a key in the repository's own configuration."""
    return zsplit(repo.git.run("config", "--local", "-z", "--get-all", key).out)


def all_values(repo: Repo, key: str) -> list[str]:
    """Return all values of a key in every scope."""
    return zsplit(repo.git.run("config", "-z", "--get-all", key).out)


def values_at(directory: str, key: str) -> list[str]:
    """Return all values of a key in every scope, as seen from a directory; none where git has no answer."""
    return zsplit(Git(directory, base_environment(strip_local=True)).run("config", "-z", "--get-all", key).out)


def commits_of(repo: Repo, refs: Sequence[str]) -> dict[str, str]:
    """Return the commits that refs name, each abbreviated; ``stash@{*}`` are all stashes. What names none is left out."""
    found = dict[str, str]()
    for ref in refs:
        if ref == "stash@{*}":
            rows = repo.git.run("rev-list", "-g", "--abbrev-commit", "--max-count=20", "refs/stash", "--").out.split()
            found |= {f"stash@{{{number}}}": row.decode("ascii", "replace") for number, row in enumerate(rows)}
            continue
        oid = repo.git.run("rev-parse", "-q", "--verify", "--short", f"{ref}^{{commit}}", "--").out.split()[:1]
        found |= {ref.removeprefix("refs/heads/"): oid[0].decode("ascii", "replace")} if oid else {}
    return found


def commit_named(repo: Repo, name: str) -> Oid | None:
    """Return the commit that a name means to git, as a tag of it does; None where it means none, or no commit."""
    if "\0" in name:
        return None
    told = repo.git.run("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}")
    commit = told.out.decode("ascii", "replace").strip()
    return commit if told.code == 0 and OID.match(commit) else None


def matching(repo: Repo, pattern: str, *, local: bool = False) -> list[tuple[str, str]]:
    """Return keys that match a regular expression, with their values, from every scope, but for what our own calls say; or from
    the repository's own configuration alone."""
    scope = ("--local",) if local else ()
    items = zsplit(Git(repo.git.directory, repo.git.env).run("config", *scope, "-z", "--get-regexp", pattern).out)
    return [(key, text) for key, _, text in (item.partition("\n") for item in items)]


def add_local(repo: Repo, key: str, text: str) -> None:
    """Add one value of a key to the repository's own configuration. Raises GitError."""
    repo.git.out("config", "--local", "--add", key, text)
    sync_paths([os.path.join(repo.layout.common_dir, "config"), repo.layout.common_dir])  # git itself does not wait


def remove_local(repo: Repo, key: str, text: str) -> None:
    """Remove exactly that value of a key; one that is gone is no error."""
    result = repo.git.run("config", "--local", "--fixed-value", "--unset-all", key, text)
    if result.code not in (0, 5):
        raise GitError(f"cannot remove '{key}' from the configuration: {result.fatal()}")


def add_trailers(repo: Repo, path: str, trailers: Sequence[str]) -> None:
    """Add trailers to a commit's message, a file, those that it has not; as git does, above its comments and what it cuts off.
    Raises GitError."""
    places = ("--where", "end", "--if-exists", "addIfDifferent", "--if-missing", "add")
    words = [word for trailer in trailers for word in ("--trailer", trailer)]
    of = ("-c", "trailer.separators=:", "interpret-trailers", "--in-place", "--no-divider")
    repo.git.out(*of, *places, *words, os.path.abspath(path))


def without_comments(repo: Repo, message: bytes) -> bytes:
    """Return a commit's message without the lines that git takes out of what comes from an editor. Raises GitError."""
    return repo.git.out("stripspace", "--strip-comments", stdin=message)


def everywhere(root: str | None) -> tuple[bool | None, bool]:
    """Return baton.everywhere in a work tree, or outside any; None where it is not set. Also whether a repository switches it
    on, which does not count."""
    env = base_environment(strip_local=True) | ({} if root is not None else {"GIT_DIR": os.devnull})
    asked = Git(root or os.sep, env).run("config", "--show-scope", "-z", "--type=bool", "--get-all", "baton.everywhere")
    fields = zsplit(asked.out)
    said = [(scope in PROTECTED, text == "true") for scope, text in zip(fields[::2], fields[1::2], strict=True)]
    return next((on for counts, on in reversed(said) if counts), None), (False, True) in said


def hooks_path(repo: Repo) -> str | None:
    """Return ``core.hooksPath`` as an absolute path, or None when it is not set."""
    # Our own calls switch hooks off on the command line, so that scope does not count.
    fields = zsplit(repo.git.run("config", "--show-scope", "-z", "--type=path", "--get-all", "core.hooksPath").out)
    values = [text for scope, text in zip(fields[0::2], fields[1::2], strict=True) if scope != "command"]
    return os.path.join(repo.layout.root or repo.layout.git_dir, values[-1]) if values else None


def last_move(repo: Repo) -> str:
    """Return what HEAD's reflog says of its last move, as ``checkout: moving from a to b``; empty without a reflog."""
    return repo.git.run("reflog", "-1", "--format=%gs", "HEAD").out.decode("utf-8", "replace").strip()


def is_ancestor(repo: Repo, older: Oid, newer: Oid) -> bool:
    """Whether a commit is another one, or one of those that it came from; not where one of them is not there."""
    return repo.git.run("merge-base", "--is-ancestor", older, newer).code == 0


def made_here(repo: Repo, branch: str | None = None) -> frozenset[Oid]:
    """Return the commits that were made in this work tree, as HEAD's reflog tells: no merge, and nothing that was pulled,
    picked or rebased; with a branch those that were made on it. None where there is no reflog."""
    made = _made_on(repo)
    return frozenset().union(*(made.values() if branch is None else [made.get(branch, ())]))


def now_called(repo: Repo, branch: str) -> str:
    """Return the name that a branch has by now, as far as it was renamed while it was HEAD's."""
    for before, after in reversed(_renamed(repo)):
        branch = after if branch == before else branch
    return branch


def _made_on(repo: Repo) -> dict[str | None, set[Oid]]:
    """Return the commits that were made in this work tree, by the branch that HEAD was on, under the name that it had first."""
    found, at = dict[str | None, set[Oid]](), repo.objects.head().branch
    for row in _moves(repo):
        if entry := re.match(_MADE, row):
            found.setdefault(at, set()).add(entry[1])
        elif entry := re.match(_LEFT, row):
            at = entry[1]
        elif entry := re.match(_RENAMED, row):
            found.setdefault(entry[1], set()).update(found.get(entry[2], ()))
            at = entry[1] if at == entry[2] else at
    return found


def _renamed(repo: Repo) -> list[tuple[str, str]]:
    return [(entry[1], entry[2]) for entry in (re.match(_RENAMED, row) for row in _moves(repo)) if entry]


def _moves(repo: Repo) -> list[str]:
    """Return HEAD's reflog, the newest first: where it went, and why."""
    words = ("reflog", "--no-show-signature", "--encoding=UTF-8", "--format=%H %gs", "HEAD", "--")
    return repo.git.run(*words).out.decode("utf-8", "replace").splitlines()


def committed_after(repo: Repo, moment: float, head: Oid) -> tuple[float, Oid] | None:
    """Return when the first commit after a moment was made in this work tree, and which, as HEAD's reflog tells; None where
    none was. ``head``: HEAD at some time before.

    The newest commit was made when the file was written, if it is not ``head`` still: its own time may be anything, and counts
    in seconds. It costs a look at a file where HEAD has not moved since."""
    moved = 0.0
    for name in (os.path.join("logs", "HEAD"), os.path.join("reftable", "tables.list")):
        with suppress(OSError):
            moved = moved or os.stat(os.path.join(repo.layout.git_dir, name)).st_mtime
    if moved <= moment:
        return None
    words = ("reflog", "--no-show-signature", "--encoding=UTF-8", "--date=unix", "--format=%H %gd %gs", "HEAD", "--")
    found, newest = None, True
    for row in repo.git.run(*words).out.decode("utf-8", "replace").splitlines():
        entry = re.match(_MOVED, row)
        at = float(entry[2]) if entry else moment
        at = moved if newest and entry and entry[1] != head else at
        if at <= moment:
            break
        newest, found = False, (at, entry[1]) if entry and entry[3] else found
    return found


def default_hooks(repo: Repo) -> str:
    """Return the hooks directory that git uses when ``core.hooksPath`` is not set."""
    return os.path.join(repo.layout.common_dir, "hooks")


def untracked(repo: Repo, paths: tuple[str, ...], root: str) -> list[str]:
    """Return those of the paths that are files of the work tree at ``root`` and neither in its index nor ignored by a
    .gitignore of it."""
    return tracked(repo, paths, root, "--others", "--exclude-per-directory=.gitignore")


def tracked(repo: Repo, paths: tuple[str, ...], root: str | None = None, *options: str) -> list[str]:
    """Return those of the paths that the index of this work tree, or of the one at ``root``, holds."""
    other = root is not None and root != repo.layout.root
    git = Git(root, base_environment(strip_local=True)) if root is not None and other else repo.git
    names = [f":(top,literal){p}" for p in paths]
    return os.fsdecode(git.out("ls-files", "-z", *options, "--", *names)).split("\0")[:-1] if names else []


def came_with(folder: str, names: Sequence[str]) -> set[str]:
    """Return those of the files in a folder that git tracks there, in whatever repository that is; all, where it lies in one
    that git does not open."""
    git = Git(folder, base_environment(strip_local=True))
    asked = git.run("ls-files", "-z", "--", *(f":(literal){name}" for name in names))
    if asked.code != 0:
        return set() if "not a git repository (or any" in asked.err else set(names)
    return set(os.fsdecode(asked.out).split("\0")[:-1])


def worktrees(repo: Repo) -> list[tuple[str, str, str]]:
    """Return every work tree: the prefix of its own refs, its git directory, and its path (empty where there is none)."""
    common = repo.layout.common_dir
    main = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
    if repo.layout.git_dir == common:
        main = repo.layout.root or ""
    return [("main-worktree/", common, main), *linked(common)]


def linked(common: str) -> list[tuple[str, str, str]]:
    """Return every linked work tree of the repository with that common directory, as ``worktrees`` has them. Raises OSError."""
    found, parent = list[tuple[str, str, str]](), os.path.join(common, "worktrees")
    for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else []:
        git_dir = os.path.join(parent, name)
        try:
            link = os.path.join(git_dir, os.fsdecode(read_regular(os.path.join(git_dir, "gitdir"), follow=True)).rstrip("\n"))
        except OSError:
            continue
        root = os.path.dirname(os.path.normpath(link))
        found.append((f"worktrees/{name}/", git_dir, root if os.path.isdir(root) else ""))
    return found


def gone_worktrees(repo: Repo) -> list[str]:
    """Return the paths of linked work trees that git still knows, and that are not there. Raises OSError."""
    found, parent = list[str](), os.path.join(repo.layout.common_dir, "worktrees")
    for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else []:
        with suppress(OSError):
            link = os.fsdecode(read_regular(os.path.join(parent, name, "gitdir"), follow=True)).rstrip("\n")
            root = os.path.dirname(os.path.normpath(os.path.join(parent, name, link)))
            found += [root] if not os.path.isdir(root) else []
    return found


def others(repo: Repo) -> list[tuple[str, WorktreeId | None]]:
    """Return the other work trees that exist: the git directory of each, and what checkpoints call it, where gitbaton has met
    it."""
    found = [(git_dir, root) for _, git_dir, root in worktrees(repo) if root and git_dir != repo.layout.git_dir]
    return [(git_dir, met(git_dir, root)) for git_dir, root in found]


def met(git_dir: str, root: str) -> WorktreeId | None:
    """Return what checkpoints call the work tree of a git directory; None where gitbaton has never met it."""
    created = born(os.path.join(git_dir, "baton", "worktree"))
    return WorktreeId(path=root, created=created) if created is not None else None


def current_ref(repo: Repo, git_dir: str, name: str) -> str:
    """Return the target of a symbolic ref of the work tree of ``git_dir``; empty where there is none."""
    if in_the_way(git_dir, name):
        return ""
    return os.fsdecode(repo.git.run("symbolic-ref", "-q", name, env={"GIT_DIR": git_dir}).out).rstrip("\n")


def set_current(repo: Repo, git_dir: str, name: str, target: str) -> None:
    """Point a symbolic ref of the work tree of ``git_dir`` at a ref. Raises GitError."""
    repo.git.out("symbolic-ref", name, target, env={"GIT_DIR": git_dir})


def delete_current(repo: Repo, git_dir: str, name: str) -> None:
    """Remove a symbolic ref of the work tree of ``git_dir``. Raises GitError."""
    repo.git.out("symbolic-ref", "--delete", name, env={"GIT_DIR": git_dir})


def create_bare(path: str, *, sync: bool = True) -> None:
    """Create a bare repository at ``path``, where nothing is or an empty folder; folders above are made. It is on disk when
    this returns, unless ``sync`` is False. Of two processes that make one there at the same time one wins whole. Raises
    GitError."""
    path = os.path.abspath(path)
    above = os.path.dirname(path)
    draft = f"{path}.{os.urandom(6).hex()}.new"
    changed = [above]  # and those above it, up to the first that exists: what gets a new entry when it is made
    while not os.path.exists(changed[-1]):
        changed.append(os.path.dirname(changed[-1]))
    try:
        os.makedirs(above, exist_ok=True)
        Git(above, base_environment(strip_local=True)).out("init", "-q", "--bare", "--template=", "--", draft)
        if sync:
            sync_paths(os.path.join(top, name) for top, _, names in os.walk(draft) for name in (*names, ""))
        os.rename(draft, path)
        if sync:
            sync_paths(changed)
    except OSError as error:
        if not os.path.exists(os.path.join(path, "HEAD")):
            raise GitError(f"cannot create the repository '{path}': {error.strerror}") from None
    finally:
        remove_folder(draft)


_SECONDS = 60.0
_SETTINGS = ("protocol.allow=never", "core.untrackedCache=false")  # a commit that is missing is not asked for elsewhere
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
_GITLINK = "160000 "


@value
class Inside:
    """Content that only a nested repository holds: ``changed`` are paths in it with content that is not committed, ``commits``
    how many of its branches, HEAD and stash no remote-tracking branch has, ``size`` their bytes on disk. ``within``: the
    repositories that lie in it. ``ours``: it is a work tree of the repository around it."""

    changed: tuple[str, ...] = ()
    commits: int = 0
    size: int = 0
    within: tuple[str, ...] = ()
    ours: bool = False


def inside(repo: Repo, path: str) -> Inside | None:
    """Look into the repository at a path; None where git opens none just there. Reads only, and runs no program that its
    configuration names: it may come from an unknown archive."""
    git = Git(path, base_environment(strip_local=True), config=_SETTINGS, timeout=_SECONDS)
    asked = git.start("rev-parse", "--show-toplevel", "--git-common-dir")
    said = git.start("config", "-z", "--show-scope", "--get-regexp", _FILTERS)
    found, named = asked.finish(), said.finish()
    lines = os.fsdecode(found.out).split("\n")[:-1]
    if found.code or len(lines) != 2 or os.path.realpath(lines[0]) != os.path.realpath(path):
        return None
    if os.path.realpath(os.path.join(path, lines[1])) == os.path.realpath(repo.layout.common_dir):
        return Inside(ours=True)
    git = _without(git, zsplit(named.out))
    # Git would run the programs that the configuration of a submodule names.
    shown = git.start("status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=dirty")
    staged = git.start("ls-files", "-s", "-z")
    commits = _unpushed(git, "--count")
    changed = [row[3:] for row in zsplit(shown.finish().out)]
    links = [row.partition("\t")[2] for row in zsplit(staged.finish().out) if row.startswith(_GITLINK)]
    return Inside(
        changed=tuple(p for p in changed if not p.endswith("/") and p not in links),
        commits=commits,
        size=_unpushed(git, "--objects", "--disk-usage") if commits else 0,
        within=(*links, *(p.rstrip("/") for p in changed if p.endswith("/"))),
    )


def _unpushed(git: Git, *form: str) -> int:
    """Return a number that ``rev-list`` tells of the commits that no remote-tracking branch has."""
    for head in (["HEAD"], []):  # an unborn one is an error
        result = git.run("rev-list", *form, *head, "--branches", "--glob=refs/stash*", "--not", "--remotes", "--")
        if result.code == 0:
            return int(result.out) if result.out.strip().isdigit() else 0
    return 0


def _without(git: Git, fields: list[str]) -> Git:
    """Return the same without the filters that the repository's own configuration names."""
    scopes = zip(fields[::2], fields[1::2], strict=False)
    keys = {field.partition("\n")[0] for scope, field in scopes if scope in ("local", "worktree")}
    return configured(git, {key: "false" if key.endswith(".required") else "" for key in sorted(keys)})


MAX_REWRITES = 1000
_TRIM_BYTES = 200 << 10
_TAIL = 1 << 20


def rewritten_commits(repo: Repo) -> dict[Oid, Oid]:
    """Return old and new ids of the last rewrites."""
    try:
        with open(open_regular(_path(repo)), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode("ascii", "replace").splitlines()[-MAX_REWRITES:]
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {r[0]: r[1] for r in rows if len(r) == 2 and OID.match(r[0]) and OID.match(r[1])}


def filtered_commits(repo: Repo) -> dict[bytes, bytes]:
    """Return the old ids of commits that git-filter-repo rewrote, by their new ids, as its own record says; empty where it
    never ran."""
    said = read_or_none(os.path.join(repo.layout.common_dir, "filter-repo", "commit-map")) or b""
    rows = (line.split() for line in said.splitlines())
    return {row[1]: row[0] for row in rows if len(row) == 2 and row[0] != row[1] and row[1].strip(b"0")}


def successor(known: dict[Oid, Oid], oid: Oid) -> Oid:
    """Return the commit that ``oid`` became, over any number of rewrites; where they lead in a circle, where it closes."""
    seen = {oid}
    while (after := known.get(oid)) is not None:
        oid = after
        if oid in seen:
            break
        seen.add(oid)
    return oid


def forget_rewrite(repo: Repo, oid: Oid) -> None:
    """Record that a rewritten commit came back, on which a checkpoint was taken: from now on it is itself again."""
    if rewritten_commits(repo).get(oid, oid) != oid:
        add(repo, _path(repo), f"{oid} {oid}\n".encode())


def trim_rewrites(repo: Repo) -> None:
    """Keep the newest pairs of a file that has grown. Called with the lock held; a hook may add a pair meanwhile."""
    path = _path(repo)
    with suppress(OSError):  # nothing depends on its size
        if os.lstat(path).st_size < _TRIM_BYTES:
            return
        lines = read_regular(path).splitlines(keepends=True)[-MAX_REWRITES:]
        put(repo, path, b"".join(lines), fresh=f".{os.getpid()}")


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "rewritten")
