"""The paper's picture of diffusion MCMC: draws from exp(-η Σ K(x, z_i)) over the density."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss._arrays import to_numpy
from koloss.experiments.build import actions_of, kernel_of
from koloss.kernels import KernelLoss
from koloss.samplers import effective_size, langevin

if TYPE_CHECKING:
    from koloss.experiments.runs import Job

CELLS = 161
"""Of the density's picture, along each axis."""


@dataclass(frozen=True, eq=False)
class PictureRun:
    """A sample, and what can be said of it.

    Attributes
    ----------
    centers : array of shape (k, 2)
        The z_i.
    points : array of shape (draws, 2)
    density : array of shape (cells, cells)
        exp(-η Σ K), not normalised; NaN outside the actions.
    edges : array of shape (cells,)
        Coordinates of the cells' centres.
    facts : dict
        "r_hat", "effective_size", "acceptance", "mean_loss" of the draws, its "error", and "mean_loss_exact" by quadrature.
    """

    centers: Any
    points: Any
    density: Any
    edges: Any
    facts: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write one file."""
        part = path.with_name(path.name + ".part")
        text = np.frombuffer(json.dumps(self.facts).encode(), dtype=np.uint8)
        arrays = {name: getattr(self, name) for name in ("centers", "points", "density", "edges")}
        with open(part, "wb") as file:
            np.savez_compressed(file, json=text, **arrays)
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> PictureRun:
        """Read what `save` has written."""
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("centers", "points", "density", "edges")}
            return cls(**arrays, facts=json.loads(file["json"].tobytes()))


def draw_picture(job: Job) -> None:
    """Draw, compare with the density by quadrature, and write the file."""
    from koloss.experiments.runs import generators

    spec = job.experiment.picture
    assert spec is not None
    kernel, actions = kernel_of(job.experiment), actions_of(job.experiment)
    rng, theirs = generators(job.experiment, None, job.seed, 0)
    centers = to_numpy(actions.sample(spec.centers, theirs))
    loss = KernelLoss(kernel, centers, np.ones(len(centers)))
    chains = max(
        1, min(spec.chains, spec.draws // 4)
    )  # four draws a chain, to say how well they mix
    found = langevin(
        loss,
        actions,  # type: ignore[arg-type]
        spec.draws,
        learning_rate=spec.learning_rate,
        chains=chains,
        steps=spec.steps,
        rng=rng,
    )
    points = to_numpy(found.points)
    reach = actions.norm_bound()
    edges = np.linspace(-reach, reach, CELLS)
    grid = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
    inside = np.asarray(actions.contains(grid))
    height, values = np.full(len(grid), np.nan), to_numpy(loss(grid[inside]))
    height[inside] = np.exp(-spec.learning_rate * values)
    weights = height[inside]
    losses = to_numpy(loss(found.chains.reshape(-1, 2))).reshape(found.chains.shape[:2])
    size = float(np.min(found.effective_size))
    facts = {
        "digest": job.digest,
        "draws": len(points),
        "chains": chains,
        "r_hat": float(np.max(found.r_hat)),
        "effective_size": size,
        "acceptance": float(found.acceptance),
        "mean_loss": float(losses.mean()),
        "error": float(losses.std() / np.sqrt(effective_size(losses))),
        "mean_loss_exact": float(weights @ values / weights.sum()),
    }
    PictureRun(centers, points, height.reshape(CELLS, CELLS), edges, facts).save(job.path)
