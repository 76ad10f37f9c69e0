"""How a process takes part in a study: the state in memory, transactions, and threads whose calls are committed together.

A transaction locks the study, applies the events of others, lets leases run out, carries out what waits, appends, and commits. Where
anything fails the state is thrown away, and made again from the newest snapshot and the events since. Threads put what they want done into
a queue; one of them carries out all of it in one transaction, and one wait for the disk serves them all. The others do not wait for a
lock, at which those that have their answers would stand in the way, but to be woken.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from numpy.linalg import LinAlgError

from koloss.errors import (
    CommitUnknown,
    DesignNotConverged,
    KolossError,
    NotPositiveDefinite,
    PolicyError,
    SnapshotError,
    StoreError,
)
from koloss.learners.sharing import Forks
from koloss.studies.operations import Operation, Turn
from koloss.studies.state import State, copied, grouped
from koloss.studies.store import Snapshot, Store, Transaction

log = logging.getLogger("koloss.studies")

ATTEMPTS, PATIENCE = 6, 0.05
"""How often what may have been committed is looked for, or done again; and seconds before the second time, doubled each time."""

LONGEST_WAIT = 1.0
"""Seconds after which a thread looks for itself, should whoever was to wake it have been interrupted."""

MOMENTS, MOMENT = 10, 1e-4
"""How often as many calls as the last time are looked for before a transaction, and seconds in between."""

SNAPSHOT_EVENTS, SNAPSHOT_BYTES = 1000, 250
"""Events of one process between its snapshots; more where there would be more bytes per event than these."""

SNAPSHOT_SECONDS, SNAPSHOT_SHARE = 0.25, 0.05
"""Or seconds that they took the learner; more where the snapshot would take a larger share of them."""

JUMP = 60_000_000
"""Microseconds by which a clock may be behind the newest event before that is worth a word."""

REFUSALS = (KolossError, ValueError, TypeError)
"""Errors of a single caller, before which nothing has changed."""

FAILURES = (StoreError, PolicyError, DesignNotConverged, NotPositiveDefinite, LinAlgError)
"""Errors among these that may come from the middle of something."""

Op = TypeVar("Op", bound=Operation)
R = TypeVar("R")


class Worker:
    """One process's part in a study; threads share it."""

    def __init__(self, store: Store, name: str, policy: Any, clock: Callable[[], float]) -> None:
        self.store, self.name, self._policy, self._clock = store, name, policy, clock
        self._settle_here()

    def _settle_here(self) -> None:
        """Belong to this process."""
        self._home = Forks.count
        self._mutex = threading.Lock()  # of the state
        self._crowd = 1  # how many calls were carried out together last time
        self._gate, self._led = threading.Lock(), False  # whether a thread carries out what waits
        self._queue: deque[Operation] = deque()
        self._state: State | None = None
        self._written, self._spent = 0, 0.0  # events and seconds since this process's last snapshot
        self._size, self._cost = 0, 0.0  # bytes of the last snapshot, and seconds that it took
        self._warned = False

    def _check_fork(self) -> None:
        # What a fork inherits is its parent's: a mutex that may be taken, and a learner in the middle of something.
        if self._home != Forks.count:
            self._settle_here()

    def submit(self, operation: Op) -> Op:
        """Have an operation carried out, by this thread or by another that is at it."""
        self.enqueue(operation)
        return self.finish(operation)

    def enqueue(self, operation: Operation) -> None:
        """Let an operation wait for whoever carries out the next ones."""
        self._check_fork()
        if operation.request is None and self.store.may_lose_answers:
            operation.request, operation.generated = uuid.uuid4().hex, True
        self._queue.append(operation)

    def finish(self, operation: Op) -> Op:
        """See to it that an operation that waits is carried out."""
        leading = False
        try:
            while not operation.done and not leading:
                with self._gate:
                    if not self._led:
                        leading = self._led = True
                if not leading:
                    operation.woken.wait(LONGEST_WAIT)
                    operation.woken.clear()
            if not operation.done:
                self._await_others()
                with self._mutex:
                    waiting = [self._queue.popleft() for _ in range(len(self._queue))]
                    if operation not in waiting:  # whoever had it was interrupted
                        waiting.append(operation)
                    self._crowd = len(waiting)
                    try:
                        self._work(waiting)
                    finally:  # where this thread is interrupted, others go on
                        self._leave([one for one in waiting if one is not operation])
        finally:
            if leading:
                self._led = False
                with suppress(IndexError):
                    self._queue[0].woken.set()
        if operation.error is not None:
            raise operation.error
        return operation

    def _leave(self, others: list[Operation]) -> None:
        """Leave what is not done to its thread; of what may have been committed and has no key it is said that this is unknown."""
        for one in others:
            if one.committing and one.request is None and not one.done:
                one.fail(CommitUnknown("another thread was interrupted while it committed"))
            elif not one.done:
                self._queue.append(one)

    def _await_others(self) -> None:
        """Give those who were just answered a moment to come back, rather than let them wait for a commit of one."""
        for _ in range(MOMENTS):
            if len(self._queue) >= self._crowd:
                return
            time.sleep(MOMENT)

    def look(self, at: Callable[[State], R]) -> R:
        """Something of the state after all that is committed; changes nothing."""
        self._check_fork()
        with self._mutex:
            state = self._loaded()
            self._catch_up(state, None)
            return at(state)

    # Transactions.

    def _work(self, waiting: list[Operation]) -> None:
        """Carry out all that waits: unless this thread is interrupted, each of these has an answer or has failed."""
        unknown: CommitUnknown | None = None
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                if attempt:
                    time.sleep(PATIENCE * 2**attempt)
                self._carry_out(waiting)
                return
            except CommitUnknown as error:
                # With a key it is seen next time whether it happened.
                self._state, unknown = None, error
                log.warning("study %s: %s", self.name, error)
                for operation in waiting:
                    if operation.request is None or last:
                        operation.fail(error)
                waiting = [operation for operation in waiting if not operation.done]
                if not waiting:
                    return
            except Exception as error:
                self._state = None
                if unknown and isinstance(error, StoreError) and not last:
                    continue  # a database that comes back will say
                if unknown is None and len(waiting) > 1 and not isinstance(error, StoreError):
                    for (
                        operation
                    ) in waiting:  # one is to blame, and the others shall not pay for it
                        self._work([operation])
                    return
                for operation in waiting:
                    operation.fail(unknown or error)  # what cannot be seen has not failed
                return
            except BaseException:
                self._state = None
                raise

    def _carry_out(self, operations: list[Operation]) -> None:
        """One transaction."""
        for operation in operations:
            operation.committing = False
        self._loaded()  # outside of the transaction, since it may take long
        with self.store.transaction(self.name) as transaction:
            state = self._loaded()
            self._catch_up(state, transaction)
            begun, before = time.thread_time(), state.seq
            turn = Turn(state, transaction, self._now(state))
            results = {one: _tried(one, turn) for one in operations if one.before_leases}
            turn.expire()
            results |= {one: _tried(one, turn) for one in operations if not one.before_leases}
            self._written += state.seq - before
            self._spent += time.thread_time() - begun
            if self._wants_snapshot(state):
                self._save_snapshot(state, transaction)
            for operation in operations:
                operation.committing = True
        for operation in operations:
            operation.end(*results[operation])

    def _now(self, state: State) -> int:
        """Microseconds since 1970; never before the newest event, whatever the clock does."""
        now = round(self._clock() * 1e6)
        if now < state.micros - JUMP and not self._warned:
            self._warned = True
            behind = (state.micros - now) / 1e6
            log.warning(
                "study %s: this clock is %.0f s behind the newest event; time stands still until it has caught up",
                self.name,
                behind,
            )
        return max(now, state.micros)

    # The state.

    def _loaded(self) -> State:
        """The state in memory, or one from the newest snapshot that is intact."""
        if self._state is None:
            self._state = self._load()
        return self._state

    def _load(self) -> State:
        first = self.store.events(self.name, 0, 1)[0]
        state = State(first, copied(self._policy))
        self._size = len(first.data["state"])
        if state.restorable:
            for snapshot in self.store.snapshots(self.name):
                try:
                    state = State.from_bytes(first, snapshot, copied(self._policy))
                    break
                except SnapshotError as error:
                    log.warning("study %s: snapshot %d: %s", self.name, snapshot.seq, error)
        if state.seq == 1:
            state.begin()
        reached = state.seq
        self._catch_up(state, None)
        self._written, self._spent = state.seq - reached, 0.0  # too many call for a snapshot
        return state

    def _catch_up(self, state: State, source: Transaction | None) -> None:
        """Apply the events of others, after the newest event here, which has to be there as it was."""
        self._state = None  # should this fail in the middle
        after = state.seq - 1
        newer = self.store.stream(self.name, after) if source is None else source.stream(after)
        known = next(newer, None)
        if known is None or known.micros != state.micros:
            what = "fewer" if known is None else "other"
            raise StoreError(
                f"the study {self.name!r} has {what} events than before: its store was replaced"
            )
        for group in grouped(newer):
            state.apply(group)
        self._state = state

    def _wants_snapshot(self, state: State) -> bool:
        if not state.restorable:
            return False
        many = self._written >= max(SNAPSHOT_EVENTS, self._size / SNAPSHOT_BYTES)
        long = self._spent >= max(SNAPSHOT_SECONDS, self._cost / SNAPSHOT_SHARE)
        return self._written > 0 and (many or long)

    def _save_snapshot(self, state: State, transaction: Transaction) -> None:
        begun = time.thread_time()
        content = state.to_bytes()
        transaction.save_snapshot(Snapshot(state.seq, content))
        self._cost, self._size = time.thread_time() - begun, len(content)
        self._written, self._spent = 0, 0.0
        log.info("study %s: snapshot after event %d", self.name, state.seq)


def _tried(operation: Operation, turn: Turn) -> tuple[Any, Exception | None]:
    """An operation's answer, or why it is refused; what else goes wrong ends the transaction."""
    try:
        return operation.carry_out(turn), None
    except REFUSALS as error:
        if turn.changing or isinstance(error, FAILURES):
            raise
        return None, error
