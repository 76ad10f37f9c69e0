"""Snapshots of formats 2 and 3, made those of today: what was not said then, as it was meant.

Format 3 has a ridge, learned ranges and what is left of epochs long over; 4 has one account for all policies of the insured learner.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from koloss.guarantees import insured
from koloss.guarantees.bandit import psi
from koloss.learners.reading import LARGEST

SETTINGS = {"ridge": 0.0, "outside": "raise", "goal": "minimize", "regret": "pseudo"}
DISCOUNTS, UNIFORM = (1.0, 0.98), 1 / 12  # of today's forecasts, and the variance that they guess
LATER: dict[str, Any] = {"hold": 0, "shares": None, "grow": False}
PROBLEM: dict[str, Any] = {"ridge": None, "constant": False, "learned": False}
PROBLEM |= {"floor": 0.0, "stretch": 1.0, "misfit": 0.0, "hindsight": False}
ENGINE = {"columns": None, "schedule": None, "level": 0, "leverage": 0.0, "design": None}
RANGE = {"outside": "raise", "learned": False, "beyond": 0.0, "squares": 0.0, "listened": 0}


def completed(state: dict[str, Any], version: int, known: Collection[str]) -> dict[str, Any]:
    """The state of a learner with everything that is asked of one now; `known` are the names of its settings."""
    try:
        with np.errstate(all="ignore"):
            if version < 3:
                state = _format_3(state, known)
            return _format_4(state, known)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return state  # not what it says it is; the reader will say where


# From format 2 to 3.


def _format_3(state: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    none = np.zeros(0, dtype=np.int64)
    remains = {"number": none, "length": none, "numbers": np.zeros(0)}
    state = {**state, "ledger": {"opened": none, "remains": remains, **state["ledger"]}}
    return _full(state) if "game" in state["learner"] else _bandit(state, known)


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


# From format 3 to 4: policies had accounts of their own, losses that came after their stage were dropped.


def _format_4(state: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    learner, ledger = {**state["learner"]}, state["ledger"]
    said = {name: value for name, value in LATER.items() if name in known}
    state = {**state, "settings": {**state["settings"], **said}}
    if "policies" not in learner:
        return state
    laws = [{"weight": 1.0, **law} if "choice" in law else law for law in ledger["laws"]]
    state = {**state, "ledger": {**ledger, "laws": laws}}
    settings = _settings_4(state["settings"])
    late, crowd, dropped, _, *counts = learner["counts"]
    robust_late = learner["exp2"]["late"] if learner["exp2"] else 0
    watched, alarms = {**learner["watched"]}, learner["alarms"]
    hull, engine = learner["hull"], learner["engine"]
    width = hull["width"] if hull else engine["high"] - engine["low"]
    # Nothing is known of earlier stages but the largest of their accounts; what was dropped may have cost all that it can.
    earlier = sum(one["estimated_regret"] for one in alarms[: learner["number"]]) / width + dropped
    total, variance = watched.pop("total"), watched.pop("variance")
    open_now = _open(ledger)
    crowd = max(crowd, dropped + open_now)
    account = {"total": watched["paid"] - total + earlier, "variance": variance}
    before = {"total": np.full_like(total, earlier), "variance": np.zeros_like(variance)}
    watched |= {"before": {**before, "outstanding": 0}, "priced": 0.0, "quiet": 0.0, "thrift": 1.0}
    watched |= {"skipped": 0.0, "uncounted": 0.0, "spent": 0.0, "block": 0}
    if crowd > insured.overdraft(settings["horizon"] or max(ledger["made"], 1)):
        settings["overdraft"] = crowd  # it has been used
    del learner["strays"]
    stops = sum(one["successor"] == "robust" for one in alarms)
    chances = {"stops": stops, "since": ledger["heard"], "gain": 0.0, "spread": 0.0, "chosen": []}
    by_hand = bool(alarms) and alarms[-1]["reason"] == "operator"
    learner |= {
        "counts": [late, crowd, robust_late, *counts, 0],
        "alarms": _alarms(alarms, settings, engine["problem"], width),
        "account": {**account, "outstanding": open_now},
        "watched": watched,
        "forecaster": _forecaster(learner, ledger["heard"]),
        "pending": _pending(learner, ledger),
        "chances": chances,
        "paused": by_hand and learner["exp2"] is not None,
        "sleeps": False,
    }
    del learner["root_features"]
    return {**state, "settings": settings, "learner": _all_offered(learner)}


def _all_offered(learner: dict[str, Any]) -> dict[str, Any]:
    """No action had come or gone."""
    never = np.zeros(len(learner["account"]["total"]), dtype=np.int64)
    since = {"born": never, "before": never}
    watched, exp2 = learner["watched"], learner["exp2"]
    if exp2 is not None:
        eras = {"eras": [{"number": 0, "first": 0}], "explores": exp2["rates"]["exploration"]}
        exp2 = {**exp2, **eras, "mixed": 0.0, "revived": 0, "cut": 0}
    return {
        **learner,
        "roster": None,
        "first": 1,
        "account": {**learner["account"], **since},
        "watched": {**watched, "before": {**watched["before"], **since}},
        "explorations": [{**one, "era": 0} for one in learner["explorations"]],
        "exp2": exp2,
    }


def _settings_4(settings: dict[str, Any]) -> dict[str, Any]:
    """One number was for each policy then, and is for all together now."""
    said = {"overdraft": "auto", "exploration_cost": None, "robust_kernel": None, **settings}
    said |= {"absent": {"tuple": []}}
    policies = said["policy"]
    count = len(policies["tuple"]) if isinstance(policies, dict) and "tuple" in policies else 1
    for name in ("trigger", "premium"):
        if count > 1 and isinstance(said[name], (int, float)):
            said[name] = {"tuple": [said[name]] * count}
    return said


def _open(ledger: dict[str, Any]) -> int:
    """Decisions of policies that wait, and all that are forgotten: nobody knows whose they were."""
    laws, lengths = ledger["laws"], ledger["remains"]["length"]
    counted = [bool(law.get("counted")) for law in laws] + [length == 0 for length in lengths]
    waiting = sum(counted[place] for place in ledger["entries"][:, 1].tolist())
    return int(waiting) + int(ledger["forgotten"])


def _forecaster(learner: dict[str, Any], heard: int) -> dict[str, Any]:
    """Sums of all that was heard, from what the regressions had made of it: their noise had the variance λ, their prior was I.

    C⁻¹ = I/faded + A/λ and C⁻¹θ = b/λ, in the coordinates of features that a root R had taken theirs to.
    """
    engine, former = learner["engine"], learner["forecaster"]
    features, weights = engine["features"], engine["weights"]
    R = features.T @ (weights[:, None] * learner["root_features"])
    back = np.linalg.pinv(R, rcond=1e-6)
    old = [float(d) for d in former["discounts"]]
    regressions = []
    for discount in DISCOUNTS:
        k = min(range(len(old)), key=lambda k: (abs(old[k] - discount), k))
        ridge, faded = float(former["ridge"][k]), float(former["scale"][k])
        lower = np.tril(former["covariances"][k]) * faded
        C, theta = lower + np.tril(lower, -1).T, former["means"][k]
        precision = np.linalg.inv(C)
        A = ridge * (precision - np.eye(len(C)) / faded)
        values, vectors = np.linalg.eigh((A + A.T) / 2)
        A = (vectors * np.maximum(values, 0.0)) @ vectors.T
        b = ridge * precision @ theta
        weight = float(heard) if discount == 1 else (1 - discount**heard) / (1 - discount)
        error = float(former["errors"][k]) / max(min(heard, 50), 1)
        squares = max(float(2 * b @ theta - theta @ A @ theta), 0.0) + weight * error
        numbers = {"squares": squares, "weight": weight, "misfit": weight}
        sums = {"gram": np.asfortranarray(back.T @ A @ back), "moment": back.T @ b}
        known = {"C": np.asfortranarray(R @ C @ R.T), "theta": R @ theta, "root": R}
        said = {"discount": discount, "ridge": ridge, "grown": 1.0, "heard": heard, "scale": 1.0}
        said["guess"] = UNIFORM
        regressions.append({**sums, **known, **numbers, **said, "mean": None, "variance": None})
    count, dimension = len(DISCOUNTS), engine["points"].shape[1]
    return {
        "regressions": regressions,
        "keys": np.zeros((count, dimension), dtype=np.int64),
        "due": [heard + 1] * count,
        "scores": [0.0] * count,
        "heard": [-0.5, 0.5] if heard else None,
        "trusted": 0,
        "narrower": None,
    }


def _pending(learner: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """So many wait; what was proposed then does not matter any more."""
    shape = len(set(DISCOUNTS)), len(learner["root_features"])
    nothing: dict[str, Any] = {
        "proposed": np.zeros(shape),
        "laws": np.zeros(shape),
        "mass": np.zeros(shape[0]),
    }
    nothing |= {"covariance": None, "variance": None, "steps": 0}
    return {"count": len(ledger["entries"]), "heard": ledger["heard"], **nothing}


def _alarms(alarms: Any, settings: Any, problem: Any, width: float) -> list[dict[str, Any]]:
    """Alarms with the budgets that there were."""
    per_round = (problem["leverage"] + psi(2.0) * problem["rank"]) * problem["log_prior"]
    said = []
    for k, one in enumerate(alarms):
        trigger, premium = (_number_of(settings[name], k) for name in ("trigger", "premium"))
        scale = math.sqrt(per_round * (settings["horizon"] or one["round"] + 1))
        said.append({**one, "budget": (trigger + premium) * scale * width})
    return said


def _number_of(value: Any, k: int) -> float:
    number: float = value["tuple"][k] if isinstance(value, dict) else value
    return number
