"""What a game leaves behind: actions, losses, regret, the guarantee along the way; one file each."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.core import text
from koloss.core.files import replacing

Ended = Literal["done", "failed", "stopped", "missing", "died", "cannot"]
"""How a run ended: played to the end; an error; the time limit; no package; a process that ended without a word; a player that
the game is not for."""

Floats = NDArray[np.float64]

_BY_ROUND = ("actions", "losses", "regret", "bound", "index", "probability")
_ARRAYS = (*_BY_ROUND, "checkpoints", "running", "uniform", "paid", "best_paid", "best")
_PLAIN = ("certificate", "valid", "seconds", "best_index", "ended", "message", "facts")


class Packed(NamedTuple):
    """What a file holds: plain data, and arrays by name."""

    plain: dict[str, Any]
    arrays: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trace:
    """A game that was played, or the rounds of it that were.

    There are two regrets. `regret` is in hindsight, against a*, the best fixed action of the whole game; `running` is
    against the best fixed action of the rounds so far. At the end they are the same. In a game with contexts both are against
    the best mapping from contexts to actions.

    The regret of a game is in hindsight. A guarantee on the pseudo-regret is one on its mean where the adversary is oblivious;
    where that looks at the player it is not, and `valid` is false (`facts["promise"]` says why). One that is in units of the
    range is turned into losses by the range of all losses of all actions, known on points; elsewhere `bound` is not a number.

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

    actions: Floats  # array of shape (rounds, d)
    losses: Floats  # what they cost, of shape (rounds,), as are regret and bound
    regret: Floats  # Σ_{s ≤ t} ℓ_s(a_s) - ℓ_s(a*)
    bound: Floats  # what is proved for so many rounds; between checkpoints, that of the later one
    checkpoints: NDArray[np.int64]  # some rounds t, the last one among them, of shape (k,)
    running: Floats  # Σ_{s ≤ t} ℓ_s(a_s) - min_a Σ_{s ≤ t} ℓ_s(a), at the checkpoints
    uniform: Floats  # the same for a player who draws uniformly at random, on average, against these very losses
    best: Floats  # a*, of shape (d,); with contexts the best mapping, of shape (C, d)
    certificate: str  # why nothing is better than a*: "exhaustive", "dual", or "local only" where that is not proved
    valid: bool  # whether the guarantee is proved of this regret, with no assumption known to fail, at the end
    seconds: float  # asking and telling, without the adversary's time
    index: NDArray[np.int64] | None = None  # of the actions, of shape (rounds,), on a finite set
    probability: Floats | None = None
    # Σ_{s ≤ t} ℓ_s(a_s) and Σ_{s ≤ t} ℓ_s(a*), at the checkpoints
    paid: Floats = field(default_factory=lambda: np.zeros(0))
    best_paid: Floats = field(default_factory=lambda: np.zeros(0))
    best_index: int | None = None  # of a*, on a finite set
    ended: Ended = "done"
    message: str = ""  # what happened, where it was not played to the end
    facts: dict[str, object] = field(default_factory=dict)
    """Names of the learner and the adversary, the guarantee, rank and error of the features, and what the caller added."""

    def __len__(self) -> int:
        return len(self.losses)

    @classmethod
    def unplayed(cls, ended: Ended, message: str, facts: dict[str, object] | None = None) -> Trace:
        """A game without a round."""
        none, points = np.zeros(0), np.zeros((0, 0))
        return cls(points, none, none, none, none.astype(int), none, none, none, "exhaustive", valid=False,
                   seconds=0.0, ended=ended, message=message, facts=facts or {})  # fmt: skip

    def _repr_html_(self) -> str:
        if len(self) == 0:
            return text.card("Game without a round", text.facts_table({self.ended: self.message}))
        regret, bound = float(self.regret[-1]), float(self.bound[-1])
        rounds = int(self.checkpoints[-1])
        facts = {
            "regret": text.short_number(regret),
            "guarantee": text.short_number(bound) + ("" if self.valid else " (not valid)"),
            "best action": self.certificate,
            "time of the learner": text.duration(self.seconds / rounds) + " per round",
        }
        title = f"Game of {text.counted(rounds, 'round')}"
        return text.card(title, text.facts_table(facts))

    def thin(self) -> Trace:
        """The same at the checkpoints alone, for files that stay small: its k-th entries are of round `checkpoints[k]`."""
        kept: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[self.checkpoints - 1]
            for name in _BY_ROUND
        }
        return replace(self, **kept)

    def pack(self) -> Packed:
        """The trace as plain data and arrays."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        arrays = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        return Packed(plain | {"facts": dict(self.facts)}, arrays)

    @classmethod
    def unpack(cls, packed: Packed) -> Trace:
        """The trace that was packed."""
        return cls(**packed.plain, **packed.arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one .npz file."""
        path = Path(path)
        if path.suffix != ".npz":
            raise ValueError(f"`path` must end in .npz, got {path.name}")
        with replacing(path) as file:
            write_npz(file, self.pack())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `save` has written, or the file of a run."""
        plain, arrays = read_npz(Path(path))
        return cls.unpack(Packed({name: plain[name] for name in _PLAIN}, arrays))


def write_npz(file: IO[bytes], packed: Packed) -> None:
    """Plain data and arrays as one .npz, with their digest."""
    plain = {**packed.plain, "digest": _digest(packed)}
    text = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    whole = io.BytesIO()  # NumPy's own writer leaves its archive open where a disk is full
    np.savez_compressed(whole, json=text, **packed.arrays)
    file.write(whole.getbuffer())


def read_npz(path: Path) -> Packed:
    """What `write_npz` has written; a file whose digest does not fit is a `ValueError`."""
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        plain = json.loads(file["json"].tobytes())
        arrays = {name: file[name] for name in file.files if name != "json"}
    if plain.pop("digest") != _digest(Packed(plain, arrays)):
        raise ValueError(f"`path` must be intact, got {path}, whose digest does not match")
    return Packed(plain, arrays)


def _digest(packed: Packed) -> str:
    digest = hashlib.sha256(json.dumps(packed.plain, sort_keys=True).encode())
    for name, array in sorted(packed.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Replicates:
    """Traces of independent runs of one game."""

    traces: list[Trace]  # of the runs that ended, in order
    seeds: list[int]  # number of each of these runs
    failures: dict[int, str] = field(default_factory=dict)  # why a run failed, by its number

    def __len__(self) -> int:
        return len(self.traces)

    @property
    def regret(self) -> Floats:
        """Regret of every run, an array of shape (runs, rounds)."""
        return np.stack([trace.regret for trace in self.traces])

    @property
    def bound(self) -> Floats:
        """Mean of the guarantees, an array of shape (rounds,): they differ only in what happened."""
        mean: Floats = np.mean([trace.bound for trace in self.traces], axis=0)
        return mean

    @property
    def running(self) -> Floats:
        """Regret at the checkpoints against the best action so far, an array of shape (runs, checkpoints)."""
        return np.stack([trace.running for trace in self.traces])

    def band(self, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Mean regret, and the ends of its confidence band (Student's t, round by round)."""
        return band(self.regret, level)

    def exponent(self) -> tuple[float, float]:
        """Growth of the running regret as a power of the round, fitted on the second half, with its standard error."""
        return exponent(self.traces[0].checkpoints, self.running)


def band(values: Any, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
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

    `t` are rounds, of shape (k,), and `regret` is of shape (runs, k).

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


def _slope(t: Any, regret: Any) -> float:
    if len(t) < 2 or np.any(regret <= 0):
        return float("nan")
    return float(np.polyfit(np.log(t), np.log(regret), 1)[0])
