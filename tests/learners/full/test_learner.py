"""What the three learners with full information share: how losses are read, forgotten and looked ahead to."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest

import koloss as kl
from koloss.learners.settings import Settings
from tests.support.streams import quadratic_of

KINDS = [kl.ExpWeights, kl.ConditionalGradient, kl.FollowTheRegularizedLeader]
POINTS, DISC = kl.Points(np.random.default_rng(5).random((12, 2))), kl.Ball(2)


def losses(count, seed=0):
    rng = np.random.default_rng(seed)
    return [quadratic_of(rng.normal(size=5) / 9, 2) for _ in range(count)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture(params=[POINTS, DISC], ids=["points", "disc"])
def actions(request):
    return request.param


def test_settings_are_the_parameters_of_the_constructor(kind):
    """Default for default, beside the generator."""
    parameters = dict(inspect.signature(kind).parameters)
    assert parameters.pop("rng").default is None
    said = {field.name: field for field in fields(kind.settings_type)}
    assert issubclass(kind.settings_type, Settings)
    assert set(parameters) == set(said)
    for name, parameter in parameters.items():
        known = parameter.default is not inspect.Parameter.empty
        assert not known or said[name].default == parameter.default
        keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert keyword_only == (name not in ("actions", "kernel"))


def test_the_kernel_by_position_or_by_name(kind):
    one = kind(DISC, kl.Quadratic(), horizon=9, rng=3)
    two = kind(DISC, kernel=kl.Quadratic(), horizon=9, rng=3)
    np.testing.assert_array_equal(one.ask(5).action, two.ask(5).action)
    assert repr(one) == repr(two)
    assert repr(one).endswith("(Ball(dimension=2, radius=1.0), Quadratic(), horizon=9)")
    assert one.feedback == "full"
    assert one.rank is one.epsilon is None


def test_members_of_a_batch_can_be_told_one_by_one(kind, actions):
    together, apart = (kind(actions, kl.Quadratic(), horizon=40, rng=1) for _ in range(2))
    for t in range(3):
        told = losses(4, seed=t)
        together.tell(together.ask(4), told)
        for decision, loss in zip(apart.ask(4), told, strict=True):
            apart.tell(*(([decision], [loss]) if t else (decision, loss)))
    np.testing.assert_array_equal(together.ask(20).action, apart.ask(20).action)
    assert together.guarantee().terms == apart.guarantee().terms


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


def test_forgotten_decisions_count_as_unheard(kind, actions):
    learner = kind(actions, kl.Quadratic(), horizon=40, rng=1)
    first, batch = learner.ask(), learner.ask(5)
    assert learner.forget(batch) == 5
    assert learner.diagnostics.outstanding == 1
    assert learner.guarantee().terms["unheard"] == pytest.approx(6 * learner.game.width)
    with pytest.raises(kl.errors.UnknownDecision, match="told already or forgotten"):
        learner.tell(batch[0], losses(1)[0])
    learner.tell(first, losses(1)[0])
    assert learner.guarantee().terms["unheard"] == pytest.approx(5 * learner.game.width)


@pytest.mark.parametrize("family", ["quadratic", "gaussian"])
def test_a_look_ahead_changes_nothing(kind, actions, family):
    if family == "gaussian" and kind is kl.FollowTheRegularizedLeader and actions is DISC:
        pytest.skip("no projection there")
    kernel = kl.Quadratic() if family == "quadratic" else kl.Gaussian(0.5)
    told = losses(4) if family == "quadratic" else [kl.KernelLoss(kernel, [[0.1, 0.2]], [0.5])] * 4
    one, two = (kind(actions, kernel, horizon=20, rng=1) for _ in range(2))
    for loss in told:
        X, weights = one.peek(np.random.default_rng(0), 16)
        assert len(X) == len(weights)
        assert weights.sum() == pytest.approx(1)
        assert np.all(actions.contains(X))
        one.tell(one.ask(), loss)
        two.tell(two.ask(), loss)
    one.peek(np.random.default_rng(0))
    np.testing.assert_array_equal(one.ask(9).action, two.ask(9).action)


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


class Own:
    """A kernel of the user's own, which no snapshot can hold."""

    def __call__(self, X, Y=None):
        return X @ (X if Y is None else Y).T

    def diag(self, X):
        return np.sum(X * X, axis=1)


def test_a_kernel_of_ones_own_goes_on_after_a_snapshot():
    learner = kl.ExpWeights(POINTS, Own(), horizon=30, rng=0)
    for loss in losses(5):
        learner.tell(learner.ask(), loss)
    again = kl.ExpWeights.from_state(learner.state())
    np.testing.assert_array_equal(again.distribution, learner.distribution)
    np.testing.assert_array_equal(again.ask(9).index, learner.ask(9).index)
    assert again.guarantee().terms == learner.guarantee().terms


def test_a_prior_is_part_of_a_snapshot():
    prior = kl.QuadraticLoss(np.diag([3.0, 0.0]), [1.0, 0.0])
    learner = kl.ExpWeights(DISC, kl.Quadratic(), horizon=30, prior=prior, rng=0)
    again = kl.ExpWeights.from_state(learner.state())
    assert again.settings.prior == prior
    X = DISC.sample(6, 0)
    np.testing.assert_array_equal(again.log_density(X), learner.log_density(X))


def test_diagnostics_are_a_short_report(kind, actions):
    learner = kind(actions, kl.Quadratic(), horizon=9, rng=0)
    late, now = learner.ask(), learner.ask()
    learner.tell(now, losses(1)[0])
    learner.tell(late, losses(1)[0])
    learner.ask()
    report = str(learner.diagnostics).splitlines()
    assert report[0] == "3 decisions, 2 losses heard (1 late), 1 outstanding"
    assert report[1].startswith("learning rate ")
    assert len(report) == 2
