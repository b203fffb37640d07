"""Kinds of objects that can be watched: what a fingerprint says of them, and what is behind them; see object_kind."""
