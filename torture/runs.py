"""Runs that are killed, folders that are shared, files that are damaged."""
