"""What tests look at that users do not see: parts of learners and studies, each named in this one place.

A change of the layout of learners or studies is made here, and not in every test that looks at it.
"""

from __future__ import annotations

from typing import Any

from koloss.proxy.pivoted_cholesky import Factor

# All learners.


def coins(learner: Any, others: Any = None) -> Any:
    """The generator that a learner throws its coins with; others from now on, where they are given."""
    if others is not None:
        learner._rng = others
    return learner._rng


def lock(learner: Any) -> Any:
    """What a thread holds while it changes a learner."""
    return learner._lock


# Learners under bandit feedback.


def exp2(learner: Any) -> Any:
    """Algorithm 1 in play: its epoch, its law, its sums."""
    return learner._exp2


def estimated_sums(learner: Any) -> Any:
    """What each action has lost by the estimates, without bonuses and mix losses."""
    totals = learner._exp2._folded()
    return totals.lost - totals.slept + totals.bonus


# The insured learner.


def stages(learner: Any) -> Any:
    """What each context has for itself, in order."""
    return learner._stages


def stage(learner: Any, context: int = 0) -> Any:
    """Who plays in a context, by its row; without contexts there is one stage."""
    return stages(learner)[context]


def account(learner: Any) -> Any:
    """What the policy may have cost, by the estimates."""
    return stage(learner).account


def robust(learner: Any) -> Any:
    """Exponential weights behind the policy."""
    return stage(learner).robust


def latest_stage(learner: Any) -> Any:
    """The stage of the policy that played last."""
    return stage(learner).last


def first_exploration(learner: Any) -> Any:
    """The exploration that a game begins with."""
    return latest_stage(learner).first


def forecaster(learner: Any) -> Any:
    """The forecasts that the policy plays by."""
    return learner._forecaster


def pending(learner: Any) -> Any:
    """Proposals whose losses are outstanding."""
    return learner._pending


def roster(learner: Any) -> Any:
    """The actions that are on offer, and since when."""
    return stage(learner).roster


def chances(learner: Any) -> Any:
    """What a stopped policy needs to play again."""
    return stage(learner).chances


def units(learner: Any) -> Any:
    """The range that losses are measured in."""
    return learner._units


def take_over(learner: Any) -> None:
    """Stop the policy in play, as by evidence."""
    stage(learner).take_over("evidence", learner.ledger.made)


def growth(learner: Any) -> Any:
    """How a set of actions grows."""
    return learner._growth


def refit(forecaster: Any, *arguments: Any) -> None:
    """Fit a forecast anew, as it does now and then."""
    forecaster._refit(*arguments)


# Learners with full information.


def running_mean(learner: Any) -> Any:
    """The mean of the losses that were told."""
    return learner._mean


def columns(mean: Any) -> Any:
    """Columns of the Gram matrix that a mean has kept."""
    return mean._columns


# Studies and stores.


def database(store: Any, other: Any = None) -> Any:
    """The connection of an SQLite store; another one from now on, where it is given."""
    if other is not None:
        store._db = other
    return store._db


def answers(log: Any, statement: str) -> list[Any]:
    """What a statement gives in a transaction of a PostgreSQL store."""
    rows: list[Any] = log._execute(statement).fetchall()
    return rows


def reads(store: Any, statement: str) -> list[Any]:
    """What a statement gives outside of transactions."""
    rows: list[Any] = store._read(statement)
    return rows


def worker(study: Any) -> Any:
    """A process's part in a study."""
    return study._worker


def state_of(worker: Any) -> Any:
    """What a worker knows of the log."""
    return worker._state


def queue(worker: Any) -> Any:
    """Operations that wait to be carried out."""
    return worker._queue


# Proxies.


def given_up(greedy: Any) -> Any:
    """The greedy factorisation as of a kernel too rough for it: one pivot, and the rest left."""

    def early(column: Any, diagonal: Any, *, most: int) -> Any:
        rows, pivots, _, negative = greedy(column, diagonal, most=1)
        return Factor(rows, pivots, False, negative)

    return early


# Notebooks.


def html(shown: Any) -> str:
    """What a notebook shows."""
    text: str = shown._repr_html_()
    return text
