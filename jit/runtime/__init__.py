"""Graphs to numbers: interpreter, plans and kernels."""
