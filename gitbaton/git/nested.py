"""Nested repositories: submodules and others that lie in a work tree, and what of them neither a commit nor a remote has."""

from __future__ import annotations

import os

from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, base_environment, zsplit
from gitbaton.values import value

_SECONDS = 60.0
_SETTINGS = ("protocol.allow=never", "core.untrackedCache=false")  # a commit that is missing is not asked for elsewhere
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
_GITLINK = "160000 "


@value
class Inside:
    """What only a nested repository holds: ``changed`` are paths in it with content that is not committed, ``commits`` how many
    of its branches, HEAD and stash no remote-tracking branch has, ``size`` their bytes on disk. ``within``: the repositories
    that lie in it. ``ours``: it is a work tree of the repository around it."""

    changed: tuple[str, ...] = ()
    commits: int = 0
    size: int = 0
    within: tuple[str, ...] = ()
    ours: bool = False


def inside(repo: Repo, path: str) -> Inside | None:
    """Look into the repository at a path; None where git opens none just there. Reads only, and runs no program that its
    configuration names: who unpacked it here need not have looked at that."""
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
    """A number that ``rev-list`` tells of the commits that no remote-tracking branch has."""
    for head in (["HEAD"], []):  # an unborn one is an error
        result = git.run("rev-list", *form, *head, "--branches", "--glob=refs/stash*", "--not", "--remotes", "--")
        if result.code == 0:
            return int(result.out) if result.out.strip().isdigit() else 0
    return 0


def _without(git: Git, fields: list[str]) -> Git:
    """The same without the filters that the repository's own configuration names."""
    scopes = zip(fields[::2], fields[1::2], strict=False)
    keys = {field.partition("\n")[0] for scope, field in scopes if scope in ("local", "worktree")}
    start = os.environ.get("GIT_CONFIG_COUNT", "")
    number = int(start) if start.isdigit() else 0
    env = {"GIT_CONFIG_COUNT": str(number + len(keys))} if keys else {}
    for at, key in enumerate(sorted(keys), number):
        env |= {f"GIT_CONFIG_KEY_{at}": key, f"GIT_CONFIG_VALUE_{at}": "false" if key.endswith(".required") else ""}
    return git.changed(env)
