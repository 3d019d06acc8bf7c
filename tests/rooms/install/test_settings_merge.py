"""Our entries in other programs' settings: what is not ours keeps every byte, and goes back to the byte it was."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.agents.client import Client
from gitbaton.agents.install.levels import CLIENTS, FoundEntries, Hooks, Merged, entries
from gitbaton.agents.settings import Document, MalformedError, undone
from tests.kit.tables import each

BY_NAME = {client.name: client for client in CLIENTS}
CLAUDE, GEMINI = BY_NAME["claude"], BY_NAME["gemini"]
SHAPED = [client for client in CLIENTS if client.shape != "plugin"]

TABLE: dict[str, str] = {
    "empty": "",
    "blank": " \n\n",
    "bom alone": "\ufeff",
    "object in one line": "{}",
    "object in one line, newline": "{}\n",
    "object with a blank": "{ }",
    "object over lines": "{\n}\n",
    "other keys": '{\n  "model": "opus",\n  "permissions": {\n    "allow": ["Bash(ls:*)"]\n  }\n}\n',
    "no newline at the end": '{\n  "model": "opus"\n}',
    "minified": '{"model":"opus","env":{"A":"1"}}',
    "one line with blanks": '{"model": "opus", "hooks": {}}',
    "tabs": '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    "four blanks, crlf": '{\r\n    "model": "opus",\r\n    "hooks": {}\r\n}\r\n',
    "bom": '\ufeff{\n  "a": 1\n}\n',
    "another tool's hooks": """{
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "notify-send done"}]}],
    "PostToolUse": [
      {
        "matcher": "Edit",
        "hooks": [
          { "type": "command", "command": "prettier --write" , "timeout": 5 }
        ]
      }
    ],
    "Notification": [ {"hooks": []} ]
  },
  "zeta": {"b": 1, "a": [1,
     2]}
}
""",
    "odd indentation": '   {\n "a" :1 ,\n      "hooks" : { "Stop" : [ ] }\n   }  \n\n',
    "hooks first": '{"hooks": {"SessionStart": [{"matcher": "resume", "hooks": []}]}, "x": null}',
    "text like ours": '{\n  "x": "{ \\"hooks\\": { // /* git-baton hook",\n  "u": "\\u00e9\\ud83d\\ude00 \u00e9"\n}\n',
}
WITH_COMMENTS: dict[str, str] = {
    "line comments": '{\n  // mine\n  "a": 1 // one\n  // last\n}\n',
    "block comments": '/* top */ {\n  "a": 1, /* a */\n  "hooks": { /* none yet */ }\n}\n// end',
    "only a comment": "// later\n",
    "comment in a list": '{\n  "hooks": {\n    "SessionEnd": [\n      // here\n    ]\n  }\n}\n',
    "comment behind the last": '{"a": 1 // x\n}',
    "slashes in a comment": '{"a": 1 /* // */}',
}
REFUSED: dict[str, tuple[str, str]] = {
    "a list": ("[]", "it is not an object"),
    "hooks is a list": ('{"hooks": []}', "'hooks' is not an object"),
    "an event is an object": ('{"hooks": {"Stop": {}}}', "'hooks.Stop' is not a list"),
    "cut off": ('{\n  "a": 1', "line 2, column 9: ',' or '}' is expected"),
    "two values": ("{} {}", "line 1, column 4: nothing is expected after the value"),
    "trailing comma": ('{"a": 1,}', "line 1, column 9: a string is expected, or this one is broken"),
    "a comment": ('{\n  // mine\n  "a": 1\n}', "line 2, column 3: a string is expected, or this one is broken"),
    "single quotes": ("{'a': 1}", "line 1, column 2: a string is expected, or this one is broken"),
    "a bad number": ('{"a": 01}', "line 1, column 7: a value is expected"),
    "no colon": ('{"a" 1}', "line 1, column 6: ':' is expected"),
    "hooks twice": ('{"hooks": {}, "hooks": {}}', "the key 'hooks' stands twice"),
    "an event twice": ('{"hooks": {"Stop": [], "Stop": []}}', "the key 'Stop' stands twice"),
    "too deep": ('{"a": ' + "[" * 5000, "line 1, column 135: nested too deep"),
    "a tab in a string": ('{"a": "\t"}', "line 1, column 7: a string is expected, or this one is broken"),
}


def merge(text: str, client: Client, track: str | None) -> Merged:
    return Hooks(client, track).put(text)


def strip(text: str, client: Client, made: Collection[str] | None = None) -> Merged:
    return Hooks(client, None).take(text, made)


def found(text: str, client: Client) -> FoundEntries:
    return Hooks(client, None).find(text)


def plain_merge(document: Any, client: Client, track: str | None) -> Any:
    """The same merge on a plain value."""
    result = {**(document or ({"version": 1} if client.version else {}))}
    hooks = {**result.get("hooks", {})}
    for event, item in entries(client, track).items():
        hooks[event] = [*hooks.get(event, []), item]
    return {**result, "hooks": hooks}


def parsed(text: str) -> Any:
    text = text.removeprefix("\ufeff")
    return json.loads(text) if text.strip() else {}


def check_round(text: str, client: Client, *, comments: bool = False) -> str:
    """Merge, again, with another track, and back; the merged text."""
    once = merge(text, client, None)
    assert merge(once.text, client, None).text == once.text, "twice is once"
    assert undone(once.text, once.edits) == text
    other = merge(once.text, client, "it's $HOME")
    assert found(other.text, client).tracks == ("it's $HOME",)
    assert found(other.text, client).count == len(client.hooks)
    assert undone(other.text, other.edits) == once.text
    if not comments:
        assert parsed(once.text) == plain_merge(parsed(text), client, None)
        assert parsed(other.text) == plain_merge(parsed(text), client, "it's $HOME")
        assert parsed(strip(once.text, client, once.made).text) == parsed(text)
    assert found(strip(once.text, client, once.made).text, client).count == 0
    return once.text


@pytest.mark.full
@each("client", SHAPED)
@each("name", TABLE)
def test_merge_keeps_the_rest(name: str, client: Client) -> None:
    text = TABLE[name]
    merged = check_round(text, client)
    assert ("\r\n" in text) == ("\r\n" in merged) and merged.replace("\r\n", "").count("\r") == 0
    assert merged.startswith("\ufeff") == text.startswith("\ufeff")
    assert merged.endswith("\n") == (text.endswith("\n") or not text.strip("\ufeff"))
    kept = iter(merged)
    assert all(char in kept for char in text), "every character is still there, in its order"


@each("name", WITH_COMMENTS)
def test_comments_survive_where_the_format_allows_them(name: str) -> None:
    text = WITH_COMMENTS[name]
    merged = check_round(text, GEMINI, comments=True)
    kept = iter(merged)
    assert all(char in kept for char in text)
    with pytest.raises(MalformedError):
        merge(text, CLAUDE, None)


@each("name", REFUSED)
def test_what_is_not_settings_is_refused(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(MalformedError) as error:
        merge(text, CLAUDE, None)
    assert str(error.value) == reason


def test_the_text_looks_as_its_owner_writes() -> None:
    tabs = merge(TABLE["tabs"], CLAUDE, None).text
    assert '\n\t\t"Stop": [\n\t\t\t{\n\t\t\t\t"hooks": [\n' in tabs
    assert '"hooks":{"SessionStart":[{"hooks":[{"type":"command",' in merge(TABLE["minified"], CLAUDE, None).text
    assert "\n" not in merge(TABLE["minified"], CLAUDE, None).text
    crlf = merge(TABLE["four blanks, crlf"], CLAUDE, None).text
    assert '\r\n    "hooks": {\r\n        "SessionStart": [\r\n            {\r\n' in crlf
    inline = merge(TABLE["another tool's hooks"], CLAUDE, None).text
    assert '"command": "notify-send done"}]}, {"hooks": [{"type": "command", ' in inline


def test_an_entry_that_stands_among_others_stays_there() -> None:
    ours = entries(CLAUDE)["PostToolUse"]
    mixed = {"matcher": ours["matcher"], "hooks": [{"type": "command", "command": "lint"}, ours["hooks"][0]]}
    text = json.dumps({"hooks": {"PostToolUse": [mixed]}}, indent=2)
    assert parsed(merge(text, CLAUDE, None).text)["hooks"]["PostToolUse"] == [mixed]
    tracked = parsed(merge(text, CLAUDE, "x").text)["hooks"]["PostToolUse"]
    assert len(tracked) == 1 and tracked[0]["hooks"][0] == mixed["hooks"][0]
    assert tracked[0]["hooks"][1]["command"].endswith("--track 'x'")
    left = parsed(strip(text, CLAUDE, ()).text)["hooks"]["PostToolUse"]
    assert left == [{**mixed, "hooks": [mixed["hooks"][0]]}]


def test_older_and_doubled_entries_become_one() -> None:
    old = {"hooks": [{"type": "command", "command": "git-baton hook claude Stop", "timeout": 1}]}
    gone = {"hooks": [{"type": "command", "command": "git-baton hook claude PostCompact"}]}
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    text = json.dumps({"hooks": {"Stop": [old, mine, old], "PostCompact": [mine, gone]}}, indent=1)
    hooks = parsed(merge(text, CLAUDE, None).text)["hooks"]
    (entry,) = entries(CLAUDE)["Stop"]["hooks"]
    assert hooks["Stop"] == [{"hooks": [{**entry, "timeout": 1}]}, mine], "a timeout of the user's stays"
    assert hooks["PostCompact"] == [mine]


def test_strip_after_the_user_went_on_editing() -> None:
    once = merge('{\n  "a": 1\n}\n', CLAUDE, None)
    document = Document(once.text)
    document.put((), "later", {"x": []})
    document.append(("hooks", "Stop"), {"hooks": [{"command": "mine"}]})
    left = strip(document.text, CLAUDE, once.made).text
    assert parsed(left) == {"a": 1, "hooks": {"Stop": [{"hooks": [{"command": "mine"}]}]}, "later": {"x": []}}


def test_containers_of_the_user_stay() -> None:
    text = '{"hooks": {"Stop": []}}'
    once = merge(text, CLAUDE, None)
    assert strip(once.text, CLAUDE, once.made).text == text
    assert strip(once.text, CLAUDE).text == "{}"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
HANDLER = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["x", "echo '{}' // no", "git-baton log"])}
)
GROUP = st.fixed_dictionaries({"hooks": st.lists(HANDLER, max_size=2)}, optional={"matcher": st.just("Edit"), "//": VALUES})
EVENTS = st.sampled_from(["Stop", "PreCompact", "Notification", "BeforeAgent", "preCompact", "sessionStart", "é"])
DOCUMENTS = st.fixed_dictionaries(
    {"rest": st.dictionaries(st.text(max_size=6).filter(lambda k: k not in ("hooks", "version")), VALUES, max_size=4)},
    optional={"hooks": st.dictionaries(EVENTS, st.lists(GROUP | HANDLER, max_size=3), max_size=4)},
)


BLANKS = ("", "", " ", "\n", "\r\n\t", "\n    ", "  ")
COMMENTS = ("/* c */", "/* // \n x */", '// line {"\n', " // x\n  ", "\n\t// y /*\n")


def spelled(value: Any, draw: Any, blanks: tuple[str, ...] = BLANKS) -> str:
    """JSON of a value with blanks wherever they are allowed."""

    def blank() -> str:
        return str(draw(st.sampled_from(blanks)))

    if isinstance(value, dict):
        items = [f"{blank()}{json.dumps(k)}{blank()}:{blank()}{spelled(v, draw, blanks)}{blank()}" for k, v in value.items()]
        return "{" + (",".join(items) or blank()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{blank()}{spelled(v, draw, blanks)}{blank()}" for v in value) or blank()) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@pytest.mark.deep
@settings(max_examples=100, deadline=None)
@given(document=DOCUMENTS, client=st.sampled_from(SHAPED), data=st.data())
def test_random_documents(document: dict[str, Any], client: Client, data: Any) -> None:
    rest = list(document["rest"].items())
    if "hooks" in document:
        rest.insert(data.draw(st.integers(0, len(rest))), ("hooks", document["hooks"]))
    form = data.draw(st.sampled_from(["free", "indented", "tabs", "compact"]))
    whole = dict(rest)
    if form == "free":
        text = data.draw(st.sampled_from(["", "\ufeff", "\n "])) + spelled(whole, data.draw) + "\n"
    else:
        shapes: dict[str, dict[str, Any]] = {
            "indented": {"indent": 4},
            "tabs": {"indent": "\t"},
            "compact": {"separators": (",", ":")},
        }
        text = json.dumps(whole, **shapes[form])
    check_round(text, client)
    assert strip(text, client).text == text, "nothing of ours, nothing to take out"


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(document=DOCUMENTS, data=st.data())
def test_random_documents_with_comments(document: dict[str, Any], data: Any) -> None:
    whole = {**document["rest"], **({"hooks": document["hooks"]} if "hooks" in document else {})}
    text = data.draw(st.sampled_from(["", "// top\n"])) + spelled(whole, data.draw, BLANKS + COMMENTS) + "// end"
    merged = check_round(text, GEMINI, comments=True)
    for back in (merged, strip(merged, GEMINI, merge(text, GEMINI, None).made).text):
        assert all(back.count(comment.strip()) == text.count(comment.strip()) for comment in COMMENTS), back
        assert back.startswith("// top") == text.startswith("// top") and back.endswith("// end")
    left = Document(strip(merged, GEMINI, merge(text, GEMINI, None).made).text, comments=True)
    assert left.root is not None and left.plain(left.root) == whole


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[1, // one\n 2]", "[1 // one\n]"),
        ("[1, // one\n 2 // two\n]", "[1 // one\n // two\n]"),
        ("[1, /* one */ 2]", "[1 /* one */]"),
        ("[1,\n 2\n]", "[1\n]"),
    ],
)
def test_the_last_is_taken_out_and_comments_stay(text: str, left: str) -> None:
    document = Document(text, comments=True)
    document.remove((1,))
    assert document.text == left and undone(left, document.edits) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[2 /* two */ , 1]", "[ /* two */  1]"),
        ("[2, /* one */ 1]", "[/* one */ 1]"),
        ("[// only\n 2 /* two */]", "[// only\n /* two */]"),
        ("[// only\n 2]", "[// only\n]"),
        ("[ 2 ]", "[]"),
    ],
)
def test_the_first_is_taken_out_and_comments_stay(text: str, left: str) -> None:
    document = Document(text, comments=True)
    document.remove((0,))
    assert document.text == left and undone(left, document.edits) == text


def line_of(event: str) -> str:
    return str(entries(GEMINI)[event]["hooks"][0]["command"])


OWN = st.fixed_dictionaries(
    {"command": st.sampled_from([line_of("SessionStart"), line_of("BeforeAgent"), "git-baton hook gemini Gone"])},
    optional={"type": st.sampled_from(["command", "prompt"]), "timeout": st.integers(1, 9), "name": st.just("n")},
)
OWN_GROUP = st.fixed_dictionaries(
    {"hooks": st.lists(HANDLER | OWN, min_size=1, max_size=3)}, optional={"matcher": st.just("x")}
)
OWN_HOOKS = st.dictionaries(
    st.sampled_from(["SessionStart", "BeforeAgent", "Other"]), st.lists(OWN_GROUP | GROUP, max_size=3), max_size=3
)


def users(hooks: dict[str, Any]) -> dict[str, list[Any]]:
    """The handlers of the user's by event, in their order."""
    found = {
        e: [h for g in groups for h in g.get("hooks", []) if "hook gemini" not in h["command"]] for e, groups in hooks.items()
    }
    return {event: handlers for event, handlers in found.items() if handlers}


@pytest.mark.deep
@settings(max_examples=60, deadline=None)
@given(hooks=OWN_HOOKS, data=st.data())
def test_random_documents_with_comments_around_our_entries(hooks: dict[str, Any], data: Any) -> None:
    text = spelled({"a": 1, "hooks": hooks}, data.draw, BLANKS + COMMENTS)
    before = Document(text, comments=True)
    for after in (merge(text, GEMINI, None), strip(text, GEMINI)):
        left = Document(after.text, comments=True)
        assert left.root is not None and len(left.notes) == len(before.notes), "comments stay, also those in our entries"
        plain = left.plain(left.root)
        assert plain["a"] == 1 and users(plain.get("hooks", {})) == users(hooks)
        assert undone(after.text, after.edits) == text
    once = merge(text, GEMINI, "t").text
    assert merge(once, GEMINI, "t").text == once and found(once, GEMINI).tracks == ("t",)
    assert found(once, GEMINI).count == len(GEMINI.hooks) and found(strip(once, GEMINI).text, GEMINI).count == 0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[/* // */ 1]", "[/* // */]"),
        ("// \n[/* a *//* // b */1] ", "// \n[/* a *//* // b */] "),
        ("[/* // */ {}// c\n]", "[/* // */// c\n]"),
        ("[// a\r1]", "[// a\r]"),
        ('[{/* a */"b" // c\n:1}]', "[/* a */ // c\n]"),
    ],
)
def test_slashes_inside_a_comment_begin_none(text: str, left: str) -> None:
    document = Document(text, comments=True)
    document.remove((0,))
    assert document.text == left and undone(left, document.edits) == text
