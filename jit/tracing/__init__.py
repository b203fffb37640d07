"""Recording functions and running recordings: `function` is what `jit.trace` makes; `recorder` records.

Empty on purpose: the modules below are imported one by one, some of them by what `function` rests on.
"""
