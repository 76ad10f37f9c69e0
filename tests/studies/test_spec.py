"""Studies as TOML files: what they mean, and where a mistake is said to be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.errors import SpecError
from koloss.studies.spec import EXAMPLE, load, parse
from tests.support.memory import MemoryStore
from tests.support.studies import ARMS


def test_without_a_seed_the_coins_are_new():
    text = ARMS.replace("seed = 3", "")
    first, second = (parse(text).learner.ask(200).index.tolist() for _ in range(2))
    assert first != second


@pytest.mark.slow
def test_the_example_is_a_spec_with_a_space(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(EXAMPLE, encoding="utf-8")
    spec = load(path)
    actions = spec.learner.settings.actions
    assert isinstance(spec.learner, kl.InsuredBandit)
    assert isinstance(spec.learner.settings.kernel, kl.Mixed)
    assert len(actions) == 64
    assert actions.space == kl.Space(
        price=kl.Float(1.0, 10.0, log=True),
        colour=kl.Choice(["red", "green"]),
        size=kl.Int(1, 3, when={"colour": "red"}),
    )
    assert spec.settings["goal"] == "maximize"


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["contexts", "shares"])  # which do not go together
def test_what_the_example_has_in_comments_is_understood(left_out):
    text = re.sub(r"(?m)^# (?=[\[a-zX])", "", EXAMPLE)
    parts = [part for part in text.split("\n\n") if not part.lstrip("[").startswith(left_out)]
    settings = parse("\n\n".join(parts).replace("points = 64", "points = 8")).learner.settings
    assert settings.policy == "thompson"
    if left_out == "shares":
        assert settings.contexts == kl.Contexts(["private", "business"], weights=[0.9, 0.1])
    else:
        assert settings.shares == {(0, 1): (0.1, 1.0)}


def test_defaults_are_an_insured_learner_without_a_horizon():
    text = '[actions]\nkind = "Points"\nX = [[0.0], [1.0]]\n[learner]\nloss_range = [0, 1]\n'
    spec = parse(text)
    assert isinstance(spec.learner, kl.InsuredBandit)
    assert spec.learner.settings.horizon is None
    assert (spec.name, spec.settings) == (None, {})


def test_shares_by_rows_and_by_params():
    head = '[learner]\nkind = "BanditExpWeights"\nhorizon = 100\nloss_range = [0, 1]\n'
    head += '[actions.parameters]\nsize = {kind = "Int", low = 1, high = 4}\n'
    shares = "[[shares]]\nrows = 0\nlow = 0.2\n[[shares]]\nparams = [{size = 3}, {size = 4}]\nhigh = 0.5\n"
    found = parse(head + shares).learner.settings.shares
    assert found == {0: (0.2, 1.0), (2, 3): (0.0, 0.5)}


@pytest.mark.parametrize(
    "table, contexts",
    [
        ('X = ["a", "b"]', kl.Contexts(["a", "b"])),
        ("X = [[0.0], [1.0]]\nweights = [0.5, 0.5]", kl.Contexts([[0.0], [1.0]], [0.5, 0.5])),
        (
            'parameters = {hour = {kind = "Int", low = 0, high = 3}}',
            kl.Contexts(kl.Space(hour=kl.Int(0, 3))),
        ),
    ],
)
def test_contexts(table, contexts):
    text = ARMS.replace("[learner]", f"[contexts]\n{table}\n\n[learner]")
    assert parse(text).learner.settings.contexts == contexts


def test_a_net_of_a_box():
    text = ARMS.replace(
        'kind = "Points"\nX = [[0.0], [0.5], [1.0]]',
        'kind = "Box"\nlower = [0.0]\nupper = [1.0]\nnet = 0.25',
    )
    assert np.array_equal(parse(text).learner.actions, kl.Box([0.0], [1.0]).net(0.25).X)


@pytest.mark.parametrize(
    "old, new, line, key, problem",
    [
        ("lease = 60", "leaze = 60", 5, "study.leaze", "did you mean lease?"),
        ("lease = 60", "labels = {a = 1}", 5, "study.labels", "must be a mapping from text to text"),
        ("[study]", "[[study]]", 4, "study", "must be a table, got"),
        ("lease = 60", 'lease = "hour"', 5, "study.lease", "must be a number, got 'hour'"),
        ("bandwidth = 0.5", "bandwidth = -1", 2, "kernel.bandwidth", "must be positive, got -1"),
        ('"Gaussian"', '"Gauss"', 2, "kernel.kind", "must be one of"),
        ("[[0.0], [0.5], [1.0]]", "[0.0, 0.5]", 10, "actions.X", "must be"),
        ('"Points"', '"Pionts"', 9, "actions.kind", "must be one of"),
        ('"BanditExpWeights"', '"ExpWeights"', 13, "learner.kind", "InsuredBandit"),
        ("horizon = 100", "horizon = 0", 14, "learner.horizon", "must be at least 1, got 0"),
        ("horizon = 100", "horyzon = 100", 14, "learner.horyzon", "did you mean horizon?"),
        ("seed = 3", "seed = -3", 16, "learner.seed", "must be a whole number from 0, got -3"),
        ("seed = 3", "rng = 3", 16, "learner.rng", "is not a key of BanditExpWeights"),
        ("lease = 60", "lease = ", 5, "", "invalid value"),
        ('name = "arms"', "name = 3", 1, "name", "must be a string, got 3"),
        ("[actions]", "[axions]", 8, "axions", "did you mean actions?"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_line_and_key(
    tmp_path, monkeypatch, old, new, line, key, problem
):
    assert old in ARMS
    monkeypatch.chdir(tmp_path)
    Path("arms.toml").write_text(ARMS.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        kl.Study.from_toml(MemoryStore(), "arms.toml")
    assert (error.value.line, error.value.key) == (line, key)
    assert problem in str(error.value)
    assert str(error.value).startswith(f"arms.toml, line {line}: ")


@pytest.mark.parametrize(
    "text, key, problem",
    [
        (f"{ARMS}[[shares]]\nrows = 7", "shares", "must be of rows up to 2, got 7"),
        ("[actions]\nparameters = 3", "actions.parameters", "must be a table of parameters, got 3"),
        ("[actions.parameters]\nsize = 3", "actions.parameters.size", "must be a table with a kind"),
        ('[actions.parameters]\nsize = {kind = "Int", low = 3, high = 1}', "actions.parameters.size.low", "got"),
        ('[actions]\nkind = "Box"\nparameters = {}', "actions.parameters", "of a Space alone"),
        (
            '[actions]\npoints = "many"\nparameters = {size = {kind = "Int", low = 1, high = 2}}',
            "actions.points",
            "must be a whole number or an array of params",
        ),
        (f"{ARMS}[contexts]\nweights = [1.0]", "contexts", "must have X or parameters"),
        (f"{ARMS}[contexts]\nX = [1, 1]", "contexts.X", "must not repeat a label"),
        (f"{ARMS}[[shares]]\nlow = 0.1", "shares[1]", "must have rows or params"),
        (f"{ARMS}[[shares]]\nparams = {{size = 1}}", "shares[1].params", "must be rows"),
        (f"{ARMS}[[shares]]\nrows = 0\n[[shares]]\nrows = 0", "shares[2]", "of others than those before"),
    ],
)  # fmt: skip
def test_tables_with_rules_of_their_own(text, key, problem):
    with pytest.raises(SpecError) as error:
        parse(text)
    assert error.value.key == key
    assert problem in error.value.problem


def test_what_a_study_refuses_is_said_with_its_line(tmp_path):
    path, store = tmp_path / "arms.toml", MemoryStore()
    path.write_text(ARMS.replace("60", "-60"), encoding="utf-8")
    with pytest.raises(
        SpecError, match=r"arms.toml, line 5: study.lease: must be positive, got -60"
    ):
        kl.Study.from_toml(store, path)
    path.write_text(ARMS, encoding="utf-8")
    with pytest.raises(ValueError, match=r"^`name` must have 1 to 100 char"):  # not of the file
        kl.Study.from_toml(store, path, name="a b")


def test_a_study_from_a_file_is_the_one_that_python_makes(tmp_path):
    path, store = tmp_path / "arms.toml", MemoryStore()
    path.write_text(ARMS, encoding="utf-8")
    points, kernel = kl.Points([[0.0], [0.5], [1.0]]), kl.Gaussian(0.5)
    learner = kl.BanditExpWeights(points, kernel, horizon=100, loss_range=(0, 1), rng=3)
    first = kl.Study.from_toml(store, str(path))
    assert repr(parse(ARMS).learner) == repr(learner)
    second = kl.Study.create(store, "other", learner=learner, lease=60, default=1)
    named = kl.Study.from_toml(store, path, name="named")
    assert (first.name, named.name) == ("arms", "named")
    drawn = [study.ask(50).index.tolist() for study in (first, second, named)]
    assert drawn[0] == drawn[1] == drawn[2]
    kinds = [replace(study.settings, key="") for study in (first, second, named)]
    assert kinds[0] == kinds[1] == kinds[2]


def test_a_file_without_a_name_needs_one(tmp_path):
    path = tmp_path / "arms.toml"
    path.write_text(ARMS.replace('name = "arms"', ""), encoding="utf-8")
    with pytest.raises(SpecError, match="name: is missing in the file, and no other is given"):
        kl.Study.from_toml(MemoryStore(), path)
