"""An interpreter of PTX: runs the very text that a GPU's driver would get, and reports what is wrong with it.

It needs numpy, ml_dtypes and no GPU, and knows nothing of `jit`, so that it can stand for a driver in any test.

    parser        text -> functions of instructions
    program       a function -> steps, by the tables of
                    instructions   what only computes (`arithmetic` rounds)
                    accesses       loads, stores, atomic operations (`memory` holds the bytes)
                    warps          shuffles, votes, matches, reductions
                    control        branches, calls, barriers
    machine       the threads that run, in lockstep as far as their ways are one
    launch        grids of blocks

What a kernel must not do is a `findings.Finding`: it names the kernel, the line, the thread, its block and the address.
"""

from .findings import Finding
from .launch import Loaded, launch
from .memory import Memory
from .parser import parse

__all__ = ["Finding", "Loaded", "Memory", "launch", "parse"]
