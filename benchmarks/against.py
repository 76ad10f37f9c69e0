"""Time of a single round, ask and tell, in two checkouts that take turns.

    python -m benchmarks.against OLD NEW [--repeats 15] [--rounds 6000]

Every repeat starts one process for each checkout, OLD first or NEW first in turn; a process plays all settings below and
measures the CPU time of ask and tell, in microseconds per round. The ratio NEW/OLD of a repeat is that of its two processes;
medians and quartiles are over the repeats. N = 400 actions, 29 features.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = ("bandit", "bandit batch=1", "insured", "insured handed over", "exp weights on a ball")


def learners():
    import numpy as np

    import koloss as kl

    X = np.random.default_rng(1).uniform(0, 1, (400, 2))
    points, kernel = kl.Points(X), kl.Gaussian(0.25)
    common = {
        "horizon": 20_000,
        "loss_range": (0, 1),
        "rng": 0,
        "rank": 28,
    }  # 29 features with the constant

    def handed():
        learner = kl.InsuredBandit(points, kernel, **common)
        learner.hand_over()
        return learner

    return X, {
        "bandit": lambda: kl.BanditExpWeights(points, kernel, **common),
        "bandit batch=1": lambda: kl.BanditExpWeights(points, kernel, batch=1, **common),
        "insured": lambda: kl.InsuredBandit(points, kernel, **common),
        "insured handed over": handed,
        "exp weights on a ball": lambda: kl.ExpWeights(
            kl.Ball(3), kernel=kl.Quadratic(), horizon=20_000, rng=0
        ),
    }


def work(rounds):
    """Of each setting the median over ten parts of the game, in microseconds per round; and which source was played."""
    import numpy as np

    import koloss as kl

    X, makers = learners()
    table = (0.5 + 0.3 * np.sin(3 * X[:, 0]) + 0.2 * np.cos(2 * X[:, 1])).tolist()
    saddle = kl.QuadraticLoss(np.diag([1.0, 0.0, -1.0]) / 2)
    seconds = {"source": kl.__file__}
    for name, make in makers.items():
        learner = make()
        full = name.startswith("exp weights")
        ask, tell, parts = learner.ask, learner.tell, []
        for part in range(11):
            count = max(rounds // (100 if full else 10), 1)
            begin = time.process_time()
            if full:
                for _ in range(count):
                    tell(ask(), saddle)
            else:
                for _ in range(count):
                    decision = ask()
                    tell(decision, table[decision.index])
            if part:  # the first one warms up
                parts.append((time.process_time() - begin) / count * 1e6)
        seconds[name] = float(np.median(parts))
    print(json.dumps(seconds))


def measure(tree, rounds):
    source = Path(tree).resolve() / "src"
    command = [sys.executable, str(Path(__file__).resolve()), "--work", str(rounds)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    if not Path(figures.pop("source")).is_relative_to(source):  # another one is installed
        raise SystemExit(f"no koloss in {source}: give a checkout")
    return figures


def main():
    import numpy as np

    if sys.argv[1:2] == ["--work"]:
        work(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=6000)
    given = parser.parse_args()
    A, B = [], []
    for k in range(given.repeats):
        order = [(given.old, A), (given.new, B)]
        for tree, where in order if k % 2 == 0 else order[::-1]:
            where.append(measure(tree, given.rounds))
        print(f"{k + 1} of {given.repeats}", file=sys.stderr, flush=True)
    print(f"{'microseconds per round':24}{'old':>8}{'new':>8}   new/old: median (quartiles)")
    for name in SETTINGS:
        a, b = (np.array([one[name] for one in runs]) for runs in (A, B))
        low, middle, high = np.percentile(b / a, [25, 50, 75])
        figures = f"{np.median(a):8.1f}{np.median(b):8.1f}   {middle:.2f} ({low:.2f} to {high:.2f})"
        print(f"{name:24}{figures}")


if __name__ == "__main__":
    main()
