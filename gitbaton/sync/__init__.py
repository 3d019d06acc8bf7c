"""Tracks, threads, runs and conversations between machines: fetch what a remote has, join it, and push what it lacks."""

from gitbaton.sync.items import is_thread, named
from gitbaton.sync.push import push
from gitbaton.sync.rounds import fetch, sync
from gitbaton.sync.values import Choice, Synced

__all__ = ["Choice", "Synced", "fetch", "is_thread", "named", "push", "sync"]
