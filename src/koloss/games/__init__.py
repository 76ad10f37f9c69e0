"""Games: adversaries, the loop that plays any learner against any of them, and what a game leaves behind."""

from koloss.games.adversaries import (
    Adversary,
    Alternating,
    Biased,
    Drifting,
    Function,
    Random,
    RankOne,
    Replay,
    Switching,
)
from koloss.games.play import play
from koloss.games.replicate import replicate
from koloss.games.trace import Replicates, Trace
from koloss.games.watching import Lure, Predictive, Stalker

__all__ = [
    "Adversary",
    "Alternating",
    "Biased",
    "Drifting",
    "Function",
    "Lure",
    "Predictive",
    "Random",
    "RankOne",
    "Replay",
    "Replicates",
    "Stalker",
    "Switching",
    "Trace",
    "play",
    "replicate",
]
