"""A Dask cluster as an executor: one that is started here, or one that runs elsewhere.

Whatever has `submit` can play games; this is the executor that is shipped. Beyond Dask's own it does three things. Arrays
that many tasks share travel once, and what a worker had that died is sent again by the scheduler. A task is done with one
thread for linear algebra, one task at a time in a process, as by processes of our own: so that results are the same. And it
tells a worker that was killed, whose task can be done elsewhere, from a scheduler that is gone.
"""

from __future__ import annotations

import io
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from logging import CRITICAL
from typing import Any

import numpy as np

from koloss.core.threads import threads_for
from koloss.errors import KolossError
from koloss.games.workers import ClusterLost, processes

LARGE = 100_000
"""Bytes of an array that is sent once, and not with every task."""

PATIENCE = 20.0
"""Seconds in which a scheduler must answer."""

_ONE = threading.Lock()
"""Held while a task is done: what games use, such as warnings and standard output, belongs to a process."""


class ClusterError(KolossError, RuntimeError):
    """A cluster that cannot be started or joined, and why."""


class Cluster(Executor):
    """A Dask cluster, as a `concurrent.futures.Executor`; needs `koloss[distributed]`.

    Parameters
    ----------
    address : str
        "local" starts a scheduler and workers on this machine, which end with this object; otherwise the address of a
        scheduler that runs, such as ``tcp://10.0.0.7:8786``. It and its workers are left running.
    jobs : int, optional
        Worker processes of a local cluster; as many as there are processors by default.

    Raises
    ------
    ImportError
        Where Dask is not installed.
    ClusterError
        Where no scheduler answers at this address.

    Notes
    -----
    A task whose worker dies is done again by another one. One that has lost four workers is given up by the cluster and done
    by a process of this machine, alone. Where the scheduler is lost, `ClusterLost` says so; runs that had come back by then
    are in their folder, and the same call goes on with the others.

    Examples
    --------
    >>> from koloss.games import Cluster
    >>> with Cluster("local", jobs=2) as cluster:  # doctest: +SKIP
    ...     kl.replicate(make_learner, make_adversary, rounds=1000, runs=60, executor=cluster)
    """

    def __init__(self, address: str = "local", *, jobs: int | None = None) -> None:
        if not str(address).strip():
            raise ValueError(f'`address` must be "local" or that of a scheduler, got {address!r}')
        count = processes(jobs)
        try:
            import cloudpickle
            import distributed
        except ImportError as error:
            message = "a cluster needs dask and distributed: pip install 'koloss[distributed]'"
            raise ImportError(message) from error
        self.address = address
        self._cloudpickle, self._killed = cloudpickle, distributed.scheduler.KilledWorker
        self._config = distributed.client.dask.config
        self._sent: dict[int, tuple[Any, Any]] | None = None  # by id: arrays, and Dask's futures
        self._cluster = None
        if address == "local":
            self._cluster = distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, memory_limit=0, dashboard_address=":0", silence_logs=CRITICAL
            )  # fmt: skip
        else:
            _knock(address, distributed.comm)
        try:
            self._client = distributed.Client(
                self._cluster or address, timeout=PATIENCE, set_as_default=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise ClusterError(f"no cluster at {address!r}: {error}") from error

    @property
    def scheduler(self) -> str:
        """The address by which others may join it."""
        return str(self._client.scheduler.address)

    @property
    def dashboard(self) -> str:
        """Where to watch it in a browser, if Bokeh is installed where the scheduler runs."""
        return str(self._client.dashboard_link)

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Tasks that are submitted meanwhile share the large arrays among what they need: each is sent once."""
        self._sent = {}
        try:
            yield
        finally:
            self._sent = None

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Let a worker call a function; it and its arguments must be picklable, by cloudpickle."""
        with self._config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            packed, arrays = self._pack((function, arguments, named))
            theirs = self._client.submit(_call, packed, arrays, pure=False)
        ours: Future[Any] = Future()
        # One that nobody waits for any more is forgotten where it has not begun.
        ours.add_done_callback(lambda _: theirs.release())
        theirs.add_done_callback(lambda _: self._hand_over(theirs, ours))
        return ours

    def _hand_over(self, theirs: Any, ours: Future[Any]) -> None:
        """What became of a task, once it has ended."""
        if not ours.set_running_or_notify_cancel():
            return
        try:
            ours.set_result(theirs.result())
        except self._killed as error:
            ours.set_exception(BrokenExecutor(str(error)))
        except BaseException as error:
            # Where it ended with an error, that is the task's; otherwise its result did not arrive.
            gone = ClusterLost(f"the scheduler of the cluster {self.address!r} is gone")
            ours.set_exception(error if theirs.status == "error" else gone)

    def _pack(self, task: Any) -> tuple[bytes, list[Any]]:
        """A task without its large arrays, and Dask's futures of these."""
        sent = {} if self._sent is None else self._sent
        client, numbers = self._client, dict[int, int]()

        class Pickler(self._cloudpickle.Pickler):  # type: ignore[misc, name-defined]
            def persistent_id(self, thing: Any) -> tuple[int, bool] | None:
                if type(thing) is not np.ndarray or thing.nbytes < LARGE or thing.dtype.hasobject:
                    return None
                if id(thing) not in sent:
                    # Not by `scatter`: that is lost with the workers that have it.
                    sent[id(thing)] = thing, client.submit(_same, thing, pure=False)
                return numbers.setdefault(id(thing), len(numbers)), thing.flags.writeable

        file = io.BytesIO()
        Pickler(file).dump(task)
        return file.getvalue(), [sent[key][1] for key in numbers]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; one that was started here ends."""
        self._client.close(timeout=2)
        if self._cluster is not None:
            self._cluster.close()


def _knock(address: str, comm: Any) -> None:
    """Refuse an address where nobody listens; Dask's client would wait, and complain again when it is forgotten."""
    try:
        where = comm.get_address_host_port(address)
    except ValueError as error:
        rule = 'must be "local" or like tcp://10.0.0.7:8786'
        raise ValueError(f"`address` {rule}, got {address!r}: {error}") from error
    try:
        socket.create_connection(where, timeout=PATIENCE).close()
    except OSError as error:
        raise ClusterError(f"no scheduler answers at {address!r}: {error}") from error


def _same(array: Any) -> Any:
    return array


def _call(packed: bytes, arrays: list[Any]) -> Any:
    """Do a task, in a worker."""
    copies: dict[int, Any] = {}

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: tuple[int, bool]) -> Any:
            number, writeable = place
            if writeable:  # others have the same array
                return copies.setdefault(number, arrays[number].copy())
            arrays[number].flags.writeable = False
            return arrays[number]

    with _ONE, threads_for(0):
        function, arguments, named = Unpickler(io.BytesIO(packed)).load()
        return function(*arguments, **named)
