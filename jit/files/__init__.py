"""Files of tensors: those of torch and safetensors, read and written without torch and without running code.

`loading` opens a file and asks `kinds` what it is; `archives` and `streams` find the parts of torch's two formats,
whose pickles the `machine` reads; `saving` writes.
"""
