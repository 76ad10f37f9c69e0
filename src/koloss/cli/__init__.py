"""The command line."""

from koloss.cli.app import main

__all__ = ["main"]
