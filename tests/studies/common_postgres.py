"""What the tests of the store on PostgreSQL do again and again."""

from __future__ import annotations

import pytest

from koloss.errors import StoreError
from koloss.studies.events import Event

FIRST = [Event(1, "created", micros=1, data={"settings": {}})]


def add(store, name="prices", request=None):
    """One more event, in a transaction of its own."""
    with store.transaction(name) as log:
        log.append(
            [Event(log.last + 1, "asked", micros=log.last + 1, decision=log.last, request=request)]
        )
        return log.last


def numbers(store, name="prices"):
    return [event.seq for event in store.events(name)]


def failure(store, body):
    """The error that a transaction ends with."""

    def attempt():
        with store.transaction("prices") as log:
            body(log)

    with pytest.raises(StoreError) as raised:
        attempt()
    return raised.value
