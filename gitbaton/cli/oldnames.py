"""A command line with an old name of a verb, as it is typed now."""

from gitbaton.cli.verbs import OLD

_VALUED = ("-p", "--step", "--output", "--keep", "--older")  # of journal


def modern(words: list[str]) -> tuple[list[str], str]:
    """A command line whose verb has an old name, and the hint for whoever typed it."""
    old, new, rest = words[0], OLD[words[0]], words[1:]
    if old == "steps" and (asked := [at for at, word in enumerate(rest) if word.partition("=")[0] == "--why"]):
        _, equals, step = rest.pop(asked[0]).partition("=")
        new, rest = "run why", [*([step] if equals else [rest.pop(asked[0])] if rest[asked[0] :] else []), *rest]
    if old == "journal":
        plain = [at for at, word in enumerate(rest) if word[:1] != "-" and (not at or rest[at - 1] not in _VALUED)]
        if plain and rest[plain[0]] in ("show", "verify", "export", "prune"):
            action = rest.pop(plain[0])
            old, new = f"{old} {action}", new if action == "show" else f"run {action}"
    return [*new.split(), *rest], f"'git baton {old}' is now 'git baton {new}'"
