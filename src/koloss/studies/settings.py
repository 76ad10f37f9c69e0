"""What users say: the settings of a study, and what of them may change; contexts, choices, keys and reasons, as JSON has them."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from koloss.core.arrays import as_float, as_interval, one_of, shown
from koloss.learners import BanditExpWeights
from koloss.learners.base import Learner
from koloss.learners.losses import read_losses

if TYPE_CHECKING:
    from koloss.studies.state import State

LONGEST = 100.0 * 365 * 86_400
"""Longest lease, in seconds."""

LONGEST_REASON = 2000
"""Characters of why somebody did something."""

LONGEST_SUBJECT = 500
"""In characters: an index of PostgreSQL's has room for 2,700 bytes, and a character may take four."""


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Settings of a study, checked once; plain data in its first event."""

    goal: Literal["minimize", "maximize"]
    turned: float | None = None  # a learner of losses is told this less the reward
    unit: str = ""  # of the values
    lease: int | None = None  # microseconds
    default: float | None = None  # what is told for a decision whose lease runs out
    release: Literal["window"] | None = None  # values are held back until the lease has run out
    labels: Mapping[str, str]
    subjects: Literal["hashed", "plain"] = "hashed"
    key: str = field(default="", repr=False)  # of the hashes of subjects

    @classmethod
    def of(
        cls, learner: Learner[Any, Any], goal: Any, unit: Any, lease: Any, default: Any, release: Any, labels: Any, subjects: Any
    ) -> Self:  # fmt: skip
        """What was said, checked against the learner."""
        own = learner.settings.goal
        goal = own if goal is None else one_of("goal", goal, ("minimize", "maximize"))
        if goal == "minimize" and own == "maximize":
            raise ValueError(
                "`goal` must be 'maximize' for a learner that maximises, got 'minimize': it is told rewards"
            )
        if not isinstance(unit, str):
            raise TypeError(f"`unit` must be text, got {type(unit).__name__}")
        made = cls(
            goal=goal,
            turned=_turned(learner) if goal != own else None,
            unit=unit,
            lease=as_lease(lease),
            release=None if release is None else one_of("release", release, ("window",)),
            labels=as_labels(labels),
            subjects=one_of("subjects", subjects, ("hashed", "plain")),
            key=secrets.token_hex(16),
        )
        for name, value in (("default", default), ("release", release)):
            if value is not None and made.lease is None:
                raise ValueError(f"`{name}` must come with a `lease`, which is its window")
        if default is not None:
            (value,) = made.read(learner, default, 1, "default")
            made = replace(made, default=value)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    # Values: in the user's units outside, as the learner wants them inside.

    def read(
        self, learner: Learner[Any, Any], value: Any, count: int, name: str = "value"
    ) -> list[float]:
        """Values in the user's units, one for each decision, if the learner can be told them."""
        low, high = learner.limits
        if self.turned is not None:
            low, high = self.turned - high, self.turned - low
        return [float(one) for one in read_losses(value, count, low, high, name=name)]

    def told(self, values: list[float]) -> Any:
        """Values as the learner is told them."""
        if self.turned is not None:
            values = [self.turned - value for value in values]
        return values[0] if len(values) == 1 else np.array(values)

    def shown(self, loss: float) -> float:
        """What a learner says of a value, in the user's units."""
        return loss if self.turned is None else self.turned - loss

    # Subjects.

    def subject(self, subject: Any) -> str:
        """What is kept of a subject."""
        name = as_text("subject", subject, LONGEST_SUBJECT)
        if self.subjects == "plain":
            return name
        digest = hmac.new(bytes.fromhex(self.key), name.encode(), hashlib.sha256)
        return digest.hexdigest()


def _turned(learner: Learner[Any, Any]) -> float:
    """What rewards are subtracted from: the ends of the range together, or nothing."""
    ends = learner.settings.loss_range
    return float(ends[0] + ends[1]) if isinstance(ends, tuple) else 0.0


def as_lease(lease: Any) -> int | None:
    """A lease in microseconds."""
    if lease is None:
        return None
    seconds = lease.total_seconds() if isinstance(lease, timedelta) else lease
    micros = round(as_float("lease", seconds, positive=True) * 1e6)
    if not 1 <= micros <= LONGEST * 1e6:
        rule = "must be from a microsecond to 100 years, in seconds"
        raise ValueError(f"`lease` {rule}, got {seconds:.6g}")
    return micros


def as_labels(labels: Any) -> dict[str, str]:
    """Labels as a dict of their own."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or not all(
        isinstance(one, str) for pair in labels.items() for one in pair
    ):
        raise TypeError(f"`labels` must be a mapping from text to text, got {shown(labels)}")
    return dict(labels)


# What may change in the middle of a study, and why the rest may not.

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


# What calls are given, as JSON.


def as_plain(name: str, value: Any) -> Any:
    """Numbers, text, lists and mappings as JSON has them; a learner understands these like the originals."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return as_plain(name, value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` must be finite, got {value}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [as_plain(name, one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_plain(name, one) for key, one in value.items()}
    rule = "must be numbers, text, lists and mappings by text, which the log can hold"
    raise TypeError(f"`{name}` {rule}, got {shown(value)}")


def as_choice(allowed: Any) -> Any:
    """Which actions are allowed, as rows where truth values were given."""
    plain = as_plain("allowed", allowed)
    if isinstance(plain, list) and plain and all(isinstance(one, bool) for one in plain):
        return [row for row, one in enumerate(plain) if one]
    return plain


def as_text(name: str, value: Any, longest: int = 200) -> str:
    """Text that says something."""
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be text, got {type(value).__name__}")
    if not 0 < len(value) <= longest:
        raise ValueError(f"`{name}` must have 1 to {longest} characters, got {len(value)}")
    if "\0" in value or (not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value)):
        # PostgreSQL refuses the first in the middle of a transaction, of which others are part.
        rule = "must be without NUL and halves of pairs, which not every store can hold"
        raise ValueError(f"`{name}` {rule}, got {shown(value)}")
    return value


def as_key(request: Any) -> str | None:
    """The key of a request, where it has one."""
    return None if request is None else as_text("request", request)


def said_by(author: Any, reason: Any) -> dict[str, str]:
    """Who did something and why, as far as that is said."""
    texts = (("author", author, 200), ("reason", reason, LONGEST_REASON))
    return {name: as_text(name, text, longest) for name, text, longest in texts if text != ""}
