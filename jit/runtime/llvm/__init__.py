"""LLVM: the nest lowered to host code, with the functions that it calls."""
