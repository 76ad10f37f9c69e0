"""Any policy, insured: good in kind weather, safe in foul.

A policy of your choice plays. A small share of the rounds explores, by a design, so that the regret of the policy can be
estimated without bias whatever it does. While the estimate stays within a budget the policy goes on; at the first evidence that
it is being beaten, exponential weights take over for the rounds that remain. In the worst case the regret is at most

    (1 + trigger + premium) B(n),   B(n) = ρ √(c m n log N),

for every policy (Theorem I1 of the theory pages). A round:

1. the policy proposes an action, or a law over actions;
2. the share γ of exploration is the smallest one with which no outcome of the round takes the estimated regret beyond the budget;
   where that is more than a half, the policy is stopped;
3. with probability γ explore, otherwise play what was proposed;
4. predict, hear the loss, add the unbiased estimate of all losses.

Any rule may stop a policy early: the bound holds for every stopping time. The rule here bets on "exploration does better than
the policy", and stops at long odds.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any, Literal, Self

import numpy as np

from koloss._arrays import as_float, as_int
from koloss.actions import ActionSet
from koloss.designs import Design
from koloss.guarantees import Guarantee, bandit, insured
from koloss.kernels.base import KernelLike
from koloss.learners._former import (
    Decision,
    Decisions,
    as_losses,
    check_range,
    decision_ids,
    find_outstanding,
    generator_of,
    generator_state,
    new_mark,
    seal,
    unseal,
)
from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.bandit.records import Recommendation
from koloss.learners.bandit.setup import Adversary, Setup, prepare, probability_of
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.guarantee import guarantee, too_short
from koloss.learners.insured.policies import Own, Thompson, make_policy
from koloss.learners.insured.records import Alarm, InsuredDiagnostics, InsuredTally
from koloss.learners.insured.setup import (
    FORECASTS,
    Insurance,
    as_tuple,
    one_each,
    prior_root,
    restored_policies,
)
from koloss.learners.insured.watched import (
    REDESIGN,
    SUSPICION,
    Exploration,
    Round,
    Stage,
    largest,
    smallest,
)
from koloss.proxy import Proxy


class InsuredBandit:
    """A policy of your choice with the worst-case guarantee of a robust learner behind it, under bandit feedback.

    Parameters
    ----------
    actions : ActionSet
        Finite, or compact: then a net is played.
    kernel : Kernel
        Or any object with `k(X, Y)` and `k.diag(X)`.
    horizon : int or None
        Number n of rounds; None where it is not known.
    loss_range : (float, float)
        One interval that holds all losses of all rounds.
    policy : str, object, or a sequence of these
        "ucb", "thompson", "optimistic" (exponential weights that follow a prediction), or an object of your own that
        has `propose()` and `hear(index, loss)`; see `Policy`. Several are played one after the other, each until it is stopped.
    trigger, premium : float, or one for each policy
        Together the budget of estimated regret, in units of the robust learner's bound B. More of it means less
        exploration and a larger bound.
    width : float
        Deviations that "ucb" subtracts, and that "thompson" scales by.
    shield : bool
        Whether exploration is as small as the present estimates allow. Otherwise its share is fixed by the premium, and the
        policy is stopped when its estimated regret exceeds the trigger.
    early : bool
        Whether evidence that exploration does better than the policy stops it (heuristic; the bound holds with it).
    loss_norm, proxy, rank, exploration, adversary, spacing
        As for `BanditExpWeights`.
    batch : int or "auto"
        Most rounds in an epoch of the robust learner; one without a horizon.
    delay : int
        Losses that may be outstanding; see `BanditExpWeights`.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> prices = kl.Points(np.linspace(0, 1, 40)[:, None])
    >>> learner = kl.InsuredBandit(prices, kl.Gaussian(0.3), horizon=3000, loss_range=(0, 1), rng=0)
    >>> paid = 0.0
    >>> for _ in range(3000):
    ...     decision = learner.ask()
    ...     loss = float((decision.action[0] - 0.6) ** 2)
    ...     learner.tell(decision, loss)
    ...     paid += loss
    >>> bool(paid < 30), learner.recommend().action.round(1).tolist(), learner.diagnostics.alarms
    (True, [0.6], ())
    """

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike,
        *,
        horizon: int | None,
        loss_range: tuple[float, float],
        policy: Any = "ucb",
        trigger: Any = 0.5,
        premium: Any = 0.75,
        width: float = 0.3,
        shield: bool = True,
        early: bool = True,
        loss_norm: float | None = None,
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        exploration: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        adversary: Adversary = "rank-one",
        delay: int = 0,
        spacing: float | None = None,
        rng: Any = None,
    ) -> None:
        if loss_range is None:
            raise ValueError(
                "`loss_range` must be (low, high), an interval for all losses, got None"
            )
        for name, value in (("shield", shield), ("early", early)):
            if not isinstance(value, bool):
                raise TypeError(f"`{name}` must be True or False, got {value!r}")
        if horizon is None and not shield:
            raise ValueError("`shield` must be True without a horizon, got False")
        policies = list(policy) if isinstance(policy, (list, tuple)) else [policy]
        if not policies:
            raise ValueError("`policy` must have at least one policy, got none")
        triggers = one_each("trigger", trigger, len(policies))
        premiums = one_each("premium", premium, len(policies))
        setup = prepare(
            actions,
            kernel,
            horizon=horizon,
            loss_bound=None,
            loss_range=loss_range,
            loss_norm=loss_norm,
            tuning="sharp",
            proxy=proxy,
            rank=rank,
            exploration=exploration,
            batch=1 if horizon is None and batch == "auto" else batch,
            covariance="exact",
            sample_error=0.1,
            bonus=False,
            prior=None,
            adversary=adversary,
            delay=delay,
            learning_rate=None,
            exploration_rate=None,
            spacing=spacing,
        )
        width = as_float("width", width, minimum=0.0)
        made = [make_policy(p, width, len(setup.points)) for p in policies]
        terms = Insurance(
            policies=tuple(p.name for p in made),
            triggers=triggers,
            premiums=premiums,
            width=width,
            shield=shield,
            early=early,
        )
        discounts, ridges = zip(*FORECASTS, strict=True)
        features = np.asfortranarray(setup.features @ prior_root(kernel, setup))
        forecaster = Forecaster(features, discounts=discounts, ridge=ridges)
        self._start(setup, terms, made, forecaster, np.random.default_rng(rng), new_mark())
        if self._too_short:
            self._hand_over("short")

    def _start(
        self,
        setup: Setup,
        terms: Insurance,
        policies: list[Any],
        forecaster: Forecaster,
        rng: np.random.Generator,
        mark: str,
    ) -> None:
        self.setup, self.insurance, self._policies = setup, terms, policies
        self._forecaster, self._rng, self._mark = forecaster, rng, mark
        self._width = setup.high - setup.low
        self._first = Exploration(1, setup.features, setup.design)
        self._shares, self._unit = terms.shares, insured.scale(setup.problem, 1)
        least = min(terms.shares if terms.shield else terms.premiums)
        self._too_short = too_short(setup.problem, setup.horizon, least)
        self._warm_up = 0 if setup.horizon else insured.warm_up(setup.problem, least)
        self._tally = InsuredTally()
        self._alarms: list[Alarm] = []
        # id: index, whether it was explored, its round, its stage
        self._outstanding: dict[int, tuple[int, bool, Round, int]] = {}
        self._number = 0  # of the stage
        self._robust: BanditExpWeights | None = None
        self._offset = 0  # decisions made before the robust learner's first
        self._stage = self._new_stage()

    def _new_stage(self, designs: int = 1) -> Stage:
        terms, problem = self.insurance, self.setup.problem
        trigger, premium = terms.triggers[self._number], terms.premiums[self._number]
        size = self._size()
        return Stage(
            base=self.setup.features,
            first=self._first,
            cap=insured.largest_leverage(problem, self._budget(), self.setup.horizon),
            shield=terms.shield,
            trigger=trigger * size,
            fixed=problem.leverage / max(premium * size - 1, 1e-300),
            designs=designs,
        )

    def _budget(self, ahead: int = 1) -> float:
        """Estimated regret that the stage may reach, `ahead` rounds from now, in units of the range."""
        return self._shares[self._number] * self._size(ahead)

    def _size(self, ahead: int = 1) -> float:
        """B of all rounds, or of those up to the next one where there is no horizon."""
        n = self.setup.horizon or max(self._tally.made + ahead, self._warm_up + 1)
        return self._unit * math.sqrt(n)

    # A round.

    @property
    def actions(self) -> Any:
        """The actions in play, an array of shape (N, d)."""
        return self.setup.points

    def ask(self, count: int | None = None) -> Any:
        """Draw an action, or `count` of them from one law.

        Parameters
        ----------
        count : int, optional

        Returns
        -------
        Decision, or Decisions where there is a count

        Raises
        ------
        PolicyError
            Where a policy of yours fails. No decision has been made then, and `hand_over()` does without it.
        """
        size = 1 if count is None else as_int("count", count, minimum=1)
        played = self._next_round(size)
        if played is None:
            return self._ask_robust(count)
        first, book = self._tally.made, self._outstanding
        self._tally.made += size
        if count is None:
            index, explored = self._draw(played, self._rng.random())
            book[first] = (index, explored, played, self._number)
            p = self._probability(played, index)
            return Decision(first, self.setup.points[index], index, p, self._number, self._mark)
        drawn = [self._draw(played, coin) for coin in self._rng.random(size).tolist()]
        for i, (index, explored) in enumerate(drawn, start=first):
            book[i] = (index, explored, played, self._number)
        rows = np.array([index for index, _ in drawn])
        return Decisions(
            np.arange(first, first + size),
            self.setup.points[rows],
            rows,
            played.distribution()[rows],
            np.full(size, self._number),
            self._mark,
        )

    def _next_round(self, size: int) -> Round | None:
        """The law of the next action; None where the robust learner plays. Stops a policy that has used its budget."""
        while self._robust is None:
            policy, stage = self._policies[self._number], self._stage
            proposal = policy.propose(self._forecaster, stage, self._rng)
            played = self._prepare(proposal, size)
            if played is not None:
                return played
            self._alarm("budget")
        return None

    def _prepare(self, proposal: Any, count: int = 1, *, look: bool = False) -> Round | None:
        """The round of a proposal, for so many actions: how much to explore, what to predict.

        With `look` nothing of the stage changes.
        """
        prediction = self._forecaster.mean
        size = max(largest(prediction), -smallest(prediction))
        if size > 0.5:
            prediction = prediction * (0.5 / size)
        if self._tally.made + count <= self._warm_up:
            return self._stage.trial(proposal, prediction)
        crowded = None
        if self._outstanding or count > 1:
            crowded = self.insurance.premiums[self._number] * self._size()
        return self._stage.draw_round(proposal, prediction, self._budget(), crowded, look=look)

    def _draw(self, played: Round, coin: float) -> tuple[int, bool]:
        """One coin decides whether to explore, and what."""
        g = played.rate
        if coin < g:
            return int(played.exploration.draw(coin / g)), True
        if played.choice is not None:
            return played.choice, False
        cdf = np.cumsum(played.law)
        return int(cdf.searchsorted((coin - g) / (1 - g) * cdf[-1], side="right")), False

    def _probability(self, played: Round, index: int) -> float:
        p: float = played.rate * played.exploration.weights.item(index)
        if played.choice is None:
            return p + (1 - played.rate) * float(played.law[index])
        return p + (1 - played.rate) * (index == played.choice)

    def tell(self, decision: Any, loss: Any) -> None:
        """Hear the loss of a decision, or the losses of several, in any order and at any time.

        Parameters
        ----------
        decision : Decision, Decisions, id, or a sequence of these
        loss : float or array
            Smaller is better.

        Raises
        ------
        UnknownDecision
            Told already, never made, or made by another learner.
        LossOutOfBounds
            Outside the interval that was promised.
        PolicyError
            Where a policy of yours fails to hear it. That loss, and those after it, have not been told then.
        """
        ids = decision_ids(decision, self._mark)
        losses = as_losses(loss, len(ids))
        late = ids if self._robust is None else [i for i in ids if i < self._offset]
        entries = find_outstanding(self._outstanding, late, self._tally.made)
        check_range(losses, self.setup.low, self.setup.high)
        if len(late) < len(ids):
            assert self._robust is not None
            rest = [k for k, i in enumerate(ids) if i >= self._offset]
            inner = [ids[k] - self._offset for k in rest]
            self._tell_robust(inner, losses if len(rest) == len(ids) else losses[rest])
            losses = [losses[k] for k, i in enumerate(ids) if i < self._offset]
        for k, (i, entry) in enumerate(zip(late, entries, strict=True)):
            self._hear(i, entry, float(losses[k]))
            crowd = len(self._outstanding)
            self._tally.crowd = max(self._tally.crowd, crowd)

    def _hear(self, i: int, entry: tuple[int, bool, Round, int], loss: float) -> None:
        """One loss: the estimate, the forecast, the policy; then whether the policy goes on."""
        index, explored, played, number = entry
        policy = None if self._robust is not None else self._policies[self._number]
        if isinstance(policy, Own):
            policy.hear(index, loss)
        # Nothing can go wrong from here on.
        del self._outstanding[i]
        tally, stage = self._tally, self._stage
        tally.heard += 1
        y = (loss - self.setup.center) / self._width
        if self._robust is not None:
            tally.dropped += 1
            return
        self._forecaster.update(index, y)
        if number != self._number:
            tally.dropped += 1
            return
        if played.heard != stage.heard:
            tally.late += 1
            if not stage.fits(played, self._budget(ahead=0)):
                tally.dropped += 1
                self._alarm("late loss")
                return
        stage.hear(played, index, y, explored)
        if self.insurance.early and explored and stage.watch.evidence > 1:
            self._alarm("evidence")
        elif stage.is_over():
            self._alarm("budget")
        elif stage.heard % REDESIGN == 0:
            stage.redesign(self._budget())

    # Handing over.

    def hand_over(self) -> None:
        """Stop the policy in play now; the next one, or the robust learner, plays on. The guarantee holds all the same."""
        if self._robust is None:
            self._alarm("operator")

    def _alarm(self, reason: str) -> None:
        """Stop the policy in play; what is outstanding will not be heard of."""
        crowd = len(self._outstanding) + (reason == "late loss")
        self._tally.crowd = max(self._tally.crowd, crowd)
        if self._number + 1 == len(self._policies):
            self._hand_over(reason)
            return
        self._record(reason, self.insurance.policies[self._number + 1])
        self._number += 1
        self._stage = self._new_stage(self._stage.designs)

    def _hand_over(self, reason: str) -> None:
        """The robust learner plays from here on, from scratch, tuned to the rounds that remain."""
        self._record(reason, "robust")
        setup, self._offset = self.setup, self._tally.made
        if setup.horizon is not None:
            remaining = max(setup.horizon - self._offset, 1)
            problem = replace(setup.problem, rounds=remaining)
            setup = replace(setup, problem=problem, horizon=remaining, rates=bandit.tune(problem))
        self._robust = BanditExpWeights.__new__(BanditExpWeights)
        self._robust._start(setup, self._rng, self._mark)

    def _record(self, reason: str, successor: str) -> None:
        found = self._stage.estimated_regret * self._width
        self._alarms.append(
            Alarm(
                self._tally.made,
                self.insurance.policies[self._number],
                reason,
                found,
                successor,
            )
        )

    def _ask_robust(self, count: int | None) -> Any:
        assert self._robust is not None
        found = self._robust.ask(count)
        self._tally.made += 1 if count is None else len(found)
        return replace(found, id=found.id + self._offset)

    def _tell_robust(self, inner: list[int], losses: Any) -> None:
        assert self._robust is not None
        known = self._robust._outstanding
        for i in inner:
            if i not in known:
                find_outstanding({}, [i + self._offset], self._tally.made)  # which raises
        self._robust.tell(inner, losses)
        self._tally.heard += len(inner)

    # What it knows.

    @property
    def distribution(self) -> Any:
        """Probability of every action in the next `ask()`.

        With "thompson" an estimate from a few hundred draws. A policy of your own is asked for its next proposal, which
        it then plays.
        """
        if self._robust is not None:
            return self._robust.distribution
        policy, stage = self._policies[self._number], self._stage
        law = policy.law(self._forecaster, stage)
        if isinstance(policy, Thompson):
            played = self._prepare(int(law.argmax()), look=True)
            if played is not None:
                return played.rate * played.exploration.weights + (1 - played.rate) * law
        else:
            played = self._prepare(law, look=True)
            if played is not None:
                return played.distribution()
        other = self._copy()  # the policy will be stopped: what would its successor do?
        other._alarm("budget")
        return other.distribution

    def probability(self, actions: Any) -> Any:
        """Probability of some actions in the next `ask()`: rows of coordinates, or indices."""
        return probability_of(self.setup.points, self.distribution, actions)

    def recommend(self) -> Recommendation:
        """The best action so far by the estimates."""
        if self._robust is not None:
            return self._robust.recommend()
        index = int(self._forecaster.mean.argmin())
        found = self._in_units(float(self._forecaster.mean[index]))
        return Recommendation(index, self.setup.points[index], found)

    def _in_units(self, y: Any) -> Any:
        return y * self._width + self.setup.center

    def guarantee(self, *, rounds: int | None = None) -> Guarantee:
        """The regret bound, term by term, for every policy.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        """
        return guarantee(self, None if rounds is None else as_int("rounds", rounds, minimum=1))

    @property
    def diagnostics(self) -> InsuredDiagnostics:
        """What an operator needs to see; as text it reads like a short report."""
        stage, tally, robust = self._stage, self._tally, self._robust
        watch, rho = stage.watch, self._width
        playing = self.insurance.policies[self._number] if robust is None else "robust"
        own = stage.heard - stage.explored
        mean = (stage.paid - stage.explored_paid) / own if own else math.nan
        estimate = band = budget = None
        if robust is None:
            estimate, budget = stage.estimated_regret * rho, self._budget() * rho
            spread = 2 * rho * math.sqrt(float(stage.variance[int(stage.total.argmin())]))
            band = (estimate - spread, estimate + spread)
        trusted = self._forecaster.trusted
        return InsuredDiagnostics(
            playing=playing,
            rounds=tally.made,
            heard=tally.heard,
            outstanding=len(self._outstanding) + (len(robust._outstanding) if robust else 0),
            estimated_regret=estimate,
            band=band,
            budget=budget,
            distance=None if budget is None or estimate is None else budget - estimate,
            exploration=self._exploration_now(),
            explored=stage.explored,
            premium=(stage.explored_paid - stage.explored * mean) * rho if own else 0.0,
            dropped=tally.dropped,
            suspicious=robust is None and watch.suspicious,
            evidence=watch.evidence,
            trusted=(
                float(self._forecaster.discounts[trusted]),
                float(self._forecaster.ridge[trusted]),
            ),
            alarms=tuple(self._alarms),
            estimated_losses=self._in_units(self._forecaster.mean),
            robust=None if robust is None else robust.diagnostics,
        )

    def _exploration_now(self) -> float:
        """Share of exploration if the best action by the forecast were proposed."""
        if self._robust is not None:
            return float(self._robust.diagnostics.exploration)
        if self._tally.made < self._warm_up:
            return SUSPICION
        needed = self._stage.rate_needed(int(self._forecaster.mean.argmin()), self._budget())
        if self.insurance.shield and self._stage.watch.suspicious:
            needed = max(needed, SUSPICION)
        return min(needed, 1.0)

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: arrays, numbers and strings, with the generator's state.

        Of a policy of your own it has what the policy's `state()` gives, where it has one.
        """
        rounds: dict[int, Round] = {id(e[2]): e[2] for e in self._outstanding.values()}
        order = {key: k for k, key in enumerate(rounds)}
        book = [
            (i, index, explored, order[id(played)], number)
            for i, (index, explored, played, number) in self._outstanding.items()
        ]
        places = {r.exploration.number: r.exploration for r in rounds.values()}
        places[self._stage.exploration.number] = self._stage.exploration
        return seal(
            "InsuredBandit",
            {
                "setup": self.setup.to_dict(),
                "insurance": asdict(self.insurance),
                "mark": self._mark,
                "rng": generator_state(self._rng),
                "tally": asdict(self._tally),
                "forecaster": self._forecaster.state(),
                "root_features": self._forecaster.features,
                "policies": [p.state() if isinstance(p, Own) else None for p in self._policies],
                "alarms": [asdict(alarm) for alarm in self._alarms],
                "number": self._number,
                "offset": self._offset,
                "stage": self._stage.to_dict(),
                "explorations": [p.to_dict() for n, p in places.items() if n > 1],
                "rounds": [r.to_dict() for r in rounds.values()],
                "outstanding": np.asarray(book, dtype=np.int64).reshape(-1, 5),
                "robust": None if self._robust is None else self._robust.state(),
            },
        )

    @classmethod
    def from_state(cls, state: Any, *, policy: Any = None) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Parameters
        ----------
        state : mapping
        policy : object, or a sequence of policies
            Where a policy is your own: the object that takes its place. If it has `restore(state)`, that is called with
            what its `state()` gave.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or from a newer version.
        """
        data = unseal("InsuredBandit", state)
        setup = Setup.from_dict(data["setup"])
        terms = Insurance(**{k: as_tuple(v) for k, v in data["insurance"].items()})
        features = np.array(data["root_features"], order="F")
        learner = cls.__new__(cls)
        learner._start(
            setup,
            terms,
            restored_policies(terms, policy, data["policies"], len(setup.points)),
            Forecaster.from_state(features, data["forecaster"]),
            generator_of(data["rng"]),
            data["mark"],
        )
        learner._tally = InsuredTally(**data["tally"])
        learner._alarms = [Alarm(**alarm) for alarm in data["alarms"]]
        learner._number, learner._offset = data["number"], data["offset"]
        places = {1: learner._first}
        places |= {int(p["number"]): Exploration.from_dict(p) for p in data["explorations"]}
        learner._stage = learner._new_stage()
        learner._stage.load(data["stage"], places)
        rounds = [Round.from_dict(r, places) for r in data["rounds"]]
        learner._outstanding = {
            i: (index, bool(explored), rounds[k], number)
            for i, index, explored, k, number in np.asarray(data["outstanding"]).tolist()
        }
        if data["robust"] is not None:
            learner._robust = BanditExpWeights.from_state(data["robust"])
            learner._robust._rng = learner._rng  # they share one
        return learner

    def _copy(self) -> Self:
        """A copy that shares the policies."""
        other = type(self).from_state(self.state(), policy=[None] * len(self._policies))
        other._policies = self._policies
        return other
