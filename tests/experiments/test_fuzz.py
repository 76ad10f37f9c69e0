"""Specs with a mistake: an error with file and line before anything is played, or games that can be made."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given

from koloss.errors import KolossWarning
from koloss.experiments import SpecError, load
from koloss.experiments.run import check
from tests.support.fuzz import fuzzed, patience
from tests.support.strategies_specs import OWN, specs

ROUNDS = 50
"""Horizon of learners that are made; those of a full game take their time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A place with what the specs name."""
    folder = tmp_path_factory.mktemp("specs")
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    (folder / "losses.csv").write_text("0.5,1,0\n1,0.5,0\n", encoding="utf-8")
    return folder


def read(folder, spec):
    """Read a spec and make all that is in it, or see that the error says where it is wrong."""
    path, refused = folder / "x.toml", None
    path.write_bytes(spec.content)
    try:
        with patience(), warnings.catch_warnings(action="ignore", category=KolossWarning):
            game = load(path)
            check(game, min(game.rounds, ROUNDS))
    except SpecError as error:
        refused = error
    if refused is not None:
        assert refused.path == str(path)
        assert str(refused).startswith(str(path))
        assert 1 <= refused.line <= spec.content.count(b"\n") + 1
        assert len(str(refused)) <= 2000


@fuzzed(few=40, cases=2_500)
@given(spec=specs())
def test_specs(folder, spec):
    read(folder, spec)
