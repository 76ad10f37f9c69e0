"""Contexts, params and some of the actions in all forms, and what is none of these; learners that are asked with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

import koloss as kl
from tests.support import inside
from tests.support.calls import Calls
from tests.support.cases import LEARNERS, WITH_CONTEXTS, Case, bandit, insured, number, play
from tests.support.strategies import short

SPACE = kl.Space(
    method=kl.Choice(["lru", "lfu", "random"]),
    size=kl.Int(8, 512, log=True),
    level=kl.Ordinal([1, 2, 3]),
    flag=kl.Choice([False, True, None]),
    depth=kl.Int(1, 4, when={"method": "lru"}),
    decay=kl.Float(0.01, 1.0, log=True, when={"method": ["lfu", "lru"], "flag": True}),
    step=kl.Float(0.0, 1.0, step=0.1),
)
ACTIONS = SPACE.points(24)


def forms_of(contexts: kl.Contexts, row: int) -> dict[str, Any]:
    """One context, in all ways in which it can be given."""
    if contexts.labels is not None:
        given = contexts.labels[row]
        other = np.str_(given) if isinstance(given, str) else np.int64(given)
        return {"a label": given, "a NumPy label": other}
    x = contexts.X[row]
    ways = {"a row": row, "a NumPy row": np.int64(row), "coordinates": x, "a list": x.tolist()}
    if contexts.points is not None:
        named = contexts.points.params[row]
        ways |= {"params": named, "params in another order": dict(reversed(named.items()))}
    return ways


BAD_CONTEXTS: dict[str, Any] = {
    **{repr(x): x for x in ("nobody", "", "A", b"a", True, False, np.True_, 1j, -1, 99, 0.5, 1.5)},
    **{repr(x): x for x in (math.nan, math.inf, np.float64("nan"), np.datetime64("2020"), int)},
    "nothing": None,
    "beyond 64 bits": 10**400,
    "beyond floats": [10**400],
    "an object": object(),
    "no list": [],
    "a list of nothing": [None, None],
    "a dict": {},
    "unknown params": {"nobody": 1},
    "params of NaN": {"x": math.nan, "y": 0.5},
    "params outside": {"x": 2.0, "y": 0.5},
    "params of another kind": {"day": "week", "hour": "6"},
    "what does not matter": {"day": "end", "hour": 6},
    "a set": {0},
    "a slice": slice(1),
    "a generator": (x for x in [0.5, 0.5]),
    "masked": np.ma.masked,
    "complex coordinates": np.array([0.5 + 1j, 0.5]),
    "flags": np.array([True, False]),
    "texts": ["0.5", "0.5"],
    "too many coordinates": [0.5] * 9,
    "a table": np.zeros((2, 2)),
    "not finite": [math.nan, 0.5],
    "outside": [7.0, -8.0],
    "ragged": [[0.5], [0.5, 0.5]],
}


def bad_batches(good: list[Any]) -> dict[str, Any]:
    """What is no sequence of contexts, one for each of several decisions."""
    ways: dict[str, Any] = {"too few": good[1:], "too many": [*good, good[0]], "nothing": None}
    ways |= {"one": good[0], "a set": {0, 1}, "a dict": {0: good[0]}, "a generator": iter(good)}
    ways |= {"text": "abc"[: len(good)], "a number": 3, "an array of no dimension": np.array(1)}
    for what, bad in BAD_CONTEXTS.items():
        ways[f"{what} among good ones"] = [*good[1:], bad]
    return ways


def forms_of_mask(mask: Any, points: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Some actions, in all ways in which they can be given."""
    rows = rng.permutation(np.flatnonzero(mask))
    ways = {"truth values": mask, "a list of them": mask.tolist(), "NumPy's": list(mask)}
    ways |= {"rows": rows.tolist(), "an array of rows": rows, "a tuple": tuple(rows.tolist())}
    ways |= {"small integers": rows.astype(np.int16), "unsigned": rows.astype(np.uint64)}
    if points is not None:
        ways["params"] = [points[row] for row in rows]
        ways |= {"one dict": points[rows[0]]} if len(rows) == 1 else {}
    return ways


def bad_masks(count: int, available: Any) -> dict[str, Any]:
    """What leaves no action, or says nothing of actions."""
    bad: dict[str, Any] = {
        "none": np.zeros(count, dtype=bool),
        "no rows": [],
        "too short": np.ones(count - 1, dtype=bool),
        "too long": [True] * (count + 1),
        "floats": np.ones(count),
        "NaN": [math.nan] * count,
        "zeros and ones": [0, 1] * (count // 2),
        "a table": np.ones((count, 1), dtype=bool),
        "a row that is none": [0, count],
        "a negative row": [-1],
        "a row twice": [1, 1],
        "beyond 64 bits": [10**400],
        "text": "all",
        "texts": ["0", "1"],
        "an object": object(),
        "a number": 1,
        "True": True,
        "a set": {0, 1},
        "a generator": iter([0, 1]),
        "ragged": [[0], [0, 1]],
        "a dict": {0: True},
        "rows and params": [0, {}],
        "params of nobody": [{"nobody": 1}],
        "dates": np.array(["2020"], dtype="M8[D]"),
        "nothing among rows": [0, None],
        "masked": np.ma.array([True] * count, mask=[True] * count),
    }
    if not available.all():
        bad["what is not on offer"] = ~available
    return bad


def bad_params(good: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is no action of `SPACE`, made of one that is."""
    yield "nothing", {}
    yield "one more", good | {"more": 1}
    yield "a name that is a number", good | {1: 1}
    yield "a surrogate as a name", good | {"\ud800": 1}
    for name, now in good.items():
        yield f"without {name}", {k: v for k, v in good.items() if k != name}
        yield f"{name} in capitals", {k.upper() if k == name else k: v for k, v in good.items()}
        odd: list[Any] = ["nobody", "", b"lru", math.nan, math.inf, -1, 10**400, 1j]
        odd += [object(), [1], {}, np.zeros(2)]
        for value in odd:
            yield f"{name} = {short(value)}", good | {name: value}
        if now is not None:
            yield f"{name} = None", good | {name: pick_none(name)}
    if good["method"] == "random":
        yield "what does not matter", good | {"depth": 2}
    yield "True for 1", good | {"level": True}
    yield "1 for True", good | {"flag": 1}
    yield "text for a number", good | {"size": "8"}
    yield "half", good | {"size": 8.5}
    yield "between steps", good | {"step": 0.05}


def pick_none(name: str) -> Any:
    """None, or what is none where None is a value."""
    return "None" if name == "flag" else None


MASKS = np.random.default_rng(3).random((3, 30)) < 0.3
MASKS[1] = np.arange(30) == 7
WEIGHTS = [0.5, 0.3, 0.2]
HOURS = kl.Space(day=kl.Choice(["week", "end"]), hour=kl.Ordinal([6, 12], when={"day": "week"}))
BOX = kl.Box([0.0] * 4, [1.0, 2.0, 1.0, 1.0])


def _on_space(kind: Any, kernel: Any, **settings: Any) -> Case:
    return Case(kind, number, ACTIONS, kernel, {"horizon": 100, "loss_range": (0, 1)} | settings)


def _grows(actions: Any) -> Case:
    settings = {"horizon": 200, "loss_range": (0, 1), "grow": 32}
    return Case(kl.InsuredBandit, number, actions, "auto", settings)


CONTEXTS = {
    **WITH_CONTEXTS,
    "bandit, stock": bandit(contexts=kl.Contexts(["a", "b", "c"], WEIGHTS, allowed=MASKS)),
    "bandit, places": bandit(contexts=kl.Contexts([[0.0, 1.0], [0.4, -3.0], [1.0, 0.0]], WEIGHTS)),
    "bandit, one number": bandit(contexts=kl.Contexts([[0.0], [0.25], [2.0]]), horizon=None),
    "insured, hours": insured(contexts=kl.Contexts(HOURS.points(), WEIGHTS)),
}
MASKED = {
    name: LEARNERS[name]
    for name in (
        *("bandit", "bandit, anytime", "bandit, bonus", "bandit, sampled", "insured"),
        *("insured, thompson", "insured, delay", "insured, held", "exp weights, points"),
    )
} | {
    "bandit, space": _on_space(kl.BanditExpWeights, kl.Mixed(SPACE)),
    "insured, space": _on_space(kl.InsuredBandit, "auto"),
}
GROWING = {"grows, box": _grows(BOX), "grows, space": _grows(SPACE)}
CASES = CONTEXTS | MASKED | GROWING
SLOW = ("insured, segments", "insured, weekdays", "insured, hours")  # seconds for a round
QUICK = [name for name in CASES if name not in SLOW]


@cache
def started(name: str) -> tuple[Any, Any, Any]:
    """States in which games begin: a new one, one in which decisions were forgotten and the set has grown, one that waits."""
    case = CASES[name]
    learner = case.make()
    fresh = learner.state()
    play(case, learner, 45 if name in GROWING else 12)
    learner.forget(before=learner.ledger.made)
    later = learner.state()
    play(case, learner, 6)
    return fresh, later, learner.state()


class Requests(Calls):
    """A learner that is asked in all forms, and one that is asked plainly."""

    def __init__(self, name: str, start: int, rng: np.random.Generator) -> None:
        self.begin(CASES[name], started(name)[start], rng)
        self.contexts = self.case.settings.get("contexts")

    def available(self) -> Any:
        """Which actions may be chosen at all."""
        offered = getattr(self.plain, "available", None)
        return np.ones(len(self.plain.actions), dtype=bool) if offered is None else offered

    def params(self) -> Any:
        return self.plain._params

    def _is_latest(self, some: list[Any]) -> bool:
        return True  # one call tells one call's losses

    # What is asked for.

    def context(self) -> tuple[Any, Any]:
        """A context in some form, and plainly."""
        ways = forms_of(self.contexts, int(self.rng.integers(len(self.contexts))))
        return self._one_of(ways, "in"), next(iter(ways.values()))

    def extras(self, count: int | None) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """What else a request says, in some form and plainly; and the actions that it leaves, if it says so."""
        if self.contexts is not None:
            pairs = [self.context() for _ in range(count or 1)]
            shaped, plain = (list(side) for side in zip(*pairs, strict=True))
            if count is None:
                return {"context": shaped[0]}, {"context": plain[0]}, None
            given = self._one_of({"a list": shaped, "a tuple": tuple(shaped)}, "as")
            return {"context": given}, {"context": plain}, None
        if self.rng.random() < 0.25:
            return {}, {}, None
        offered = self.available()
        mask = self.rng.random(len(offered)) < self.rng.choice([0.1, 0.5, 0.9])
        mask[self.rng.choice(np.flatnonzero(offered))] = True
        params = self.params()
        if params is not None and not offered.all():
            mask &= offered  # free rows are copies of the first: their params name others
        given = self._one_of(forms_of_mask(mask, params, self.rng), "among")
        return {"allowed": given}, {"allowed": mask}, mask

    def ask(self) -> str | None:
        count = int(self.rng.integers(0, 4)) or None
        self.history.append(f"ask {count}")
        given, plain, mask = self.extras(count)
        got, expected = self.shaped.ask(count, **given), self.plain.ask(count, **plain)
        if mask is not None and not np.all(mask[got.index]):
            return f"{got.index} was not allowed"
        if not np.all(self.available()[got.index]):
            return f"{got.index} is not on offer"
        if self.contexts is not None and self.contexts.allowed is not None:
            known = plain["context"] if count else [plain["context"]]
            rows = [self.contexts.find(one) for one in known]
            if not self.contexts.allowed[rows, got.index].all():
                return f"{got.index} is not allowed in {known}"
        return self.asked(got, expected, count)

    def tell(self) -> str | None:
        params = self.params()
        if params is None or not self.waiting or self.rng.random() < 0.6:
            return super().tell()
        some = self.rng.choice(list(self.waiting.values()))
        oldest = min(d.id for d in self.waiting.values() if d.params == some.params)
        decision = self.waiting.pop(oldest)
        ways = {"params": some.params, "in another order": dict(reversed(some.params.items()))}
        loss = self.case.loss(decision.action, oldest)
        self.shaped.tell(self._one_of(ways, "tell"), loss)
        self.plain.tell(oldest, loss)
        self.told.append(decision)
        return self.agree()

    def look(self) -> str | None:
        learner = self.shaped
        looks: dict[str, Callable[[], Any]] = {
            "guarantee": learner.guarantee,
            "diagnostics": lambda: str(learner.diagnostics),
            "repr": lambda: repr(learner) + inside.html(learner),
            "recommend": learner.recommend,
        }
        if self.contexts is not None:
            given, _ = self.context()
            looks["recommend"] = partial(learner.recommend, given)
            looks["law"] = lambda: learner.distribution_for(given)
        elif self.case.kind is not kl.ExpWeights or self.case.finite:
            looks["law"] = lambda: learner.distribution
        way = self.rng.choice(list(looks))
        self.history.append(f"look at {way}")
        seen = looks[way]()
        if way == "law" and not (np.min(seen) >= 0 and abs(np.sum(seen) - 1) < 1e-9):
            return f"probabilities that add up to {np.sum(seen)}"
        return None if self.is_unchanged() else "looking has changed the state"

    # Bad requests.

    def bad_ask(self) -> str | None:
        learner = self.shaped
        if self.contexts is None:
            bad = self._one_of(bad_masks(len(learner.actions), self.available()), "bad mask")
            calls: dict[str, Callable[[], Any]] = {
                "one": lambda: learner.ask(allowed=bad),
                "several": lambda: learner.ask(3, allowed=bad),
                "a context": lambda: learner.ask(context=0),
            }
            return self.refused("ask", self._one_of(calls, "for"))
        good, _ = self.context()
        bad = self._one_of(BAD_CONTEXTS, "bad context")
        several = self._one_of(bad_batches([good] * 3), "or several")
        calls = {
            "one": lambda: learner.ask(context=bad),
            "several": lambda: learner.ask(3, context=several),
            "a law": lambda: learner.distribution_for(bad),
            "the best": lambda: learner.recommend(bad),
            "none": learner.ask,
            "a mask": lambda: learner.ask(context=good, allowed=[]),
        }
        if bad is None:
            del calls["the best"]
        return self.refused("ask", self._one_of(calls, "for"))

    def bad_look(self) -> str | None:
        return self.bad_ask()
