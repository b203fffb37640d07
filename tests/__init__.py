"""Tests of jit, laid out like the package."""
