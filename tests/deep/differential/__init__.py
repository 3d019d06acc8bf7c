"""Differential tests: the package of an earlier commit, and this one, do the same in the same repositories."""
