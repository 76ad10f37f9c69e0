"""What can be asked for: experiments and the parts of a spec, and the bounds of a game without playing it."""

from __future__ import annotations

import inspect
from typing import Any

from koloss.actions import ActionSet
from koloss.experiments.build import kernel_of, learner_of
from koloss.experiments.spec import ADVERSARIES, LEARNERS, Experiment, load, shipped
from koloss.experiments.summary import printed_bound
from koloss.games.play import describe
from koloss.kernels import Kernel


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


def bounds(experiment: Experiment, rounds: int | None = None) -> list[dict[str, Any]]:
    """The guarantee of every learner of an experiment, before the first round of so many, or of its own number.

    Returns
    -------
    list of dict
        "learner", "kernel", "rounds", "guarantee" (statement, terms, total, trivial, valid, assumptions, notes),
        "paper" (the same as the paper prints it, or None), "rank" and "epsilon" of bandit learners.

    Examples
    --------
    >>> from koloss.experiments import bounds, load
    >>> lines = bounds(load("quadratic-oracles"), rounds=100)
    >>> lines[2]["learner"], round(lines[2]["guarantee"]["total"], 2)
    ('regularised leader', 14.14)
    """
    n = experiment.rounds if rounds is None else rounds
    return [
        {
            "learner": spec.name,
            "kernel": repr(kernel_of(experiment, spec)),
            "rounds": n,
            "guarantee": describe(learner.guarantee(rounds=n, printed=False)),
            "paper": printed_bound(experiment, spec, n),
            "rank": learner.rank,
            "epsilon": learner.epsilon,
        }
        for spec in experiment.learners
        for learner in [learner_of(experiment, spec, n)]
    ]
