"""The command line as ``python -m rightreasons.cli``."""

from rightreasons.cli.app import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
