"""A run of the arena as a job: which game, which player, and how they are made."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from arena.base import Game, Player, PlayerSpec
from arena.data import LATE_FLIGHTS, RECORDED
from arena.games import games
from arena.players import players
from koloss.games.adversaries import Adversary
from koloss.games.play import Match
from koloss.games.store import CannotPlay, Job
from koloss.learners import InsuredBandit

CHECKPOINTS = 60
"""About how many rounds of a run are kept."""

READ = {"data": RECORDED, "contexts": (LATE_FLIGHTS,)}
"""Files that games of a family are made from."""


def job_of(
    game: Game, spec: PlayerSpec, number: int, *, rounds: int | None, seed: int, limit: float
) -> Job:
    """One run. The library's games and players are known by their names; others travel with the job."""
    carried = (
        None if games().get(game.name) is game else game,
        None if players().get(spec.slug) is spec else spec,
    )
    return Job(
        make=f"{__name__}:make",
        game=game.name,
        player=spec.slug,
        number=number,
        rounds=min(rounds or game.rounds, game.rounds),
        seed=seed,
        seeds="numbers",
        limit=limit,
        package=spec.package,
        files=tuple(str(path) for path in READ.get(game.family, ())),
        carried=carried,
    )


def keyed(job: Job) -> Job:
    """The same with a digest of the games and players that travel with it, for a job that leaves a file."""
    game, spec = job.carried
    digest = hashlib.sha256()
    if game is not None:
        digest.update(np.asarray(game.points).tobytes() + repr(game.kernel).encode())
        digest.update(_made_by(game.make))
        digest.update(repr((game.loss_range, game.unknown)).encode() + _made_by(game.delays))
        if (told := game.contexts) is not None:
            facts = told.kernel, told.order, None if told.weights is None else list(told.weights)
            digest.update(np.asarray(told.X).tobytes() + repr(facts).encode() + _made_by(told.draw))
    if spec is not None:
        fields = f"{spec.full} {spec.needs} {spec.late}" + ("" if spec.where == "plain" else spec.where)  # fmt: skip
        digest.update(fields.encode() + _made_by(spec.make))
    return replace(job, carried_digest=digest.hexdigest())


def make(job: Job, mine: int, theirs: int) -> Match:
    """The game and the player of a job."""
    game, spec = job.carried
    game = replace(game or games()[job.game], rounds=job.rounds)
    spec = spec or players()[job.player]
    if game.delays is not None and not spec.late:
        raise CannotPlay("its interface takes a loss only before the next decision")
    if not spec.plays(game):
        raise CannotPlay(f"it plays games with{'out' if spec.where == 'plain' else ''} contexts")
    player = spec.make(game, mine)
    hears = "full" if spec.full else "bandit"
    if player.feedback != hears:
        raise ValueError(f"`feedback` of {spec.slug} must be {hears!r}, got {player.feedback!r}")
    adversary = _Checked(game, game.make(theirs))
    facts = partial(_insurance, player) if isinstance(player, InsuredBandit) else dict
    if "range" in spec.needs and game.loss_range != (0.0, 1.0) and isinstance(player, Player):
        player = _Scaled(player, game.loss_range)
    settings: dict[str, Any] = {"checkpoints": CHECKPOINTS}
    if game.delays is not None:
        settings["delay"] = game.delays(theirs, job.rounds)
    if game.contexts is not None:
        settings["contexts"] = game.contexts.draw(theirs, job.rounds)
        player = _Unaware(player) if spec.where == "both" else player
    return Match(player, adversary, job.rounds, settings, facts)


class _Scaled:
    """A player that hears losses scaled to [0, 1]."""

    def __init__(self, player: Player, loss_range: tuple[float, float]) -> None:
        self._player, (self._low, high) = player, loss_range
        self._width = high - self._low

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def tell(self, decision: Any, loss: Any) -> None:
        self._player.tell(decision, (loss - self._low) / self._width)


class _Unaware:
    """A player that does not hear of contexts."""

    def __init__(self, player: Any) -> None:
        self._player = player

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def ask(self, context: Any = None) -> Any:
        return self._player.ask()

    def distribution_for(self, context: Any) -> Any:
        return self._player.distribution


class _Checked(Adversary):
    """The adversary of a game, held to its word."""

    def __init__(self, game: Game, adversary: Adversary) -> None:
        self.name, self.shape = game.name, (len(game.points),)
        self.adversary, self.oblivious = adversary, adversary.oblivious
        self.low, self.high = game.loss_range

    def choose(self, t: int, player: Any) -> Any:
        loss = np.asarray(self.adversary(t, player), dtype=float)
        if loss.shape != self.shape:
            rule = f"must have shape {self.shape}, got {loss.shape}"
            raise ValueError(f"the losses of {self.name} {rule}")
        slack = 1e-9 * (self.high - self.low)
        if not (loss.min() >= self.low - slack and loss.max() <= self.high + slack):  # NaN fails
            rule = f"must be in [{self.low:g}, {self.high:g}]"
            got = f"{loss.min():.6g} to {loss.max():.6g}"
            raise ValueError(f"the losses of {self.name} {rule}, got {got}")
        return loss

    def saw(self, t: int, action: Any) -> None:
        self.adversary.saw(t, action)

    def __repr__(self) -> str:
        return repr(self.adversary)


def _insurance(player: InsuredBandit) -> dict[str, Any]:
    """When and why an insured learner stopped its policy, and what exploring has cost."""
    seen = player.diagnostics
    return {
        "insured": {
            "alarms": [asdict(alarm) for alarm in seen.alarms],
            "explored": int(seen.explored),
            "premium": float(seen.premium),
        }
    }


def _made_by(make: Any) -> bytes:
    """Digest of a function that makes games or players: its arguments, and the whole file that it is in."""
    digest = hashlib.sha256(pickle.dumps(make))
    inner = make
    while isinstance(inner, partial):
        inner = inner.func
    with suppress(OSError, TypeError):  # made without a file, or not by a function
        digest.update(Path(inspect.getsourcefile(inner) or "").read_bytes())
    return digest.digest()
