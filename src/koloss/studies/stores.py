"""Stores by their address."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Literal

from koloss.studies.log import Store

Durability = Literal["power", "process"]
"""What an acknowledged event survives: a power cut, or killed processes only."""

_STORES = {
    "sqlite": ("koloss.studies.sqlite", "SQLiteStore"),
    "postgresql": ("koloss.studies.postgres", "PostgresStore"),
    "postgres": ("koloss.studies.postgres", "PostgresStore"),
}


def open_store(url: str | Store, *, durability: Durability = "power") -> Store:
    """The store at an address.

    Parameters
    ----------
    url : str or Store
        ``sqlite:///path/to/file.db`` (a relative path; an absolute one has a fourth slash) or
        ``postgresql://user:secret@host/database``. A store is returned as it is.
    durability : {"power", "process"}
        What an acknowledged event survives: a power cut, or only the death of processes. The latter saves a wait for the disk in
        each transaction; a power cut may then undo the newest ones, and nothing else.

    Returns
    -------
    Store
        Its address (`url`) has no secret in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"sqlite:///{folder}/studies.db")
    ...     store.names()
    []
    """
    check_durability(durability)
    if isinstance(url, Store):
        return url
    if not isinstance(url, str):
        raise TypeError(f"`url` must be a string or a store, got {type(url).__name__}")
    scheme, colon, _ = url.partition("://")
    if not colon or scheme not in _STORES:
        raise ValueError(
            "`url` must begin with sqlite:///, followed by a path, or with postgresql://, "
            f"got {without_secret(url)!r}"
        )
    module, name = _STORES[scheme]
    store: Store = getattr(import_module(module), name).from_url(url, durability=durability)
    return store


def check_durability(durability: str) -> Durability:
    """One of the two that there are."""
    if durability == "power":
        return "power"
    if durability == "process":
        return "process"
    raise ValueError(f"`durability` must be 'power' or 'process', got {durability!r}")


def without_secret(url: str) -> str:
    """An address without its password.

    Examples
    --------
    >>> without_secret("postgresql://me:hush@host/prices?password=hush&sslmode=require")
    'postgresql://me:***@host/prices?password=***&sslmode=require'
    >>> without_secret("postgresql:/me:hush@host/prices")  # a slip of the pen
    '***@host/prices'
    """
    if "://" not in url:
        url = re.sub(r".*@", "***@", url, flags=re.DOTALL)
    # The last @ before the path ends the user's part, and a careless password may have any sign in it.
    url = re.sub(r"(?<=://)([^:/?#]*):.*@", r"\1:***@", url)
    return re.sub(r"(?i)\b(password|passfile|sslpassword)=[^&\s]*", r"\1=***", url)
