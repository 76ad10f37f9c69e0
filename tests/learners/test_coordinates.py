"""Coordinates in other units, or counted from elsewhere, are played alike where no norm is stated (theory B6); and what is printed holds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import koloss as kl
from koloss.errors import KolossWarning
from koloss.kernels.rescaled import Rescaled, closed_under, lacks_constant, rescaled
from koloss.learners.bandit.coordinates import without_units
from koloss.learners.bandit.doubts import _variation
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import is_exact, spans
from koloss.proxy.exact import largest_norm, span_of
from tests.support.fuzz import fuzzed

LEARNERS = {"bandit": kl.BanditExpWeights, "insured": kl.InsuredBandit}
BOTH = pytest.mark.parametrize("kind", LEARNERS)
ROUNDS = 100

rng = np.random.default_rng(7)
LINE, PLANE = rng.uniform(-1, 1, (11, 1)), rng.uniform(-1, 1, (14, 2))
POSITIVE = rng.uniform(0.2, 3.0, (12, 2))
GRID = np.array([(x, y) for x in np.linspace(-1, 1, 4) for y in np.linspace(0, 1, 4)])
"""On which many designs are equally good."""
TABLE = rng.random((ROUNDS, 128))
AFFINE = (kl.Linear(), kl.Quadratic(), kl.Polynomial(3, offset=0.5), kl.Linear() + kl.Polynomial(2))
LINEAR = (
    kl.Polynomial(2, offset=0),
    kl.Linear() * kl.Linear(),
    kl.Posynomial([[1, 0], [0.5, -1], [0, 2]]),
    kl.Posynomial([[1, 1], [2, 0]]) + kl.Linear(),
)


def played(learner, contexts=()):
    """Rows played, the laws in the end, and the bound, after losses that depend on the round and the row alone."""
    rows = []
    for t in range(ROUNDS):
        decision = learner.ask(**({"context": contexts[t % len(contexts)]} if contexts else {}))
        rows.append(decision.index)
        learner.tell(decision, float(TABLE[t, decision.index] + decision.index % 5) / 5)
    laws = [learner.distribution_for(c) for c in contexts] or [learner.distribution]
    return rows, np.array(laws), learner.guarantee().total


def agree(one, other):
    assert one[0] == other[0]
    np.testing.assert_allclose(one[1], other[1], rtol=0, atol=1e-6)
    assert one[2] == pytest.approx(other[2], rel=1e-6)


def start(kind, actions, kernel, **others):
    others = {"horizon": 3000, "loss_range": (0, 1), "rng": 1} | others
    return LEARNERS[kind](actions, kernel, **others)


units = st.tuples(
    st.floats(-6, 6).map(lambda e: 10.0**e), st.sampled_from([1.0, -1.0]), st.floats(-1e6, 1e6)
).map(lambda one: (one[0] * one[1], one[0] * one[2]))
"""a and b of a·x + b."""


def moved(X, maps):
    return np.column_stack([a * x + b for x, (a, b) in zip(X.T, maps, strict=False)])


# Nothing changes but rounding.


@BOTH
@fuzzed(few=12, cases=300)
@given(
    kernel=st.sampled_from(AFFINE),
    X=st.sampled_from([LINE, PLANE, GRID]),
    maps=st.tuples(units, units),
    policy=st.sampled_from(["ucb", "thompson"]),
)
def test_points_in_other_units(kind, kernel, X, maps, policy):
    how = {"policy": policy} if kind == "insured" else {}
    agree(
        played(start(kind, kl.Points(X), kernel, **how)),
        played(start(kind, kl.Points(moved(X, maps)), kernel, **how)),
    )


@BOTH
@fuzzed(few=8, cases=200)
@given(kernel=st.sampled_from(LINEAR), maps=st.tuples(units, units))
def test_points_with_a_zero_in_other_units(kind, kernel, maps):
    """The sign may change too, but where powers of coordinates are not whole."""
    whole = kernel in LINEAR[:2]
    scale = [a if whole else abs(a) for a, _ in maps]
    agree(
        played(start(kind, kl.Points(POSITIVE), kernel)),
        played(start(kind, kl.Points(POSITIVE * scale), kernel)),
    )


@fuzzed(few=8, cases=200)
@given(kernel=st.sampled_from(AFFINE), maps=st.tuples(units, units), anytime=st.booleans())
def test_ranges_that_are_not_stated_and_horizons(kernel, maps, anytime):
    """Without an interval linear and quadratic functions have no constant, and are scaled only."""
    how = {"horizon": None if anytime else 500}
    agree(
        played(start("bandit", kl.Points(PLANE), kernel, loss_range="learn", **how)),
        played(start("bandit", kl.Points(moved(PLANE, maps)), kernel, loss_range="learn", **how)),
    )
    how |= {"loss_range": None, "loss_bound": 2.0}
    if not isinstance(kernel, kl.Polynomial):
        maps = tuple((a, 0.0) for a, _ in maps)
    agree(
        played(start("bandit", kl.Points(PLANE), kernel, **how)),
        played(start("bandit", kl.Points(moved(PLANE, maps)), kernel, **how)),
    )


def box(low, high, a, b):
    ends = a * np.array([low, high]) + b
    return kl.Box(ends[0], ends[1])


@BOTH
@fuzzed(few=12, cases=300)
@given(
    kernel=st.sampled_from(AFFINE + LINEAR),
    units=units,
    flat=st.booleans(),
    spacing=st.sampled_from([0.31, 0.25, None]),
)
def test_boxes_in_other_units(kind, kernel, units, flat, spacing):
    """With a spacing in the same units, of which sides are multiples or not; on a line also with a net of the learner's own."""
    a, b = abs(units[0]), units[1]
    low, high = ([0.25, 0.5], [1.75, 1.5]) if flat else ([0.25], [1.75])
    if kernel in LINEAR:
        low, high, b = [0.25, 0.5], [1.75, 1.5], 0.0
    spacing = 0.31 if len(low) > 1 and spacing is None else spacing
    how = {"horizon": 3000 if spacing else 100}
    first = start(kind, box(low, high, 1.0, 0.0), kernel, spacing=spacing, **how)
    second = start(kind, box(low, high, a, b), kernel, spacing=spacing and a * spacing, **how)
    assert first.engine.net == pytest.approx(second.engine.net, rel=1e-6)
    agree(played(first), played(second))


@BOTH
@fuzzed(few=12, cases=300)
@given(
    kernel=st.sampled_from(AFFINE[:3]),
    maps=st.tuples(units, units, units),
    form=st.sampled_from(["labels", "any order", "pairs", "product"]),
)
def test_pairs_in_other_units(kind, kernel, maps, form):
    """Contexts with labels, one learner for each, one kernel on pairs, and products of kernels with constants of their own."""
    if form == "product" and not isinstance(kernel, kl.Polynomial):
        maps = tuple((a, 0.0) for a, _ in maps)
    places = np.array([[0.1], [0.5], [1.3]])
    how, weights = {}, None if form == "any order" else [0.5, 0.3, 0.2]
    if form == "pairs":
        how = {"context_kernel": "pairs"}
    if form == "product":
        how = {"context_kernel": kl.Polynomial(1)}

    def game(actions, X):
        labelled = form in ("labels", "any order")
        contexts = kl.Contexts(list("abc") if labelled else X, weights=weights)
        learner = start(kind, kl.Points(actions), kernel, contexts=contexts, **how)
        return played(learner, ["a", "b", "c"] if labelled else [0, 1, 2])

    agree(game(PLANE, places), game(moved(PLANE, maps), moved(places, maps[2:])))


@pytest.mark.slow
@BOTH
@fuzzed(few=4, cases=100)
@given(kernel=st.sampled_from([kl.Linear(), kl.Quadratic()]), size=st.floats(-6, 6))
def test_balls_of_other_radii(kind, kernel, size):
    radius, how = 10.0**size, {"horizon": 300}
    if kind == "bandit":
        balls = [start(kind, kl.Ball(2, r), kernel, **how) for r in (1.0, radius)]
        for t in range(ROUNDS):
            one, other = (ball.ask() for ball in balls)
            np.testing.assert_allclose(
                other.action, radius * one.action, rtol=1e-6, atol=1e-6 * radius
            )
            for ball, decision in zip(balls, (one, other), strict=True):
                ball.tell(decision, TABLE[t, 0])
        X = np.array([[0.2, 0.3], [-0.7, 0.1]])
        first, second = balls[0].log_density(X), balls[1].log_density(radius * X)
        np.testing.assert_allclose(second + 2 * np.log(radius), first, atol=1e-6)
    else:
        balls = [start(kind, kl.Ball(2, r), kernel, spacing=0.5 * r, **how) for r in (1.0, radius)]
        np.testing.assert_allclose(
            *(ball.engine.features @ ball.engine.features.T for ball in balls), atol=1e-6
        )
    assert balls[0].guarantee().total == pytest.approx(balls[1].guarantee().total, rel=1e-6)


# What is not mapped.


def said(kernel=AFFINE[1], actions=None, **others):
    others = {"horizon": 100, "loss_range": (0, 1)} | others
    return BanditSettings(actions=actions or kl.Points(PLANE), kernel=kernel, **others)


@pytest.mark.parametrize(
    "others",
    [
        {"loss_norm": 1.0},
        {"tuning": "paper"},
        {"ridge": 0.1},
        {"proxy": kl.exact_features(kl.Quadratic(), kl.Points(PLANE))},
        {"loss_range": None},
        {"kernel": kl.Gaussian(0.5)},
        {"kernel": kl.Linear() + kl.Gaussian(0.5)},
        {"kernel": kl.Linear() * kl.Gaussian(0.5)},
        {"kernel": kl.Linear(), "actions": kl.Points([[3.0], [3.0]])},
    ],
)
def test_what_is_left_alone(others):
    stated = said(**others)
    assert without_units(stated) is stated


def test_the_map_is_that_of_the_box_and_is_applied_once():
    once = without_units(said())
    assert isinstance(once.kernel, Rescaled)
    assert without_units(once) is once
    low, high = PLANE.min(axis=0), PLANE.max(axis=0)
    np.testing.assert_allclose(
        once.kernel(PLANE), kl.Quadratic()(2 * (PLANE - low) / (high - low) - 1), rtol=1e-12
    )
    learner = start("bandit", kl.Points(PLANE), kl.Quadratic())
    assert "Quadratic()" in repr(learner)
    assert "Rescaled" not in repr(learner) + str(learner.guarantee())


@pytest.mark.parametrize("kind", [*AFFINE, *LINEAR])
@pytest.mark.parametrize("constant", [True, False])
def test_the_span_does_not_change_by_the_map(kind, constant):
    """Against the angles between the two spans; and a shift that is not allowed would change one."""
    X = rng.uniform(0.5, 2.0, (60, 2))

    def angle(one, other):
        P, Q = (span_of(k, X, constant=constant).columns for k in (one, other))
        P, Q = (np.linalg.qr(part)[0] for part in (P, Q))
        return np.linalg.norm(Q - P @ (P.T @ Q), 2)

    maps = closed_under(kind, constant=constant)
    mapped = rescaled(kind, X.min(axis=0), X.max(axis=0), maps=maps)
    assert angle(kind, mapped) < 1e-9
    if maps == "scaling" and type(kind) in (
        kl.Linear,
        kl.Quadratic,
        kl.Polynomial,
        kl.kernels.Product,
    ):
        shifted = rescaled(kind, X.min(axis=0), X.max(axis=0), maps="affine")
        assert angle(kind, shifted) > 0.1


def test_actions_that_are_added_and_snapshots_keep_the_map():
    learner = start("insured", kl.Points(PLANE), kl.Quadratic(), absent=[0, 5])
    fresh = start("insured", kl.Points(1e3 * PLANE + 5e5), kl.Quadratic(), absent=[0, 5])
    for t in range(40):
        for one in (learner, fresh):
            if t == 20:
                one.add([5])
            decision = one.ask()
            one.tell(decision, float(TABLE[t, decision.index]))
        learner = kl.InsuredBandit.from_state(learner.state()) if t == 25 else learner
    np.testing.assert_allclose(learner.distribution, fresh.distribution, atol=1e-9)


# What is printed holds: on years, on prices far from zero, in coordinates of different sizes.

YEARS = np.arange(2000.0, 2027.0)[:, None]
MONEY = np.array([[b, v] for b in np.linspace(2e4, 1e5, 5) for v in np.linspace(0, 0.5, 6)])


def regret(learner, losses, rounds, contexts=()):
    """Against the best action, of losses that never change; and how much uniform play would lose."""
    total = 0.0
    for t in range(rounds):
        decision = learner.ask(**({"context": contexts[t % 2]} if contexts else {}))
        loss = losses(np.asarray(decision.action))
        learner.tell(decision, loss)
        total += loss
    return total


@BOTH
@pytest.mark.parametrize(
    "X, kernel, loss",
    [
        (YEARS, kl.Quadratic(), lambda x: float((x[0] - 2013) / 13) ** 2),
        (np.linspace(3, 4, 21)[:, None], kl.Quadratic(), lambda x: float(2 * x[0] - 7) ** 2),
        (
            np.linspace(99, 110, 21)[:, None],
            kl.Polynomial(3),
            lambda x: float((x[0] - 104.5) / 5.5) ** 2,
        ),
        (
            1.7e9 + np.linspace(0, 3600, 13)[:, None],
            kl.Linear(),
            lambda x: 1 - float(x[0] - 1.7e9) / 3600,
        ),
        (MONEY, kl.Linear(), lambda x: 1 - 2 * float(x[1])),
        (MONEY, kl.Quadratic(), lambda x: 1 - 2 * float(x[1])),
        (kl.Box([2000], [2026]), kl.Quadratic(), lambda x: float((x[0] - 2013) / 13) ** 2),
    ],
)
def test_losses_of_the_class_lose_no_more_than_is_printed(kind, X, kernel, loss):
    rounds = 2000
    actions = X if isinstance(X, kl.Box) else kl.Points(X)
    learner = start(kind, actions, kernel, horizon=rounds, rng=0)
    promise = learner.guarantee()
    assert any("in the span of the kernel's features" in one.text for one in promise.assumptions)
    lost = regret(learner, loss, rounds)
    uniform = rounds * np.mean([loss(x) for x in actions.sample(1000, 0)])
    assert lost < min(promise.total, uniform / 3)
    assert loss(learner.recommend().action) < 0.1


# Features.


def test_a_proxy_that_is_cut_is_not_exact():
    for X in (YEARS, np.linspace(1000, 1001, 20)[:, None], LINE):
        proxy = kl.exact_features(kl.Quadratic(), kl.Points(X))
        assert is_exact(proxy)
        assert is_exact(proxy.truncate(proxy.rank))
        assert not is_exact(proxy.truncate(1))
        assert not is_exact(proxy.truncate(1).truncate(1))
    assert is_exact(kl.exact_features(kl.Linear(), kl.Points(LINE * [1.0, 2.0])))  # on a line
    assert not is_exact(kl.exact_features(kl.Polynomial(6), kl.Points(YEARS)))  # by rounding


class Own(kl.Kernel):
    """1, t, t² and t³ of years t, as somebody may write them down."""

    def __init__(self, powers=(1, 2, 3)):
        self.powers = powers

    def _features(self, X, xp):
        return xp.concat([X**k for k in self.powers], axis=1)

    def feature_dimension(self, dimension):
        return len(self.powers)

    def _gram(self, X, Y, xp):
        return self._features(X, xp) @ self._features(Y, xp).T

    def _diagonal(self, X, xp):
        return xp.sum(self._features(X, xp) ** 2, axis=1)


def test_features_of_a_kernel_of_ones_own_have_no_units():
    """Inputs are left alone; features are centred and scaled, and none is lost for being small."""
    learner = start("bandit", kl.Points(YEARS), Own((1, 2)), horizon=2000)
    assert without_units(learner.settings) is learner.settings
    assert learner.rank == 3
    other = start("bandit", kl.Points(YEARS), kl.Quadratic(), horizon=2000)
    agree(played(learner), played(other))
    with pytest.warns(
        KolossWarning, match="[23] of the 6 features of `kernel` cannot be told apart"
    ):
        start("bandit", kl.Points(YEARS), Own((1, 2, 3, 4, 5, 6)), horizon=2000)
    with warnings.catch_warnings():  # a feature that others make up is no loss
        warnings.simplefilter("error")
        start("bandit", kl.Points(np.array([[0.0], [1.0]])), Own((1, 2, 3)), horizon=2000)


def test_the_largest_norm_within_a_range():
    """Against random functions of the span: none within ±1 on the net has a larger one, and some have half of it."""
    X = np.linspace(-1, 1, 9)[:, None]
    span = span_of(kl.Quadratic(), X, constant=True)
    design = kl.john_design(span.columns)
    white = kl.whiten(span.columns, design).features
    between = np.linspace(-1, 1, 50)[:, None]
    bound = largest_norm(kl.Quadratic(), X, between, white, constant=True)
    w = np.random.default_rng(0).normal(size=(4000, 2))
    values = w @ kl.Quadratic().features(X).T
    values -= (values.max(axis=1, keepdims=True) + values.min(axis=1, keepdims=True)) / 2
    norms = np.linalg.norm(w, axis=1) / np.abs(values).max(axis=1)
    assert bound / 2 < norms.max() <= bound
    few = span_of(kl.Quadratic(), X[:2], constant=True).columns
    assert largest_norm(kl.Quadratic(), X[:2], between, few, constant=True) == np.inf


def test_when_no_norm_is_assumed():
    assert spans(said())
    assert spans(said(rank=5))
    assert spans(said(ridge=0.0))
    assert spans(said(proxy="exact_features"))
    for others in (
        {"loss_norm": 1.0},
        {"rank": 4},
        {"ridge": 0.1},
        {"tuning": "paper"},
        {"proxy": "pivoted_cholesky"},
        {"kernel": kl.Gaussian(1.0)},
        {"kernel": kl.Polynomial(40)},
    ):
        assert not spans(said(**others))
    for others in ({"rank": 2}, {"ridge": 0.1}):
        learner = start("bandit", kl.Points(PLANE), kl.Quadratic(), **others)
        assert "with a norm of at most" in str(learner.guarantee())


def test_too_many_features_are_said():
    X = np.random.default_rng(0).uniform(-1, 1, (300, 6))
    with pytest.warns(
        KolossWarning,
        match="84 features of the kernel are too many for 1,000 rounds, state `loss_norm`",
    ):
        learner = start("bandit", kl.Points(X), kl.Polynomial(3), horizon=1000)
    assert learner.rank == 84
    learner.tell(learner.ask(), 0.5)


def test_features_that_do_not_fit_are_said(monkeypatch):
    monkeypatch.setattr("koloss.learners.bandit.setup.MAX_BYTES", 300 * 8 * 50)
    X = np.random.default_rng(0).uniform(-1, 1, (300, 6))
    with pytest.warns(
        KolossWarning,
        match="at 300 actions are too many to be kept.*state that norm as `loss_norm`",
    ):
        learner = start("bandit", kl.Points(X), kl.Polynomial(3), horizon=100_000)
    assert "with a norm of at most" in str(learner.guarantee())
    learner.tell(learner.ask(), 0.5)


# A norm that is assumed, and cannot have been meant.


@BOTH
@pytest.mark.parametrize(
    "X, kernel, norm, words",
    [
        (YEARS, kl.Quadratic(), 2e-4, "can bend along coordinate 0 by more than 0.068"),
        (MONEY, kl.Linear(), 0.01, "can move along coordinate 1 by more than 0.005"),
        (MONEY, kl.Gaussian((5e4, 20.0)), None, "can move along coordinate 1 by more than 0.0"),
        (MONEY, kl.Gaussian((5e4, 1.6)), None, "can bend along coordinate 1 by more than 0.0"),
    ],
)
def test_losses_that_cannot_vary_along_a_coordinate_are_said(kind, X, kernel, norm, words):
    with pytest.warns(KolossWarning, match=words):
        start(kind, kl.Points(X), kernel, loss_norm=norm)


def test_the_coordinate_of_a_space_is_named():
    space = kl.Space(price=kl.Float(0, 1), discount=kl.Float(0, 1))
    with pytest.warns(KolossWarning, match="can move along 'discount' by more than"):
        start("bandit", space.points(50), kl.Gaussian((0.5, 30.0)))


def test_a_kernel_of_your_own_that_is_linear_need_not_bend():
    class Own:
        """x'y far from zero, by its values alone."""

        def __call__(self, X, Y):
            return X @ Y.T

        def diag(self, X):
            return np.sum(X * X, axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start("bandit", kl.Points(YEARS), Own(), loss_norm=1.0)


def test_how_far_losses_move_and_bend():
    """Against the largest differences of the losses that attain them."""
    X = np.linspace(0.0, 1.0, 17)[:, None]
    kernel = kl.Gaussian(0.7)
    moves, bends = _variation(kernel(X))
    steps = kernel.embed([[0.0], [1.0]], [1.0, -1.0])
    assert moves == pytest.approx(float(steps(X[:1])[0] - steps(X[-1:])[0]) / steps.norm())
    curve = kernel.embed([[0.0], [0.5], [1.0]], [1.0, -2.0, 1.0])
    f = curve([[0.0], [0.5], [1.0]])
    assert bends == pytest.approx(float(f[0] - 2 * f[1] + f[2]) / curve.norm())


@pytest.mark.parametrize(
    "kernel", [kl.Gaussian(0.3), kl.Gaussian(1.0), kl.Matern(1.5, 0.5), "auto"]
)
def test_usual_kernels_are_not_doubted(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start("bandit", kl.Points(np.linspace(0, 1, 40)[:, None]), kernel)
        start("insured", kl.Points(PLANE), kernel)


# Contexts have levels of their own.


def regret_with_levels(kind, kernel, **how):
    """Two contexts that lose by opposite functions, so that no constant is common to both: regret, what is printed, uniform play's."""
    n, coins = 4000, np.random.default_rng(0).random(4000)
    u = (YEARS[:, 0] - 2013) / 13
    lost = (1 + u) / 2 if isinstance(kernel, kl.Linear) else u**2
    means = {"a": lost / 2, "b": 1 - lost}
    contexts = kl.Contexts(list(means), weights=[0.6, 0.4])
    learner = start(kind, kl.Points(YEARS), kernel, horizon=n, contexts=contexts, **how)
    regret = uniform = 0.0
    for coin in coins:
        mean = means["a" if coin < 0.6 else "b"]
        decision = learner.ask(context="a" if coin < 0.6 else "b")
        learner.tell(decision, float(mean[decision.index]))
        regret += mean[decision.index] - mean.min()
        uniform += mean.mean() - mean.min()
    return regret, learner.guarantee().total, uniform


@BOTH
@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Quadratic()], ids=repr)
def test_contexts_may_differ_in_their_level(kind, kernel):
    regret, printed, uniform = regret_with_levels(kind, kernel)
    assert regret < 0.3 * uniform
    assert regret < printed


def test_a_stated_kernel_of_contexts_is_taken_as_it_is():
    """The control: there constants differ by contexts no more than the kernel says, and losses that do are not in the class."""
    regret, printed, _ = regret_with_levels(
        "bandit", kl.Quadratic(), context_kernel=kl.Gaussian(1.2)
    )
    assert regret > printed


@pytest.mark.parametrize("kernel, lacking", [
    (kl.Linear(), True), (2.0 * kl.Quadratic(), True), (kl.Polynomial(3, 0.0), True),
    (kl.Linear() + kl.Polynomial(2), False), (kl.Polynomial(2) * kl.Linear(), True),
    (kl.Posynomial([[1, 0], [0, 1]]), True), (kl.Posynomial([[0, 0], [1, 1]]), False),
    (kl.Gaussian(1.0), False), (kl.Linear() + kl.Gaussian(1.0), False),
], ids=repr)  # fmt: skip
def test_which_kernels_lack_a_constant(kernel, lacking):
    """By regressing the constant on the features, where these are finitely many."""
    assert lacks_constant(kernel, 2) is lacking
    assert lacks_constant(rescaled(kernel, [0, 0], [1, 2], maps="scaling"), 2) is lacking
    if kernel.feature_dimension(2) is not None:
        features = np.asarray(kernel.features(POSITIVE))
        error = 1 - features @ np.linalg.lstsq(features, np.ones(len(features)))[0]
        assert bool(np.abs(error).max() > 1e-6) is lacking
