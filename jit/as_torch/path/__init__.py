"""A folder for `sys.path`: processes that start without the door find a `torch` in it that opens it."""
