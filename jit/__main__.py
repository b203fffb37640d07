"""`python -m jit`: the command line."""

from jit.command.cli import main

if __name__ == "__main__":
    main()
