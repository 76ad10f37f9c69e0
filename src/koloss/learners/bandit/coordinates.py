"""Coordinates without units: a learner that is told no norm sees every coordinate from -1 to 1 (theory B6).

Where that changes nothing of what losses can be, up to a constant, it changes nothing but rounding in what is played without a norm. A
norm that is assumed by default, and forecasts, then depend on no units either. The map is that of the box around the actions that
were given, all game long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koloss.kernels.rescaled import Maps, Rescaled, closed_under, rescaled
from koloss.learners.bandit.pairs import Ground, finite_size
from koloss.learners.bandit.settings import BanditSettings
from koloss.proxy import Proxy


def has_units(settings: BanditSettings) -> bool:
    """Whether something was said in the units of the kernel, which is then taken as it is.

    So are a penalty, and a kernel whose norm alone says how large losses may be.
    """
    return (
        settings.loss_norm is not None
        or (settings.loss_range is None and settings.loss_bound is None)
        or settings.tuning == "paper"
        or settings.ridge not in ("auto", 0)
        or isinstance(settings.proxy, Proxy)
        or settings.loss_class == "any"
    )


def without_units(settings: BanditSettings) -> BanditSettings:
    """The settings with kernels of coordinates from -1 to 1, where these may be mapped; applied twice it changes nothing more."""
    if has_units(settings):
        return settings
    shared = settings.shared
    ground = Ground(settings.actions, settings.kernel, settings.contexts, settings.context_kernel)
    found = mapped(ground, constant=settings.loss_range is not None, shared=shared)
    if found.kernel is ground.kernel and found.context_kernel is ground.context_kernel:
        return settings
    return replace(settings, kernel=found.kernel, context_kernel=found.context_kernel)


def mapped(ground: Ground, *, constant: bool, shared: bool = False) -> Ground:
    """With kernels of such coordinates; `constant`: losses count up to one, which contexts that are `shared` have in common."""
    contexts, kernel, other = ground.contexts, ground.kernel, ground.context_kernel
    lower, upper = (end.tolist() for end in ground.actions.bounds())
    if contexts is not None:
        box = (contexts.X.min(axis=0), contexts.X.max(axis=0))
        if isinstance(other, str):  # one kernel on rows that hold both
            lower, upper = [*box[0].tolist(), *lower], [*box[1].tolist(), *upper]
        else:
            if shared and finite_size(other, contexts.dimension) is not None:
                constant = False  # of each factor, that is
            if other is not None:
                other = rescaled(other, *box, maps=closed_under(other, constant=False))
    kernel = rescaled(kernel, lower, upper, maps=closed_under(kernel, constant=constant))
    return ground._replace(kernel=kernel, context_kernel=other)


def maps_of(kernel: Any) -> Maps | None:
    """By which maps a kernel, or a part of one on pairs, sees its coordinates."""
    if isinstance(kernel, Rescaled):
        return "affine" if kernel.centred else "scaling"
    names = ("kernel", "actions", "contexts", "left", "right")
    found = (maps_of(getattr(kernel, name)) for name in names if hasattr(kernel, name))
    return next((maps for maps in found if maps), None)
