"""How study-1.db was made: two studies with all that happens in one.

    python tests/studies/assets/create_study_1.py tests/studies/assets/study-1.db

A file that has been released stays as it is: what is written today is format 1 until something in it changes.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

import koloss as kl
from koloss.studies import worker

POINTS = kl.Points(np.linspace(0, 1, 6)[:, None])


def main(path: Path) -> None:
    """Write the file."""
    worker.SNAPSHOT_EVENTS, worker.SNAPSHOT_SECONDS = 40, 1e9
    ticks = itertools.count(1_800_000_000, 5)
    said = {"horizon": 2000, "loss_range": (0, 1), "rng": 0}
    store = kl.studies.open_store(f"sqlite:///{path}")
    prices = kl.Study.create(
        store,
        "prices",
        learner=kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **said),
        goal="maximize",
        unit="EUR",
        lease=60.0,
        default=0.0,
        labels={"team": "shop"},
        clock=lambda: float(next(ticks)),
    )
    for k in range(40):
        made = prices.ask(3, request=f"ask {k}") if k % 5 == 4 else prices.ask(subject=f"visit {k}")
        if k % 3:
            prices.tell(made, 0.75 if k % 5 != 4 else [0.25, 0.5, 1.0], request=f"tell {k}")
    prices.tell(prices.ask(allowed=[1, 4]), 0.5)
    prices.tell(0, 1.0)  # after its default
    prices.pause(author="ana", reason="stocktaking")

    segments = kl.Contexts(["new", "old"], weights=[0.5, 0.5])
    offers = kl.Study.create(
        store,
        "offers",
        learner=kl.InsuredBandit(POINTS, kl.Gaussian(0.4), contexts=segments, **said),
        lease=60.0,
        release="window",
        clock=lambda: float(next(ticks)),
    )
    for k in range(30):
        offers.tell(offers.ask(context=("new", "old")[k % 2]), 0.25)
    offers.hand_over(author="ana", reason="a look")
    offers.ask(context="new")
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
