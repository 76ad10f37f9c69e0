"""Runs in a folder."""

from __future__ import annotations

import importlib.metadata


def version_of(package: str) -> str | None:
    """Version of a package; None where it is not installed.

    Examples
    --------
    >>> version_of("numpy") is None, version_of("a-package-that-is-not-there")
    (False, None)
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
