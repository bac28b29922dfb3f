"""The command line as ``python -m rightreasons.cli``."""

from rightreasons.cli.commands import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
