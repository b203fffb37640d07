"""Kernels: from a group of operators to a loop nest, its schedule and its code."""
