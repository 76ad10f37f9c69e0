"""One run of the arena: a game, a player, a number. Whatever the player does, the outcome is a result.

In every round the adversary chooses first, then the player throws its coin. Regret is against the best fixed action in
hindsight of the rounds that were played, found by adding up the losses of all actions. What is timed is asking and
telling, not the adversary, nor the distribution that adversaries look at.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from koloss._arrays import to_numpy
from koloss.experiments.arena.base import Game, Player, PlayerSpec
from koloss.experiments.files import Status
from koloss.experiments.results import Run
from koloss.games.play import milestones
from koloss.games.store import version_of

CHECKPOINTS = 60
"""About how many rounds of a run are kept."""


def save_run(run: Run, digest: str, path: Path) -> None:
    """Write one small JSON file, never half of it."""
    part = path.with_name(path.name + ".part")
    limit = run.limit if math.isfinite(run.limit) else None
    plain = asdict(run) | {"limit": limit, "digest": digest}
    part.write_text(json.dumps(plain, allow_nan=False, ensure_ascii=False) + "\n", "utf-8")
    os.replace(part, path)


def load_run(path: Path) -> tuple[Run, str] | None:
    """What `save_run` has written; None where there is no such file, or it is not whole."""
    try:
        plain = json.loads(path.read_text("utf-8"))
        digest = plain.pop("digest")
        limit = math.inf if plain["limit"] is None else plain["limit"]
        kept = {name: tuple(plain[name]) for name in ("at", "curve", "running", "seeds")}
        return Run(**{**plain, **kept, "limit": limit}), digest
    except (OSError, ValueError, KeyError, TypeError):
        return None


def play_run(
    game: Game,
    spec: PlayerSpec,
    number: int = 0,
    *,
    seed: int = 0,
    rounds: int | None = None,
    limit: float = math.inf,
) -> Run:
    """Play one run. An error of the player is a result, too.

    Parameters
    ----------
    game : Game
    spec : PlayerSpec
    number : int
        k.
    seed : int
        Of all runs.
    rounds : int, optional
        Fewer than the game's own.
    limit : float
        Seconds after which no further round is played, from when the player has been made.

    Returns
    -------
    Run

    Examples
    --------
    >>> from koloss.experiments.arena import games, play_run, players
    >>> run = play_run(games()["stationary"], players()["gp-ucb"], rounds=300)
    >>> run.status, run.played, run.regret < 50
    ('done', 300, True)
    """
    begin = time.perf_counter()
    game = replace(game, rounds=min(rounds or game.rounds, game.rounds))
    seeds = seeds_of(game, spec, seed, number)
    table = _Table(game)
    found = Run(game.name, spec.slug, number, game.rounds, limit=limit, seeds=seeds)
    extras: dict[str, Any] = {}
    where = "before the first round"
    try:
        player = spec.make(game, seeds[0])
        found = replace(found, making=time.perf_counter() - begin)
        adversary = game.make(seeds[1])
        shown = _Shown(player, len(game.points))
        # From here on: a package that is imported first would pay for all that come later.
        begin = time.perf_counter()
        for t in range(game.rounds):
            where = f"in round {t + 1:,} of {game.rounds:,}"
            table.play(t, adversary(t, None if adversary.oblivious else shown), player, spec.full)
            if time.perf_counter() - begin > limit and t + 1 < game.rounds:
                stop = f"stopped after round {t + 1:,} of {game.rounds:,} by the time limit"
                found = replace(found, status="stopped", message=f"{stop} of {limit:g} s")
                break
        else:
            where = "after the last round"
            extras = {"guarantee": _promise(player, game.rounds), "insured": _insured(player)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even an exit: other players go on
        status, message = _explain(spec, error, where)
        found = replace(found, status=status, message=message)
    found = replace(found, **table.result(), **extras)
    if found.guarantee is not None:
        bound = found.guarantee["total"]
        found.guarantee["exceeded"] = bound is not None and found.regret > bound
    return found


def seeds_of(game: Game, spec: PlayerSpec, seed: int, number: int) -> tuple[int, int]:
    """Seeds of the player and of the game: they depend on names and numbers alone, the game's not on the player."""

    def child(*key: int) -> int:
        state = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)
        return int(state[0] >> 1)

    name = _number(game.name)
    return child(name, 1, _number(spec.slug), number), child(name, 0, number)


# The loop.


class _Table:
    """The losses of all actions, added up, and what the player paid and the time it took."""

    def __init__(self, game: Game) -> None:
        self.name, self.at = game.name, milestones(game.rounds, CHECKPOINTS)
        self.total = np.zeros(len(game.points))
        self.kept: list[tuple[int, float, Any]] = []  # round, what was paid, all totals
        self.paid, self.seconds, self.played = 0.0, 0.0, 0

    def play(self, t: int, loss: Any, player: Player, full: bool) -> None:
        """One round, after the adversary has chosen."""
        loss = np.asarray(loss, dtype=float)
        if loss.shape != self.total.shape:
            raise ValueError(
                f"the losses of {self.name} must have shape {self.total.shape}, got {loss.shape}"
            )
        if not (loss.min() >= -1e-9 and loss.max() <= 1 + 1e-9):  # NaN fails, too
            raise ValueError(
                f"the losses of {self.name} must be in [0, 1], got {loss.min():.6g} to {loss.max():.6g}"
            )
        begin = time.perf_counter()
        decision = player.ask()
        asked = time.perf_counter()
        index = _index(decision, len(loss))
        told: Any = loss.copy() if full else float(loss[index])
        ready = time.perf_counter()
        player.tell(decision, told)
        self.seconds += asked - begin + time.perf_counter() - ready
        self.total += loss
        self.paid += float(loss[index])
        self.played = t + 1
        if self.played == self.at[len(self.kept)]:
            self.kept.append((self.played, self.paid, self.total.copy()))

    def result(self) -> dict[str, Any]:
        """Regret of the rounds played, against the best action of all of them."""
        if self.played == 0:
            return {}
        if not self.kept or self.kept[-1][0] < self.played:
            self.kept.append((self.played, self.paid, self.total))
        best = int(np.argmin(self.total))
        curve = tuple(paid - float(total[best]) for _, paid, total in self.kept)
        running = tuple(paid - float(total.min()) for _, paid, total in self.kept)
        return {
            "played": self.played,
            "regret": curve[-1],
            "loss": self.paid,
            "best": best,
            "best_loss": float(self.total[best]),
            "at": tuple(int(t) for t, _, _ in self.kept),
            "curve": curve,
            "running": running,
            "seconds": self.seconds,
        }


class _Shown:
    """All that an adversary may see of a player: its law, which is checked, and never its coin."""

    def __init__(self, player: Player, count: int) -> None:
        self._player, self._count = player, count

    @property
    def actions(self) -> Any:
        return self._player.actions

    @property
    def distribution(self) -> Any:
        p = np.asarray(to_numpy(self._player.distribution), dtype=float)
        if p.shape != (self._count,):
            raise ValueError(f"`distribution` must have shape ({self._count},), got {p.shape}")
        if not (p.min() >= -1e-9 and abs(p.sum() - 1) <= 1e-6):  # NaN fails, too
            raise ValueError(
                f"`distribution` must be non-negative and sum to 1, got {p.min():.6g} and {p.sum():.6g}"
            )
        return p


def _index(decision: Any, count: int) -> int:
    value = decision.index
    try:
        index = operator.index(value)
    except TypeError:
        index = -1
    if not 0 <= index < count:
        raise ValueError(f"`index` must be a whole number from 0 to {count - 1}, got {value!r}")
    return index


# What else is kept.


def _promise(player: Any, rounds: int) -> dict[str, Any] | None:
    """What is proved of a player for so many rounds, as plain data."""
    guarantee: Callable[..., Any] | None = getattr(player, "guarantee", None)
    if guarantee is None:
        return None
    wanted = {"rounds": rounds, "printed": False}
    takes = signature(guarantee).parameters
    found = guarantee(**{name: value for name, value in wanted.items() if name in takes})
    problem = player.setup.problem if hasattr(player, "setup") else None
    return {
        "total": _finite(found.total),
        "statement": str(found.statement),
        "valid": bool(found.valid),
        "informative": bool(found.informative),
        "rank": None if problem is None else int(problem.rank),
        "epsilon": None if problem is None else _finite(problem.epsilon),
    }


def _insured(player: Any) -> dict[str, Any] | None:
    """When and why an insured learner stopped its policy, and what exploring has cost."""
    from koloss.learners import InsuredBandit

    if not isinstance(player, InsuredBandit):
        return None
    seen = player.diagnostics
    return {
        "alarms": [asdict(alarm) for alarm in seen.alarms],
        "explored": int(seen.explored),
        "premium": float(seen.premium),
    }


def _explain(spec: PlayerSpec, error: BaseException, where: str) -> tuple[Status, str]:
    """Words for an error."""
    if isinstance(error, ImportError) and spec.package and version_of(spec.package) is None:
        how = str(error).partition("pip install ")[2] or "'koloss[arena]'"
        return "missing", f"not installed: pip install {how}"
    return "failed", f"failed {where}: {type(error).__name__}: {error}"


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(name: str) -> int:
    """A number that stands for a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
