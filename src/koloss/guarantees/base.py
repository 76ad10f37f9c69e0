"""A regret bound that can be read: one sentence in words, its terms, its assumptions, and whether each holds.

A guarantee is data: terms by name, and clauses with a key, numbers and a mark. Its text is made at the end, from `wording`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from koloss.core import text
from koloss.guarantees import wording
from koloss.guarantees.wording import Goal

Mark = bool | Literal["so far"] | None
"""Arranged or checked in full; known to fail; seen to hold so far; None: for the user to know."""

MARKS: Mapping[Mark, str] = {
    True: "holds",
    False: "FAILS",
    "so far": "held so far",
    None: "yours to know",
}


UNSHARED = {"law": "action", "mapping law": "mapping"}
"""What regret within shares is against where it is against actions."""


@dataclass(frozen=True)
class Clause:
    """One assumption of a bound.

    Examples
    --------
    >>> print(Clause("range", "so far", {"low": 0.0, "high": 1.0}))
    every loss is in [0, 1] [held so far]
    """

    key: str  # of `wording.CLAUSES`
    holds: Mark = None
    numbers: Mapping[str, object] = field(default_factory=dict)
    goal: Goal = "minimize"

    @property
    def text(self) -> str:
        """What is assumed, in words."""
        return wording.say(wording.CLAUSES[self.key], self.numbers, self.goal)

    @property
    def oblivious(self) -> bool:
        """Whether losses that do not depend on the player's actions are all it needs."""
        return self.key in wording.OBLIVIOUS

    def __str__(self) -> str:
        return f"{self.text} [{MARKS[self.holds]}]"


@dataclass(frozen=True)
class Note:
    """What else a reader of a bound should know."""

    key: str  # of `wording.NOTES`
    numbers: Mapping[str, object] = field(default_factory=dict)
    goal: Goal = "minimize"

    def __str__(self) -> str:
        return wording.say(wording.NOTES[self.key], self.numbers, self.goal)


def clause(key: str, holds: Mark = None, **numbers: object) -> Clause:
    """A clause with its numbers."""
    return Clause(key, holds, numbers)


def note(key: str, **numbers: object) -> Note:
    """A note with its numbers."""
    return Note(key, numbers)


def semidefinite(eigenvalue: float) -> tuple[Clause, ...]:
    """What every bound assumes of the kernel, said where it is seen to fail: by an eigenvalue below zero."""
    return () if eigenvalue >= 0 else (clause("semidefinite", False, eigenvalue=eigenvalue),)


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the regret, term by term.

    The regret is the pseudo-regret R_n = max_a E Σ_t (ℓ_t(a_t) - ℓ_t(a)), or where `regret` says so that in hindsight,
    H_n = max_a Σ_t (ℓ_t(a_t) - ℓ_t(a)): in expectation, or with a probability of at least `confidence`. Where losses do not depend on the
    player's coins, R_n is the expectation of H_n. As text it begins with a sentence for everybody, and goes on like a line in a paper.
    """

    theorems: tuple[str, ...]  # keys of `wording.THEOREMS`: which this is, and those it needs
    rounds: int  # n
    terms: Mapping[str, float]  # the parts of the bound, by name
    trivial: float  # what no player can exceed: the width of the losses' range times n
    assumptions: tuple[Clause, ...] = ()
    proved: bool = True  # for the settings in use
    remarks: tuple[Note, ...] = ()
    details: tuple[str, ...] = ()  # keys of `wording.DETAILS`: how it is played
    unit: str = ""  # "ρ" where the terms are multiples of the range of the losses
    regret: Literal["pseudo", "hindsight"] = "pseudo"
    confidence: float | None = None  # the bound holds with this probability; None: in expectation
    goal: Goal = "minimize"
    comparator: str = "action"  # key of `wording.COMPARATORS`: what the player is compared with
    random: float | None = None  # what playing at random loses in n rounds, by estimates
    price: float = 0.0  # what is to be added where the comparator is to be a single action
    seen: float | None = None  # ρ as far as it was seen, where it is the unit

    def __post_init__(self) -> None:
        for name in ("assumptions", "remarks"):  # all speak of losses, or all of rewards
            said = tuple(replace(one, goal=self.goal) for one in getattr(self, name))
            object.__setattr__(self, name, said)

    @property
    def statement(self) -> str:
        """Which theorem this is."""
        return wording.name(self.theorems, self.details)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader should know, in words."""
        return tuple(map(str, self.remarks))

    @property
    def total(self) -> float:
        """The bound: the sum of the terms, or the trivial bound where that is smaller."""
        return min(sum(self.terms.values()), self.trivial)

    @property
    def is_estimate(self) -> bool:
        """Whether this is one draw of what bounds the regret on average, and no bound itself."""
        return self.theorems == ("R",)

    @property
    def is_trivial(self) -> bool:
        """Whether the bound says no more than that losses have a range."""
        return not sum(self.terms.values()) < self.trivial

    @property
    def informative(self) -> bool:
        """Whether the bound says more than the trivial one, and more than playing at random loses as far as that is known."""
        if self.random is None or self.is_trivial:
            return not self.is_trivial
        scale = self.seen if self.unit and self.seen else 1.0
        return sum(self.terms.values()) * scale < self.random

    @property
    def valid(self) -> bool:
        """Whether the bound is proved and no assumption is known to fail: no more than that."""
        return self.proved and all(a.holds is not False for a in self.assumptions)

    def in_words(self) -> str:
        """What is promised, for somebody who has never read a paper.

        Examples
        --------
        >>> print(Guarantee(("A3",), 1000, {"all": 80.0}, 1000.0, random=200.0).in_words())
        Over 1,000 rounds the learner loses on average at most 80 more than the best single action: 0.08 per round. Playing at random
        would lose about 200 more, by the learner's own estimate.
        """
        return wording.in_words(self)

    def against(self, *, oblivious: bool) -> Guarantee:
        """The bound as it speaks of a game that was played, whose regret is in hindsight.

        That regret is against a single action, of losses as they are: what shares may cost is a term of its own. What the bound assumes
        of the adversary is settled: one that is oblivious does not look at the player. Otherwise a bound on the pseudo-regret is no
        bound on what was measured, and is not valid for it; nor is one for losses as they count, where some were clipped.

        Examples
        --------
        >>> bound = Guarantee(("A3",), 10, {"all": 3.0}, 10.0, (clause("oblivious"),))
        >>> print(*bound.against(oblivious=True).assumptions)
        losses do not depend on the player's actions [holds]
        >>> bound.against(oblivious=False).valid
        False
        """
        settled = [replace(a, holds=oblivious) if a.oblivious else a for a in self.assumptions]
        if self.regret == "pseudo" and not oblivious:
            settled.append(clause("hindsight", False))
        if any(one.numbers.get("excess") for one in self.remarks):
            settled.append(clause("as they are", False))
        promise = replace(self, assumptions=tuple(settled))
        if not self.price:
            return promise
        return replace(
            promise,
            terms={**self.terms, "shares": self.price},
            price=0.0,
            comparator=UNSHARED[self.comparator],
            remarks=tuple(one for one in self.remarks if one.key != "shares"),
        )

    def of_rewards(self) -> Guarantee:
        """The same bound for somebody who is told rewards: in words only."""
        return replace(self, goal="maximize")

    def in_losses(self, width: float) -> Guarantee:
        """A bound in units of the range as one in losses, where that range is known to be `width`; others stay as they are."""
        if not self.unit:
            return self
        terms = {name: value * width for name, value in self.terms.items()}
        said = note("range unknown") if math.isnan(width) else note("range known", width=width)
        scaled = replace(self, terms=terms, trivial=self.trivial * width, unit="", seen=None)
        return replace(scaled, remarks=(*self.remarks, said))

    def __str__(self) -> str:
        parts = " + ".join(f"{value:.4g} ({key})" for key, value in self.terms.items() if value > 0)
        verdict = f"; trivial: at most {self.trivial:.4g}" if self.is_trivial else ""
        unit = f" {self.unit}" if self.unit else ""
        bound = f"{parts or '0'} = {sum(self.terms.values()):.4g}{unit}{verdict}"
        if self.is_estimate:
            bound = f"E[Ĉ] with Ĉ = {bound} in this game"
        hindsight = "E H" if self.confidence is None else "H"
        symbol = "R" if self.regret == "pseudo" else hindsight
        lines = [self.in_words(), f"{self.statement}: {symbol}_{self.rounds} ≤ {bound}"]
        if self.confidence is not None:
            lines.append(f"  with probability {self.confidence:.6g}")
        if not self.proved:
            lines.append("  not proved for these settings")
        lines += [f"  assumes: {one}" for one in self._in_order]
        lines += [f"  note: {one}" for one in self.notes]
        return "\n".join(lines)

    @property
    def _in_order(self) -> list[Clause]:
        """The assumptions: first what is the user's to know, last what holds."""
        order: list[Mark] = [None, False, "so far", True]
        return sorted(self.assumptions, key=lambda one: order.index(one.holds))

    def _repr_html_(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        rows = [(name, f"{text.short_number(x)}{unit}") for name, x in self.terms.items() if x]
        rows.append(("sum", f"{text.short_number(sum(self.terms.values()))}{unit}"))
        if self.is_trivial:
            rows.append(("trivial: no player exceeds", f"{text.short_number(self.trivial)}{unit}"))
        parts: list[object] = [self.in_words(), text.Table(("term", "bound"), rows)]
        if self.assumptions:
            assumed = [(one.text, MARKS[one.holds].lower()) for one in self._in_order]
            parts.append(text.Table(("it assumes", ""), assumed, left=(0, 1)))
        verdict = "valid" if self.valid else "not valid" if self.proved else "not proved here"
        kind = "pseudo-regret" if self.regret == "pseudo" else "regret in hindsight"
        if self.confidence is not None:
            kind += f" with probability {self.confidence:.6g}"
        title = f"{self.statement}: {kind} of {self.rounds:,} rounds, {verdict}"
        return text.card(title, *parts, *self.notes)
