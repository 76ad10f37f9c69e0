"""Strategies for specs with mistakes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import hypothesis.strategies as st

from koloss.experiments import shipped, spec_text

OTHERS = (
    """\
[game]
kernel = {kind = "Sum", parts = [{kind = "Linear"}, {kind = "Matern", smoothness = 1.5, lengthscale = 0.3}]}
actions = {kind = "Points", X = [[0.0, 0.5], [0.5, 0.25], [1.0, 1.0]]}
rounds = 30
[adversary]
kind = "replay"
table = "losses.csv"
bound = 1.0
[[learner]]
name = "insured"
kind = "InsuredBandit"
loss_range = [-1.0, 1.0]
[[learner]]
kind = "FollowTheRegularizedLeader"
anytime = true
play = {delay = 3}
""",
    """\
[game]
kernel = {kind = "Polynomial", degree = 2, offset = 0.5}
actions = {kind = "Box", lower = [0.0, 0.0], upper = [1.0, 2.0], net = 0.5}
rounds = 30
runs = 2
[full]
rounds = 60
[adversary]
kind = "predictive"
norm = 0.5
[[learner]]
name = "first"
kind = "BanditExpWeights"
loss_range = [-1.0, 1.0]
design = "john"
tuning = "optimal"
[[learner]]
name = "second"
kind = "ExpWeights"
kernel = {kind = "Periodic", lengthscale = 0.5, period = 1.0}
""",
    """\
title = "Code"
[game]
kernel = {kind = "Quadratic"}
actions = {kind = "PositiveBall", dimension = 2, radius = 1.0, lower = 0.1}
rounds = 30
[adversary]
kind = "python"
file = "own.py"
make = "make"
[[learner]]
kind = "ConditionalGradient"
""",
)
OWN = """\
import koloss as kl

def make(kernel, actions, rng):
    return kl.games.Random(kernel, actions, rng=rng)
"""

BAD: tuple[str, ...] = (
    "0", "-1", "1", "3", "1e308", "-1e308", "5e-324", "1e400", "nan", "inf", "-inf", "0.5", "true",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", f"1{'0' * 400}", f"1{'0' * 5000}",
    "2024-02-29", "2024-02-29T10:00:00+01:00", "10:30:00", "2024-02-31",
    '""', '"  "', '"x"', '"rank"', '"auto"', '"learn"', '"\\u0000"', '"\\u001b[31m"', '"\\u202e"', '"../../../etc/passwd"', '"$$"', '"日本"',
    "'" + "x" * 10_000 + "'", "[]", "[[]]", "[[], [1]]", "[1, 'x']", "[nan]", "[0.0, 1.0]", "[1.0, 0.0]", "[[0.0, 0.5], [1.0]]",
    "{}", "{kind = 'Gaussian'}", "{kind = 3}", "{kind = 'Ball', dimension = 2}", "{a = {b = {c = 1}}}",
    "[" * 10_000, "[" * 200 + "]" * 200, "{a = " * 10_000, "", "=", "nonsense", "'''", "\x00", "\x7f",
)  # fmt: skip
"""What takes the place of a value, as TOML."""


@cache
def texts() -> list[str]:
    """Specs that are right."""
    return [*map(spec_text, shipped()), *OTHERS]


def leaves(data: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if keys:
        yield keys
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()  # fmt: skip
    for key, value in inner:
        yield from leaves(value, (*keys, key))


def written(data: Any, place: tuple[Any, ...], text: str, here: tuple[Any, ...] = ()) -> str:
    """Data as TOML in one line, with something else at one place."""
    if here == place:
        return text
    if isinstance(data, dict):
        parts = (f"{json.dumps(k)} = {written(v, place, text, (*here, k))}" for k, v in data.items())  # fmt: skip
        return f"{{{', '.join(parts)}}}"
    if isinstance(data, list):
        return f"[{', '.join(written(v, place, text, (*here, k)) for k, v in enumerate(data))}]"
    return "true" if data is True else "false" if data is False else json.dumps(data, ensure_ascii=False)  # fmt: skip


def spec_with(data: dict[str, Any], place: tuple[Any, ...], text: str) -> str:
    """A spec, a line for each key at its top, with something else at one place."""
    lines = (f"{k} = {written(v, place, text, (k,))}" for k, v in data.items())
    return "\n".join(lines) + "\n"


class Text:
    """The bytes of a file, shown from their beginning alone."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __repr__(self) -> str:
        return repr(self.content[:3000])


@st.composite
def specs(draw: Any) -> Text:
    """A spec with another value or another key somewhere."""
    data = tomllib.loads(draw(st.sampled_from(texts())))
    if draw(st.booleans()):
        return Text(_with_keys(draw, data).encode())
    place = draw(st.sampled_from(list(leaves(data))))
    return Text(spec_with(data, place, draw(st.sampled_from(BAD))).encode())


def _with_keys(draw: Any, data: dict[str, Any]) -> str:
    """A key taken away, added, put in the place of another, or repeated with dots."""
    known = [place for place in leaves(data) if isinstance(place[-1], str)]
    *above, key = draw(st.sampled_from(known))
    table: Any = data
    for step in above:
        table = table[step]
    way = draw(st.sampled_from(["less", "more", "swap", "dots"]))
    value = table.pop(key)
    if way == "more":
        table |= {key: value, key + draw(st.sampled_from(["", "s", "\x00", "é"])): value}
    elif way == "swap":
        table[draw(st.sampled_from(known))[-1]] = value
    text = spec_with(data, (), "")
    if way == "dots":
        text = ".".join([json.dumps(key)] * draw(st.integers(1, 2_000))) + " = 1\n" + text
    return text
