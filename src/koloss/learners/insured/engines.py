"""From settings to the engines of the stages: of each context one to watch a policy with, and one for the robust learner (theory F6.11)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from koloss.guarantees.contexts import horizons
from koloss.learners.bandit.pairs import scale_in
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.insured.settings import InsuredSettings


class Engines(NamedTuple):
    """Those of one context, and the rounds that they are tuned to."""

    watched: PointsEngine
    robust: PointsEngine  # the same where nothing speaks for another one
    horizon: int | None
    batch: int  # most rounds in an epoch of the robust learner


def engines_of(settings: InsuredSettings) -> list[Engines]:
    """Of every context, those with the same kernel the same; without contexts there is one.

    With a horizon that of a context is such that a round of the robust learner costs as much in all: n m_c log K_c / Σ m_e log K_e.
    """
    n, C = settings.horizon, settings.stages
    share = n if n is None or C == 1 else max(1, round(n / C))
    likes, made = _alike(settings), {}
    for c in sorted(set(likes)):
        own = [settings.watched_in(c), settings.robust_in(c)][: 2 - settings.shares_engine]
        made[c] = [points_engine(replace(one, horizon=share), trial=c > 0) for one in own]
    if share == n:
        rounds = [n] * C
    else:
        robust = [made[c][-1] for c in likes]
        kappas = [one.rates.kappa for one in robust]
        rounds = list(horizons([one.problem for one in robust], kappas, n or 0))
        for c, engines in made.items():
            if rounds[c] != share:
                made[c] = [one.retuned(rounds[c] or 1) for one in engines]
    found = {}
    for c, engines in made.items():
        batch = choose_batch(settings.robust_in(c), engines[-1].problem, engines[-1].rows)
        found[c] = Engines(engines[0], engines[-1], rounds[c], batch)
    return [found[c] for c in likes]


def _alike(settings: InsuredSettings) -> list[int]:
    """For every context the first one with the same kernel on actions."""
    first: dict[float, int] = {}
    rows, kernel = [], settings.robust_kernel
    _, ground = settings.grounded(settings.kernel if kernel is None else kernel)
    for c in range(settings.stages):
        scale = 1.0 if settings.contexts is None else scale_in(ground, c)
        rows.append(c if scale is None else first.setdefault(scale, c))
    return rows
