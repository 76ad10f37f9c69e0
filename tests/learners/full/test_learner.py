"""What the three learners with full information share: how losses are read, forgotten and looked ahead to."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support.streams import quadratic_of

POINTS, DISC = kl.Points(np.random.default_rng(5).random((12, 2))), kl.Ball(2)


def losses(count, seed=0):
    rng = np.random.default_rng(seed)
    return [quadratic_of(rng.normal(size=5) / 9, 2) for _ in range(count)]


def test_values_of_one_loss_and_a_sequence_with_one_loss():
    """On points an array is one loss; a row of a table, or a list with an array in it, is a sequence of one."""
    loss = losses(1)[0](POINTS.X)
    said = []
    for given in (loss, loss.tolist(), [loss], loss[None], (loss.tolist(),), iter([loss])):
        learner = kl.ExpWeights(POINTS, kl.Quadratic(), horizon=9, rng=0)
        learner.tell(learner.ask(), given)
        said.append(learner.distribution)
    for p in said[1:]:
        np.testing.assert_array_equal(p, said[0])
    assert np.ptp(said[0]) > 0
    alone = kl.ExpWeights(kl.Points([[0.5, 0.5]]), kl.Quadratic(), horizon=9, loss_range=(0, 1))
    alone.tell(alone.ask(), [0.5])  # the loss of the only point
    assert alone.recommend().loss == 0.5


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.array(0.5), "`loss` must be 1-D, got ndim=0"),
        (np.zeros((1, 3)), "`loss` must have length 12, got 3"),
        ([], "`loss` must have length 12, got 0"),
        ({"a": 1}, "`loss` must be an array of numbers"),
        (b"much", "`loss` must be an array of numbers"),
        (iter([0.0] * 11), "`loss` must have length 12, got 11"),
    ],
)
def test_what_is_no_loss_on_points(bad, message):
    learner = kl.ExpWeights(POINTS, kl.Quadratic(), horizon=9, rng=0)
    decision = learner.ask()
    with pytest.raises((TypeError, ValueError), match=message):
        learner.tell(decision, bad)
    learner.tell(decision, losses(1)[0])


def test_a_look_ahead_follows_the_density():
    """Fresh draws of the next action: those of a learner with another coin."""
    learner = kl.ExpWeights(DISC, kl.Quadratic(), horizon=50, learning_rate=3.0, rng=1)
    for _ in range(9):
        learner.tell(learner.ask(), losses(1)[0])
    again = kl.ExpWeights.from_state(learner.state())
    seen, _ = learner.peek(np.random.default_rng(7), 2000)
    drawn = again.ask(2000).action
    assert not np.array_equal(seen, drawn)
    np.testing.assert_allclose(seen.mean(axis=0), drawn.mean(axis=0), atol=0.06)
    assert np.linalg.norm(seen.mean(axis=0)) > 0.2  # of uniform draws it would be zero
