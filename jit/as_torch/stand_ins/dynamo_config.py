"""`torch._dynamo.config`: settings that programs assign; they change nothing here."""

suppress_errors = False
verbose = False
cache_size_limit = 8
recompile_limit = 8
capture_scalar_outputs = True
