"""``git baton mcp``: the verbs of a session as tools of the Model Context Protocol, over standard input and output."""

from gitbaton.mcpserver.serve import serve

__all__ = ["serve"]
