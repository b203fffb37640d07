"""Surroundings: what a function reads besides its arguments."""
