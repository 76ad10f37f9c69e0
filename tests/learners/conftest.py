"""Every learner in turn, for the tests of the contract; and a rule that can be switched off."""

from __future__ import annotations

import pytest

from koloss.learners.insured.evidence import Bets
from tests.support.cases import LEARNERS, WITH_CONTEXTS, discovered


@pytest.fixture(params=LEARNERS)
def case(request):
    return LEARNERS[request.param]


@pytest.fixture(params=LEARNERS | WITH_CONTEXTS)
def any_case(request):
    """Those with contexts as well."""
    return (LEARNERS | WITH_CONTEXTS)[request.param]


@pytest.fixture(params=discovered(), ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture
def patient(monkeypatch):
    """Evidence stops no policy; the budget does."""
    monkeypatch.setattr(Bets, "evidence", 0.0)
