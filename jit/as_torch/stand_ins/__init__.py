"""Modules of PyTorch that have no counterpart: what they mean here, or what does no harm."""
