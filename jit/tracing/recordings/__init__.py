"""Recordings: what a call of a traced function runs."""
