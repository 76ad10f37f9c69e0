"""From games and players to a folder of results: play what is missing, and sum up."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena.base import Game, PlayerSpec
from arena.games import games as all_games
from arena.play import job_of, keyed
from arena.players import players as all_players
from arena.results import ArenaResults, Run
from koloss.core.arrays import as_float, as_int
from koloss.core.text import LONGEST_NAME, hidden, slug
from koloss.games.store import Job, Progress, check_names, locked, perform, play_jobs, seeds_of
from koloss.games.trace import Packed, Trace
from koloss.games.workers import processes

LIMIT = 120.0
"""Seconds that a run may take."""


def run(
    games: Sequence[str | Game] | None = None,
    players: Sequence[str | PlayerSpec] | None = None,
    *,
    out: str | Path,
    runs: int = 5,
    rounds: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    limit: float = LIMIT,
    executor: Executor | None = None,
    progress: Callable[[Progress], Any] | None = None,
) -> ArenaResults:
    """Let players play games, and sum up. `arena.write_page` makes a page of it.

    Parameters
    ----------
    games : sequence of names or Games, optional
        All of the library's by default. A game of your own is made by a function of a module's top level, so that another
        process can find it; the same holds for players.
    players : sequence of slugs or PlayerSpecs, optional
    out : path
        Folder for `arena.json` and `runs/`. Runs that are in there already are not played again, unless they failed.
    runs : int
        Of every player in every game.
    rounds : int, optional
        Most rounds of a game.
    limit : float
        Seconds that a run may take once its player is made; it is stopped between two rounds.
    seed, jobs, executor, progress
        As for `koloss.experiments.run`.

    Raises
    ------
    FolderInUse
        Where another process plays into the same folder.
    OSError
        Where it cannot be written to; nothing has been played then.

    Examples
    --------
    >>> import tempfile
    >>> import arena
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = arena.run(
    ...         ["stationary"], ["gp-ucb", "uniform"], out=folder, rounds=200, runs=2, jobs=1
    ...     )
    >>> results.best("stationary"), results.entry("stationary", "uniform").finished
    ('gp-ucb', True)
    """
    begin, out = time.perf_counter(), Path(out)
    field = _chosen("games", games, all_games(), Game, "name")
    squad = _chosen("players", players, all_players(), PlayerSpec, "slug")
    field, squad = _who_meet(field, squad)
    runs, seed = as_int("runs", runs, minimum=1), as_int("seed", seed, minimum=0)
    rounds = None if rounds is None else as_int("rounds", rounds, minimum=1)
    count, limit = processes(jobs), as_float("limit", limit, positive=True)
    todo = [
        keyed(job_of(game, spec, k, rounds=rounds, seed=seed, limit=limit))
        for k in range(runs)  # the first run of all comes before the second of any
        for game in field
        for spec in squad
        if spec.plays(game) and k < (spec.most_runs or runs)
    ]
    with locked(out):
        kept = play_jobs(todo, out, processes=count, executor=executor, progress=progress)
        results = ArenaResults(
            games=tuple(field),
            players=tuple(squad),
            runs=tuple(run_of(job, one) for job, one in zip(todo, kept, strict=True)),
            seed=seed,
            limit=limit,
            seconds=time.perf_counter() - begin,
        )
        results.write(out)
    return results


def play_run(
    game: Game, spec: PlayerSpec, number: int = 0, *, seed: int = 0, rounds: int | None = None, limit: float = math.inf
) -> Run:  # fmt: skip
    """Play run `number`, here, with at most so many rounds and seconds. An error of the player is a result, too."""
    job = job_of(game, spec, number, rounds=rounds, seed=seed, limit=limit)
    return run_of(job, perform(job))


def run_of(job: Job, packed: Packed) -> Run:
    """What a run says."""
    trace, facts = Trace.unpack(packed), packed.plain["facts"]
    floor = (job.carried[0] or all_games()[job.game]).floor
    if floor is not None:
        saved: Any = floor * trace.checkpoints
        trace = replace(trace, best_paid=saved, running=trace.paid - saved, best_index=None)
    promise = facts.get("promise")
    curve = tuple((trace.paid - trace.best_paid).tolist())
    guarantee = None
    if promise is not None:
        bound = promise["total"] if math.isfinite(promise["total"]) else None
        guarantee = {
            "total": bound,
            **{name: promise[name] for name in ("statement", "regret", "valid", "informative")},
            **{name: facts[name] for name in ("rank", "epsilon")},
            "exceeded": bool(promise["valid"]) and bound is not None and curve[-1] > bound,
        }
    return Run(
        game=job.game,
        player=job.player,
        number=job.number,
        rounds=job.rounds,
        status=trace.ended,
        message=trace.message,
        played=int(trace.checkpoints[-1]) if curve else 0,
        regret=curve[-1] if curve else 0.0,
        loss=float(trace.paid[-1]) if curve else 0.0,
        best=trace.best_index,
        best_loss=float(trace.best_paid[-1]) if curve else 0.0,
        at=tuple(trace.checkpoints.tolist()),
        curve=curve,
        running=tuple(trace.running.tolist()),
        seconds=trace.seconds,
        making=facts["making"],
        limit=facts["limit"],
        seeds=seeds_of(job),
        guarantee=guarantee,
        insured=facts.get("insured"),
    )


def _who_meet(games: list[Game], players: list[PlayerSpec]) -> tuple[list[Game], list[PlayerSpec]]:  # fmt: skip
    """Games that any of the players has a place in, and players with a place in any of the games."""
    field = [game for game in games if any(spec.plays(game) for spec in players)]
    squad = [spec for spec in players if any(spec.plays(game) for game in games)]
    if not field:
        kinds = "with contexts, all players without" if games[0].contexts else "without contexts, all players with"  # fmt: skip
        raise ValueError(f"`players` must have one for these games, got games {kinds}")
    return field, squad


def _chosen(name: str, given: Any, known: dict[str, Any], kind: type, key: str) -> list[Any]:
    """Games or players by name, or as they are."""
    chosen: list[Any] = []
    for one in known if given is None else given:
        if isinstance(one, kind):
            chosen.append(one)
        elif isinstance(one, str) and one in known:
            chosen.append(known[one])
        else:
            raise ValueError(f"`{name}` must be among {', '.join(known)}, got {one!r}")
    if not chosen:
        raise ValueError(f"`{name}` must have at least one, got none")
    for text in (text for one in chosen for text in (getattr(one, key), one.name)):
        if not isinstance(text, str) or hidden(text) or not 1 <= len(text) <= LONGEST_NAME:
            rule = f"must have names of 1 to {LONGEST_NAME} characters that can be shown"
            raise ValueError(f"`{name}` {rule}, got {text!a}")
    check_names(name, [slug(getattr(one, key)) for one in chosen])
    for one in chosen:
        called = getattr(one, key)
        try:
            if known.get(called) is not one:
                pickle.dumps(one)
        except Exception as error:
            rule = "must be made by functions that another process can find"
            raise ValueError(f"`{name}` {rule}, got {called!r}: {error}") from error
    return chosen
