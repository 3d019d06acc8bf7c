"""JSON settings text of other programs, edited in place: whatever is not ours keeps every byte. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from gitbaton.base.values import value

Path = Sequence[str | int]

BOM = "\ufeff"
_BLANKS = " \t\r\n"
_DEPTH = 128
_DIGITS = 640  # Python may be told to read no longer number
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.+-])|(?:true|false|null)\b")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_NEWLINE = re.compile(r"\r\n|\r|\n")


class MalformedError(ValueError):
    """Text that is not JSON, or not of the shape that an edit needs; its message says where."""


@value
class Member:
    """One item of a container: a member of an object with its key, or an item of an array. ``start`` is the key's."""

    start: int
    node: Node
    key: str = ""


@value
class Node:
    """A value in the text, from ``start`` to ``end``."""

    kind: str
    start: int
    end: int
    members: tuple[Member, ...] = ()


@value
class Edit:
    """At ``start``, ``length`` characters of ours stand where ``old`` stood before."""

    start: int
    length: int
    old: str


class _Reader:
    """Strict JSON; with ``comments`` also ``//`` and ``/* */`` between its parts, with their places in ``seen``."""

    def __init__(self, text: str, *, comments: bool) -> None:
        self.text, self.comments = text, comments
        self.seen: dict[int, int] = {}

    def skip(self, at: int) -> int:
        """The first place from ``at`` that is neither blank nor comment."""
        while at < len(self.text):
            if self.text[at] in _BLANKS:
                at += 1
            elif self.text[at] == "/" and self.comments and (found := _COMMENT.match(self.text, at)):
                self.seen[at] = found.end()
                at = found.end()
            else:
                break
        return at

    def fail(self, at: int, what: str) -> MalformedError:
        """An error that names the line and column of ``at``."""
        before = self.text[:at].removeprefix(BOM)
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return MalformedError(f"line {line}, column {column}: {what}")

    def string(self, at: int) -> Node:
        """The string at ``at``."""
        found = _STRING.match(self.text, at)
        if not found:
            raise self.fail(at, "a string is expected, or this one is broken")
        return Node(kind="string", start=at, end=found.end())

    def read(self, at: int, depth: int = 0) -> Node:
        """The value at ``at``."""
        if depth > _DEPTH:
            raise self.fail(at, "nested too deep")
        opening = self.text[at : at + 1]
        if opening and opening in "{[":
            return self._container(at, depth)
        if opening == '"':
            return self.string(at)
        found = _SCALAR.match(self.text, at)
        if not found:
            raise self.fail(at, "a value is expected" if opening not in ("/", "#") else "a comment is not allowed here")
        if found.end() - at > _DIGITS:
            raise self.fail(at, "a number of too many digits")
        return Node(kind="scalar", start=at, end=found.end())

    def _container(self, start: int, depth: int) -> Node:
        kind, closing = ("object", "}") if self.text[start] == "{" else ("array", "]")
        members: list[Member] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != closing or members:
            member = self._member(at, kind, depth)
            members.append(member)
            at = self.skip(member.node.end)
            if self.text[at : at + 1] == closing:
                break
            if self.text[at : at + 1] != ",":
                raise self.fail(at, f"',' or '{closing}' is expected")
            at = self.skip(at + 1)
        return Node(kind=kind, start=start, end=at + 1, members=tuple(members))

    def _member(self, at: int, kind: str, depth: int) -> Member:
        if kind == "array":
            return Member(start=at, node=self.read(at, depth + 1))
        key = self.string(at)
        colon = self.skip(key.end)
        if self.text[colon : colon + 1] != ":":
            raise self.fail(colon, "':' is expected")
        return Member(start=at, key=json.loads(self.text[at : key.end]), node=self.read(self.skip(colon + 1), depth + 1))


class Document:
    """JSON text under edit: members are added or taken out, scalars replaced, comments kept; ``edits`` undoes it all.

    Raises MalformedError for text that is not JSON. Blank text has no ``root`` until ``begin``. ``notes``: where each of its
    comments begins and ends.
    """

    def __init__(self, text: str, *, comments: bool = False) -> None:
        self.text, self.comments = text, comments
        self.edits: list[Edit] = []
        self.root: Node | None = None
        self.notes: list[tuple[int, int]] = []
        self._parse()
        newline = re.search(r"\r?\n", text)
        self.newline = newline.group() if newline else "\n"
        self.unit = self._unit()
        members: Sequence[Member] = self.root.members if self.root and self.root.kind == "object" else ()
        self.tight = bool(members) and text[members[0].node.start - 1] == ":"  # nothing stands behind its colons

    def _parse(self) -> None:
        reader = _Reader(self.text, comments=self.comments)
        start = reader.skip(len(BOM) if self.text.startswith(BOM) else 0)
        self.root = reader.read(start) if start < len(self.text) else None
        end = reader.skip(self.root.end) if self.root else start
        if end != len(self.text):
            raise reader.fail(end, "nothing is expected after the value")
        self.notes = sorted(reader.seen.items())

    def _unit(self) -> str:
        """One step of indentation, as this text has it."""
        for member in self.root.members if self.root else ():
            indent = self._margin(member.start)
            if indent:
                return indent.removeprefix(self._line_indent(self.root.start if self.root else 0)) or "  "
        return "  "

    def begin(self, value: dict[str, Any]) -> None:
        """Make blank text an object."""
        start = len(BOM) if self.text.startswith(BOM) else 0
        at = self._behind_comments(start, len(self.text)) or start
        lead = self.newline if at > start else ""
        end = "" if "\n" in self.text[at:] else self.newline
        self._edit((at, at, lead + self._dumped(value, "") + end))

    def at(self, *path: str | int) -> Node | None:
        """The value at a path of keys and indices; None when there is none."""
        node = self.root
        for word in path:
            if node is None:
                return None
            if isinstance(word, str):
                found = [m.node for m in node.members if m.key == word and node.kind == "object"]
                node = found[-1] if found else None
            else:
                node = node.members[word].node if word < len(node.members) else None
        return node

    def plain(self, node: Node) -> Any:
        """A value of the text as a Python value; of equal keys the last counts."""
        if node.kind == "object":
            return {member.key: self.plain(member.node) for member in node.members}
        if node.kind == "array":
            return [self.plain(member.node) for member in node.members]
        return json.loads(self.text[node.start : node.end])

    def put(self, path: Path, key: str, value: Any) -> None:
        """Add a member at the end of the object at ``path``."""
        self._add(path, json.dumps(key, ensure_ascii=False) + (":" if self.tight else ": "), value)

    def append(self, path: Path, value: Any) -> None:
        """Add an item at the end of the array at ``path``."""
        self._add(path, "", value)

    def replace(self, path: Path, value: str) -> None:
        """Put a string in the place of the value at ``path``."""
        node = self._known(path)
        self._edit((node.start, node.end, json.dumps(value, ensure_ascii=False)))

    def remove(self, path: Path) -> None:
        """Take out a member or item with its comma and the blanks that stood for it; comments in it and beside it stay."""
        parent, word = self._known(path[:-1]), path[-1]
        index = word if isinstance(word, int) else max(i for i, m in enumerate(parent.members) if m.key == word)
        member, reader = parent.members[index], _Reader(self.text, comments=self.comments)
        end, kept = member.node.end, self._comments_in(member)
        if index + 1 < len(parent.members):
            comma = reader.skip(end)
            if kept or self.text[end:comma].strip(_BLANKS):  # somebody's comment
                self._edit((comma, comma + 1, ""), (member.start, end, kept))
                return
            rest = self.text[comma + 1 :]
            self._edit((member.start, comma + 1 + len(rest) - len(rest.lstrip(_BLANKS)), ""))
            return
        floor = parent.members[index - 1].node.end if index else parent.start + 1
        start = member.start if kept else self._before(member, floor)
        if index:
            comma = reader.skip(parent.members[index - 1].node.end)
            alone = ((comma, end, ""),)
            self._edit(*(alone if comma + 1 == start and not kept else ((start, end, kept), (comma, comma + 1, ""))))
            return
        inner = self.text[parent.start + 1 : start] + kept + self.text[end : parent.end - 1]
        self._edit((start, end, kept) if inner.strip(_BLANKS) else (parent.start + 1, parent.end - 1, ""))

    def _comments_in(self, member: Member) -> str:
        """The comments inside a member, as they can stand in its place."""
        kept = ""
        for start, end in self.notes:
            if member.start <= start and end <= member.node.end:
                line = self.text.startswith("//", start)
                kept += self.text[start:end] + (self.newline + self._line_indent(member.start) if line else " ")
        return kept

    def _before(self, member: Member, floor: int) -> int:
        """Return the place where the blanks before a member begin, but for the end of a line that a comment needs."""
        start = max(floor, len(self.text[: member.start].rstrip(_BLANKS)))
        rest = self.text[member.node.end :].lstrip(" \t")
        newline = _NEWLINE.match(self.text, start)
        if newline and not _NEWLINE.match(rest) and self._ends_a_line(start):
            return newline.end()
        return start

    def _ends_a_line(self, at: int) -> bool:
        """Whether a comment that ends at ``at`` goes to the end of its line."""
        return any(end == at and self.text.startswith("//", start) for start, end in self.notes)

    def _known(self, path: Path) -> Node:
        node = self.at(*path)
        if node is None:
            raise MalformedError(f"there is nothing at {'/'.join(map(str, path))}")
        return node

    def _add(self, path: Path, head: str, value: Any) -> None:
        parent = self._known(path)
        inline = self._inline(path)
        inner = parent.members[-1].node.end if parent.members else parent.start + 1
        tail = self._behind_comments(inner, parent.end - 1) or inner
        if self._ends_a_line(tail):
            inline = False  # what follows on that line would be part of the comment
        if inline:
            gap = " " if tail > inner or (parent.members and not self.tight) else ""
            body = gap + head + self._dumped(value, None)
        else:
            outer = self._line_indent(parent.start)
            indent = next((i for m in reversed(parent.members) if (i := self._margin(m.start)) is not None), outer + self.unit)
            body = self.newline + indent + head + self._dumped(value, indent)
            if not parent.members and "\n" not in self.text[tail : parent.end - 1]:
                body += self.newline + outer
        comma = "," if parent.members else ""
        apart = ((tail, tail, body), (inner, inner, comma))
        self._edit(*(apart if tail != inner else ((tail, tail, comma + body),)))

    def _behind_comments(self, start: int, end: int) -> int:
        """Return the end of the last comment between two places that hold only blanks and comments; 0 when there is none."""
        return max((e for s, e in self.notes if start <= s and e <= end), default=0)

    def _inline(self, path: Path) -> bool:
        """Whether an item that is added to the container at ``path`` continues its line."""
        node = self._known(path)
        first = node.members[0].start if node.members else node.end
        if "\n" in self.text[node.start : first]:
            return False
        return bool(node.members) or (len(path) > 0 and self._inline(path[:-1]))

    def _margin(self, at: int) -> str | None:
        """The blanks between the beginning of the line and ``at``; None when something else stands there."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if "\n" in self.text[:at] and not before.strip(" \t") else None

    def _line_indent(self, at: int) -> str:
        """The indentation of the line of ``at``."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 :].removeprefix(BOM)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _dumped(self, value: Any, indent: str | None) -> str:
        """JSON in the manner of this text; in one line without ``indent``."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.tight else (", ", ": "))
        return json.dumps(value, ensure_ascii=False, indent=self.unit).replace("\n", self.newline + indent)

    def _edit(self, *changes: tuple[int, int, str]) -> None:
        """Carry out changes that stand in falling order."""
        for start, end, new in changes:
            if new or end > start:
                self.edits.append(Edit(start=start, length=len(new), old=self.text[start:end]))
                self.text = self.text[:start] + new + self.text[end:]
        self._parse()


def undone(text: str, edits: Sequence[Edit]) -> str:
    """The text as it was before ``edits`` made it what it is."""
    for edit in reversed(edits):
        text = text[: edit.start] + edit.old + text[edit.start + edit.length :]
    return text
