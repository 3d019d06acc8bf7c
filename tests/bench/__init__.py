"""Benchmarks: not tests. ``python -m tests.bench`` measures the budgets beside plain git and prints a table."""
