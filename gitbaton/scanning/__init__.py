"""Scan for secrets in what is stored or about to be sent: words, messages, notes, conversations and files."""

from gitbaton.scanning.objects import NAMED, NOT_SCANNED, Hit, Report, lacking, scan, scanner

__all__ = ["NAMED", "NOT_SCANNED", "Hit", "Report", "lacking", "scan", "scanner"]
