"""`koloss study`: what its verbs do, print and refuse."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3

import pytest
import typer

import koloss as kl
from koloss.cli import study_text
from koloss.cli.app import application
from koloss.studies import export, open_store
from koloss.studies.spec import EXAMPLE
from tests.support.studies import ARMS

STUDY = 'unit = "EUR"\nlabels = {team = "shop"}'
SPEC = ARMS.replace("lease = 60\ndefault = 1", STUDY).replace("[0, 1]", "[-1, 1]")
EVENTS = 6
"""In the log of `arms`."""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


@pytest.fixture(autouse=True)
def store(url, monkeypatch):
    """Every verb finds the store by the variable."""
    monkeypatch.setenv("KOLOSS_STORE", url)


@pytest.fixture
def spec(tmp_path):
    """Write a spec, and give its path."""

    def write(text=SPEC):
        path = tmp_path / "arms.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A store with a study of three decisions, of which two have been told."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "arms.toml").write_text(SPEC, encoding="utf-8")
    path = folder / "studies.db"
    with kl.Study.from_toml(f"sqlite:///{path}", folder / "arms.toml") as study:
        study.ask(3)
        study.tell([0, 2], [0.5, -0.25])
    return path


@pytest.fixture
def arms(template, tmp_path):
    """The same, for one test; nobody has it open."""
    shutil.copy(template, tmp_path / "studies.db")


def test_a_life_as_json(good, spec, url, tmp_path):
    made = json.loads(good("study", "create", spec(), "--json"))
    assert (made["name"], made["store"], made["asked"]) == ("arms", url, 0)
    one = json.loads(good("study", "ask", "arms", "--json"))
    assert set(one) == {"id", "action", "index", "probability", "epoch"}
    three = json.loads(good("study", "ask", "arms", "--count", "3", "--json"))
    assert [decision["id"] for decision in three] == [1, 2, 3]
    told = json.loads(good("study", "tell", "arms", "0", "-0.5", "3", "1e-1", "--json"))
    assert told == {"told": [{"id": 0, "value": -0.5}, {"id": 3, "value": 0.1}]}
    path = tmp_path / "arms.csv"
    assert json.loads(good("study", "export", "arms", str(path), "--json"))["decisions"] == 4
    with path.open(encoding="utf-8", newline="") as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["-0.5", "", "", "0.1"]
    report = json.loads(good("study", "verify", "arms", "--json"))
    assert (report["ok"], report["decisions"], report["events"]) == (True, 4, 7)
    with kl.Study.open(url, "arms") as study:  # which is what Python has
        assert [event.kind for event in study.events()] == [
            "created",
            *["asked"] * 4,
            *["told"] * 2,
        ]


def test_the_example_is_printed(good, monkeypatch):
    monkeypatch.delenv("KOLOSS_STORE")
    assert good("study", "create", "--example") == EXAMPLE


def test_list(good, spec, url):
    assert good("study", "list") == f"no studies in {url}\n"
    good("study", "create", spec())
    good("study", "create", spec(), "--name", "other")
    good("study", "ask", "other")
    studies = json.loads(good("study", "list", "--json"))
    assert [(one["name"], one["events"]) for one in studies] == [("arms", 1), ("other", 2)]
    assert studies[0]["labels"] == {"team": "shop"}
    text = good("study", "list")
    for word in ("arms", "other", "BanditExpWeights", "minimize", "team=shop"):
        assert word in text


@pytest.mark.usefixtures("arms")
def test_show_draws_the_state(good, url):
    text = good("study", "show", "arms")
    for part in (
        "arms, in ",
        "decisions     3",
        "told          2",
        "outstanding   1",
        "team=shop",
        "Best action so far",
        "Probabilities of the next decision",
        "Losses in EUR, the last 2 in their order",
        "-0.25 █▁ 0.50",
    ):
        assert part in text
    with kl.Study.open(url, "arms") as study:
        law, best = study.probabilities(), study.recommend()
        for warning in study.status().facts["warnings"]:
            assert f"warning: {warning}" in text
    bars = {line.split()[0]: line for line in text.splitlines() if "█" in line and "0." in line}
    longest = max(law, key=lambda one: one["probability"])
    assert bars[f"{longest['index']}:"].count("█") == 30
    for one in law:
        assert f"{one['probability']:.3f}" in text
    shown = re.search(r"(\S+) EUR on average", text)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(best.loss, rel=0.01, abs=1e-12)


@pytest.mark.usefixtures("arms")
def test_show_as_json_is_what_is_drawn(good, url):
    shown = json.loads(good("study", "show", "arms", "--json"))
    assert shown["values"] == [0.5, -0.25]
    assert sum(one["probability"] for one in shown["probabilities"]) == pytest.approx(1)
    assert (shown["asked"], shown["told"], shown["waiting"]) == (3, 2, 1)
    with kl.Study.open(url, "arms") as study:
        assert shown["best"] == study.status().best


def test_show_with_a_context(good, refused, spec):
    text = SPEC.replace("[learner]", '[contexts]\nX = ["red", "green"]\n\n[learner]')
    good("study", "create", spec(text))
    one = json.loads(good("study", "ask", "arms", "--context", "red", "--json"))
    good("study", "tell", "arms", str(one["id"]), "0.5")
    shown = json.loads(good("study", "show", "arms", "--json"))
    assert (shown["best"], shown["probabilities"]) == ({}, [])
    shown = json.loads(good("study", "show", "arms", "--context", "red", "--json"))
    assert len(shown["probabilities"]) == 3
    assert shown["best"]["index"] in range(3)
    assert "where the context is red" in good("study", "show", "arms", "--context", "red")
    assert "--context must be one of 'red', 'green', got 'blue'" in refused(
        "study", "ask", "arms", "--context", "blue"
    )


def test_params_of_a_space(good, spec):
    space = '[actions.parameters]\nsize = {kind = "Int", low = 1, high = 3}\n'
    text = SPEC.replace('[actions]\nkind = "Points"\nX = [[0.0], [0.5], [1.0]]\n', space)
    good("study", "create", spec(text))
    allowed = ["--allowed", '[{"size": 2}]']
    assert good("study", "ask", "arms", *allowed).startswith("decision 0: size=2  (row 1")
    one = json.loads(good("study", "ask", "arms", *allowed, "--json"))
    assert one["params"] == {"size": 2}


@pytest.mark.usefixtures("arms")
def test_the_same_key_is_done_once(good, refused):
    asked = [good("study", "ask", "arms", "--request", "a", "--json") for _ in range(2)]
    assert asked[0] == asked[1]
    i = str(json.loads(asked[0])["id"])
    for _ in range(2):
        good("study", "tell", "arms", i, "0.5", "--request", "t")
    assert "told already" in refused("study", "tell", "arms", i, "0.5")
    assert json.loads(good("study", "show", "arms", "--json"))["told"] == 3


@pytest.mark.usefixtures("arms")
def test_several_are_told_together_or_not_at_all(good, refused):
    assert "ID must be outstanding, got 0" in refused(
        "study", "tell", "arms", "1", "0.5", "0", "0.5"
    )
    assert json.loads(good("study", "show", "arms", "--json"))["told"] == 2
    good("study", "tell", "arms", "1", "0.5")


@pytest.mark.usefixtures("arms")
def test_a_paused_study_makes_no_decisions(cli, good, url):
    good("study", "pause", "arms", "--author", "me", "--reason", "stock")
    assert "arms (paused)" in good("study", "show", "arms")
    answer = cli("study", "ask", "arms")
    assert (answer.code, answer.out) == (1, "")
    assert "paused" in answer.err
    good("study", "tell", "arms", "1", "0.5")
    assert json.loads(good("study", "resume", "arms", "--json")) == {
        "name": "arms",
        "paused": False,
    }
    good("study", "ask", "arms")
    with kl.Study.open(url, "arms") as study:
        (paused,) = (event for event in study.events() if event.kind == "paused")
    assert paused.data == {"author": "me", "reason": "stock"}


def test_buttons_of_the_insured_learner(good, refused, spec, url):
    good("study", "create", spec(SPEC.replace("BanditExpWeights", "InsuredBandit")))
    for verb in ("hand-over", "re-arm"):
        good("study", verb, "arms", "--author", "me", "--reason", "a hunch")
    good("study", "change", "arms", "withdraw", "[0]", "--author", "me", "--reason", "sold out")
    asked = json.loads(good("study", "ask", "arms", "--count", "20", "--json"))
    assert 0 not in [decision["index"] for decision in asked]
    why = refused("study", "change", "arms", "horizon", "7", "--author", "me", "--reason", "more")
    assert "SETTING must be one of" in why
    with kl.Study.open(url, "arms") as study:
        kinds = [event.kind for event in study.events()]
    assert kinds[1:4] == ["handed over", "re-armed", "changed"]
    good("study", "create", spec(), "--name", "plain")
    assert "InsuredBandit" in refused("study", "hand-over", "plain")


@pytest.mark.usefixtures("arms")
def test_a_subject_keeps_its_decision_until_it_is_forgotten(good):
    ids = [
        json.loads(good("study", "ask", "arms", "--subject", "bob", "--json"))["id"] for _ in "ab"
    ]
    assert ids[0] == ids[1]
    forgotten = json.loads(good("study", "forget-subject", "arms", "bob", "--json"))
    assert forgotten == {"name": "arms", "erased": 1}
    assert json.loads(good("study", "ask", "arms", "--subject", "bob", "--json"))["id"] > ids[0]
    assert json.loads(good("study", "verify", "arms", "--json"))["ok"]


@pytest.mark.usefixtures("arms")
def test_a_copy_is_a_store(good, refused, tmp_path):
    path = tmp_path / "copy.db"
    good("study", "backup", str(path))
    good("study", "ask", "arms")
    there = json.loads(good("study", "show", "arms", "--store", f"sqlite:///{path}", "--json"))
    assert there["asked"] == 3
    assert f"PATH must be that of a new file, got {path}" in refused("study", "backup", str(path))


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize(
    "change",
    [
        "update koloss_events set data = replace(data, '\"index\":', '\"index\":1') where seq = 2",
        "update koloss_events set data = replace(data, '0.5', '0.75') where kind = 'told' and decision = 7",
        "delete from koloss_events where seq = 4",
        "update koloss_events set micros = 0 where seq = 3",
    ],
)
def test_a_history_that_was_changed_does_not_prove_itself(cli, good, tmp_path, change):
    """The second change finds nothing to change: then all is well, and the exit code says so."""
    with sqlite3.connect(tmp_path / "studies.db") as db:
        changed = db.execute(change).rowcount
    db.close()
    answer = cli("study", "verify", "arms")
    assert answer.code == (1 if changed else 0)
    assert ("as recorded" in answer.out) == (not changed)
    report = json.loads(cli("study", "verify", "arms", "--json").out)
    assert report["ok"] == (not changed)


@pytest.mark.parametrize(
    "line, problem",
    [
        ("ask nobody", "there is no study 'nobody'"),
        ("verify nobody", "there is no study 'nobody'"),
        ("list --store sqlite:////nowhere/at/all.db", "there is no folder"),
    ],
)
@pytest.mark.usefixtures("arms")
def test_what_is_not_there(cli, line, problem):
    answer = cli("study", *line.split())
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert problem in answer.err


@pytest.mark.parametrize(
    "line, problem",
    [
        ("create", "SPEC must be given, or --example"),
        ("create nothing.toml", "there is no file nothing.toml"),
        ("create SPEC", "there is a study 'arms'"),
        ("tell arms 1", "ID VALUE must be pairs, got 1 words: 1"),
        ("tell arms one 0.5", "ID must be a whole number, got 'one'"),
        ("tell arms 1 much", "VALUE must be a number, got 'much'"),
        ("tell arms 1 7", "VALUE must be in [-1, 1], got 7"),
        ("tell arms -1 0.5", "ID must be outstanding, got -1, which was never made"),
        (f"tell arms {10**30} 0.5", "which was never made"),
        ("ask arms --context NaN", "--context must be finite, got nan"),
        (f"ask arms --context {'[' * 2000}", "--context must be left out"),
        ("tell arms 1 0.5 --requst a", "ID must be a whole number, got '--requst'"),
        ("ask arms --count 0", "--count must be at least 1, got 0"),
        ("ask arms --count 2 --subject bob", "--count must be left out beside a --subject"),
        ("ask arms --allowed [9]", "--allowed must have rows from 0 to 2, got 9"),
        ("export arms table.xlsx", "PATH must end in .csv or .parquet, got 'table.xlsx'"),
        ("list --store mysql://me:hush@host/prices", "--store must begin with sqlite:///"),
        ("change arms lease 0 --author me --reason no", "VALUE must be"),
        ("change arms lease 5", "Missing option '--author'"),
    ],
)
@pytest.mark.usefixtures("arms")
def test_refused(refused, spec, url, line, problem):
    why = refused("study", *line.replace("SPEC", spec()).split())
    assert problem in why
    assert "hush" not in why
    with open_store(url).transaction("arms") as log:
        assert log.last == EVENTS


def test_no_store(refused, monkeypatch):
    monkeypatch.delenv("KOLOSS_STORE")
    assert "--store must be given, or KOLOSS_STORE be set" in refused("study", "list")


def test_a_mistake_in_a_spec_is_said_with_its_line(refused, good, spec):
    path = spec(SPEC.replace('unit = "EUR"', "default = 3"))
    assert refused("study", "create", path).startswith(f"error: {path}, line 5: study.default: ")
    assert "name: is missing" in refused("study", "create", spec(SPEC.replace('name = "arms"', "")))
    assert json.loads(good("study", "list", "--json")) == []


def test_every_verb_is_in_the_help_and_has_a_store_and_json(good):
    verbs = "create list show ask tell export verify backup pause resume hand-over re-arm change"
    text = good("study")
    assert good("study", "--help") == text
    commands = typer.main.get_command(application()).commands["study"].commands
    assert {*verbs.split(), "forget-subject"} == set(commands)
    for verb, command in commands.items():
        assert verb in text.split()
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {"--store", "--json"} <= flags
    assert "KOLOSS_STORE" in good("study", "ask", "--help")


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize(
    "words, answers",
    [
        ("koloss study ver", ["verify"]),
        ("koloss study ask a", ["arms"]),
        ("koloss study ask b", []),
        ("koloss study ask --sto", ["--store"]),
    ],
)
def test_shell_completion(completed, monkeypatch, words, answers):
    assert completed(words) == answers
    monkeypatch.setenv("KOLOSS_STORE", "sqlite:////nowhere/at/all.db")
    if "arms" in answers:
        assert completed(words) == []


# Drawing.


def test_columns_are_means_of_values():
    values = [0.0] * 50 + [1.0] * 50
    assert study_text.columns(values, study_text.BLOCKS, width=4) == "0.00 ▁▁██ 1.00"
    assert study_text.columns([2.0] * 9, ".:#", width=4) == "2.00 .... 2.00"


def test_a_terminal_without_blocks(monkeypatch, capsys):
    class Stream:
        encoding = "ascii"

    monkeypatch.setattr(study_text.sys, "stdout", Stream())
    assert study_text.blocks() == study_text.PLAIN


def test_long_actions_are_cut():
    text = study_text.label({"action": [0.123456] * 9})
    assert text == f"({', '.join(['0.1235'] * 6)}, ...)"


def test_statuses_are_documented():
    for status in export.STATUS:
        assert f'"{status}"' in export.export.__doc__
