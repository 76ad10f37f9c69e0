"""Studies of every format that was released can be opened, asked, told and verified; those of later ones are refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import koloss as kl
from koloss.errors import AlreadyTold, StoreError, StudyPaused
from koloss.studies.state import FORMAT
from tests.studies.common import created, kinds

ASSETS = Path(__file__).parent / "assets"


def test_there_is_a_file_of_every_format() -> None:
    for number in range(1, FORMAT + 1):
        assert (ASSETS / f"study-{number}.db").exists()
        assert (ASSETS / f"create_study_{number}.py").exists()


@pytest.fixture(params=sorted(ASSETS.glob("study-*.db")), ids=lambda path: path.stem)
def url(request: Any, tmp_path: Path) -> str:
    shutil.copy(request.param, tmp_path / "studies.db")
    return f"sqlite:///{tmp_path}/studies.db"


def test_old_studies_go_on(url: str) -> None:
    with kl.Study.open(url, "prices") as prices:
        status = prices.status()
        assert (status.goal, status.unit, status.labels) == ("maximize", "EUR", {"team": "shop"})
        assert (status.lease, status.default, status.unused) == (60.0, 0.0, 1)
        assert status.paused
        with pytest.raises(StudyPaused):
            prices.ask()
        prices.resume()
        first = prices.ask(3, request="ask 4")  # which was answered then
        assert first.id.tolist() == [4, 5, 6]
        with pytest.raises(AlreadyTold):
            prices.tell(first, [0.5] * 3)
        prices.tell(prices.ask(), 0.5)
        assert set(kinds(prices)) >= {"created", "asked", "told", "expired", "paused"}
    with kl.Study.open(url, "offers") as offers:
        offers.tell(offers.ask(context="old"), 0.5)
        assert set(kinds(offers)) >= {"released", "handed over"}
        assert offers.status().held > 0


@pytest.mark.parametrize("name", ["prices", "offers"])
def test_old_studies_prove_themselves(url: str, name: str) -> None:
    report = kl.studies.verify(url, name)
    assert report.ok, report
    assert report.decisions > 30


def test_later_formats_are_refused() -> None:
    study, store, _ = created()
    study.ask()
    first = store.events("prices")[0]
    store.damage("prices", 1, data={**first.data, "format": FORMAT + 1})
    with pytest.raises(
        StoreError, match=rf"format of this study is {FORMAT + 1}, .* up to {FORMAT}"
    ):
        kl.Study.open(store, "prices")
