"""Studies: learners that survive, shared by many processes, in stores that keep a log of everything that happened."""

from koloss.studies.events import Event
from koloss.studies.log import Snapshot, Store, Transaction
from koloss.studies.stores import open_store

__all__ = ["Event", "Snapshot", "Store", "Transaction", "open_store"]
