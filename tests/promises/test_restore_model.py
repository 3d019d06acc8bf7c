"""Two agents in one work tree do anything in any order; a model holds every byte, and no command of ours may lose one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from gitbaton.cli.main import call
from tests.kit import Outcome, Sandbox
from tests.kit.state import OURS, UPPER, Entry, actions, differences, files_of, index_of
from tests.kit.tiers import model, sized

Disk = Mapping[str, Entry]

PATHS = ("a", "b", "d", "d/x", "d/y.log", "e/f/g", "e/f", "e", "k.log", "m.txt", "ign/one", "né w\n")
RULES = ("", "*.log\n", "d/\n", "ign/\n", "*.log\n!k.log\n", "/e\n", "*.txt\nign/*\n", "*\n")
CONTENTS = st.one_of(st.sampled_from([b"", b"0\n", b"1\n", b"2\n"]), st.binary(min_size=1, max_size=3))
OPTIONS = ((), (), ("--exact",), ("--index",), ("--exact", "--index"), ("--force",), ("--exact", "--force", "--index"))
SINCE = {
    "add": ("add", "-f"),
    "add -N": ("add", "-f", "-N"),
    "rm": ("rm", "-q", "--cached"),
    "reset": ("reset", "-q"),
    "commit": ("commit", "-q", "-m", "c"),
    "commit -a": ("commit", "-q", "-a", "-m", "c"),
    "commit --amend": ("commit", "-q", "-a", "--amend", "--no-edit"),
}
STEPS = 50

paths = st.sampled_from(PATHS)
options = st.sampled_from(OPTIONS)
tracks = st.sampled_from(["A", "B"])


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def mode(entry: Entry) -> str:
    return "120000" if entry[0] == "link" else "100755" if entry[1] else "100644"


class Agents(RuleBasedStateMachine):
    """``owed``: blobs that a command of ours took off the disk or out of the index; they must be found for ever.

    ``wrote``: what a command of ours wrote; undo may take that away again, although it is ignored by now.
    """

    template: ClassVar[Path]
    total: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        place = self.template.parent / "run"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.template, place, symlinks=True)
        os.chdir(place)
        self.box = Sandbox(place)
        self.owed: set[str] = set()
        self.trees: dict[str, dict[str, str]] = {}
        self.ignoring: dict[str, dict[str, bytes]] = {}
        self.tracked: dict[str, set[str]] = {}
        self.wrote: dict[str, Entry] = {}
        self.count = 0
        self.left = (index_of(self.box), self.box.tree("HEAD"))

    # What is looked at before and after each command of ours.

    def ignored(self) -> set[str]:
        return set(self.listed("ls-files", "-o", "-i", "--exclude-standard"))

    def listed(self, *words: str) -> list[str]:
        return [name for name in self.box.git(*words, "-z").split("\0") if name]

    def refs(self) -> dict[str, object]:
        rows = self.box.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        found: dict[str, object] = {r.split(" ")[0]: r.split(" ")[1] for r in rows if not r.startswith(OURS)}
        top = self.box.path / ".git"
        logs = [p for p in (top / "logs").rglob("*") if p.is_file() and "baton" not in str(p) and "checkpoints" not in str(p)]
        for path in [*logs, *(p for p in top.iterdir() if p.is_file() and UPPER.match(p.name) and p.name != "BATON_HEAD")]:
            found[str(path)] = path.read_bytes()
        return found

    def reachable(self) -> set[str]:
        return {row.split(" ", 1)[0] for row in self.box.git("rev-list", "--objects", "--all").splitlines()}

    def ignore_files(self) -> dict[str, bytes]:
        return {n: e[2] for n, e in files_of(self.box.path).items() if n.rsplit("/", 1)[-1] == ".gitignore" and e[0] == "file"}

    def ours(self, *words: str) -> Outcome:
        """A command of ours, in this process; what no command of ours may do is checked."""
        before, staged, refs, ignored = files_of(self.box.path), index_of(self.box), self.refs(), self.ignored()
        done = here(*words)
        assert done.code in (0, 1), f"{words}: {done.code}\n{done.out}\n{done.err}"
        after, now = files_of(self.box.path), index_of(self.box)
        if words[0] in ("undo", "redo"):
            (left, head), tree = self.left, self.box.tree("HEAD")
            paths = {*left, *staged, *head, *tree}
            moved = [p for p in paths if (left.get(p), head.get(p)) != (staged.get(p), tree.get(p))]
            wrong = {name: now.get(name) for name in moved if now.get(name) != staged.get(name)}
            assert not wrong, f"{words}: what was staged or committed since: {wrong}, was {staged}"
        self.left = (now, self.box.tree("HEAD"))
        assert refs == self.refs(), f"{words}: refs moved\n" + differences(refs, self.refs())
        for name in ignored:
            mine = words[0] in ("undo", "redo") and self.wrote.get(name) == before.get(name)
            assert mine or after.get(name) == before.get(name), f"{words}: the ignored {name!r} was touched"
        self.wrote.update({name: entry for name, entry in after.items() if before.get(name) != entry})
        self.owed |= {blob(e[2]) for name, e in before.items() if after.get(name, ("", False, b""))[2] != e[2]}
        self.owed |= staged_blobs(staged) - staged_blobs(now)
        if words[0] == "restore" and "--index" not in words:
            resolved = [name for name, rows in staged.items() if is_unmerged(rows) and now.get(name) != rows]
            assert not resolved, f"{words}: resolved {resolved}"
            made = [name for name, rows in now.items() if is_unmerged(rows) and not is_unmerged(staged.get(name, ()))]
            assert not made or self.box.try_git("rev-parse", "-q", "--verify", "MERGE_HEAD").code == 0 or self.rebasing(), made
        lost = self.owed - self.reachable() - {blob(e[2]) for e in after.values()} - staged_blobs(now)
        assert not lost, f"{words}: lost {lost}\n" + differences(before, after)
        assert not (self.box.path / ".git/index.lock").exists()
        if words[0] != "snapshot" and done.out:
            self.check_report(words, before, after, actions(done))
        return done

    def check_report(
        self, words: tuple[str, ...], before: Mapping[str, Entry], after: Mapping[str, Entry], said: dict[str, str]
    ) -> None:
        """What changed is what the report says."""
        changed = {n for n in {*before, *after} if before.get(n) != after.get(n)}
        claimed = {n for n, action in said.items() if action in ("write", "create", "remove")}
        if "--dry-run" in words:
            assert not changed
            return
        assert changed == claimed, f"{words}: changed {changed}, said {said}"
        for name, action in said.items():
            assert (action == "remove") == (name not in after) or action in ("keep", "conflict", "refuse"), (name, action)
            assert action != "create" or name not in before, name

    def tick(self) -> None:
        self.count += 1
        type(self).total += 1

    # What the users do.

    def clear(self, name: str) -> Path:
        """Make way for a file at a path, as a user would."""
        path = self.box.path / name
        for parent in reversed(path.relative_to(self.box.path).parents):
            full = self.box.path / parent
            if full.is_symlink() or full.is_file():
                full.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or path.exists():
            path.unlink()
        return path

    @rule(name=paths, data=CONTENTS, executable=st.booleans())
    def edit(self, name: str, data: bytes, executable: bool) -> None:
        self.tick()
        path = self.clear(name)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)

    @rule(edits=st.lists(st.tuples(paths, CONTENTS), min_size=2, max_size=5))
    def edit_several(self, edits: list[tuple[str, bytes]]) -> None:
        self.tick()
        for name, data in edits:
            self.clear(name).write_bytes(data)

    @rule(name=paths, to=st.sampled_from(["a", "nowhere", "d", "../outside", "e/f"]))
    def link(self, name: str, to: str) -> None:
        self.tick()
        self.clear(name).symlink_to(to)

    @rule(name=paths)
    def delete(self, name: str) -> None:
        self.tick()
        self.clear(name)

    @rule(place=st.sampled_from([".gitignore", ".gitignore", "d/.gitignore"]), text=st.sampled_from(RULES))
    def ignore(self, place: str, text: str) -> None:
        self.tick()
        path = self.clear(place)
        if text:
            path.write_text(text)

    @rule(name=st.one_of(st.none(), paths), force=st.booleans(), intent=st.booleans())
    def stage(self, name: str | None, force: bool, intent: bool) -> None:
        self.tick()
        words = [*(["-f"] if force and name else []), *(["-N"] if intent else ["-A"])]
        self.box.try_git("add", *words, "--", ":/" if name is None else name)

    @rule(name=st.one_of(st.none(), paths))
    def unstage(self, name: str | None) -> None:
        self.tick()
        self.box.try_git("reset", "-q", *(["--", name] if name else []))

    @rule(everything=st.booleans())
    def commit(self, everything: bool) -> None:
        self.tick()
        self.box.try_git("commit", "-q", "-m", "c", *(["-a"] if everything else []))

    @rule(where=st.sampled_from(["main", "other", "HEAD~1", "HEAD^0"]), force=st.booleans())
    def checkout(self, where: str, force: bool) -> None:
        self.tick()
        self.box.try_git("checkout", "-q", *(["-f"] if force else []), where)

    @rule(name=paths, data=CONTENTS)
    def colleague(self, name: str, data: bytes) -> None:
        """Somebody commits elsewhere, on ``other``."""
        self.tick()
        oid, env = self.box.git("hash-object", "-w", "--stdin", stdin=data), {"GIT_INDEX_FILE": "../colleague"}
        self.box.git("read-tree", "other", env=env)
        if self.box.try_git("update-index", "--replace", "--add", "--cacheinfo", f"100644,{oid},{name}", env=env).code == 0:
            tree = self.box.git("write-tree", env=env)
            new = self.box.git("commit-tree", "-m", "colleague's", "-p", "other", tree)
            if self.box.try_git("symbolic-ref", "-q", "HEAD").out.strip() != "refs/heads/other":
                self.box.git("update-ref", "refs/heads/other", new)

    @rule(how=st.sampled_from([["merge", "-q", "--no-edit"], ["merge", "-q", "--no-ff", "--no-edit"], ["rebase", "-q"]]))
    def pull(self, how: list[str]) -> None:
        """The human brings it in; a conflict may stay."""
        self.tick()
        self.box.try_git(*how, "other")

    @rule(how=st.sampled_from([["merge", "--abort"], ["rebase", "--abort"], ["merge", "--continue"], ["rebase", "--skip"]]))
    def end(self, how: list[str]) -> None:
        self.tick()
        self.box.try_git("-c", "core.editor=true", *how)

    def rebasing(self) -> bool:
        return (self.box.path / ".git/rebase-merge").exists()

    @rule(how=st.sampled_from([["push", "-q", "-u"], ["push", "-q"], ["pop", "-q"], ["drop", "-q"]]))
    def stash(self, how: list[str]) -> None:
        self.tick()
        self.box.try_git("stash", *how)

    @rule(name=paths, bit=st.sampled_from(["assume-unchanged", "skip-worktree", "no-assume-unchanged", "no-skip-worktree"]))
    def flag(self, name: str, bit: str) -> None:
        self.tick()
        self.box.try_git("update-index", f"--{bit}", "--", name)

    # What the agents do.

    @rule(track=tracks, current=st.booleans())
    def snapshot(self, track: str, current: bool) -> None:
        self.tick()
        words = [] if current else ["--no-set-current"]
        done = self.ours("snapshot", "--track", track, "--step", "s", "--porcelain", *words)
        name, commit = (done.out.splitlines()[-1].split("\t")[n] for n in (1, 4))
        self.trees[name] = self.box.tree(commit)
        self.ignoring[name] = {n: text for n, text in self.ignore_files().items() if n in self.trees[name]}
        self.tracked[name] = {*self.box.tree("HEAD"), *index_of(self.box)}

    @precondition(lambda self: self.trees)
    @rule(data=st.data(), words=options, names=st.lists(paths, max_size=2))
    def restore(self, data: st.DataObject, words: tuple[str, ...], names: list[str]) -> None:
        self.tick()
        target = data.draw(st.sampled_from(sorted(self.trees, key=list(self.trees).index)))
        known = [n for n in names if n in self.trees[target]]
        done = self.ours("restore", target, *words, "--json", "--", *known)
        self.check_restored(target, done, known, exact="--exact" in words)

    @precondition(lambda self: self.trees)
    @rule(data=st.data(), words=options)
    def restore_and_back(self, data: st.DataObject, words: tuple[str, ...]) -> None:
        self.tick()
        target = data.draw(st.sampled_from(list(self.trees)))
        before, staged = files_of(self.box.path), index_of(self.box)
        done = self.ours("restore", target, *words, "--json")
        between, between_staged = files_of(self.box.path), index_of(self.box)
        if done.json["safety"] is None:
            assert before == between and staged == between_staged
            return
        for verb, disk, index in (("undo", before, staged), ("redo", between, between_staged), ("undo", before, staged)):
            back = self.ours(verb, "--json")
            assert back.code == 0, f"{verb}: {back.out}{back.err}"
            assert files_of(self.box.path) == disk, f"{verb} of {words}\n" + differences(disk, files_of(self.box.path))
            assert index_of(self.box) == index, f"{verb} of {words}\n" + differences(index, index_of(self.box))

    @precondition(lambda self: self.trees)
    @rule(data=st.data(), words=options, since=st.lists(st.sampled_from(sorted(SINCE)), min_size=1, max_size=3), name=paths)
    def restore_and_go_on_and_back(self, data: st.DataObject, words: tuple[str, ...], since: list[str], name: str) -> None:
        """Somebody stages or commits what came back, and thinks better of the restore."""
        self.tick()
        self.ours("restore", data.draw(st.sampled_from(list(self.trees))), *words, "--json")
        for how in since:
            self.box.try_git(*SINCE[how], *([] if "commit" in how else ["--", name]))
        for verb in ("undo", "redo", "undo"):
            self.ours(verb, "--json")

    @precondition(lambda self: self.trees)
    @rule(data=st.data(), mark=st.booleans(), names=st.lists(paths, max_size=1))
    def merge(self, data: st.DataObject, mark: bool, names: list[str]) -> None:
        """Another track's checkpoint is taken in. Done again there is nothing to do; undo takes back all of it."""
        self.tick()
        target = data.draw(st.sampled_from(list(self.trees)))
        words = ["merge", target, *(["--merge"] if mark else []), "--json", "--", *set(names).intersection(self.trees[target])]
        tried = here("merge", target, "--dry-run")
        if tried.code == 128:
            assert "is the track of this work tree" in tried.err, tried.err
            return
        before, staged = files_of(self.box.path), index_of(self.box)
        done = self.ours(*words)
        assert index_of(self.box) == staged, f"{words}\n" + differences(staged, index_of(self.box))
        assert (done.code == 1) == (not {"conflict", "refuse"}.isdisjoint(actions(done).values()) or "markers" in done.out)
        if done.json["safety"] is None:
            assert files_of(self.box.path) == before
            return
        between = files_of(self.box.path)
        again = self.ours(*(word for word in words if word != "--merge"))
        now = files_of(self.box.path)
        assert now == between, f"{words}, again: {again.out}\n" + differences(between, now)
        for verb, disk in (("undo", before), ("redo", between), ("undo", before)):
            back = self.ours(verb, "--json")
            assert back.code == 0, f"{verb}: {back.out}{back.err}"
            assert files_of(self.box.path) == disk, f"{verb} of {words}\n" + differences(disk, files_of(self.box.path))
        if mark:
            self.ours(*words)

    def check_restored(self, target: str, done: Outcome, known: list[str], *, exact: bool) -> None:
        """Each path of the checkpoint is back, or the report says why not; nothing that was ignored then is removed."""
        now, said, tree = files_of(self.box.path), actions(done), self.trees[target]
        assert (done.code == 1) == bool({"conflict", "refuse"} & set(said.values())), said
        out = self.ignored()
        for name, row in tree.items():
            inside = not known or any(name == k or name.startswith(k + "/") for k in known)
            if inside and said.get(name) not in ("conflict", "refuse") and name not in out:
                entry = now.get(name)
                blocked = any(n.startswith(name + "/") or name.startswith(n + "/") for n in out | set(said))
                assert blocked or (entry and f"{mode(entry)} {blob(entry[2])}" == row), f"{name!r} is not back: {entry}, {said}"
        removed = [n for n, action in said.items() if action == "remove"]
        if exact and removed:
            wrong = self.ignored_then(target, removed)
            assert not wrong, f"ignored at the checkpoint, and removed: {wrong}"

    def ignored_then(self, target: str, names: list[str]) -> set[str]:
        """Those of the paths that the checkpoint's rules ignore and that it did not hold, asked of git elsewhere."""
        scratch = self.template.parent / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        box = Sandbox.init(scratch)
        for name, data in self.ignoring[target].items():
            box.write(name, data)
        stdin = b"".join(os.fsencode(n) + b"\0" for n in names if n not in self.trees[target])
        out = box.run("git", "check-ignore", "--no-index", "-z", "--stdin", stdin=stdin).out
        return {n for n in out.split("\0") if n and "/.gitignore" not in n} - self.tracked[target]

    @rule(verb=st.sampled_from(["undo", "redo"]), dry=st.booleans())
    def step_over(self, verb: str, dry: bool) -> None:
        self.tick()
        self.ours(verb, "--json", *(["--dry-run"] if dry else []))

    @precondition(lambda self: self.count % 7 == 3)
    @rule()
    def gc(self) -> None:
        self.tick()
        self.box.git("-c", "gc.reflogExpire=never", "-c", "gc.reflogExpireUnreachable=never", "prune", "--expire=now")

    def teardown(self) -> None:
        done = self.box.try_git("fsck", "--no-dangling")
        assert done.code == 0 and "missing" not in done.out, done.out + done.err
        lost = self.owed - self.reachable() - {blob(e[2]) for e in files_of(self.box.path).values()}
        assert lost <= staged_blobs(index_of(self.box)), f"lost in the end: {lost}"


def staged_blobs(index: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The blobs of an index; the empty one stands for what is only intended to be added."""
    return {row.split(" ")[2] for rows in index.values() for row in rows} - {blob(b"")}


def is_unmerged(rows: tuple[str, ...]) -> bool:
    """Whether a path of an index has stages."""
    return any(not row.endswith(" 0") for row in rows)


def here(*words: str) -> Outcome:
    """``git baton`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call(list(words))
    return Outcome(code, out.getvalue(), err.getvalue())


@sized(2, 6, 400)
def test_nothing_unsaved_is_ever_gone(count: int, repo: Sandbox, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("GIT_BATON_TRACE", "1")
    repo.write("d/x", "x\n")
    repo.commit("more", b="b\n")
    repo.git("branch", "other")
    repo.commit("even more", b="b, newer\n", m_txt="m\n")
    Agents.template, Agents.total = repo.path, 0
    rules = model(count, stateful_step_count=STEPS)
    run_state_machine_as_test(Agents, settings=rules)
    assert Agents.total >= count * STEPS * 0.6
