"""What a user's type checker sees: mypy --strict on a short script, in which nothing is Any."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """\
import numpy as np

import koloss as kl

points, ball = kl.Points(np.linspace(0, 1, 20)[:, None]), kl.Ball(2)
kernel, quadratic = kl.Gaussian(0.3), kl.Quadratic()
bandit = kl.BanditExpWeights(points, kernel, horizon=100, loss_range=(0, 1), rng=0)
insured = kl.InsuredBandit(points, kernel, horizon=100, loss_range=(0, 1), policy="ucb", rng=0)
full = kl.ExpWeights(ball, kernel=quadratic, horizon=100, rng=0)
gradient = kl.ConditionalGradient(ball, kernel=quadratic, horizon=100, rng=0)
leader = kl.FollowTheRegularizedLeader(ball, kernel=quadratic, horizon=100, rng=0)

decision, batch = bandit.ask(), bandit.ask(3)
bandit.tell(decision, 0.5)
bandit.tell(batch, [0.1, 0.2, 0.3])
insured.tell(insured.ask(), 0.5)
loss = kl.QuadraticLoss(np.eye(2) / 2, np.zeros(2))
for learner in (full, gradient, leader):
    learner.tell(learner.ask(), loss)
best, promise = insured.recommend(), bandit.guarantee()
again = kl.BanditExpWeights.from_state(bandit.state())

adversary = kl.games.Random(kernel, points, rng=1)
trace = kl.play(bandit, adversary, 10)
runs = kl.replicate(
    lambda seed: kl.BanditExpWeights(points, kernel, horizon=10, rng=seed),
    lambda seed: kl.games.Random(kernel, points, rng=seed),
    rounds=10,
    runs=2,
)
write_page = kl.report.write_page
"""

ARRAY = r"numpy\.ndarray\[.*\]"
EXPECTED = {
    "decision": r"koloss\.learners\.ledger\.Decision",
    "batch": r"koloss\.learners\.ledger\.Decisions",
    "decision.id": r"int",
    "decision.action": ARRAY,
    "decision.index": r"int \| None",
    "decision.probability": r"float \| None",
    "batch.action": ARRAY,
    "batch[0]": r"koloss\.learners\.ledger\.Decision",
    "insured.ask()": r"koloss\.learners\.ledger\.Decision",
    "insured.ask(3)": r"koloss\.learners\.ledger\.Decisions",
    "full.ask()": r"koloss\.learners\.ledger\.Decision",
    "full.ask(3).action": ARRAY,
    "gradient.ask()": r"koloss\.learners\.ledger\.Decision",
    "leader.ask(3)": r"koloss\.learners\.ledger\.Decisions",
    "bandit.distribution": ARRAY,
    "best": r"koloss\.learners\.base\.Recommendation",
    "best.index": r"int \| None",
    "best.action": ARRAY,
    "best.loss": r"float",
    "promise": r"koloss\.guarantees\.base\.Guarantee",
    "promise.total": r"float",
    "promise.terms": r".*\[str, float\]",
    "promise.valid": r"bool",
    "insured.diagnostics": r"koloss\.learners\.\S+ \| koloss\.learners\.\S+",  # with contexts another
    "bandit.diagnostics.rounds": r"int",
    "again": r"koloss\.learners\.bandit\.exp_weights\.BanditExpWeights",
    "adversary": r"koloss\.games\.adversaries\.Random",
    "trace": r"koloss\.games\.trace\.Trace",
    "trace.actions": ARRAY,
    "trace.losses": ARRAY,
    "trace.regret": ARRAY,
    "trace.bound": ARRAY,
    "trace.index": rf"{ARRAY} \| None",
    "kl.Trace": r".*koloss\.games\.trace\.Trace",
    "runs": r"koloss\.games\.trace\.Replicates",
    "runs.regret": ARRAY,
    "runs.traces": r"list\[koloss\.games\.trace\.Trace\]",
    "kernel": r"koloss\.kernels\.stationary\.Gaussian",
    "points": r"koloss\.actions\.points\.Points",
    "loss.norm()": r"float",
    "write_page": r"def \(.*\) -> .+",
}
"""Of expressions at the end of the script, the type that mypy must reveal."""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """A function that says what mypy --strict prints of a script."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")

    def run(script):
        path = folder / "script.py"
        path.write_text(script, encoding="utf-8")
        options = ["--strict", "--follow-imports=silent", "--config-file", ROOT / "pyproject.toml"]
        options += ["--cache-dir", folder / "cache", "--no-pretty", "--no-error-summary"]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *options, path],
            env={**os.environ, "MYPYPATH": str(ROOT / "src")},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stderr, done.stderr
        return done.stdout.splitlines()

    return run


def revealed(lines, count):
    """The types that mypy has revealed, in order, as a user reads them."""
    types = [m[1] for line in lines if (m := re.search(r'Revealed type is "(.*)"$', line))]
    assert len(types) == count, "\n".join(lines)
    return [readable(text) for text in types]


def readable(text):
    """Without `builtins.` and the marks of inferred types; a shape that may be any is no Any."""
    text = re.sub(r"\bbuiltins\.|\btyping\.|[?*]", "", text).replace(
        "tuple[Any, ...]", "tuple[...]"
    )
    return re.sub(r"Union\[(.+), None\]", r"\1 | None", text)


def complaint(text, pattern):
    """What is wrong with a revealed type; None where nothing is."""
    if re.search(r"\bAny\b", text):
        return f"is {text}, in which there is Any"
    return None if re.fullmatch(pattern, text) else f"is {text}, not {pattern}"


@pytest.mark.slow
def test_a_users_script_is_typed(mypy):
    shown = "".join(f"reveal_type({expression})\n" for expression in EXPECTED)
    lines = mypy(SCRIPT + shown)
    errors = [line for line in lines if ": error: " in line]
    types = revealed([line for line in lines if line not in errors], len(EXPECTED))
    wrong = [
        f"{expression} {trouble}"
        for (expression, pattern), text in zip(EXPECTED.items(), types, strict=True)
        if (trouble := complaint(text, pattern))
    ]
    assert not errors + wrong, "\n" + "\n".join(errors + wrong)


@pytest.mark.slow
def test_mistakes_of_a_user_are_found(mypy):
    mistakes = [
        "decision.actoin",
        "bandit.ask('three')",
        "kl.BanditExpWeights(points, kernel)",  # no horizon
        "kl.Gausian(0.3)",
        "kl.play(bandit, adversary, 10).regrets",
    ]
    lines = mypy(SCRIPT + "\n".join(mistakes) + "\n")
    numbers = {int(m[1]) for line in lines if (m := re.match(r"[^:]*:(\d+): error: ", line))}
    first = SCRIPT.count("\n") + 1
    missed = [text for k, text in enumerate(mistakes) if first + k not in numbers]
    assert not missed, "\n".join(lines)


@pytest.mark.parametrize(
    "text, pattern, right",
    [
        ("koloss.learners.ledger.Decision", r"koloss\.learners\.ledger\.Decision", True),
        ("Any", r".*", False),
        ("numpy.ndarray[tuple[...], numpy.dtype[Any]]", ARRAY, False),
        ("numpy.ndarray[tuple[...], numpy.dtype[numpy.float64]]", ARRAY, True),
        ("int", r"float", False),
    ],
)
def test_a_type_is_judged(text, pattern, right):
    assert (complaint(text, pattern) is None) == right
