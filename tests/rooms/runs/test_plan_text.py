"""The lines of a TOML text, judged by the standard reader, and the JSON Schema of plan files, judged by our reader."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.runs import plans
from tests.kit.places import PACKAGE
from tests.kit.tables import each
from tests.rooms.runs.test_plans import PLAN, REFUSED

SCHEMA = json.loads((PACKAGE / "data/baton.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)
TEXTS = ["x", "# no", "[a]", "b = 1", "]]", "}", ",", "\\", '"', "'", "a.b", "é", ""]
ODD = ["plain", "with.dot", "with space", 'qu"ote', "[x]", "#", "=", "é", "back\\slash", "", "tab\t"]


class Writer:
    """Writes a TOML text piece by piece and notes in which line each path stands."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.text, self.count = draw, "", 0
        self.expected: dict[plans.Path, int] = {}

    def put(self, text: str) -> None:
        self.text += text

    def some(self, *texts: str) -> None:
        self.put(self.draw(st.sampled_from(texts)))

    def note(self, path: plans.Path) -> None:
        for end in range(1, len(path) + 1):
            self.expected.setdefault(path[:end], self.text.count("\n") + 1)

    def name(self) -> str:
        self.count += 1
        return f"{self.draw(st.sampled_from(ODD))}{self.count}"

    def key(self, name: str) -> None:
        bare = name.isascii() and name.isalnum()
        literal = "'" not in name and "\t" not in name
        forms = [json.dumps(name, ensure_ascii=self.draw(st.booleans()))] + [name] * bare + [f"'{name}'"] * literal
        self.some(*forms)

    def dotted(self) -> plans.Path:
        names = tuple(self.name() for _ in range(self.draw(st.integers(1, 2))))
        for number, name in enumerate(names):
            if number:
                self.some(".", " . ")
            self.key(name)
        return names

    def pair(self, here: plans.Path, depth: int, *, inline: bool) -> None:
        line = self.text
        path = (*here, *self.dotted())
        text, self.text = self.text, line
        if not inline:
            self.note(path)
        self.text = text
        self.some("=", " = ", "\t=")
        self.value(path, depth, inline=inline)

    def value(self, path: plans.Path, depth: int, *, inline: bool) -> None:
        kind = self.draw(st.sampled_from(["int", "text", "long", "raw"] + ["list", "table"] * (depth < 3)))
        some = "".join(self.draw(st.lists(st.sampled_from(TEXTS), max_size=3)))
        if kind == "int":
            self.some("1", "-2.5e3", "true", "1979-05-27 07:32:00", "inf", "0x_F".replace("_", ""))
        elif kind == "text":
            self.some(json.dumps(some), "''", "'# [x] =\"'")
        elif kind == "long":
            some = json.dumps(some)[1:-1]
            self.some(f'"""{some}\n[{self.count}]\na = 1\n"""', f'"""""x""{some}\\\n  y"""', f'"""\n{some}"""""')
        elif kind == "raw":
            self.some("'''\n[x]\\\n''y = '''", "'''''a'' # '''''")
        elif kind == "list":
            self.list(path, depth)
        else:
            self.put("{")
            for number in range(self.draw(st.integers(0, 2))):
                self.some(*([", ", ","] if number else ["", " "]))
                self.pair(path, depth + 1, inline=True)
            self.some("}", " }")

    def list(self, path: plans.Path, depth: int) -> None:
        self.some("[", "[ # ]\n", "[\n\n")
        items = self.draw(st.integers(0, 3))
        for number in range(items):
            self.value((*path, number), depth + 1, inline=False)
            self.some(*[",", "\n, # ,\n", " ,\n"] if number < items - 1 else ["", ",", "\n#]\n,\n"])
        self.some("]", "\n]")

    def body(self, here: plans.Path) -> None:
        for _ in range(self.draw(st.integers(0, 3))):
            self.some("", "  ", "# [c]\n", "\n\n")
            self.pair(here, 0, inline=False)
            self.some("\n", " # x = 1\n", "\t\n")


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[plans.Path, int]]:
    to = Writer(draw)
    to.body(())
    lists: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 4))):
        again = draw(st.sampled_from([*lists, None]))
        many = again is not None or draw(st.booleans())
        start = to.text
        name = again or to.name()
        to.put("[[" if many else "[")
        to.key(name)
        path: plans.Path = (name,)
        if many:
            lists[name] = lists.get(name, -1) + 1
            path = (name, lists[name])
        else:
            more = draw(st.booleans())
            if more:
                to.put(" . ")
                path = (name, to.name())
                to.key(str(path[-1]))
        text, to.text = to.text, start
        to.note(path)
        to.text = text
        to.put("]]" if many else "]")
        to.some("\n", " # [x]\n")
        to.body(path)
        if many and draw(st.booleans()):
            sub = to.name()
            to.note((*path, sub))
            to.put("[")
            to.key(name)
            to.put(".")
            to.key(sub)
            to.put("]\n")
            to.body((*path, sub))
    return to.text, to.expected


def paths(item: object, here: plans.Path = ()) -> set[plans.Path]:
    inside = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    return {here} | {path for key, value in inside for path in paths(value, (*here, key))}


@pytest.mark.full
@settings(max_examples=80)
@given(documents(), st.booleans())
def test_each_path_is_found_in_its_line(document: tuple[str, dict[plans.Path, int]], windows: bool) -> None:
    text, expected = document
    text = text.replace("\n", "\r\n") if windows else text
    assert plans.find(text).first == expected
    assert expected.keys() <= paths(tomllib.loads(text))


@pytest.mark.deep
@given(st.lists(st.sampled_from([*'[]{}=,."#\n\\a1 ', '"""', "'''", "'", "[[", "]]", "a=", "\r\n"]), max_size=60).map("".join))
@example("a=" + "{=" * 2000)
@example('a="""\\')
@example("a={[=[")
def test_no_text_stops_the_search_and_each_refusal_has_a_line(text: str) -> None:
    try:
        lines = plans.find(text)
    except plans.TooDeepError as error:
        assert 1 <= error.line <= text.count("\n") + 1
        return
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.first.values())
    with pytest.raises(UsageError, match=r"^'baton.toml' line [1-9]\d*: "):
        plans.read(text.encode(), "/")


def test_lists_of_tables_have_lines_of_their_own() -> None:
    lines = plans.find("[[a]]\nx=1\n[a.b]\n[[a]]\n[a.b]\ny=2\n")
    assert lines.first == {("a",): 1, ("a", 0): 1, ("a", 0, "x"): 2, ("a", 0, "b"): 3, ("a", 1): 4} | {
        ("a", 1, "b"): 5,
        ("a", 1, "b", "y"): 6,
    }
    assert lines.line(("a", 1, "b", "z")) == 5 and lines.line(("q",)) == 1 and lines.table(6) == ("a", 1, "b")


WORDS = st.lists(st.sampled_from(["x", "", "a\0", "../y", "/z", "src/**", "./../q"]), max_size=2)
ITEM = st.one_of(
    st.integers(-1, 3), st.booleans(), st.sampled_from([0.5, -0.5, 1e9]), WORDS, st.sampled_from([[1], [["x"]]])
) | (
    st.sampled_from(
        ["x", "", " ", "none", "tree", "once", "all", "1s", "1h30m", "9", "1s,x2", "1,timeout", "x\0", "../up", "/abs"]
    )
)
GOOD_OR_NOT: list[object] = [1, 3, True, False, 0.5, [], ["x"], ["src/**"], "x", "none", "tree", "once", "all", "1s", "1h30m"]
KEYS = sorted(SCHEMA["$defs"]["step"]["properties"])


GOOD = {  # what each key may hold, so that many plans are accepted
    key: [v for v in GOOD_OR_NOT if VALID.is_valid({"step": {"a": {"run": "x"} | ({"effect": "once"} | {key: v})}})]
    for key in KEYS
}
FIELDS = st.lists(st.sampled_from(KEYS), max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.sampled_from(GOOD[key] or ["x"]) for key in keys})
)


def toml(item: object) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(toml, item))}]"
    return json.dumps(item)


@pytest.mark.full
def test_what_is_accepted_is_right_by_the_schema() -> None:
    accepted = []
    any_fields = st.dictionaries(st.sampled_from([*KEYS, "other"]), ITEM, max_size=3)

    @settings(max_examples=150, database=None, derandomize=True, phases=(Phase.generate,))
    @given(FIELDS | any_fields, st.sampled_from([None, "2h", 1, 0, "x"]))
    def examples(fields: dict[str, object], wall: object) -> None:
        fields = fields if "argv" in fields else {"run": "x"} | fields
        text = "".join(f"{key} = {toml(item)}\n" for key, item in fields.items())
        text = (f"max-wall = {toml(wall)}\n" if wall is not None else "") + "[step.a]\n" + text
        try:
            plans.read(text.encode(), "/")
        except UsageError:
            return
        accepted.append(text)
        assert VALID.is_valid(tomllib.loads(text)), text

    examples()
    assert len(set(accepted)) > 20, "the check means something"


@pytest.mark.deep
@each("key", KEYS)
def test_each_key_is_judged_alike(key: str) -> None:
    """Values of every kind for one key: the schema takes what the reader takes, and nothing else."""
    values: list[Any] = [True, 0, -1, 3, 0.5, 1e9, [], ["x"], [""], [1], ["a\0"], ["../y"], ["A=1"], {}, "", "x", " ", "x\0"]
    values += [*("once", "all", "fail", "tree", "1s", "1h30m", "1x", "1s,x2,jitter", "1s,q", "1,timeout", "256")]
    values += ["/abs", "../up", "a/.git/b", "t" * 201]
    base = {"run": "x"} if key != "argv" else {}
    base |= {"effect": "once"} if key in ("compensate", "probe") else {}
    for item in values:
        text = "[step.a]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in (base | {key: item}).items())
        text = (text if item != {} else f"[step.a]\n{key} = {{}}\n") + '[step.x]\nrun = "x"\n'
        try:
            plans.read(text.encode(), "/")
            accepted = True
        except UsageError:
            accepted = False
        assert VALID.is_valid(tomllib.loads(text)) == accepted, (item, accepted)


def test_the_schema_refuses_what_a_schema_can_refuse() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    VALID.validate(tomllib.loads(PLAN))
    beyond = ["which meet", "and step", "a cycle", "no step here", "waits for itself", "shorter", "more than nothing"]
    beyond += ["is nan", "is 1.0"]  # no number of JSON's; an integer of JSON Schema's
    told = 0
    for text, _, words, _ in REFUSED:
        try:
            data = tomllib.loads(text if isinstance(text, str) else text.decode())
        except (ValueError, RecursionError):
            continue
        if not any(word in words for word in beyond):
            assert not VALID.is_valid(data), text[:200]
            told += 1
    assert told > 40
