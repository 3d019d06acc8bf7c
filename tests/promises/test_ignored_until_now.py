"""Ignore rules that vanish: what was ignored a minute ago stays out, until somebody names it or git tracks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.mcp import Client as Asking
from tests.kit.mcp import said, talk
from tests.kit.tiers import some

SECRET = "token=s3cr3t"
IGNORED = "ignored-until-now"
Way = Callable[[Sandbox], object]


def ground(repo: Sandbox, rules: str = "node_modules/\nsecrets/\n*.key\n") -> Client:
    """A branch ``old`` without ignore rules, a later commit that has them, and what they cover."""
    repo.git("branch", "old")
    repo.commit("rules", _gitignore=rules, other_txt="x\n")
    for number in range(30):
        repo.write(f"node_modules/pack/f{number}", f"{number}\n")
    repo.write("a.key", SECRET)
    return begun(repo)


def begun(repo: Sandbox) -> Client:
    """A secret file beside what is there, a checkpoint without it, and a turn that has begun."""
    repo.write("secrets/cred.json", SECRET)
    repo.ok("snapshot", "--track", "t", "start")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="go")
    return client


def newest(repo: Sandbox) -> tuple[set[str], dict[str, str]]:
    """The files of the newest checkpoint, and what it left out."""
    shown = json.loads(repo.ok("show", "--json", "t").out)["checkpoint"]
    return set(repo.tree(shown["commit"])), {s["path"]: s["reason"] for s in shown["files"]["skipped"]}


def leaks(repo: Sandbox) -> list[str]:
    """The files of the newest checkpoint that were ignored, and whether anything here holds the secret."""
    found = sorted(p for p in newest(repo)[0] if p.startswith(("node_modules", "secrets")) or p.endswith(".key"))
    return found + [SECRET] * (SECRET in repo.everything())


def rules_file(repo: Sandbox, made: Callable[[Path], object]) -> None:
    path = repo.path / ".gitignore"
    path.unlink()
    made(path)


WAYS: dict[str, Way] = {
    "branch": lambda repo: repo.git("switch", "-q", "old"),
    "detached": lambda repo: repo.git("switch", "-q", "--detach", "old"),
    "emptied": lambda repo: repo.write(".gitignore", ""),
    "removed": lambda repo: (repo.path / ".gitignore").unlink(),
    "git-rm": lambda repo: repo.git("rm", "-q", ".gitignore"),
    "committed": lambda repo: (repo.git("rm", "-q", ".gitignore"), repo.git("commit", "-qm", "no rules")),
    "reset": lambda repo: repo.git("reset", "-q", "--hard", "old"),
    "negated": lambda repo: repo.write(".gitignore", "node_modules/\nsecrets/\n*.key\n!node_modules/\n!secrets/\n!*.key\n"),
    "folder": lambda repo: rules_file(repo, Path.mkdir),
    "link": lambda repo: rules_file(repo, lambda path: path.symlink_to("a.txt")),
    "dangling": lambda repo: rules_file(repo, lambda path: path.symlink_to("nowhere")),
    "nested": lambda repo: (repo.write(".gitignore", "x\n"), repo.write("secrets/.gitignore", "!*\n")),
}


@some("way", WAYS, share={"detached", "emptied", "removed", "committed", "negated", "folder", "nested"})
def test_what_was_ignored_a_turn_ago_stays_out(repo: Sandbox, way: str) -> None:
    client = ground(repo)
    WAYS[way](repo)
    client.fire("turn")
    held, left = newest(repo)
    assert not [p for p in held if p.startswith(("node_modules", "secrets/c")) or p.endswith(".key")]
    wanted = {"node_modules", "secrets", "a.key"}
    assert left == dict.fromkeys(wanted, IGNORED)
    for number in range(2):  # nor do the checkpoints after that one take it in, whose own rules are the new ones
        repo.write("more.txt", f"{number}\n")
        repo.write(f"secrets/more{number}.json", SECRET)
        client.turn("and on")
        assert newest(repo)[1] == left and "more.txt" in newest(repo)[0]
    repo.ok("snapshot", "said")
    assert newest(repo)[1] == left
    assert SECRET not in repo.everything()
    repo.ok("verify")


@pytest.mark.deep
def test_nothing_of_it_is_pushed(repo: Sandbox, tmp_path: Path) -> None:
    client = ground(repo)
    repo.git("switch", "-q", "old")
    client.fire("turn")
    repo.git("init", "-q", "--bare", str(tmp_path / "hub"))
    repo.git("remote", "add", "origin", str(tmp_path / "hub"))
    repo.ok("push", "--yes")
    hub = Sandbox(tmp_path / "hub")
    assert SECRET not in hub.everything()


@pytest.mark.deep
@pytest.mark.parametrize("where", ["stash", "unborn"])
def test_rules_that_no_commit_holds(tmp_path: Path, repo: Sandbox, where: str) -> None:
    if where == "unborn":
        repo = Sandbox.init(tmp_path / "unborn")
    repo.write(".gitignore", "secrets/\n")
    client = begun(repo)
    if where == "stash":
        repo.git("stash", "-q", "-u")
    else:
        (repo.path / ".gitignore").unlink()
    repo.write("new.txt", "x\n")
    client.fire("turn")
    assert leaks(repo) == [] and newest(repo)[1] == {"secrets": IGNORED}


@pytest.mark.deep
@pytest.mark.parametrize("where", ["exclude", "excludesFile", "unset"])
def test_rules_outside_the_work_tree(repo: Sandbox, tmp_path: Path, where: str) -> None:
    exclude, general = repo.path / ".git" / "info" / "exclude", tmp_path / "general"
    if where == "exclude":
        exclude.write_text("secrets/\n")
    else:
        general.write_text("secrets/")
        repo.git("config", "core.excludesFile", str(general))
    client = begun(repo)
    if where == "unset":
        repo.git("config", "--unset", "core.excludesFile")
    else:
        (exclude if where == "exclude" else general).write_text("")
    repo.write("new.txt", "x\n")
    client.fire("turn")
    assert leaks(repo) == [] and newest(repo)[1] == {"secrets": IGNORED}
    repo.write("new.txt", "y\n")
    client.turn("on")
    assert leaks(repo) == [] and newest(repo)[1] == {"secrets": IGNORED}


@pytest.mark.deep
def test_the_first_checkpoint_of_a_track_goes_by_head(repo: Sandbox) -> None:
    repo.commit("rules", _gitignore="secrets/\n")
    repo.write("secrets/cred.json", SECRET)
    repo.write(".gitignore", "")
    repo.ok("snapshot", "--track", "t", "start")
    assert leaks(repo) == [] and newest(repo)[1] == {"secrets": IGNORED}


@pytest.mark.deep
def test_another_track_of_the_work_tree_knows_it_too(repo: Sandbox) -> None:
    client = ground(repo)
    repo.git("switch", "-q", "old")
    client.fire("turn")
    repo.ok("snapshot", "--track", "u", "beside", "--no-set-current")
    shown = json.loads(repo.ok("show", "--json", "u").out)["checkpoint"]
    assert {s["path"] for s in shown["files"]["skipped"]} == {"node_modules", "secrets", "a.key"}


@pytest.mark.deep
def test_a_second_work_tree_has_a_past_of_its_own(repo: Sandbox, tmp_path: Path) -> None:
    ground(repo)
    repo.git("worktree", "add", "-q", str(tmp_path / "second"), "old")
    second = Sandbox(tmp_path / "second")
    second.write("secrets/other", "x\n")
    second.ok("snapshot", "--track", "t", "there")
    repo.git("switch", "-q", "--detach", "old")
    repo.write("b.txt", "x\n")
    repo.ok("snapshot", "--track", "t", "here again")
    assert leaks(repo) == [] and newest(repo)[1] == dict.fromkeys(("node_modules", "secrets", "a.key"), IGNORED)


@pytest.mark.deep
def test_include_takes_it_in_for_good(repo: Sandbox) -> None:
    client = ground(repo)
    repo.write(".gitignore", "")
    said = repo.ok("snapshot", "said").err
    assert "'secrets' is left out: it was ignored until now" in said
    (repo.path / "sub").mkdir()
    found = Sandbox(repo.path / "sub").ok("snapshot", "with it", "--include", "../secrets")
    assert "'secrets'" not in found.err
    held, left = newest(repo)
    assert "secrets/cred.json" in held and left == {"node_modules": IGNORED, "a.key": IGNORED}
    repo.write("secrets/cred.json", "changed\n")
    client.turn("on")
    held, left = newest(repo)
    assert "secrets/cred.json" in held and left == {"node_modules": IGNORED, "a.key": IGNORED}


@pytest.mark.deep
def test_what_git_tracks_comes_in(repo: Sandbox) -> None:
    client = ground(repo)
    repo.write(".gitignore", "")
    client.fire("turn")
    repo.git("add", "secrets")
    repo.write("secrets/other", "x\n")
    client.turn("on")
    held, left = newest(repo)
    assert "secrets/cred.json" in held and left["secrets/other"] == IGNORED and "secrets" not in left


@pytest.mark.deep
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "matches no file"),
        ("../outside", "outside repository"),
        ("", "cannot be included"),
        (":(what)a", "what"),
        ("still", "git ignores it"),
        (".env", "baton.exclude names it"),
    ],
)
def test_a_path_that_cannot_be_included_is_fatal(repo: Sandbox, path: str, words: str) -> None:
    ground(repo)
    repo.write(".gitignore", "still/\n")
    repo.write("still/x", "x\n")
    repo.write(".env", "x\n")
    before = repo.git("for-each-ref")
    found = repo.baton("snapshot", "said", "--include", path)
    assert found.code == 129 and found.err.startswith("fatal: ") and words in found.err
    assert repo.git("for-each-ref") == before
    assert repo.baton("snapshot", "said", "--include", "a.txt").code == 0, "what is tracked is in it anyway"


@pytest.mark.deep
def test_a_model_can_include_a_path(repo: Sandbox) -> None:
    ground(repo)
    repo.write(".gitignore", "")

    async def steps(client: Asking) -> None:
        done = said(await client.call("snapshot", track="t", step="as it is"))
        assert "'secrets' is left out: it was ignored until now" in done
        assert "'secrets'" not in said(await client.call("snapshot", step="with it", include=["secrets", "*.key"]))
        assert "matches no file" in said(await client.call("snapshot", step="x", include=["nowhere"]))

    talk(repo.path, steps)
    held, left = newest(repo)
    assert {"secrets/cred.json", "a.key"} <= held and left == {"node_modules": IGNORED}


@pytest.mark.deep
def test_include_needs_files(repo: Sandbox) -> None:
    assert repo.baton("snapshot", "said", "--include", "a.txt", "--no-files").code == 129


@pytest.mark.deep
def test_rules_that_move_or_grow_change_nothing(repo: Sandbox) -> None:
    client = ground(repo)
    repo.write(".gitignore", "*.key\n")
    repo.write("secrets/.gitignore", "*\n")
    repo.write("node_modules/.gitignore", "*\n")
    repo.write("new.txt", "x\n")
    client.fire("turn")
    assert newest(repo) == ({".gitignore", "a.txt", "other.txt", "new.txt"}, {})


@pytest.mark.deep
def test_restore_leaves_it_alone(repo: Sandbox) -> None:
    client = ground(repo)
    repo.git("switch", "-q", "old")
    client.fire("turn")
    repo.write("a.txt", "changed\n")
    for options in ((), ("--exact",)):
        repo.ok("restore", "t~1", "--force", *options)  # the branch is another one
        repo.ok("undo")
    repo.ok("restore", "t", "--exact")
    assert (repo.path / "secrets/cred.json").read_text() == SECRET and (repo.path / "node_modules/pack/f3").exists()
    assert (repo.path / "a.key").read_text() == SECRET
    assert SECRET not in repo.everything()


@pytest.mark.deep
def test_what_a_restore_writes_over_is_stored_first(repo: Sandbox) -> None:
    repo.write("secrets/cred.json", "first\n")
    repo.ok("snapshot", "--track", "t", "it was no secret then")
    repo.commit("rules", _gitignore="secrets/\n")
    repo.write("secrets/cred.json", SECRET)
    repo.ok("snapshot", "it is now")
    repo.write(".gitignore", "")
    repo.ok("restore", "t~1", "--force", "secrets")
    assert (repo.path / "secrets/cred.json").read_text() == "first\n"
    repo.ok("undo")
    assert (repo.path / "secrets/cred.json").read_text() == SECRET


@pytest.mark.deep
@pytest.mark.parametrize("way", ["emptied", "removed", "exclude", "output"])
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_a_step_that_loses_the_rules_stores_none_of_it(repo: Sandbox, way: str, isolate: str) -> None:
    ground(repo)
    if way == "exclude":
        repo.git("rm", "-q", ".gitignore")
        repo.git("commit", "-qm", "elsewhere")
        repo.write(".git/info/exclude", "node_modules/\nsecrets/\n*.key\n")
    lines = {"removed": "rm .gitignore", "exclude": ': > "$(git rev-parse --git-path info/exclude)"'}
    does = f"echo o > out.txt; echo u > undeclared.txt; {lines.get(way, ': > .gitignore')}"
    writes = ("--writes", "out.txt", *(("--writes", ".gitignore") if way == "output" else ()))
    done = repo.ok("run", "--run", "x", "--step", "s", "--isolate", isolate, *writes, "--", "sh", "-c", does)
    assert "undeclared.txt" in done.err and "cred.json" not in done.err and ".key" not in done.err
    assert SECRET not in repo.everything()


@pytest.mark.deep
def test_more_than_the_list_holds(repo: Sandbox) -> None:
    repo.commit("rules", _gitignore="*.o\n")
    for number in range(1500):
        repo.write(f"src/{number:04d}.o", SECRET)
    repo.write("src/a.c", "x\n")
    client = Client("claude", repo.path)
    repo.ok("snapshot", "--track", "t", "start")
    repo.git("switch", "-q", "--orphan", "other")
    for number in range(3):
        repo.write("src/b.c", f"{number}\n")
        client.turn("on")
    held, left = newest(repo)
    assert held == {"src/a.c", "src/b.c"} and len(left) == 1000
    assert SECRET not in repo.everything()


@pytest.mark.deep
def test_new_untracked_files_have_a_limit(repo: Sandbox) -> None:
    repo.git("config", "baton.maxUntracked", "2k")
    client = Client("claude", repo.path)
    repo.ok("snapshot", "--track", "t", "start")
    for name, size in (("big", 1500), ("small", 100), ("middle", 900)):
        repo.write(name, name[0].encode() * size)
    client.turn("go")
    held, left = newest(repo)
    assert held == {"a.txt", "small", "middle"} and left == {"big": "too-much"}
    found = repo.ok("snapshot", "all")
    assert newest(repo)[1] == {} and found.err == "", "nothing limits what somebody asks for"
    repo.write("tiny", "x\n")
    client.turn("go on")
    assert newest(repo) == ({"a.txt", "big", "small", "middle", "tiny"}, {}), "what the newest checkpoint holds is not new"


@pytest.mark.deep
def test_the_limit_is_said(repo: Sandbox) -> None:
    repo.git("config", "baton.maxUntracked", "1k")
    client = Client("claude", repo.path)
    repo.ok("snapshot", "--track", "t", "start")
    repo.write("big", "x" * 5000)
    client.turn("go")
    assert "skipped=too-much big" in repo.ok("show", "--porcelain", "t").out
    repo.git("config", "baton.maxUntracked", "much")
    assert "baton.maxUntracked is 'much'" in repo.baton("snapshot", "x").err
