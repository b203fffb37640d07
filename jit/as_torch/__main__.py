"""`python -m jit.as_torch`: run a PyTorch program as it is."""

from jit.as_torch.running import main

if __name__ == "__main__":
    main()
