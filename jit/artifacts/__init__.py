"""Traced functions as files that hold data and no code: `files` writes and reads them."""
