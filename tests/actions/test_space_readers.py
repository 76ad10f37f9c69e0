"""Spaces of Optuna and ConfigSpace: the packages themselves where they are installed, and always stand-ins of the same attributes."""

from __future__ import annotations

import operator
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest

import koloss as kl


def stand_in(kind, /, *bases, **attributes):
    """An object of a class of this name."""
    names = [type(name, (), {}) for name in bases]
    return type(kind, tuple(names), attributes)()


# Optuna.


def floats(low, high, log=False, step=None):
    return stand_in("FloatDistribution", low=low, high=high, log=log, step=step)


def ints(low, high, log=False, step=1):
    return stand_in("IntDistribution", low=low, high=high, log=log, step=step)


def choices(*values):
    return stand_in("CategoricalDistribution", choices=values)


EXPECTED = kl.Space(
    rate=kl.Float(1e-5, 0.1, log=True),
    share=kl.Float(0, 0.9, step=0.3),
    depth=kl.Int(1, 64, log=True),
    width=kl.Ordinal([16, 48, 80, 112]),
    method=kl.Choice(["a", None, True, 1.5]),
)


def optunas(floats, ints, choices):
    return {
        "rate": floats(1e-5, 0.1, log=True),
        "share": floats(0.0, 0.9, step=0.3),
        "depth": ints(1, 64, log=True),
        "width": ints(16, 112, step=32),
        "method": choices("a", None, True, 1.5),
    }


def test_distributions():
    distributions = optunas(floats, ints, choices)
    assert kl.Space.from_optuna(distributions) == EXPECTED
    assert kl.Space.from_optuna(SimpleNamespace(distributions=distributions)) == EXPECTED
    trials = [SimpleNamespace(distributions=d) for d in ({}, distributions, distributions)]
    assert kl.Space.from_optuna(SimpleNamespace(trials=trials)) == EXPECTED


def test_distributions_that_are_refused():
    one, other = ({"x": ints(1, high)} for high in (2, 3))

    def study(*distributions):
        return SimpleNamespace(trials=[SimpleNamespace(distributions=d) for d in distributions])

    for source, error, message in [
        (3, TypeError, "`distributions` must be a dict of Optuna's distributions, a trial or a study, got 3"),
        ({"x": 3}, TypeError, "`x` must be a Float-, Int- or CategoricalDistribution, got 3"),
        ({"x": floats(0, 1, log=True)}, ValueError, "`low` must be positive on a log scale, got 0, in 'x'"),
        ({"x": choices("a", "a")}, ValueError, "`values` must be different, got 'a' twice, in 'x'"),
        (study(), ValueError, "`distributions` must be of a study with trials, got one without any"),
        (study(one, other), ValueError, "`distributions` must be the same in all trials of a study; give a Space with `when` otherwise, got two of 'x'"),
        (study(one, one | {"y": ints(1, 2)}), ValueError, "got two of 'y'"),
    ]:  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            kl.Space.from_optuna(source)


def test_optuna_itself():
    optuna = pytest.importorskip("optuna")
    d = optuna.distributions
    distributions = optunas(
        d.FloatDistribution, d.IntDistribution, lambda *values: d.CategoricalDistribution(values)
    )
    space = kl.Space.from_optuna(distributions)
    assert space == EXPECTED
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(50):
        trial = study.ask(distributions)
        params = space.decode(space.encode(trial.params))[0]
        assert params == pytest.approx(trial.params, rel=1e-14)
        study.tell(trial, 0.0)
    assert kl.Space.from_optuna(study) == space
    assert kl.Space.from_optuna(study.trials[0]) == space
    for params in space.points(20).params:  # and Optuna takes ours
        study.enqueue_trial(params)
        assert study.ask(distributions).params == pytest.approx(params, rel=1e-14)


# ConfigSpace.


def hyperparameter(name, kind, *bases, **attributes):
    return stand_in(kind, *bases, name=name, **attributes)


class Configurations(dict):
    """A stand-in of a ConfigurationSpace."""

    def __init__(self, *hyperparameters, conditions=(), forbidden=()):
        super().__init__({h.name: h for h in hyperparameters})
        self.conditions = list(conditions)
        self.forbidden_clauses = list(forbidden)


def some():
    method = hyperparameter("method", "CategoricalHyperparameter", choices=("a", np.str_("b"), "c"))
    size = hyperparameter("size", "OrdinalHyperparameter", sequence=("s", "m", "l"))
    n = hyperparameter("n", "UniformIntegerHyperparameter", "IntegerHyperparameter", lower=np.int64(1), upper=10, log=np.bool_(True))  # fmt: skip
    x = hyperparameter("x", "NormalFloatHyperparameter", "FloatHyperparameter", lower=0.0, upper=1.0)  # fmt: skip
    k = hyperparameter("k", "Constant", value="v")
    return method, size, n, x, k


def condition(kind, child, parent, value):
    return stand_in(kind, child=child, parent=parent, value=value, values=value)


def test_hyperparameters_and_conditions():
    method, size, n, x, k = some()
    both = [condition("EqualsCondition", x, method, "a"), condition("GreaterThanCondition", x, size, "s")]  # fmt: skip
    either = [condition("EqualsCondition", k, n, 1), condition("GreaterThanCondition", k, n, 8)]
    source = Configurations(
        method, size, n, x, k,
        conditions=[
            condition("InCondition", n, method, ["a", "b"]),
            stand_in("AndConjunction", child=x, components=both),
            stand_in("OrConjunction", child=k, components=either),
            condition("NotEqualsCondition", size, method, "c"),
        ],
    )  # fmt: skip
    assert kl.Space.from_configspace(source) == kl.Space(
        method=kl.Choice(["a", "b", "c"]),
        size=kl.Ordinal(["s", "m", "l"], when={"method": ["a", "b"]}),
        n=kl.Int(1, 10, log=True, when={"method": ["a", "b"]}),
        x=kl.Float(0, 1, when={"method": "a", "size": ["m", "l"]}),
        k=kl.Choice(["v"], when={"n": [1, 9, 10]}),
    )


def test_forbidden_clauses():
    method, size, n, x, _ = some()
    m = hyperparameter("m", "IntegerHyperparameter", lower=1, upper=10)
    clauses = [
        stand_in("ForbiddenAndConjunction", components=[
            stand_in("ForbiddenEqualsClause", hyperparameter=method, value="a"),
            stand_in("ForbiddenInClause", hyperparameter=size, values=["m", "l"]),
        ]),
        stand_in("ForbiddenLessThanRelation", left=n, right=m),
        stand_in("ForbiddenGreaterThanEqualsClause", hyperparameter=x, value=0.5),
        stand_in("ForbiddenOrConjunction", components=[
            stand_in("ForbiddenGreaterThanClause", hyperparameter=size, value="m"),
            stand_in("ForbiddenEqualsClause", hyperparameter=n, value=7),
        ]),
    ]  # fmt: skip
    source = Configurations(method, size, n, x, m, forbidden=clauses)
    space = kl.Space.from_configspace(source)
    allowed = 0
    for p in kl.Space(space.parameters).points(2000).params:
        expected = not (
            (p["method"] == "a" and p["size"] in ("m", "l"))
            or p["n"] < p["m"] or p["x"] >= 0.5 or p["size"] == "l" or p["n"] == 7
        )  # fmt: skip
        assert space.where(p) == expected
        allowed += expected
    assert 50 < allowed < 1000
    assert space.where({"size": "s"})  # of what does not matter nothing is forbidden
    assert pickle.loads(pickle.dumps(space)) == space == kl.Space.from_configspace(source)


def test_configurations_that_are_refused():
    method, size, _, x, k = some()
    two = [condition("EqualsCondition", k, method, "a"), condition("EqualsCondition", k, size, "s")]
    never = [condition("EqualsCondition", k, method, v) for v in ("a", "b")]
    for source, error, message in [
        (3, TypeError, "`space` must be a ConfigurationSpace, got 3"),
        ({}, TypeError, "`space` must be a ConfigurationSpace, got {}"),
        (Configurations(hyperparameter("z", "Other")), TypeError, "`z` must be a hyperparameter of a known kind"),
        (Configurations(hyperparameter("z", "FloatHyperparameter", lower=0.0, upper=np.inf)), ValueError, "`high` must be finite, got inf, in 'z'"),
        (Configurations(method, size, k, conditions=[stand_in("OrConjunction", child=k, components=two)]), ValueError, "a condition must be on one parameter where any of several will do"),
        (Configurations(method, k, conditions=[stand_in("AndConjunction", child=k, components=never)]), ValueError, "a condition must be possible, got none of 'method'"),
        (Configurations(x, k, conditions=[condition("LessThanCondition", k, x, 0.5)]), ValueError, "LessThanCondition must be on a parameter with at most 4096 values"),
        (Configurations(method, k, conditions=[condition("OddCondition", k, method, "a")]), TypeError, "conditions and clauses must be of a known kind, got OddCondition"),
    ]:  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            kl.Space.from_configspace(source)


def test_configspace_itself():
    c = pytest.importorskip("ConfigSpace")
    source = c.ConfigurationSpace(seed=0)
    method, size = c.Categorical("method", ["a", "b", "c"]), c.OrdinalHyperparameter("size", ["s", "m", "l"])  # fmt: skip
    n, m = c.Integer("n", (1, 10), log=True), c.Integer("m", (1, 10), default=1)
    x = c.Float("x", (0.1, 1.0), log=True)
    normal, constant = c.Float("normal", (0, 1), distribution=c.Normal(0.5, 0.1)), c.Constant("k", 3)  # fmt: skip
    source.add(method, size, n, m, x, normal, constant)
    source.add(
        c.EqualsCondition(n, method, "a"),
        c.InCondition(x, method, ["a", "b"]),
        c.AndConjunction(
            c.NotEqualsCondition(normal, method, "c"), c.GreaterThanCondition(normal, size, "s")
        ),
    )
    source.add(
        c.ForbiddenAndConjunction(
            c.ForbiddenEqualsClause(method, "b"), c.ForbiddenInClause(size, ["m", "l"])
        ),
        c.ForbiddenLessThanRelation(n, m),
        c.ForbiddenGreaterThanClause(x, 0.7),
    )
    space = kl.Space.from_configspace(source)
    assert set(space.names) == set(source)
    assert space.parameters["normal"] == kl.Float(0, 1, when={"method": ["a", "b"], "size": ["m", "l"]})  # fmt: skip
    for configuration in source.sample_configuration(200):
        params = dict(configuration)
        assert space.decode(space.encode(params))[0] == pytest.approx(params, rel=1e-12)
    for params in space.points(200).params:  # and ConfigSpace takes ours
        c.Configuration(source, values=params).check_valid_configuration()
    # What one forbids the other does: over params without the constraint.
    forbidden = 0
    for params in kl.Space(space.parameters).points(500).params:
        try:
            c.Configuration(source, values=params)
            assert space.where(params)
        except c.exceptions.ForbiddenValueError:
            assert not space.where(params)
            forbidden += 1
    assert 50 < forbidden < 450


def test_comparisons_that_begin_alike_are_told_apart():
    from koloss.actions.space_readers import COMPARISONS, _comparison

    for kind, compare in [
        ("ForbiddenLessThanEqualsClause", operator.le), ("LessThanCondition", operator.lt),
        ("ForbiddenGreaterThanEqualsRelation", operator.ge), ("GreaterThanCondition", operator.gt),
        ("NotEqualsCondition", operator.ne), ("ForbiddenEqualsRelation", operator.eq),
    ]:  # fmt: skip
        assert COMPARISONS[_comparison(kind)] is compare
