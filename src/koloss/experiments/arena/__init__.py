"""The arena: every learner and every peer on the same games, in one table.

Packages of peers are imported when their players are made. Page, figures and tables are in `koloss.report.arena`.
"""

from koloss.experiments.arena.base import (
    Choice,
    ContextChoice,
    ContextPlayer,
    Game,
    GameContexts,
    Player,
    PlayerSpec,
)
from koloss.experiments.arena.games import games
from koloss.experiments.arena.players import players
from koloss.experiments.arena.ranking import Standing, standings
from koloss.experiments.arena.runner import play_run, run
from koloss.experiments.results import ArenaResults, Entry, Run
from koloss.games.store import Job, Progress

__all__ = [
    "ArenaResults",
    "Choice",
    "ContextChoice",
    "ContextPlayer",
    "Entry",
    "Game",
    "GameContexts",
    "Job",
    "Player",
    "PlayerSpec",
    "Progress",
    "Run",
    "Standing",
    "games",
    "play_run",
    "players",
    "run",
    "standings",
]
