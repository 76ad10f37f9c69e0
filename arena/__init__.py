"""The arena: every learner and every peer on the same games, in one table.

`python -m arena`, from a checkout. Packages of peers are imported when their players are made.
"""

from arena.base import (
    Choice,
    ContextPlayer,
    Game,
    GameContexts,
    Player,
    PlayerSpec,
)
from arena.figures import summary_figure
from arena.games import games
from arena.page import show_arena, write_page
from arena.players import players
from arena.random_games import random_game
from arena.ranking import Standing, standings
from arena.results import ArenaResults, Entry, Run
from arena.runner import play_run, run

__all__ = [
    "ArenaResults",
    "Choice",
    "ContextPlayer",
    "Entry",
    "Game",
    "GameContexts",
    "Player",
    "PlayerSpec",
    "Run",
    "Standing",
    "games",
    "play_run",
    "players",
    "random_game",
    "run",
    "show_arena",
    "standings",
    "summary_figure",
    "write_page",
]
