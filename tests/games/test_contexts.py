"""Games with contexts of all kinds: rows, coordinates, labels and params."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl

N = 60
ACTIONS = kl.Points(np.linspace(0, 1, 5)[:, None])
SAID = {"horizon": N, "loss_range": (0, 1), "rng": 0}
LOSSES = np.random.default_rng(3).random((N, 5))


def weather(**settings):
    space = kl.Space(temperature=kl.Int(0, 30), wind=kl.Choice(["no", "yes"]))
    contexts = kl.Contexts(space)
    return kl.BanditExpWeights(ACTIONS, kl.Gaussian(0.5), contexts=contexts, **SAID | settings)


def draws(kinds):
    """So many days, each of them several times."""
    days = [{"temperature": 7 * k, "wind": ("no", "yes")[k % 2]} for k in range(kinds)]
    return [days[k] for k in np.random.default_rng(4).integers(kinds, size=N)]


def by_hand(learner, contexts, batch=1):
    """The same game by `ask` and `tell`: what was played."""
    played = []
    for t in range(0, N, batch):
        if batch == 1:
            decision = learner.ask(context=contexts[t])
            played.append(int(decision.index))
            learner.tell(decision, float(LOSSES[t, decision.index]))
        else:
            decision = learner.ask(batch, context=contexts[t : t + batch])
            played.extend(decision.index.tolist())
            learner.tell(decision, LOSSES[np.arange(t, t + batch), decision.index])
    return np.array(played)


@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("coordinates", [False, True])
def test_contexts_of_a_space_play(batch, coordinates):
    """The learner is asked with the very contexts, and the comparator is the best action of each, by enumeration."""
    days = draws(4)
    contexts = weather().settings.contexts.points.space.encode(days) if coordinates else days
    trace = kl.play(weather(), kl.games.Replay(LOSSES), N, contexts=contexts, batch=batch)
    played = by_hand(weather(), contexts, batch)
    np.testing.assert_array_equal(trace.index, played)
    names = [day["temperature"] for day in days]
    first = list(dict.fromkeys(names))
    sums = np.array([LOSSES[[n == name for n in names]].sum(axis=0) for name in first])
    np.testing.assert_array_equal(trace.best, np.asarray(ACTIONS.X)[sums.argmin(axis=1)])
    paid = LOSSES[np.arange(N), played].sum()
    assert trace.regret[-1] == pytest.approx(paid - sums.min(axis=1).sum())


def test_contexts_that_come_once_are_compared_with_the_best_of_every_round():
    rows = np.random.default_rng(5).permutation(62)[:N]
    trace = kl.play(weather(), kl.games.Replay(LOSSES), N, contexts=rows)
    assert trace.losses.sum() - trace.regret[-1] == pytest.approx(LOSSES.min(axis=1).sum())
    with pytest.raises(ValueError, match="`context` must be given"):
        kl.play(weather(), kl.games.Replay(LOSSES), N)
    with pytest.raises(ValueError, match="`context` must be one of the 62 contexts"):
        kl.play(
            weather(), kl.games.Replay(LOSSES), N, contexts=[{"temperature": 31, "wind": "no"}] * N
        )


def test_labels_are_the_same_game_as_rows():
    rows = np.random.default_rng(6).integers(3, size=N)
    rows[:3] = 0, 1, 2  # in the order of coming
    traces = []
    for named in (False, True):
        known = kl.Contexts(list("abc")) if named else kl.Contexts(np.eye(3))
        learner = kl.BanditExpWeights(ACTIONS, kl.Gaussian(0.5), contexts=known, **SAID)
        contexts = ["abc"[c] for c in rows] if named else rows
        traces.append(kl.play(learner, kl.games.Replay(LOSSES), N, contexts=contexts))
    np.testing.assert_array_equal(traces[0].index, traces[1].index)
    np.testing.assert_array_equal(traces[0].best, traces[1].best)
    assert traces[0].regret[-1] == traces[1].regret[-1]


def test_losses_of_a_kernel_and_a_hostile_adversary():
    """Losses that are functions, and an adversary that looks at the law of the context at hand."""
    kernel, days = kl.Gaussian(0.5), draws(3)
    random = kl.games.Random(kernel, ACTIONS, rng=1)
    learner = weather(loss_range=(-2, 2))
    trace = kl.play(learner, random, N, contexts=days)
    again = kl.games.Random(kernel, ACTIONS, rng=1)
    table = np.array([again(t)(ACTIONS.X) for t in range(N)])
    names = np.array([day["temperature"] for day in days])
    best = sum(table[names == name].sum(axis=0).min() for name in set(names.tolist()))
    assert trace.losses.sum() - trace.regret[-1] == pytest.approx(best)

    class Punishing(kl.games.Adversary):
        oblivious = False

        def choose(self, t, player):
            return np.asarray(player.distribution > 0.2, dtype=float)

    trace = kl.play(weather(), Punishing(), N, contexts=days)
    assert len(trace) == N
