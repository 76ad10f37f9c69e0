"""From a spec to the objects of a game. What is wrong with a value is said with the line and the key."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from koloss._arrays import as_float, to_numpy
from koloss.actions import ActionSet, Ball, Box
from koloss.experiments.spec import ACTIONS, ADVERSARIES, LEARNERS, Experiment, LearnerSpec, Source
from koloss.games import Adversary
from koloss.kernels import Kernel


def kernel_of(experiment: Experiment, learner: LearnerSpec | None = None) -> Kernel:
    """The kernel of the game, or the learner's own."""
    data, keys = experiment.kernel, ("game", "kernel")
    if learner is not None and learner.kernel is not None:
        data, keys = learner.kernel, (*_place(experiment, learner), "kernel")
    with _pointing(experiment.source, keys, data):
        return Kernel.from_dict(data)


def actions_of(experiment: Experiment) -> ActionSet:
    """The actions, or a net of them where the spec has a `net`."""
    with _pointing(experiment.source, ("game", "actions"), experiment.actions):
        return _actions(json.dumps(experiment.actions))


@lru_cache(maxsize=16)
def _actions(text: str) -> ActionSet:
    data = json.loads(text)
    kind, net = data.pop("kind", None), data.pop("net", None)
    if kind not in ACTIONS:
        raise ValueError(f"`kind` must be one of {', '.join(ACTIONS)}, got {kind!r}")
    try:
        found: ActionSet = ACTIONS[kind](**data)
    except TypeError as error:
        unknown = re.search(r"argument '(\w+)'", str(error))
        if unknown is None or "unexpected" not in str(error):
            raise
        raise ValueError(f"`{unknown[1]}` is not a key of {kind}") from error
    return found if net is None else found.net(as_float("net", net, positive=True))


def adversary_of(
    experiment: Experiment, learner: LearnerSpec, rounds: int, rng: np.random.Generator
) -> Adversary:
    """The adversary against one learner."""
    data = experiment.adversary
    kind, options = data["kind"], {k: v for k, v in data.items() if k != "kind"}
    kernel, actions = kernel_of(experiment, learner), actions_of(experiment)
    with _pointing(experiment.source, ("adversary",), data):
        if kind == "python":
            make = _function(experiment.source, options["file"], options.get("make", "make"))
            found = make(kernel, actions, rng)
            if not isinstance(found, Adversary):
                raise TypeError(f"`make` must give an Adversary, got {type(found).__name__}")
            return found
        if kind == "replay":
            return ADVERSARIES[kind](**options | {"table": _beside(experiment, options["table"])})  # type: ignore[no-any-return]
        if kind == "rank-one":
            if options.get("points", "uniform") == "uniform":
                options["points"] = to_numpy(actions.sample(rounds, rng))
            return ADVERSARIES[kind](kernel, actions, **options)  # type: ignore[no-any-return]
        return ADVERSARIES[kind](kernel, actions, rng=rng, **options)  # type: ignore[no-any-return]


def learner_of(
    experiment: Experiment,
    learner: LearnerSpec,
    rounds: int,
    rng: np.random.Generator | None = None,
    **changes: Any,
) -> Any:
    """A learner, before its first round."""
    kernel, actions = kernel_of(experiment, learner), actions_of(experiment)
    options = {"horizon": None if learner.anytime else rounds, **learner.options, **changes}
    with _pointing(experiment.source, _place(experiment, learner), learner.options):
        return LEARNERS[learner.kind](actions, kernel=kernel, rng=rng, **options)


def check(experiment: Experiment, rounds: int) -> None:
    """Make everything once, so that what is wrong is found before the first run.

    Raises
    ------
    SpecError
        With the line and the key.
    """
    kernel_of(experiment)
    actions = actions_of(experiment)
    if experiment.picture is not None and (
        not isinstance(actions, (Ball, Box)) or actions.dimension != 2
    ):
        raise experiment.source.error(
            ("game", "actions"), f"must be a Ball or a Box of two dimensions for a picture, got {actions!r}"
        )  # fmt: skip
    for learner in experiment.learners:
        made = learner_of(experiment, learner, rounds)
        foe = adversary_of(experiment, learner, rounds, np.random.default_rng(0))
        where = (*_place(experiment, learner), "play")
        if learner.batch == "rank" and not hasattr(made, "setup"):
            raise experiment.source.error(
                (*where, "batch"), f'must be a number for {learner.kind}, got "rank"'
            )
        if learner.batch != 1 and not foe.oblivious:
            kind = experiment.adversary["kind"]
            raise experiment.source.error(
                (*where, "batch"), f"must be 1 against {kind}, which looks at the player"
            )


def files_of(experiment: Experiment) -> list[Path]:
    """Files that a spec names."""
    names = [experiment.adversary[key] for key in ("file", "table") if key in experiment.adversary]
    return [_beside(experiment, name) for name in names]


def _beside(experiment: Experiment, name: str) -> Path:
    return Path(experiment.source.path).parent / name


def _function(source: Source, file: str, name: str) -> Any:
    path = Path(source.path).parent / file
    if not path.is_file():
        raise ValueError(f"`file` must be a Python file beside the spec, got {file!r}")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise ValueError(f"`make` must be a function of {file}, got {name!r}")
    return getattr(module, name)


def _place(experiment: Experiment, learner: LearnerSpec) -> tuple[Any, ...]:
    return ("learner", [other.slug for other in experiment.learners].index(learner.slug))


@contextmanager
def _pointing(source: Source, keys: tuple[Any, ...], data: dict[str, Any]) -> Iterator[None]:
    """Turn an error of a constructor, which names the argument, into one that points at its line."""
    try:
        yield
    except (TypeError, ValueError, OSError) as error:
        named = re.match(r"`(\w+)`:? ?(.*)", str(error), re.DOTALL)
        if named and (named[1] in data or named[1] == "kind"):
            raise source.error((*keys, named[1]), named[2]) from error
        raise source.error(keys, str(error)) from error
