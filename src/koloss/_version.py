"""The version of the library, which parts of it need that must not import the whole."""

__version__ = "0.1.0"
