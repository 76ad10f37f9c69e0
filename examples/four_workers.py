"""Four workers set prices together; one of them is killed in the middle, and nothing is lost.

Run it with `python examples/four_workers.py`, or with the address of a store: `sqlite:////tmp/shop.db`, `postgresql://...`.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time

import numpy as np

import koloss as kl

PRICES = np.linspace(1.0, 10.0, 19)


def begin(store: str) -> None:
    """Once, by whoever comes first."""
    learner = kl.InsuredBandit(
        kl.Points(PRICES[:, None]), kl.Gaussian(2.0), horizon=10_000, loss_range=(0.0, 10.0)
    )
    with kl.Study.create(store, "prices", learner=learner, goal="maximize", unit="EUR", lease=60):
        pass


def work(store: str, visitors: int, seed: int) -> None:
    """What each worker does: a price for every visitor, who buys or not."""
    rng = np.random.default_rng(seed)
    with kl.Study.open(store, "prices") as study:
        for _ in range(visitors):
            decision = study.ask()
            price = float(decision.action[0])
            sold = rng.random() < np.exp(-((price / 6) ** 2))
            study.tell(decision, price if sold else 0.0)


def main(store: str, visitors: int = 50) -> None:
    begin(store)
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(store, visitors, seed)) for seed in range(4)]
    for worker in workers:
        worker.start()
    with kl.Study.open(store, "prices") as study:
        while study.status().told < visitors // 2:
            time.sleep(0.01)
        workers[0].kill()
        for worker in workers:
            worker.join()
        status = study.status()
    print(f"the workers ended with {[worker.exitcode for worker in workers]}")
    print(f"{status.asked} prices asked for, {status.told} told, {status.waiting} still waited for")
    print(kl.studies.verify(store, "prices"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{folder}/shop.db")
