"""What is assumed of losses, in words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.actions import Points
from koloss.guarantees import Clause
from koloss.guarantees.bandit import BanditProblem
from koloss.guarantees.base import clause
from koloss.kernels import Gaussian, Mixed
from koloss.kernels.algebra import Scaled, Sum
from koloss.learners.bandit.coordinates import maps_of
from koloss.learners.bandit.settings import BanditSettings

Shares = tuple[tuple[float, str], ...]

MAPPED = {"affine": "from -1 to 1", "scaling": "divided by the largest of each"}
"""Coordinates that a kernel sees, by the maps."""


def shares(kernel: Any) -> Shares:
    """√w_k and the bandwidth of a Gaussian or mixed kernel, or of every part of a sum of such, w_k K_k; of other kernels, none.

    What has a norm of √w_k W in the space of K_k has one of at most W in that of the sum (theory F4).
    """
    found: list[tuple[float, str]] = []
    parts = [(1.0, kernel)]
    while parts:
        weight, part = parts.pop()
        if isinstance(part, Sum):
            parts += [(weight, part.right), (weight, part.left)]
        elif isinstance(part, Scaled):
            parts.append((weight * part.scale, part.kernel))
        elif isinstance(part, (Gaussian, Mixed)):
            given = part.bandwidth if isinstance(part, Gaussian) else part.lengths
            lengths = np.atleast_1d(given).tolist()
            text = ", ".join(f"{length:.4g}" for length in lengths)
            found.append((math.sqrt(weight), f"({text})" if len(lengths) > 1 else text))
        else:
            return ()
    return tuple(found)


def _protected(shares: Shares, norm: float) -> str:
    """Norms at bandwidths, which together make a norm in the space of a sum of kernels."""
    if not shares:
        return ""
    if shares[0][0] == 1:
        return f" (bandwidth {shares[0][1]})"
    each = ", ".join(f"{norm * share:.4g} at bandwidth {text}" for share, text in shares)
    mixed = "; or sums of such, if their shares of these norms, squared, add up to 1 or less"
    return f" (norms of at most {each}{mixed if len(shares) > 1 else ''})"


def assumed(settings: BanditSettings, norm: float, problem: BanditProblem) -> tuple[Clause, ...]:
    """The class of losses that a bound is for: without a norm where all features are learned, and no net needs one."""
    if settings.loss_class == "any":
        return ()
    near = (clause("misfit", misfit=problem.misfit),) if problem.misfit else ()
    alike = (clause("alike", lost=problem.lost),) if problem.lost else ()
    return _class_of(settings, norm, problem), *alike, *near


def _class_of(settings: BanditSettings, norm: float, problem: BanditProblem) -> Clause:
    constant = settings.loss_range is not None and settings.tuning == "sharp"
    up_to = ", up to a constant" if constant else ""
    points = isinstance(settings.actions, Points)
    if problem.epsilon == 0 and problem.ridge is None and (points or settings.loss_norm is None):
        return clause("span", up_to=up_to)
    unit = " ρ" if settings.learns_range else ""  # the norm is a multiple of the range then
    maps = maps_of(settings.kernel)
    mapped = f" in coordinates {MAPPED[maps]}" if maps else ""
    if settings.loss_class == "rank-one":
        places = "actions y_i" if points else "points y_i of the net"
        return clause("hull", places=places, norm=norm, unit=unit, up_to=up_to, mapped=mapped)
    paired = settings.contexts is not None and settings.context_kernel != "pairs"
    bandwidths = "" if paired else _protected(shares(settings.kernel), norm)
    return clause("norm", norm=norm, unit=unit, up_to=up_to, mapped=mapped, bandwidths=bandwidths)
