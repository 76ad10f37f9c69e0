"""The games of the digests: every kind of learner, through public names."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss import experiments, games
from koloss.kernels import Periodic
from tests.support.digests import Digest, setup

ROUNDS = 200

# Actions and worlds. A world is a function (round, actions of shape (k, d)) -> k losses in [0, 1].

LINE = np.linspace(0.03, 0.97, 17)[:, None]
PLANE = np.random.default_rng(5).uniform(size=(30, 2))
ANGLES = np.random.default_rng(6).uniform(0, 2 * np.pi, size=12)
CIRCLE = np.array([[np.cos(a), np.sin(a)] for a in ANGLES])

World = Callable[[int, Any], Any]


def bowl(dimension: int, *, seed: int = 1, turn: int | None = None, noise: float = 0.15) -> World:
    """A noisy bowl, whose lowest point moves at round `turn`."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.15, 0.85, size=(2, dimension))
    shocks = rng.uniform(-noise, noise, size=100_000)

    def losses(t: int, X: Any) -> Any:
        centre = centres[int(turn is not None and t >= turn)]
        distance = ((np.asarray(X) - centre) ** 2).sum(axis=1) / dimension
        return np.clip(0.2 + 0.9 * distance + shocks[t], 0.0, 1.0)

    return losses


def linear_in(vector: Any, *, noise: float = 0.1, quadratic: float = 0.0) -> World:
    """Losses that are linear, or quadratic, up to noise."""
    w = np.asarray(vector, dtype=float)
    shocks = np.random.default_rng(7).uniform(-noise, noise, size=100_000)

    def losses(t: int, X: Any) -> Any:
        X = np.asarray(X)
        return 0.5 + 0.3 * X @ w + quadratic * (X**2).sum(axis=1) + shocks[t]

    return losses


def turning(rows: int) -> World:
    """Losses by the row's place on the line alone; the good end changes twice."""
    shocks = np.random.default_rng(3).uniform(-0.1, 0.1, size=(100_000, rows))

    def losses(t: int, X: Any) -> Any:
        x = np.asarray(X)[:, 0]
        slope = x if (t // 70) % 2 else 1 - x
        return 0.15 + 0.6 * slope + shocks[t, : len(x)]

    return losses


# Playing.


def numbers_of(digest: Digest, learner: Any, *, early: bool = False, contexts: Any = ()) -> None:
    """Put down laws, guarantee and recommendation."""
    for context in contexts:
        digest.summarise(f"law in {context}", learner.distribution_for(context), early=early)
    if not contexts and getattr(learner, "feedback", "") == "bandit":
        with suppress(kl.errors.NoDistribution):
            digest.summarise("law", learner.distribution, early=early)
    rounds = learner.settings.horizon or ROUNDS
    guarantee = learner.guarantee(rounds=rounds)
    if guarantee is not None:
        digest.say("guarantee", guarantee, early=early)
    numbers = digest.early if early else digest.numbers
    for name in ("rank", "epsilon"):
        value = getattr(learner, name, None)
        if value is not None:
            numbers[name] = float(value)


def recommended(digest: Digest, learner: Any, contexts: Any = ()) -> None:
    """Put down the recommended action."""
    for context in contexts or (None,):
        best = learner.recommend() if context is None else learner.recommend(context)
        name = "recommended" if context is None else f"recommended in {context}"
        if best.index is not None:
            digest.numbers[f"{name}: row"] = float(best.index)
        else:
            for k, x in enumerate(np.ravel(best.action)):
                digest.numbers[f"{name}: coordinate {k}"] = float(x)


def put_down(digest: Digest, decision: Any) -> None:
    """Put down one decision."""
    if decision.index is None:
        digest.decisions.append([float(f"{x:.6f}") for x in decision.action])
    else:
        digest.decisions.append(int(decision.index))


def bandit_game(
    learner: Any,
    world: World,
    *,
    rounds: int = ROUNDS,
    rows: Any = None,
    reward: bool = False,
    late: Callable[[list[int]], list[int]] | None = None,
    wait: int = 1,
    asks: Callable[[int], dict[str, Any]] | None = None,
    contexts: Sequence[Any] = (),
    shift: Callable[[Any, Any], Any] | None = None,
    each: Callable[[int, Any], Any] | None = None,
    resumed: Callable[[Any], Any] | None = None,
) -> Digest:
    """A game of single decisions.

    `late` orders the decisions that wait, `wait` of them at a time; `asks` gives what a request says; `shift` changes losses by
    context; `each` is called before every round, and may be an operator; `resumed` makes another learner of this one half-way.
    """
    digest = Digest()
    numbers_of(digest, learner, early=True, contexts=contexts)
    rows = None if rows is None else np.asarray(rows, dtype=float)
    waiting: list[tuple[Any, float]] = []
    paid, chance, totals = 0.0, 0.0, 0.0
    for t in range(rounds):
        if resumed is not None and t == rounds // 2:
            learner = resumed(learner)
        if each is not None:
            each(t, learner)
        said = {} if asks is None else asks(t)
        decision = learner.ask(**said)
        put_down(digest, decision)
        loss = float(world(t, np.asarray(decision.action, dtype=float)[None])[0])
        if rows is not None:
            totals = totals + world(t, rows)
        if shift is not None:
            loss = shift(loss, (decision, said))
        paid += loss
        chance += 0.0 if decision.probability is None else float(decision.probability)
        waiting.append((decision, 1.0 - loss if reward else loss))
        if len(waiting) == wait:
            order = list(range(wait)) if late is None else late(list(range(wait)))
            for k in order:
                learner.tell(*waiting[k])
            waiting.clear()
    for pair in waiting:
        learner.tell(*pair)
    digest.numbers["paid"] = paid
    digest.numbers["probabilities"] = chance
    if rows is not None:
        digest.numbers["regret"] = paid - float(np.min(totals))
    numbers_of(digest, learner, contexts=contexts)
    recommended(digest, learner, contexts)
    diagnosed(digest, learner)
    return digest


def diagnosed(digest: Digest, learner: Any) -> None:
    """Put down the alarms of an insured learner."""
    alarms = getattr(learner.diagnostics, "alarms", None)
    if alarms is not None:
        digest.numbers["alarms"] = float(len(alarms))


def batch_game(learner: Any, world: World, *, size: int = 10, **asks: Any) -> Digest:
    """A game of batches."""
    digest = Digest()
    numbers_of(digest, learner, early=True)
    paid = 0.0
    for t in range(0, ROUNDS, size):
        batch = learner.ask(size, **asks)
        for k in range(size):
            put_down(digest, batch[k])
        losses = [
            float(world(t + k, np.asarray(batch[k].action, dtype=float)[None])[0])
            for k in range(size)
        ]
        paid += sum(losses)
        learner.tell(batch, np.array(losses))
    digest.numbers["paid"] = paid
    numbers_of(digest, learner)
    recommended(digest, learner)
    diagnosed(digest, learner)
    return digest


def full_game(learner: Any, loss_at: Callable[[int], Any], *, rounds: int = ROUNDS) -> Digest:
    """A game with full information."""
    digest = Digest()
    numbers_of(digest, learner, early=True)
    for t in range(rounds):
        decision = learner.ask()
        put_down(digest, decision)
        learner.tell(decision, loss_at(t))
    numbers_of(digest, learner)
    recommended(digest, learner)
    return digest


@dataclass(frozen=True)
class Ground:
    """Actions, and the losses of a game on them."""

    actions: Any
    world: World
    rows: Any = None


def backwards(k: list[int]) -> list[int]:
    """The last one is heard first."""
    return k[::-1]


def mixed_up(k: list[int]) -> list[int]:
    """Those between two others are heard first."""
    return k[1::2] + k[::2]


LINE_BOWL = Ground(kl.Points(LINE), bowl(1), LINE)
LINE_TURNS = Ground(kl.Points(LINE), turning(len(LINE)), LINE)
LINE_WIDE = Ground(kl.Points(LINE), lambda t, X: 3.0 + 20 * LINE_BOWL.world(t, X), LINE)
PLANE_BOWL = Ground(kl.Points(PLANE), bowl(2, seed=2), PLANE)
PLANE_TURNS = Ground(kl.Points(PLANE), bowl(2, turn=100), PLANE)
ROUND = Ground(kl.Points(CIRCLE), linear_in([1.0, 0.4]), CIRCLE)
INTERVAL = Ground(kl.Box([0.0], [1.0]), bowl(1))
SQUARE = Ground(kl.Box([0.0, 0.0], [1.0, 1.0]), bowl(2, seed=2))
CUBE = Ground(kl.Box([0.0] * 4, [1.0] * 4), bowl(4, seed=8))
BALL = Ground(kl.Ball(3), linear_in([0.5, -0.3, 0.2]))
CURVED = Ground(kl.Ball(3), linear_in([0.5, -0.3, 0.2], quadratic=0.2))
DISC = Ground(kl.Ball(2), linear_in([0.5, -0.3]))
POSITIVE = np.exp(np.random.default_rng(9).uniform(-0.5, 0.5, size=(20, 2)))
MONOMIALS = Ground(kl.Points(POSITIVE), bowl(2, seed=4), POSITIVE)
SPACE = kl.Space(
    price=kl.Float(1.0, 4.0, step=1.0), size=kl.Int(1, 3), colour=kl.Choice(["red", "blue"])
)
NAMED = np.asarray(SPACE.points().X, dtype=float)


def in_space(t: int, X: Any) -> Any:
    """A bowl over the coordinates of the space's points."""
    low, high = NAMED.min(axis=0), NAMED.max(axis=0)
    unit = (np.asarray(X, dtype=float) - low) / np.maximum(high - low, 1e-12)
    return bowl(unit.shape[1], seed=6)(t, unit)


PRODUCTS = Ground(SPACE.points(), in_space, NAMED)
NARROW = kl.Gaussian(0.3)
LINEAR, QUADRATIC = kl.Linear(), kl.Quadratic()


def register(
    kind: Any, name: str, ground: Ground, kernel: Any, settings: Any, how: dict[str, Any]
) -> None:
    """Register a game of single decisions, or of batches where `how` has a size."""
    how = dict(how)
    turned = how.pop("turned", isinstance(ground.actions, kl.Ball))
    game = batch_game if "size" in how else bandit_game
    if game is bandit_game and ground.rows is not None:
        how = {"rows": ground.rows, **how}
    usual = {"horizon": ROUNDS, "loss_range": (0.0, 1.0), "rng": 11}

    def play() -> Digest:
        said = {**usual, **settings}
        if callable(said.get("policy")):  # a fresh one for each game
            said["policy"] = said["policy"]()
        return game(kind(ground.actions, kernel, **said), ground.world, **how)

    setup(name, turned=turned)(play)


def bandit(
    name: str,
    ground: Ground = LINE_BOWL,
    kernel: Any = NARROW,
    how: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Register a game of Algorithm 1."""
    register(kl.BanditExpWeights, f"bandit: {name}", ground, kernel, settings, how or {})


def insured(
    name: str,
    ground: Ground = LINE_BOWL,
    kernel: Any = NARROW,
    how: dict[str, Any] | None = None,
    policy: Any = "ucb",
    **settings: Any,
) -> None:
    """Register a game of the insured learner."""
    said = {"policy": policy, **settings}
    register(kl.InsuredBandit, f"insured: {name}", ground, kernel, said, how or {})


# Algorithm 1: kernels and actions.

bandit("linear", ROUND, LINEAR)
bandit("linear, wide", ROUND, LINEAR, loss_range=(-0.5, 1.5))
bandit("quadratic", PLANE_BOWL, QUADRATIC)
bandit("polynomial", PLANE_BOWL, kl.Polynomial(3))
bandit("gaussian")
bandit("gaussian, turning", LINE_TURNS)
bandit("matern", PLANE_BOWL, kl.Matern(1.5, 0.4))
bandit("periodic", kernel=Periodic(0.5, period=1.0))
bandit("white", kernel=kl.White())
bandit("algebra", PLANE_BOWL, kl.Gaussian(0.5) + 0.5 * LINEAR * kl.Matern(2.5, 0.6))
bandit("posynomial", MONOMIALS, kl.Posynomial(((1.0, 0.0), (0.0, -1.0), (0.5, 0.5))))
bandit("auto kernel", kernel="auto")
bandit("auto kernel on a plane", PLANE_BOWL, "auto")
bandit("mixed space", PRODUCTS, kl.Mixed(SPACE))
bandit("box", INTERVAL)
bandit("box with a spacing", SQUARE, QUADRATIC, spacing=0.25)
bandit("ball, linear", BALL, LINEAR)
bandit("ball, quadratic", CURVED, QUADRATIC, loss_range=(0, 1.5))
bandit("ball, no horizon", CURVED, QUADRATIC, loss_range=(0, 1.5), horizon=None)
bandit("ball with a net", DISC, QUADRATIC, spacing=0.4)

# Algorithm 1: settings.

PRIOR = np.exp(-3 * LINE[:, 0])
SHARES = {0: (0.05, 0.5), (3, 4, 5): (0.1, 0.4)}
FEW_FEATURES = kl.pivoted_cholesky(kl.Gaussian(0.5), PLANE_BOWL.actions, rank=10)

bandit("no horizon", horizon=None)
bandit("no range", loss_range=None)
bandit("learned range", LINE_WIDE, loss_range="learn")
bandit("learned range, no horizon", PLANE_BOWL, QUADRATIC, loss_range="learn", horizon=None)
bandit("clip", loss_range=(0.0, 0.5), outside="clip")
bandit("widen", loss_range=(0.3, 0.5), outside="widen")
bandit("ridge auto", PLANE_BOWL, kl.Gaussian(0.2), horizon=5000)
bandit("ridge stated", PLANE_BOWL, kl.Gaussian(0.2), ridge=0.02)
bandit("no ridge", PLANE_BOWL, kl.Gaussian(0.2), ridge=0.0)
bandit("no ridge, no horizon", PLANE_BOWL, kl.Gaussian(0.2), ridge=0.0, horizon=None)
bandit("rank", PLANE_BOWL, rank=8)
bandit("proxy named", PLANE_BOWL, proxy="kernel_pca")
bandit("proxy given", PLANE_BOWL, kl.Gaussian(0.5), proxy=FEW_FEATURES)
bandit("exact features", PLANE_BOWL, kl.Polynomial(2), proxy="exact_features")
bandit("spanner", PLANE_BOWL, QUADRATIC, design="spanner")
bandit("uniform design", PLANE_BOWL, QUADRATIC, design="uniform")
bandit("prior", prior=PRIOR / PRIOR.sum())
bandit("epochs", batch=8)
bandit("delay", how={"wait": 6}, delay=5)
bandit("hold", hold=4)
bandit("norm", loss_norm=3.0)
bandit("any loss", loss_class="any")
bandit("rank-one losses", loss_class="rank-one")
bandit("hindsight", regret="hindsight")
bandit("paper", PLANE_BOWL, QUADRATIC, tuning="paper", loss_norm=2.0, loss_range=None)
bandit("paper with a range", PLANE_BOWL, kl.Gaussian(0.5), tuning="paper")
bandit("rates stated", learning_rate=0.02, exploration_rate=0.2)
bandit("rewards", how={"reward": True}, goal="maximize")
bandit("rewards on a ball", BALL, LINEAR, how={"reward": True}, goal="maximize")
TURNED: dict[str, Any] = {"turned": True}
SAMPLED: dict[str, Any] = {"covariance": "sampled", "sample_error": 0.2}
if hasattr(kl, "Paper"):
    bandit("sampled covariance", PLANE_BOWL, QUADRATIC, TURNED, tuning=kl.Paper(**SAMPLED))
else:
    bandit("sampled covariance", PLANE_BOWL, QUADRATIC, TURNED, **SAMPLED)
bandit("batches", how={"size": 10})
bandit("batches, turning", LINE_TURNS, how={"size": 25})
bandit("batches on a ball", BALL, LINEAR, how={"size": 10})
bandit("shares", shares=SHARES)
bandit("shares, no horizon", shares=SHARES, horizon=None, ridge=0.0)

# Algorithm 1: masks, contexts, late losses and snapshots.


def some_of(count: int) -> Callable[[int], dict[str, Any]]:
    """Two requests in five are among some of the actions."""
    rng = np.random.default_rng(31)
    masks = rng.random((6, count)) < 0.5
    masks[:, 0] = True
    masked, which = rng.random(ROUNDS) < 0.4, rng.integers(6, size=ROUNDS)
    return lambda t: {"allowed": masks[which[t]]} if masked[t] else {}


LABELS = ["new", "known", "left"]
COMES = np.random.default_rng(41).choice(3, p=[0.5, 0.3, 0.2], size=ROUNDS)
FEW = LINE[::2]
SHOP = Ground(kl.Points(FEW), bowl(1))
MAY = np.array([[True] * 9, [True] * 5 + [False] * 4, [False, True] * 4 + [False]])
WEIGHTS = [0.5, 0.3, 0.2]
KNOWN, UNKNOWN = kl.Contexts(LABELS, weights=WEIGHTS), kl.Contexts(LABELS)
CELLS = kl.Contexts([[0.0], [0.5], [1.0]], weights=WEIGHTS)


def in_turn(t: int) -> dict[str, Any]:
    """The context that comes in a round."""
    return {"context": LABELS[COMES[t]]}


def by_context(loss: float, made: Any) -> float:
    """Another loss in each context."""
    decision, said = made
    k = LABELS.index(said["context"])
    return float(min(1.0, max(0.0, loss + 0.2 * k * (0.5 - float(decision.action[0])))))


SEGMENTS: dict[str, Any] = {"asks": in_turn, "contexts": LABELS, "shift": by_context}
NUMBERED: dict[str, Any] = {
    "asks": lambda t: {"context": [COMES[t] / 2]},
    "contexts": ([0.0], [0.5], [1.0]),
}
MASKED: dict[str, Any] = {"asks": some_of(len(LINE))}
MASKED_PLANE: dict[str, Any] = {"asks": some_of(len(PLANE))}
LATE: dict[str, Any] = {"wait": 8, "late": backwards}


def through_snapshot(learner: Any, **more: Any) -> Any:
    """The learner as its snapshot has it, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.npz"
        kl.save_state(path, learner.state())
        return type(learner).from_state(kl.load_state(path), **more)


RESUMED: dict[str, Any] = {"resumed": through_snapshot}

bandit("masks", how=MASKED)
bandit("masks, no ridge", PLANE_BOWL, kl.Gaussian(0.2), how=MASKED_PLANE, ridge=0.0)
bandit("masks, no horizon", PLANE_BOWL, QUADRATIC, how=MASKED_PLANE, horizon=None)
bandit("masks, late", how=MASKED | LATE)
bandit("contexts with weights", SHOP, how=SEGMENTS, contexts=KNOWN)
bandit("contexts with weights, late", SHOP, how=SEGMENTS | LATE, contexts=KNOWN)
bandit("contexts with weights, ridge", SHOP, how=SEGMENTS, contexts=KNOWN, ridge=0.05)
bandit("contexts with weights, epochs", SHOP, how=SEGMENTS, contexts=KNOWN, batch=6)
bandit("contexts in any order", SHOP, how=SEGMENTS, contexts=UNKNOWN)
bandit("contexts in any order, late", SHOP, how=SEGMENTS | LATE, contexts=UNKNOWN)
bandit("contexts in any order, no horizon", SHOP, how=SEGMENTS, contexts=UNKNOWN, horizon=None)
bandit(
    "contexts with allowed",
    SHOP,
    how=SEGMENTS,
    contexts=kl.Contexts(LABELS, weights=WEIGHTS, allowed=MAY),
)
bandit(
    "contexts with a kernel", SHOP, how=NUMBERED, contexts=CELLS, context_kernel=kl.Gaussian(0.4)
)
bandit("late, reversed", how={"wait": 9, "late": backwards})
bandit("late, mixed up", PLANE_BOWL, QUADRATIC, how={"wait": 20, "late": mixed_up})
bandit("late, no horizon", LINE_TURNS, how={"wait": 11, "late": mixed_up}, horizon=None)
bandit("late on a ball", BALL, LINEAR, how=LATE)
bandit("resumed", how=RESUMED)
bandit("resumed, ridge, no horizon", PLANE_BOWL, kl.Gaussian(0.2), how=RESUMED, horizon=None)
bandit("resumed on a ball", CURVED, QUADRATIC, how=RESUMED, loss_range=(0, 1.5))
bandit("resumed, late, masks", how=MASKED | LATE | RESUMED)
bandit("resumed, learned range", LINE_WIDE, how=RESUMED, loss_range="learn")
bandit("resumed, contexts with weights", SHOP, how=SEGMENTS | RESUMED, contexts=KNOWN)
bandit("resumed, contexts in any order", SHOP, how=SEGMENTS | RESUMED, contexts=UNKNOWN)

# The insured learner.


class Counting:
    """A user's policy: the lowest mean so far, by a simple count; it can be kept."""

    def __init__(self, count: int = len(LINE)) -> None:
        self.sums, self.counts = np.ones(count), np.full(count, 2.0)

    def propose(self, context: Any = None) -> Any:
        return int(np.argmin(self.sums / self.counts - 0.5 / np.sqrt(self.counts)))

    def hear(self, index: int, loss: float, context: Any = None) -> None:
        self.sums[index] += loss
        self.counts[index] += 1

    def state(self) -> Any:
        return {"sums": self.sums.tolist(), "counts": self.counts.tolist()}

    def restore(self, state: Any) -> None:
        self.sums, self.counts = np.array(state["sums"]), np.array(state["counts"])


class Law(Counting):
    """A user's policy that proposes a law."""

    def propose(self, context: Any = None) -> Any:
        p = np.exp(-8 * self.sums / self.counts)
        return p / p.sum()


class Stubborn:
    """A user's policy that never learns."""

    def propose(self, context: Any = None) -> Any:
        return 0

    def hear(self, index: int, loss: float, context: Any = None) -> None:
        pass


def operator(t: int, learner: Any) -> None:
    """Hands over, lets the policy play again, pauses, and lets it play again."""
    if t == 40:
        learner.hand_over()
    elif t in (80, 160):
        learner.re_arm()
    elif t == 120:
        learner.pause()


def catalogue(t: int, learner: Any) -> None:
    """Actions come and go."""
    if t == 0:
        learner.withdraw([1, 2])
    elif t == 50:
        learner.add([1])
    elif t == 90:
        learner.withdraw([8, 9, 10])
    elif t == 150:
        learner.add([2, 9])


def both(t: int, learner: Any) -> None:
    """The policy is stopped while actions come and go."""
    operator(t, learner)
    catalogue(t, learner)


def steep(t: int, X: Any) -> Any:
    """The first action is the worst up to round 900, and the best from then on."""
    x = np.asarray(X)[:, 0]
    return 0.05 + 0.9 * (x if t >= 900 else 1 - x)


PAIR = Ground(kl.Points([[0.0], [0.5], [1.0]]), steep, np.array([[0.0], [0.5], [1.0]]))
LONG: dict[str, Any] = {"rounds": 700}

insured("ucb")
insured("ucb on a plane", PLANE_BOWL, kl.Matern(1.5, 0.4))
insured("ucb, turning", LINE_TURNS)
insured("ucb, long horizon", LINE_TURNS, horizon=20_000)
insured("thompson", policy="thompson")
insured("thompson, turning", PLANE_TURNS, QUADRATIC, policy="thompson")
insured("user's policy", policy=Counting)
insured("user's law", LINE_TURNS, policy=Law)
insured("beaten", PAIR, LINEAR, how=LONG, policy=Stubborn, horizon=700)
insured("beaten, late", PAIR, LINEAR, how=LONG | LATE, policy=Stubborn, horizon=700)
insured("beaten, no horizon", PAIR, LINEAR, how=LONG | TURNED, policy=Stubborn, horizon=None)
insured(
    "beaten, shares", PAIR, LINEAR, how=LONG, policy=Stubborn, shares={2: (0.1, 0.6)}, horizon=700
)
insured("beaten, learned range", PAIR, LINEAR, how=LONG, policy=Stubborn, loss_range="learn")
insured("beaten, batches", PAIR, LINEAR, how={"size": 10}, policy=Stubborn)
insured("beaten, turning", PAIR, LINEAR, how={"rounds": 1500}, policy=Stubborn, horizon=1500)
insured("auto kernel", kernel="auto")
insured("linear", ROUND, LINEAR, TURNED)
insured("no horizon", horizon=None)
insured("no horizon, turning", LINE_TURNS, horizon=None)
insured("box", INTERVAL)
insured("space", PRODUCTS, kl.Mixed(SPACE))
insured("late, reversed", how={"wait": 9, "late": backwards})
insured("late, mixed up, turning", LINE_TURNS, how={"wait": 25, "late": mixed_up}, delay=25)
insured("late, thompson", how={"wait": 15}, policy="thompson")
insured("hold", hold=5)
insured("delay", how={"wait": 10}, delay=10)
insured("learned range", LINE_WIDE, loss_range="learn")
insured("clip", loss_range=(0.0, 0.5), outside="clip")
insured("shares", shares=SHARES)
insured("robust kernel", PLANE_BOWL, robust_kernel=QUADRATIC)
insured("robust kernel any", LINE_TURNS, robust_kernel="any")
insured("no ridge", LINE_TURNS, ridge=0.0)
insured("rewards", how={"reward": True}, goal="maximize")
insured("masks", how=MASKED)
insured("masks, turning", LINE_TURNS, how=MASKED)
insured("batches", how={"size": 5})
insured("operator", how={"each": operator})
insured("operator, turning", LINE_TURNS, how={"each": operator})
insured("actions come and go", how={"each": catalogue})
insured("actions come and go, operator", LINE_TURNS, how={"each": both})
insured("actions come and go, late", how={"each": catalogue} | LATE)
insured("contexts with weights", SHOP, how=SEGMENTS | TURNED, contexts=KNOWN)
insured("contexts in any order", SHOP, how=SEGMENTS, contexts=UNKNOWN)
insured("contexts, thompson", SHOP, how=SEGMENTS | TURNED, policy="thompson", contexts=KNOWN)
insured("contexts, user's policy", SHOP, how=SEGMENTS, policy=lambda: Counting(9), contexts=UNKNOWN)
insured("grow", CUBE, kl.Gaussian(0.5), how={"rounds": 120}, grow=64)
insured("resumed", how=RESUMED)
insured("resumed, late, masks, turning", LINE_TURNS, how=MASKED | LATE | RESUMED)
insured("resumed, actions come and go", how={"each": catalogue} | RESUMED)
insured("resumed, contexts in any order", SHOP, how=SEGMENTS | RESUMED, contexts=UNKNOWN)
insured("resumed, grown", CUBE, kl.Gaussian(0.5), how={"rounds": 60} | RESUMED, grow=64)
insured(
    "resumed, user's policy",
    LINE_TURNS,
    how={"resumed": lambda one: through_snapshot(one, policy=Counting())},
    policy=Counting,
)
insured(
    "resumed, beaten",
    PAIR,
    LINEAR,
    how=LONG | {"resumed": lambda one: through_snapshot(one, policy=Stubborn())},
    policy=Stubborn,
    horizon=700,
)


# Full information.


def linear_losses(dimension: int) -> Callable[[int], Any]:
    """Linear losses that drift."""
    vectors = np.random.default_rng(51).normal(size=(ROUNDS, dimension)) + 0.4
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return lambda t: kl.LinearLoss(vectors[t])


def quadratic_losses(dimension: int) -> Callable[[int], Any]:
    """Convex quadratic losses."""
    vectors = np.random.default_rng(52).uniform(-0.3, 0.1, size=(ROUNDS, dimension))
    return lambda t: kl.QuadraticLoss(0.4 * np.eye(dimension), vectors[t])


def kernel_losses(kernel: Any, X: Any) -> Callable[[int], Any]:
    """Bumps of a kernel."""
    rng = np.random.default_rng(53)
    centres, signs = rng.integers(len(X), size=ROUNDS), rng.choice([-1.0, 1.0], size=ROUNDS)
    return lambda t: kl.KernelLoss(kernel, X[centres[t]][None], [0.8 * signs[t]])


def full(
    kind: Any,
    name: str,
    actions: Any,
    kernel: Any,
    losses: Callable[[int], Any],
    rounds: int = ROUNDS,
    **settings: Any,
) -> None:
    """Register a game with full information."""
    said = {"horizon": ROUNDS, "rng": 13, **settings}
    turned = isinstance(actions, kl.Ball)
    setup(f"full: {name}", turned=turned)(
        lambda: full_game(kind(actions, kernel, **said), losses, rounds=rounds)
    )


EW, CG, FTRL = kl.ExpWeights, kl.ConditionalGradient, kl.FollowTheRegularizedLeader
ROW, BOX = LINE_BOWL.actions, SQUARE.actions
WIDE_BUMPS, BUMPS = kernel_losses(kl.Gaussian(0.5), PLANE), kernel_losses(NARROW, LINE)
full(EW, "weights on points", ROW, NARROW, BUMPS)
full(EW, "weights, no horizon", ROW, NARROW, BUMPS, horizon=None)
full(EW, "weights, learned range", ROW, NARROW, BUMPS, loss_range="learn")
full(EW, "weights, paper", ROW, NARROW, BUMPS, tuning="paper")
full(EW, "weights on a ball", kl.Ball(3), LINEAR, linear_losses(3))
full(EW, "weights on a ball, quadratic", kl.Ball(3), QUADRATIC, quadratic_losses(3))
full(EW, "weights by particles", BOX, kl.Gaussian(0.5), WIDE_BUMPS, 60, particles=64)
full(CG, "gradient on points", ROW, NARROW, BUMPS)
full(CG, "gradient on a ball", kl.Ball(3), LINEAR, linear_losses(3))
full(CG, "gradient, paper", kl.Ball(3), QUADRATIC, quadratic_losses(3), tuning="paper")
full(FTRL, "leader on points", ROW, NARROW, BUMPS)
full(FTRL, "leader on a ball", kl.Ball(3), LINEAR, linear_losses(3))
full(FTRL, "leader on a ball, quadratic", kl.Ball(3), QUADRATIC, quadratic_losses(3), 100)

# Games against adversaries, experiments, and a study.


def against(name: str, kind: Any, adversary: str, **settings: Any) -> None:
    """Register a game that `kl.play` plays."""

    def play() -> Digest:
        said = {"horizon": ROUNDS, "loss_range": (-1.0, 1.0), "rng": 14, **settings}
        learner = kind(ROW, NARROW, **said)
        foe = getattr(games, adversary)(NARROW, ROW, rng=3)
        digest, trace = Digest(), kl.play(learner, foe, ROUNDS)
        digest.decisions = [int(i) for i in trace.index]
        digest.numbers["regret"] = float(trace.regret[-1])
        digest.numbers["paid"] = float(np.sum(trace.losses))
        digest.numbers["bound"] = float(trace.bound[-1])
        digest.numbers["valid"] = float(trace.valid)
        return digest

    setup(f"game: {name} against {adversary}")(play)


def first_hostile(t: int, player: Any) -> Any:
    """The likeliest action is the worst for 600 rounds; then losses do not look at the player."""
    if t >= 600:
        return LINE_BOWL.world(t, LINE)
    distance = np.abs(LINE[:, 0] - LINE[int(np.argmax(player.distribution)), 0])
    return 0.9 - 0.6 * distance


@setup("game: second chance")
def _() -> Digest:
    said = {"horizon": 1500, "loss_range": (0.0, 1.0), "policy": "ucb", "rng": 15}
    learner = kl.InsuredBandit(ROW, NARROW, **said)
    foe = games.Function(first_hostile, oblivious=False)
    digest, trace = Digest(), kl.play(learner, foe, 1500)
    digest.decisions = [int(i) for i in trace.index]
    digest.numbers["regret"] = float(trace.regret[-1])
    numbers_of(digest, learner)
    diagnosed(digest, learner)
    return digest


for foe in ("Random", "Biased", "Drifting", "Switching", "Alternating", "Predictive", "Lure"):
    against("weights", kl.BanditExpWeights, foe)
    against("insured", kl.InsuredBandit, foe, policy="ucb")
against("thompson", kl.InsuredBandit, "Predictive", policy="thompson")


@setup("experiments", slow=True, turned=True)
def _() -> Digest:
    digest = Digest()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        results = experiments.run(out=folder, rounds=60, runs=1, seed=0, executor=executor)
    for curve in results.curves:
        name = f"{curve.experiment}, {curve.name}, {curve.learner}"
        for part in ("mean", "hindsight", "bound", "uniform"):
            line = np.asarray(getattr(curve, part), dtype=float)
            digest.numbers[f"{name}: {part}"] = line[-1]
            digest.numbers[f"{name}: {part} on the way"] = float(line.sum())
        digest.early[f"bound of {name}"] = float(curve.bound[-1])
        if curve.printed:
            digest.early[f"bound of {name}, printed"] = float(curve.printed["total"])
        if curve.rank is not None:
            digest.early[f"{name}: rank"] = float(curve.rank)
            digest.early[f"{name}: epsilon"] = float(curve.epsilon)
        digest.numbers[f"{name}: failures"] = float(len(curve.failures))
    return digest


@setup("study")
def _() -> Digest:
    digest, now = Digest(), [1_700_000_000.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'studies.db'}"
        learner = kl.BanditExpWeights(ROW, NARROW, horizon=ROUNDS, loss_range=(0, 1), rng=11)
        said = {"unit": "EUR", "lease": 60, "default": 1.0, "clock": clock}
        with kl.Study.create(store, "prices", learner=learner, **said) as study:
            first = [study.ask() for _ in range(50)]
            for t, decision in enumerate(first):
                put_down(digest, decision)
                if t % 5:
                    study.tell(decision.id, float(LINE_BOWL.world(t, decision.action[None])[0]))
        with kl.Study.open(store, "prices", clock=clock) as study:
            study.pause()
            study.resume()
            for t in range(50, 120):
                decision = study.ask(request=f"r{t}")
                put_down(digest, decision)
                study.tell(decision.id, float(LINE_BOWL.world(t, decision.action[None])[0]))
            numbers_of_study(digest, study)
    return digest


def numbers_of_study(digest: Digest, study: Any) -> None:
    """Put down the log, without what varies, and the status."""
    kinds = [event.kind for event in study.events()]
    for kind in sorted(set(kinds)):
        digest.numbers[f"events: {kind}"] = float(kinds.count(kind))
    digest.texts["kinds of events"] = " ".join(kinds)
    digest.numbers["values"] = sum(
        float(event.data["value"])
        for event in study.events()
        if isinstance(event.data.get("value"), (int, float))
    )
    guarantee = study.guarantee()
    digest.say("guarantee", guarantee)
    best = study.recommend()
    digest.numbers["recommended: row"] = float(best.index)
    status = study.status()
    for name in ("events", "asked", "told", "waiting", "expired", "defaulted", "unused", "held"):
        digest.numbers[f"status: {name}"] = float(getattr(status, name))
    for name in ("goal", "unit"):
        digest.texts[f"status: {name}"] = str(getattr(status, name))
