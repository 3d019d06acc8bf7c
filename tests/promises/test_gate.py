"""A clean filter is a gate: what stands behind one leaves only as the filter made it, and here nothing of it is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.agents import Client
from tests.kit.gates import SECRET, WAYS, Gated, held, leaks
from tests.kit.processes import git_log
from tests.kit.repos import Sandbox
from tests.kit.talks import Talk
from tests.kit.tiers import some

NOT_HERE = "its bytes did not pass filter 'c' and stayed where they were taken"


@pytest.fixture
def gated(tmp_path: Path) -> Gated:
    return Gated(tmp_path)


def pushed(gated: Gated, *words: str) -> None:
    """Everything is pushed, and no object of either repository has what stands behind the filter."""
    gated.box.ok("push", "origin", "--yes", *words)
    assert leaks(gated.hub) == leaks(gated.box) == []


@some("way", WAYS, share=6)
def test_no_object_has_what_did_not_pass_and_every_byte_comes_back(gated: Gated, way: str) -> None:
    gated.shut(way)
    before, box = gated.edit(), gated.box
    done = box.ok("snapshot", "--track", "t", "shut")
    shut = way not in ("normalising", "redacting")
    assert ("'secret' did not pass its filter" in done.err) == ("'secret new' did not pass its filter" in done.err) == shut
    pushed(gated)
    (box.path / "secret").write_text(f"{SECRET} later\n")
    (box.path / "secret new").unlink()
    later = gated.texts()
    box.ok("restore", "t")
    assert gated.texts() == before and os.access(box.path / "secret new", os.X_OK)
    box.ok("undo")
    assert gated.texts() == later
    box.ok("redo")
    assert gated.texts() == before
    pushed(gated)
    place = gated.place / "beside"
    box.ok("worktree", str(place), "t")
    assert {name: (place / name).read_text() for name in before} == before
    assert leaks(box) == []


@pytest.mark.deep
@pytest.mark.parametrize("way", ["missing", "unconfigured", "normalising"])
def test_elsewhere_the_path_is_named_and_nothing_is_written_over_it(gated: Gated, way: str) -> None:
    gated.shut(way)
    gated.edit()
    gated.box.ok("snapshot", "--track", "t", "shut")
    pushed(gated)
    there = Sandbox(gated.place / "there")
    gated.box.git("clone", "-q", str(gated.hub.path), str(there.path))
    there.ok("fetch", "origin")
    before = (there.path / "secret").read_bytes()
    done = there.baton("restore", "t", "--foreign")
    assert (there.path / "secret").read_bytes() == before or way == "normalising"
    if way == "normalising":
        assert "'secret': its exact bytes stayed where they were taken; filter 'c' makes others" in done.err
        assert (there.path / "secret new").exists()
        return
    assert (
        done.code == 1
        and f"refuse secret ({NOT_HERE})" in done.out
        and f"refuse 'secret new' ({NOT_HERE})" in done.out.replace("secret new (", "'secret new' (")
    )
    assert not (there.path / "secret new").exists()
    place = gated.place / "other"
    told = there.ok("worktree", str(place), "t")
    assert told.err.count(NOT_HERE) >= 2 and not (place / "secret new").exists()
    branched = there.ok("branch", "of-it", "t")
    assert ("secret new" not in there.tree("of-it") and "2 paths" in branched.err) or "3 paths" in branched.err


def test_stale_stat_data_alone_leaks_nothing(gated: Gated) -> None:
    gated.shut("missing")
    os.utime(gated.box.path / "secret", (1, 1))
    gated.box.ok("snapshot", "--track", "t", "stale")
    assert gated.box.tree("refs/baton/tracks/t")["secret"] == gated.box.tree("HEAD")["secret"]
    pushed(gated)


@pytest.mark.deep
def test_what_git_has_let_pass_itself_is_no_secret(gated: Gated) -> None:
    box = gated.box
    box.write(".gitattributes", "secret* filter=c\n*.bin filter=none\n")
    box.write("a.bin", "pointer\n")
    box.commit("plain")
    os.utime(box.path / "a.bin", (1, 1))
    done = box.ok("snapshot", "--track", "t", "stale")
    assert "a.bin" not in done.err and held(box) == set()
    box.write("a.bin", "content\n")
    assert "'a.bin' did not pass its filter" in box.ok("snapshot", "--track", "t", "edited").err
    assert len(held(box)) == 1 and leaks(box, "content") == []


@pytest.mark.deep
@pytest.mark.parametrize("where", ["info", "global", "folder", "index", "macro"])
def test_attributes_from_every_place(gated: Gated, where: str) -> None:
    box = gated.box
    (box.path / ".gitattributes").unlink()
    line = "*key filter=c\n"
    if where == "info":
        box.write(".git/info/attributes", line)
    elif where == "global":
        box.write("../attributes", line)
        box.git("config", "core.attributesFile", str(gated.place / "attributes"))
    elif where == "macro":
        box.write(".git/info/attributes", f"[attr]private filter=c\n{line.replace('filter=c', 'private')}")
    else:
        box.write("sub/.gitattributes", line)
        box.git("add", "sub")
        if where == "index":
            (box.path / "sub/.gitattributes").unlink()
    gated.shut("missing")
    box.write("sub/a key", f"{SECRET}\n")
    box.ok("snapshot", "--track", "t", "new")
    box.ok("run", "--step", "copy", "--writes", "sub/b key", "--", "cp", "sub/a key", "sub/b key")
    assert leaks(box) == [] and (box.path / "sub/b key").read_text() == f"{SECRET}\n"


@pytest.mark.deep
@pytest.mark.parametrize("how", ["emptied", "staged", "committed"])
def test_a_turn_that_loses_its_attributes_takes_no_gate_away(gated: Gated, how: str) -> None:
    box = gated.box
    box.ok("snapshot", "--track", "t", "before")
    if how == "emptied":
        box.write(".gitattributes", "")
    else:
        box.git("rm", "-q", ".gitattributes")
    if how == "committed":
        box.git("commit", "-qm", "no attributes")
    box.write("secret", f"{SECRET} two\n")
    box.write("secret new", f"{SECRET} three\n")
    for step in ("after", "and again"):
        done = box.ok("snapshot", "--track", "t", step)
        assert "'secret' did not pass" in done.err and "'secret new' did not pass" in done.err
    pushed(gated)
    box.git("add", "secret new")
    assert "secret new" not in box.ok("snapshot", "--track", "t", "git has it").err


@pytest.mark.deep
def test_attributes_that_are_gone_let_nothing_pass_that_is_as_old_as_the_index_in_seconds(gated: Gated) -> None:
    box = gated.box
    of_one_second(box)
    index = box.path / ".git/index"
    second = int(index.stat().st_mtime)
    for name in ("secret", "deep/secret-too"):
        os.utime(box.path / name, (second + 0.25, second + 0.25))
    box.git("update-index", "-q", "--refresh")
    os.utime(index, (second + 0.5, second + 0.5))
    (box.path / ".gitattributes").unlink()
    box.write("other.txt", "new\n")
    box.ok("snapshot", "--track", "t", "gone")
    assert leaks(box) == []


@pytest.mark.deep
def test_attributes_that_are_gone_from_disk_alone_take_no_gate_away(gated: Gated) -> None:
    (gated.box.path / ".gitattributes").unlink()
    before = gated.edit()
    assert "'secret' did not pass its filter" in gated.box.ok("snapshot", "--track", "t", "without").err
    assert ".gitattributes" not in gated.box.tree("refs/baton/tracks/t")
    pushed(gated)
    gated.box.git("checkout", "-q", "--", ".")
    gated.box.ok("restore", "t")
    assert gated.texts() == before and leaks(gated.box) == []


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_outputs_and_stray_writes_of_a_step(gated: Gated, isolate: str) -> None:
    box = gated.box
    box.write("make.sh", "cp secret secret-out; cp secret secret-stray; cat secret >> deep/secret-too; echo plain > plain\n")
    line = (
        "run",
        "--step",
        "s",
        "--isolate",
        isolate,
        "--reads",
        "secret",
        "--writes",
        "secret-out",
        "--writes",
        "plain",
        "--",
    )
    box.ok(*line, "sh", "make.sh")
    (box.path / "secret-out").unlink()
    (box.path / "plain").unlink()
    assert "cached" in box.ok(*line, "sh", "make.sh").err
    assert (box.path / "secret-out").read_text() == f"{SECRET}\n"
    pushed(gated, "--runs")
    record = box.run("git", "for-each-ref", "refs/baton/runs").out
    assert record and SECRET not in box.ok("run", "export", "--output", str(gated.place / "out")).out
    assert not [p for p in (gated.place / "out").rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    for name in ("secret-out", "plain"):
        (box.path / name).unlink()
    for file in (box.path / ".git/baton/held").glob("?" * 64):
        file.unlink()
    assert "runs" in box.ok(*line, "sh", "make.sh").err  # what is not here is made anew


@pytest.mark.deep
def test_staged_conflicting_and_intended_paths(gated: Gated) -> None:
    box = gated.box
    box.git("checkout", "-qb", "side")
    box.commit("theirs", secret=f"{SECRET} theirs\n")
    box.git("checkout", "-q", "main")
    box.commit("ours", secret=f"{SECRET} ours\n")
    assert box.try_git("merge", "side").code == 1
    box.write("secret staged", f"{SECRET} staged\n")
    box.git("add", "secret staged")
    box.write("secret staged", f"{SECRET} edited again\n")
    box.write("secret meant", f"{SECRET} meant\n")
    box.git("add", "-N", "secret meant")
    gated.shut("missing")
    before = gated.texts()
    box.ok("snapshot", "--track", "t", "in the middle")
    pushed(gated)
    for name in before.keys() - {"deep/secret-too"}:
        (box.path / name).write_text("gone\n")
    box.ok("restore", "t", "--force")
    assert gated.texts() == before and leaks(box) == []


@pytest.mark.deep
@pytest.mark.parametrize("way", ["optional", "locked", "unconfigured"])
@pytest.mark.parametrize("after", ["", "edited", "removed"])
def test_what_git_add_let_pass_is_in_the_index_alone(gated: Gated, way: str, after: str) -> None:
    box = gated.box
    gated.shut(way)
    box.write("secret", f"{SECRET} staged\n")
    box.write("secret new", f"{SECRET} staged, too\n")
    box.git("add", "-A")
    blob = box.git("rev-parse", ":secret new")
    if after == "edited":
        box.write("secret new", f"{SECRET} and edited\n")
    elif after == "removed":
        (box.path / "secret new").unlink()
    before, staged = gated.texts(), box.git("ls-files", "-s")
    done = box.ok("snapshot", "--track", "t", "staged")
    assert ("'secret new' did not pass its filter" in done.err) == (after != "removed") and box.git("ls-files", "-s") == staged
    box.ok("push", "origin", "--yes")
    assert leaks(gated.hub) == []
    box.git("reset", "-q", "--hard")
    box.git("reflog", "expire", "--expire=now", "--all")
    box.git("gc", "-q", "--prune=now")
    box.ok("restore", "t", "--index", "--force")
    assert {name: gated.texts().get(name) for name in before} == before
    assert box.git("ls-files", "-s") == staged and box.git("cat-file", "blob", blob) == f"{SECRET} staged, too"
    there = Sandbox(gated.place / "there")
    box.git("clone", "-q", str(gated.hub.path), str(there.path))
    there.ok("fetch", "origin")
    there.baton("restore", "t", "--foreign", "--index")
    assert "secret new" not in there.git("ls-files") and leaks(there, "gitbaton held 1") != []


@pytest.mark.deep
def test_held_bytes_go_with_the_last_checkpoint_that_names_them(gated: Gated) -> None:
    box = gated.box
    gated.shut("missing")
    gated.edit()
    first = box.ok("snapshot", "--track", "t", "--json", "one").json["checkpoint"]["id"]
    one = held(box)
    box.write("secret", f"{SECRET} four\n")
    box.ok("snapshot", "--track", "t", "two")
    both = held(box)
    assert len(both) == len(one) + 1
    box.git("gc", "-q", "--prune=now")
    box.ok("prune", "--keep-last", "9", "--yes")
    assert held(box) == both and "what passed no filter" in box.ok("du").out
    box.ok("forget", first, "--yes")
    assert held(box) < both and len(held(box)) == len(both) - 1
    box.ok("tracks", "delete", "t", "--yes")
    assert held(box) == set()


@pytest.mark.deep
def test_what_is_said_of_it(gated: Gated) -> None:
    box = gated.box
    gated.shut("missing")
    gated.edit()
    box.ok("snapshot", "--track", "t", "one")
    said = "'deep/secret-too', 'secret', 'secret new' did not pass their filters: that stays on the machine where it was taken"
    assert said in box.ok("status").err
    done = box.baton("push", "origin")
    assert done.code == 1 and said in done.err
    doctor = box.baton("doctor")
    assert "needs the filter 'c', and" in doctor.out and "3 files that passed no filter" in doctor.out
    gated.opened()
    assert "every filter that is needed can run" in box.baton("doctor").out


@pytest.mark.deep
@some("way", WAYS, share={"locked", "normalising", "redacting"})
def test_no_way_out_takes_any_of_it_along(gated: Gated, way: str) -> None:
    """Every filter and every kind of checkpoint and of document: a turn's end, a restore's safety, a step; page, summary, diff,
    export, bundle."""
    box, out = gated.box, gated.place / "out"
    out.mkdir()
    gated.shut(way)
    gated.edit()
    box.ok("snapshot", "--track", "t", "begin")
    talk = Talk(box, gated.place / "talk.jsonl")
    talk.ask("change something")
    box.write("secret new", f"{SECRET} by an agent\n")
    talk.say("done")
    talk.stop()
    box.ok("snapshot", "--track", "t", "one")
    (box.path / "secret").write_text(f"{SECRET} later\n")
    box.ok("restore", "t", "--force")
    box.ok("run", "--step", "s", "--writes", "secret-out", "--", "cp", "secret", "secret-out")
    box.ok("snapshot", "--track", "t", "two")
    said = [box.ok(*words).out for words in (("summary", "t"), ("diff", "t~1", "t"), ("log", "-p", "t"), ("show", "t"))]
    box.ok("page", "-o", str(out / "page.html"))
    box.ok("export", "--history", "--checkpoint-dir", str(out / "exported"))
    box.ok("run", "export", "--output", str(out / "run"))
    box.git("bundle", "create", "-q", str(out / "all.bundle"), "--all")
    pushed(gated, "--runs")
    unbundled = Sandbox.init(gated.place / "unbundled", "--bare")
    unbundled.git("fetch", "-q", str(out / "all.bundle"), "refs/*:refs/*")
    files = [p.read_bytes() for p in out.rglob("*") if p.is_file()]
    written = [path.read_bytes() for path in (box.path / "runtime").rglob("*") if path.is_file()]
    assert not leaks(unbundled) and not any(SECRET.encode() in data for data in (*files, *written))
    assert not any(SECRET in text for text in said)


@pytest.mark.deep
def test_a_push_stops_at_bytes_that_older_checkpoints_hold(gated: Gated) -> None:
    """As versions of before stored them: beside the index, and in the tree."""
    box = gated.box
    box.git("config", "core.autocrlf", "input")
    box.write("mixed.txt", f"{SECRET}\r\nin another ending\n")
    raw = box.ok("snapshot", "--track", "t", "--json", "raw bytes").json["checkpoint"]["id"]
    assert leaks(box) != []
    box.write(".gitattributes", "secret* filter=c\n*.txt filter=c\n")
    ref = "refs/baton/tracks/t"
    text = box.run("git", "cat-file", "commit", ref).out
    plain = box.git("hash-object", "-w", "--stdin", stdin=f"{SECRET}\n".encode())
    env = {"GIT_INDEX_FILE": str(gated.place / "index")}
    box.git("read-tree", ref, env=env)
    box.git("update-index", "--add", "--cacheinfo", f"100644,{plain},secret", env=env)
    tree, old = box.git("write-tree", env=env), box.git("rev-parse", f"{ref}^{{tree}}")
    missed = '"skipped": [\n      {\n        "path": "secret",\n        "reason": "filter-missing"\n      }\n    ]'
    text = text.replace(old, tree).replace('"skipped": []', missed)
    box.git("update-ref", ref, box.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()))
    missing = box.ok("show", "--json", "t").json["checkpoint"]["id"]
    assert raw != missing
    for more in ((), ("--no-scan",)):
        done = box.baton("push", "origin", "--yes", *more)
        assert done.code == 1 and box.run("git", "-C", str(gated.hub.path), "for-each-ref", "refs/baton").out == ""
        assert "'secret' holds bytes that did not pass" in done.err and "'mixed.txt' holds bytes that did not pass" in done.err
        assert "error: nothing is pushed: 2 files that did not pass their filters would leave" in done.err
    scanned = box.baton("scan")
    assert scanned.code == 1 and scanned.out.count("its bytes did not pass its filter") == 2
    hits = box.baton("scan", "--json").json["hits"]
    assert {(hit["kind"], hit["path"], hit["field"]) for hit in hits} == {
        ("unfiltered", "secret", None),
        ("unfiltered", "mixed.txt", None),
    }
    hint = next(row for row in done.err.splitlines() if "git baton forget" in row)
    box.baton(*hint.split("'")[1].split()[2:], "--yes")
    box.ok("snapshot", "--track", "u", "goes on")
    box.ok("push", "origin", "--yes")
    assert leaks(gated.hub) == []


@pytest.mark.deep
def test_a_link_in_the_place_of_the_held_bytes_is_not_followed(gated: Gated) -> None:
    outside, box = gated.place / "outside", gated.box
    outside.mkdir()
    (box.path / ".git/baton").mkdir()
    (box.path / ".git/baton/held").symlink_to(outside)
    gated.shut("missing")
    gated.edit()
    done = box.baton("snapshot", "--track", "t", "one")
    assert done.code == 128 and "held" in done.err and len(done.err.splitlines()) <= 2
    assert list(outside.iterdir()) == [] and leaks(box) == []


def of_one_second(repo: Sandbox) -> None:
    """The index is as old as the files, as it may be after a clone: git looks at each of them again."""
    moment = (repo.path / ".git/index").stat().st_mtime - 100
    for name in repo.git("ls-files").splitlines():
        os.utime(repo.path / name, (moment, moment))
    repo.git("update-index", "-q", "--refresh")
    os.utime(repo.path / ".git/index", (moment, moment))


def test_a_revert_takes_back_what_no_filter_passed(gated: Gated) -> None:
    box, client = gated.box, Client("claude", gated.box.path)
    gated.shut("unconfigured")
    box.git("rm", "-q", "--cached", "-r", ".")
    (box.path / "secret").write_text("plain\n")  # committed as it is: nothing converts it
    box.git("add", "-A")
    box.git("commit", "-qm", "as it is")
    box.ok("snapshot", "--track", "t", "before")
    client.fire("prompt", prompt="edit it")
    (box.path / "secret").write_text("edited\n")
    (box.path / "other").write_text("new\n")
    client.fire("turn")
    assert [row["path"] for row in box.ok("revert", "--json").json["paths"]] == ["other", "secret"]
    assert (box.path / "secret").read_text() == "plain\n" and not (box.path / "other").exists()
    box.ok("undo")
    assert (box.path / "secret").read_text() == "edited\n"


def test_a_filter_that_ceases_to_work_changes_nothing_that_a_revert_takes_back(gated: Gated) -> None:
    box, client = gated.box, Client("claude", gated.box.path)
    of_one_second(box)
    box.ok("snapshot", "--track", "t", "before")
    client.fire("prompt", prompt="go")
    gated.shut("missing")
    (box.path / "other").write_text("new\n")
    client.fire("turn")
    then = gated.texts()
    assert [row["path"] for row in box.ok("revert", "--json").json["paths"]] == ["other"] and gated.texts() == then


@pytest.mark.deep
def test_files_that_git_looks_at_again_behind_a_filter_that_nobody_configured_cost_no_process_each(
    repo: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write(".gitattributes", "*.po filter=nobody\n")
    for number in range(30):
        repo.write(f"{number}.po", f"{number}\n")
    repo.commit("thirty")
    of_one_second(repo)
    repo.write("0.po", "edited\n")
    repo.write("plain.txt", "new\n")
    log = git_log(repo, monkeypatch)
    assert "'0.po' did not pass" in repo.ok("snapshot", "--track", "t", "one").err
    assert log.read_text().count(" add ") <= 5
    (skipped,) = repo.ok("show", "t", "--json").json["checkpoint"]["files"]["skipped"]
    assert skipped == {"path": "0.po", "reason": "unfiltered"}


@pytest.mark.parametrize("way", ["unconfigured", "missing"])
def test_a_link_passes_no_filter(gated: Gated, way: str) -> None:
    box = gated.box
    gated.shut(way)
    (box.path / "secret").unlink()
    for name in ("secret", "secret-link"):
        (box.path / name).symlink_to("nowhere")
    assert "'secret" not in box.ok("snapshot", "--track", "t", "links").err
    for name in ("secret", "secret-link"):
        (box.path / name).unlink()
    box.ok("restore", "t")
    assert [os.readlink(box.path / name) for name in ("secret", "secret-link")] == ["nowhere"] * 2
    box.ok("undo")
    assert not (box.path / "secret").is_symlink() and not (box.path / "secret-link").is_symlink()


@pytest.mark.deep
@some("clean", ["tr a-z A-Z", None])
def test_a_filter_that_only_cleans_is_in_no_restores_way(gated: Gated, clean: str | None) -> None:
    box = gated.box
    box.write(".gitattributes", "*.up filter=up\n")
    if clean:
        box.git("config", "filter.up.clean", clean)
    box.write("a.up", "first\n")
    box.commit("as the filter makes it")
    box.ok("snapshot", "--track", "t", "one")
    box.write("a.up", "second\n")
    box.ok("restore", "t")
    assert (box.path / "a.up").read_text() == ("FIRST\n" if clean else "first\n")
    box.ok("undo")
    assert (box.path / "a.up").read_text() == "second\n"


@pytest.mark.deep
def test_what_is_held_is_compared_too(gated: Gated) -> None:
    gated.shut("missing")
    gated.edit()
    box, new = gated.box, gated.box.path / "secret new"
    box.ok("snapshot", "--track", "t", "shut")
    assert box.ok("verify", "t").out == ""
    (box.path / "secret").write_text(f"{SECRET} later\n")
    assert box.ok("verify", "t").out.startswith("files-changed:1: 1 path differs from the captured work tree: 'secret'")
    assert "'secret' is not compared as it is on disk" in box.ok("diff", "t").err
    new.unlink()
    assert "files-changed:2" in box.ok("verify", "t").out
    box.ok("restore", "t")
    assert box.ok("verify", "t").out == ""


@pytest.mark.deep
def test_an_undo_takes_nothing_for_edited_that_its_restore_wrote(gated: Gated) -> None:
    box = gated.box
    (box.path / "secret").write_text("pw older\n")
    box.ok("snapshot", "--track", "t", "as the filter makes it")
    gated.shut("unconfigured")
    (box.path / "secret").write_text(f"{SECRET} two\n")
    box.ok("snapshot", "--track", "t", "shut")
    box.ok("restore", "t~1")
    assert "ENC" in (box.path / "secret").read_text()
    assert "edited since" not in box.ok("undo").err
    assert (box.path / "secret").read_text() == f"{SECRET} two\n"
    box.ok("redo")
    (box.path / "secret").write_text(f"{SECRET} three\n")
    assert "over 1 file edited since that restore" in box.ok("undo").err
