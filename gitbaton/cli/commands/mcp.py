"""``git baton mcp``."""

from gitbaton.cli.mcpserver import serve
from gitbaton.cli.options import Globals, Invocation


def command(ctx: Invocation) -> int:
    """Serve snapshot, resume, verify, log, show, diff and revert as tools to an MCP client, on standard input and output.

    Works where it is started, or in --repo-root, until standard input ends. Needs the extra: pip install 'gitbaton[mcp]'.

    Examples:
        git baton mcp   # a client starts it
    """
    options: Globals = ctx.obj
    if options.repo is not None:
        options.repo.close()  # the repository is opened anew for each call
    serve(options.repo_root, options.checkpoint_dir)
    return 0
