"""BoTorch as a player of `benchmarks.growing`, in four ways that its documentation shows for noisy losses.

The Gaussian process is the default one (`SingleTaskGP`: Gaussian kernel, a length for each coordinate, noise learned). It has all losses
in every round; its parameters are fitted anew, from where they were, after a tenth more losses, and at least every 50 rounds.

`botorch ucb`: confidence bounds with β = 4. `botorch nei`: `qLogNoisyExpectedImprovement`, the default of Ax. `botorch thompson`: a path
of the posterior (`PathwiseThompsonSampling`). These three are maximised by `optimize_acqf` with 4 restarts out of 128 points.
`botorch region`: Thompson sampling over 2,000 Sobol' candidates in a trust region with the rules of the TuRBO tutorial. As its authors
advise where there is noise, its centre and what counts as a success are by the posterior mean; a region that has become too small begins
anew with all losses kept, which costs less regret than forgetting them.
"""

from __future__ import annotations

import math
import os

import numpy as np

FIRST, MORE, EVERY = 32, 1.1, 50
"""Points of a Sobol' set at first; the parameters are fitted after so many times as many losses, or so many more."""

RESTARTS, RAW, CANDIDATES, STEPS = 4, 128, 2000, 50

LONGEST, SHORTEST, BEGINNING, SUCCESSES = 1.6, 0.5**7, 0.8, 10
"""Lengths of a trust region, and successes in a row after which it doubles: those of the tutorial."""


class BoTorch:
    """A Gaussian process, and how it chooses; on a GPU where `KOLOSS_BOTORCH_DEVICE` is "cuda"."""

    def __init__(self, d, seed, way):
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        device = os.environ.get("KOLOSS_BOTORCH_DEVICE", "cpu")
        self.torch, self.d, self.way = torch, d, way
        self.kind = {"dtype": torch.double, "device": device}
        self.X, self.y = [], []
        self.model, self.fitted = None, 0
        self.sobol = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed)
        self.start = self.sobol.draw(FIRST, dtype=torch.double).numpy()
        self.length, self.best, self.successes, self.failures = BEGINNING, -math.inf, 0, 0

    def ask(self):
        if len(self.X) < FIRST:
            return self.start[len(self.X)]
        self.fit()
        x = self.in_region() if self.way == "region" else self.anywhere()
        return x.detach().cpu().numpy()

    def tell(self, x, loss):
        self.X.append(x)
        self.y.append(loss)

    def fit(self):
        """The process with all losses; its parameters are those of the last fit, or are fitted."""
        from botorch import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        n, tensor = len(self.X), self.torch.tensor
        y = -tensor(self.y, **self.kind)[:, None]
        known = None if self.model is None else self.model.state_dict()
        self.rows = tensor(np.array(self.X), **self.kind)
        self.model = SingleTaskGP(self.rows, y, outcome_transform=Standardize(1))
        if known is not None:
            known = {k: v for k, v in known.items() if not k.startswith("outcome_transform")}
            self.model.load_state_dict(known, strict=False)
        if n >= min(MORE * self.fitted, self.fitted + EVERY):
            fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model.likelihood, self.model))
            self.fitted = n
        self.model.eval()

    def anywhere(self):
        """The point of the cube with the largest value of an acquisition function."""
        from botorch.acquisition import UpperConfidenceBound
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement
        from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
        from botorch.optim import optimize_acqf

        if self.way == "ucb":
            chosen = UpperConfidenceBound(self.model, beta=4.0)
        elif self.way == "nei":
            chosen = qLogNoisyExpectedImprovement(self.model, self.rows, prune_baseline=True)
        else:
            chosen = PathwiseThompsonSampling(self.model)
        bounds = self.torch.tensor([[0.0] * self.d, [1.0] * self.d], **self.kind)
        few = {"maxiter": STEPS} if self.way == "nei" else None
        x, _ = optimize_acqf(
            chosen, bounds, q=1, num_restarts=RESTARTS, raw_samples=RAW, options=few
        )
        return x[0]

    def in_region(self):
        """The best candidate in a box around the best point so far, by a draw from the posterior."""
        from botorch.generation import MaxPosteriorSampling

        torch = self.torch
        with torch.no_grad():
            means = self.model.posterior(self.rows).mean[:, 0]
            centre = self.rows[means.argmax()]
            self.resize(float(means.max()))
            lengths = self.model.covar_module.lengthscale.squeeze()
            sides = self.length * lengths / lengths.log().mean().exp()
            lower = (centre - sides / 2).clamp(0, 1)
            upper = (centre + sides / 2).clamp(0, 1)
            inside = lower + (upper - lower) * self.sobol.draw(CANDIDATES).to(**self.kind)
            moves = torch.rand(CANDIDATES, self.d, **self.kind) <= min(20 / self.d, 1.0)
            candidates = torch.where(moves, inside, centre)
            return MaxPosteriorSampling(self.model, replacement=False)(candidates)[0]

    def resize(self, best):
        """Twice the length after many successes, half of it after d failures."""
        if best > self.best + 1e-3 * abs(self.best):
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + 1
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2 * self.length, LONGEST), 0
        elif self.failures == max(4, self.d):
            self.length, self.failures = self.length / 2, 0
        self.best = max(self.best, best)
        if self.length < SHORTEST:
            self.length, self.best = BEGINNING, best
