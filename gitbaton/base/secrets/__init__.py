"""Secrets in words: what looks like a key or a password, and the placeholders that stand for it. Pure; no git, no files."""

from gitbaton.base.secrets.redactor import Redacted, Redactor, SecretMatch, differences, told

__all__ = ["Redacted", "Redactor", "SecretMatch", "differences", "told"]
