"""Algorithms 2 to 4 of the paper: the whole loss is told."""
