"""Spaces of other packages: Optuna's distributions, and ConfigSpace.

Their objects are known by the names of their classes and attributes: neither package is imported.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koloss.actions.parameters import Choice, Float, Int, Ordinal, ordinal_range
from koloss.actions.values import Parameter, identity, plain
from koloss.core.arrays import shown

MOST_VALUES = 2**12
"""Values that an inequality on a parameter is written out for."""

COMPARISONS = {
    "LessThanEquals": operator.le,
    "GreaterThanEquals": operator.ge,
    "LessThan": operator.lt,
    "GreaterThan": operator.gt,
    "NotEquals": operator.ne,
    "Equals": operator.eq,
}
"""By how names of ConfigSpace's conditions and clauses begin."""


def _kinds(value: Any) -> set[str]:
    return {kind.__name__ for kind in type(value).__mro__}


# Optuna.


def read_optuna(source: Any) -> dict[str, Parameter]:
    """Parameters from a dict of distributions, or from a trial or a study that has them."""
    if hasattr(source, "trials"):
        source = _of_study(source.trials)
    elif hasattr(source, "distributions"):
        source = source.distributions
    if not isinstance(source, Mapping):
        rule = "must be a dict of Optuna's distributions, a trial or a study"
        raise TypeError(f"`distributions` {rule}, got {shown(source)}")
    return {name: _distribution(name, d) for name, d in source.items()}


def _of_study(trials: Any) -> dict[str, Any]:
    """The distributions that all trials share: Optuna does not say on what the others depend."""
    asked = [trial.distributions for trial in trials if trial.distributions]
    if not asked:
        raise ValueError("`distributions` must be of a study with trials, got one without any")
    for distributions in asked[1:]:
        for name in {**asked[0], **distributions}:
            if asked[0].get(name) != distributions.get(name):
                rule = (
                    "must be the same in all trials of a study; give a Space with `when` otherwise"
                )
                raise ValueError(f"`distributions` {rule}, got two of {name!r}")
    return dict(asked[0])


def _distribution(name: str, distribution: Any) -> Parameter:
    kinds = _kinds(distribution)
    try:
        if "CategoricalDistribution" in kinds:
            return Choice(distribution.choices)
        if "FloatDistribution" in kinds:
            ends = distribution.low, distribution.high
            return Float(*ends, log=distribution.log, step=distribution.step)
        if "IntDistribution" in kinds:
            low, high, step = distribution.low, distribution.high, distribution.step
            if step == 1 or distribution.log:
                return Int(low, high, log=distribution.log)
            return ordinal_range(low, high, step, None)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in {name!r}") from error
    rule = "must be a Float-, Int- or CategoricalDistribution"
    raise TypeError(f"`{name}` {rule}, got {shown(distribution)}")


# ConfigSpace.


def read_configspace(source: Any) -> tuple[dict[str, Parameter], Forbidden | None]:
    """Parameters with their conditions, and the constraint that forbidden clauses make; priors and defaults are left."""
    if not hasattr(source, "forbidden_clauses") or not hasattr(source, "conditions"):
        raise TypeError(f"`space` must be a ConfigurationSpace, got {shown(source)}")
    bare = {name: _hyperparameter(name, h, None) for name, h in source.items()}
    conditions: dict[str, dict[str, list[Any]]] = {}
    for condition in source.conditions:
        child = condition.child.name
        both = [conditions[child]] if child in conditions else []
        conditions[child] = _all_of([*both, _condition(condition, bare)])
    parameters = {n: _hyperparameter(n, h, conditions.get(n)) for n, h in source.items()}
    clauses = tuple(_clause(clause, bare) for clause in source.forbidden_clauses)
    return parameters, Forbidden(clauses) if clauses else None


def _hyperparameter(name: str, h: Any, when: Any) -> Parameter:
    kinds = _kinds(h)
    try:
        if "CategoricalHyperparameter" in kinds:
            return Choice(h.choices, when=when)
        if "OrdinalHyperparameter" in kinds:
            return Ordinal(h.sequence, when=when)
        if "Constant" in kinds:
            return Choice([h.value], when=when)
        if "FloatHyperparameter" in kinds:
            return Float(h.lower, h.upper, log=bool(getattr(h, "log", False)), when=when)
        if "IntegerHyperparameter" in kinds:
            return Int(int(h.lower), int(h.upper), log=bool(getattr(h, "log", False)), when=when)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in {name!r}") from error
    raise TypeError(f"`{name}` must be a hyperparameter of a known kind, got {shown(h)}")


def _condition(condition: Any, parameters: Mapping[str, Parameter]) -> dict[str, list[Any]]:
    """A condition as names with values."""
    kinds = _kinds(condition)
    if "AndConjunction" in kinds:
        return _all_of([_condition(c, parameters) for c in condition.components])
    if "OrConjunction" in kinds:
        either = [_condition(c, parameters) for c in condition.components]
        if len({tuple(when) for when in either}) > 1 or len(either[0]) > 1:
            rule = "must be on one parameter where any of several will do"
            raise ValueError(f"a condition {rule}, got {condition}")
        (parent,) = either[0]
        return {parent: [value for when in either for value in when[parent]]}
    parent = condition.parent.name
    if "InCondition" in kinds:
        return {parent: list(condition.values)}
    return {parent: _values(type(condition).__name__, parameters[parent], condition.value)}


def _all_of(several: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    merged: dict[str, list[Any]] = {}
    for when in several:
        for parent, values in when.items():
            known = {identity(plain(parent, v)) for v in values}
            before = merged.get(parent, values)
            merged[parent] = [v for v in before if identity(plain(parent, v)) in known]
            if not merged[parent]:
                raise ValueError(f"a condition must be possible, got none of {parent!r}")
    return merged


def _comparison(name: str) -> str:
    for word in COMPARISONS:
        if name.removeprefix("Forbidden").startswith(word):
            return word
    raise TypeError(f"conditions and clauses must be of a known kind, got {name}")


def _values(kind: str, parameter: Parameter, value: Any) -> list[Any]:
    """The values that compare so with one of them, in the order of the parameter."""
    compare = COMPARISONS[_comparison(kind)]
    if compare is operator.eq:
        return [value]
    if parameter.count is None or parameter.count > MOST_VALUES:
        rule = f"must be on a parameter with at most {MOST_VALUES} values"
        raise ValueError(f"{kind} {rule}, got {parameter!r}")
    pivot = parameter.number(parameter.check("value", value))
    return [parameter.value(k) for k in range(parameter.count) if compare(k, pivot)]


def _clause(clause: Any, parameters: Mapping[str, Parameter]) -> tuple[Any, ...]:
    """A forbidden clause as plain data, in the forms that `Forbidden` has."""
    kinds = _kinds(clause)
    for kind, word in (("ForbiddenAndConjunction", "all"), ("ForbiddenOrConjunction", "any")):
        if kind in kinds:
            return (word, *(_clause(inner, parameters) for inner in clause.components))
    kind = type(clause).__name__
    if hasattr(clause, "left"):  # values themselves are compared, also those of an ordinal
        return (f"{_comparison(kind)} parameter", clause.left.name, clause.right.name)
    name = clause.hyperparameter.name
    if "ForbiddenInClause" in kinds:
        return ("in", name, *(plain(name, v) for v in clause.values))
    if isinstance(parameters[name], Choice):
        values = _values(kind, parameters[name], clause.value)
        return ("in", name, *(plain(name, v) for v in values))
    return (_comparison(kind), name, plain(name, clause.value))


@dataclass(frozen=True)
class Forbidden:
    """The constraint that none of some clauses holds: data, not a function, and so equal and copied by value."""

    # ("all", clauses...), ("any", clauses...), ("in", name, values...), (comparison, name, value), (comparison " parameter", two names)
    clauses: tuple[Any, ...]

    def __call__(self, params: Mapping[str, Any]) -> bool:
        return not any(_holds(clause, params) for clause in self.clauses)


def _holds(clause: tuple[Any, ...], params: Mapping[str, Any]) -> bool:
    """Whether a clause holds; one on a parameter that does not matter does not."""
    kind, *rest = clause
    if kind in ("any", "all"):
        return bool({"any": any, "all": all}[kind](_holds(inner, params) for inner in rest))
    name, *rest = rest
    if name not in params:
        return False
    if kind == "in":
        return any(identity(params[name]) == identity(value) for value in rest)
    (other,) = rest
    if kind.endswith(" parameter"):
        kind = kind.removesuffix(" parameter")
        if other not in params:
            return False
        other = params[other]
    return bool(COMPARISONS[kind](params[name], other))
