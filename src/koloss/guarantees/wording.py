"""Every sentence of a guarantee, by key: what it says of losses, and with the same words of rewards.

A clause has a key and numbers; its text is made here and nowhere else. `{loss}`, `{losses}` and other words are those of `WORDS`, for what
is told, and `{subject}` is a loss as it counts; all other fields are the clause's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from koloss.guarantees.base import Guarantee

Goal = Literal["minimize", "maximize"]

WORDS = {
    "minimize": {
        "loss": "loss",
        "losses": "losses",
        "loses": "loses",
        "lose": "lose",
        "more": "more",
        "Losses": "Losses",
        "above": "above",
        "exceeded": "exceeded",
        "least": "least",
        "min": "min",
    },
    "maximize": {
        "loss": "reward",
        "losses": "rewards",
        "loses": "earns",
        "lose": "earn",
        "more": "less",
        "Losses": "Rewards",
        "above": "below",
        "exceeded": "fell short of",
        "least": "most",
        "min": "max",
    },
}

COMPARATORS = {
    "action": "the best single action",
    "awake": "any single action in the rounds in which it could be chosen",
    "hindsight": "the best single action, chosen after the game",
    "mapping": "the best choice of one action for each context",
    "law": "the best fixed mixture of actions within the shares",
    "mapping law": "the best choice of a mixture within the shares for each context",
}
"""What the player is compared with."""

THEOREMS = {
    "one action": "One action",
    "equal": "All actions are equally good",
    "A2i": "Theorem A2(i) (finite set)",
    "A2ii": "Theorem A2(ii) (compact set)",
    "A2iii": "Theorem A2(iii) (finite set, anytime)",
    "A2iii compact": "Theorem A2(iii) (compact set, anytime)",
    "A3": "Theorem A3",
    "A4 gradient": "Theorem A4 (conditional gradient)",
    "A4 leader": "Theorem A4 (regularised leader)",
    "B3": "Theorem B3′ (epochs ended by drift)",
    "B3w": "Theorem B3w (whole epochs)",
    "B3-delay": "Theorem B3-delay",
    "B4": "Theorem B4 (anytime)",
    "F1": "Theorem F1",
    "F6": "Theorem F6",
    "F6.7": "Theorem F6.7 (one learner per context)",
    "F6.11": "Theorem F6.11 (one learner per context)",
    "F6.11 insured": "Theorem F6.11 (a policy under watch in each context)",
    "I1": "Theorem I1",
    "R": "Theorem R (estimated after the game)",
    "R(a)": "Theorem R(a) (estimated after the game)",
    "10": "The paper's Theorem 10, as printed",
    "12 exponential": "The paper's Corollary (exponential eigendecay), as printed",
    "12 polynomial": "The paper's Corollary (polynomial eigendecay), as printed",
    "14": "The paper's Theorem 14, as printed",
    "15": "The paper's Theorem 15, as printed",
    "E.3": "The paper's bound for Algorithm 4, as printed",
}
"""Names of what is proved, or printed in the paper."""

JOINTS = {"F6": " over "}
"""What stands between a theorem and the next one that it needs; ", then " otherwise."""

DETAILS = {
    "epochs": ", epochs ended by drift (B3′)",
    "ball": " on the ball (B5)",
    "ridge": " with a ridge (F1)",
    "ridge, bonuses": " with a ridge and bonuses (F1)",
    "bonuses": " with bonuses (B2)",
    "hindsight": ", in hindsight (F7)",
    "sampled": " with a sampled covariance (A4)",
    "learned": ", the range learned (F3)",
}
"""What is added to these names."""

CLAUSES = {
    # of losses
    "range": "every {loss} is in [{low:.6g}, {high:.6g}]",
    "range to a ceiling": "every {loss} is at {least} {end:.6g}",
    "unseen": "every {loss} that was not received is in [{low:.6g}, {high:.6g}]",
    "as they are": "no {loss} is clipped, so that the regret is of {losses} as they are",
    "width": "every {loss} has a range of at most {width:.6g}",
    "norm of losses": "every {loss} has norm at most {norm:.6g}",
    "constant": "the constant is a feature without a penalty",
    "coin": "a round's {loss} does not depend on the coin that draws its action",
    "span": "{subject} is in the span of the kernel's features{up_to}",
    "alike": "no {loss} needs the {lost} features that are combinations of others on these actions, but for rounding",
    "norm": "{subject} is in the kernel's RKHS{mapped} with a norm of at most {norm:.6g}{unit}{up_to}{bandwidths}",
    "hull": "{subject} is Σ c_i Φ(y_i){mapped} with {places} and Σ|c_i| ≤ {norm:.6g}{unit}{up_to}",
    "form": "{subject} is {form}",
    "form and norm": "{subject} is {form} with {coefficients} at most {square:.6g}",
    "misfit": "{losses} are within {misfit:.6g} of such a function at every action",
    "small losses": "{losses} have norm at most sup ‖Φ(a)‖",
    # of the kernel, features and rounding
    "semidefinite": "the kernel is positive semidefinite on the actions (an eigenvalue is {eigenvalue:.4g})",
    "rounding": "sums of single precision on the device are as good as exact (up to a relative error of about {error:.0e})",
    "mixed": "the Markov chains have mixed: draws follow the density",
    "vertices": "every vertex is a global minimum",
    # of the play
    "rounds": "at most {horizon} rounds",
    "exploration": "exploration {share:.3g} is at most 1",
    "one by one": "actions to come are asked for one by one",
    "whole": "the {losses} of a whole epoch do not depend on the actions drawn in it",
    "no longer epoch": "no later epoch is longer than {longest} rounds",
    "whole epochs to come": "actions to come are drawn in whole epochs of at most {longest} rounds",
    # of late and missing losses
    "at once": "every {loss} is received before the next decision",
    "told before": "{losses} to come are told before the next decision",
    "told after": "{losses} to come are told after at most {delay} others",
    "told by value": 'when a value is told does not depend on what it is (`release="window"` makes it so)',
    "oblivious": "{losses} do not depend on the player's actions",
    "late in epochs": "nor do {losses} of an epoch depend on late actions whose {losses} are received during it",
    "unopened": "neither {losses} nor when they are received depend on actions or {losses} not yet received",
    "unused": "{losses} do not depend on actions or {losses} not yet used",
    "in time": "at most {delay} other {losses} are received before that of an action",
    "arrival": "the order in which {losses} arrive does not depend on actions or {losses} not yet learned from",
    "told in time": "every {loss} is told before more than {hold} further decisions are made",
    "in the end": "every {loss} that is not forgotten is received in the end",
    "robust in time": "no {loss} of the robust learner comes after its next decision",
    "robust in time from now on": "no further {loss} of the robust learner comes after its next decision",
    "crowd": "no more than {crowd} decisions wait for their {losses}",
    "crowd each": "no more than {crowd} decisions of a context wait for their {losses}",
    "policy": "the policy does not depend on actions whose {losses} are not yet received",
    "missing": "whether a {loss} is received depends neither on the action nor on the {loss}",
    "offered": "which actions may be chosen in a round does not depend on actions or {losses} not yet received",
    # of contexts
    "drawn": "contexts are drawn independently, each round anew, with the shares as given",
    "before": "a round's {losses} are fixed before its context is drawn",
    "any order": "a context may depend on all that was played before, not on the coin of its round",
    "late order": "contexts do not depend on actions or {losses} not yet received",
    "late contexts": "when {losses} are received does not depend on contexts of pending decisions",
    "missing contexts": "whether a {loss} is received does not depend on the context",
    "whole contexts": "the {losses} of a whole epoch do not depend on the contexts drawn in it",
    # of what the paper prints
    "size 1": "sup K(a, a) = 1",
    "small error": "ε = log N / (2n) = {epsilon:.3g} is below 1",
    "small rate": "4ηm is at most 1",
    "fast decay": "the eigendecay {rate:.3g} is above 2",
    "as assumed": "epochs of one round, {losses} received at once",
    "John": "the smallest eigenvalue of John's covariance is 1/m (false in general)",
    "volume": "the volume of the actions is above 1",
    "many rounds": "n is so large that η𝒢² is at most 1",
    "two terms": "two terms of equal size add up to one of them (false)",
    "smooth": "F is 1-smooth and the features have diameter 𝒢 (false)",
    "hindsight": (
        "{losses} do not depend on the player's actions, so that the regret in hindsight is the pseudo-regret on average"
    ),
}
"""What bounds assume."""

OBLIVIOUS = frozenset(
    ("whole", "oblivious", "late in epochs", "unopened", "unused", "whole contexts")
) | {"hindsight"}
"""Clauses for which losses that do not depend on the player's actions are enough."""

NOTES = {
    "late": "{count} {losses} came after their epoch (Theorem B3l)",
    "late in full": "{count} {losses} came after others",
    "hindsight range": "in hindsight a learned range is covered for epochs of one round (batch=1)",
    "hindsight outside": "in hindsight {losses} outside are covered for epochs of one round (batch=1)",
    "hindsight late": "in hindsight {losses} that come after their epoch are not covered",
    "anytime epochs": "Theorem B4 is proved for epochs of one round (batch=1) here",
    "anytime at once": "Theorem B4 is not proved for actions drawn at once",
    "contexts one by one": (
        "one learner per context is covered for actions asked for one by one, whose {losses} are received before its next decision"
    ),
    "anytime late": "{count} {losses} came after their epoch, which Theorem B4 does not cover",
    "anytime delay": "Theorem B4 does not cover {losses} that come late",
    "anytime sampled": "Theorem B4 is proved for the exact covariance",
    "range": "ρ is the largest minus the smallest {loss} over all actions and rounds; received so far: {heard}",
    "range in a round": "ρ is the largest range of a {loss} in a round; received so far: {heard}",
    "range late": "{losses} that come late are not covered where the range is learned",
    "range late insured": "with a learned range {losses} that come after other decisions are not covered",
    "range known": "ρ = {width:.6g}: the largest minus the smallest {loss} over all actions and rounds, seen after the game",
    "range unknown": "ρ is not known, nor is what the bound is in {losses}",
    "clipped": (
        "{Losses} {above} {ceiling:.6g} count as {ceiling:.6g}: for these the guarantee holds as printed, if {subject} is in the class. "
        "Against the {losses} as they are, the regret is in expectation at most that plus what your own {losses} {exceeded} {ceiling:.6g} "
        "by, in expectation; received so far: {excess:.6g}."
    ),
    "clipped, any losses": (
        "{Losses} {above} {ceiling:.6g} count as {ceiling:.6g}: for these the guarantee holds as printed. Against the {losses} as they "
        "are, the regret is in expectation at most that plus what your own {losses} {exceeded} {ceiling:.6g} by, in expectation; received "
        "so far: {excess:.6g}."
    ),
    "shares": "against the best single action the shares may cost {price:.4g}{unit} more: {whole:.4g}{unit} in all",
    "shares late": "Theorem B3-delay is not proved for laws that are projected onto shares",
    "masks": (
        "masks: {made} decisions were made among the actions allowed then, for which no bound is proved; against an action that was "
        "not always allowed, only rounds in which it was can count. Masks that come by a known law are contexts, which have a bound"
    ),
    "offered": (
        "against an action the bound counts the rounds in which it could be chosen: one added later from then on, a withdrawn one up to then"
    ),
    "offered hindsight": "in hindsight rounds among some of the actions are not covered",
    "takes over": "the bound is largest where the robust learner takes over with {left} rounds left",
    "early": "stopping on evidence is a heuristic; the bound holds whenever a policy is stopped",
    "no use": "no guarantee at a delay of {delay}",
    "drawn at once": "actions drawn at once are not covered where {losses} come late",
    "robust late": (
        "{count} {losses} of the robust learner came late without a `delay` that covers them: its part is for what happened in this "
        "game, on average over such games, and promises nothing for rounds to come"
    ),
    "alarm": "{alarm}",
    "growing points": (
        "without (net) it is {inside:.4g}, against the points in play, each from when it entered to when it was withdrawn: {lasting} "
        "stay all game long, {most} are in play at most, and there are {slots} slots for all that may enter"
    ),
    "growing net": (
        "(net), {net:.4g}, is what the best action of all may gain on the {lasting} points that stay; that those which enter come "
        "nearer to it is not proved"
    ),
    "growing kernel": "the kernel of the insurance is {kernel}",
    "contexts late": "late {losses} are covered where the conditions of that theorem hold in every context",
    "contexts too late": "{losses} that came after their epoch are covered only up to a `delay` that was declared",
    "contexts hindsight": "with contexts the regret in hindsight is not covered",
    "contexts range": "with contexts a learned range is not covered",
    "contexts penalties": "with contexts penalties that fall with time are not covered",
    "contexts offered": "with contexts rounds among some of the actions are not covered",
    "contexts sampled": "with contexts a sampled covariance is not covered",
    "departures": "departures: q₁ is the prior, features are not centred, the design is G-optimal",
    "printed": "guarantee(printed=False) gives what is proved for the same parameters",
    "printed rate": "guarantee(printed=False) gives what is proved for the same learning rate",
}
"""What else a reader should know."""


SENTENCES = {
    "nothing": "{name}: nothing can be lost.",
    "unproved": "No guarantee: nothing is proved for what is played here. The number below is for the nearest case that is proved.",
    "fails": "No guarantee: what it assumes does not hold ({clause}).",
    "unknown": "No guarantee can be given in {losses}: their range is not known.",
    "trivial": "No useful guarantee: over {rounds:,} rounds it is no smaller than what the range of the {losses} allows, {trivial}.",
    "bound": "Over {rounds:,} rounds the learner {loses} {how} at most {total}{unit} {more} than {comparator}: {each}{unit} per round.",
    "realised": (
        "Estimated regret of the {rounds:,} rounds so far: {total}. On average over the learner's own draws the regret is at most the "
        "mean of such estimates; this is one of them, not a bound for this game."
    ),
    "ceiling": "{Losses} {above} {ceiling:.6g} count as {ceiling:.6g}.",
    "unit": "ρ is the range of the {losses}, largest minus smallest; {seen}.",
    "unseen": "no two that differ were received yet",
    "seen": "so far it is {width}, and the bound {total}",
    "range": "The worst case without it is {width}{unit} per round, the range of the {losses}.",
    "random": "Playing at random would {lose} about {random} {more}, by the learner's own estimate.",
    "uninformative": "So far the guarantee says little about this game: it is larger than that.",
}
"""What is said first."""


def _number(value: float) -> str:
    """Three digits that matter, or whole numbers."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def in_words(promise: Guarantee) -> str:
    """One or two sentences for somebody who has never read a paper, in the user's units."""
    failing = [one.text for one in promise.assumptions if one.holds is False]
    if promise.trivial == 0:
        return SENTENCES["nothing"].format(name=name(promise.theorems, ()))
    unit = f" {promise.unit}" if promise.unit else ""
    total, n, words = sum(promise.terms.values()), promise.rounds, WORDS[promise.goal]
    how = (
        "on average" if promise.confidence is None else f"with probability {promise.confidence:.4g}"
    )
    comparator = promise.comparator
    if promise.regret == "hindsight" and comparator == "action":
        comparator = "hindsight"
    fields: dict[str, object] = {
        **words,
        "rounds": n,
        "how": how,
        "unit": unit,
        "total": _number(total),
        "each": _number(total / max(n, 1)),
        "trivial": _number(promise.trivial) + unit,
        "width": _number(promise.trivial / max(n, 1)),
        "comparator": COMPARATORS[comparator],
        "clause": failing[0] if failing else "",
    }
    rules = {
        "realised": promise.is_estimate,
        "unproved": not promise.proved,
        "fails": failing,
        "unknown": math.isnan(promise.trivial),
        "trivial": promise.is_trivial,
    }
    said = [next((key for key, is_so in rules.items() if is_so), "bound")]
    ceilings = [one.numbers["ceiling"] for one in promise.remarks if "ceiling" in one.numbers]
    if ceilings and said == ["bound"]:
        said.append("ceiling")
        fields["ceiling"] = ceilings[0]
    elif unit and said == ["bound"]:
        said.append("unit")
        fields["seen"] = SENTENCES["unseen"]
        if promise.seen:
            width, whole = _number(promise.seen), _number(promise.seen * total)
            fields["seen"] = SENTENCES["seen"].format(width=width, total=whole)
    if promise.random is not None:
        fields["random"] = _number(promise.random)
        said.append("random")
        if said[0] == "bound" and not promise.informative:
            said.append("uninformative")
    elif said[0] == "bound" and math.isfinite(promise.trivial):
        said.append("range")
    return " ".join(SENTENCES[key].format(**fields) for key in said)


def say(template: str, numbers: Mapping[str, object], goal: Goal) -> str:
    """A sentence with its numbers; where there is a ceiling, what it says of losses it says of these as they count."""
    fields: dict[str, object] = {**WORDS[goal], **numbers}
    subject = "the mean of {min}({loss}, {ceiling:.6g})" if "ceiling" in numbers else "every {loss}"
    return template.format(**fields, subject=subject.format(**fields))


def name(theorems: tuple[str, ...], details: tuple[str, ...]) -> str:
    """Which theorem a bound is, or which in a row.

    Examples
    --------
    >>> name(("I1", "B3"), ("ridge",))
    'Theorem I1, then Theorem B3′ (epochs ended by drift) with a ridge (F1)'
    """
    text = THEOREMS[theorems[0]]
    for before, one in pairwise(theorems):
        text += JOINTS.get(before, ", then ") + THEOREMS[one]
    return text + "".join(DETAILS[one] for one in details)
