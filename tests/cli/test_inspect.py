"""Verbs that play nothing: what they print where, what they write, and how they fail."""

from __future__ import annotations

import json
import tomllib

import pytest

import koloss as kl
from koloss.experiments import shipped
from koloss.kernels.described import kernel_of_text

SMALL = ["inspect", "--spacing", "0.25"]
KERNELS = ("gaussian", "matern", "linear", "quadratic", "polynomial", "periodic")
POSYNOMIAL = "posynomial:exponents=[[1, 0], [0, 2]]"


def test_table_has_every_part(good):
    text = good(*SMALL)
    parts = ("Spectrum", "Decay", "fits better", "Certified error", "chosen", "p = ", "Seconds")
    designs = ("G-optimal design", "barycentric spanner", "uniform")
    for part in (*parts, *designs, "Gaussian(bandwidth=0.3)"):
        assert part in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_json_is_all_there_is_on_standard_output(cli):
    answer = cli(*SMALL, "--json", "--tolerance", "0.01")
    assert (answer.code, answer.err) == (0, "")
    numbers = json.loads(answer.out)
    parts = "version kernel actions proxy spectrum dimensions sample_size designs design seconds"
    assert set(numbers) == set(parts.split())
    assert numbers["version"] == kl.__version__
    assert numbers["kernel"] == {"kind": "Gaussian", "bandwidth": 0.3}
    assert numbers["actions"]["count"] == 25
    proxy = numbers["proxy"]
    assert proxy["epsilon"] == proxy["certified"][proxy["rank"]] <= 0.01


@pytest.mark.slow
def test_files_are_written(good, tmp_path):
    out = tmp_path / "new" / "folder"
    numbers = json.loads(good(*SMALL, "--out", str(out), "--json"))
    assert (out / "inspect.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "inspect.svg").read_text(encoding="utf-8")
    assert json.loads((out / "inspect.json").read_text(encoding="utf-8")) == numbers


SETS = [(kernel, actions) for kernel in KERNELS for actions in ("grid", "ball")]
CASES = [("--kernel", kernel, "--actions", actions) for kernel, actions in SETS]
CASES += [
    ("--kernel", POSYNOMIAL, "--actions", "grid"),  # which is positive
    ("--kernel", "polynomial: degree=2, offset=0"),
    ("--kernel", "gaussian", "--method", "kernel-pca"),
    ("--kernel", "gaussian", "--method", "mercer", "--rank", "12"),
    ("--kernel", "quadratic", "--method", "exact"),
    ("--kernel", "periodic", "--method", "mercer", "--dimension", "1"),
    ("--kernel", "gaussian:bandwidth=[0.5, 2, 1]", "--dimension", "3", "--rank", "5"),
]


@pytest.mark.parametrize("options", CASES)
def test_every_kernel_on_every_set_and_every_method(good, options):
    numbers = json.loads(good(*SMALL, *options, "--json"))
    assert numbers["kernel"] == kernel_of_text(options[1]).to_dict()
    assert numbers["designs"][0]["gap"] <= 1e-3


@pytest.mark.parametrize(
    "options, message",
    [
        (["--kernel", "laplace"], "Gaussian, Linear, Matern, "),
        (["--kernel", "gaussian:bandwidth=-1"], "error: --kernel gaussian: bandwidth must be positive, got -1\n"),
        (["--kernel", "gaussian:width=1"], "--kernel gaussian: width is not a parameter of Gaussian, which takes bandwidth"),
        (["--kernel", "gaussian:0.3"], "--kernel must be like gaussian:bandwidth=0.3, got '0.3' in it"),
        (["--kernel", "posynomial"], "--kernel posynomial: exponents is missing"),
        (["--kernel", "linear:offset=1"], "which takes none"),
        (["--actions", "cube"], "--actions must be among grid, ball; got 'cube'"),
        (["--dimension", "0"], "--dimension must be at least 1, got 0"),
        (["--spacing", "-1"], "--spacing must be positive, got -1"),
        (["--spacing", "1e-9"], "--spacing 1e-09 gives about 1e+18 actions, more than 200,000"),
        (["--rank", "0"], "--rank must be at least 1, got 0"),
        (["--rank", "26"], "--rank must be at most 25"),
        (["--rank", "2", "--tolerance", "0.1"], "give --rank or --tolerance, not both"),
        (["--tolerance", "0"], "--tolerance must be positive"),
        (["--tolerance", "1e-300"], "--tolerance must be at least"),
        (["--method", "guess"], "--method must be one of pivoted-cholesky, "),
        (["--method", "exact"], "has no finite feature map"),
        (["--method", "exact", "--kernel", "linear", "--rank", "1"], "--rank must be left out"),
        (["--method", "mercer", "--kernel", "matern"], "--kernel must be Gaussian or Periodic"),
        (["--bogus"], "--bogus"),
        (["extra"], "extra"),
    ],
)  # fmt: skip
def test_bad_options_of_inspect(refused, options, message):
    assert message in refused(*SMALL, *options)


def test_out_that_is_a_file(refused, tmp_path):
    path = tmp_path / "taken"
    path.touch()
    assert "--out" in refused(*SMALL, "--out", str(path))
    assert "--out must be a folder" in refused(*SMALL, "--out", str(path / "below"))


@pytest.mark.parametrize(
    "options, message",
    [
        (["missing.toml"], "there is no file missing.toml"),
        (["quadratic-bandits"], "SPEC must be an experiment, got 'quadratic-bandits'; did you mean quadratic-bandit?"),
        (["--horizon", "0"], "--horizon must be at least 1, got 0"),
        (["--horizon", str(10**400)], "--horizon must be at most 9007199254740992, got 2**1328"),
        (["posynomial", "--horizon", str(10**400)], "--horizon must be at most 9007199254740992, got"),
        (["--loss-norm", "-1"], "--loss-norm must be positive, got -1"),
        (["--loss-range", "1", "0"], "--loss-range must be (low, high)"),
        (["--learner", "leader", "--loss-range", "0", "1"], "--loss-range does not fit"),
        (["--learner", "insured"], "--loss-range must be given"),
        (["--learner", "leader"], "--learner leader: no tractable projection"),
        (["--learner", "weights"], "--learner must be among bandit-exp-weights, "),
        (["--spacing", "-1"], "--spacing must be positive"),
        (["--kernel", "gaussian:degree=2"], "degree is not a parameter of Gaussian"),
    ],
)  # fmt: skip
def test_bad_options_of_bound(refused, options, message):
    assert message in refused("bound", *options)


PARTS = ["bandit", "insured", "exp-weights", "conditional-gradient", "leader"]
NAMES = ["bandit-exp-weights", "insured-bandit", "follow-the-regularized-leader"]


@pytest.mark.parametrize("learner", PARTS + NAMES)
def test_bound_of_every_learner(good, learner):
    game = ["bound", "--learner", learner, "--kernel", "quadratic", "--horizon", "400"]
    if "insured" in learner:
        game += ["--loss-range", "0", "1", "--spacing", "0.2"]
    (entry,) = json.loads(good(*game, "--json"))
    assert (entry["learner"], entry["rounds"]) == (learner, 400)
    assert entry["guarantee"]["valid"]
    table = good(*game)
    for term in entry["guarantee"]["terms"]:
        assert term in table
    assert "assumes: " in table


@pytest.mark.parametrize("name, kind", [("bandit", kl.BanditExpWeights), ("insured", kl.InsuredBandit)])  # fmt: skip
def test_bound_is_that_of_the_learner(good, name, kind):
    game = ["bound", "--learner", name, "--actions", "grid", "--spacing", "0.2"]
    (entry,) = json.loads(good(*game, "--loss-range", "0", "1", "--json"))
    actions = kl.Box([0, 0], [1, 1]).net(0.2)
    learner = kind(actions, kl.Gaussian(0.3), horizon=10_000, loss_range=(0, 1))
    assert entry["guarantee"]["total"] == pytest.approx(learner.guarantee().total)
    assert (entry["paper"] is None) == (name == "insured")


def test_list(good, refused):
    text, entries = good("list"), json.loads(good("list", "--json"))
    assert set(entries) == {"experiments", "learners", "adversaries", "kernels", "actions"}
    for part in entries.values():
        assert all(entry["name"] in text for entry in part)
    assert [entry["name"] for entry in entries["experiments"]] == shipped()
    assert "--spec must be an experiment, got 'nothing'" in refused("list", "--spec", "nothing")


def test_list_prints_a_spec_to_copy(good, tmp_path):
    text = good("list", "--spec", "posynomial")
    assert tomllib.loads(text)["game"]["kernel"]["kind"] == "Posynomial"
    copy = tmp_path / "copy.toml"
    copy.write_text(text, encoding="utf-8")
    assert "posynomial" in good("bound", str(copy)).lower()


@pytest.mark.parametrize(
    "options",
    [
        ["--kernel", "gaussian"],
        ["--spacing", "0.1", "--dimension", "2"],
        ["--loss-range", "0", "1"],
    ],
)
def test_a_spec_leaves_nothing_to_say_to_bound(refused, options):
    flags = ", ".join(sorted((o for o in options if o.startswith("--")), key=options.index))
    error = refused("bound", "posynomial", "--horizon", "9", *options)
    assert error.startswith("error: give SPEC, which says what is played, or --")
    assert all(flag in error for flag in flags.split(", "))


def test_names_are_no_markup_on_a_terminal(good, tmp_path):
    text = good("list", "--spec", "posynomial").replace('"conditional gradient"', '"[red]x[/red] [/] :smile:"')  # fmt: skip
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    assert "[red]x[/red] [/] :smile:, " in good("bound", str(tmp_path / "own.toml"))
