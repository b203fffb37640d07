"""Processes that work together: groups of them, what they exchange, and what happens when one of them fails."""
