"""Make a store of format 1 with all that happens in studies, and beside it what two of these hold, as JSON.

A file that has been released stays as it is. Run with the version that is to be remembered:

python tests/studies/assets/create_format_1.py tests/studies/assets/format-1.db
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np

import koloss as kl
from koloss.studies import worker

POINTS, MORE = (kl.Points(np.linspace(0, 1, n)[:, None]) for n in (4, 6))


def main(path: Path) -> None:
    for suffix in ("", ".lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    worker.SNAPSHOT_EVENTS, worker.SNAPSHOT_BYTES = 8, 10**6  # two of a small study
    worker.SNAPSHOT_SECONDS = 1e9
    url = f"sqlite:///{path}"
    now = [1.8e9]
    learner = kl.BanditExpWeights(POINTS, kl.Linear(), horizon=500, loss_range=(0, 2), rng=1)
    prices = kl.Study.create(
        url,
        "prices",
        learner=learner,
        unit="euro",
        lease=60,
        default=1.5,
        labels={"team": "a"},
        clock=lambda: now[0],
    )
    for k in range(6):
        now[0] += 10
        prices.tell(prices.ask(request=f"ask {k}"), k / 7, request=f"tell {k}")
    prices.ask(subject="somebody")
    prices.tell(prices.ask(3), [0.1, 0.2, 0.3])
    prices.pause(author="me", reason="a test")
    now[0] += 100
    prices.resume(author="me", reason="its end")
    waiting = prices.ask(subject="somebody else")  # what was not told by now has its default
    prices.close()

    insured = kl.InsuredBandit(POINTS, kl.Gaussian(0.4), horizon=300, loss_range=(-1, 1), rng=2)
    banners = kl.Study.create(url, "banners", learner=insured, clock=lambda: now[0])
    for k in range(5):
        banners.tell(banners.ask(), (k - 2) / 3)
    banners.close()

    written = {}
    for name in ("banners", "prices"):
        with kl.Study.open(url, name, clock=lambda: now[0]) as study:
            events = [event.to_dict() for event in study.events()]
        for event in events:
            event.pop("state", None)  # long, and for the learner to read
        written[name] = events
    assert written["prices"][-1]["decision"] == waiting.id
    takings_and_offers(url)
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = delete")  # one file, whose pages are full
        db.execute("vacuum")
        db.execute("pragma journal_mode = wal")
    Path(f"{path}.lock").unlink()
    path.with_suffix(".json").write_text(json.dumps(written, indent=1) + "\n")


def takings_and_offers(url: str) -> None:
    """Rewards with defaults, of a study that is paused; contexts, windows and a policy that was stopped."""
    ticks = itertools.count(1_800_000_000, 5)
    said = {"horizon": 2000, "loss_range": (0, 1), "rng": 0}
    takings = kl.Study.create(
        url,
        "takings",
        learner=kl.BanditExpWeights(MORE, kl.Gaussian(0.4), **said),
        goal="maximize",
        unit="EUR",
        lease=60.0,
        default=0.0,
        labels={"team": "shop"},
        clock=lambda: float(next(ticks)),
    )
    for k in range(40):
        made = (
            takings.ask(3, request=f"ask {k}") if k % 5 == 4 else takings.ask(subject=f"visit {k}")
        )
        if k % 3:
            takings.tell(made, 0.75 if k % 5 != 4 else [0.25, 0.5, 1.0], request=f"tell {k}")
    takings.tell(takings.ask(allowed=[1, 4]), 0.5)
    takings.tell(0, 1.0)  # after its default
    takings.pause(author="ana", reason="stocktaking")

    segments = kl.Contexts(["new", "old"], weights=[0.5, 0.5])
    offers = kl.Study.create(
        url,
        "offers",
        learner=kl.InsuredBandit(MORE, kl.Gaussian(0.4), contexts=segments, **said),
        lease=60.0,
        release="window",
        clock=lambda: float(next(ticks)),
    )
    for k in range(30):
        offers.tell(offers.ask(context=("new", "old")[k % 2]), 0.25)
    offers.hand_over(author="ana", reason="a look")
    offers.ask(context="new")
    takings.close()
    offers.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
