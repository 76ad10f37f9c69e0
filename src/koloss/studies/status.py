"""Where a study stands, for people and programs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from textwrap import shorten
from typing import Any

from koloss.core.text import duration, short_number
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee
from koloss.guarantees.base import clause
from koloss.learners import Recommendation
from koloss.studies.state import State
from koloss.studies.store import Store


@dataclass(frozen=True)
class Status:
    """Where a study stands. As data (`to_dict`) it is fit for JSON."""

    name: str
    store: str  # its URL, without secrets
    created: datetime
    last: datetime  # of the newest event
    events: int
    asked: int  # decisions made
    told: int  # values told
    waiting: int  # decisions whose values are still to come
    expired: int  # decisions whose leases have run out
    defaulted: int  # of these, those for which the default was counted
    unused: int  # values that came after a default was counted
    held: int  # values that wait for the end of their lease
    paused: bool
    goal: str
    unit: str
    lease: float | None  # seconds
    default: float | None
    release: str | None
    labels: Mapping[str, str]
    learner: str  # as it would be written
    best: dict[str, Any]  # the best action so far: index, action, params, value
    facts: Mapping[str, Any]  # what the store says of itself, with `warnings`

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, fit for JSON."""
        times = {"created": self.created.isoformat(), "last": self.last.isoformat()}
        return {**asdict(self), **times}

    def in_words(self) -> dict[str, str]:
        """What there is to say, by names."""
        expired = f"{self.expired:,}"
        if self.defaulted and self.default is not None:
            expired += f", of which {self.defaulted:,} count as {short_number(self.default)}"
        rules = [f"lease {duration(self.lease)}"] if self.lease else []
        rules += [f"default {short_number(self.default)}"] if self.default is not None else []
        rules += [f'release "{self.release}"'] if self.release else []
        words = {
            "learner": shorten(self.learner, 400, placeholder=" ..."),
            "goal": self.goal + (f", in {self.unit}" if self.unit else ""),
            "rules": ", ".join(rules),
            "labels": labels_in_words(self.labels),
            "created": time_in_words(self.created),
            "newest event": f"{self.events:,}, {time_in_words(self.last)}",
            "decisions": f"{self.asked:,}",
            "told": f"{self.told:,}",
            "outstanding": f"{self.waiting:,}",
            "held back": f"{self.held:,}" if self.held else "",
            "expired": expired if self.expired else "",
            "came too late": f"{self.unused:,}" if self.unused else "",
            "survives": _SURVIVES.get(self.facts.get("durability", ""), ""),
        }
        return {name: text for name, text in words.items() if text}


_SURVIVES = {
    "power": "power cuts and killed processes",
    "process": "killed processes, not power cuts",
}


def labels_in_words(labels: Mapping[str, str]) -> str:
    """Labels on one line."""
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def time_in_words(at: datetime) -> str:
    """A time to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def status_of(name: str, url: str, state: State, facts: Mapping[str, Any]) -> Status:
    """The status of a study from its state."""
    settings = state.settings
    counted: dict[str, Any] = {
        name: state.counts[name] for name in ("asked", "told", "expired", "defaulted", "unused")
    }
    said: dict[str, Any] = {
        name: getattr(settings, name) for name in ("goal", "unit", "default", "release", "labels")
    }
    return Status(
        name=name,
        store=url,
        created=state.created.at,
        last=state.at,
        events=state.seq,
        waiting=state.learner.ledger.awaited - len(state.held),
        held=len(state.held),
        paused=state.paused,
        lease=None if settings.lease is None else settings.lease / 1e6,
        learner=repr(state.learner),
        **counted,
        **said,
        best=_best(state),
        facts=facts,
    )


def _best(state: State) -> dict[str, Any]:
    """The best action so far; with contexts there is none for all."""
    if getattr(state.learner.settings, "contexts", None) is not None:
        return {}
    return described(best_of(state, None))


def best_of(state: State, context: Any) -> Recommendation:
    """The best action so far, in the study's units."""
    found = state.learner.recommend(**({} if context is None else {"context": context}))
    return replace(found, loss=state.settings.shown(found.loss))


def described(best: Recommendation) -> dict[str, Any]:
    """A recommendation as plain data."""
    named = {} if best.params is None else {"params": best.params}
    return {"index": best.index, "action": best.action.tolist(), **named, "value": best.loss}


def promise_of(state: State, options: Mapping[str, Any]) -> Guarantee:
    """The learner's guarantee, with what it assumes of late values."""
    promise, settings = state.learner.guarantee(**options), state.settings
    if settings.turned is not None:  # a learner of rewards has said so itself
        promise = promise.of_rewards()
    if settings.release and not state.counts["late"]:
        return promise
    return replace(promise, assumptions=(*promise.assumptions, clause("told by value")))


def probabilities_of(state: State, context: Any) -> list[dict[str, Any]]:
    """Actions of a finite set by how likely each is next."""
    learner = copy.deepcopy(state.learner)  # a policy of one's own may answer only once
    try:
        law = learner.distribution if context is None else learner.distribution_for(context)  # type: ignore[attr-defined]
    except NoDistribution:
        return []
    return [
        {
            "index": row,
            "probability": float(law[row]),
            "action": learner.actions[row].tolist(),
            **({} if learner.params is None else {"params": learner.params[row]}),
        }
        for row in (-law).argsort(kind="stable").tolist()
    ]


def summary_of(store: Store, name: str) -> dict[str, Any]:
    """What is known of a study without making its learner."""
    with store.transaction(name) as log:
        (first,), last = log.events(0, 1), log.last
    settings = first.data["settings"]
    return {
        "name": name,
        "learner": first.data["learner"],
        "goal": settings["goal"],
        "unit": settings["unit"],
        "labels": settings["labels"],
        "created": first.at.isoformat(),
        "events": last,
    }
