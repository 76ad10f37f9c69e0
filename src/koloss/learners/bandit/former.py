"""Snapshots from before there was a ridge: what was not said then, as it was meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koloss.learners.reading import LARGEST

SETTINGS = {"ridge": 0.0, "outside": "raise", "goal": "minimize", "regret": "pseudo"}
PROBLEM: dict[str, Any] = {"ridge": None, "constant": False, "learned": False}
PROBLEM |= {"floor": 0.0, "stretch": 1.0, "misfit": 0.0, "hindsight": False}
ENGINE = {"columns": None, "schedule": None, "level": 0, "leverage": 0.0, "design": None}


def completed(state: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a bandit learner with everything that is asked of one now; `known` are the names of its settings."""
    try:
        settings, learner = state["settings"], dict(state["learner"])
        if "ridge" in settings:
            return state
        engine, exp2 = learner["engine"], learner["exp2"]
        rates = learner.pop("rates") if "rates" in learner else exp2["rates"]
        engine = {**engine, "problem": {**engine["problem"], **PROBLEM}, "rates": rates}
        if "features" in engine:  # on a ball there is no more to say
            engine |= ENGINE | {"norm": settings["loss_norm"] or 1.0}
        learner["engine"] = engine
        if "policies" in learner:
            learner["robust"] = None
        if exp2 is not None:
            ends = {"low": engine["low"], "high": engine["high"]}
            heard = {"heard_low": engine["low"], "heard_high": engine["high"]}
            rule = {"outside": "raise", "learned": False, "beyond": 0.0, "squares": 0.0}
            level = exp2["mass"] * engine["center"]
            learner["exp2"] = {**exp2, "level": level, "range": {**ends, **heard, **rule}}
        added = {"center": engine["center"], "scale": 1.0, "half": LARGEST}
        ledger = state["ledger"]
        laws = [{**law, **added} if "eta" in law else law for law in ledger["laws"]]
        said = {name: value for name, value in SETTINGS.items() if name in known}
        return {
            **state,
            "settings": {**settings, **said},
            "learner": learner,
            "ledger": {**ledger, "laws": laws},
        }
    except (
        AttributeError,
        KeyError,
        TypeError,
    ):  # not what it says it is; the reader will say where
        return state
