"""What an operator sees of an insured learner, and the buttons he has. The guarantee holds whatever he presses."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from koloss.core.arrays import as_flag
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.subsets import NONE_ADDED, Bools, Rows, as_rows
from koloss.learners.base import Recommendation, refuse_extras
from koloss.learners.insured.context_promise import prove_segments
from koloss.learners.insured.diagnostics import InsuredDiagnostics, diagnose_insured
from koloss.learners.insured.exploration import Floats, lowest
from koloss.learners.insured.per_context import ContextRound
from koloss.learners.insured.policies import BuiltIn, UserPolicy
from koloss.learners.insured.promise import prove_insured, realise_insured
from koloss.learners.insured.roster import explore
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.segment_diagnostics import SegmentDiagnostics, diagnose_segments
from koloss.learners.insured.state import InsuredState
from koloss.learners.insured.watched import Watched
from koloss.learners.ledger import Told
from koloss.learners.sharing import locked


class Operated(InsuredState):
    """An insured learner as its operator knows it."""

    # What the walk of the stages has for him.

    @abc.abstractmethod
    def _take_over(self, reason: str) -> None:
        """The robust learner plays in place of the policy."""

    @abc.abstractmethod
    def _re_arm(self, reason: str) -> None:
        """Let the policy play again."""

    # Who plays.

    @locked
    def hand_over(self, *, context: Any = None) -> None:
        """Stop the policy now; the robust learner plays on. The guarantee holds all the same.

        With contexts it is stopped in all of them, or in one where they are handed over one at a time.
        """
        if self._game is not None:
            self._game.hand_over(context, self.ledger.made)
            return
        if context is not None:
            refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Watched):
            self._take_over("operator")
            self._paused = True

    @locked
    def pause(self) -> None:
        """Let the robust learner play until `re_arm()`. The guarantee holds all the same."""
        if self._game is not None:
            self._game.hand_over(None, self.ledger.made)
            return
        if isinstance(self._stage, Watched):
            self._take_over("operator")
        self._paused = True

    @locked
    def re_arm(self, *, context: Any = None) -> None:
        """Let the policy that was stopped play again, within what is left of its budget.

        The guarantee holds all the same. Nothing happens while a policy plays, or where there is nothing to insure. With contexts
        it plays again in all of them, or in one, each with another budget, which the guarantee counts.
        """
        if self._game is not None:
            self._game.re_arm(context, self.ledger.made)
            return
        if context is not None:
            refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Exp2) and not self._is_short:
            self._re_arm("operator")

    def _no_context(self, context: Any, count: int | None = None) -> Any:
        """What is left of a context where there is none, or one that has to be named."""
        contexts = self.settings.contexts
        if contexts is None:
            return context
        if count is None:
            contexts.find(context)
        else:
            contexts.find_all(context, count)
        return None

    # Actions that come and go.

    @property
    @locked
    def available(self) -> Bools:
        """Which actions are offered now."""
        if self._game is not None:
            return np.ones(len(self.actions), dtype=bool)
        return self._roster.offered.copy()

    @locked
    def withdraw(self, rows: Any) -> None:
        """Offer some actions no more, by their rows, or the params of a `Space`. Losses of decisions for them that are still open are used as always.

        The guarantee against the other actions holds all the same, and against these up to now, if when they are withdrawn does
        not depend on actions or losses not yet heard of.
        """
        self.settings.check_roster()
        gone = as_rows("rows", rows, len(self.engine.points), self.settings.actions)
        if len(gone):
            self._offer(self._roster.without(gone), NONE_ADDED)

    @locked
    def add(self, rows: Any) -> None:
        """Offer actions that were absent or have been withdrawn, by their rows, or the params of a `Space`.

        The guarantee against them counts from now on. One that was withdrawn before begins anew, and is one more to be compared
        with.
        """
        self.settings.check_roster()
        new = as_rows("rows", rows, len(self.engine.points), self.settings.actions)
        if len(new):
            self._offer(self._roster.including(new), new)

    def _offer(self, offered: Bools, added: Rows) -> None:
        """Other actions are offered from now on."""
        roster, stage, exp2 = self._roster, self._last, self._robust.exp2
        era = roster.changes + 1
        first = explore(self.engine, offered, stage.designs + 1, era)
        if isinstance(self._policy, UserPolicy):
            self._policy.offer(offered)
        # Nothing can fail from here on.
        roster.offer(offered)
        self._account.offer(offered, added, era)
        self._first = first
        stage.offer(first)
        self._chances.chosen.clear()
        if exp2 is not None and len(added):
            exp2.add(added)

    @locked
    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        waited = list(self.ledger)
        count = super().forget(ids, before=before)
        wait = {entry.id for entry in self.ledger}
        pending = self._pending if self._game is None else self._game.play.pending
        for entry in waited:
            if entry.id not in wait:
                law = entry.law
                choice = law.choice if isinstance(law, (Round, ContextRound)) else None
                pending.drop(choice, entry.heard)
        return count

    # What he sees.

    @property
    def _may_return(self) -> bool:
        """Whether the last policy may play again on evidence."""
        built_in = isinstance(self._last.policy, BuiltIn) and not self._units.learned
        return built_in and isinstance(self._stage, Exp2) and not (self._is_short or self._paused)

    @locked
    def distribution_for(self, context: Any) -> Floats:
        """Probability of every action in the next `ask(context=context)`."""
        if self._game is not None:
            return self._game.play.outlook(self._game.contexts.find(context))
        if self.settings.contexts is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        self._no_context(context)
        return self.distribution

    @locked
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates; with contexts, for one of them."""
        if self._game is not None:
            return self._named(self._game.recommend(context))
        refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Exp2):
            return self._named(self._stage.recommend(self._roster.among(None)))
        index = lowest(self._forecaster.mean, self._account.offered)
        loss = float(self._forecaster.mean[index]) * self._units.width + self._units.center
        best = self.engine.points[index]
        return self._named(Recommendation(index, best, self.engine.sign * loss, "estimated"))

    @property
    @locked
    def diagnostics(self) -> InsuredDiagnostics | SegmentDiagnostics:
        """What an operator needs to see; as text, a short report. With contexts, of each of them."""
        if self._game is not None:
            return diagnose_segments(self)
        return diagnose_insured(self)

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
        if self._game is not None:
            return prove_segments(self, rounds)
        return prove_insured(self, rounds)
