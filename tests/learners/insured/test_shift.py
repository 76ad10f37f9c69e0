"""A world that changes in the middle of the game: bandwidths that nobody stated cost little of what is earned afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support.shift import Shop

SEEDS = range(5)


@pytest.mark.slow
def test_unknown_bandwidths_earn_as_much_after_a_shift_as_a_sensible_guess():
    shop = Shop()

    def earned(kernel):
        shares = [shop.play(shop.learner(kernel, seed), seed) for seed in SEEDS]
        return np.mean(shares, axis=0)

    unknown, guessed = earned("auto"), earned(kl.Gaussian(8))
    assert unknown[1] >= 0.95 * guessed[1]
    assert unknown[0] >= 0.95 * guessed[0]  # nor does it cost anything before
