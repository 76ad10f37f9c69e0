"""Studies: learners with a name that many processes ask and tell, and that lose nothing."""

from koloss.studies.events import Event
from koloss.studies.log import Snapshot, Store, Transaction
from koloss.studies.status import Status
from koloss.studies.study import Study

__all__ = ["Event", "Snapshot", "Status", "Store", "Study", "Transaction"]
