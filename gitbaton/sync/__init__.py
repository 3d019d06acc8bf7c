"""Tracks, threads, runs and conversations between machines: fetch what a remote has, join it, and push what it lacks."""

from gitbaton.sync.items import Choice, Synced, is_thread, named
from gitbaton.sync.push import push
from gitbaton.sync.rounds import fetch, sync

__all__ = ["Choice", "Synced", "fetch", "is_thread", "named", "push", "sync"]
