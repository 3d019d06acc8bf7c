"""Scan for secrets in what is stored or about to be sent: words, messages, notes, conversations and files."""

from gitbaton.scanning.objects import NOT_SCANNED, Hit, Report, lacking, scan, scanner

__all__ = ["NOT_SCANNED", "Hit", "Report", "lacking", "scan", "scanner"]
