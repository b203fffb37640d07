"""GPUs: the nest lowered for threads, and the assembly that LLVM prints of it."""
