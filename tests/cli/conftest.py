"""Fixtures of the command line."""

from tests.support.command_line import cli, good, refused, shell, spec, write

__all__ = ["cli", "good", "refused", "shell", "spec", "write"]
