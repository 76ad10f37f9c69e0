"""What a game leaves behind: actions, losses, regret, the guarantee along the way; one file each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from koloss import _html

_BY_ROUND = ("actions", "losses", "regret", "bound", "index", "probability")
_BESIDE = ("checkpoints", "running", "uniform", "best")
_ARRAYS = (*_BY_ROUND, *_BESIDE)


@dataclass(frozen=True, eq=False)
class Trace:
    """A game that was played.

    Attributes
    ----------
    actions : array of shape (rounds, d)
    losses : array of shape (rounds,)
        What they cost.
    regret : array of shape (rounds,)
        Σ_{s ≤ t} ℓ_s(a_s) - ℓ_s(a*), with a* the best fixed action in hindsight of the whole game.
    bound : array of shape (rounds,)
        What is proved of the learner for so many rounds; at a round between two checkpoints, that of the later one.
    checkpoints : array of shape (k,)
        Some rounds t, the last one among them.
    running : array of shape (k,)
        R_t = Σ_{s ≤ t} ℓ_s(a_s) - min_a Σ_{s ≤ t} ℓ_s(a): regret after t rounds against the best action of these rounds.
    uniform : array of shape (k,)
        The same for a player who draws uniformly at random, on average, against these very losses: what learning nothing
        would have cost.
    index, probability : arrays of shape (rounds,), or None
        On a finite set.
    best : array of shape (d,)
        a*.
    certificate : str
        Why nothing is better than a*: "exhaustive", "dual", or "local only" where that is not proved.
    valid : bool
        Whether the guarantee was proved, with no assumption known to fail, at the end.
    seconds : float
        Time of asking and telling, without the adversary's.
    facts : dict
        Names of the learner and the adversary, the guarantee as text, and whatever the caller added.

    Examples
    --------
    >>> import koloss as kl
    >>> points = kl.Points([[0.0], [1.0]])
    >>> learner = kl.ExpWeights(points, kernel=kl.Linear(), horizon=10, rng=0)
    >>> trace = kl.play(learner, kl.games.Replay([[0.0, 1.0]]), 10)
    >>> len(trace), trace.best.tolist(), trace.certificate
    (10, [0.0], 'exhaustive')
    >>> bool(trace.regret[-1] == trace.losses.sum())
    True
    """

    actions: Any
    losses: Any
    regret: Any
    bound: Any
    checkpoints: Any
    running: Any
    uniform: Any
    best: Any
    certificate: str
    valid: bool
    seconds: float
    index: Any = None
    probability: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.losses)

    def _repr_html_(self) -> str:
        every = slice(None) if len(self.regret) != self.checkpoints[-1] else self.checkpoints - 1
        regret, bound = (np.asarray(line)[every].tolist() for line in (self.regret, self.bound))
        rounds = int(self.checkpoints[-1])
        facts = {
            "regret": _html.short_number(regret[-1]),
            "guarantee": _html.short_number(bound[-1]) + ("" if self.valid else " (not valid)"),
            "best action": self.certificate,
            "time of the learner": _html.duration(self.seconds / rounds) + " per round",
        }
        lines = [_html.Line("regret", regret), _html.Line("guarantee", bound, dashed=True)]
        log = 0 < 20 * regret[-1] < bound[-1]
        picture = _html.line_picture(
            self.checkpoints.tolist(), lines, title="Regret", below="rounds", log=log
        )
        return _html.card(
            f"Game of {_html.counted(rounds, 'round')}", _html.facts_table(facts), picture
        )

    def thin(self) -> Trace:
        """The same at the checkpoints alone, for files that stay small: its k-th entries are of round `checkpoints[k]`."""
        kept: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[self.checkpoints - 1]
            for name in _BY_ROUND
        }
        return replace(self, **kept)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: .npz, or .parquet (which needs pyarrow)."""
        path = Path(path)
        plain = {
            "certificate": self.certificate,
            "valid": self.valid,
            "seconds": self.seconds,
            "facts": self.facts,
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        part = path.with_name(path.name + ".part")
        if path.suffix == ".npz":
            text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
            with open(part, "wb") as file:
                np.savez_compressed(file, json=text, **arrays)
        elif path.suffix == ".parquet":
            _write_parquet(part, plain, arrays)
        else:
            raise ValueError(f"`path` must end in .npz or .parquet, got {path.name}")
        os.replace(part, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` has written."""
        path = Path(path)
        if path.suffix == ".parquet":
            plain, arrays = _read_parquet(path)
        else:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                plain = json.loads(file["json"].tobytes())
                arrays = {name: file[name] for name in _ARRAYS if name in file.files}
        return cls(**plain, **arrays)


@dataclass(frozen=True, eq=False)
class Replicates:
    """Traces of independent runs of one game.

    Attributes
    ----------
    traces : list of Trace
        Of the runs that ended, in order.
    seeds : list of int
        Number of each of these runs.
    failures : dict of int to str
        Number of each run that failed, and why.
    """

    traces: list[Trace]
    seeds: list[int]
    failures: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.traces)

    @property
    def regret(self) -> Any:
        """Regret of every run, an array of shape (runs, rounds)."""
        return np.stack([trace.regret for trace in self.traces])

    @property
    def bound(self) -> Any:
        """Mean of the guarantees, an array of shape (rounds,): they differ only in what happened."""
        return np.mean([trace.bound for trace in self.traces], axis=0)

    @property
    def running(self) -> Any:
        """Regret at the checkpoints against the best action so far, an array of shape (runs, checkpoints)."""
        return np.stack([trace.running for trace in self.traces])

    def band(self, level: float = 0.95) -> tuple[Any, Any, Any]:
        """Mean regret, and the ends of its confidence band (Student's t, round by round)."""
        return band(self.regret, level)

    def exponent(self) -> tuple[float, float]:
        """Growth of the running regret as a power of the round, fitted on the second half, with its standard error."""
        return exponent(self.traces[0].checkpoints, self.running)


def band(values: Any, level: float = 0.95) -> tuple[Any, Any, Any]:
    """Mean of the rows, and the ends of its confidence band (Student's t, column by column).

    Examples
    --------
    >>> mean, low, high = band(np.array([[1.0], [2.0], [3.0]]))
    >>> mean.tolist(), high.round(2).tolist()
    ([2.0], [4.48])
    """
    from scipy import stats

    runs, mean = len(values), np.mean(values, axis=0)
    if runs < 2:
        return mean, mean, mean
    error = np.std(values, axis=0, ddof=1) / np.sqrt(runs)
    half = float(stats.t.ppf((1 + level) / 2, runs - 1)) * error
    return mean, mean - half, mean + half


def exponent(t: Any, regret: Any) -> tuple[float, float]:
    """Slope of log mean regret against log t on the second half of the rounds, and its standard error.

    The error is found by leaving out one run at a time (jackknife). Not a number where the mean regret is not positive
    there, or where there are too few rounds or runs.

    Why the regret must be that against the best action of the rounds so far: if losses are random without a preference,
    the best action of the whole game has been equally lucky in all of its parts, so that the regret against it grows
    linearly within the game, however good the player is.

    Parameters
    ----------
    t : array of shape (k,)
        Rounds.
    regret : array of shape (runs, k)

    Examples
    --------
    >>> t = np.arange(1, 101)
    >>> slope, error = exponent(t, np.stack([t**0.5, 2 * t**0.5]))
    >>> round(slope, 6), round(error, 6)
    (0.5, 0.0)
    """
    late = 2 * np.asarray(t) >= t[-1]
    t, rows = np.asarray(t)[late], regret[:, late]
    runs, slope = len(rows), _slope(t, rows.mean(axis=0))
    if runs < 2:
        return slope, float("nan")
    total = rows.sum(axis=0)
    left = np.asarray([_slope(t, (total - row) / (runs - 1)) for row in rows])
    return slope, float(np.sqrt((runs - 1) / runs * np.sum((left - left.mean()) ** 2)))


def concatenate(parts: Sequence[Replicates]) -> Replicates:
    """Replicates of one game, computed in several parts."""
    traces = [trace for part in parts for trace in part.traces]
    if len({len(trace) for trace in traces}) > 1:
        raise ValueError("`parts` must have one number of rounds, got several")
    failures: dict[int, str] = {}
    for part in parts:
        failures |= part.failures
    return Replicates(traces, [seed for part in parts for seed in part.seeds], failures)


def _slope(t: Any, regret: Any) -> float:
    if len(t) < 2 or np.any(regret <= 0):
        return float("nan")
    return float(np.polyfit(np.log(t), np.log(regret), 1)[0])


def _write_parquet(path: Path, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: a for name, a in arrays.items() if name in _BY_ROUND and name != "actions"}
    actions = arrays["actions"]
    columns |= {f"action_{i}": actions[:, i] for i in range(actions.shape[1])}
    about = json.dumps(plain | {name: arrays[name].tolist() for name in _BESIDE})
    table = pa.table({k: pa.array(v) for k, v in columns.items()})
    parquet.write_table(table.replace_schema_metadata({"koloss": about}), path)


def _read_parquet(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from pyarrow import parquet

    table = parquet.read_table(path)
    plain = json.loads(table.schema.metadata[b"koloss"])
    columns = {name: table[name].to_numpy() for name in table.column_names}
    d = sum(name.startswith("action_") for name in columns)
    arrays = {"actions": np.column_stack([columns.pop(f"action_{i}") for i in range(d)])}
    arrays |= {name: np.asarray(plain.pop(name)) for name in _BESIDE}
    return plain, arrays | columns
