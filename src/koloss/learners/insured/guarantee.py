"""The insured learner's regret bound in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from koloss.guarantees import Assumption, Guarantee, bandit, insured
from koloss.learners.bandit.guarantee import guarantee as robust_guarantee
from koloss.learners.bandit.records import Tally

if TYPE_CHECKING:
    from koloss.learners.insured.insured_bandit import InsuredBandit


def guarantee(learner: InsuredBandit, rounds: int | None) -> Guarantee:
    """Theorem I1: the budgets of all stages, the error of the features, and the robust learner's bound."""
    setup, terms_of, tally = learner.setup, learner.insurance, learner._tally
    problem, horizon = setup.problem, setup.horizon
    robust, width = learner._robust, setup.high - setup.low
    seen = Tally() if robust is None else robust._tally
    waiting = 0 if robust is None else len(robust._outstanding)
    n = rounds or horizon or max(tally.made, 1)
    # Tuned to all rounds: what remains after an alarm has a smaller bound.
    last = robust_guarantee(setup, seen, waiting, n, None)
    if learner._too_short:
        return last
    budgets = [share * insured.scale(problem, horizon or n) for share in terms_of.shares]
    waits = 0 if robust is not None else len(learner._outstanding)
    crowd = max(problem.delay, tally.crowd, waits)
    terms = {
        "budget": width * sum(budgets),
        "bias": insured.bias(problem, max(budgets), horizon, n),
        "unheard": width * crowd * len(budgets),
        "warm-up": width * learner._warm_up,
    }
    for name, value in last.terms.items():
        kind = "robust learner" if name in ("exploration", "variance", "prior") else name
        terms[kind] = terms.get(kind, 0.0) + value
    checked = {"every loss is in": True if tally.heard else None}
    if horizon is not None:
        checked[f"at most {horizon} rounds"] = max(tally.made, n) <= horizon
    assumptions = [
        replace(a, holds=next((v for k, v in checked.items() if a.text.startswith(k)), a.holds))
        for a in last.assumptions
    ]
    if tally.late or crowd:
        assumptions.append(
            Assumption("neither losses nor when they are heard depend on actions not yet heard of")
        )
        assumptions.append(
            Assumption(f"at most {crowd} decisions are outstanding when a policy is stopped")
        )
    if "own" in terms_of.policies and (tally.late or crowd):
        assumptions.append(Assumption("the policy does not depend on actions not yet heard of"))
    notes = [str(alarm) for alarm in learner._alarms]
    if terms_of.early:
        notes.append(
            "stopping on evidence is a heuristic; the bound holds whenever a policy is stopped"
        )
    way = "shielded" if terms_of.shield else "unshielded"
    return Guarantee(
        f"Theorem I1 ({way}), then {last.statement}",
        n,
        terms,
        last.trivial,
        tuple(assumptions),
        proved=last.proved,
        notes=(*notes, *last.notes),
    )


def too_short(problem: bandit.BanditProblem, horizon: int | None, share: float) -> bool:
    """Whether there is nothing to insure: one action, or a horizon at which the budget has no room for a jump."""
    if problem.log_prior == 0:
        return True
    return horizon is not None and insured.is_too_short(
        problem, share * insured.scale(problem, horizon)
    )
