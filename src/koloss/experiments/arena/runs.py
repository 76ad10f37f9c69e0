"""All runs of the arena: each is one small file, made once, by any number of processes.

A file knows what it was made from (a digest of the code, the game, the player, the version of the player's package, the rounds
and the seed), so that a run that is there already is not played again. Seeds depend on names and numbers alone: results do
not depend on what else is played, on the number of processes, or on the order in which runs end. Only what the time limit
stops depends on the machine.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import koloss
from koloss._arrays import as_float, as_int
from koloss.experiments.arena.base import Game, PlayerSpec
from koloss.experiments.arena.games import games as all_games
from koloss.experiments.arena.play import load_run, play_run, save_run
from koloss.experiments.arena.players import players as all_players
from koloss.experiments.results import ArenaResults, Run
from koloss.experiments.runs import Progress
from koloss.games.play import worker_pool
from koloss.games.store import version_of

SHOWING = (
    "cli/",
    "experiments/",
    "report/",
    *(f"arena/{name}.py" for name in ("report", "page", "figures", "results", "ranking")),
)
"""Parts of the library that runs do not depend on."""

LIMIT = 120.0
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Job:
    """One run that is to be played.

    Attributes
    ----------
    game, player : str
        Names.
    number : int
        k, from 0.
    rounds, seed : int
    limit : float
        Seconds.
    path : Path
        The file that it leaves.
    digest : str
        Of everything that the result depends on.
    """

    game: str
    player: str
    number: int
    rounds: int
    seed: int
    limit: float
    path: Path
    digest: str


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
    note: Callable[[Progress], Any] = lambda _: None,
) -> ArenaResults:
    """Let players play games, and sum up. `koloss.experiments.arena.write_page` makes a page of it.

    Parameters
    ----------
    games : sequence of names or Games, optional
        All of the library's by default. A game of your own is made by a function of a module's top level, so that another
        process can find it; the same holds for players.
    players : sequence of slugs or PlayerSpecs, optional
    out : path
        Directory for `arena.json` and `runs/`. Runs that are in there already are not played again.
    runs : int
        Of every player in every game.
    rounds : int, optional
        Most rounds of a game.
    seed : int
    jobs : int, optional
        Processes; as many as there are processors by default. Results do not depend on it.
    limit : float
        Seconds that a run may take once its player is made; it is stopped between two rounds.
    note : callable
        Told of every run that has ended.

    Returns
    -------
    ArenaResults

    Examples
    --------
    >>> import tempfile
    >>> from koloss import arena
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = arena.run(
    ...         ["stationary"], ["gp-ucb", "uniform"], out=folder, rounds=200, runs=2, jobs=1
    ...     )
    >>> found.best("stationary"), found.entry("stationary", "uniform").finished
    ('gp-ucb', True)
    """
    begin = time.perf_counter()
    field = _chosen("games", games, all_games(), Game, "name")
    squad = _chosen("players", players, all_players(), PlayerSpec, "slug")
    runs, seed = as_int("runs", runs, minimum=1), as_int("seed", seed, minimum=0)
    rounds = None if rounds is None else as_int("rounds", rounds, minimum=1)
    workers = (os.cpu_count() or 1) if jobs is None else as_int("jobs", jobs, minimum=1)
    limit = as_float("limit", limit, positive=True)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    todo = [
        Job(game.name, spec.slug, k, n, seed, limit, path, _digest(game, spec, n, seed, k))
        for k in range(runs)  # the first run of all comes before the second of any
        for game in field
        for spec in squad
        if k < (spec.most_runs or runs)
        for n in [min(rounds or game.rounds, game.rounds)]
        for path in [out / "runs" / game.name / spec.slug / f"{k}.json"]
    ]
    died = run_all(todo, field, squad, workers=workers, note=note)
    found = ArenaResults(
        games=tuple(field),
        players=tuple(squad),
        runs=tuple(died[job] if job in died else _kept(job) for job in todo),
        seed=seed,
        limit=limit,
        seconds=time.perf_counter() - begin,
    )
    found.write(out)
    return found


def run_all(
    jobs: Sequence[Job],
    games: Sequence[Game],
    players: Sequence[PlayerSpec],
    *,
    workers: int,
    note: Callable[[Progress], Any] = lambda _: None,
) -> dict[Job, Run]:
    """Play the runs that have not been played.

    A process that ends without a word takes others with it. What was in play then is played again, one at a time, to find
    out whose fault it was.

    Returns
    -------
    dict of Job to Run
        Those whose process died; they leave no file.
    """
    waiting = [job for job in jobs if not is_done(job)]
    died: dict[Job, Run] = {}
    count = len(jobs) - len(waiting)
    note(Progress(count, len(jobs)))
    for job in waiting:
        job.path.parent.mkdir(parents=True, exist_ok=True)
        _begun(job).unlink(missing_ok=True)
    own_games, own_players = _own(games, all_games(), "name"), _own(players, all_players(), "slug")

    def tell(job: Job) -> None:
        nonlocal count
        count += 1
        note(Progress(count, len(jobs), job))

    def play(these: Sequence[Job]) -> list[Job]:
        """Play some; those that were lost with a process come back."""
        futures: dict[Future[None], Job] = {}
        lost = dict.fromkeys(these)
        with worker_pool(min(workers, len(lost))) as pool:
            with suppress(BrokenProcessPool):
                for job in these:
                    own = own_games.get(job.game), own_players.get(job.player)
                    futures[pool.submit(work, job, *own)] = job
            for future in as_completed(futures):
                if isinstance(future.exception(), BrokenProcessPool):
                    continue
                future.result()
                del lost[futures[future]]
                tell(futures[future])
        for job in [job for job in lost if is_done(job)]:  # the word was lost, not the run
            del lost[job]
            tell(job)
        return list(lost)

    while waiting:
        waiting = play(waiting)
        begun = [job for job in waiting if _begun(job).exists()]
        if waiting and not begun and play(waiting[:1]) and not _begun(waiting[0]).exists():
            raise RuntimeError(
                "the processes of the arena end before they play: a script must call it below "
                "`if __name__ == '__main__':`, and have its own games and players in a module"
            )
        for job in begun:
            if play([job]):
                died[job] = _dead(job)
                tell(job)
            _begun(job).unlink(missing_ok=True)
        waiting = [job for job in waiting if job not in died and not is_done(job)]
    return died


def work(job: Job, game: Game | None = None, spec: PlayerSpec | None = None) -> None:
    """Play a run and write its file; the library's own games and players need only be named."""
    _begun(job).touch()
    game, spec = game or all_games()[job.game], spec or all_players()[job.player]
    with warnings.catch_warnings():
        if spec.package:
            warnings.simplefilter("ignore")  # other packages' are not ours to repair
        found = play_run(game, spec, job.number, seed=job.seed, rounds=job.rounds, limit=job.limit)
    save_run(found, job.digest, job.path)
    _begun(job).unlink(missing_ok=True)


def is_done(job: Job) -> bool:
    """Whether the file of a run is there, whole, and of this very run; what a shorter time limit stopped is not."""
    kept = load_run(job.path)
    if kept is None or kept[1] != job.digest:
        return False
    found = kept[0]
    return found.status != "stopped" or found.limit >= job.limit


def _dead(job: Job) -> Run:
    message = "failed: its process ended without a word"
    return Run(job.game, job.player, job.number, job.rounds, "died", message, limit=job.limit)


def _kept(job: Job) -> Run:
    found = load_run(job.path)
    assert found is not None
    return found[0]


def _begun(job: Job) -> Path:
    """A file that is there while the run is being played."""
    return job.path.with_name(job.path.name + ".begun")


# Which games and players.


def _chosen(name: str, given: Any, known: dict[str, Any], kind: type, key: str) -> list[Any]:
    """Games or players by name, or as they are."""
    found = []
    for one in known if given is None else given:
        if isinstance(one, kind):
            found.append(one)
        elif isinstance(one, str) and one in known:
            found.append(known[one])
        else:
            raise ValueError(f"`{name}` must be among {', '.join(known)}, got {one!r}")
    names = [getattr(one, key) for one in found]
    for one in names:
        if names.count(one) > 1:
            raise ValueError(f"`{name}` must have different names, got {one!r} twice")
    if not found:
        raise ValueError(f"`{name}` must have at least one, got none")
    for one in _own(found, known, key).values():
        try:
            pickle.dumps(one)
        except Exception as error:
            raise ValueError(
                f"`{name}` must be made by functions that another process can find, got {getattr(one, key)!r}: {error}"
            ) from error
    return found


def _own(given: Sequence[Any], known: dict[str, Any], key: str) -> dict[str, Any]:
    """Those that are not the library's own."""
    return {
        name: one for one in given for name in [getattr(one, key)] if known.get(name) is not one
    }


# Digests.


def _digest(game: Game, spec: PlayerSpec, rounds: int, seed: int, number: int) -> str:
    """Of everything that a run depends on; summaries are not among it."""
    what: dict[str, Any] = {
        "code": _code(),
        "game": game.name,
        "player": spec.slug,
        "package": version_of(spec.package) if spec.package else "",
        "rounds": rounds,
        "seed": seed,
        "number": number,
    }
    if all_games().get(game.name) is not game:
        points = hashlib.sha256(np.asarray(game.points).tobytes()).hexdigest()
        what["own_game"] = [points, repr(game.kernel), _made_by(game.make)]
    if all_players().get(spec.slug) is not spec:
        what["own_player"] = [spec.full, _made_by(spec.make)]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _made_by(make: Any) -> str:
    """Digest of a function that makes games or players: its arguments, and the whole file that it is in."""
    found = hashlib.sha256(pickle.dumps(make))
    inner = make
    while isinstance(inner, partial):
        inner = inner.func
    with suppress(OSError, TypeError):  # made without a file, or not by a function
        found.update(Path(inspect.getsourcefile(inner) or "").read_bytes())
    return found.hexdigest()


@cache
def _code() -> str:
    """Digest of the library's source and of the recorded data, but for what only shows results."""
    root = Path(koloss.__file__).parent
    found = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.glob("arena/recorded/*")]):
        name = path.relative_to(root).as_posix()
        if not name.startswith(SHOWING):
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
