"""Helpers of the tests: real repositories, the real git, the real console script."""

from tests.kit.repos import Outcome, Sandbox, find_new_git, integer_clock
from tests.kit.tiers import examples

__all__ = ["Outcome", "Sandbox", "examples", "find_new_git", "integer_clock"]
