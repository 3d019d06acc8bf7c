"""Secrets in words: what looks like a key or a password, and the placeholders that stand for it. Pure; no git, no files."""

from gitbaton.secrets.redactor import Finding, Redacted, Redactor, differences, told

__all__ = ["Finding", "Redacted", "Redactor", "differences", "told"]
