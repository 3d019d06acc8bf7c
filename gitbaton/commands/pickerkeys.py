"""The keys of the picker: what each does, and what footer and help say of it. Needs textual."""

from __future__ import annotations

from textual.binding import Binding, BindingType

PANES = ("words", "plan", "diff", "conversation")
Key = tuple[str, str, str]
"""A key, what it does in a word or two, and the action; the footer has those that fit, help all of them."""
LIST_KEYS: tuple[Key, ...] = (
    *(("enter", "plan", "enter"), ("/", "filter", "ask('filter')"), ("tab", "track", "track(1)"), ("1-4", "view", "turn(1)")),
    *(("u", "undo", "step('undo')"), ("r", "redo", "step('redo')"), ("?", "keys", "help"), ("q", "quit", "leave")),
    *(("n", "branch", "ask('branch')"), ("w", "worktree", "ask('worktree')"), ("p", "pin", "pin")),
    *(("l", "label", "ask('label')"), ("y", "copy id", "copy")),
)
MORE_KEYS: tuple[tuple[str, str], ...] = (
    ("up down", "another one; also k and j"),
    ("enter", "the plan: take its turn back, or go back to it"),
    ("/", "words, ids, tests to look for"),
    ("tab", "another track; shift+tab back"),
    ("1 2 3 4", "what the right side shows"),
    ("3 or d", "again: the other diff"),
    ("f F", "next, last file or message"),
    ("space", "a page on; backspace: back"),
    ("J K", "a line on, back"),
    ("a", "all of what is long"),
    ("u r", "the plan of an undo, a redo"),
    ("n", "make a branch of it"),
    ("w", "check it out beside this one"),
    ("p", "pin it against prune, or not"),
    ("l", "label what is here now"),
    ("y", "copy its id"),
    ("m", "list more, where -n limits it"),
    ("ctrl+z", "stop; fg goes on"),
    ("q", "leave; also ctrl+c"),
    ("", ""),
    ("in a plan:", ""),
    ("enter", "do what is marked above it"),
    ("tab", "mark the other; also left, right"),
    ("c b", "the conversation, both"),
    ("space", "overwrite this conflict, too"),
    ("esc", "back to the list"),
)

BINDINGS: list[BindingType] = [
    Binding("q", "leave"),
    Binding("ctrl+c", "interrupt", priority=True),
    Binding("ctrl+q", "leave", priority=True),
    Binding("ctrl+z", "stop", priority=True),
    Binding("slash", "ask('filter')"),
    Binding("tab", "track(1)", priority=True),
    Binding("shift+tab", "track(-1)", priority=True),
    *(Binding(str(number), f"view('{name}')") for number, name in enumerate(PANES, 1)),
    Binding("d", "view('diff')"),
    Binding("right", "turn(1)"),
    Binding("left", "turn(-1)"),
    Binding("j", "move(1)"),
    Binding("k", "move(-1)"),
    Binding("down", "move(1)"),
    Binding("up", "move(-1)"),
    Binding("f", "part(1)"),
    Binding("F", "part(-1)"),
    Binding("J", "scroll(1)"),
    Binding("K", "scroll(-1)"),
    Binding("backspace", "page(-1)"),
    Binding("a", "whole"),
    Binding("enter", "enter", priority=True),
    Binding("space", "space", priority=True),
    Binding("escape", "home", priority=True),
    Binding("c", "deed('conversation')"),
    Binding("b", "deed('both')"),
    Binding("u", "step('undo')"),
    Binding("r", "step('redo')"),
    Binding("n", "ask('branch')"),
    Binding("w", "ask('worktree')"),
    Binding("l", "ask('label')"),
    Binding("p", "pin"),
    Binding("y", "copy"),
    Binding("m", "more"),
    Binding("question_mark", "help"),
]
