"""How a function becomes a recording and is run from it: `function` is what `jit.trace` makes; `tracer` records.

Empty on purpose: the modules below are imported one by one, some of them by what `function` rests on.
"""
