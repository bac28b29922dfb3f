"""The command line."""

from rightreasons.cli.app import main as main

__all__ = ["main"]
