"""`python -m bondic` is the command `bondic`."""

from bondic.cli.main import main

if __name__ == "__main__":
    main()
