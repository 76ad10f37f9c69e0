"""What a sweep is: settings of an experiment, and the values that they take.

    [sweep]
    experiment = "gaussian-bandit"
    method = "grid"

    [settings]
    game.kernel.bandwidth = [0.25, 0.5, 1.0]
    learner.loss_norm = {low = 0.5, high = 2.0, log = true, count = 3}

The methods "random" and "sobol" take `points = 64`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from koloss.core.toml import Source, only, read_text, read_toml
from koloss.errors import SpecError
from koloss.experiments.reading import decode
from koloss.experiments.spec import Count, Experiment, Runs, from_tables, shipped, spec_text

METHODS = ("grid", "random", "sobol")

MOST_POINTS = 100_000
"""Of a sweep."""

BITS = 30
"""Of a coordinate of a Sobol' point."""

STREAM = 0x53_57_45_45_50
"""Tells the generator of the points from those of the games, which have the same seed."""


@dataclass(frozen=True)
class Setting:
    """One setting, and the values that it takes: a list of them, or a range."""

    path: tuple[str, ...]  # keys of the spec, from the outermost table
    values: tuple[Any, ...] = ()  # where it is a list
    low: float = 0.0
    high: float = 1.0  # whole numbers where both ends are
    log: bool = False
    count: int | None = None  # of a grid

    @property
    def name(self) -> str:
        """As it is written, and as the column of the table."""
        return ".".join(self.path)

    @property
    def whole(self) -> bool:
        """Whether a range has whole numbers alone."""
        return type(self.low) is int and type(self.high) is int

    def grid(self) -> list[Any]:
        """Its values in a grid."""
        if self.values:
            return list(self.values)
        assert self.count is not None
        steps = (np.geomspace if self.log else np.linspace)(self.low, self.high, self.count)
        if self.whole:
            return list(dict.fromkeys(round(step) for step in steps.tolist()))
        return [float(step) for step in steps]

    def at(self, u: float) -> Any:
        """Its value at u in [0, 1), uniform where u is; on a logarithmic scale where it has one."""
        if self.values:
            return self.values[int(u * len(self.values))]
        low, high = self.low, self.high + self.whole
        value = low * math.exp(u * math.log(high / low)) if self.log else low + u * (high - low)
        return min(int(value), int(self.high)) if self.whole else value


@dataclass(frozen=True)
class Point:
    """One choice of all settings."""

    number: int  # from 0
    settings: dict[str, Any]

    @property
    def digest(self) -> str:
        """Names its folder, so that a sweep that has grown finds what it has."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class SweepSpec:
    """What the spec of a sweep says."""

    name: str  # of the file, without its ending
    title: str
    source: Source
    settings: tuple[Setting, ...]
    method: str
    count: int | None  # of points that are drawn
    experiment: str
    rounds: int | None = None
    runs: int | None = None

    def points(self, seed: int) -> list[Point]:
        """All points, each once. Those that are drawn depend on the seed; more of them begin with the same ones."""
        if self.method == "grid":
            rows: Any = itertools.product(*(setting.grid() for setting in self.settings))
        else:
            assert self.count is not None
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
            shape = self.count, len(self.settings)
            unit = rng.random(shape) if self.method == "random" else _sobol(*shape, rng)
            rows = [[s.at(u) for s, u in zip(self.settings, row, strict=True)] for row in unit.tolist()]  # fmt: skip
        names = [setting.name for setting in self.settings]
        unique = {json.dumps(row): row for row in map(list, rows)}
        return [Point(k, dict(zip(names, row, strict=True))) for k, row in enumerate(unique.values())]  # fmt: skip

    def error(self, point: Point, problem: str) -> SpecError:
        """What is wrong at a point: at the line of the setting that the problem names, if it names one."""
        named = [s for s in self.settings if s.name in problem]
        named = named or [s for s in self.settings if re.search(rf"\b{s.path[-1]}\b", problem)]
        keys = ("settings", *named[0].path) if len(named) == 1 else ("settings",)
        where = ", ".join(f"{name} = {json.dumps(value)}" for name, value in point.settings.items())
        return self.source.error(keys, f"{problem} (where {where})")


def _sobol(count: int, dimension: int, rng: np.random.Generator) -> Any:
    """The first points of Sobol's sequence, each coordinate under a random xor, which keeps a net a net: an array (count, dimension)."""
    from scipy.stats.qmc import Sobol

    sequence = Sobol(dimension, scramble=False, bits=BITS)
    raw = sequence.random_base2(max(count - 1, 0).bit_length())[:count]
    bits = (raw * 2**BITS).astype(np.int64) ^ rng.integers(2**BITS, size=dimension)
    return (bits + 0.5) / 2**BITS


# Reading.


class _Sweep(Struct, forbid_unknown_fields=True):
    experiment: str
    method: str = "grid"
    points: Annotated[int, Meta(ge=1, le=MOST_POINTS)] | None = None
    rounds: Count | None = None
    runs: Runs | None = None


class _Range(Struct, forbid_unknown_fields=True):
    low: int | float
    high: int | float
    log: bool = False
    count: Annotated[int, Meta(ge=2, le=MOST_POINTS)] | None = None


class _File(Struct, forbid_unknown_fields=True):
    sweep: _Sweep
    settings: dict[str, Any]
    title: str = ""


def load_sweep(path: str | Path) -> SweepSpec:
    """Read the spec of a sweep.

    Raises
    ------
    SpecError
        With the file, the line and the key.
    """
    path = Path(path)
    return parse_sweep(read_text(path), name=path.stem, path=str(path))


def parse_sweep(text: str, *, name: str, path: str = "sweep") -> SweepSpec:
    """The sweep that a TOML text describes.

    Examples
    --------
    >>> from koloss.experiments import parse_sweep
    >>> text = '''
    ... [sweep]
    ... experiment = "gaussian-bandit"
    ... [settings]
    ... game.kernel.bandwidth = [0.25, 0.5]
    ... game.rounds = {low = 100, high = 10000, log = true, count = 3}
    ... '''
    >>> [point.settings for point in parse_sweep(text, name="widths").points(seed=0)][:2]
    [{'game.kernel.bandwidth': 0.25, 'game.rounds': 100}, {'game.kernel.bandwidth': 0.25, 'game.rounds': 1000}]
    """
    source = Source(path, text)
    file = decode(_File, read_toml(source), source, {("sweep",): _Sweep})
    about = file.sweep
    problem, key = "", "method"
    if about.method not in METHODS:
        problem = f"must be one of {', '.join(METHODS)}, got {about.method!r}"
    elif (about.points is None) != (about.method == "grid"):
        key = "points"
        needed = "must be left out of a grid" if about.points else f"is missing, for {about.method}"
        problem = f"{needed}, got {about.points}"
    if problem:
        raise source.error(("sweep", key), problem)
    settings = tuple(_settings(file.settings, (), about.method, source))
    if not settings:
        raise source.error(("settings",), "must have at least one setting, got none")
    if about.rounds is not None and any(setting.name == "game.rounds" for setting in settings):
        problem = f"must be left out where game.rounds is swept, got {about.rounds}"
        raise source.error(("sweep", "rounds"), problem)
    if about.method == "grid":
        count = math.prod(len(setting.grid()) for setting in settings)
        if count > MOST_POINTS:
            rule = f"must make a grid of at most {MOST_POINTS:,} points, got {count:,}"
            raise source.error(("settings",), rule)
    return SweepSpec(
        name=name,
        title=" ".join(file.title.split()) or name,
        source=source,
        settings=settings,
        method=about.method,
        count=about.points,
        experiment=about.experiment,
        rounds=about.rounds,
        runs=about.runs,
    )


def _settings(
    table: dict[str, Any], path: tuple[str, ...], method: str, source: Source
) -> Iterator[Setting]:
    """All settings in a table and those inside it."""
    for key, value in table.items():
        here = (*path, key)
        keys = ("settings", *here)
        if isinstance(value, list):
            if not value:
                raise source.error(keys, "must have at least one value, got none")
            yield Setting(here, tuple(value))
        elif isinstance(value, dict) and value.keys() & {"low", "high"}:
            yield _range(here, value, method, source)
        elif isinstance(value, dict) and value:
            yield from _settings(value, here, method, source)
        else:
            rule = "must be a list of values, or a range such as {low = 1, high = 10}"
            raise source.error(keys, f"{rule}, got {json.dumps(value)}")


def _range(path: tuple[str, ...], value: dict[str, Any], method: str, source: Source) -> Setting:
    keys = ("settings", *path)
    only(value, _Range.__struct_fields__, keys, "a range", source)
    try:
        ends = msgspec.convert(value, _Range)
    except msgspec.ValidationError as error:
        raise source.error(keys, f"must be a range, got {json.dumps(value)}: {error}") from error
    problem = ""
    if not ends.low < ends.high:
        problem = f"must have low < high, got {ends.low} and {ends.high}"
    elif ends.log and ends.low <= 0:
        problem = f"must have low > 0 on a logarithmic scale, got {ends.low}"
    elif method == "grid" and ends.count is None:
        problem = "must have a `count` in a grid"
    if problem:
        raise source.error(keys, problem)
    return Setting(path, (), ends.low, ends.high, ends.log, ends.count)


# The experiment at a point.


class Base:
    """The tables of the experiment that is swept, and the experiment with other settings."""

    def __init__(self, sweep: SweepSpec, *, trust: bool) -> None:
        name = sweep.experiment
        self.trust, self.sweep = trust, sweep
        keys = ("sweep", "experiment")
        if not name.endswith(".toml"):
            if name not in shipped():
                known = ", ".join(shipped())
                raise sweep.source.error(keys, f"must be a .toml file or among {known}, got {name!r}")  # fmt: skip
            self.name, self.source = name, Source(f"{name}.toml", spec_text(name))
        else:
            if not trust and (outside := sweep.source.outside(name)):
                advice = "if you trust it, use --trust, or trust=True in Python"
                problem = f"must be in the folder of the sweep, got {outside}; {advice}"
                raise sweep.source.error(keys, problem)
            path = sweep.source.beside(name)
            if not path.exists():
                raise sweep.source.error(keys, f"must be a file that is there, got {name!r}")
            self.name, self.source = path.stem, Source(str(path), read_text(path))
        self.tables = read_toml(self.source)
        plain = from_tables(self.tables, name=self.name, source=self.source, trust=trust)
        if plain.picture is not None:
            raise sweep.source.error(keys, f"must be a game, got the picture {name!r}")

    def at(self, point: Point) -> Experiment:
        """The experiment with the settings of a point."""
        tables = deepcopy(self.tables)
        for setting in self.sweep.settings:
            try:
                _put(tables, setting.path, point.settings[setting.name])
            except LookupError as error:
                raise self.sweep.source.error(("settings", *setting.path), str(error.args[0])) from error  # fmt: skip
        try:
            return from_tables(tables, name=self.name, source=self.source, trust=self.trust)
        except SpecError as error:
            raise self.sweep.error(point, f"{error.key}: {error.problem}") from error


def _put(table: Any, path: tuple[str, ...], value: Any) -> None:
    """Set a key of tables inside each other; of several, such as [[learner]], all, or the one with a number from 1."""
    first, *rest = path
    if isinstance(table, list):
        if not first.isdigit():
            for one in table:
                _put(one, path, value)
            return
        if not (rest and 1 <= int(first) <= len(table)):
            raise LookupError(f"must name one of {len(table)} tables and a key of it, got {first}")
        _put(table[int(first) - 1], tuple(rest), value)
    elif not isinstance(table, dict):
        raise LookupError(f"must name a key of a table, got {first!r} of {table!r}")
    elif rest:
        _put(table.setdefault(first, {}), tuple(rest), value)
    else:
        table[first] = deepcopy(value)
