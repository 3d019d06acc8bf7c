"""Tracks between machines: what a remote has, fetching it, joining it, and pushing what it lacks."""

from gitbaton.sync.fetching import fetch
from gitbaton.sync.join import join
from gitbaton.sync.naming import is_thread, named
from gitbaton.sync.push import push
from gitbaton.sync.rounds import sync
from gitbaton.sync.values import Choice, Exposure, Fetched, Gathered, Joining, Move, Pushing, Synced

__all__ = [
    "Choice",
    "Exposure",
    "Fetched",
    "Gathered",
    "Joining",
    "Move",
    "Pushing",
    "Synced",
    "fetch",
    "is_thread",
    "join",
    "named",
    "push",
    "sync",
]
