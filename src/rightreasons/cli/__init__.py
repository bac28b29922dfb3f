"""The command line."""

from rightreasons.cli.commands import app as app
from rightreasons.cli.commands import main as main

__all__ = ["app", "main"]
