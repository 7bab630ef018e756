"""`python -m warpbench` is the command `warpbench`."""

from .cli import main

if __name__ == "__main__":
    main()
