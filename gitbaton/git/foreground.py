"""Foreground commands: what is run for the user, in the user's environment, and git itself with the user's terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from gitbaton.base.system.process import spawn
from gitbaton.git.repo import Repo, leads_back
from gitbaton.git.run import BORROWED, LOCAL_ENV, STORES, Git, borrowing, quoted, taken_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Place = Literal["here", "top", "beside"]

# What says which repository is meant, where its parts are not at their usual places.
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", BORROWED)
_PARAMETERS = "GIT_CONFIG_PARAMETERS"  # by which git passes on what `-c` said
_PROGRAMS = r"^(diff\.external|diff\..*\.(command|textconv)|pager\.diff)$"
_BOOLEAN = re.compile(r"true|yes|on|false|no|off|[-+]?\d+", re.I)


def environment(repo: Repo, place: Place) -> dict[str, str]:
    """Return the environment of a command that is run for the user: the caller's own. No variable of ours, and none that leads
    to our quarantine: git in the command, perhaps in another repository, would take objects for stored that are not.

    ``here``: in the current directory. ``top``: in the work tree of ``repo``; what names another repository goes, and so does
    what git finds by itself there, as it sets it for hooks; the rest is absolute. ``beside``: in another work tree of the
    repository; what stays is where its objects lie.
    """
    given = [name for name in LOCAL_ENV if name in os.environ]
    if place == "here" or not given:
        return dict(os.environ)
    ours = repo.opened.env
    kept = [name for name in given if name in ours and (place == "top" or name in STORES)]
    env = {k: v for k, v in os.environ.items() if k not in given} | {name: ours[name] for name in kept}
    return {k: v for k, v in env.items() if k not in _found(repo, env)}


def _found(repo: Repo, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that say no more than git finds in the work tree by itself."""
    layout, found = repo.layout, list[str]()
    if "GIT_INDEX_FILE" in env and os.path.realpath(env["GIT_INDEX_FILE"]) == os.path.join(layout.git_dir, "index"):
        found.append("GIT_INDEX_FILE")
    if layout.root is not None and leads_back(layout) and "GIT_COMMON_DIR" not in env:
        found += ["GIT_DIR", "GIT_WORK_TREE"]
    return tuple(found)


def run(repo: Repo, words: Sequence[str], directory: str | None, objects: str | None) -> int:
    """Run ``git`` on a repository with the streams of this process and wait for it; its exit status, 128+N where signal N
    ended it. ``directory`` where that is not the current one; ``objects``: a folder in which it finds more of them.

    Ctrl-C is git's to answer: its pager may still hold the terminal. Raises GitError when it cannot be started.
    """
    env = own = environment(repo, "here" if directory is None else "top")
    if directory is not None or repo.passed is not None:
        env = {**env, **{name: repo.opened.env[name] for name in _PLACES if name in repo.opened.env}}
    if objects is not None:
        env = {**env, **borrowing(env, objects)}
    at = () if directory is None else ("-C", directory)
    pid = spawn(["git", *at, *words], _screened(repo, directory or os.curdir, env, own), 0, 1, 2)
    while True:
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else 128 - code


def _screened(repo: Repo, directory: str, env: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment ``env`` for ``git diff``, so that the pager and the programs that it runs for the user have
    ``own``: the shell by which git starts them first takes back what is not in it."""
    if env == own:
        return env
    raw = Git(directory, env).run("config", "-z", "--get-regexp", _PROGRAMS).out
    settings = dict(item.partition("\n")[::2] for item in os.fsdecode(raw).split("\0")[:-1])
    said, pager = settings.pop("pager.diff", ""), repo.pager()
    if said and "GIT_PAGER" not in own and not _BOOLEAN.fullmatch(said):
        pager = said
    given = {"GIT_PAGER": pager, "GIT_EXTERNAL_DIFF": own.get("GIT_EXTERNAL_DIFF", "")}
    given = {name: command for name, command in given.items() if command not in ("", "cat")}
    first = taken_back({**env, **dict.fromkeys((*given, _PARAMETERS), "\0")}, own)  # these are another's in any case
    passed = [env[_PARAMETERS]] if _PARAMETERS in env else []
    passed += [f"{quoted(key)}={quoted(first + command)}" for key, command in settings.items() if command]
    return {**env, **{name: first + command for name, command in given.items()}, _PARAMETERS: " ".join(passed)}
