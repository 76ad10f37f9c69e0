"""Several study objects on one file, in any order of calls, faults and restarts, against one learner alone."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from tests.support.fuzz import PROFILE, SHARE
from tests.support.studies import bandit, insured
from tests.support.study_machine import SETTINGS, eager, folder, made, play

__all__ = ["eager", "folder"]  # fixtures

GAMES, SEED = (max(2, round(60 * SHARE)), secrets.randbits(32)) if PROFILE == "torture" else (4, 0)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("said", SETTINGS, ids=lambda said: ", ".join(said) or "plain")
@pytest.mark.parametrize("make", [bandit, insured])
def test_interleavings(make: Any, said: dict[str, Any], folder: Path) -> None:
    play(made(make), said, folder, examples=GAMES, seed=SEED + SETTINGS.index(said))
