"""What others may write, held to its contract: classes of tests to derive from. They need pytest."""

from koloss.testing.stores import StoreContract

__all__ = ["StoreContract"]
