"""A study as a small TOML file, read with errors that point at the line and the key.

    name = "prices"
    kernel = {kind = "Gaussian", bandwidth = 0.3}

    [study]
    goal = "maximize"
    lease = 3600

    [actions.parameters]
    price = {kind = "Float", low = 1.0, high = 10.0}

    [learner]
    kind = "InsuredBandit"
    loss_range = [0.0, 1.0]

The keys of `[study]` are the arguments of `Study.create`, those of `[actions]`, `[contexts]`, `kernel` and `[learner]` the
arguments of the classes. `EXAMPLE` shows them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from koloss.actions import ActionSet, Contexts, Parameter, Space, SpacePoints
from koloss.core.arrays import as_float
from koloss.experiments.reading import Keys, decode, one_of, only, pointing
from koloss.experiments.source import Source, read_text, read_toml
from koloss.kernels import Kernel
from koloss.learners import BanditExpWeights, InsuredBandit, Learner

LEARNERS: dict[str, Any] = {kind.__name__: kind for kind in (InsuredBandit, BanditExpWeights)}

EXAMPLE = """\
# A study for: koloss study create prices.toml --store sqlite:///studies.db
name = "prices"

[study]                    # all of these may be left out
goal = "maximize"          # values are rewards; "minimize" for losses
unit = "EUR"               # of the values
lease = 3600               # seconds for which a decision is waited for
default = 0.0              # value of what was not told by then
# release = "window"       # use values when the lease is over, where their delay depends on them
labels = {team = "shop"}

[actions]                  # or kind = "Points", "Box" or "Ball", with its arguments, in the place of parameters
points = 64                # that are played; 1,024 if not given

[actions.parameters]
price = {kind = "Float", low = 1.0, high = 10.0, log = true}
colour = {kind = "Choice", values = ["red", "green"]}
size = {kind = "Int", low = 1, high = 3, when = {colour = "red"}}

# [contexts]               # what is known before a decision; values, or parameters as above
# X = ["private", "business"]
# weights = [0.9, 0.1]

[kernel]                   # or kernel = "auto", above the first table, which is the default
kind = "Mixed"

[learner]
kind = "InsuredBandit"     # or "BanditExpWeights"
loss_range = [0.0, 10.0]   # of the values
horizon = 10_000           # decisions to come; left out where that is not known
# policy = "thompson"      # and whatever else the class takes
# seed = 0                 # other coins every time if not given

# [[shares]]               # least and largest share of the traffic
# rows = [0, 1]            # or params = {colour = "red", ...}
# low = 0.1
"""


class _Share(Struct, forbid_unknown_fields=True):
    """Least and largest share of some actions."""

    rows: int | list[int] | None = None
    params: dict[str, Any] | list[dict[str, Any]] | None = None
    low: float = 0.0
    high: float = 1.0


class _Study(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of `Study.create`, which checks them."""

    goal: str | None = None
    unit: str | None = None
    lease: float | None = None
    default: float | None = None
    release: str | None = None
    labels: dict[str, str] | None = None
    subjects: str | None = None


class _File(Struct, forbid_unknown_fields=True):
    actions: dict[str, Any]
    learner: dict[str, Any] = {}
    name: str | None = None
    study: _Study = _Study()
    contexts: dict[str, Any] | None = None
    kernel: str | dict[str, Any] = "auto"
    shares: list[_Share] = []


_TABLES: dict[tuple[str, ...], type[Struct]] = {("study",): _Study, ("shares",): _Share}

_ELSEWHERE = ("self", "actions", "kernel", "contexts", "shares", "rng")
"""Arguments of learners that are not for `[learner]`."""

_CONTEXTS = ("X", "parameters", "points", "weights")


@dataclass(frozen=True)
class StudySpec:
    """What a spec says."""

    name: str | None
    learner: Learner[Any, Any]
    settings: dict[str, Any]  # other arguments of `Study.create`
    source: Source

    def create(self, create: Callable[..., Any]) -> Any:
        """Call `create` with learner and settings; what is wrong with one of these is said with its line."""
        try:
            return create(learner=self.learner, **self.settings)
        except (TypeError, ValueError) as error:
            names = [name for name in self.settings if str(error).startswith(f"`{name}`")]
            if not names:
                raise
            with pointing(self.source, ("study",), self.settings):
                raise


def load(path: Path) -> StudySpec:
    """Read a spec.

    Raises
    ------
    SpecError
        With the file, the line and the key.
    """
    return parse(read_text(path), str(path))


def parse(text: str, path: str = "spec") -> StudySpec:
    """What a TOML text says of a study.

    Examples
    --------
    >>> parse(EXAMPLE).learner.settings.actions.space.names
    ('price', 'colour', 'size')
    """
    source = Source(path, text)
    file = decode(_File, read_toml(source), source, _TABLES)
    actions = _actions(file.actions, source)
    settings = msgspec.to_builtins(file.study)
    return StudySpec(file.name, _learner(file, actions, source), settings, source)


def _learner(file: _File, actions: ActionSet, source: Source) -> Learner[Any, Any]:
    options, keys = dict(file.learner), ("learner",)
    kind = options.pop("kind", next(iter(LEARNERS)))
    one_of(kind, LEARNERS, keys, source)
    seed = options.pop("seed", None)
    takes = [*inspect.signature(LEARNERS[kind].__init__).parameters]
    allowed = [*(name for name in takes if name not in _ELSEWHERE), "kind", "seed"]
    only(options, allowed, keys, kind, source)
    contexts = None
    if file.contexts is not None:
        options["contexts"] = contexts = _contexts(file.contexts, source)
    spaces = {"context_kernel": _space_of(contexts), "robust_kernel": _space_of(actions)}
    for name, space in spaces.items():
        if name in options:
            options[name] = _kernel(options[name], space, (*keys, name), source)
    if file.shares:
        options["shares"] = _shares(file.shares, actions, source)
    options.setdefault("horizon", None)
    kernel = _kernel(file.kernel, _space_of(actions), ("kernel",), source)
    if seed is not None and (type(seed) is not int or seed < 0):
        raise source.error((*keys, "seed"), f"must be a whole number from 0, got {seed!r}")
    try:
        return LEARNERS[kind](actions, kernel, rng=seed, **options)  # type: ignore[no-any-return]
    except Exception as error:
        tables = ("actions", "kernel", "contexts", "shares")
        named = any(str(error).startswith(f"`{table}`") for table in tables)
        with pointing(source, () if named else keys, file.learner | dict.fromkeys(tables)):
            raise


def _kernel(data: Any, space: Space | None, keys: Keys, source: Source) -> Any:
    """A kernel; a word stands for one that the learner chooses, and "Mixed" is of the space that it is used on."""
    if isinstance(data, str):
        return data
    given = data if isinstance(data, dict) else {}
    with pointing(source, keys, given):
        if space is not None and str(given.get("kind")).lower() == "mixed":
            data = {"space": space, **given}
        return Kernel.from_dict(data)


def _space_of(known: ActionSet | Contexts | None) -> Space | None:
    """The parameters of actions or contexts, where they have any."""
    if isinstance(known, Contexts):
        return _space_of(known.points)
    return known.space if isinstance(known, SpacePoints) else None


def _actions(data: dict[str, Any], source: Source) -> ActionSet:
    """The actions; a net of them where there is a `net`, and of a Space so many `points`."""
    data, keys = dict(data), ("actions",)
    if "parameters" in data or data.get("kind") == "Space":
        only(data, ("kind", "parameters", "points"), keys, "a Space", source)
        if data.get("kind", "Space") != "Space":
            raise source.error((*keys, "parameters"), "is a key of a Space alone")
        space = _space(data, keys, source)
        with pointing(source, keys, data):
            return space.points(_points(data, 1024))
    net = data.pop("net", None)
    with pointing(source, keys, data | {"net": net}):
        actions = ActionSet.from_dict(data)
        return actions if net is None else actions.net(as_float("net", net, positive=True))


def _points(data: dict[str, Any], usual: Any) -> Any:
    """What `Space.points` is to be called with."""
    points = data.get("points", usual)
    if "points" in data and type(points) is not int and not isinstance(points, list):
        raise TypeError(f"`points` must be a whole number or an array of params, got {points!r}")
    return points


def _space(data: dict[str, Any], keys: Keys, source: Source) -> Space:
    keys, parameters = (*keys, "parameters"), data.get("parameters")
    if not isinstance(parameters, dict):
        raise source.error(keys, f"must be a table of parameters, got {parameters!r}")
    made = {}
    for name, one in parameters.items():
        if not isinstance(one, dict):
            raise source.error((*keys, name), f"must be a table with a kind, got {one!r}")
        with pointing(source, (*keys, name), one):
            when = one.get("when")
            # As plain data has it: a table would be taken for something with a kind.
            plain = {"when": tuple(when.items())} if isinstance(when, Mapping) else {}
            made[name] = Parameter.from_dict(one | plain)
    with pointing(source, keys, parameters):
        return Space(made)


def _contexts(data: dict[str, Any], source: Source) -> Contexts:
    keys = ("contexts",)
    only(data, _CONTEXTS, keys, "[contexts]", source)
    if ("X" in data) == ("parameters" in data):
        raise source.error(keys, "must have X or parameters, one of them")
    options = {key: data[key] for key in _CONTEXTS[3:] if key in data}
    known: Any = data.get("X")
    if "parameters" in data:
        known = _space(data, keys, source)
    with pointing(source, keys, data):
        if "points" in data:
            if not isinstance(known, Space):
                raise ValueError("`points` must be left out without parameters")
            known = known.points(_points(data, None))
        return Contexts(known, **options)


def _shares(shares: list[_Share], actions: ActionSet, source: Source) -> dict[Any, Any]:
    limits: dict[Any, Any] = {}
    for k, share in enumerate(shares):
        keys = ("shares", k)
        if (share.rows is None) == (share.params is None):
            raise source.error(keys, "must have rows or params, one of them")
        rows = share.rows
        if share.params is not None:
            if not isinstance(actions, SpacePoints):
                raise source.error((*keys, "params"), "must be rows where actions have no names")
            several = [share.params] if isinstance(share.params, dict) else share.params
            with pointing(source, keys, {"params": several}):
                rows = [actions.find(params) for params in several]
        group = tuple(rows) if isinstance(rows, list) else rows
        if group in limits:
            raise source.error(keys, f"must be of others than those before, got {group} again")
        limits[group] = (share.low, share.high)
    return limits
