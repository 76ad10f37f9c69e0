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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koloss.actions import ActionSet, SpacePoints
from koloss.actions.described import read_actions, read_contexts, space_of
from koloss.core.toml import Source, one_of, only, pointing, read_text, read_toml, table_at
from koloss.kernels.described import read_kernel
from koloss.learners import Learner
from koloss.studies.state import LEARNERS

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

_TABLES = ("name", "study", "actions", "contexts", "kernel", "learner", "shares")

_SETTINGS = ("goal", "unit", "lease", "default", "release", "labels", "subjects")
"""Arguments of `Study.create`, which checks them."""

_ELSEWHERE = ("actions", "kernel", "contexts", "shares", "rng", "former")
"""Arguments of learners that are not for `[learner]`."""


@dataclass(frozen=True)
class StudySpec:
    """What a file says of a study."""

    name: str | None
    learner: Learner[Any, Any]
    settings: dict[str, Any]  # other arguments of `Study.create`
    source: Source

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Say what is wrong with one of the settings with its line."""
        try:
            yield
        except (TypeError, ValueError) as error:
            if not any(str(error).startswith(f"`{name}`") for name in self.settings):
                raise
            with pointing(self.source, ("study",), self.settings):
                raise


def load(path: str | Path) -> StudySpec:
    """Read a file.

    Raises
    ------
    SpecError
        With the file, the line and the key.
    """
    return parse(read_text(Path(path)), str(path))


def parse(text: str, path: str = "spec") -> StudySpec:
    """What a TOML text says of a study.

    Examples
    --------
    >>> parse(EXAMPLE).learner.settings.actions.space.names
    ('price', 'colour', 'size')
    """
    source = Source(path, text)
    data = read_toml(source)
    only(data, _TABLES, (), "a spec", source)
    name = data.get("name")
    if name is not None and not isinstance(name, str):
        raise source.error(("name",), f"must be a string, got {name!r}")
    settings = table_at(data.get("study", {}), ("study",), source)
    only(settings, _SETTINGS, ("study",), "[study]", source)
    return StudySpec(name, _learner(data, source), settings, source)


def _learner(data: dict[str, Any], source: Source) -> Learner[Any, Any]:
    if "actions" not in data:
        raise source.error((), "`actions` is missing in the file")
    actions = read_actions(table_at(data["actions"], ("actions",), source), ("actions",), source)
    keys = ("learner",)
    said = table_at(data.get("learner", {}), keys, source)
    options = {"horizon": None} | said
    kind = options.pop("kind", "InsuredBandit")
    one_of(kind, LEARNERS, keys, source)
    seed = options.pop("seed", None)
    make: Any = LEARNERS[kind]
    takes = inspect.signature(make).parameters
    allowed = [*(key for key in takes if key not in _ELSEWHERE), "kind", "seed"]
    only(said, allowed, keys, kind, source)
    if seed is not None and (type(seed) is not int or seed < 0):
        raise source.error((*keys, "seed"), f"must be a whole number from 0, got {seed!r}")
    contexts = None
    if "contexts" in data:
        table = table_at(data["contexts"], ("contexts",), source)
        options["contexts"] = contexts = read_contexts(table, ("contexts",), source)
    spaces = {"context_kernel": space_of(contexts), "robust_kernel": space_of(actions)}
    for key, space in spaces.items():
        if key in options:
            options[key] = read_kernel(options[key], (*keys, key), source, space=space)
    if "shares" in data:
        options["shares"] = _shares(data["shares"], actions, source)
    kernel = read_kernel(data.get("kernel", "auto"), ("kernel",), source, space=space_of(actions))
    try:
        return make(actions, kernel, rng=seed, **options)  # type: ignore[no-any-return]
    except Exception as error:
        tables = ("actions", "kernel", "contexts", "shares")
        named = any(str(error).startswith(f"`{table}`") for table in tables)
        with pointing(source, () if named else keys, said | dict.fromkeys(tables)):
            raise


def _shares(shares: Any, actions: ActionSet, source: Source) -> dict[Any, Any]:
    """Least and largest share of some actions, from one table each."""
    if not isinstance(shares, list):
        raise source.error(("shares",), f"must be tables, written as [[shares]], got {shares!r}")
    limits: dict[Any, Any] = {}
    for k, given in enumerate(shares):
        keys = ("shares", k)
        share = table_at(given, keys, source)
        only(share, ("rows", "params", "low", "high"), keys, "[[shares]]", source)
        if ("rows" in share) == ("params" in share):
            raise source.error(keys, "must have rows or params, one of them")
        rows = share.get("rows")
        if "params" in share:
            if not isinstance(actions, SpacePoints):
                raise source.error((*keys, "params"), "must be rows where actions have no names")
            params = share["params"]
            several = params if isinstance(params, list) else [params]
            with pointing(source, keys, share):
                rows = [actions.find(one) for one in several]
        group = tuple(rows) if isinstance(rows, list) else rows
        if not all(type(row) is int for row in (group if isinstance(group, tuple) else [group])):
            raise source.error((*keys, "rows"), f"must be whole numbers, got {rows!r}")
        if group in limits:
            raise source.error(keys, f"must be of others than those before, got {group} again")
        limits[group] = (share.get("low", 0.0), share.get("high", 1.0))
    return limits
