"""Scan for secrets in what is stored or about to be sent: words, messages, notes, conversations and files."""

from gitbaton.care.scanning.objects import (
    NAMED,
    NOT_SCANNED,
    UNFILTERED,
    Hit,
    ScanReport,
    held,
    lacking,
    scan,
    scanner,
    ungated,
)

__all__ = ["NAMED", "NOT_SCANNED", "UNFILTERED", "Hit", "ScanReport", "held", "lacking", "scan", "scanner", "ungated"]
