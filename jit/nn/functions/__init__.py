"""The functions of `jit.nn.functional` that are written by hand, by family."""
