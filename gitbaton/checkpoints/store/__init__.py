"""Storage of checkpoints: refs, commits, write order, and reading that trusts nothing. The law is checkpoint_protocol.md."""

from gitbaton.checkpoints.store.chain import History, Problem
from gitbaton.checkpoints.store.read import Store
from gitbaton.checkpoints.store.refs import (
    CHAINS,
    CURRENT,
    NOTES,
    SAFETY,
    TIPS,
    chain_ref,
    fetched_ref,
    safety_ref,
    tip_ref,
    track_of,
)

__all__ = [
    "CHAINS",
    "CURRENT",
    "NOTES",
    "SAFETY",
    "TIPS",
    "History",
    "Problem",
    "Store",
    "chain_ref",
    "fetched_ref",
    "safety_ref",
    "tip_ref",
    "track_of",
]
