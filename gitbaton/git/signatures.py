"""Signatures of files: what of a stat says that a file is unchanged, and from when on that can be relied on."""

from __future__ import annotations

import os

Signature = tuple[int, int, int, int, int]

RACY_NS = 50_000_000  # a file that changed so shortly before it was read may change again and keep its times
_COARSE_NS = 2_000_000_000  # where times are whole seconds


def signature(stat: os.stat_result) -> Signature:
    """What says that a file is unchanged: inode, size, times of content and inode in nanoseconds, mode."""
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode)


def lasting(ctime: int, moment: int, racy: int = RACY_NS) -> bool:
    """Whether a file with this change time can no longer change after ``moment`` and keep it; all in nanoseconds."""
    return ctime < moment - (racy if ctime % 1_000_000_000 else _COARSE_NS)


def settled(found: Signature, before: int) -> bool:
    """Whether a signature taken at ``before`` (nanoseconds) must be another one after every later change."""
    return lasting(found[3], before) and not before - RACY_NS <= found[2] <= before
