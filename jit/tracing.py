def trace(f): return f
