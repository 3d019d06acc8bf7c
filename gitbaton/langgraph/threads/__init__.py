"""LangGraph threads in git: what a saver stores, kept apart from LangGraph itself, so that every verb can read it."""
