"""An audit of what is printed: learners play losses of the class that their guarantee names, and their regret is held against it.

A setting is drawn at random, its learner is asked for its guarantee, and the clauses of that guarantee say which losses are
allowed: `Losses` makes them, by its own computation. Adversaries choose among these. After the game the mean regret over seeds is
compared with what is printed then. What is found is a lower end, with a stated false-alarm level, above the print.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, stats

import koloss as kl
from koloss.errors import KolossWarning
from tests.support.audit_losses import OBLIVIOUS, REACTING, Functions, losses_of
from tests.support.audit_settings import Setting, draw
from tests.support.copies import fresh_copy
from tests.support.statistics import LEVEL


def lower_end(samples, level):
    """One-sided Student interval: the mean is above this, but for a probability of `level`."""
    mean, spread = float(np.mean(samples)), float(np.std(samples, ddof=1))
    return mean - float(stats.t.isf(level, len(samples) - 1)) * spread / math.sqrt(len(samples))


@dataclass
class Account:
    """What was paid in the games of one setting, one row per seed."""

    own: list[float] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)  # of each place, or of each context and action
    printed: list[float] = field(default_factory=list)
    promises: list[Any] = field(default_factory=list)

    def add(self, own, others, promise, unit):
        self.own.append(own)
        self.others.append(others)
        self.printed.append(unit * promise.total)
        self.promises.append(promise)


@dataclass(frozen=True)
class Verdict:
    """What an audit says of one setting and one adversary."""

    setting: Setting
    losses: str  # of which class they were: the key of its clause, or "any"
    adversary: str
    noisy: bool
    regret: float
    printed: float
    lower: float  # of the regret less what is printed: the lower end of its interval
    valid: bool
    trivial: bool

    @property
    def found(self):
        return self.valid and self.lower > 0

    def __str__(self):
        noise = " with noise" if self.noisy else ""
        return f"regret {self.regret:.6g}, printed {self.printed:.6g}: {self.adversary}{noise}; {self.setting}"


def play(setting, learner, losses, adversary, noisy, seed, hindsight):
    """One game: what was paid, what each comparator would have paid, and the guarantee at its end.

    Losses are counted by their means given the past, or where the regret is in hindsight as they were.
    """
    rng, choices = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    n, contexts = setting.rounds, setting.contexts
    C = 1 if contexts is None else len(contexts)
    reacts = adversary in REACTING
    choose = adversary(
        losses, n, np.random.default_rng(0)
    )  # the same in all games but for the coins
    own, others, waiting = 0.0, np.zeros((C, len(losses.places) // C)), []
    last_loss, values = None, None
    t = 0
    while t < n:
        size = min(setting.at_once, n - t)
        seen = law_of(setting, learner, losses) if reacts else None
        loss = choose(t, seen)
        if loss is not last_loss:
            last_loss, values = loss, losses.values(loss).reshape(C, -1)
        c = context_of(setting, t, choices)
        asked = {} if contexts is None else {"context": named(contexts)[c]}
        batch = learner.ask(**asked) if size == 1 else learner.ask(size, **asked)
        for decision in [batch] if size == 1 else list(batch):
            if decision.index is None:
                mean = float(losses.row(decision.action) @ loss.theta + loss.constant)
                mean = min(max(mean, losses.low), losses.high)
            else:
                mean = float(values[c or 0, decision.index])
            told, all_told = mean, values[c or 0]
            if noisy:
                low, high = losses.low, losses.high
                coins = rng.random(all_told.shape if hindsight else 1)
                all_told = np.where(coins * (high - low) < all_told - low, high, low)
                k = decision.index if hindsight else 0
                told = high if coins[k] * (high - low) < mean - low else low
            counted, row = (told, all_told) if hindsight else (mean, values[c or 0])
            own += counted
            others[c or 0] += row
            if setting.excess and rng.random() < setting.excess:
                told += 3 * (losses.high - losses.low)  # of any action, which changes no regret
            waiting.append((t, decision, told))
            t += 1
        while waiting and waiting[0][0] < t - setting.lag:
            tell(setting, learner, *waiting.pop(0)[1:], rng)
    for _, decision, told in waiting:
        tell(setting, learner, decision, told, rng)
    return own, others, learner.guarantee(rounds=n)


def tell(setting, learner, decision, told, rng):
    if setting.forgotten and rng.random() < setting.forgotten:
        learner.forget(decision.id)
    else:
        learner.tell(decision, setting.sign * told)


def law_of(setting, learner, losses):
    """How likely each place is in the round to come; on a ball, how like the last best guess it is."""
    if setting.contexts is not None:
        law = [learner.distribution_for(one) for one in named(setting.contexts)]
        return np.concatenate(law)
    if isinstance(setting.actions, kl.Ball):
        return losses.places @ learner.recommend().action
    seen = np.zeros(len(losses.places))
    law = learner.distribution
    seen[: len(law)] = law
    return seen


def named(contexts):
    """Contexts as a learner is told of them."""
    return contexts.X if contexts.labels is None else contexts.labels


def context_of(setting, t, rng):
    """By their shares where these are given, otherwise in blocks whose lengths double."""
    contexts = setting.contexts
    if contexts is None:
        return None
    if contexts.weights is not None:
        return int(rng.choice(len(contexts), p=contexts.weights))
    return int(math.log2(t + 1)) % len(contexts) if t % 3 else t % len(contexts)


def play_full(setting, learner, losses, adversary):
    """The same with full information."""
    n, X, reacts = setting.rounds, losses.places, adversary in REACTING
    choose = adversary(losses, n, np.random.default_rng(0))
    own, others = 0.0, np.zeros(len(X))
    last, values = None, None
    finite, count = isinstance(setting.actions, kl.Points), np.zeros(len(X))
    for t in range(n):
        seen = None
        if reacts and finite:
            seen = learner.distribution
        elif reacts:
            seen = count
        loss = choose(t, seen)
        if loss is not last:
            last, values = loss, losses.values(loss)
        decision = learner.ask()
        if finite:
            own += float(values[decision.index])
        else:
            own += float(loss(decision.action[None, :])[0])
            count = 0.9 * count + X @ decision.action
        others += values
        learner.tell(decision, loss)
    return own, others[None, :], learner.guarantee(rounds=n)


def audit_one(setting, adversary, noisy, seeds, level, make=None, first=0):
    """Play a setting against an adversary, once for each seed, and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KolossWarning)
        template = (make or setting.make)()
        promise = template.guarantee(rounds=setting.rounds)
        account, full = Account(), setting.kind.feedback == "full"
        hindsight = promise.regret == "hindsight"
        losses = Functions(setting, promise) if full else losses_of(setting, template, promise)
        for seed in range(first, first + seeds):
            learner = fresh_copy(template, seed)
            if full:
                own, others, end = play_full(setting, learner, losses, adversary)
            else:
                own, others, end = play(setting, learner, losses, adversary, noisy, seed, hindsight)
            unit = setting.high - setting.low if end.unit else 1.0
            account.add(own, others, end, unit)
    return judge(setting, losses.kind, adversary, noisy, account, hindsight, level)


def judge(setting, losses, adversary, noisy, account, hindsight, level):
    """The regret of some games against what was printed at their ends."""
    own, others = np.array(account.own), np.array(account.others)  # (seeds,), (seeds, C, places)
    printed, end = np.array(account.printed), account.promises[-1]
    seeds, C, K = others.shape
    if hindsight:
        regrets, comparators = own - others.min(axis=2).sum(axis=1), 1
    elif end.comparator in ("law", "mapping law"):
        laws = [best_law(paid, setting.said["shares"]) for paid in others.mean(axis=0)]
        regrets = own - np.einsum("sck,ck->s", others, np.array(laws))
        comparators = K ** (C * (1 + len(setting.said["shares"])))
    else:
        best = others.mean(axis=0).argmin(axis=1)
        paid = np.take_along_axis(others, np.tile(best[None, :, None], (seeds, 1, 1)), axis=2)
        regrets, comparators = own - paid.sum(axis=(1, 2)), K**C
    valid = all(one.valid and in_class(setting, one) for one in account.promises)
    return Verdict(
        setting,
        losses,
        adversary.__name__,
        noisy,
        float(regrets.mean()),
        float(printed.mean()),
        lower_end(regrets - printed, level / comparators),
        valid,
        any(one.is_trivial for one in account.promises),
    )


def in_class(setting, promise):
    """Whether the interval that is printed in the end holds the losses that were played."""
    for one in promise.assumptions:
        if one.key == "range":
            low, high = (float(one.numbers[name]) for name in ("low", "high"))
            if setting.sign < 0 and promise.goal == "maximize":
                low, high = -high, -low
            slack = 1e-9 * (setting.high - setting.low)
            return low <= setting.low + slack and setting.high - slack <= high
    return True


def best_law(losses, shares):
    """The law within shares that loses least, by linear programming."""
    N, rows, limits = len(losses), [], []
    for group, (low, high) in shares.items():
        inside = np.zeros(N)
        inside[list(group) if isinstance(group, tuple) else group] = 1.0
        rows += [inside, -inside]
        limits += [high, -low]
    found = optimize.linprog(losses, rows, limits, np.ones((1, N)), [1.0])
    return found.x


def adversaries_for(setting, promise, rng, count=2):
    """Some of those that the clauses of a guarantee allow, and whether there is noise around their losses."""
    reacting = not any(one.oblivious for one in promise.assumptions)
    reacting = reacting and setting.lag == 0 and setting.at_once == 1
    allowed = OBLIVIOUS + (REACTING if reacting else ())
    chosen = rng.choice(len(allowed), size=count, replace=False)
    heard_in_full = (
        setting.said.get("outside") == "widen"
    )  # both ends must be met for the class to be known
    noise = setting.kind.feedback == "bandit"
    return [(allowed[k], noise and bool(heard_in_full or rng.random() < 0.4)) for k in chosen]


def audit(cases, *, seed=0, seeds=8, longest=400, level=LEVEL, each=2) -> Iterator[Verdict]:
    """Settings at random, each against some adversaries."""
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        setting = draw(rng, longest)
        promise = setting.make().guarantee(rounds=setting.rounds)
        for adversary, noisy in adversaries_for(setting, promise, rng, each):
            yield audit_one(setting, adversary, noisy, seeds, level / (cases * each))
