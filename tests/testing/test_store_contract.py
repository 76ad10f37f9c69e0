"""The contract of a store, for stores of one's own."""

from __future__ import annotations

import inspect

import pytest

from koloss.testing import StoreContract


def test_the_fixture_must_be_overridden():
    with pytest.raises(NotImplementedError, match="override the fixture `connect`"):
        inspect.unwrap(StoreContract.connect)(StoreContract())
