"""Pages of the manual as blocks: a verb's from its docstring and options, a guide's from its Markdown; and blocks as text."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gitbaton.base.system.files import DATA, shipped
from gitbaton.cli.columns import broken, screen
from gitbaton.cli.options import Argument, Declared, declared, main
from gitbaton.cli.verbs import GROUPS, VERBS, below, verb_function

GUIDE = {"share": "sharing", "keep": "keeping", "agents": "agents", "runs": "runs", "langgraph": "langgraph", "care": "storage"}
SUMMARY = "hand the baton over inside git: checkpoints of an agent's work"
MARK = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*/])\*([^*\s][^*]*)\*(?![\w*])|\[([^]]+)\]\(([^)]+)\)")


class PageBlock(NamedTuple):
    """A piece of a page. ``kind``: ``head`` (a title), ``text`` (a paragraph), ``item`` (a ``term`` and what it means; without
    a term a bullet), ``code`` (lines as they are) or ``table`` (rows of cells). A paragraph, a term and a cell may have
    Markdown's marks for code, bold and italic."""

    kind: str
    text: str = ""
    term: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


def of(verb: str) -> list[PageBlock]:
    """Return the page of a verb."""
    command = verb_function(verb)
    first, _, rest = (command.__doc__ or "").partition("\n")  # only Python 3.12 and older leave it indented
    told, _, examples = f"{first}\n{textwrap.dedent(rest)}".partition("\n\nExamples:\n")
    parameters = declared(command)
    title, near = next((title, verbs) for title, verbs in GROUPS.items() if verb in verbs)
    guide = GUIDE.get(title, "files")
    also = [
        "git-baton(1)",
        *(f"git-baton-{name.replace(' ', '-')}(1)" for name in near if name != verb),
        *([f"gitbaton-{guide}(7)"] if guide in guides() else []),
    ]
    code = [_head("examples"), PageBlock("code", textwrap.dedent(examples).strip())] if examples else []
    return [
        _head("name"),
        PageBlock("text", f"git-baton-{verb.replace(' ', '-')} - {VERBS[verb]}"),
        _head("synopsis"),
        PageBlock("text", f"**git baton {verb}** {_synopsis(parameters)}".rstrip()),
        _head("description"),
        *(PageBlock("text", _bold(part)) for part in re.split(r"\n\s*\n", told.strip())),
        *([_head("verbs"), *_listed(below(verb), f"{verb} ")] if below(verb) else []),
        *([_head("options"), *_options(parameters)] if parameters else []),
        *code,
        _head("see also"),
        PageBlock("text", ", ".join(also)),
    ]


def of_all() -> list[PageBlock]:
    """Return the page of ``git baton`` itself: what it is, the options before the verb, all verbs, and the text of
    ``git-baton.md``."""
    told = list(markdown(shipped("git-baton.md")))
    at = next(at for at, block in enumerate(told) if block.kind == "head" and block.text != "DESCRIPTION")
    blocks = [
        _head("name"),
        PageBlock("text", f"git-baton - {SUMMARY}"),
        _head("synopsis"),
        PageBlock("text", f"**git baton** {_synopsis(declared(main))} VERB ..."),
        *told[:at],
        _head("options"),
        *_options(declared(main)),
        _head("verbs"),
    ]
    for title, verbs in GROUPS.items():
        blocks += [PageBlock("text", f"**{title.capitalize()}**"), *_listed(verbs)] if title else []
    also = ", ".join(f"gitbaton-{name}(7)" for name in guides())
    return [*blocks, *told[at:], _head("see also"), PageBlock("text", f"{also}, git-notes(1), git-stash(1), githooks(5)")]


def overview() -> str:
    """List all verbs, a line each."""
    lines = ["usage: git baton [--repo-root DIR] [--checkpoint-dir DIR] [--color[=WHEN]]", f"{'[--no-pager] VERB ...':>38}"]
    for title, verbs in GROUPS.items():
        rows = [f"{name:<15} {text}" for name, text in verbs.items()] if title else []
        lines += [f"{head:<11}{row}" for head, row in zip([title, *[""] * len(rows)], rows)]  # noqa: B905
    lines += ["'git baton help VERB' shows a page, and 'git baton help TOPIC' a guide:", " ".join(guides()), ""]
    columns, under = screen()[0] or 80, " " * 27
    return "\n".join(row for line in lines for row in broken(line, columns, under if line[27:28].strip() else ""))


def guides() -> list[str]:
    """List the topics of the guides."""
    try:
        return sorted(name.removesuffix(".md") for name in os.listdir(os.path.join(DATA, "guides")) if name.endswith(".md"))
    except OSError:
        return []


def of_guide(topic: str) -> list[PageBlock]:
    """Return the page of a guide."""
    title, sentence, *rest = markdown(shipped("guides", f"{topic}.md"))
    name = PageBlock("text", f"gitbaton-{topic} - {sentence.text[:1].lower()}{sentence.text[1:].rstrip('.')}")
    return [_head("name"), name, PageBlock("head", title.text), *rest]


def markdown(text: str) -> Iterator[PageBlock]:
    """Yield the blocks of a text in plain Markdown: titles, paragraphs, lists, tables and fenced code."""
    rows = iter(text.split("\n"))
    gathered: list[str] = []
    for row in [*rows, ""]:
        fenced = bool(gathered) and gathered[0].startswith("```")
        if fenced and row != "```":
            gathered.append(row)
            continue
        starts = row.startswith(("#", "```", "* ")) or (row.startswith("|") != (bool(gathered) and gathered[0].startswith("|")))
        if gathered and (fenced or not row or starts):
            yield _block(gathered)
            gathered = []
        if row and not fenced:
            gathered.append(row)


def _block(rows: list[str]) -> PageBlock:
    if rows[0].startswith("```"):
        return PageBlock("code", "\n".join(rows[1:]))
    if rows[0].startswith("|"):
        cells = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]
        return PageBlock("table", rows=tuple(row for row in cells if not re.fullmatch(r"[-:]*", "".join(row))))
    text = " ".join(row.strip() for row in rows)
    if rows[0].startswith("#"):
        return PageBlock("head", text.lstrip("# ").upper())
    if rows[0].startswith("* "):
        term, colon, meaning = text[2:].partition(": ")
        whole = colon and re.fullmatch(r"`[^`]+`(, `[^`]+`)*", term)
        return PageBlock("item", meaning, term) if whole else PageBlock("item", text[2:])
    return PageBlock("text", text)


def as_text(blocks: Iterable[PageBlock], columns: int) -> str:
    """Format a page for a terminal of so many columns."""
    wide, lines, before = min(columns, 100), list[str](), ""
    for block in blocks:
        if before not in ("", "head") and (before, block.kind) != ("item", "item"):
            lines.append("")
        before = block.kind
        if block.kind == "head":
            lines.append(block.text)
        elif block.kind == "code":
            lines += [f"        {row}".rstrip() for row in block.text.split("\n")]
        elif block.kind == "table":
            cells = [[_plain(cell) for cell in row] for row in block.rows]
            first = max(len(row[0]) for row in cells) + 2
            for head, *rest in cells:
                lines += textwrap.wrap("  ".join(rest), max(wide, first + 30), **_under(f"    {head:<{first}}", 4 + first))
        elif block.kind == "item" and not block.term:
            lines += textwrap.wrap(_plain(block.text), wide, **_under("    * ", 6))
        elif block.kind == "item":
            term = _plain(block.term)
            lines += [f"    {term}"] if len(term) > 14 else []
            lines += textwrap.wrap(_plain(block.text), wide, **_under(f"    {term if len(term) < 15 else '':<16}", 20))
        else:
            lines += textwrap.wrap(_plain(block.text), wide, **_under("    ", 4))
    return "\n".join([*lines, ""])


def _under(first: str, rest: int) -> dict[str, Any]:
    return {"initial_indent": first, "subsequent_indent": " " * rest, "break_long_words": False, "break_on_hyphens": False}


def _plain(text: str) -> str:
    return MARK.sub(lambda match: next(group for group in match.groups() if group), text)


def _head(title: str) -> PageBlock:
    return PageBlock("head", title.upper())


def _bold(text: str) -> str:
    """A paragraph of a docstring with its options marked."""
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", " ".join(text.split()))


def _listed(verbs: Iterable[str], before: str = "") -> list[PageBlock]:
    return [PageBlock("item", VERBS[before + name], f"`{before}{name}`") for name in verbs]


def _synopsis(parameters: list[Declared]) -> str:
    """The options and arguments as they are typed."""
    found = []
    for p in parameters:
        if isinstance(p.of, Argument):
            found.append(p.of.metavar)
            continue
        names = [name for name, _ in p.names() if name.startswith("--")] or [name for name, _ in p.names()]
        more = "..." if p.many else ""
        inner = " | ".join(names) + ("" if p.kind is bool else f" {p.of.metavar or p.name.upper()}")
        found.append((inner if p.required else f"[{inner}]") + more)
    return " ".join(found)


def _options(parameters: list[Declared]) -> Iterator[PageBlock]:
    for p in sorted(parameters, key=lambda p: not isinstance(p.of, Argument)):
        if isinstance(p.of, Argument):
            term = f"*{p.of.metavar}*"
        else:
            term = ", ".join(f"`{name}`" for name, _ in sorted(p.names(), key=lambda name: len(name[0]) > 2))
            term += "" if p.kind is bool else f" *{p.of.metavar or p.name.upper()}*"
        yield PageBlock("item", _bold(p.of.help), term)
