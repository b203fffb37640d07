"""Shortcuts: the native way through a traced call."""
