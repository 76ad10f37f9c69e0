"""Specs and names that nobody wrote in good faith."""
