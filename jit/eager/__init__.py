"""Eager mode: tensors, dispatch, the namespace of operators, and the context in which they run."""
