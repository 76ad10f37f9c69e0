"""Experiments as small TOML files, read with errors that point at the line and the key.

    title = "Quadratic losses on a ball"

    [game]
    kernel = {kind = "Quadratic"}
    actions = {kind = "Ball", dimension = 3}
    rounds = 1000
    runs = 20

    [adversary]
    kind = "biased"

    [[learner]]
    kind = "ExpWeights"
    loss_norm = 1.0

The keys of `kernel`, `actions`, `[adversary]` and `[[learner]]` beside `kind` are the arguments of the classes.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from koloss import games, learners
from koloss.actions import ActionSet
from koloss.actions.described import read_actions
from koloss.core.arrays import shown
from koloss.core.text import LONGEST_NAME, hidden, slugs
from koloss.core.toml import Source, hint, one_of, only, pointing, read_text, read_toml
from koloss.games import adversaries, watching
from koloss.kernels import Kernel
from koloss.kernels.described import read_kernel
from koloss.learners import Learner

LEARNERS: dict[str, Any] = {
    name: kind
    for name in learners.__all__
    for kind in [getattr(learners, name)]
    if isinstance(kind, type) and issubclass(kind, Learner) and kind is not Learner
}
ADVERSARIES: dict[str, Any] = {
    re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower(): kind
    for module in (adversaries, watching)
    for name, kind in vars(module).items()
    if name in games.__all__ and name not in ("Adversary", "Function", "Stalker")
}
"""By the name that a spec gives them; "python" is the user's own. The stalker has to know the rates of its one player."""

RUNS = 20
"""Runs of a game where a spec does not say."""

_GIVEN = ("self", "actions", "kernel", "horizon", "rng", "heights")
"""Arguments that are not for a spec to say."""

MOST_ROUNDS, MOST_RUNS = 10**9, 10**6
"""Of a game."""

LONGEST_TITLE = 300
"""In characters, as for names."""

Count = Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]
Runs = Annotated[int, Meta(ge=1, le=MOST_RUNS)]


# What a spec says.


class Play(Struct, frozen=True, forbid_unknown_fields=True):
    """How the game of a learner is played."""

    batch: Any = 1  # rounds that are played at once; "rank" is the number of features, with a ridge the effective one
    delay: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)] = 0  # rounds after which losses are told


class LearnerSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[learner]]`: a class, its arguments, and how its game is played."""

    name: str
    kind: str  # of `LEARNERS`
    options: dict[str, Any] = {}  # arguments of the class
    kernel: dict[str, Any] | None = None  # of its own; then the adversary plays in its space
    anytime: bool = False  # without a horizon
    play: Play = Play()
    slug: str = ""  # of its folder, by which its seeds are made, too; from `name` if not given

    def __post_init__(self) -> None:
        if not self.slug:
            msgspec.structs.force_setattr(self, "slug", slugs([self.name])[self.name])


class Picture(Struct, frozen=True, forbid_unknown_fields=True):
    """`[picture]`: draws from exp(-η Σ K(x, z_i)) over the density, in place of a game."""

    centers: Runs  # number of the z_i, uniform on the actions
    learning_rate: Annotated[float, Meta(gt=0)]  # η
    draws: Runs = 1500
    chains: Runs = 20
    steps: Runs = 20  # between two draws of a chain


@dataclass(frozen=True)
class Experiment:
    """What a spec says."""

    name: str  # of the file, without its ending
    title: str
    kernel: dict[str, Any]  # with its "kind", as are actions and adversary
    actions: dict[str, Any]
    source: Source
    paper: str = ""  # where in the paper it is; for readers of the report, as are the next two
    text: str = ""  # what is played
    shows: str = ""  # what it shows
    rounds: int = 1
    runs: int = 1
    full: tuple[int, int] = (1, 1)  # rounds and runs at full size
    adversary: dict[str, Any] = field(default_factory=dict)
    learners: tuple[LearnerSpec, ...] = ()
    picture: Picture | None = None
    horizons: tuple[int, ...] = ()  # at which rank and guarantee are compared, without playing


# The file, table by table.


class _Game(Struct, forbid_unknown_fields=True):
    kernel: dict[str, Any]
    actions: dict[str, Any]
    rounds: Count | None = None
    runs: Runs = RUNS


class _Full(Struct, forbid_unknown_fields=True):
    rounds: Count | None = None
    runs: Runs | None = None


class _Dimension(Struct, forbid_unknown_fields=True):
    horizons: list[Annotated[int, Meta(ge=2, le=MOST_ROUNDS)]] = []


class _Adversary(Struct):
    kind: str
    options: dict[str, Any]


class _File(Struct, forbid_unknown_fields=True):
    game: _Game
    title: str = ""
    paper: str = ""
    text: str = ""
    shows: str = ""
    adversary: _Adversary | None = None
    learner: list[LearnerSpec] = []
    full: _Full = msgspec.field(default_factory=_Full)
    dimension: _Dimension = msgspec.field(default_factory=_Dimension)
    picture: Picture | None = None


_TABLES: dict[tuple[str, ...], type[Struct]] = {
    ("game",): _Game,
    ("full",): _Full,
    ("dimension",): _Dimension,
    ("picture",): Picture,
    ("learner", "play"): Play,
}
"""Which keys a table may have."""

_LEARNER_KEYS = ("name", "kind", "kernel", "anytime", "play")
"""Of a `[[learner]]`; the others are arguments of its class."""


# The specs in the package.


def shipped() -> list[str]:
    """Names of the experiments that come with the package, in order.

    Examples
    --------
    >>> from koloss.experiments import shipped
    >>> shipped()[:2]
    ['quadratic-full-information', 'gaussian-full-information']
    """
    return list(_texts())


def _texts() -> dict[str, Any]:
    """Files of the specs by their names, in the order of their numbers."""
    files = (resources.files("koloss.experiments") / "specs").iterdir()
    ordered = sorted((file.name, file) for file in files if file.name.endswith(".toml"))
    return {name.partition("-")[2].removesuffix(".toml"): file for name, file in ordered}


def spec_text(name: str) -> str:
    """The TOML of an experiment that comes with the package."""
    known = _texts()
    if name not in known:
        raise ValueError(f"`name` must be an experiment, got {name!r}; {hint(name, known)}")
    text: str = known[name].read_text(encoding="utf-8")
    return text


def load(spec: str | Path) -> Experiment:
    """Read a spec: a file that ends in .toml, or the name of an experiment that comes with the package.

    A mistake in it is a `SpecError` with the file, the line and the key.

    Examples
    --------
    >>> from koloss.experiments import load
    >>> load("quadratic-bandit").learners[0].kind
    'BanditExpWeights'
    """
    if str(spec).endswith(".toml"):
        path = Path(spec)
        return parse(read_text(path), name=path.stem, path=str(path))
    return parse(spec_text(str(spec)), name=str(spec), path=f"{spec}.toml")


# Reading.


def parse(text: str, *, name: str, path: str = "spec") -> Experiment:
    """The experiment that a TOML text describes; files that it names are looked for beside `path`."""
    source = Source(path, text)
    data = read_toml(source)
    if "picture" in data:  # in place of a game
        only(data, ("title", "paper", "text", "shows", "game", "picture"), (), "a spec", source)
        if isinstance(data.get("game"), dict):
            only(data["game"], ("kernel", "actions"), ("game",), "[game]", source)
    file = _decode(_with_options(data, source), source)
    game, full = file.game, file.full
    rounds, runs, adversary = 1, 1, dict[str, Any]()  # of a picture
    if file.picture is None:
        if game.rounds is None:
            raise source.error(("game",), "`rounds` is missing in [game]")
        if file.adversary is None or not file.learner:
            key = "learner" if file.adversary else "adversary"
            raise source.error((), f"`{key}` is missing in the file")
        rounds, runs, adversary = game.rounds, game.runs, _adversary(file.adversary, source)
    return Experiment(
        name=slugs([name])[name],
        title=_short(" ".join(file.title.split()) or name, LONGEST_TITLE, ("title",), source),
        kernel=game.kernel,
        actions=game.actions,
        source=source,
        paper=" ".join(file.paper.split()),
        text=file.text.strip(),
        shows=file.shows.strip(),
        rounds=rounds,
        runs=runs,
        full=(full.rounds or rounds, full.runs or runs),
        adversary=adversary,
        learners=_learners(file.learner, source),
        picture=file.picture,
        horizons=tuple(file.dimension.horizons),
    )


def _short(text: str, most: int, keys: tuple[Any, ...], source: Source) -> str:
    if not 1 <= len(text) <= most:
        raise source.error(keys, f"must have 1 to {most:,} characters, got {len(text):,}")
    if hidden(text):
        raise source.error(keys, f"must have no control characters, got {text!a}")
    return text


def _with_options(data: dict[str, Any], source: Source) -> dict[str, Any]:
    """The same, with the arguments of classes in tables of their own."""
    data = dict(data)
    if isinstance(data.get("adversary"), dict):
        data["adversary"] = _split(data["adversary"], ("kind",))
    tables = data.get("learner")
    if tables is not None:
        if not (tables and isinstance(tables, list) and all(isinstance(t, dict) for t in tables)):
            raise source.error(("learner",), "must be one or more tables, written as [[learner]]")
        named = [{"name": str(table.get("kind", "")), **table} for table in tables]
        data["learner"] = [_split(table, _LEARNER_KEYS) for table in named]
    return data


def _split(table: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    options = {key: value for key, value in table.items() if key not in keys}
    return {key: value for key, value in table.items() if key in keys} | {"options": options}


def _adversary(table: _Adversary, source: Source) -> dict[str, Any]:
    keys, kind, options = ("adversary",), table.kind, table.options
    one_of(kind, [*ADVERSARIES, "python"], keys, source)
    needed = {"python": "file", "replay": "table"}.get(kind)
    allowed = ["file", "make"] if kind == "python" else _arguments(ADVERSARIES[kind])
    whose = "[adversary]" if kind == "python" else f"the {kind} adversary"
    only(options, [*allowed, "kind"], keys, whose, source)
    if needed is not None and needed not in options:
        raise source.error(keys, f"`{needed}` is missing in [adversary]")
    for name in ("file", "make", "table"):
        if name in options and not isinstance(options[name], str):
            raise source.error((*keys, name), f"must be a string, got {options[name]!r}")
    return {"kind": kind, **options}


def _learners(tables: list[LearnerSpec], source: Source) -> tuple[LearnerSpec, ...]:
    folders = slugs(learner.name for learner in tables)
    named: list[LearnerSpec] = []
    for i, learner in enumerate(tables):
        keys, batch = ("learner", i), learner.play.batch
        one_of(learner.kind, LEARNERS, keys, source)
        allowed = [*_arguments(LEARNERS[learner.kind]), *_LEARNER_KEYS]
        only(learner.options, allowed, keys, learner.kind, source)
        if batch != "rank" and not (type(batch) is int and 1 <= batch <= MOST_ROUNDS):
            problem = f'must be a positive whole number or "rank", got {batch!r}'
            raise source.error((*keys, "play", "batch"), problem)
        name = _short(learner.name.strip() and learner.name, LONGEST_NAME, (*keys, "name"), source)
        if name in (other.name for other in named):
            problem = f"must differ from the other learners', got {name!r}"
            raise source.error((*keys, "name"), problem)
        named.append(msgspec.structs.replace(learner, slug=folders[name]))
    return tuple(named)


def _arguments(kind: Any) -> list[str]:
    """What may be set of a class, beside what the game gives."""
    return [name for name in inspect.signature(kind.__init__).parameters if name not in _GIVEN]


_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false", "object": "a table", "array": "an array"}  # fmt: skip


def _decode(data: dict[str, Any], source: Source) -> _File:
    """The types of a spec, or an error in words that point at the line and the key."""
    try:
        return msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
    keys = tuple(int(key) if key.isdigit() else key for key in re.findall(r"\w+", place))
    value: Any = data
    for key in keys:
        value = value[key]
    where = f"[{'.'.join(key for key in keys if isinstance(key, str))}]" if keys else "the file"
    if absent := re.search("missing required field `(.*)`", problem):
        raise source.error(keys, f"`{absent[1]}` is missing in {where}")
    if "unknown field" in problem:
        table = _TABLES.get(tuple(key for key in keys if isinstance(key, str)), _File)
        only(value, table.__struct_fields__, keys, where if keys else "a spec", source)
    if limit := re.search("([<>])(=?) ?([0-9]+)", problem.replace(" ", "")):
        rule = "most" if limit[1] == "<" else "least"
        rule = f"at {rule} {int(limit[3]):,}" if limit[2] else "positive"
        raise source.error(keys, f"must be {rule}, got {value}")
    expected = re.search("Expected `([a-z]+)", problem)
    words = _WORDS.get(expected[1], expected[1]) if expected else problem
    raise source.error(keys, f"must be {words}, got {shown(value)}")


# The objects of a game.


def kernel_of(experiment: Experiment, learner: LearnerSpec | None = None) -> Kernel:
    """The kernel of the game, or the learner's own."""
    data, keys = experiment.kernel, ("game", "kernel")
    if learner is not None and learner.kernel is not None:
        data, keys = learner.kernel, (*place_of(experiment, learner), "kernel")
    made = read_kernel(data, keys, experiment.source)
    assert isinstance(made, Kernel)  # a spec has a table there
    return made


def actions_of(experiment: Experiment) -> ActionSet:
    """The actions, or a net of them where the spec has a `net`."""
    return _actions(json.dumps(experiment.actions, default=str), experiment.source)


@lru_cache(maxsize=16)
def _actions(text: str, source: Source) -> ActionSet:
    return read_actions(json.loads(text), ("game", "actions"), source)


def learner_of(
    experiment: Experiment, learner: LearnerSpec, rounds: int, rng: np.random.Generator | None = None, **changes: Any
) -> Any:  # fmt: skip
    """A learner, before its first round."""
    kernel, actions = kernel_of(experiment, learner), actions_of(experiment)
    options = {"horizon": None if learner.anytime else rounds, **learner.options, **changes}
    with pointing(experiment.source, place_of(experiment, learner), learner.options):
        return LEARNERS[learner.kind](actions, kernel=kernel, rng=rng, **options)


def place_of(experiment: Experiment, learner: LearnerSpec) -> tuple[Any, ...]:
    """Where a learner stands in the spec."""
    return ("learner", [other.name for other in experiment.learners].index(learner.name))


def catalogue() -> dict[str, list[dict[str, str]]]:
    """Experiments, learners, adversaries, kernels and action sets, each with a line about it.

    Examples
    --------
    >>> from koloss.experiments import catalogue
    >>> [entry["name"] for entry in catalogue()["adversaries"]][:3]
    ['random', 'biased', 'drifting']
    """
    python = "Your own: a function (kernel, actions, rng) -> Adversary in a Python `file`."
    return {
        "experiments": [{"name": name, "about": load(name).title} for name in shipped()],
        "learners": [_entry(name, kind) for name, kind in LEARNERS.items()],
        "adversaries": [
            *(_entry(name, kind) for name, kind in ADVERSARIES.items()),
            {"name": "python", "about": python},
        ],
        "kernels": [_entry(name, kind) for name, kind in Kernel.kinds().items()],
        "actions": [_entry(name, kind) for name, kind in ActionSet.kinds().items()],
    }


def _entry(name: str, kind: Any) -> dict[str, str]:
    return {"name": name, "about": (inspect.getdoc(kind) or "").partition("\n")[0]}
