"""Decisions that were recorded, in a learner that would have drawn others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.core.snapshot import state_from_bytes, state_to_bytes
from tests.support.recorded import LEARNERS, allowed_of, bandit, context_of


def loss_of(action: Any) -> float:
    return float(np.clip(np.sum((np.asarray(action) - 0.4) ** 2), 0, 1))


def keys_of(learner: Any, made: Any) -> list[Any]:
    ids = np.atleast_1d(made.id).tolist()
    return [learner.ledger.entry(i).key for i in ids]


def play(name: str, first: Any, second: Any, rounds: int) -> int:
    """Both are told the same; `second` replays what `first` has drawn. How often it would have drawn another action."""
    differed, waiting = 0, []
    for k in range(rounds):
        count = 3 if k % 7 == 5 else None
        context = context_of(first, k)
        context = context if count is None or context is None else [context] * count
        said = {"context": context, "allowed": allowed_of(name, k)}
        made = first.ask(count, **said)
        drawn = second.replay(keys_of(first, made), count, **said)
        differed += not np.array_equal(made.action, drawn.action)
        waiting.append(made)
        if k % 3:  # the losses of every third are late
            tell(waiting.pop(0), first, second)
    for told in waiting:
        tell(told, first, second)
    return differed


def tell(made: Any, *learners: Any) -> None:
    losses = [loss_of(action) for action in np.atleast_2d(made.action)]
    for learner in learners:
        learner.tell(np.atleast_1d(made.id).tolist(), losses)


def without_coins(state: dict[str, Any]) -> bytes:
    return state_to_bytes({k: v for k, v in state["learner"].items() if k != "_rng"})


@pytest.mark.usefixtures("patient")  # whether a decision strayed is the coin's to say
@pytest.mark.parametrize("name", sorted(LEARNERS.keys() - {"insured, growing"}))
def test_what_was_recorded_takes_the_place_of_what_is_drawn(name: str) -> None:
    first, second = LEARNERS[name](), LEARNERS[name]()
    second.reseed(1)
    second.ledger.mark = first.ledger.mark
    assert play(name, first, second, 41) > 2  # other coins draw other actions
    for learner in (first, second):
        learner._drop_ahead()
    assert without_coins(first.state()) == without_coins(second.state())


@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_coins_draw_the_same(name: str) -> None:
    first = LEARNERS[name]()
    second = type(first).from_state(state_from_bytes(state_to_bytes(first.state())))
    assert play(name, first, second, 20) == 0
    assert state_to_bytes(first.state()) == state_to_bytes(second.state())


def test_a_replay_with_the_wrong_keys_is_seen_in_the_state() -> None:
    first, second = bandit(), bandit()
    second.ledger.mark = first.ledger.mark
    made = first.ask()
    second.replay([(made.index + 1) % 7])
    for learner in (first, second):
        learner.tell(made.id, 0.9)
    assert without_coins(first.state()) != without_coins(second.state())


def test_snapshots_as_bytes_are_those_of_files(tmp_path: Any) -> None:
    learner = bandit()
    learner.tell(learner.ask(5), np.linspace(0, 1, 5))
    state = learner.state()
    kl.save_state(tmp_path / "learner.npz", state)
    again = state_from_bytes(state_to_bytes(state))
    assert state_to_bytes(again) == state_to_bytes(kl.load_state(tmp_path / "learner.npz"))
    assert kl.BanditExpWeights.from_state(again).ask().index == learner.ask().index
    with pytest.raises(kl.errors.SnapshotError, match="content"):
        state_from_bytes(state_to_bytes(state)[:-10])
