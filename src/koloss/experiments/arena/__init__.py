"""The arena: every learner and every peer on the same games, in one table.

Packages of peers are imported when their players are made, and figures and tables when they are asked for.
"""

from koloss.experiments.arena.base import Game, Player, PlayerSpec
from koloss.experiments.arena.figures import regret_figure, summary_figure
from koloss.experiments.arena.games import games
from koloss.experiments.arena.page import write_page
from koloss.experiments.arena.play import play_run
from koloss.experiments.arena.players import Choice, players
from koloss.experiments.arena.ranking import Standing, standings
from koloss.experiments.arena.report import show_arena
from koloss.experiments.arena.runs import Job, run
from koloss.experiments.results import ArenaResults, Entry, Run
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
