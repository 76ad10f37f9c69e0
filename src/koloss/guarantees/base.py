"""A regret bound that can be read: its terms, its assumptions, and whether each holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koloss import _html


@dataclass(frozen=True)
class Assumption:
    """One assumption of a bound.

    Attributes
    ----------
    text : str
        What is assumed.
    holds : bool or None
        True where the learner has checked or arranged it, False where it is known to fail, None where it is
        for the user to know.
    """

    text: str
    holds: bool | None = None

    def __str__(self) -> str:
        mark = {True: "holds", False: "FAILS", None: "yours to know"}[self.holds]
        return f"{self.text} [{mark}]"


@dataclass(frozen=True)
class Guarantee:
    """An upper bound on the regret, term by term.

    The regret is the pseudo-regret max_a E Σ_t (ℓ_t(a_t) - ℓ_t(a)); it is the expected regret where the
    losses do not depend on the player's coins. As text it reads like a line in a paper.

    Attributes
    ----------
    statement : str
        Which theorem this is.
    rounds : int
        Number n of rounds it is about.
    terms : mapping of str to float
        The parts of the bound, by name.
    trivial : float
        What no player can exceed: the width of the losses' range times n.
    assumptions : tuple of Assumption
    proved : bool
        Whether the statement is proved for the settings in use.
    notes : tuple of str
        What else a reader should know.
    """

    statement: str
    rounds: int
    terms: Mapping[str, float]
    trivial: float
    assumptions: tuple[Assumption, ...] = ()
    proved: bool = True
    notes: tuple[str, ...] = field(default=())

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
        parts = " + ".join(
            f"{value:.4g} ({name})" for name, value in self.terms.items() if value > 0
        )
        verdict = "" if self.informative else f"; trivial: at most {self.trivial:.4g}"
        lines = [
            f"{self.statement}: R_{self.rounds} ≤ {parts or '0'} = {sum(self.terms.values()):.4g}{verdict}"
        ]
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
        marks = {True: "holds", False: "fails", None: "yours to know"}
        assumed = [(a.text, marks[a.holds]) for a in self.assumptions]
        parts: list[object] = [_html.Table(("term", "bound"), rows)]
        if assumed:
            parts.append(_html.Table(("it assumes", ""), assumed, left=(0, 1)))
        verdict = "valid" if self.valid else "not valid" if self.proved else "not proved here"
        title = f"{self.statement}: regret of {self.rounds:,} rounds, {verdict}"
        return _html.card(title, *parts, *self.notes)
