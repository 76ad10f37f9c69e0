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

import difflib
import inspect
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from koloss import actions as action_sets
from koloss import games
from koloss.errors import KolossError
from koloss.learners import (
    BanditExpWeights,
    ConditionalGradient,
    ExpWeights,
    FollowTheRegularizedLeader,
    InsuredBandit,
)

LEARNERS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        BanditExpWeights,
        InsuredBandit,
        ExpWeights,
        ConditionalGradient,
        FollowTheRegularizedLeader,
    )
}
ACTIONS: dict[str, Any] = {name: getattr(action_sets, name) for name in action_sets.__all__[1:]}
ADVERSARIES: dict[str, Any] = {
    "random": games.Random,
    "biased": games.Biased,
    "drifting": games.Drifting,
    "switching": games.Switching,
    "alternating": games.Alternating,
    "rank-one": games.RankOne,
    "predictive": games.Predictive,
    "lure": games.Lure,
    "replay": games.Replay,
}
"""By the name that a spec gives them; "python" is the user's own."""

RUNS = 20
"""Runs of a game where a spec does not say."""

_GIVEN = (
    "self",
    "actions",
    "kernel",
    "horizon",
    "rng",
)  # what the game gives to a learner or an adversary
_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "a string", bool: "true or false", dict: "a table", list: "an array"}  # fmt: skip


class SpecError(KolossError, ValueError):
    """A mistake in a spec.

    Attributes
    ----------
    path : str
        File.
    line : int
        Line of the file, from 1.
    key : str
        Key, with the tables it is in.
    problem : str
        What is wrong with it.
    """

    def __init__(self, path: str, line: int, key: str, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {key + ': ' if key else ''}{problem}")
        self.path, self.line, self.key, self.problem = path, line, key, problem


@dataclass(frozen=True)
class Source:
    """Where a spec comes from: its name and its text."""

    path: str
    text: str

    def error(self, keys: tuple[Any, ...], message: str) -> SpecError:
        """The error at a key, or at the nearest table around it that is in the text."""
        lines = _lines(self.text)
        near = next((keys[:k] for k in range(len(keys), 0, -1) if keys[:k] in lines), ())
        words = [f"{k}[{i + 1}]" if isinstance(i, int) else str(k) for k, i in _pairs(keys)]
        return SpecError(self.path, lines.get(near, 1), ".".join(words), message)


@dataclass(frozen=True)
class LearnerSpec:
    """One `[[learner]]`: a class, its arguments, and how its game is played.

    Attributes
    ----------
    name : str
    kind : str
        Of `LEARNERS`.
    options : dict
        Arguments of the class.
    kernel : dict or None
        A kernel of its own; then the adversary plays in its space.
    anytime : bool
        Without a horizon.
    batch : int or "rank"
        Rounds that are played at once; "rank" is the number of features.
    delay : int
        Rounds after which losses are told.
    """

    name: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    kernel: dict[str, Any] | None = None
    anytime: bool = False
    batch: Any = 1
    delay: int = 0

    @property
    def slug(self) -> str:
        """Name of its folder."""
        return slug(self.name)


@dataclass(frozen=True)
class Picture:
    """`[picture]`: draws from exp(-η Σ K(x, z_i)) over the density, in place of a game.

    Attributes
    ----------
    centers : int
        Number of the z_i, uniform on the actions.
    learning_rate : float
        η.
    draws, chains, steps : int
        Draws of the sampler, and the chains and steps between two draws of one.
    """

    centers: int
    learning_rate: float
    draws: int = 1500
    chains: int = 20
    steps: int = 20


@dataclass(frozen=True)
class Experiment:
    """What a spec says.

    Attributes
    ----------
    name : str
        Name of the file, without its ending.
    title : str
    paper, text, shows : str
        Where in the paper it is; what is played; what it shows. For readers of the report.
    kernel, actions, adversary : dict
        With their "kind".
    rounds, runs : int
    full : (int, int)
        Rounds and runs at full size.
    learners : tuple of LearnerSpec
    picture : Picture or None
    horizons : tuple of int
        Horizons at which the rank and the guarantee of bandit learners are compared, without playing.
    source : Source
    """

    name: str
    title: str
    kernel: dict[str, Any]
    actions: dict[str, Any]
    source: Source
    paper: str = ""
    text: str = ""
    shows: str = ""
    rounds: int = 1
    runs: int = 1
    full: tuple[int, int] = (1, 1)
    adversary: dict[str, Any] = field(default_factory=dict)
    learners: tuple[LearnerSpec, ...] = ()
    picture: Picture | None = None
    horizons: tuple[int, ...] = ()


def slug(name: str) -> str:
    """A name for a folder: letters, digits and hyphens.

    Examples
    --------
    >>> slug("Matérn 1/2, the paper's rate")
    'matern-1-2-the-papers-rate'
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().replace("'", "")
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-") or "unnamed"


# The specs in the package.


def shipped() -> list[str]:
    """Names of the experiments that come with the package, in order.

    Examples
    --------
    >>> from koloss.experiments import shipped
    >>> shipped()[:2]
    ['quadratic-full-information', 'gaussian-full-information']
    """
    folder = resources.files("koloss.experiments") / "specs"
    files = sorted(item.name for item in folder.iterdir() if item.name.endswith(".toml"))
    return [name.partition("-")[2].removesuffix(".toml") for name in files]


def spec_text(name: str) -> str:
    """The TOML of an experiment that comes with the package."""
    folder = resources.files("koloss.experiments") / "specs"
    for item in folder.iterdir():
        if item.name.partition("-")[2] == f"{name}.toml":
            return item.read_text(encoding="utf-8")
    known = shipped()
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(known)}"
    raise ValueError(f"`name` must be an experiment, got {name!r}{hint}")


def load(spec: str | Path) -> Experiment:
    """Read a spec.

    Parameters
    ----------
    spec : str or Path
        A file that ends in .toml, or the name of an experiment that comes with the package.

    Raises
    ------
    SpecError
        With the file, the line and the key.

    Examples
    --------
    >>> from koloss.experiments import load
    >>> load("quadratic-bandit").learners[0].kind
    'BanditExpWeights'
    """
    if str(spec).endswith(".toml"):
        path = Path(spec)
        return parse(path.read_text(encoding="utf-8"), name=path.stem, path=str(path))
    return parse(spec_text(str(spec)), name=str(spec), path=f"{spec}.toml")


# Reading.


def parse(text: str, *, name: str, path: str = "spec") -> Experiment:
    """The experiment that a text describes.

    Parameters
    ----------
    text : str
        TOML.
    name : str
        Of the experiment.
    path : str
        For errors, and where files that the spec names are looked for.
    """
    source = Source(path, text)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at line (\d+)", str(error))
        message, line = (found[1], int(found[2])) if found else (str(error), text.count("\n") + 1)
        message = message.removesuffix(" (at end of document)")
        raise SpecError(path, line, "", message[:1].lower() + message[1:]) from error
    top = _Table(data, (), source)
    words = {key: " ".join(top.take(key, str, "").split()) for key in ("title", "paper")}
    texts = {key: top.take(key, str, "").strip() for key in ("text", "shows")}
    game = top.table("game")
    kernel, actions = game.take("kernel", dict), game.take("actions", dict)
    common = {
        "name": slug(name),
        "title": words["title"] or name,
        "paper": words["paper"],
        **texts,
        "kernel": kernel,
        "actions": actions,
        "source": source,
    }
    if "picture" in data:
        picture = _picture(top.table("picture"))
        game.done()
        top.done()
        return Experiment(**common, picture=picture)
    rounds, runs = game.whole("rounds"), game.whole("runs", RUNS)
    full = top.table("full", optional=True)
    size = full.whole("rounds", rounds), full.whole("runs", runs)
    adversary = _adversary(top.table("adversary"))
    learners = _learners(top)
    horizons = top.table("dimension", optional=True)
    found_horizons = tuple(horizons.take("horizons", list, []))
    for i, n in enumerate(found_horizons):
        if isinstance(n, bool) or not isinstance(n, int) or n < 2:
            raise source.error(
                ("dimension", "horizons"),
                f"must hold whole numbers of at least 2, got {n!r} at place {i + 1}",
            )
    for table in (game, full, horizons, top):
        table.done()
    return Experiment(
        **common,
        rounds=rounds,
        runs=runs,
        full=size,
        adversary=adversary,
        learners=learners,
        horizons=found_horizons,
    )


def _picture(table: _Table) -> Picture:
    rate = float(table.take("learning_rate", float))
    if not rate > 0:
        raise table.error("learning_rate", f"must be positive, got {rate:g}")
    found = Picture(
        table.whole("centers"),
        rate,
        table.whole("draws", Picture.draws),
        table.whole("chains", Picture.chains),
        table.whole("steps", Picture.steps),
    )
    table.done()
    return found


def _adversary(table: _Table) -> dict[str, Any]:
    kind = table.one_of("kind", [*ADVERSARIES, "python"])
    options = {key: value for key, value in table.data.items() if key != "kind"}
    if kind == "python":
        table.take("file", str)
        table.take("make", str, "make")
        table.done()
    else:
        allowed = _arguments(ADVERSARIES[kind])
        table.only([*allowed, "kind"], f"the {kind} adversary")
        if kind == "replay":
            table.take("table", str)
    return {"kind": kind, **options}


def _learners(top: _Table) -> tuple[LearnerSpec, ...]:
    tables = top.take("learner", list)
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise top.error("learner", "must be one or more tables, written as [[learner]]")
    found: list[LearnerSpec] = []
    for i, data in enumerate(tables):
        table = _Table(data, ("learner", i), top.source)
        kind = table.one_of("kind", LEARNERS)
        play = table.table("play", optional=True)
        batch = play.take("batch", (int, str), 1)
        if batch != "rank" and not (isinstance(batch, int) and batch >= 1):
            raise play.error("batch", f'must be a positive whole number or "rank", got {batch!r}')
        delay = play.whole("delay", 0, minimum=0)
        play.done()
        own = ("name", "kind", "kernel", "anytime", "play")
        table.only([*_arguments(LEARNERS[kind]), *own], kind)
        learner = LearnerSpec(
            name=table.take("name", str, kind),
            kind=kind,
            options={key: value for key, value in data.items() if key not in own},
            kernel=table.take("kernel", dict, None),
            anytime=table.take("anytime", bool, False),
            batch=batch,
            delay=delay,
        )
        if learner.slug in [other.slug for other in found]:
            raise table.error("name", f"must differ from the other learners', got {learner.name!r}")
        found.append(learner)
    return tuple(found)


def _arguments(kind: Any) -> list[str]:
    """What may be set of a class, beside what the game gives."""
    return [name for name in inspect.signature(kind.__init__).parameters if name not in _GIVEN]


class _Table:
    """A table of the file, and where it is."""

    def __init__(self, data: dict[str, Any], keys: tuple[Any, ...], source: Source) -> None:
        self.data, self.keys, self.source = data, keys, source
        self.seen: set[str] = set()

    def error(self, key: str, message: str) -> SpecError:
        return self.source.error((*self.keys, key), message)

    def take(self, key: str, kind: Any, *default: Any) -> Any:
        """The value of a key, of the kind named; an error where it is missing and has no default."""
        self.seen.add(key)
        if key not in self.data:
            if default:
                return default[0]
            where = f"[{self.keys[0]}]" if self.keys else "the file"
            raise self.source.error(self.keys, f"`{key}` is missing in {where}")
        value = self.data[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        fits = isinstance(value, (*kinds, int) if float in kinds else kinds)
        if not fits or (isinstance(value, bool) and bool not in kinds):
            words = " or ".join(_WORDS[k] for k in kinds)
            raise self.error(key, f"must be {words}, got {value!r}")
        return value

    def whole(self, key: str, *default: int, minimum: int = 1) -> int:
        value = self.take(key, int, *default)
        if value < minimum:
            raise self.error(key, f"must be at least {minimum}, got {value}")
        return int(value)

    def one_of(self, key: str, names: Iterable[str]) -> str:
        value: str = self.take(key, str)
        if value not in names:
            raise self.error(key, f"must be one of {', '.join(names)}, got {value!r}")
        return value

    def table(self, key: str, *, optional: bool = False) -> _Table:
        data = self.take(key, dict, *([{}] if optional else []))
        return _Table(data, (*self.keys, key), self.source)

    def only(self, allowed: list[str], whose: str) -> None:
        """Refuse keys that are not allowed."""
        for key in self.data:
            if key not in allowed:
                close = difflib.get_close_matches(key, allowed, 1)
                hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(allowed)}"
                raise self.error(key, f"is not a key of {whose}; {hint}")

    def done(self) -> None:
        """Refuse keys that nobody has asked for."""
        self.only(
            sorted(self.seen), f"[{'.'.join(map(str, self.keys))}]" if self.keys else "a spec"
        )


# Lines.

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-]+)\s*=(.*)$")
_INNER = re.compile(r"[{,]\s*([A-Za-z0-9_\-]+)\s*=")


def _lines(text: str) -> dict[tuple[Any, ...], int]:
    """Line of every key of a TOML text: tables, keys, and keys of inline tables."""
    found: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    counts: dict[str, int] = {}
    quotes = None  # that a string of several lines ends with
    for number, line in enumerate(text.splitlines(), 1):
        if quotes is not None:
            quotes = None if quotes in line else quotes
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            names = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                counts[header[2]] = counts.get(header[2], -1) + 1
                found.setdefault(names, number)
                names = (*names, counts[header[2]])
            table = names
            found.setdefault(table, number)
        elif key:
            keys = (*table, *key[1].split("."))
            found.setdefault(keys, number)
            for inner in _INNER.findall(key[2]):
                found.setdefault((*keys, inner), number)
            for mark in ('"""', "'''"):
                if key[2].count(mark) % 2:
                    quotes = mark
    return found


def _pairs(keys: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Each name with the number that follows it, if one does."""
    return [(k, i) for k, i in pairwise([*keys, None]) if not isinstance(k, int)]
