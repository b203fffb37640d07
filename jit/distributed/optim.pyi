"""`jit.optim.sharded` at PyTorch's path, for type checkers; the package `jit` makes this module."""

from jit.optim.sharded import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
