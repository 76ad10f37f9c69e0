"""Stores and studies that former versions have made. A file of each released format is kept, with the script that made it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import koloss as kl
from koloss.errors import AlreadyTold, StoreError, StudyPaused
from koloss.studies import open_store, verify
from koloss.studies.state import FORMAT as STUDIES
from koloss.studies.store import FORMAT
from tests.support.studies import created, kinds

ASSETS = Path(__file__).parent / "assets"


@pytest.fixture(params=range(1, FORMAT + 1))
def kept(request, tmp_path):
    """The address of a store of a format, and what was written into it."""
    name = f"format-{request.param}"
    shutil.copy(ASSETS / f"{name}.db", tmp_path / "kept.db")
    written = json.loads((ASSETS / f"{name}.json").read_text())
    return f"sqlite:///{tmp_path}/kept.db", written


def test_what_was_written_is_read(kept):
    url, written = kept
    store = open_store(url)
    assert store.names() == sorted([*written, "offers", "takings"])
    for name, events in written.items():
        with kl.Study.open(store, name) as study:
            read = [event.to_dict() for event in study.events()]
        for event in read:
            event.pop("state", None)
        assert read == events
    assert len(store.snapshots("prices")) == 2
    store.close()


def test_a_history_proves_itself(kept):
    url, written = kept
    for name, events in written.items():
        report = verify(url, name)
        assert report.ok, str(report)
        assert report.events == len(events)
        assert report.decisions == sum(event["kind"] == "asked" for event in events)
    for name in ("takings", "offers"):  # longer ones
        report = verify(url, name)
        assert report.ok, report
        assert report.decisions > 30


def test_a_study_goes_on(kept):
    url, written = kept
    for name, events in written.items():
        last = max(event["decision"] for event in events if event["kind"] == "asked")
        with kl.Study.open(url, name) as study:
            decision = study.ask()
            assert decision.id == last + 1
            study.tell(decision, 0.5)
        assert verify(url, name).ok


def test_a_subject_is_still_known(kept):
    url, written = kept
    at = 1.8e9 + 160
    with kl.Study.open(url, "prices", clock=lambda: at) as study:
        assert study.ask(subject="somebody else").id == written["prices"][-1]["decision"]
        assert study.forget_subject("somebody else") == 1


def test_a_request_is_still_known(kept):
    url, written = kept
    with kl.Study.open(url, "prices", clock=lambda: 1.8e9 + 160) as study:
        asked = next(event for event in written["prices"] if event["request"] == "ask 3")
        decision = study.ask(request="ask 3")
        assert (decision.id, decision.index) == (asked["decision"], asked["index"])
        assert [event.seq for event in study.events()] == [e["seq"] for e in written["prices"]]


def test_there_is_a_file_of_every_format_of_studies():
    assert STUDIES == FORMAT  # with another, a file for each


def test_what_was_said_then_holds(kept):
    url, _ = kept
    with kl.Study.open(url, "takings") as takings:
        status = takings.status()
        assert (status.goal, status.unit, status.labels) == ("maximize", "EUR", {"team": "shop"})
        assert (status.lease, status.default, status.unused) == (60.0, 0.0, 1)
        assert status.paused
        with pytest.raises(StudyPaused):
            takings.ask()
        takings.resume()
        first = takings.ask(3, request="ask 4")  # which was answered then
        assert first.id.tolist() == [4, 5, 6]
        with pytest.raises(AlreadyTold):
            takings.tell(first, [0.5] * 3)
        takings.tell(takings.ask(), 0.5)
        assert set(kinds(takings)) >= {"created", "asked", "told", "expired", "paused"}
    with kl.Study.open(url, "offers") as offers:
        offers.tell(offers.ask(context="old"), 0.5)
        assert set(kinds(offers)) >= {"released", "handed over"}
        assert offers.status().held > 0


def test_studies_of_later_formats_are_refused():
    study, store, _ = created()
    study.ask()
    first = store.events("prices")[0]
    store.damage("prices", 1, data={**first.data, "format": STUDIES + 1})
    with pytest.raises(
        StoreError, match=rf"format of this study is {STUDIES + 1}, .* up to {STUDIES}"
    ):
        kl.Study.open(store, "prices")
