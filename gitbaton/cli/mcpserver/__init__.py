"""``git baton mcp``: the verbs of a session as tools of the Model Context Protocol, over standard input and output."""

import logging
import os
import sys

from gitbaton.base.errors import BatonError


def serve(repo_root: str | None, checkpoint_dir: str | None) -> None:
    """Serve the tools until standard input ends. ``repo_root`` and ``checkpoint_dir`` as Baton takes them; the directory of
    the process is the server's place from now on. Raises BatonError without the SDK."""
    try:
        from gitbaton.cli.mcpserver.serve import run
    except ImportError as error:  # version 1 of the SDK has no mcp_types
        hint = "pip install 'gitbaton[mcp]'"
        raise BatonError(f"the MCP server needs the Python package 'mcp': {error}", hint) from None
    if "GIT_BATON_TRACE" not in os.environ:
        logging.disable(logging.CRITICAL)  # what goes wrong in a call is its answer
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)
    run(repo_root, checkpoint_dir)
