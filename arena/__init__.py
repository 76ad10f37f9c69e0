"""The arena: every learner and every peer on the same games, in one table.

`python -m arena`, from a checkout. Packages of peers are imported when their players are made.
"""

from arena.base import (
    Choice,
    ContextChoice,
    ContextPlayer,
    Game,
    GameContexts,
    Player,
    PlayerSpec,
)
from arena.figures import regret_figure, summary_figure
from arena.games import games
from arena.page import markdown_tables, write_page
from arena.players import players
from arena.random_games import random_game
from arena.ranking import Standing, standings
from arena.results import ArenaResults, Entry, Run
from arena.runner import play_run, run
from arena.terminal import show_arena

__all__ = [
    "ArenaResults",
    "Choice",
    "ContextChoice",
    "ContextPlayer",
    "Entry",
    "Game",
    "GameContexts",
    "Player",
    "PlayerSpec",
    "Run",
    "Standing",
    "games",
    "markdown_tables",
    "play_run",
    "players",
    "random_game",
    "regret_figure",
    "run",
    "show_arena",
    "standings",
    "summary_figure",
    "write_page",
]
