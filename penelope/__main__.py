"""`python -m penelope`."""

from penelope.cli import main

if __name__ == "__main__":
    main()
