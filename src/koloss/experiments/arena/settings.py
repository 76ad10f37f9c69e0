"""Games of the arena with other settings: the kernel of their terrain, and the numbers of what makes their losses.

Random games, which are there for sweeps alone, have settings of their own: see `random_games`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from koloss.experiments.arena import play
from koloss.experiments.arena.base import Game
from koloss.experiments.arena.games import games
from koloss.experiments.arena.random_games import NAME, random_game, seeds_at
from koloss.experiments.arena.terrain import Landscapes, Terrain, bernoulli, drawn
from koloss.games.play import Match
from koloss.games.store import Job
from koloss.kernels import Kernel


def make(job: Job, mine: int, theirs: int) -> Match:
    """The game of a job with the settings that are its arguments, and its player."""
    settings = job.arguments["settings"]
    game = with_settings(known_games()[job.game], settings)
    if game.name == NAME:
        mine, theirs = seeds_at(settings, mine, theirs)
    return play.make(replace(job, carried=(game, None)), mine, theirs)


def known_games() -> dict[str, Game]:
    """Games that a sweep can play, by name: those of the arena, and the random one."""
    return {**games(), NAME: _random()}


@cache
def _random() -> Game:
    return random_game({})


def with_settings(game: Game, settings: Mapping[str, Any]) -> Game:
    """The same game with some settings of its own.

    Parameters
    ----------
    game : Game
    settings : mapping
        `rounds`, at most the game's; `kernel`, or `kernel.bandwidth` and the like, of the losses and of what players are told;
        numbers of the game such as `stray`, `common`, `size` or `patience`. Those of a random game are the fields of `RandomGame`.

    Examples
    --------
    >>> from koloss.experiments.arena import games
    >>> game = with_settings(
    ...     games()["drift"], {"kernel.bandwidth": 0.3, "stray": 0.2, "rounds": 500}
    ... )
    >>> game.kernel, game.rounds
    (Gaussian(bandwidth=0.3), 500)
    """
    if game.name == NAME:
        return random_game(settings)
    numbers = {key: value for key, value in settings.items() if key.partition(".")[0] != "kernel"}
    rounds = numbers.pop("rounds", game.rounds)
    if type(rounds) is not int or not 1 <= rounds <= game.rounds:
        raise ValueError(f"`rounds` must be from 1 to {game.rounds} in {game.name}, got {rounds!r}")
    maker = game.make
    if not (isinstance(maker, partial) and maker.args and isinstance(maker.args[0], Terrain)):
        if settings.keys() - {"rounds"}:
            got = ", ".join(settings)
            raise ValueError(f"`settings` must be rounds alone in {game.name}, got {got}")
        return replace(game, rounds=rounds)
    kernel = _kernel(game.kernel, settings)
    made, left = _with_numbers(maker, numbers)
    for name in left:
        known = ", ".join(["rounds", "kernel", *sorted(_known(maker))])
        raise ValueError(f"`settings` must be among {known} in {game.name}, got {name!r}")
    made = partial(made.func, Terrain(game.points, kernel), **made.keywords)
    return replace(game, rounds=rounds, kernel=kernel, make=made)


def _kernel(kernel: Kernel, settings: Mapping[str, Any]) -> Kernel:
    whole = settings.get("kernel", kernel.to_dict())
    parts = {
        key.partition(".")[2]: value for key, value in settings.items() if key.startswith("kernel.")
    }
    return Kernel.from_dict({**whole, **parts})


def _with_numbers(maker: partial[Any], numbers: Mapping[str, Any]) -> tuple[partial[Any], list[str]]:  # fmt: skip
    """A maker with other numbers, and the names of those that it has no use for; what it is made from is asked, too."""
    own = _own(maker)
    left = {name: value for name, value in numbers.items() if name not in own}
    for name, value in numbers.items():
        if type(value) not in (int, float):
            raise TypeError(f"`{name}` must be a number, got {value!r}")
    keywords = {**maker.keywords, **{k: v for k, v in numbers.items() if k in own}}
    names = list(left)
    if left and isinstance(inner := keywords.get("first"), partial):
        keywords["first"], names = _with_numbers(inner, left)
    return partial(maker.func, *maker.args, **keywords), names


def _known(maker: partial[Any]) -> set[str]:
    inner = maker.keywords.get("first")
    return _own(maker) | (_known(inner) if isinstance(inner, partial) else set())


def _own(maker: partial[Any]) -> set[str]:
    """Names of the numbers that a maker takes, or hands on."""
    functions = [maker.func]
    if maker.func is bernoulli:
        functions.append(drawn)
    if "kind" in maker.keywords:
        functions.append(maker.keywords["kind"].__init__)
    names: set[str] = set()
    for function in functions:
        parameters = inspect.signature(function).parameters
        names |= _numbers(parameters)
        if "noise" in parameters:
            names |= _numbers(inspect.signature(Landscapes.__init__).parameters)
    return names


def _numbers(parameters: Mapping[str, inspect.Parameter]) -> set[str]:
    return {
        name
        for name, one in parameters.items()
        if one.kind is one.KEYWORD_ONLY and one.annotation in ("int", "float", int, float)
    }
