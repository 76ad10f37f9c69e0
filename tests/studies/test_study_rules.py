"""Leases, defaults and windows against a second reading of the rules: a learner that is fed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import koloss as kl
from koloss.errors import AlreadyTold
from tests.support.studies import bandit, created

LEASE = 10


@dataclass
class ByHand:
    """What the documentation says, with a list of all decisions that is looked through every time."""

    default: float | None
    window: bool
    learner: Any = field(default_factory=bandit)
    now: int = 0
    asked: list[int] = field(default_factory=list)  # when
    told: dict[int, float] = field(default_factory=dict)  # by users
    heard: set[int] = field(default_factory=set)  # by the learner
    over: set[int] = field(default_factory=set)  # whose lease has run out

    def hear(self, pairs: list[tuple[int, float]]) -> None:
        if pairs:
            ids, values = zip(*pairs, strict=True)
            self.learner.tell(list(ids), list(values))
            self.heard.update(ids)

    def expire(self) -> None:
        due = [
            i for i, at in enumerate(self.asked) if at + LEASE <= self.now and i not in self.over
        ]
        if self.window:
            values = {i: self.told.get(i, self.default) for i in due}
            self.over.update(due)
            self.hear([(i, value) for i, value in values.items() if value is not None])
            return
        silent = [i for i in due if i not in self.told]
        self.over.update(due)
        if self.default is not None:
            self.hear([(i, self.default) for i in silent])

    def ask(self, count: int) -> list[int]:
        self.expire()
        made = self.learner.ask(count)
        self.asked += [self.now] * count
        return [*made.index.tolist(), *made.probability.tolist()]

    def tell(self, i: int, value: float) -> str:
        self.expire()
        if i in self.told:
            return "refused"
        self.told[i] = value
        if i in self.heard:
            return "unused"
        if not self.window or i in self.over:
            self.hear([(i, value)])
        return "used"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(1, 7)),
    ),
    min_size=10,
    max_size=40,
)


@pytest.mark.slow
@pytest.mark.parametrize("default", [None, 0.75])
@pytest.mark.parametrize("window", [False, True])
@settings(max_examples=25)
@given(script=steps)
def test_a_study_keeps_its_rules(script: list[Any], default: float | None, window: bool) -> None:
    study, store, clock = created(
        lease=float(LEASE), default=default, release="window" if window else None
    )
    studies = [study, kl.Study.open(store, "prices", clock=clock)]
    hand, begun = ByHand(default, window), clock.now
    for k, (verb, number) in enumerate(script):
        one = studies[k % 2]
        if verb == "wait":
            hand.now += number
            clock.now = begun + hand.now
        elif verb == "ask":
            made = one.ask(number)
            assert [*made.index.tolist(), *made.probability.tolist()] == hand.ask(number)
        elif number < len(hand.asked):
            value = (number % 7) / 7
            fate = hand.tell(number, value)
            if fate == "refused":
                with pytest.raises(AlreadyTold):
                    one.tell(number, value)
            else:
                one.tell(number, value)
                assert list(study.events())[-1].data.get("used", True) == (fate == "used")
    assert np.array_equal(study.learner.distribution, hand.learner.distribution)
    assert study.learner.ledger.heard == len(hand.heard)
    assert kl.studies.verify(store, "prices").ok
