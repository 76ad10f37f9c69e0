"""The arena: every learner and every peer on the same games, in one table.

Packages of peers are imported when their players are made, and figures and tables when they are asked for.
"""

from koloss.arena.base import Game, Player, PlayerSpec
from koloss.arena.figures import regret_figure, summary_figure
from koloss.arena.games import games
from koloss.arena.page import write_page
from koloss.arena.play import Run, play_run
from koloss.arena.players import Choice, players
from koloss.arena.ranking import Standing, standings
from koloss.arena.report import show_arena
from koloss.arena.results import ArenaResults, Entry
from koloss.arena.runs import Job, run
from koloss.experiments.runs import Progress

__all__ = [
    "ArenaResults",
    "Choice",
    "Entry",
    "Game",
    "Job",
    "Player",
    "PlayerSpec",
    "Progress",
    "Run",
    "Standing",
    "games",
    "play_run",
    "players",
    "regret_figure",
    "run",
    "show_arena",
    "standings",
    "summary_figure",
    "write_page",
]
