"""Secrets in words: what looks like a key or a password, and the placeholders that stand for it. Pure; no git, no files."""

from gitbaton.secrets.redactor import Finding, Redactor

__all__ = ["Finding", "Redactor"]
