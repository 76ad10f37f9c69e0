"""Decisions as a table, against what was asked and told."""

from __future__ import annotations

import csv
import json
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

import koloss as kl
from koloss.studies import export as module
from tests.support.studies import Clock

KERNEL = kl.Gaussian(0.5)
TWO = kl.Points([[0.0], [1.0]])


@pytest.fixture
def clock():
    return Clock(1_000_000.0)


@pytest.fixture
def study_of(tmp_path, clock):
    """A study of a learner, in a file of its own."""

    def create(learner=None, name="prices", **settings):
        if learner is None:
            X = kl.Points([[0.0], [0.5], [1.0]])
            learner = kl.BanditExpWeights(X, KERNEL, horizon=100, loss_range=(0, 1), rng=0)
        url = f"sqlite:///{tmp_path / 'studies.db'}"
        return kl.Study.create(url, name, learner=learner, clock=clock, **settings)

    return create


def with_contexts(contexts, points=TWO):
    settings = {"horizon": 100, "loss_range": (0, 1), "contexts": kl.Contexts(contexts), "rng": 0}
    return kl.BanditExpWeights(points, KERNEL, **settings)


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_the_decisions_in_their_order(study_of, clock, tmp_path):
    study, path = study_of(), tmp_path / "prices.csv"
    made = []
    for k in range(5):
        clock.now = 1_000_000.0 + k
        made.append(study.ask())
    batch = study.ask(3)
    clock.now = 1_000_010.25
    study.tell(made[3], 0.125)
    study.tell(batch, [0.1, 0.2, 0.3])
    assert module.export(study, path) == 8
    rows = read_csv(path)
    columns = "time id action index probability value late_by status"
    assert list(rows[0]) == columns.split()
    decisions = [*made, *batch]
    assert [int(row["id"]) for row in rows] == list(range(8))
    assert [int(row["index"]) for row in rows] == [d.index for d in decisions]
    assert [float(row["probability"]) for row in rows] == [d.probability for d in decisions]
    assert [json.loads(row["action"]) for row in rows] == [d.action.tolist() for d in decisions]
    assert [row["value"] for row in rows] == ["", "", "", "0.125", "", "0.1", "0.2", "0.3"]
    assert [row["late_by"] for row in rows][3:6] == ["7.25", "", "6.25"]
    assert [row["status"] for row in rows] == [
        "told" if k in (3, 5, 6, 7) else "outstanding" for k in range(8)
    ]
    assert datetime.fromisoformat(rows[2]["time"]) == datetime.fromtimestamp(1_000_002, UTC)


def test_both_files_say_the_same(study_of, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    space = kl.Space(
        price=kl.Float(1.0, 10.0, log=True),
        method=kl.Choice(["lru", "random"]),
        value=kl.Int(1, 3, when={"method": "lru"}),  # the name of a column
        on=kl.Choice([True, False]),
        odd=kl.Choice([1, "one", None]),
    )
    study = study_of(with_contexts(["private", "business"], space.points(12)), unit="EUR")
    one = study.ask(context="private")
    batch = study.ask(2, context=["business", "private"])
    study.tell(batch[1], 0.3)
    for name in ("table.csv", "table.parquet"):
        study.export(tmp_path / name)
    rows = read_csv(tmp_path / "table.csv")
    table = parquet.read_table(tmp_path / "table.parquet")
    columns = "time id context price method action.value on odd index probability value late_by"
    assert list(rows[0]) == table.column_names == [*columns.split(), "status"]
    assert [row["context"] for row in rows] == ["private", "business", "private"]
    whole = table.to_pylist()
    for row, same, decision in zip(rows, whole, [one, *batch], strict=True):
        params = decision.params
        assert same["price"] == float(row["price"]) == params["price"]
        assert same["method"] == row["method"] == params["method"]
        assert same["action.value"] == params.get("value")
        assert row["action.value"] == str(params.get("value", ""))
        assert same["on"] is params["on"]
        assert same["odd"] == (None if params["odd"] is None else json.dumps(params["odd"]))
        assert same["time"] == datetime.fromisoformat(row["time"])
        assert same["index"] == int(row["index"]) == decision.index
        assert same["probability"] == float(row["probability"]) == decision.probability
        assert same["context"] == row["context"]
    assert [same["value"] for same in whole] == [None, None, 0.3]
    about = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert (about["study"], about["unit"], about["goal"]) == ("prices", "EUR", "minimize")


def test_actions_of_a_ball_have_no_index(study_of, tmp_path):
    learner = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=50, loss_bound=1, rng=0)
    study = study_of(learner)
    made = study.ask(4)
    study.export(tmp_path / "ball.csv")
    rows = read_csv(tmp_path / "ball.csv")
    assert [json.loads(row["action"]) for row in rows] == made.action.tolist()
    assert {row["index"] for row in rows} == {row["probability"] for row in rows} == {""}


def fates(study, clock, tmp_path):
    study.export(tmp_path / "fates.csv")
    return [
        (row["status"], row["value"], row["late_by"]) for row in read_csv(tmp_path / "fates.csv")
    ]


def test_leases_that_run_out(study_of, clock, tmp_path):
    study = study_of(lease=60)
    study.ask(3)
    clock.now += 10
    study.tell(0, 0.5)
    clock.now += 60
    study.ask()
    clock.now += 5
    study.tell(1, 0.25)
    nothing = ("", "")
    assert fates(study, clock, tmp_path) == [
        ("told", "0.5", "10.0"),
        ("told", "0.25", "75.0"),
        ("expired", *nothing),
        ("outstanding", *nothing),
    ]


def test_defaults_and_what_comes_after_them(study_of, clock, tmp_path):
    study = study_of(lease=60, default=1.0)
    study.ask(2)
    clock.now += 60
    study.ask()
    clock.now += 20
    study.tell(1, 0.25)
    assert fates(study, clock, tmp_path) == [
        ("default", "1.0", "60.0"),
        ("unused", "0.25", "80.0"),
        ("outstanding", "", ""),
    ]


def test_values_that_are_held_until_their_window_is_over(study_of, clock, tmp_path):
    study = study_of(lease=60, release="window")
    study.ask(2)
    clock.now += 10
    study.tell(0, 0.5)
    held = ("held", "0.5", "10.0"), ("outstanding", "", "")
    assert tuple(fates(study, clock, tmp_path)) == held
    clock.now += 60
    study.ask()
    study.tell(1, 0.75)  # its lease is over, so that it is used at once
    assert fates(study, clock, tmp_path) == [
        ("told", "0.5", "10.0"),
        ("told", "0.75", "70.0"),
        ("outstanding", "", ""),
    ]


def test_pages_and_row_groups_leave_nothing_out(study_of, monkeypatch, tmp_path):
    """Batches that lie across pages keep their contexts; every row group is there."""
    parquet = pytest.importorskip("pyarrow.parquet")
    study = study_of(with_contexts([[0.0], [0.5], [1.0]]))
    rows = np.random.default_rng(0).integers(0, 3, size=20).tolist()
    made = study.ask(20, context=rows)
    study.tell(made, np.linspace(0, 1, 20))
    whole = tmp_path / "whole.csv"
    study.export(whole)
    monkeypatch.setattr("koloss.studies.store.PAGE", 3)
    monkeypatch.setattr(module, "ROW_GROUP", 6)
    study.export(tmp_path / "pages.csv")
    study.export(tmp_path / "pages.parquet")
    assert (tmp_path / "pages.csv").read_bytes() == whole.read_bytes()
    assert [row["context"] for row in read_csv(whole)] == [str(row) for row in rows]
    file = parquet.ParquetFile(tmp_path / "pages.parquet")
    assert file.num_row_groups > 2
    assert file.read().column("value").to_pylist() == np.linspace(0, 1, 20).tolist()


def test_what_comes_in_the_meantime_is_left_out(study_of, monkeypatch, tmp_path):
    study = study_of()
    study.ask(4)
    fates = module._Fates

    def meanwhile(events):
        found = fates(events)
        study.tell(0, 0.5)
        study.ask(3)
        return found

    monkeypatch.setattr(module, "_Fates", meanwhile)
    assert module.export(study, tmp_path / "table.csv") == 4
    assert {row["status"] for row in read_csv(tmp_path / "table.csv")} == {"outstanding"}
    monkeypatch.undo()
    assert module.export(study, tmp_path / "table.csv") == 7


def test_a_study_without_decisions(study_of, tmp_path):
    pytest.importorskip("pyarrow")
    study = study_of()
    for name in ("empty.csv", "empty.parquet"):
        assert module.export(study, tmp_path / name) == 0
    assert read_csv(tmp_path / "empty.csv") == []


def test_decisions_from_before_the_study_have_no_row(study_of, clock, tmp_path):
    learner = kl.BanditExpWeights(TWO, KERNEL, horizon=100, loss_range=(0, 1), rng=0)
    learner.ask(2)
    study = study_of(learner)
    study.ask()
    study.tell([1, 2], [0.5, 0.25])
    assert fates(study, clock, tmp_path) == [("told", "0.25", "0.0")]


def test_a_failure_leaves_the_file_as_it_was(study_of, monkeypatch, tmp_path):
    study, path = study_of(), tmp_path / "table.csv"
    study.ask(2)
    study.export(path)
    before = path.read_bytes()
    study.ask(2)

    def fail(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.csv.DictWriter, "writerow", fail)
    with pytest.raises(OSError, match="No space left"):
        study.export(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".koloss-*"))


def test_other_endings_are_refused(study_of, tmp_path):
    with pytest.raises(
        ValueError, match=r"`path` must end in \.csv or \.parquet, got .*table\.xlsx"
    ):
        study_of().export(tmp_path / "table.xlsx")
    assert not list(tmp_path.glob("table*"))


def test_without_pyarrow_the_extra_is_named(study_of, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'koloss\[parquet\]'"):
        study_of().export(tmp_path / "table.parquet")
    assert not list(tmp_path.glob("*parquet*"))


def test_a_batch_of_one_has_one_context(study_of, tmp_path):
    study = study_of(with_contexts(["a", "b"]))
    study.ask(1, context=["b"])
    study.ask(context="a")
    study.export(tmp_path / "table.csv")
    assert [row["context"] for row in read_csv(tmp_path / "table.csv")] == ["b", "a"]
    assert kl.studies.verify(study.store, "prices").ok
