"""Scan for secrets in what is stored or about to be sent: words, messages, notes, conversations and files."""

from gitbaton.scanning.objects import lacking, scanner
from gitbaton.scanning.stored import scan
from gitbaton.scanning.values import NOT_SCANNED, Hit, Report

__all__ = ["NOT_SCANNED", "Hit", "Report", "lacking", "scan", "scanner"]
