"""The version of the library, where everyone can import it."""

__version__ = "0.1.0"
