"""1,000 games at twenty settings, on a Dask cluster: python sweep.py tcp://10.0.0.7:8786"""

import itertools
import sys
from functools import partial

import koloss as kl

GRID = kl.Box([0, 0], [1, 1]).net(0.1)


def learner(width, seed):
    return kl.ExpWeights(GRID, kl.Gaussian(width), horizon=2000, loss_norm=1.0, rng=seed)


def adversary(width, noise, seed):
    return kl.games.Biased(kl.Gaussian(width), GRID, noise=noise, rng=seed)


def sweep(executor, widths=(0.1, 0.2, 0.4, 0.8), noises=(0.25, 0.5, 1, 2, 4), rounds=2000, runs=50):
    for width, noise in itertools.product(widths, noises):
        makers = partial(learner, width), partial(adversary, width, noise)
        games = kl.replicate(*makers, rounds, runs, executor=executor)
        yield width, noise, float(games.regret[:, -1].mean()), games.failures


if __name__ == "__main__":
    from distributed import Client

    with Client(sys.argv[1]) as client:
        for row in sweep(client.get_executor()):
            print(*row)
