"""Calls of every shape: what a learner is told, in any order and of any kind, is heard whole or refused whole.

Every learner with every setting of its contract. `tests/support/calls.py` has the shapes and what must come of them.
"""

from __future__ import annotations

import traceback

import numpy as np

from tests.support.calls import Calls, every_form
from tests.support.cases import LEARNERS
from torture.trials import Cases, trial

FAMILIES = {
    "bandit": [name for name in LEARNERS if name.startswith("bandit")],
    "insured": [name for name in LEARNERS if name.startswith("insured")],
    "full information": [name for name in LEARNERS if not name.startswith(("bandit", "insured"))],
}
SLOW = "gradient, gaussian"  # a tenth of a second for each round
TOGETHER = 20  # sequences of calls of one learner


@trial("every form of one call, every setting", quick=1, full=1)
def forms(rng: np.random.Generator) -> Cases:
    for name in rng.permutation(list(LEARNERS)).tolist():
        yield from every_form(name)


def _sequences(family: str, quick: int, full: int) -> None:
    @trial(f"sequences of calls, {family}", quick=quick, full=full)
    def play(rng: np.random.Generator) -> Cases:
        names = FAMILIES[family]
        name = names[rng.integers(len(names))]
        for _ in range(1 if name == SLOW else TOGETHER):
            game = Calls(name, int(rng.integers(2)), rng)
            try:
                wrong = game.play(int(rng.integers(3, 9)))
            except Exception:
                wrong = f"{' > '.join(game.history)}\n{traceback.format_exc()}"
            yield None if wrong is None else f"{name}: {wrong}"


_sequences("bandit", 10, 300)
_sequences("insured", 10, 300)
_sequences("full information", 20, 480)
