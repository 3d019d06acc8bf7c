"""Helpers of the tests: real repositories, the real git, the real console script."""

from tests.support.repos import Outcome, Sandbox, examples, find_new_git, integer_clock

__all__ = ["Outcome", "Sandbox", "examples", "find_new_git", "integer_clock"]
