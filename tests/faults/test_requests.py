"""Requests with contexts to insured learners, of which a round takes seconds; tests/learners has those of all others."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.support.fuzz import Drawn, fuzzed
from tests.support.strategies_requests import SLOW, Requests


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")
@pytest.mark.parametrize("name", SLOW)
@fuzzed(few=2, cases=20)
@given(start=st.integers(0, 1), steps=st.integers(1, 11), data=st.data())
def test_requests(name, start, steps, data):
    assert Requests(name, start, Drawn(data)).play(steps) is None
