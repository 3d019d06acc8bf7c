"""The rules of the house, held with ``ast``: floors, who may start git, who may write to a screen, loose ends."""

from __future__ import annotations

import ast
import gc
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import gitbaton
from gitbaton.base.clients import NAMES
from tests.kit.places import ROOT

PACKAGE = ROOT / "gitbaton"
WINGS = {
    "base": (("errors", "values"), ("model", "system"), ("codec", "secrets"), ("terminal", "clients")),
    "git": (("git",), ("worktree",)),
    "checkpoints": (
        ("config", "render", "store"),
        ("names", "mirror", "survey"),
        ("briefing",),
        ("baton",),
        ("overlap",),
        ("restore",),
    ),
    "runs": (("journal",), ("runs",)),
    "langgraph": (("threads",), ("langgraph",)),
    "agents": (("agents",), ("transcripts",), ("hooks", "install")),
    "care": (("scanning", "search"), ("retention", "sync"), ("mending",), ("tools",)),
    "cli": (("cli",), ("commands",), ("main",)),
}
"""The wings, the lowest first, each with its floors, which name rooms: folders and files of the wing. What is in no room of its
wing is in the one that is called as the wing."""
FLOOR = {
    room: number for number, rooms in enumerate((rooms for floors in WINGS.values() for rooms in floors), 1) for room in rooms
}
LOCKERS = ("system", "threads")  # who may lock a file; the log of threads has locks of its own
STARTERS = ("system",)  # who may start a process


@cache
def parsed(source: str) -> ast.Module:
    """A module's tree; several rules look at each."""
    return ast.parse(source)


@cache
def walked(source: str) -> tuple[ast.AST, ...]:
    """Every node of that tree."""
    return tuple(ast.walk(parsed(source)))


def last(node: ast.AST) -> str:
    """The last word of a dotted name; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def imports(tree: ast.Module) -> Iterable[str]:
    """Every module that code imports, wherever, those that only types need, too."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        stack += (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.excepthandler | ast.match_case))


def place(module: str) -> str | None:
    """The room of a module of ours."""
    parts = module.split(".")
    if parts[0] != "gitbaton" or len(parts) < 2 or parts[1] not in WINGS:
        return None
    inside = {room for rooms in WINGS[parts[1]] for room in rooms}
    return parts[2] if len(parts) > 2 and parts[2] in inside else parts[1]


def floors(module: str, source: str) -> list[str]:
    """Imports that do not go down; inside a folder anything goes, but for circles."""
    if module == "gitbaton.__main__":
        return []
    here = place(module)
    assert here and (here in FLOOR or module == f"gitbaton.{here}"), f"{module} is on no floor"
    wrong = []
    for name in imports(parsed(source)):
        there = place(name)
        # A wing that is no room itself imports nothing of ours, and nothing imports it.
        if there and there != here and FLOOR.get(there, len(FLOOR)) >= FLOOR.get(here, 0):
            wrong.append(f"{module} imports {name}")
    return wrong


def circle(sources: dict[str, str]) -> list[str]:
    """A circle of imports between modules; empty when there is none."""
    edges = {m: {t for n in imports(parsed(s)) if (t := _module(n, sources)) and t != m} for m, s in sources.items()}
    while edges:
        free = [m for m, targets in edges.items() if not targets & edges.keys()]
        if not free:
            return sorted(edges)
        for m in free:
            del edges[m]
    return []


def _module(name: str, sources: dict[str, str]) -> str | None:
    return next((m for m in (name, name.rpartition(".")[0]) if m in sources), None)


def outsiders(module: str, source: str) -> list[str]:
    """pygit2, processes and the screen where they are not allowed."""
    tree, room = parsed(source), place(module)
    wrong = []
    for name in imports(tree):
        first = name.split(".")[0]
        if (first == "pygit2" and room != "git") or (first == "subprocess" and room not in STARTERS):
            wrong.append(f"{module} imports {first}")
    for node in walked(source):
        if isinstance(node, ast.Attribute) and node.attr.startswith("posix_spawn") and room not in STARTERS:
            wrong.append(f"{module} starts a process")
        if isinstance(node, ast.Attribute) and node.attr == "flock" and room not in LOCKERS:
            wrong.append(f"{module} takes a lock of its own")
        if last(node).endswith(("rmtree", "removedirs")) or (isinstance(node, ast.Constant) and node.value == "-rf"):
            wrong.append(f"{module} removes folders in a way of its own")  # and not by system.files.remove
        if room in ("terminal", "cli", "commands"):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            wrong.append(f"{module} prints")
        written = isinstance(node, ast.Attribute) and node.attr in ("write", "writelines", "buffer")
        if written and ast.unparse(node).startswith(("sys.stdout.", "sys.stderr.")):
            wrong.append(f"{module} writes to the screen")
    return wrong


def loose(module: str, source: str) -> list[str]:
    """A first line that does not say what the file is for, and loose ends."""
    wrong = [] if not source.strip() or source.startswith('"""') else [f"{module} does not begin with a docstring"]
    words = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error")
    return wrong + [f"{module} has a {word}" for word in words if word in source]


def unquoted(module: str, source: str) -> list[str]:
    """Stored words in quotes that they could end: ``codec.in_quotes`` puts them in quotes of its own."""
    word = r"(?:plain|line|first_line)\([^{}]*|[\w.]*\b(?:track|twin|branch|thread|namespace|label|agent|call)"
    return [f"{module} quotes {found[0]}" for found in re.finditer(rf"(?<!\$)'\{{(?:{word})\}}'", source)]


def undocumented(module: str, source: str) -> list[str]:
    """Public functions, methods and classes without a docstring."""
    wrong: list[str] = []

    def visit(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                wrong.extend([] if ast.get_docstring(node) else [f"{module}: {node.name} has no docstring"])
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                visit(node.body)

    visit(parsed(source).body)
    return wrong


# What a first sentence does not begin with, and what has no name: who or nobody instead of a process, a user, a step.
ROUNDABOUT = re.compile(
    r"(What|How|Where|Those|As|Which|Whose|Who|When)\b|Whether (it|they|this (is|was|has)|that|there|all|any|nothing|such)\b"
)
NAMELESS = re.compile(r"\b(who|nobody|somebody)\b", re.IGNORECASE)
MANY_TIMES = 0  # class names that stand for several things
STILL = (1, 16)  # docstrings that still begin so, and that still hold such a word: the numbers only fall


def sentences(sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """Docstrings whose first sentence goes round its term, and those that name no one; a verb's help is one, too."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(n) or "" for source in sources for n in walked(source) if isinstance(n, kinds)]
    return [text for text in texts if ROUNDABOUT.match(text)], [text for text in texts if NAMELESS.search(text)]


def private(source: str) -> set[str]:
    """The private names that a module defines: functions, classes, variables and attributes."""
    found = set[str]()
    for node in walked(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def inner(module: str, source: str, names: set[str]) -> list[str]:
    """What a test knows of the inside of the package: private ``names`` that it uses, and what of ours it replaces."""
    if not re.search(r"\bsetattr\(|(?<!self)\._[a-z]|\bimport .*\b_[a-z]", source):
        return []  # it need not be parsed
    wrong, ours = list[str](), {"gitbaton"}
    names = names - private(source) - set(dir(os)) - {"_fields", "_replace"}
    for node in walked(source):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gitbaton":
            ours |= {alias.asname or alias.name for alias in node.names}
            wrong += [f"{module} imports {alias.name}" for alias in node.names if alias.name[:1] == "_" != alias.name[1:2]]
    for node in walked(source):
        if isinstance(node, ast.Attribute) and node.attr in names:
            wrong.append(f"{module} uses {ast.unparse(node)}")
        if isinstance(node, ast.Call) and node.args and last(node.func) == "setattr":
            what = ast.unparse(node.args[0]).strip("'")
            if what.partition(".")[0] in ours or what.startswith("import_module('gitbaton"):
                wrong.append(f"{module} replaces a part of {what}")
    return wrong


def modules(folder: Path) -> dict[str, str]:
    """Module name to source, below a folder of the repository."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = path.read_text(encoding="utf-8")
    return found


@pytest.fixture(autouse=True, scope="module")
def forget() -> Iterable[None]:
    """Nothing looks for garbage in so many trees, and nothing of them stays for the tests that follow."""
    gc.disable()
    yield
    walked.cache_clear()
    parsed.cache_clear()
    gc.enable()


OURS = {name: source for name, source in modules(PACKAGE).items() if name != "gitbaton"}


def test_modules_keep_the_rules() -> None:
    rules = (floors, outsiders, loose, unquoted, undocumented)
    assert not [wrong for name, source in OURS.items() for rule in rules for wrong in rule(name, source)]


def test_a_client_is_named_only_in_its_own_module() -> None:
    """A further one costs a module, and a line in the list of names."""
    allowed = {"gitbaton.base.clients": set(NAMES), "gitbaton.agents.install.agentdoctor": {"codex"}}
    named = {
        name: {node.value for node in walked(source) if isinstance(node, ast.Constant) and node.value in NAMES}
        for name, source in OURS.items()
    }
    others = {name: found - allowed.get(name, set()) - {name.rpartition(".")[2]} for name, found in named.items()}
    assert not {name: found for name, found in others.items() if found}
    assert all(f"gitbaton.agents.{name}" in OURS for name in NAMES)


def test_sentences_say_the_term_first() -> None:
    around, nameless = sentences(OURS.values())
    assert len(around) <= STILL[0], around
    assert len(nameless) <= STILL[1], nameless


def test_one_class_name_stands_for_one_thing() -> None:
    places = [(n.name, name) for name, source in OURS.items() for n in walked(source) if isinstance(n, ast.ClassDef)]
    several = {word for word, count in Counter(word for word, _ in places).items() if count > 1}
    assert len(several) <= MANY_TIMES, sorted(place for place in places if place[0] in several)


def test_no_circles() -> None:
    assert not circle(OURS)


def test_tests_have_no_loose_ends() -> None:
    assert not [wrong for name, source in modules(ROOT / "tests").items() for wrong in loose(name, source)]


def test_tests_know_nothing_of_the_inside() -> None:
    """A test that replaces a part of ours, or uses a private name, keeps a wall where it stands."""
    names = {name for source in OURS.values() for name in private(source)}
    assert not [wrong for name, source in modules(ROOT / "tests").items() for wrong in inner(name, source, names)]


def test_what_the_package_offers_is_there() -> None:
    assert all(getattr(gitbaton, name).__module__.startswith("gitbaton.") for name in gitbaton.__all__ if name[0] != "_")


def test_two_runtime_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(d.split(">")[0].strip() for d in project["dependencies"]) == ["pygit2", "typer"]


def test_the_checks_can_fail() -> None:
    assert floors("gitbaton.base.model", "from gitbaton.checkpoints.baton import Baton")
    assert floors("gitbaton.git.run", "def f():\n from gitbaton.checkpoints import store")
    assert floors("gitbaton.checkpoints.names", "import gitbaton.checkpoints.mirror")
    assert not floors("gitbaton.git.run", "from gitbaton.git.repo import Repo\nfrom gitbaton.base.errors import X")
    assert floors("gitbaton.git", "from gitbaton.cli import main") and floors("gitbaton.git.run", "from gitbaton import care")
    assert floors("gitbaton.care", "from gitbaton.base.errors import X") and not floors("gitbaton.care", '"""Care."""')
    assert floors("gitbaton.checkpoints", "from gitbaton.checkpoints.baton import Baton")
    assert floors("gitbaton.base.model", "if TYPE_CHECKING:\n from gitbaton.checkpoints.baton import Baton")
    assert circle({"a.x": "from a.y import z", "a.y": "def f():\n import a.x"}) == ["a.x", "a.y"]
    assert not circle({"a.x": "from a import y", "a.y": "import os"})
    for bad in ("import pygit2", "from subprocess import run", "os.posix_spawnp('x')", "print(1)", "fcntl.flock(1, 2)"):
        assert outsiders("gitbaton.checkpoints.mirror", bad), bad
    for bad in ("shutil.rmtree(x)", "from shutil import rmtree\nrmtree(x)", "detach(['rm', '-rf', x])", "os.removedirs(x)"):
        assert outsiders("gitbaton.base.system.process", bad), bad
    assert outsiders("gitbaton.checkpoints.mirror", "sys.stderr.write('')") and outsiders(
        "gitbaton.git.run", "import subprocess"
    )
    assert not outsiders("gitbaton.git.run", "import pygit2")
    assert not outsiders("gitbaton.base.system.process", "import subprocess")
    assert not outsiders("gitbaton.base.terminal", "import sys\nsys.stdout.write('')")
    for bad in ("x = 1", '"""Doc."""\n# TO' + "DO"):
        assert loose("gitbaton.checkpoints.mirror", bad), bad
    assert not loose("gitbaton.checkpoints.mirror", '"""Doc."""\n')
    for bad in ("store._core", "from gitbaton.a import _b", "from gitbaton import a\nmonkeypatch.setattr(a, 'B', 1)"):
        assert inner("tests.x", bad, {"_core"}), bad
    assert inner("tests.x", "patch.setattr('gitbaton.a.B', 1)", set())
    assert not inner("tests.x", "self._core = 1\nself._core\nos._exit(1)\nmonkeypatch.setattr(os, 'fsync', f)", {"_core"})
    for bad in ("f\"track '{c.track}' is\"", "f\"'{plain(x)[:9]}' is\"", "f\"branch '{branch}'\"", "f\"tool '{plan.call}'\""):
        assert unquoted("m", bad), bad
    assert not unquoted("m", "f\"{in_quotes(track)} {track}: '{oid}'\"")
    for bad in ('"""What is kept."""', 'def f():\n "How many there are."', 'class A:\n "Whether it is there."'):
        assert sentences([bad])[0], bad
    assert sentences(['"""A lock that nobody holds."""'])[1] and sentences(['"""Whether the lock is held."""']) == ([], [])
    assert undocumented("m", "def f(): pass") and undocumented("m", "class A:\n '''d'''\n def f(self): pass")
    assert not undocumented("m", "def _f(): pass\nclass _A:\n def f(self): pass")
