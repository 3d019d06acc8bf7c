"""The law of storage: which refs, which commits, in which order they are written, and how they are read and trusted."""

from gitbaton.store.read import History, Problem, Store
from gitbaton.store.refs import CHAINS, CURRENT, NOTES, TIPS, chain_ref, tip_ref, track_of
from gitbaton.store.write import Draft, append, repair

__all__ = [
    "CHAINS",
    "CURRENT",
    "NOTES",
    "TIPS",
    "Draft",
    "History",
    "Problem",
    "Store",
    "append",
    "chain_ref",
    "repair",
    "tip_ref",
    "track_of",
]
