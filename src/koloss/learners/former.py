"""Snapshots of format 2, from before there was a ridge: what was not said then, as it was meant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from koloss.guarantees.bandit import psi
from koloss.learners.reading import LARGEST

SETTINGS = {"ridge": 0.0, "outside": "raise", "goal": "minimize", "regret": "pseudo", "hold": 0}
PROBLEM: dict[str, Any] = {"ridge": None, "constant": False, "learned": False}
PROBLEM |= {"floor": 0.0, "stretch": 1.0, "misfit": 0.0, "hindsight": False}
ENGINE = {"columns": None, "schedule": None, "level": 0, "leverage": 0.0, "design": None}
RANGE = {"outside": "raise", "learned": False, "beyond": 0.0, "squares": 0.0, "listened": 0}


def completed(state: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The state of a learner with everything that is asked of one now; `known` are the names of its settings."""
    try:
        none = np.zeros(0, dtype=np.int64)
        remains = {"number": none, "length": none, "numbers": np.zeros(0)}
        state = {**state, "ledger": {"opened": none, "remains": remains, **state["ledger"]}}
        with np.errstate(all="ignore"):
            return _full(state) if "game" in state["learner"] else _bandit(state, known)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return state  # not what it says it is; the reader will say where


def _full(state: dict[str, Any]) -> dict[str, Any]:
    learner = {**state["learner"]}
    learner["game"] = {"eigenvalue": 0.0, **learner["game"]}
    if "expansion" in learner:
        learner = {"heard_width": 0.0, **learner}
    return {**state, "learner": learner}


def _bandit(state: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    settings, learner, ledger = state["settings"], {**state["learner"]}, state["ledger"]
    if "ridge" in settings:  # nothing of that time
        return state
    exp2, insured = learner["exp2"], "policies" in learner
    rates = learner.pop("rates") if insured else exp2["rates"]
    engine = learner["engine"] = _engine(learner["engine"], settings, rates)
    if insured:
        learner |= {"robust": None, "hull": None}
        learner["counts"] = [*learner["counts"], 0, 0]  # batches of policies were not counted
    if exp2 is not None:
        ends = {"low": engine["low"], "high": engine["high"]}
        heard = {"heard_low": engine["low"], "heard_high": engine["high"]}
        level = exp2["mass"] * engine["center"]
        learner["exp2"] = {**exp2, "level": level, "range": {**ends, **heard, **RANGE}}
    added = {"center": engine["center"], "scale": 1.0, "half": LARGEST}
    laws = [
        {**law, **added} if "eta" in law else {"towards": None, **law} for law in ledger["laws"]
    ]
    ledger = {**ledger, "laws": laws, "remains": _remains(ledger["remains"], list(added.values()))}
    said = {name: value for name, value in SETTINGS.items() if name in known}
    return {**state, "settings": {**settings, **said}, "learner": learner, "ledger": ledger}


def _engine(engine: Any, settings: Any, rates: Any) -> dict[str, Any]:
    problem = {**engine["problem"], **PROBLEM}
    if problem["bonus"] and settings["horizon"] is None:
        # η came from a larger constant, and must not rise.
        constant = 2 * problem["leverage"] / rates["kappa"] + psi(rates["kappa"]) * problem["rank"]
        problem["floor"] = constant * (problem["loss_bound"] + problem["epsilon"]) ** 2
    said = {**engine, "problem": problem, "rates": rates}
    if "features" not in engine:  # on a ball there is no more to say
        return said
    return {"eigenvalue": 0.0, **said, **ENGINE, "norm": settings["loss_norm"] or 1.0}


def _remains(remains: Any, added: list[float]) -> dict[str, Any]:
    """What is left of epochs, each with three more numbers after its weight; of other laws nothing is left."""
    length = remains["length"]
    there = length > 0
    weights = (np.cumsum(length) - length)[there]
    numbers = np.insert(
        remains["numbers"], np.repeat(weights + 1, len(added)), added * len(weights)
    )
    return {**remains, "length": length + len(added) * there, "numbers": numbers}
