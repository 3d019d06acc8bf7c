"""Extras: the command line that adds what one of them needs to where gitbaton is installed, which no package index has."""

from __future__ import annotations

import os
import sys

_NEEDS = {"ui": "textual", "langgraph": "langgraph-checkpoint"}  # where nothing is recorded of the installation


def adding(extra: str) -> str:
    """Return the command line that adds the packages of an extra to the environment that this process runs in."""
    import re
    import shlex
    from importlib import metadata, util

    try:
        known = metadata.requires("gitbaton") or []
    except metadata.PackageNotFoundError:
        known = []
    rows = (row.partition(";") for row in known)
    wanted = [name.strip() for name, _, when in rows if re.search(rf"extra == ['\"]{extra}['\"]", when)]
    packages = " ".join(map(shlex.quote, wanted or [_NEEDS[extra]]))
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx inject {shlex.quote(os.path.basename(sys.prefix))} {packages}"
    python = shlex.quote(sys.executable)
    if util.find_spec("pip") is None:  # as uv makes an environment
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"
