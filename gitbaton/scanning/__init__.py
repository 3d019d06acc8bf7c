"""Secrets in what is stored, or about to be sent: in the words of checkpoints, messages, notes, conversations and files."""

from gitbaton.scanning.looking import lacking, scanner
from gitbaton.scanning.stored import scan
from gitbaton.scanning.values import NOT_SCANNED, Hit, Report

__all__ = ["NOT_SCANNED", "Hit", "Report", "lacking", "scan", "scanner"]
