"""The paper's picture of diffusion MCMC: draws from exp(-η Σ K(x, z_i)) over the density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.actions import ActionSet
from koloss.core.arrays import to_numpy
from koloss.experiments.spec import Picture
from koloss.games.trace import Packed
from koloss.kernels import Kernel, KernelLoss
from koloss.samplers import effective_size, langevin

CELLS = 161
"""Of the density's picture, along each axis."""


@dataclass(frozen=True, eq=False)
class PictureRun:
    """A sample, and what can be said of it."""

    centers: Any  # the z_i, of shape (k, 2)
    points: Any  # the draws, of shape (draws, 2)
    density: Any  # exp(-η Σ K), not normalised, of shape (cells, cells); NaN outside the actions
    edges: Any  # coordinates of the cells' centres, of shape (cells,)
    facts: dict[str, Any]
    """draws, chains, r_hat, effective_size, acceptance, mean_loss, its error, and mean_loss_exact by quadrature."""

    def pack(self) -> Packed:
        """As the file of a run."""
        arrays = {name: getattr(self, name) for name in ("centers", "points", "density", "edges")}
        facts = {"picture": self.facts}
        return Packed({"ended": "done", "message": "", "facts": facts}, arrays)

    @classmethod
    def unpack(cls, packed: Packed) -> PictureRun:
        """The picture that was packed."""
        return cls(**packed.arrays, facts=packed.plain["facts"]["picture"])


@dataclass(frozen=True)
class Drawing:
    """A picture that is ready to be drawn."""

    spec: Picture
    kernel: Kernel
    actions: ActionSet
    rng: np.random.Generator  # of the sampler
    places: np.random.Generator  # of the centres

    def play(self, limit: float = math.inf) -> PictureRun:
        """Draw, and compare with the density by quadrature."""
        spec, actions = self.spec, self.actions
        centers = to_numpy(actions.sample(spec.centers, self.places))
        loss = KernelLoss(self.kernel, centers, np.ones(len(centers)))
        # Four draws of every chain, to say how well they mix.
        chains = max(1, min(spec.chains, spec.draws // 4))
        sample = langevin(
            loss,
            actions,  # type: ignore[arg-type]
            spec.draws,
            learning_rate=spec.learning_rate,
            chains=chains,
            steps=spec.steps,
            rng=self.rng,
        )
        reach = actions.norm_bound()
        edges = np.linspace(-reach, reach, CELLS)
        grid = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
        inside = np.asarray(actions.contains(grid))
        height, values = np.full(len(grid), np.nan), to_numpy(loss(grid[inside]))
        height[inside] = np.exp(-spec.learning_rate * values)
        weights = height[inside]
        losses = to_numpy(loss(sample.chains.reshape(-1, 2))).reshape(sample.chains.shape[:2])
        facts = {
            "draws": len(sample.points),
            "chains": chains,
            "r_hat": float(np.max(sample.r_hat)),
            "effective_size": float(np.min(sample.effective_size)),
            "acceptance": float(sample.acceptance),
            "mean_loss": float(losses.mean()),
            "error": float(losses.std() / np.sqrt(effective_size(losses))),
            "mean_loss_exact": float(weights @ values / weights.sum()),
        }
        density = height.reshape(CELLS, CELLS)
        return PictureRun(centers, to_numpy(sample.points), density, edges, facts)
