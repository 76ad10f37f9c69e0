"""A regret bound that can be read: its terms, its assumptions, and whether each holds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from koloss import _html


@dataclass(frozen=True)
class Assumption:
    """One assumption of a bound."""

    text: str
    holds: bool | None = None  # checked or arranged; known to fail; None: for the user to know
    oblivious: bool = (
        False  # whether losses that do not depend on the player's actions are all it needs
    )

    def __str__(self) -> str:
        mark = {True: "holds", False: "FAILS", None: "yours to know"}[self.holds]
        return f"{self.text} [{mark}]"


def semidefinite(eigenvalue: float) -> tuple[Assumption, ...]:
    """What every bound assumes of the kernel, said where it is seen to fail: by an eigenvalue below zero."""
    if eigenvalue >= 0:
        return ()
    text = f"the kernel is positive semidefinite on the actions (an eigenvalue is {eigenvalue:.4g})"
    return (Assumption(text, False),)


COMPARED = "losses do not depend on the player's actions, so that the regret in hindsight is the pseudo-regret on average"
"""What a bound on the pseudo-regret needs to be compared with the regret in hindsight."""


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the regret, term by term.

    The regret is the pseudo-regret R_n = max_a E Σ_t (ℓ_t(a_t) - ℓ_t(a)), or where `regret` says so that in hindsight,
    H_n = max_a Σ_t (ℓ_t(a_t) - ℓ_t(a)): in expectation, or with a probability of at least `confidence`. Where losses do not depend on the
    player's coins, R_n is the expectation of H_n. As text it reads like a line in a paper.
    """

    statement: str  # which theorem this is
    rounds: int  # n
    terms: Mapping[str, float]  # the parts of the bound, by name
    trivial: float  # what no player can exceed: the width of the losses' range times n
    assumptions: tuple[Assumption, ...] = ()
    proved: bool = True  # for the settings in use
    notes: tuple[str, ...] = ()  # what else a reader should know
    unit: str = ""  # "ρ" where the terms are multiples of the range of the losses
    regret: Literal["pseudo", "hindsight"] = "pseudo"
    confidence: float | None = None  # the bound holds with this probability; None: in expectation

    @property
    def total(self) -> float:
        """The bound: the sum of the terms, or the trivial bound where that is smaller."""
        return min(sum(self.terms.values()), self.trivial)

    @property
    def informative(self) -> bool:
        """Whether the bound says more than the trivial one."""
        return sum(self.terms.values()) < self.trivial

    @property
    def valid(self) -> bool:
        """Whether the bound is proved and no assumption is known to fail."""
        return self.proved and all(a.holds is not False for a in self.assumptions)

    def against(self, *, oblivious: bool) -> Guarantee:
        """The bound as it speaks of a game that was played, whose regret is in hindsight.

        What it assumes of the adversary is settled: one that is oblivious does not look at the player. Otherwise a bound on the
        pseudo-regret is no bound on what was measured, and is not valid for it.

        Examples
        --------
        >>> bound = Guarantee(
        ...     "Theorem",
        ...     10,
        ...     {"all": 3.0},
        ...     10.0,
        ...     (Assumption("losses do not react", oblivious=True),),
        ... )
        >>> print(bound.against(oblivious=True))
        Theorem: R_10 ≤ 3 (all) = 3
          assumes: losses do not react [holds]
        >>> bound.against(oblivious=False).valid
        False
        """
        settled = [replace(a, holds=oblivious) if a.oblivious else a for a in self.assumptions]
        if self.regret == "pseudo" and not oblivious:
            settled.append(Assumption(COMPARED, False, oblivious=True))
        return replace(self, assumptions=tuple(settled))

    def of_rewards(self) -> Guarantee:
        """The same bound for somebody who is told rewards: in words only."""

        def words(text: str) -> str:
            return re.sub(r"\bloss(es)?\b", lambda m: "rewards" if m[1] else "reward", text)

        assumptions = tuple(replace(one, text=words(one.text)) for one in self.assumptions)
        return replace(self, assumptions=assumptions, notes=tuple(map(words, self.notes)))

    def in_losses(self, width: float) -> Guarantee:
        """A bound in units of the range as one in losses, where that range is known to be `width`; others stay as they are."""
        if not self.unit:
            return self
        terms = {name: value * width for name, value in self.terms.items()}
        note = f"{self.unit} = {width:.6g}: the largest minus the smallest loss over all actions and rounds, seen after the game"
        if math.isnan(width):
            note = f"{self.unit} is not known, nor is what the bound is in losses"
        scaled = replace(self, terms=terms, trivial=self.trivial * width, unit="")
        return replace(scaled, notes=(*self.notes, note))

    def __str__(self) -> str:
        parts = " + ".join(f"{value:.4g} ({key})" for key, value in self.terms.items() if value > 0)
        verdict = "" if self.informative else f"; trivial: at most {self.trivial:.4g}"
        unit = f" {self.unit}" if self.unit else ""
        bound = f"{parts or '0'} = {sum(self.terms.values()):.4g}{unit}{verdict}"
        lines = [f"{self.statement}: {self._symbol}_{self.rounds} ≤ {bound}"]
        if self.confidence is not None:
            lines.append(f"  with probability {self.confidence:.6g}")
        if not self.proved:
            lines.append("  not proved for these settings")
        lines += [f"  assumes: {assumption}" for assumption in self.assumptions]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    @property
    def _symbol(self) -> str:
        """Of the regret that is bounded."""
        if self.regret == "pseudo":
            return "R"
        return "E H" if self.confidence is None else "H"

    def _repr_html_(self) -> str:
        rows = [(name, _html.short_number(value)) for name, value in self.terms.items() if value]
        rows.append(("sum", _html.short_number(sum(self.terms.values()))))
        if not self.informative:
            rows.append(("trivial: no player exceeds", _html.short_number(self.trivial)))
        parts: list[object] = [_html.Table(("term", "bound"), rows)]
        if self.assumptions:
            marks = {True: "holds", False: "fails", None: "yours to know"}
            assumed = [(a.text, marks[a.holds]) for a in self.assumptions]
            parts.append(_html.Table(("it assumes", ""), assumed, left=(0, 1)))
        verdict = "valid" if self.valid else "not valid" if self.proved else "not proved here"
        kind = "pseudo-regret" if self.regret == "pseudo" else "regret in hindsight"
        if self.confidence is not None:
            kind += f" with probability {self.confidence:.6g}"
        title = f"{self.statement}: {kind} of {self.rounds:,} rounds, {verdict}"
        return _html.card(title, *parts, *self.notes)
