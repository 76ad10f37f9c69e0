"""`python -m koloss`: the command line."""

from koloss.cli import main

if __name__ == "__main__":
    main()
