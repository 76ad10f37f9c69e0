"""The verbs of studies on PostgreSQL: the same answers as on SQLite, and the secret nowhere."""

from __future__ import annotations

import json

import pytest

import koloss as kl
from koloss.cli import main
from tests.support.server import free_port
from tests.support.studies import ARMS


@pytest.fixture
def run(capsys):
    """Run a verb: its exit code, and all that it printed."""

    def call(url, *words):
        with pytest.raises(SystemExit) as end:
            main(["study", *words, "--store", url])
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return call


def life(run, url, folder, table):
    """What some verbs print of a study, without times and addresses."""
    (folder / "arms.toml").write_text(ARMS, encoding="utf-8")
    verbs = [
        ["create", str(folder / "arms.toml")],
        ["ask", "arms", "--count", "3", "--json"],
        ["tell", "arms", "0", "0.5", "2", "0.25"],
        ["export", "arms", str(folder / table), "--json"],
        ["verify", "arms", "--json"],
        ["list", "--json"],
        ["show", "arms", "--json"],
        ["show", "arms"],
    ]
    answers = [run(url, *words) for words in verbs]
    assert [code for code, _, _ in answers] == [0] * len(verbs), answers
    decisions, report, shown = (json.loads(answers[k][1]) for k in (1, 4, 6))
    assert report["ok"]
    parts = ("asked", "told", "waiting", "best", "probabilities", "values")
    return [decisions, *(shown[part] for part in parts)], answers


@pytest.mark.slow
def test_it_is_the_same_on_both(run, server, postgres_url, tmp_path):
    there, answers = life(run, postgres_url, tmp_path, "postgres.csv")
    here, _ = life(run, f"sqlite:///{tmp_path / 'studies.db'}", tmp_path, "sqlite.csv")
    assert there == here
    printed = "".join(out + err for _, out, err in answers)
    assert server.password not in printed
    assert server.password not in (tmp_path / "postgres.csv").read_text(encoding="utf-8")
    with kl.Study.open(postgres_url, "arms") as study:
        assert len(list(study.events())) == 6


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_is_one_line_without_the_secret(run, server):
    url = server.url(port=free_port())
    code, out, err = run(url, "list")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert server.password not in err
