"""Requests with contexts, among some of the actions, of sets that grow: good and bad, late, twice, and in between snapshots.

As in `calls`, a learner is called in all forms, and beside it the same one with plain calls alone; what is refused changes nothing.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossError
from tests.support.calls import Calls
from tests.support.cases import LEARNERS, WITH_CONTEXTS, Case, bandit, insured, number, play
from torture.extremes import FLOATS, pick, short, tried
from torture.forging import label, mutations, outcome, replaced, reseal
from torture.forms import (
    ACTIONS,
    BAD_CONTEXTS,
    SPACE,
    bad_batches,
    bad_masks,
    bad_params,
    forms_of,
    forms_of_mask,
)
from torture.trials import Cases, trial

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


@cache
def begun(name: str) -> tuple[Any, Any]:
    """States in which games begin: a new one, and one in which decisions were forgotten and the set has grown."""
    case = CASES[name]
    learner = case.make()
    fresh = learner.state()
    play(case, learner, 45 if name in GROWING else 12)
    learner.forget(before=learner.ledger.made)
    return fresh, learner.state()


class Requests(Calls):
    """A learner that is asked in all forms, and one that is asked plainly."""

    def __init__(self, name: str, start: int, rng: np.random.Generator) -> None:
        self.begin(CASES[name], begun(name)[start], rng)
        self.contexts = self.case.settings.get("contexts")

    def available(self) -> Any:
        """Which actions may be chosen at all."""
        offered = getattr(self.plain, "available", None)
        return np.ones(len(self.plain.actions), dtype=bool) if offered is None else offered

    def params(self) -> Any:
        return self.plain._params

    def _is_latest(self, some: list[Any]) -> bool:
        return True  # one call tells one call's losses

    def agree(self) -> str | None:
        """Whether both have the same state, or would have after a snapshot, which begins a level that is due."""
        if super().agree() is None:
            return None
        again = [
            self.case.kind.from_state(one.state()).state() for one in (self.shaped, self.plain)
        ]
        same = again[0]["digest"] == again[1]["digest"]
        return None if same else "the state is not that after plain calls"

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
            return (
                {"context": self._one_of({"a list": shaped, "a tuple": tuple(shaped)}, "as")},
                {"context": plain},
                None,
            )
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
        some = pick(self.rng, list(self.waiting.values()))
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
            "repr": lambda: repr(learner) + learner._repr_html_(),
            "recommend": learner.recommend,
        }
        if self.contexts is not None:
            given, _ = self.context()
            looks["recommend"] = partial(learner.recommend, given)
            looks["law"] = lambda: learner.distribution_for(given)
        elif self.case.kind is not kl.ExpWeights or self.case.finite:
            looks["law"] = lambda: learner.distribution
        way = pick(self.rng, list(looks))
        self.history.append(f"look at {way}")
        seen = looks[way]()
        if way == "law" and not (np.min(seen) >= 0 and abs(np.sum(seen) - 1) < 1e-9):
            return f"probabilities that add up to {np.sum(seen)}"
        now = learner.state()["digest"]
        return None if now == self.digest else "looking has changed the state"

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
            "a mask": lambda: learner.ask(context=good, allowed=[0]),
        }
        if bad is None:
            del calls["the best"]
        return self.refused("ask", self._one_of(calls, "for"))

    def bad_look(self) -> str | None:
        return self.bad_ask()


def _games(title: str, names: dict[str, Case], quick: int, full: int) -> None:
    @trial(f"requests {title}", quick=quick, full=full)
    def games(rng: np.random.Generator) -> Cases:
        for name in names:
            game = Requests(name, int(rng.integers(2)), rng)
            try:
                wrong = game.play(int(rng.integers(4, 12)))
            except Exception:
                wrong = f"{' > '.join(game.history)}\n{traceback.format_exc()}"
            yield None if wrong is None else f"{name}: {wrong}"


_games("with contexts", CONTEXTS, 12, 200)
_games("among some of the actions", MASKED, 12, 200)
_games("of sets that grow", GROWING, 12, 150)


@trial("requests: every bad context and every bad mask", quick=1, full=1)
def refusals(rng: np.random.Generator) -> Cases:
    """Each once, of every learner."""
    for name in CASES:
        game = Requests(name, 1, rng)
        learner, calls = game.shaped, {}
        if game.contexts is None:
            masks = bad_masks(len(learner.actions), game.available())
            if game.params() is not None:
                masks |= {f"params, {k}": v for k, v in bad_params(game.params()[0])}
            calls = {f"mask, {k}": partial(learner.ask, allowed=v) for k, v in masks.items()}
        else:
            good, _ = game.context()
            calls = {
                f"{k} as contexts": partial(learner.ask, 3, context=v)
                for k, v in bad_batches([good] * 3).items()
            }
            calls |= {k: partial(learner.ask, context=v) for k, v in BAD_CONTEXTS.items()}
        for what, call in calls.items():
            wrong = game.refused("ask", call)
            yield None if wrong is None else f"{name}, {what}: {wrong}"
            game.digest = learner.state()["digest"]


# Declarations and snapshots.


@trial("contexts: declarations of any kind", quick=30, full=300)
def declarations(rng: np.random.Generator) -> Cases:
    for _ in range(10):
        X: Any = [
            ["a", "b", "c"],
            [1, 2, 3],
            [[0.0], [0.5], [1.0]],
            HOURS,
            HOURS.points(),
            SPACE,
            "abc",
            [],
            [[]],
            None,
            3,
        ]
        X += [
            ["a", "a"],
            [True, 2],
            [1.0, 2.0],
            ["a", 1, None],
            [[math.nan]],
            [[1.0], [1.0]],
            [[1e308], [-1e308]],
            [[5e-324], [0.0]],
            np.zeros((0, 2)),
        ]
        given = {
            "weights": [
                None,
                WEIGHTS,
                [1, 0, 0],
                [0.5, 0.5],
                [math.nan] * 3,
                "abc",
                [1e-300, 0.5, 0.5],
                [pick(rng, FLOATS)] * 3,
            ],
            "allowed": [
                None,
                MASKS,
                ~MASKS,
                MASKS[0],
                np.zeros((3, 3)),
                [[1, 0]] * 3,
                [[2, 0]] * 3,
                [[math.nan]] * 3,
                "abc",
                [[1], [1, 0], [1]],
            ],
        }
        first = pick(rng, X if rng.random() < 0.5 else X[:6])
        options = {k: pick(rng, v if rng.random() < 0.25 else v[:2]) for k, v in given.items()}
        yield tried(
            f"Contexts({short(first)}, {short(list(options.values()))})", _declared, first, options
        )


def _declared(X: Any, options: dict[str, Any]) -> Any:
    contexts = kl.Contexts(X, **options)
    repr(contexts)
    for row in range(len(contexts)):
        if any(contexts.find(form) != row for form in forms_of(contexts, row).values()):
            raise RuntimeError(f"{contexts!r} does not find row {row}")
    return [
        contexts.X,
        contexts.weights,
        contexts.slots(30) if options["allowed"] is MASKS else 0.0,
    ]


@cache
def waiting(name: str) -> Any:
    """The state of a game in which decisions wait for their losses."""
    game = Requests(name, 1, np.random.default_rng(1))
    for _ in range(5):
        game.ask()
    return game.plain.state()


@trial("requests: forged states are refused, or play", quick=1, full=20)
def forged(rng: np.random.Generator) -> Cases:
    for name, case in CASES.items():
        state = waiting(name)
        changes = list(mutations(state, rng))
        for k in rng.choice(len(changes), size=30):
            path, new = changes[k]
            wrong = outcome(case, reseal(replaced(state, path, new)), _plays)
            yield wrong and f"{label(name, path, new)}: {wrong}"


def _plays(case: Case, learner: Any) -> str | None:
    late = [entry.id for entry in learner.ledger][:3]
    for t in range(3):
        try:
            decision = learner.ask(**case.asked(t))
        except ValueError as error:
            if str(error).startswith("`context` must"):  # another one than before is known
                return None
            raise
        if not np.all(np.isfinite(decision.action)):
            return f"loads, and plays {decision.action}"
        for one in (decision.id, *late[t : t + 1]):
            try:
                learner.tell(one, case.loss(decision.action, t))
            except KolossError:  # out of bounds that were narrowed
                pass
            except (TypeError, ValueError) as error:
                if not str(error).startswith("`loss` must"):
                    raise
    if math.isnan(learner.guarantee().total):
        return "loads, and has a guarantee that is NaN"
    str(learner.diagnostics), learner.state()
    return None
