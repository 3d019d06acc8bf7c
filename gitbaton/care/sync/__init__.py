"""Tracks, threads, runs and conversations between machines: fetch what a remote has, join it, and push what it lacks."""

from gitbaton.care.sync.items import Choice, Synced, is_thread, named
from gitbaton.care.sync.push import push
from gitbaton.care.sync.rounds import fetch, sync

__all__ = ["Choice", "Synced", "fetch", "is_thread", "named", "push", "sync"]
