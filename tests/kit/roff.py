"""Man pages: the blocks of the manual in roff, and the files below ``gitbaton/data/man`` that must hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gitbaton.cli import pages
from gitbaton.cli.pages import PageBlock
from gitbaton.cli.verbs import GROUPS
from tests.kit.places import ROOT

MAN = ROOT / "gitbaton/data/man"


def files() -> dict[str, str]:
    """Every man page by its path below ``MAN``."""
    verbs = [name for title, verbs in GROUPS.items() if title for name in verbs]
    found = {f"man1/git-baton-{verb.replace(' ', '-')}.1": pages.of(verb) for verb in verbs}
    found |= {"man1/git-baton.1": pages.of_all()}
    found |= {f"man7/gitbaton-{topic}.7": pages.of_guide(topic) for topic in pages.guides()}
    return {path: roff(path.split("/")[1], blocks) for path, blocks in found.items()}


def roff(file: str, blocks: Iterable[PageBlock]) -> str:
    """A page in the macros of man(7)."""
    name, _, section = file.rpartition(".")
    lines, before = [f'.TH {name.upper()} {section} "" "gitbaton" "Git Baton Manual"'], "head"
    for block in blocks:
        if block.kind == "head":
            lines.append(f'.SH "{_escaped(block.text)}"')
        elif block.kind == "item":
            lines += [".TP", _marked(block.term)] if block.term else [".IP \\(bu 2"]
            lines.append(_marked(block.text))
        elif block.kind == "code":
            lines += ["" if before == "head" else ".PP", ".RS 4", ".nf", *map(_escaped, block.text.split("\n")), ".fi", ".RE"]
        elif block.kind == "table":
            for head, *rest in block.rows:
                lines += [".TP", _marked(head), _marked("  ".join(rest))]
        else:
            lines += ["" if before == "head" else ".PP", _marked(block.text)]
        before = block.kind
    text = "\n".join(line for line in lines if line) + "\n"
    return "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"^([.'])", r"\\&\1", text) or "\\&"


def _marked(text: str) -> str:
    """Text with Markdown's marks as fonts."""
    made, at = "", 0
    for match in pages.MARK.finditer(text):
        code, bold, italic, linked, _ = match.groups()
        font = "I" if italic else "B"
        made += _inner(text[at : match.start()]) + f"\\f{font}{_inner(code or bold or italic or linked)}\\fR"
        at = match.end()
    made += _inner(text[at:])
    return re.sub(r"^([.'])", r"\\&\1", made)


def _inner(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")
