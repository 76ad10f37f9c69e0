"""Fixtures of the command line."""

from tests.support.command_line import cli, completed, good, refused, shell, spec, write

__all__ = ["cli", "completed", "good", "refused", "shell", "spec", "write"]
