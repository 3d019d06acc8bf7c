"""Commands that take work with them, and a repository in which such work is everywhere."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.kit.repos import Sandbox
from tests.kit.state import snap

# What agents ran by public reports, over and over: each took work with it that no commit held.
REPORTED = (
    "git reset --hard",
    "git reset --hard HEAD~1",
    "cd src && git reset --hard HEAD",
    "git stash && git reset --hard HEAD~1",
    "git checkout -- .",
    "git checkout .",
    "git checkout HEAD -- src/app.py",
    "git checkout src/app.py notes.md",
    "git checkout -f main",
    "git restore .",
    "git restore --staged --worktree src",
    "git switch --discard-changes main",
    "git clean -fd",
    "git clean -fdx",
    "git add -A && git commit -qm wip && git reset --hard HEAD~1 && git clean -ffdx",
    "git checkout -q --orphan probe && git rm -rfq .",
    "git stash -u && git stash drop",
    "git stash && git stash clear",
    "git read-tree -u --reset HEAD",
    "rm -rf src",
    "rm -rf *",
    "rm -f notes.md data/app.db",
    "find . -name '*.md' -delete",
    "find src -type f -exec rm {} +",
    "git ls-files -o | xargs rm -f",
    "mv data/seed.txt src/app.py",
    "cp data/seed.txt notes.md",
    "echo done > src/app.py",
    ": > notes.md",
    "printf '' | tee src/app.py notes.md",
    "sed -i 's/./X/g' src/*.py",
    "grep -rl line src | xargs perl -pi -e 's/line//'",
    "truncate -s 0 data/app.db",
    "dd if=/dev/zero of=data/app.db bs=10 count=1",
    "bash -c 'cd src && rm -rf -- *.py'",
    'for f in src/*; do rm "$f"; done',
    'sudo -n true; env FORCE=1 sh -c "git clean -fdq; git checkout -q -- ."',
    'BUILD=data; rm -rf "$BUILD"',
    "git -C src checkout -q -- app.py",
    "python3 -c 'print(1)' && rm -rf build/ data/",
)


def files(place: Path) -> dict[str, tuple[int, bytes]]:
    """The bytes and permissions of all files of a work tree."""
    ours = {".git", "runtime"}
    found = (path for path in sorted(place.rglob("*")) if path.is_file() and not ours & {*path.relative_to(place).parts})
    return {str(path.relative_to(place)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) for path in found}


def lived_in(place: Path) -> Sandbox:
    """A repository in which work is everywhere: committed, staged, edited since, untracked and ignored."""
    repo = Sandbox.begun(place)
    repo.write(".gitignore", "data/*.db\nbuild/\nruntime/\n.env\n")
    for name in ("src/app.py", "src/util.py", "notes.md", "data/seed.txt"):
        repo.write(name, f"{name} line 1\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "first")
    repo.write("src/util.py", "src/util.py line 1, 2\n")
    repo.git("commit", "-qam", "second")
    snap(repo, "t", "S")
    repo.write("src/app.py", "staged\n")
    repo.git("add", "src/app.py")
    repo.write("src/app.py", "edited since\n")
    repo.write("notes.md", "edited\n")
    repo.write("src/new.py", "untracked line\n").chmod(0o755)
    repo.write("todo.md", "untracked, too\n")
    repo.write("data/app.db", bytes(range(256)) * 40).chmod(0o600)
    repo.write("build/out/app.bin", b"\0built")
    return repo
