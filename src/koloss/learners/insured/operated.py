"""What an operator sees of an insured learner, and its controls. The guarantee holds whatever is pressed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from koloss.core.arrays import as_flag
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee
from koloss.learners.bandit.subsets import Bools, as_rows
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.report import (
    ContextDiagnostics,
    InsuredDiagnostics,
    diagnose_contexts,
    diagnose_stage,
    prove_insured,
    realise_insured,
)
from koloss.learners.insured.stage import Stage
from koloss.learners.insured.state import InsuredState
from koloss.learners.ledger import Told
from koloss.learners.sharing import locked


class Operated(InsuredState):
    """An insured learner as its operator knows it."""

    # Who plays.

    def _stage_for(self, context: Any) -> Stage:
        """The stage of a context, as it was given."""
        contexts = self.settings.contexts
        if contexts is None:
            refuse_extras(context, None)
            return self._stages[0]
        return self._stages[contexts.find(context)]

    def _stages_for(self, context: Any) -> Sequence[Stage]:
        """That of a context, or all."""
        return self._stages if context is None else [self._stage_for(context)]

    @locked
    def hand_over(self, *, context: Any = None) -> None:
        """Stop the policy now; the robust learner plays on. The guarantee holds all the same.

        With contexts it is stopped in all of them, or in one.
        """
        for stage in self._stages_for(context):
            if stage.is_watched:
                stage.take_over("operator", self.ledger.made)
                stage.paused = True

    @locked
    def pause(self) -> None:
        """Let the robust learner play until `re_arm()`. The guarantee holds all the same."""
        self.hand_over()
        for stage in self._stages:
            stage.paused = True

    @locked
    def re_arm(self, *, context: Any = None) -> None:
        """Let the policy that was stopped play again, within what is left of its budget.

        The guarantee holds all the same. Nothing happens while a policy plays, or where there is nothing to insure. With contexts
        it plays again in all of them, or in one.
        """
        for stage in self._stages_for(context):
            if not (stage.is_watched or stage.is_short):
                stage.re_arm("operator", self.ledger.made)

    # Actions that come and go.

    @property
    @locked
    def available(self) -> Bools:
        """Which actions are offered now, in some context where there are several."""
        offered: Bools = np.any([stage.roster.offered for stage in self._stages], axis=0)
        return offered

    @locked
    def withdraw(self, rows: Any) -> None:
        """Offer some actions no more, by their rows, or the params of a `Space`. Losses of decisions for them that are still open are used as always.

        The guarantee against the other actions holds all the same, and against these up to now, if when they are withdrawn does
        not depend on actions or losses not yet heard of. With contexts they are withdrawn in all.
        """
        self._withdraw(self._rows(rows))

    @locked
    def add(self, rows: Any) -> None:
        """Offer actions that were absent or have been withdrawn, by their rows, or the params of a `Space`.

        The guarantee against them counts from now on. One that was withdrawn before begins anew, and is one more to be compared
        with. With contexts they are added in all that allow them.
        """
        new = self._rows(rows)
        self._offer([(one, one.roster.including(here), here) for one, here in self._allowing(new)])

    def _rows(self, rows: Any) -> Any:
        """Rows of actions that come or go."""
        self.settings.check_roster()
        return as_rows("rows", rows, len(self.actions), self.settings.actions)

    @locked
    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        waited = list(self.ledger)
        count = super().forget(ids, before=before)
        wait = {entry.id for entry in self.ledger}
        for entry in waited:
            if entry.id not in wait:
                stage = self._stage_of(entry)
                stage.drop(self._law_of(entry), entry.heard)
        return count

    # What is seen.

    @property
    @locked
    def distribution(self) -> Floats:
        """Probability of every action in the next `ask()`.

        With "thompson" it is an estimate from a few hundred draws. A policy of your own is asked for its next proposal,
        which is kept for the next round.
        """
        if self.settings.has_contexts:
            raise NoDistribution(
                "`distribution` is for learners without contexts; with them there is `distribution_for(context)`"
            )
        return self._stages[0].outlook()

    @locked
    def distribution_for(self, context: Any) -> Floats:
        """Probability of every action in the next `ask(context=context)`."""
        if self.settings.contexts is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        return self._stage_for(context).outlook()

    @locked
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates; with contexts, for one of them."""
        return self._named(self._stage_for(context).recommend())

    @property
    @locked
    def diagnostics(self) -> InsuredDiagnostics | ContextDiagnostics:
        """What an operator needs to see; as text, a short report. With contexts, of each of them."""
        if self.settings.has_contexts:
            return diagnose_contexts(self)
        return diagnose_stage(self, self._stages[0])

    @locked
    def guarantee(
        self, *, rounds: int | None = None, printed: bool | None = None, realised: bool = False
    ) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            To be left out: the paper has no such bound.
        realised : bool, default False
            Of the rounds played so far: the estimated regret, one draw of what bounds the regret on average (theory R).
        """
        if not as_flag("realised", realised):
            return super().guarantee(rounds=rounds, printed=printed)
        for name, value in (("rounds", rounds), ("printed", printed)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must be left out where `realised` is True, got {value!r}"
                )
        return self._beside_random(realise_insured(self))

    def _proved(self, rounds: int) -> Guarantee:
        return prove_insured(self, rounds)
