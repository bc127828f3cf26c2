"""`python -m screening` is `screen`."""

from screening.cli import main

if __name__ == "__main__":
    main()
