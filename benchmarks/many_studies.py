"""Many studies on one PostgreSQL server: decisions per second in total, whose CPU they take, and what a full store costs.

Every study has a caller of its own, a thread that asks and tells. Callers are spread over processes, and those over the
cores that the server needs too: here clients and server share one machine, so that the CPU time of each is counted. The
server is Debian's with PostgreSQL's own settings, its data on the disk.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import koloss as kl
from benchmarks.studies import VALUE, disk, learner
from benchmarks.tables import Table
from koloss.studies import open_store

PROCESSES = 16  # at most, beside each other
VISITS = 30
BATCH = 100  # decisions in one call, in the last rows of a durability
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = ("shared_buffers=128MB", "max_wal_size=1GB", "autovacuum=on", "max_connections=100")


def run(full: bool = False) -> list[Table]:
    """In full with a store of 100,000 and more repeats, about ten minutes; otherwise three."""
    logging.getLogger("koloss.studies").setLevel(logging.ERROR)  # that "process" is less is known
    with _server() as server:
        if server is None:
            return []
        return [
            _rates(server, (1, 2, 4, 16, 64), repeats=5 if full else 3, seconds=4 if full else 2),
            _crowded(server, (VISITS, 1000, 10_000, *((100_000,) if full else ()))),
        ]


@contextlib.contextmanager
def _server() -> Iterator[Any]:
    """A PostgreSQL server with its data on the disk, where there is one to start."""
    from tests.support.server import Server, find_binaries

    binaries = find_binaries()
    if binaries is None or importlib.util.find_spec("psycopg") is None:
        yield None
        return
    server = Server(binaries, place=tempfile.gettempdir(), settings=SETTINGS)
    try:
        yield server
    finally:
        server.stop()


# Callers: processes that wait to be told which studies to drive, and for how long.


@dataclass(frozen=True)
class Load:
    """What one process does: a thread for each of these studies."""

    url: str
    durability: str
    studies: tuple[str, ...]
    batch: int | None  # decisions in one call
    seconds: float


@dataclass(frozen=True)
class Driven:
    """What came of it."""

    rate: float  # decisions per second, of all threads
    decisions: int
    cpu: float  # seconds


def _serve(pipe: Any) -> None:
    """Be a process of callers."""
    logging.getLogger("koloss.studies").setLevel(logging.ERROR)
    stores: dict[tuple[str, str], Any] = {}
    studies: dict[tuple[str, str, str], kl.Study] = {}
    while (load := pipe.recv()) is not None:
        place = load.url, load.durability
        if place not in stores:
            stores[place] = open_store(load.url, durability=load.durability)
        for name in load.studies:
            if (*place, name) not in studies:
                studies[*place, name] = kl.Study.open(stores[place], name)
        chosen = [studies[*place, name] for name in load.studies]
        with ThreadPoolExecutor(
            len(chosen)
        ) as callers:  # what others have done since is not for the clock
            list(callers.map(partial(_step, batch=load.batch), chosen))
        pipe.send("ready")
        driven = _drive(chosen, load, begin=pipe.recv())
        stores[place].close()  # when a connection ends the server counts its syncs
        pipe.send(driven)


def _step(study: kl.Study, batch: int | None) -> None:
    if batch is None:
        study.tell(study.ask().id, VALUE)
    else:
        study.tell(study.ask(batch), np.full(batch, VALUE))


def _drive(studies: Sequence[kl.Study], load: Load, begin: float) -> Driven:
    def call(study: kl.Study) -> tuple[int, float]:
        """How many decisions, and how many of them per second."""
        count = 0
        while time.monotonic() < begin + load.seconds:
            _step(study, load.batch)
            count += load.batch or 1
        return count, count / (time.monotonic() - begin)

    with ThreadPoolExecutor(len(studies)) as callers:
        time.sleep(max(begin - time.monotonic(), 0.0))
        spent = time.process_time()
        counts, rates = zip(*callers.map(call, studies), strict=True)
        return Driven(sum(rates), sum(counts), time.process_time() - spent)


@contextlib.contextmanager
def _callers() -> Iterator[list[Any]]:
    """The near ends of the pipes to all processes."""
    spawning = multiprocessing.get_context("spawn")
    pairs = [spawning.Pipe() for _ in range(PROCESSES)]
    crowd = [spawning.Process(target=_serve, args=(far,), daemon=True) for _, far in pairs]
    for process in crowd:
        process.start()
    try:
        yield [near for near, _ in pairs]
    finally:
        for near, _ in pairs:
            near.send(None)
        for process in crowd:
            process.join(30)


# What the machine says: seconds of CPU, of the server and of nobody, and syncs of the server's log.


@dataclass(frozen=True)
class Meters:
    server: float
    idle: float  # of all cores, waits for the disk among them
    everything: float


def _read_meters(server: Any) -> Meters:
    with open("/proc/stat") as lines:
        ticks = [int(word) for word in next(lines).split()[1:9]]
    spent = _server_seconds(server.process.pid)
    return Meters(spent, (ticks[3] + ticks[4]) / TICKS, sum(ticks) / TICKS)


def _syncs(server: Any) -> float:
    """How often the server has waited for its log to reach the disk; not a number where its version does not say."""
    count = "SELECT sum((to_jsonb(wal) ->> 'wal_sync')::bigint) FROM pg_stat_wal AS wal"
    with server.connect() as connection:
        known = connection.execute("SELECT to_regclass('pg_stat_wal') IS NOT NULL").fetchone()[0]
        found = connection.execute(count).fetchone()[0] if known else None
    return np.nan if found is None else float(found)


def _server_seconds(postmaster: int) -> float:
    """CPU time of a server: its first process, those that it has, and those that have ended."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    total = sum(_ticks(postmaster))
    for child in children:
        with contextlib.suppress(OSError):  # it has just ended
            total += sum(_ticks(int(child))[:2])
    return total / TICKS


def _ticks(process: int) -> list[int]:
    """User and system time, then those of children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [int(word) for word in fields[11:15]]


# Decisions per second, over more and more studies.


def _rates(server: Any, sizes: Sequence[int], repeats: int, seconds: float) -> Table:
    table = Table(
        "",
        [
            "survives",
            "studies",
            "decisions per call",
            "decisions per second",
            "over one",
            "clients: ms of CPU",
            "server: ms of CPU",
            "WAL syncs",
            "cores used",
            "machine idle",
            "limit",
        ],
        f"A caller for each study, in up to {PROCESSES} processes; clients and server share {os.cpu_count()} cores. A decision is an ask and a tell, two "
        f"transactions; milliseconds of CPU and WAL syncs are per decision. Medians of {repeats}, in turn. Cores used: by clients and server; other work on the machine "
        "is not in it, and not idle either. The limit: CPU where less than a tenth of the machine is idle, otherwise the disk where commits wait for it, or the "
        "round trips of single callers.",
    )
    with server.connect() as connection:
        connection.execute("CREATE SCHEMA bench_rates")
    url = server.url("bench_rates")
    names = [f"study-{k}" for k in range(max(sizes))]
    with contextlib.closing(open_store(url, durability="process")) as store:
        for name in names:
            kl.Study.create(store, name, learner=learner())
    kinds = [(durability, size, None) for durability in ("power", "process") for size in sizes]
    kinds += [(durability, 16, BATCH) for durability in ("power", "process")]
    found: dict[Any, list[list[float]]] = {kind: [] for kind in kinds}
    waits = []
    with tempfile.TemporaryDirectory(prefix="koloss-bench-") as folder, _callers() as pipes:
        for _ in range(repeats):
            for kind in kinds:
                durability, size, batch = kind
                shares = [tuple(names[k:size:PROCESSES]) for k in range(min(size, PROCESSES))]
                loads = [Load(url, durability, share, batch, seconds) for share in shares]
                found[kind].append(_measure(server, pipes, loads))
            waits.append(disk(Path(folder)))
    table.title = (
        f"Many studies on one PostgreSQL; one `fdatasync` takes {1e3 * median(waits):.2f} ms"
    )
    for kind in sorted(kinds, key=lambda kind: kind[0] == "process"):
        durability, size, batch = kind
        rate, *parts, idle = np.median(found[kind], axis=0).tolist()
        alone = float(np.median([lap[0] for lap in found[durability, 1, None]]))
        waiting = "round trips" if durability == "process" else "disk"
        limit = "CPU" if idle < 0.1 else waiting
        table.add(durability, size, batch or 1, round(rate), rate / alone, *parts, idle, limit)
    return table


def _measure(server: Any, pipes: list[Any], loads: list[Load]) -> list[float]:
    """Decisions per second; CPU of clients and server in ms, and WAL syncs, per decision; cores in use by these, and the idle share of all."""
    used, syncs = pipes[: len(loads)], _syncs(server)
    for pipe, load in zip(used, loads, strict=True):
        pipe.send(load)
    for pipe in used:
        pipe.recv()
    before = _read_meters(server)
    begin = time.monotonic() + 0.02
    for pipe in used:
        pipe.send(begin)
    driven = [pipe.recv() for pipe in used]
    after = _read_meters(server)
    time.sleep(0.1)
    decisions, clients = sum(one.decisions for one in driven), sum(one.cpu for one in driven)
    first = sum(len(load.studies) * (load.batch or 1) for load in loads)  # before the clock
    return [
        sum(one.rate for one in driven),
        1e3 * clients / decisions,
        1e3 * (after.server - before.server) / decisions,
        (_syncs(server) - syncs) / (decisions + first),
        (after.server - before.server + clients) / loads[0].seconds,
        (after.idle - before.idle) / (after.everything - before.everything),
    ]


# A store that holds many.


def small_learner() -> kl.BanditExpWeights:
    """Ten prices, so that there is room for many."""
    prices = np.linspace(0, 1, 10)[:, None]
    return kl.BanditExpWeights(
        kl.Points(prices), kl.Gaussian(0.3), horizon=10**6, loss_range=(0, 1), rng=0
    )


def _crowded(server: Any, sizes: Sequence[int]) -> Table:
    table = Table(
        "A PostgreSQL store that holds many studies",
        [
            "points of each learner",
            "studies",
            "kilobytes per study",
            "ms to open one",
            "ask+tell per second",
            f"over {VISITS} studies",
            "ms to list the names",
            "ms to create one",
        ],
        f"Studies with nothing but their first event; medians over {VISITS} of each store, chosen at random, the stores in turn, durability 'process'. "
        "Kilobytes: tables and indexes over the number of studies. The aim: no growth but that of the list.",
    )
    kinds = [(10, size) for size in sizes] + [(100, size) for size in sizes[:2]]
    stores, made = {}, {}
    for points, size in kinds:
        with server.connect() as connection:
            connection.execute(f"CREATE SCHEMA bench_{points}_{size}")
        store = open_store(server.url(f"bench_{points}_{size}"), durability="process")
        stores[points, size], made[points, size] = store, _filled(store, points, size)
    visits: dict[Any, list[tuple[float, float, float]]] = {kind: [] for kind in kinds}
    rng = np.random.default_rng(0)
    order = {kind: rng.permutation(kind[1])[:VISITS] for kind in kinds}
    for k in range(VISITS):
        for kind, store in stores.items():
            visits[kind].append(_visit(store, f"study-{order[kind][k]}"))
    for kind, store in stores.items():
        points, size = kind
        opening, step, listing = np.median(visits[kind], axis=0).tolist()
        alone = float(np.median([step for _, step, _ in visits[points, VISITS]]))
        kilobytes = store.facts()["bytes"] / size / 1e3
        table.add(
            points,
            size,
            kilobytes,
            1e3 * opening,
            round(1 / step),
            alone / step,
            1e3 * listing,
            made[kind],
        )
        store.close()
    return table


def _filled(store: Any, points: int, size: int) -> float | str:
    """Begin so many studies; milliseconds for each after the first."""
    made = learner() if points == 100 else small_learner()
    kl.Study.create(store, "study-0", learner=made)
    first = store.events("study-0", 0, 1)
    begin = time.perf_counter()
    for k in range(1, size):
        store.create(f"study-{k}", first)
    return 1e3 * (time.perf_counter() - begin) / (size - 1) if size > 1 else "-"


def _visit(store: Any, name: str, steps: int = 10) -> tuple[float, float, float]:
    """Seconds to open a study, of an ask and a tell there, and to list all names."""
    begin = time.perf_counter()
    study = kl.Study.open(store, name)
    opened = time.perf_counter()
    _step(study, None)
    warm = time.perf_counter()
    for _ in range(steps):
        _step(study, None)
    stepped = time.perf_counter()
    store.names()
    return opened - begin, (stepped - warm) / steps, time.perf_counter() - stepped
