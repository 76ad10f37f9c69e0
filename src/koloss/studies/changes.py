"""Settings that may change in the middle of a study, and why the others may not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koloss.core.arrays import as_interval
from koloss.learners import BanditExpWeights
from koloss.studies.settings import as_labels, as_lease

if TYPE_CHECKING:
    from koloss.studies.state import State

REFUSED = {
    "goal": "values told so far would mean the opposite",
    "unit": "values told so far have the unit that they were told in",
    "default": "what no news means was promised with every decision that still waits",
    "release": "values told so far were held back, or were not",
    "subjects": "what is kept of subjects cannot be turned into the other form",
    "shares": "every law so far has had its shares, and exploration was designed for them",
    "horizon": "rates were tuned to it",
    "kernel": "all that was learned is in its terms",
    "actions": "only `withdraw` and `add` can say which of them are offered",
}
"""What cannot be changed, and why; a new study can have it."""

ALLOWED = ("withdraw", "add", "loss_range", "lease", "labels")


def change(state: State, setting: str, value: Any) -> None:
    """Change a setting, or refuse it and change nothing."""
    if setting in REFUSED:
        raise ValueError(
            f"`setting` must be one of {', '.join(ALLOWED)}, got {setting!r}: {REFUSED[setting]}"
        )
    if setting not in ALLOWED:
        raise ValueError(f"`setting` must be one of {', '.join(ALLOWED)}, got {setting!r}")
    if setting == "withdraw":
        state.insured.withdraw(value)
    elif setting == "add":
        state.insured.add(value)
    elif setting == "loss_range":
        _widen(state, value)
    elif setting == "labels":
        state.settings = replace(state.settings, labels=as_labels(value))
    else:
        if value is None and (state.settings.default is not None or state.settings.release):
            raise ValueError("`lease` must stay where there is a default or a window, got None")
        state.settings = replace(state.settings, lease=as_lease(value))


def _widen(state: State, value: Any) -> None:
    """A wider range of the values, in the user's units."""
    low, high = as_interval("loss_range", value)
    turned = state.settings.turned
    if turned is not None:
        low, high = turned - high, turned - low
    if not isinstance(state.learner, BanditExpWeights):
        kind = type(state.learner).__name__
        raise ValueError(
            f"`loss_range` can be widened by a BanditExpWeights with outside='widen', got an {kind}: the budget of its "
            "policies is counted in the range"
        )
    state.learner.widen(low, high)
