"""A regret bound that can be read: its terms, its assumptions, and whether each holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from koloss import _html


@dataclass(frozen=True)
class Assumption:
    """One assumption of a bound."""

    text: str
    holds: bool | None = None  # checked or arranged; known to fail; None: for the user to know

    def __str__(self) -> str:
        mark = {True: "holds", False: "FAILS", None: "yours to know"}[self.holds]
        return f"{self.text} [{mark}]"


def semidefinite(eigenvalue: float) -> tuple[Assumption, ...]:
    """What every bound assumes of the kernel, said where it is seen to fail: by an eigenvalue below zero."""
    if eigenvalue >= 0:
        return ()
    text = f"the kernel is positive semidefinite on the actions (an eigenvalue is {eigenvalue:.4g})"
    return (Assumption(text, False),)


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the regret, term by term.

    The regret is the pseudo-regret max_a E Σ_t (ℓ_t(a_t) - ℓ_t(a)); it is the expected regret where the
    losses do not depend on the player's coins. As text it reads like a line in a paper.
    """

    statement: str  # which theorem this is
    rounds: int  # n
    terms: Mapping[str, float]  # the parts of the bound, by name
    trivial: float  # what no player can exceed: the width of the losses' range times n
    assumptions: tuple[Assumption, ...] = ()
    proved: bool = True  # for the settings in use
    notes: tuple[str, ...] = ()  # what else a reader should know

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

    def __str__(self) -> str:
        parts = " + ".join(f"{value:.4g} ({key})" for key, value in self.terms.items() if value > 0)
        verdict = "" if self.informative else f"; trivial: at most {self.trivial:.4g}"
        bound = f"{parts or '0'} = {sum(self.terms.values()):.4g}{verdict}"
        lines = [f"{self.statement}: R_{self.rounds} ≤ {bound}"]
        if not self.proved:
            lines.append("  not proved for these settings")
        lines += [f"  assumes: {assumption}" for assumption in self.assumptions]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

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
        title = f"{self.statement}: regret of {self.rounds:,} rounds, {verdict}"
        return _html.card(title, *parts, *self.notes)
