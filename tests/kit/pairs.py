"""Pairs of changes to one small tree, for the tests of merges in memory: what each side does, as a table of shapes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kit.repos import Sandbox

Step = Callable[[Path], None]
TEXT = "".join(f"line {n}\n" for n in range(1, 41))
CODE = "".join(f"def f{n}():\n    return {n}\n\n" for n in range(1, 11))


def desks(repo: Sandbox, place: Path) -> Callable[[str], Sandbox]:
    """Return what makes work trees beside one repository with a file of 40 lines; each is named after its track."""
    repo.write(P, TEXT)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "base")

    def made(name: str) -> Sandbox:
        if not (place / name).exists():
            repo.git("worktree", "add", "-q", str(place / name), "-b", name)
        return Sandbox(place / name)

    return made


def did(box: Sandbox, words: str, *steps: Step, track: str = "") -> None:
    """Work in a work tree, and its checkpoint."""
    both(*steps)(box.path)
    box.ok("snapshot", words, "--track", track or box.path.name)


def write(path: str, data: str | bytes, mode: int | None = None) -> Step:
    """Write a file whole."""

    def act(root: Path) -> None:
        place = root / path
        if place.is_symlink():
            place.unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            place.chmod(mode)

    return act


def line(path: str, number: int, text: str) -> Step:
    """Write another text at one line (1-based)."""

    def act(root: Path) -> None:
        place = root / path
        rows = place.read_bytes().splitlines(keepends=True)
        ending = b"\r\n" if rows[number - 1].endswith(b"\r\n") else b"\n"
        rows[number - 1] = text.encode() + ending
        place.write_bytes(b"".join(rows))

    return act


def insert(path: str, after: int, text: str) -> Step:
    """Put a line in after another."""

    def act(root: Path) -> None:
        place = root / path
        rows = place.read_bytes().splitlines(keepends=True)
        rows.insert(after, text.encode() + b"\n")
        place.write_bytes(b"".join(rows))

    return act


def drop(path: str, first: int, last: int) -> Step:
    """Remove lines."""

    def act(root: Path) -> None:
        place = root / path
        rows = place.read_bytes().splitlines(keepends=True)
        del rows[first - 1 : last]
        place.write_bytes(b"".join(rows))

    return act


def swap(path: str, old: str | bytes, new: str | bytes) -> Step:
    """Replace bytes everywhere in a file."""

    def act(root: Path) -> None:
        place = root / path
        was, now = (x.encode() if isinstance(x, str) else x for x in (old, new))
        place.write_bytes(place.read_bytes().replace(was, now))

    return act


def remove(path: str) -> Step:
    def act(root: Path) -> None:
        (root / path).unlink()

    return act


def move(path: str, to: str) -> Step:
    def act(root: Path) -> None:
        (root / to).parent.mkdir(parents=True, exist_ok=True)
        (root / path).rename(root / to)

    return act


def link(path: str, to: str) -> Step:
    def act(root: Path) -> None:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(place):
            place.unlink()
        place.symlink_to(to)

    return act


def mode(path: str, bits: int) -> Step:
    def act(root: Path) -> None:
        (root / path).chmod(bits)

    return act


def both(*steps: Step) -> Step:
    def act(root: Path) -> None:
        for step in steps:
            step(root)

    return act


def nothing(root: Path) -> None:
    assert root.is_dir()


BASE: Mapping[str, str | bytes] = {
    "src/pay.py": TEXT,
    "src/code.py": CODE,
    "src/other.py": TEXT.replace("line", "row"),
    "lib/one.txt": "one\n",
    "lib/two.txt": "two\n" * 12,
    "doc/crlf.txt": TEXT.replace("\n", "\r\n"),
    "doc/last.txt": "first\nlast without an end",
    "empty": "",
    "bin/logo": bytes(range(256)) * 8,
    "run.sh": "#!/bin/sh\necho hello\necho world\necho again\n",
    "package-lock.json": "{\n" + "".join(f'  "p{n}": "1.0.{n}",\n' for n in range(60)) + '  "end": 1\n}\n',
    "weird/na me\ttab\n.txt": TEXT,
    "weird/ünï.txt": TEXT,
    "union.log": "first\n",
    "kept.cfg": "kept\n",
    ".gitattributes": "union.log merge=union\nkept.cfg merge=mine\nnever.dat -merge\n",
    "never.dat": "a\nb\nc\nd\ne\nf\ng\nh\n",
}
SUB = "vendor/sub"  # a nested repository, as a submodule is


def nested(number: int, path: str = SUB) -> Step:
    """Put a nested repository at its commit of a number; the same commit everywhere."""

    def act(root: Path) -> None:
        place = root / path
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True)
        git = ("git", "-C", str(place))
        who = {"NAME": "A", "EMAIL": "a@example.com", "DATE": "1767225600 +0000"}
        env = os.environ | {f"GIT_{role}_{name}": text for role in ("AUTHOR", "COMMITTER") for name, text in who.items()}
        (place / "number").write_text(f"{number}\n")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "nested")):
            subprocess.run([*git, *words], env=env, check=True, capture_output=True)

    return act


def gone(root: Path) -> None:
    shutil.rmtree(root / SUB)


P, OTHER, L = "src/pay.py", "src/other.py", "package-lock.json"
EDGES = (1, 11, 21, 31)


_MOVED = both(move("lib/one.txt", "box/one.txt"), move("lib/two.txt", "box/two.txt"))
_SPLIT = both(move("lib/one.txt", "a/one.txt"), move("lib/two.txt", "b/two.txt"))
_INDENT = swap("src/code.py", "    return 3\n", "\treturn 3\n")
_FIVE = swap(L, '"p5": "1.0.5"', '"p5": "1.1.0"')
_BLOCK = both(drop(P, 5, 8), insert(P, 30, "line 5\nline 6\nline 7\nline 8"))


def _at(text: str, *numbers: int) -> Step:
    return both(*(line(P, number, text) for number in numbers))


@dataclass(frozen=True)
class Pair:
    """What two sides do to the tree of BASE."""

    name: str
    ours: Step
    theirs: Step


def _pairs() -> list[Pair]:
    found = [
        Pair(f"lines {a} and {b}", line(P, a, "ours"), line(P, b, "theirs"))
        for a in (1, 2, 10, 20, 39, 40)
        for b in (1, 2, 3, 11, 12, 20, 21, 22, 38, 39, 40)
    ]
    found += [
        Pair(f"insert after {a} and {b}", insert(P, a, "x"), insert(P, b, "y")) for a in (0, 5, 40) for b in (0, 4, 5, 6, 40)
    ]
    found += [
        Pair(f"insert after {a}, change {b}", insert(P, a, "x"), line(P, b, "y"))
        for a in (0, 5, 40)
        for b in (1, 4, 5, 6, 7, 40)
    ]
    found += [
        Pair(f"drop {a}, change {b}", drop(P, *a), line(P, b, "y"))
        for a in ((1, 3), (10, 12), (38, 40))
        for b in (1, 4, 5, 9, 10, 12, 13, 14, 37)
    ]
    found += [
        Pair(f"drop {a} and {b}", drop(P, *a), drop(P, *b))
        for a in ((10, 12),)
        for b in ((10, 12), (11, 14), (13, 14), (14, 15), (5, 9))
    ]
    same = both(line(P, 10, "same"), line(P, 20, "ours"))
    found += [
        Pair("the same line", line(P, 10, "same"), line(P, 10, "same")),
        Pair("the same line and another", same, both(line(P, 10, "same"), line(P, 30, "theirs"))),
        Pair("the same line and a neighbour", both(line(P, 10, "same"), line(P, 11, "ours")), line(P, 10, "same")),
        Pair("nothing", nothing, line(P, 1, "x")),
        Pair("neither", nothing, nothing),
        Pair("other files", line(P, 10, "ours"), line(OTHER, 10, "theirs")),
        Pair("two files", both(line(P, 3, "o"), line(OTHER, 3, "o")), both(line(P, 3, "t"), line(OTHER, 30, "t"))),
        Pair("two conflicts in one", both(line(P, 3, "o"), line(P, 33, "o")), both(line(P, 3, "t"), line(P, 33, "t"))),
        Pair("rename and edit", move(P, "src/paid.py"), line(P, 10, "theirs")),
        Pair("edit and rename", line(P, 10, "ours"), move(P, "src/paid.py")),
        Pair("rename with edit, and edit", both(line(P, 10, "o"), move(P, "src/paid.py")), line(P, 10, "t")),
        Pair("edit, and rename with edit", line(P, 10, "o"), both(line(P, 10, "t"), move(P, "src/paid.py"))),
        Pair("rename with edit elsewhere", line(P, 10, "o"), both(line(P, 30, "t"), move(P, "src/paid.py"))),
        Pair("renamed both, one name", move(P, "src/paid.py"), move(P, "src/paid.py")),
        Pair("renamed both, two names", move(P, "src/a.py"), move(P, "src/b.py")),
        Pair("renamed both, two names, edited", both(line(P, 9, "o"), move(P, "a.py")), both(line(P, 9, "t"), move(P, "b.py"))),
        Pair("two files to one name", move(P, "src/same.py"), move(OTHER, "src/same.py")),
        Pair("rename and delete", move(P, "src/paid.py"), remove(P)),
        Pair("delete and rename", remove(P), move(P, "src/paid.py")),
        Pair("rename over an add", move(P, "src/new.py"), write("src/new.py", "mine\n")),
        Pair("a folder moves, a file comes", _MOVED, write("lib/three.txt", "3\n")),
        Pair("a file comes, its folder moves", write("lib/three.txt", "3\n"), _MOVED),
        Pair("a folder splits", _SPLIT, write("lib/three.txt", "3\n")),
        Pair("delete and edit", remove(P), line(P, 10, "theirs")),
        Pair("edit and delete", line(P, 10, "ours"), remove(P)),
        Pair("delete both", remove(P), remove(P)),
        Pair("delete and mode", remove("run.sh"), mode("run.sh", 0o755)),
        Pair("both add, same", write("new", "a\nb\n"), write("new", "a\nb\n")),
        Pair("both add, other", write("new", "a\nb\n"), write("new", "c\nd\n")),
        Pair("both add, one line apart", write("new", TEXT), write("new", TEXT.replace("line 7\n", "row 7\n"))),
        Pair("both add, one longer", write("new", "a\n"), write("new", "a\nb\n")),
        Pair("both add, one empty", write("new", ""), write("new", "b\n")),
        Pair("both add, other modes", write("new", "a\n", 0o755), write("new", "a\n", 0o644)),
        Pair("both add below one folder", write("deep/er/a", "a\n"), write("deep/er/b", "b\n")),
        Pair("a file and a folder", write("thing", "a\n"), write("thing/in", "b\n")),
        Pair("a folder and a file", write("thing/in", "b\n"), write("thing", "a\n")),
        Pair("a file becomes a folder", both(remove(P), write(f"{P}/in", "x\n")), line(P, 10, "t")),
        Pair("whitespace: indent and text", _INDENT, swap("src/code.py", "return 3\n", "return 33\n")),
        Pair("whitespace: indent all, text far", swap("src/code.py", "    ", "  "), line("src/code.py", 1, "def g():")),
        Pair("whitespace: at the end", line(P, 10, "line 10 "), line(P, 10, "line 10\t")),
        Pair("whitespace: blank lines", insert(P, 10, ""), insert(P, 10, "")),
        Pair("whitespace: blank lines, two and one", insert(P, 10, "\n"), insert(P, 10, "")),
        Pair("whitespace: a final newline", swap("doc/last.txt", "an end", "an end\n"), swap("doc/last.txt", "last", "Last")),
        Pair("no final newline, both", swap("doc/last.txt", "last", "LAST"), swap("doc/last.txt", "last", "Last")),
        Pair("no final newline, apart", swap("doc/last.txt", "first\n", "FIRST\n\n\n"), swap("doc/last.txt", "last", "Last")),
        Pair("CRLF: the same line", line("doc/crlf.txt", 7, "o"), line("doc/crlf.txt", 7, "t")),
        Pair("CRLF: far lines", line("doc/crlf.txt", 7, "o"), line("doc/crlf.txt", 30, "t")),
        Pair("CRLF to LF, and an edit", swap("doc/crlf.txt", "\r\n", "\n"), line("doc/crlf.txt", 30, "t")),
        Pair("LF to CRLF in one line", swap(P, "line 9\n", "line 9\r\n"), line(P, 9, "t")),
        Pair("LF to CRLF, both", swap(P, "\n", "\r\n"), swap(P, "\n", "\r\n")),
        Pair("generated: version bumps of one", _FIVE, swap(L, '"p5": "1.0.5"', '"p5": "2.0.0"')),
        Pair("generated: neighbours", swap(L, '"p5": "1.0.5"', '"p5": "2"'), swap(L, '"p6": "1.0.6"', '"p6": "2"')),
        Pair("generated: far", swap(L, '"p5": "1.0.5"', '"p5": "2"'), swap(L, '"p50": "1.0.50"', '"p50": "2"')),
        Pair("generated: made anew", write(L, TEXT), write(L, CODE)),
        Pair("generated: made anew, and an edit", write(L, TEXT), swap(L, '"p50": "1.0.50"', '"p50": "2"')),
        Pair("empty filled by both", write("empty", "a\n"), write("empty", "b\n")),
        Pair("empty filled by one", write("empty", "a\n"), line(P, 1, "x")),
        Pair("emptied and edited", write(P, ""), line(P, 10, "x")),
        Pair("binary both", write("bin/logo", bytes(range(255, -1, -1)) * 8), write("bin/logo", bytes(256))),
        Pair("binary one", write("bin/logo", bytes(256)), line(P, 1, "x")),
        Pair("binary same", write("bin/logo", bytes(256)), write("bin/logo", bytes(256))),
        Pair("binary and delete", write("bin/logo", bytes(256)), remove("bin/logo")),
        Pair("text becomes binary", write(P, bytes(256)), line(P, 10, "x")),
        Pair("binary, both add", write("new.bin", bytes(256)), write("new.bin", bytes(range(256)))),
        Pair("mode and text", mode("run.sh", 0o755), line("run.sh", 2, "echo x")),
        Pair("mode and mode", mode("run.sh", 0o755), mode("run.sh", 0o755)),
        Pair("mode with text, and text", both(mode("run.sh", 0o755), line("run.sh", 2, "o")), line("run.sh", 2, "t")),
        Pair("link and link", link("ln", "a"), link("ln", "b")),
        Pair("link and same link", link("ln", "a"), link("ln", "a")),
        Pair("link and file", link("ln", "a"), write("ln", "a\n")),
        Pair("a file becomes a link, and an edit", link(P, "other.py"), line(P, 10, "x")),
        Pair("an edit, and a file becomes a link", line(P, 10, "x"), link(P, "other.py")),
        Pair("a link and a delete", link(P, "other.py"), remove(P)),
        Pair("union: both at the end", insert("union.log", 1, "o"), insert("union.log", 1, "t")),
        Pair("a path that never merges, far lines", line("never.dat", 1, "o"), line("never.dat", 8, "t")),
        Pair("odd name, same line", line("weird/na me\ttab\n.txt", 7, "o"), line("weird/na me\ttab\n.txt", 7, "t")),
        Pair("odd name, far lines", line("weird/ünï.txt", 7, "o"), line("weird/ünï.txt", 27, "t")),
        Pair("odd name, same line too", line("weird/ünï.txt", 7, "o"), line("weird/ünï.txt", 7, "t")),
        Pair("attributes change for both", write(".gitattributes", "*.py -merge\n"), line(P, 3, "x")),
        Pair("submodule: both moved", nested(1), nested(2)),
        Pair("submodule: moved alike", nested(1), nested(1)),
        Pair("submodule: one moved", nested(1), line(P, 1, "x")),
        Pair("submodule: moved and gone", nested(1), gone),
        Pair("submodule: both gone", gone, gone),
        Pair("submodule: both add", nested(1, "vendor/new"), nested(2, "vendor/new")),
        Pair("submodule: a file in its place", both(gone, write(SUB, "a file\n")), nested(2)),
        Pair("moved block", _BLOCK, line(P, 6, "t")),
        Pair("many hunks, one in common", _at("o", 1, 11, 21, 31), _at("t", 5, 15, 21, 36)),
        Pair("many hunks, none in common", _at("o", 1, 11, 21, 31), _at("t", 5, 15, 25, 36)),
    ]  # fmt: skip
    return found


PAIRS = _pairs()


class Sides:
    """A repository with a commit of BASE, on which what each side of a pair does is a commit of its own."""

    def __init__(self, path: Path) -> None:
        self.box = Sandbox.init(path / "repo")
        for name, data in BASE.items():
            self.box.write(name, data)
        nested(0)(self.box.path)
        self.box.git("add", "-A")
        self.box.git("commit", "-q", "-m", "base")
        self.base = self.box.head()
        self._nested = path / "nested"
        shutil.copytree(self.box.path / SUB, self._nested)

    def back(self, box: Sandbox | None = None) -> Path:
        """Put a work tree back to the base, with its nested repository; its top."""
        at = box or self.box
        at.git("checkout", "-q", "-f", "--detach", self.base)
        at.git("clean", "-q", "-ffdx")
        if (at.path / SUB).exists():
            shutil.rmtree(at.path / SUB)
        shutil.copytree(self._nested, at.path / SUB)
        return at.path

    def commit(self, act: Step) -> str:
        """A commit of what a side does, on the base."""
        act(self.back())
        self.box.git("add", "-A")
        self.box.git("commit", "-q", "--allow-empty", "-m", "side")
        return self.box.head()

    def judged(self, ours: str, theirs: str) -> set[str] | None:
        """What ``git merge`` says of two commits: None where it merges, else the paths that are not merged."""
        self.box.git("checkout", "-q", "-f", "--detach", ours)
        self.box.git("clean", "-q", "-ffdx")
        done = self.box.try_git("merge", "-q", "--no-edit", theirs)
        rows = self.box.git("ls-files", "-u", "-z").split("\0")[:-1]
        self.box.try_git("merge", "--abort")
        return None if done.code == 0 else {row.partition("\t")[2] for row in rows}
