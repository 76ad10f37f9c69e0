"""The bandit learner's regret bound in words: which theorem, its terms, and what it assumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from koloss.guarantees import Assumption, Guarantee, bandit
from koloss.learners.bandit.setup import Settings


def guarantee(
    setup: Settings, tally: Any, outstanding: int, rounds: int | None, printed: bool | None
) -> Guarantee:
    """The bound for what has been set up, given what has been seen of the game."""
    seen = {**asdict(tally), "outstanding": outstanding}
    if printed is None:
        printed = setup.tuning == "paper"
    if printed and setup.tuning != "paper":
        raise ValueError("`printed` must be left out unless the tuning is the paper's")
    if setup.problem.log_prior == 0:
        n = rounds or setup.horizon or max(seen["made"], 1)
        return Guarantee("One action", n, {"regret": 0.0}, 0.0)
    if printed:
        return _as_printed(setup, seen)
    return _anytime(setup, seen, rounds) if setup.horizon is None else _fixed(setup, seen, rounds)


def _fixed(setup: Settings, seen: Mapping[str, Any], rounds: int | None) -> Guarantee:
    """Theorems A3, B2, B3 and B3w: rates fixed for a horizon."""
    rates, n = setup.rates, setup.horizon if rounds is None else rounds
    assert n is not None
    log_prior, beside = setup.comparator(n, rates.learning_rate)
    problem = replace(setup.problem, log_prior=log_prior)
    failure = 1.0 / setup.horizon if setup.sampled and setup.horizon else 0.0
    kinds = []  # of epochs, with the statement that covers each
    if seen["whole"] < seen["made"] or seen["made"] == 0:
        drift = "Theorem B3 (epochs ended by drift)" if setup.batch > 1 else "Theorem A3"
        kinds.append((drift, {"b": setup.batch, "whole": False}))
    if seen["whole"] > 0:
        kinds.append(("Theorem B3w (whole epochs)", {"b": seen["longest_whole"], "whole": True}))

    def terms(kind: Mapping[str, Any]) -> dict[str, float]:
        return problem.terms(rates.learning_rate, rates.kappa, rounds=n, failure=failure, **kind)

    statement, worst = max(kinds, key=lambda kind: sum(terms(kind[1]).values()))
    found = terms(worst)
    late = seen["late"]
    if problem.delay > 0 and seen["longest_delay"] <= problem.delay and not seen["whole"]:
        statement, late = "Theorem B3-delay", 0
    found["delay"] += late * bandit.late_cost(problem, rates.learning_rate, rates.kappa)
    found["unheard"] = 2 * problem.loss_bound * seen["outstanding"]
    found |= beside
    statement += setup.place
    if problem.bonus:
        statement += " with bonuses (B2)"
    if setup.sampled:
        statement += " with a sampled covariance (A4)"
    exploration = problem.exploration(rates.learning_rate, rates.kappa)
    assumptions = [
        *_common(setup, seen),
        Assumption(f"at most {setup.horizon} rounds", max(seen["made"], n) <= (setup.horizon or 0)),
        Assumption(f"exploration {exploration:.3g} is at most 1", exploration <= 1 + 1e-12),
    ]
    if any(kind["whole"] for _, kind in kinds):
        assumptions.append(
            Assumption("the losses of a whole epoch do not depend on the actions drawn in it")
        )
    if late:
        assumptions.append(
            Assumption("neither losses nor when they are heard depend on actions not yet heard of")
        )
    if problem.delay > 0:
        text = f"at most {problem.delay} other losses are heard before that of an action"
        assumptions.append(Assumption(text, seen["longest_delay"] <= problem.delay))
        assumptions.append(Assumption("losses do not depend on the player's actions"))
    if seen["outstanding"]:
        assumptions.append(Assumption("whether a loss is heard does not depend on the loss"))
    notes = [f"{late} losses came after their epoch (Theorem B3l)"] if late else []
    return Guarantee(
        statement, n, found, _trivial(setup, n), tuple(assumptions), notes=tuple(notes)
    )


def _anytime(setup: Settings, seen: Mapping[str, Any], rounds: int | None) -> Guarantee:
    """Theorem B4: rates that need no horizon."""
    n, kappa = rounds or max(seen["made"], 1), setup.rates.kappa
    problem = setup.problem_at(n)
    found = bandit.anytime_terms(problem, kappa, n)
    eta = bandit.anytime_rate(problem, kappa, n)
    log_prior, beside = setup.comparator(n, eta)
    found["prior"] = log_prior / eta
    found["unheard"] = 2 * problem.loss_bound * seen["outstanding"]
    found |= beside
    notes = []
    if setup.batch > 1 or seen["whole"]:
        notes.append("Theorem B4 is proved for epochs of one round (batch=1); here they are longer")
    if seen["late"]:
        notes.append(
            f"{seen['late']} losses came after their epoch, which Theorem B4 does not cover"
        )
    if setup.sampled:
        notes.append("Theorem B4 is proved for the exact covariance")
    return Guarantee(
        f"Theorem B4 (anytime){setup.place}",
        n,
        found,
        _trivial(setup, n),
        tuple(_common(setup, seen)),
        proved=not notes,
        notes=tuple(notes),
    )


def _as_printed(setup: Settings, seen: Mapping[str, Any]) -> Guarantee:
    """The paper's Corollary, with what it needs and what is wrong with it."""
    said, n = setup.printed, setup.horizon
    assert n is not None
    if said["profile"] == "exact":
        statement, needs = "The paper's Theorem 3, as printed", []
    else:
        statement = f"The paper's Corollary ({said['profile']} eigendecay), as printed"
        needs = [
            Assumption("sup K(a, a) = 1", abs(said["size"] - 1) < 1e-9),
            Assumption(f"ε = log N / (2n) = {said['epsilon']:.3g} is below 1", said["epsilon"] < 1),
            Assumption("4ηm is at most 1", 4 * said["learning_rate"] * said["rank"] <= 1),
        ]
        if said["profile"] == "polynomial":
            needs.append(
                Assumption(f"the eigendecay {said['rate']:.3g} is above 2", said["rate"] > 2)
            )
    if seen["late"] or seen["whole"]:
        needs.append(Assumption("epochs of one round, losses heard at once", False))
    return Guarantee(
        statement,
        n,
        {"regret": said["bound"]},
        _trivial(setup, n),
        (
            *needs,
            Assumption(
                "the smallest eigenvalue of John's covariance is 1/m (false in general)", False
            ),
        ),
        proved=False,
        notes=(
            "departures: q₁ is the prior, features are not centred, the design is G-optimal",
            "guarantee(printed=False) gives what is proved for the same parameters",
        ),
    )


def _common(setup: Settings, seen: Mapping[str, Any]) -> list[Assumption]:
    """What every bound here assumes."""
    low, high = setup.low, setup.high
    found = [
        Assumption(f"every loss is in [{low:.6g}, {high:.6g}]", True if seen["made"] else None)
    ]
    if "losses" in setup.names:
        found.append(Assumption(setup.names["losses"]))
    elif setup.names["adversary"] == "rank-one" and setup.problem.epsilon > 0:
        found.append(
            Assumption(
                "every loss is Φ(y) for an action y, or Σ c_i Φ(y_i) with Σ|c_i| ≤ 1, up to a constant"
            )
        )
    else:
        found.append(
            Assumption("every loss is in the kernel's RKHS, up to a constant, with the norm stated")
        )
    found.append(Assumption("a round's loss does not depend on the coin that draws its action"))
    return found


def _trivial(setup: Settings, n: int) -> float:
    return (setup.high - setup.low) * n
