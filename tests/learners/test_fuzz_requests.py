"""Calls with contexts, among some of the actions and of sets that grow, in any order and form, against plain calls."""

from __future__ import annotations

from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.support.fuzz import Drawn, fuzzed
from tests.support.strategies_requests import (
    BAD_CONTEXTS,
    CASES,
    QUICK,
    Requests,
    bad_batches,
    bad_masks,
    bad_params,
)

pytestmark = pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")


@pytest.mark.parametrize("name", QUICK)
@fuzzed(few=3, cases=400)
@given(start=st.integers(0, 1), steps=st.integers(1, 11), data=st.data())
def test_requests(name, start, steps, data):
    assert Requests(name, start, Drawn(data)).play(steps) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_bad_request_is_refused_and_changes_nothing(name):
    rng = np.random.default_rng(0)
    game = Requests(name, 1, rng)
    learner = game.shaped
    if game.contexts is None:
        masks = bad_masks(len(learner.actions), game.available())
        if game.params() is not None:
            masks |= {f"params, {k}": v for k, v in bad_params(game.params()[0])}
        calls = {f"mask, {k}": partial(learner.ask, allowed=v) for k, v in masks.items()}
    else:
        good, _ = game.context()
        several = bad_batches([good] * 3).items()
        calls = {f"{k} as contexts": partial(learner.ask, 3, context=v) for k, v in several}
        calls |= {k: partial(learner.ask, context=v) for k, v in BAD_CONTEXTS.items()}
    wrong = {what: game.refused("ask", call) for what, call in calls.items()}
    assert {what: found for what, found in wrong.items() if found} == {}
