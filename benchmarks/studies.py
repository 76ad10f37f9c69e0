"""Studies: ask and tell in one process and in four, against Optuna's storages and the disk's own time.

Everybody writes to one disk, in turn. PostgreSQL is Debian's, as the tests start it, with its data on the same disk.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import race
from koloss.studies import open_store

NAME, VALUE = "prices", 0.3
CROWD = 4  # processes beside each other
BATCH = 1000  # decisions in one call, where a long history is made
Step = Callable[[], Any]  # an ask and a tell


def run(full: bool = False) -> list[Table]:
    """In full with a history of a million events and more repeats, about ten minutes; otherwise two."""
    logging.getLogger("koloss.studies").setLevel(logging.ERROR)  # that "process" is less is known
    repeats = 7 if full else 3
    histories = (0, 10**4, 10**6) if full else (0, 10**4)
    with tempfile.TemporaryDirectory(prefix="koloss-bench-") as name, _server(histories) as server:
        folder = Path(name)
        return [
            _against_others(folder, server, repeats),
            _threads(folder, repeats),
            _histories(folder, server, histories, repeats),
            _overhead(folder),
        ]


def learner(rounds: int = 10**6) -> kl.BanditExpWeights:
    """A hundred points of a square: two parameters, as Optuna's trials have."""
    axis = np.linspace(0, 1, 10)
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    kernel = kl.Gaussian(0.3)
    return kl.BanditExpWeights(kl.Points(X), kernel, horizon=rounds, loss_range=(0, 1), rng=0)


# Players: a place where a study begins, and a way for a process to take part in it.


@dataclass(frozen=True)
class Player:
    """How a study is asked and told; plain data, so that another process can do it."""

    name: str
    url: str
    kind: str  # "koloss", "rdb" or "journal"
    durability: str = "power"
    steps: int = 40  # in one process, in each repeat

    def begin(self) -> Any:
        """Begin the study; what is returned keeps its files open, so that its log stays as large as it became."""
        if self.kind != "koloss":
            _optuna(self)
            return None
        study = kl.Study.create(open_store(self.url, durability="process"), NAME, learner=learner())
        for _ in range(200):  # until the log of SQLite is used again rather than grown
            study.tell(study.ask(), VALUE)
        return study

    def join(self) -> Step:
        if self.kind == "koloss":
            study = kl.Study.open(open_store(self.url, durability=self.durability), NAME)
            return lambda: study.tell(study.ask().id, VALUE)
        study, space = _optuna(self)
        return lambda: study.tell(study.ask(space), VALUE)


def _optuna(player: Player) -> tuple[Any, dict[str, Any]]:
    """Its fastest sampler, and the time-out that its users are told to raise."""
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if player.kind == "rdb":
        lite = player.url.startswith("sqlite")
        options = {"connect_args": {"timeout": 100}} if lite else None
        storage = RDBStorage(player.url, engine_kwargs=options)
    else:
        storage = JournalStorage(JournalFileBackend(player.url))
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(
        storage=storage, study_name=NAME, sampler=sampler, load_if_exists=True
    )
    unit = optuna.distributions.FloatDistribution(0, 1)
    return study, {"x": unit, "y": unit}


def _players(folder: Path, server: Any) -> list[Player]:
    found = [
        Player("SQLite", f"sqlite:///{folder / 'power.db'}", "koloss", steps=60),
        Player("SQLite", f"sqlite:///{folder / 'process.db'}", "koloss", "process", steps=1000),
    ]
    if server:
        first, second = server.url("bench_power"), server.url("bench_process")
        found += [
            Player("PostgreSQL", first, "koloss", steps=100),
            Player("PostgreSQL", second, "koloss", "process", steps=400),
        ]
    if importlib.util.find_spec("optuna"):
        found += [
            Player("Optuna RDB, SQLite", f"sqlite:///{folder / 'rdb.db'}", "rdb", steps=8),
            Player("Optuna journal", str(folder / "journal.log"), "journal", steps=40),
        ]
        if server:
            url = server.url("bench_rdb").replace("postgresql:", "postgresql+psycopg:")
            found += [Player("Optuna RDB, PostgreSQL", url, "rdb", steps=8)]
    return found


@contextlib.contextmanager
def _server(histories: tuple[int, ...]) -> Iterator[Any]:
    """A PostgreSQL server with its data on the disk, where there is one to start."""
    from tests.support.server import Server, find_binaries

    binaries = find_binaries()
    if binaries is None or importlib.util.find_spec("psycopg") is None:
        yield None
        return
    server = Server(binaries, place=tempfile.gettempdir())
    try:
        with server.connect() as connection:
            for name in ("power", "process", "rdb", *histories):
                connection.execute(f"CREATE SCHEMA bench_{name}")
        yield server
    finally:
        server.stop()


# Processes.

_gate: Any = None


def _enter(gate: Any) -> None:
    logging.getLogger("koloss.studies").setLevel(logging.ERROR)
    global _gate  # noqa: PLW0603 - a barrier can only be inherited
    _gate = gate


def _play(player: Player, steps: int, together: bool) -> tuple[float, float]:
    """When a process began and ended its steps, by a clock that all of them share."""
    step = player.join()
    for _ in range(3):
        step()
    if together:
        _gate.wait(120)
    begin = time.monotonic()
    for _ in range(steps):
        step()
    return begin, time.monotonic()


@contextlib.contextmanager
def _crowd() -> Iterator[Callable[[Player, int], float]]:
    """How many asks and tells a second that so many processes make together."""
    spawning = multiprocessing.get_context("spawn")
    with spawning.Pool(CROWD, _enter, (spawning.Barrier(CROWD),)) as pool:

        def play(player: Player, processes: int) -> float:
            steps = -(-player.steps // processes)
            tasks = [(player, steps, processes > 1)] * processes
            times = pool.starmap(_play, tasks, chunksize=1)
            begin, end = min(a for a, _ in times), max(b for _, b in times)
            return processes * steps / (end - begin)

        yield play


def _whole(number: float) -> float:
    return round(number) if number >= 100 else number


def disk(folder: Path, count: int = 20) -> float:
    """Seconds of one `fdatasync` after three pages of a file were written again, as in a log that has stopped to grow."""
    path = folder / "yardstick"
    if not path.exists():
        path.write_bytes(bytes(1 << 22))
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        begin = time.perf_counter()
        for k in range(count):
            os.pwrite(descriptor, bytes(12_500), 12_500 * k)
            os.fdatasync(descriptor)
        return (time.perf_counter() - begin) / count
    finally:
        os.close(descriptor)


def _against_others(folder: Path, server: Any, repeats: int) -> Table:
    players = _players(folder, server)
    kept = [player.begin() for player in players]
    rates: dict[tuple[Player, int], list[float]] = {}
    waits = []
    with _crowd() as play:
        for _ in range(repeats):
            for player in players:
                for processes in (1, CROWD):
                    rates.setdefault((player, processes), []).append(play(player, processes))
                waits.append(disk(folder))
    wait = median(waits)
    table = Table(
        f"Studies: ask+tell per second; one `fdatasync` takes {1e3 * wait:.2f} ms",
        [
            "store",
            "survives",
            "1",
            f"{CROWD}",
            "2 syncs",
            "RDB",
            "journal",
            f"RDB, {CROWD}",
            f"journal, {CROWD}",
        ],
        f"In 1 and in {CROWD} processes; medians of {repeats}, players in turn on one disk. Survives: what an acknowledged event does, a power cut "
        "or killed processes only. 2 syncs: time of an ask and a tell over that of two fdatasync, which is what Koloss waits for against power cuts "
        "(Optuna: 16 with RDB on SQLite, 4.5 with its journal). RDB, journal: times as fast as Optuna's, RDB on the same database. Aims on "
        "SQLite: at most 1.5 times two fdatasync, and 5 and 1.5 times Optuna; against killed processes 20 and 5 times.",
    )
    middle = {key: median(values) for key, values in rates.items()}
    rivals = {player.name: player for player in players if player.kind != "koloss"}
    for player in players:
        mine = [middle[player, processes] for processes in (1, CROWD)]
        database = "PostgreSQL" if "PostgreSQL" in player.name else "SQLite"
        against = [
            middle[player, processes] / middle[rivals[name], processes] if name in rivals else "-"
            for processes in (1, CROWD)
            for name in (f"Optuna RDB, {database}", "Optuna journal")
        ]
        needed = 1 / mine[0] / (2 * wait)
        table.add(player.name, player.durability, *map(_whole, mine), needed, *against)
    for study in kept:
        if study is not None:
            study.store.close()
    return table


def _threads(folder: Path, repeats: int) -> Table:
    table = Table(
        "Studies: threads that share one study, SQLite, against power cuts",
        ["threads", "ask+tell per second", "over one", "ask+tell per fdatasync time"],
        "What waits at once is committed at once: one wait for the disk serves all of it.",
    )
    with contextlib.closing(open_store(f"sqlite:///{folder / 'threads.db'}")) as store:
        study = kl.Study.create(store, NAME, learner=learner())
        sizes, rates, waits = (1, 4, 16), {}, []
        for _ in range(repeats):
            for threads in sizes:
                rates.setdefault(threads, []).append(_of_threads(study, threads, 20))
                waits.append(disk(folder))
    one, wait = median(rates[1]), median(waits)
    for threads in sizes:
        rate = median(rates[threads])
        table.add(threads, _whole(rate), rate / one, rate * wait)
    return table


def _of_threads(study: kl.Study, threads: int, steps: int) -> float:
    def steps_of_one() -> None:
        for _ in range(steps):
            study.tell(study.ask().id, VALUE)

    crowd = [threading.Thread(target=steps_of_one) for _ in range(threads)]
    begin = time.perf_counter()
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    return threads * steps / (time.perf_counter() - begin)


def _histories(folder: Path, server: Any, histories: tuple[int, ...], repeats: int) -> Table:
    table = Table(
        "Studies: what a long history costs",
        [
            "store",
            "events before",
            "ask+tell per second",
            "over none before",
            "seconds to open",
            "bytes per decision",
        ],
        f"Medians of {2 * repeats}, histories in turn, each opened anew; durability 'process', where the disk's time hides nothing. "
        "The aims: no growth, and to open in less than a second.",
    )
    places = {"SQLite": lambda events: f"sqlite:///{folder / f'history-{events}.db'}"}
    if server:
        places["PostgreSQL"] = lambda events: server.url(f"bench_{events}")
    for name, url in places.items():
        sizes = {events: _with_history(url(events), events) for events in histories}
        steps = 400 if name == "SQLite" else 100
        rates, openings = {}, {}
        for _ in range(2 * repeats):
            for events in histories:
                begin = time.perf_counter()
                store = open_store(url(events), durability="process")
                study = kl.Study.open(store, NAME)
                openings.setdefault(events, []).append(time.perf_counter() - begin)
                _steps(study, 5)
                begin = time.perf_counter()
                _steps(study, steps)
                rates.setdefault(events, []).append(steps / (time.perf_counter() - begin))
                store.close()
        for events in histories:
            rate, opening = median(rates[events]), median(openings[events])
            table.add(name, events, _whole(rate), rate / median(rates[0]), opening, sizes[events])
    return table


def _with_history(url: str, events: int) -> float | str:
    """Begin a study and make so many events, in batches, which leave the same events as single calls do; bytes per decision."""
    with contextlib.closing(open_store(url, durability="process")) as store:
        study = kl.Study.create(store, NAME, learner=learner())
        for _ in range(events // (2 * BATCH)):
            study.tell(study.ask(BATCH), np.full(BATCH, VALUE))
        store.close()  # then all of it is in the file
        return store.facts()["bytes"] / (events / 2) if events else "-"


def _steps(study: Any, steps: int) -> None:
    for _ in range(steps):
        study.tell(study.ask().id, VALUE)


def _overhead(folder: Path) -> Table:
    table = Table(
        "Studies: µs of an ask and a tell, with a study around the learner and without",
        ["learner", "bare", "in a study", "study / bare"],
        "SQLite, durability 'process': everything but the wait for the disk.",
    )
    points, steps = learner().settings.actions, 500
    kinds = {
        "BanditExpWeights": learner,
        "InsuredBandit": lambda: kl.InsuredBandit(
            points, kl.Gaussian(0.3), horizon=10**6, loss_range=(0, 1), rng=0
        ),
    }
    with contextlib.closing(
        open_store(f"sqlite:///{folder / 'overhead.db'}", durability="process")
    ) as store:
        for name, make in kinds.items():
            bare, study = make(), kl.Study.create(store, name, learner=make())
            laps = race(
                {"bare": partial(_steps, bare, steps), "study": partial(_steps, study, steps)}
            )
            times = [1e6 * laps[who].seconds / steps for who in ("bare", "study")]
            table.add(name, *times, times[1] / times[0])
    return table
