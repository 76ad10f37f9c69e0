r"""Any policy, insured: the budget that estimated regret may use, and the bound that follows.

In units of ρ, the width of the losses' range: with m features, a design of leverage G and N actions,

    B(n) = √((G + ψ(2)m) n log N)

is the scale of the robust learner's bound after n rounds. A stage that is watched may use D = (trigger + premium) B(n) of
estimated regret, the jump of the round to come included. Then

    R_n ≤ ρ (Σ_stages D + min(C, O - 1)) + ε n (1 + √R) + (the robust learner's bound),

where √R bounds the norm of a whitened action, O is the most decisions of a policy that wait for their losses, and C how many may
beyond what the budget has room for. With contexts there is a stage for each, and the budgets and reserves add up (Theorem F6.11).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from koloss.guarantees.bandit import BanditProblem, psi
from koloss.guarantees.base import Clause, Guarantee, Mark, clause, note

CEILING = 0.5
"""Largest share of exploration: a stage that would need more ends."""

OVERDRAFT = 1 / 4
"""Decisions that may be open beyond what the budget has room for, as a share of all rounds."""

LENIENCE = 0.05
"""Share of B(n) that the error of the features may cost for the sake of less exploration."""


def scale(problem: BanditProblem, n: int) -> float:
    """B(n)/ρ.

    Examples
    --------
    >>> game = BanditProblem(2000, 29, 29.0, loss_bound=0.5, epsilon=0.0, log_prior=math.log(400))
    >>> round(scale(game, 2000), 1)
    853.7
    """
    return math.sqrt((problem.leverage + psi(2.0) * problem.rank) * n * problem.log_prior)


def overdraft(n: int) -> float:
    """C: how many decisions may be open beyond what the budget has room for."""
    return math.ceil(OVERDRAFT * n)


def is_too_short(problem: BanditProblem, budget: float) -> bool:
    """Whether a budget leaves no room for a jump at the largest exploration: then there is nothing to insure."""
    return budget - 1 <= problem.leverage / CEILING


def warm_up(problem: BanditProblem, share: float) -> int:
    """Rounds that are played on trust where no horizon is known: until the budget is twice what it must be.

    They cost at most ρ each.
    """
    if problem.log_prior == 0:
        return 0
    enough = 1 + 2 * problem.leverage / CEILING
    return math.ceil((enough / (share * scale(problem, 1))) ** 2)


def largest_leverage(problem: BanditProblem, budget: float, n: int | None) -> float | None:
    """R: the learner explores enough for φ'Σ⁻¹φ ≤ R, so that features with an error cost little.

    Without an error nothing is needed; None without a horizon, where it is the budget of the time.
    """
    epsilon = problem.epsilon / (2 * problem.loss_bound)
    if epsilon == 0:
        return math.inf
    if n is None:
        return None
    return max(budget, (LENIENCE * scale(problem, n) / (epsilon * n)) ** 2)


def bias(problem: BanditProblem, budget: float, horizon: int | None, n: int) -> float:
    """What the error of the features costs in n rounds that are watched: ε n (1 + √R)."""
    if problem.epsilon == 0:
        return 0.0
    R = largest_leverage(problem, budget, horizon)
    return problem.epsilon * n * (1 + math.sqrt(budget if R is None else R))


def is_pointless(problem: BanditProblem, horizon: int | None, share: float) -> bool:
    """Whether there is nothing to insure: one action, or a horizon at which the budget has no room for a jump."""
    if problem.log_prior == 0:
        return True
    return horizon is not None and is_too_short(problem, share * scale(problem, horizon))


def halved(horizon: int, halvings: int) -> int:
    """A horizon halved so many times, rounded up."""
    return -(-horizon >> halvings)


def largest(bound: Callable[[int, int], Guarantee], rounds: int, horizon: int | None) -> Guarantee:
    """The robust learner's bound whenever it takes over: the largest over the rounds that may remain.

    With m rounds left it is tuned to the horizon H halved as often as that is at least m, N = ⌈H/2^k⌉, and for one tuning every
    term of the bound grows with the rounds. So after n of H rounds it is at most max_k min(bound_k, ρ) at N - (H - n) rounds:
    bounds for another tuning need not be smaller where fewer rounds remain.
    """
    first = best = bound(0, rounds)
    if horizon is None:
        return first
    k, left = 1, horizon
    while left > 1:
        left = halved(horizon, k)
        m = left - max(horizon - rounds, 0)
        if m < 1 or first.trivial * m <= best.total * rounds:
            break  # no more can be lost in so few rounds
        one = bound(k, m)
        if one.total > best.total:
            terms = {"exploration": one.trivial} if one.is_trivial else one.terms
            said = note("takes over", left=m)
            best = replace(first, terms=dict(terms), remarks=(*first.remarks, said))
        k += 1
    return best


@dataclass(frozen=True)
class Lateness:
    """What came late, and what was said of it: on this depends what is promised (theory F5, "what is printed")."""

    delay: int = 0  # d, where it was declared
    hold: int = 0  # decisions for which losses were held back
    crowd: int = 0  # most decisions of a policy that waited for their losses while it made another
    overdraft: float = 0.0  # C: how many may beyond what the budget has room for
    policy: int = 0  # losses of policies that came after others
    robust: int = 0  # λ: losses of the robust learner that came after its next decision, or will
    robust_rounds: int = 0  # |Q|: rounds that it has played, or may yet play
    kept: bool = True  # whether no loss came later than was declared
    whole: bool = False  # whether actions were drawn at once
    missing: int = 0  # losses that have not been told, forgotten ones among them
    heard: int = 0  # losses that have been told

    @property
    def any(self) -> bool:
        """Whether losses come late."""
        return max(self.delay, self.crowd, self.policy, self.robust) > 0


@dataclass(frozen=True)
class Part:
    """A stage: its game, the rounds that its budget is for where a horizon is known, and those that are played on trust."""

    problem: BanditProblem
    horizon: int | None
    warm_up: int = 0

    def scale(self, n: int) -> float:
        """B/ρ for its share of the horizon, or for n rounds."""
        return scale(self.problem, self.horizon or n)


def guarantee(
    parts: Sequence[Part],
    last: Guarantee,  # of the robust learner, or of those of all contexts
    *,
    width: float,  # ρ
    share: float,  # the budget of the policy, in units of B(n)
    lateness: Lateness,
    made: int,  # decisions
    own: bool,  # whether the policy is the user's
    alarms: Sequence[str],
    premium: float | None = None,  # where the range is learned: R, in units of B(n)
) -> Guarantee:
    """Theorem I1: the budget of the policy, the error of the features, what waits, and the robust learner's bound.

    With contexts Theorem F6.11: budgets add up. Those for a share of the horizon are what they are, however often a context comes; the
    others grow like the root of a context's own rounds, and add up to at most that of Cauchy and Schwarz.
    """
    n, horizon = last.rounds, parts[0].horizon
    units = [part.scale(n) for part in parts]
    errors = zip(parts, units, strict=True)
    terms = {
        "budget": width * (share * (math.hypot(*units) if horizon is None else math.fsum(units))),
        "bias": max(bias(part.problem, share * unit, part.horizon, n) for part, unit in errors),
        "unheard": width * len(parts) * min(lateness.crowd, lateness.overdraft),
        "warm-up": width * sum(part.warm_up for part in parts),
    }
    if premium is not None:  # the last loss may be outside of all that was heard (Theorem F3.5)
        terms["range"] = 1 + premium * max(units)
    theirs, proved = last.terms, last.proved
    notes = [note("alarm", alarm=alarm) for alarm in alarms]
    covered = horizon is not None and lateness.delay > 0 and lateness.kept
    if lateness.delay and lateness.whole:
        proved = False
        notes.append(note("drawn at once"))
    elif lateness.robust and not covered:
        proved, most = False, width * lateness.robust_rounds
        notes.append(note("robust late", count=lateness.robust))
        if horizon is None or most < sum(theirs.values()):  # a round costs at most the range
            theirs = {"robust learner": most}
    for name, value in theirs.items():
        kind = "robust learner" if name in ("exploration", "variance", "prior") else name
        terms[kind] = terms.get(kind, 0.0) + value
    if premium is not None and lateness.any:
        proved = False
        notes.append(note("range late insured"))
    notes.append(note("early"))
    promise = replace(
        last,
        theorems=("I1" if len(parts) == 1 else "F6.11 insured", *last.theorems),
        terms=terms,
        assumptions=_assumed(last, lateness, own, ends=made >= n, several=len(parts) > 1),
        proved=proved,
        remarks=(*notes, *last.remarks),
    )
    if lateness.delay and promise.is_trivial:
        useless = note("no use", delay=lateness.delay)
        promise = replace(promise, remarks=(*promise.remarks, useless))
    return promise


def _assumed(
    last: Guarantee, lateness: Lateness, own: bool, *, ends: bool, several: bool
) -> tuple[Clause, ...]:
    """What is assumed of losses that come late; `ends`: no round is to come; `several`: contexts."""
    delay, hold = lateness.delay, lateness.hold
    missing = [clause("missing")] if lateness.missing else []
    if not lateness.any:
        at_once = [] if ends else [clause("at once")]
        return (*(a for a in last.assumptions if a.key != "missing"), *at_once, *missing)
    theirs = ("unopened", "oblivious", "in time", "arrival", "missing")
    late = [a for a in last.assumptions if a.key not in theirs]
    in_time: Mark = "so far" if lateness.heard else None
    if not lateness.kept:
        in_time = False
    elif ends and not lateness.missing:
        in_time = True
    if delay and delay == hold:
        late += [clause("told in time", in_time, hold=hold), clause("unused")]
    else:
        late.append(clause("unopened"))
        if delay:
            late += [clause("in time", in_time, delay=delay), clause("in the end")]
    if not (delay or ends):
        late.append(clause("robust in time from now on" if lateness.robust else "robust in time"))
        if lateness.crowd < lateness.overdraft:
            late.append(clause("crowd each" if several else "crowd", crowd=lateness.crowd))
    if own:
        late.append(clause("policy"))
    return (*late, *missing)
