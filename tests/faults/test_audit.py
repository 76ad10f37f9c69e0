"""What is printed holds in many settings: an audit of minutes, where `make test` plays a few dozen."""

from __future__ import annotations

import os

import pytest

from tests.support import audit
from tests.support.statistics import LEVEL, seed


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_regret_is_above_what_is_printed_in_many_settings(part):
    """KOLOSS_AUDIT: how many settings, in all parts; each takes some seconds."""
    cases = int(os.environ.get("KOLOSS_AUDIT", "120")) // 4
    verdicts = list(
        audit.audit(cases, seed=seed(11) + part, seeds=12, longest=1500, level=LEVEL / 4)
    )
    assert not [str(one) for one in verdicts if one.found]
    assert sum(one.valid and not one.trivial for one in verdicts) > 0.8 * len(verdicts)
