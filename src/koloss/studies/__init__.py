"""Studies: learners with a name that many processes ask and tell, in stores that keep a log of everything that happened."""

from koloss.studies.status import Status
from koloss.studies.store import Event, Snapshot, Store, Transaction, open_store
from koloss.studies.study import Study
from koloss.studies.verify import Report, verify

__all__ = [
    "Event",
    "Report",
    "Snapshot",
    "Status",
    "Store",
    "Study",
    "Transaction",
    "open_store",
    "verify",
]
