"""Arrays: numpy bodies of operators, memory, and the interpreter, which is the reference."""
