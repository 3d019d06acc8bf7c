"""Hooks that were there before ours: each keeps its name and what lies beside it, and comes back to the byte (T10)."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.install.test_install import EVENTS, hook, picture, snap_and_leave
from tests.rooms.install.test_install_managers import paste

LIB = "#!/bin/sh\necho lib\n"
HOOKS = {
    "its name": '#!/bin/sh\ncase ${0##*/} in post-checkout) echo post-checkout;; *) echo "no ${0##*/}" >&2; exit 64;; esac\n',
    "dirname": '#!/bin/sh\n. "$(dirname "$0")/lib.sh"\n',
    "readlink": '#!/bin/sh\n. "$(dirname "$(readlink -f "$0")")/lib.sh"\n',
    "bash": '#!/usr/bin/env bash\nset -e\nsource "${BASH_SOURCE[0]%/*}/lib.sh"\n',
    "cd": '#!/bin/sh\ncd "$(dirname "$0")" && sh ./lib.sh\n',
    "python": "#!/usr/bin/env python3\nimport pathlib, subprocess\n"
    "subprocess.run(['sh', pathlib.Path(__file__).resolve().parent / 'lib.sh'], check=True)\n",
    "a neighbour's folder": '#!/bin/sh\nfor part in "$0".d/*; do sh "$part"; done\n',
    "the work tree": '#!/bin/sh\nsh "$(dirname "$0")/../../shared.sh"\n',
    "the git directory": '#!/bin/sh\n. "$(dirname "$0")/../hooks/lib.sh"\n',
}


def beside(repo: Sandbox) -> Path:
    """What a hook may look for: files in its folder and in the work tree, and the dispatcher that all names lead to."""
    folder = repo.path / ".git/hooks"
    (folder / "post-checkout.d").mkdir(parents=True)
    for path in (folder / "lib.sh", folder / "post-checkout.d/one", repo.path / "shared.sh"):
        path.write_text(LIB)
        path.chmod(0o755)
    hook(repo, "dispatch", HOOKS["its name"])
    return folder


def said(repo: Sandbox) -> tuple[int, str]:
    """What a checkout tells: its exit status, and the words of the hook."""
    done = repo.run("git", "checkout", "-q", "HEAD", "--detach")
    return done.code, done.err


@some("name", HOOKS, keep=2)
def test_t10_a_hook_finds_itself_and_what_lies_beside_it(repo: Sandbox, name: str) -> None:
    beside(repo)
    hook(repo, "post-checkout", HOOKS[name])
    before, told = picture(repo), said(repo)
    assert told[0] == 0 and told[1] in ("lib\n", "post-checkout\n")
    assert repo.ok("install").err == ""
    assert said(repo) == told
    assert repo.ok("install").out == "everything is in place\n"
    repo.ok("uninstall")
    assert picture(repo) == before and said(repo) == told


@some("text", ["dispatch", "./dispatch", "../../shared.sh", "{}/shared.sh", "post-merge", "nowhere"])
def test_t10_a_hook_that_is_a_link(repo: Sandbox, text: str) -> None:
    folder = beside(repo)
    hook(repo, "post-merge", LIB)
    (folder / "post-checkout").symlink_to(text.format(repo.path))
    before, told = picture(repo), said(repo)
    assert told[0] == 0 and bool(told[1]) == (text != "nowhere")
    repo.ok("install")
    assert said(repo) == told
    repo.ok("uninstall")
    assert picture(repo) == before


@some("kind", ["a program", "not executable", "a folder"])
def test_t10_a_hook_that_is_no_script(repo: Sandbox, kind: str) -> None:
    if kind == "a folder":
        (repo.path / ".git/hooks/post-checkout").mkdir(parents=True)
    else:
        path = hook(repo, "post-checkout", "#!/bin/sh\nexit 3\n", 0o644)
        if kind == "a program":
            shutil.copy(shutil.which("false") or "/bin/false", path)
    before = picture(repo)
    repo.ok("install")
    assert said(repo)[0] == (1 if kind == "a program" else 0)
    repo.ok("uninstall")
    assert picture(repo) == before


@pytest.mark.deep
def test_t10_from_a_linked_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    beside(repo)
    hook(repo, "post-checkout", HOOKS["dirname"])
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Sandbox(tmp_path / "linked")
    linked.ok("install")
    assert said(linked) == (0, "lib\n") == said(repo)
    linked.ok("uninstall")
    assert (repo.path / ".git/hooks/post-checkout").read_text() == HOOKS["dirname"]


BOUND = {
    "cut": '#!/bin/sh\ntest "${0%/hooks/*}" != "$0" || exit 5\necho here\n',
    "matched": "#!/bin/sh\ncase $0 in .git/hooks/*) echo here ;; *) exit 5 ;; esac\n",
    "python": "#!/usr/bin/env python3\nimport sys\nsys.exit(0 if '/hooks/' in __file__ else 5)\n",
    "in lines": '#!/bin/sh\ncase "$0" in\n  */hooks/post-checkout) echo here ;;\n  *) exit 5 ;;\nesac\n',
    "by a variable": '#!/bin/sh\ndir=$(dirname "$0")\ncase "$dir" in *hooks) echo here ;; *) exit 5 ;; esac\n',
    "compared": '#!/bin/sh\ntest "$(basename "$(dirname "$0")")" = hooks || exit 5\necho here\n',
}


@some("name", BOUND)
def test_t10_a_hook_that_looks_at_where_it_lies_stays_there(repo: Sandbox, name: str) -> None:
    path = hook(repo, "post-checkout", BOUND[name])
    told = said(repo)
    done = repo.ok("install")
    assert path.read_text() == BOUND[name] and said(repo) == told
    assert f"hint: '{path}' is left in place: it looks at where it lies; to be warned of drift, " in done.err
    assert "MEND hooks: git does not call ours: post-checkout" in repo.baton("doctor").out
    if name == "python":
        assert f"let it run '{repo.path}/.git/baton/hooks/post-checkout' with its own arguments" in done.err
        return
    paste(repo, done.err)
    mine = path.read_text()
    assert len(snap_and_leave(repo)) == 1 and "MEND hooks" not in repo.baton("doctor").out
    assert repo.ok("install").err == ""
    repo.ok("uninstall")
    assert path.read_text() == mine and said(repo) == told


@some("kind", ["writes", "link", "calls"])
def test_t10_a_hook_that_works_with_others_where_they_lie_stays_there(repo: Sandbox, kind: str) -> None:
    folder = repo.path / ".git/hooks"
    if kind == "writes":
        path = hook(repo, "post-merge", '#!/bin/sh\necho x >"$(dirname "$0")/state"\n')
        hook(repo, "pre-commit", '#!/bin/sh\ncat "$(dirname "$0")/state"\n')
        why = "it writes beside itself"
    else:
        text = (
            'echo "${0##*/}"\ntest ! -x .git/baton/hooks/post-checkout || .git/baton/hooks/post-checkout "$@"\n'
            if kind == "link"
            else 'echo "${0%/hooks/*}"\n'
        )
        hook(repo, "post-checkout", f"#!/bin/sh\n{text}")
        path = folder / "post-merge"
        if kind == "link":
            path.symlink_to("post-checkout")
        else:
            hook(repo, "post-merge", '#!/bin/sh\nexec "$(dirname "$0")/post-checkout" a b 1\n')
        why = "it calls 'post-checkout', which stays there, too"
    before, told = picture(repo), repo.run("sh", "-c", ".git/hooks/post-merge 0 && git commit -q --allow-empty -m x")
    assert told.code == 0
    done = repo.ok("install")
    assert f"hint: '{path}' is left in place: {why}; to be warned of drift, add to " in done.err
    assert repo.run("sh", "-c", ".git/hooks/post-merge 0 && git commit -q --allow-empty -m x") == told
    repo.ok("uninstall")
    assert {name: told for name, told in picture(repo).items() if name != "hooks/state"} == before


def test_t10_a_link_to_another_hook_is_kept_as_it_is_wherever_the_install_ends(repo: Sandbox) -> None:
    hook(repo, "post-checkout", LIB)
    (repo.path / ".git/hooks/post-merge").symlink_to("post-checkout")
    rows = repo.ok("install", "--dry-run").out.splitlines()
    kept = [number for number, row in enumerate(rows) if row.startswith("would keep the hook")]
    put = [number for number, row in enumerate(rows) if row.startswith("would write") and "/.git/hooks/" in row]
    assert len(kept) == 2 and max(kept) < min(put)  # or the link would lead to ours, and be taken for it


@pytest.mark.deep
def test_t10_two_hooks_kept_for_one_event_are_both_kept(repo: Sandbox) -> None:
    hook(repo, "post-checkout", LIB)
    repo.ok("install")
    other = hook(repo, "post-checkout.baton-legacy", "#!/bin/sh\necho other\n")  # by a version that kept it by another name
    said_of = f"'{other}' stays, and is not called"
    assert said_of in repo.ok("install").err and said(repo) == (0, "lib\n")
    assert said_of in repo.ok("uninstall").err
    assert other.read_text() == "#!/bin/sh\necho other\n" and said(repo) == (0, "lib\n")


def test_t10_without_symbolic_links_a_hook_with_neighbours_stays(repo: Sandbox) -> None:
    beside(repo)
    path = hook(repo, "post-checkout", HOOKS["dirname"])
    repo.git("config", "core.symlinks", "false")
    done = repo.ok("install")
    assert "is left in place: what lies beside it cannot be linked to" in done.err
    assert path.read_text() == HOOKS["dirname"] and said(repo) == (0, "lib\n")
    path.write_text("#!/bin/sh\necho alone\n")  # it looks at nothing beside it
    assert repo.ok("install").err == ""
    assert said(repo) == (0, "alone\n") and len(snap_and_leave(repo)) == 1


def former(repo: Sandbox, event: str, text: str) -> dict[str, tuple[int, bytes]]:
    """As the hooks were left by a version that gave a kept hook another name; and as they were before."""
    kept = hook(repo, event, text)
    before = picture(repo)
    kept.unlink()
    repo.ok("install")
    folder = repo.path / ".git/hooks"
    hook(repo, f"{event}.baton-legacy", text)
    manifest = repo.path / ".git/baton/installed"
    record = json.loads(manifest.read_text())
    for name in EVENTS:
        script = f'#!/bin/sh\n# gitbaton: 1\nlegacy=${{0%/*}}/{name}.baton-legacy\ntest ! -x "$legacy" || "$legacy" "$@"\n'
        for path in (hook(repo, name, script), hook(repo, f"../baton/hooks/{name}", script)):
            record["hooks"][str(folder.parent / "baton/hooks" / name if "baton/hooks" in str(path) else path)] = hashlib.sha256(
                script.encode()
            ).hexdigest()
    manifest.write_text(json.dumps(record))
    return before


def test_t10_a_hook_kept_by_another_name_gets_its_own_back(repo: Sandbox) -> None:
    before = former(repo, "post-checkout", HOOKS["its name"])
    assert said(repo)[0] == 1
    assert "MEND scripts" in repo.baton("doctor").out
    plan = repo.ok("install", "--dry-run").out
    done = repo.ok("install")
    assert plan == "".join(f"would {line}\n" for line in done.out.splitlines())
    assert said(repo) == (0, "post-checkout\n")
    assert not (repo.path / ".git/hooks/post-checkout.baton-legacy").exists()
    assert repo.ok("install").out == "everything is in place\n"
    repo.ok("uninstall")
    assert picture(repo) == before


@pytest.mark.deep
@pytest.mark.parametrize("name", ["its name", "cut"])
def test_t10_a_hook_kept_by_another_name_comes_back(repo: Sandbox, name: str) -> None:
    text = {**HOOKS, **BOUND}[name]
    before = former(repo, "post-checkout", text)
    if name == "cut":
        done = repo.ok("install")
        assert "is left in place: it looks at where it lies" in done.err and said(repo) == (0, "here\n")
    repo.ok("uninstall")
    assert picture(repo) == before


def old_hooks(repo: Sandbox, text: str) -> Path:
    """What overcommit does to hooks that are not its own, and its own in their place."""
    folder = repo.path / ".git/hooks"
    (folder / "old-hooks").mkdir()
    (folder / "post-checkout").rename(folder / "old-hooks/post-checkout")
    hook(repo, "post-checkout", text)
    return folder / "old-hooks/post-checkout"


@pytest.mark.deep
def test_t10_overcommit_over_ours_and_ours_again(repo: Sandbox) -> None:
    repo.ok("install")
    aside = old_hooks(repo, HOOKS["its name"])
    assert "MEND hooks: git does not call ours: post-checkout" in repo.baton("doctor").out
    repo.ok("install")
    assert said(repo) == (0, "post-checkout\n") and not aside.exists()
    repo.ok("uninstall")
    assert (repo.path / ".git/hooks/post-checkout").read_text() == HOOKS["its name"]


def test_t10_a_manager_put_ours_aside_with_a_hook_that_was_there_before(repo: Sandbox) -> None:
    hook(repo, "post-checkout", "#!/bin/sh\necho mine\n")
    repo.ok("install")
    aside = old_hooks(repo, HOOKS["its name"])
    repo.ok("install")
    assert said(repo) == (0, "post-checkout\n") and len(snap_and_leave(repo)) == 1
    assert aside.read_text() == "#!/bin/sh\necho mine\n"  # as if ours had never been between them
    assert repo.ok("install").out == "everything is in place\n"
    repo.ok("uninstall")
    assert (repo.path / ".git/hooks/post-checkout").read_text() == HOOKS["its name"]
    assert aside.read_text() == "#!/bin/sh\necho mine\n"


@pytest.mark.deep
def test_t10_uninstall_while_a_manager_has_put_ours_aside(repo: Sandbox) -> None:
    hook(repo, "post-checkout", "#!/bin/sh\necho mine\n")
    repo.ok("install")
    aside = old_hooks(repo, HOOKS["its name"])
    repo.ok("uninstall")
    assert (repo.path / ".git/hooks/post-checkout").read_text() == HOOKS["its name"]
    assert aside.read_text() == "#!/bin/sh\necho mine\n" and not (repo.path / ".git/hooks.baton-legacy").exists()


def test_t10_a_hook_whose_tool_has_gone_fails_no_checkout(repo: Sandbox) -> None:
    folder = beside(repo)
    hook(repo, "post-checkout", HOOKS["dirname"])
    repo.ok("install")
    (folder / "lib.sh").unlink()  # husky 4 takes its files away, and leaves what is not its own hook
    code, err = said(repo)
    hint = "hint: '.git/hooks.baton-legacy/post-checkout' fails, and 'lib.sh' beside it has gone;"
    assert code == 0 and err.splitlines()[-1].startswith(hint) and err.count("hint:") == 1
    found = repo.baton("doctor")
    assert found.code == 1 and "MEND hooks: 'lib.sh' has gone from beside hooks that are kept in" in found.out
    told = repo.ok("uninstall", "--dry-run").err
    assert f"'lib.sh' has gone from beside '{folder}/post-checkout': remove by hand what nothing needs any more" in told
    hook(repo, "lib.sh", "exit 7\n")
    (folder / "dispatch").unlink()
    for sample in folder.glob("*.sample"):
        sample.unlink()
    assert said(repo) == (1, "")  # its own failure is git's to tell
    assert "has gone from beside" not in repo.baton("doctor").out + repo.ok("uninstall", "--dry-run").err


@pytest.mark.deep
def test_t10_what_was_made_in_the_folder_of_kept_hooks_is_not_lost(repo: Sandbox) -> None:
    folder = beside(repo)
    hook(repo, "post-checkout", '#!/bin/sh\nd=$(dirname "$0")\ndate >"$d/stamp"\necho more >>"$d/lib.sh"\n')
    repo.ok("install")
    assert said(repo)[0] == 0
    stamp = (repo.path / ".git/hooks.baton-legacy/stamp").read_bytes()
    (folder / "new.sh").write_text("new\n")
    assert "link what lies beside the hooks into" in repo.ok("install").out
    assert (repo.path / ".git/hooks.baton-legacy/new.sh").read_text() == "new\n"
    repo.ok("uninstall")
    assert (folder / "stamp").read_bytes() == stamp and (folder / "lib.sh").read_text() == LIB + "more\n"
    assert not (repo.path / ".git/hooks.baton-legacy").exists()


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="no git-lfs")
def test_t10_git_lfs_after_ours_tells_how_and_then_both_are_called(repo: Sandbox) -> None:
    repo.ok("install")
    before = picture(repo)
    done = repo.run("git", "lfs", "install", "--local")
    assert done.code != 0 and "Hook already exists: post-" in done.out + done.err
    assert "git baton uninstall; (un)install it; git baton install" in done.out + done.err  # it shows the head of our script
    repo.ok("uninstall")
    assert repo.run("git", "lfs", "install", "--local").code == 0
    alone = picture(repo)
    repo.ok("install")
    assert len(snap_and_leave(repo)) == 1
    assert "git lfs post-merge" in (repo.path / ".git/hooks.baton-legacy/post-merge").read_text()
    repo.ok("uninstall", "--purge", "--yes")
    after = picture(repo)
    assert all(after[name] == alone[name] for name in alone if name.startswith("hooks/")) and before != alone


def test_t10_a_link_in_the_place_of_the_folder_is_not_followed(repo: Sandbox, tmp_path: Path) -> None:
    hook(repo, "post-checkout", LIB)
    (repo.path / ".git/hooks.baton-legacy").symlink_to(tmp_path)
    before = picture(repo)
    for verb in ("install", "uninstall"):
        done = repo.baton(verb)
        assert done.code == 128 and done.err.startswith(f"fatal: '{repo.path}/.git/hooks.baton-legacy' is no folder of ours")
    assert picture(repo) == before and not (tmp_path / "post-checkout").exists()
