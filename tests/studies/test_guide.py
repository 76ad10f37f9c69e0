"""The program of the guide: four workers, of whom one is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import koloss as kl

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "four_workers.py"


def test_the_guide_shows_the_program_as_it_is():
    assert EXAMPLE.read_text("utf-8") in (ROOT / "docs" / "guide" / "studies.md").read_text("utf-8")


def play(store):
    done = subprocess.run(
        [sys.executable, EXAMPLE, store], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ended with [-9, 0, 0, 0]" in done.stdout
    asked, told, waiting = map(
        int, re.search(r"(\d+) prices asked for, (\d+) told, (\d+) still", done.stdout).groups()
    )
    assert (
        150 <= told <= asked <= told + 1
    )  # of the one that was killed, at most the last is missing
    assert waiting == asked - told
    assert "as recorded" in done.stdout
    # A second count, from the log itself.
    with kl.Study.open(store, "prices") as study:
        events = list(study.events())
    made = [event.decision for event in events if event.kind == "asked"]
    heard = [event.decision for event in events if event.kind == "told"]
    assert made == list(range(asked))
    assert len(heard) == len(set(heard)) == told


@pytest.mark.slow
def test_four_workers_on_sqlite(tmp_path):
    play(f"sqlite:///{tmp_path / 'shop.db'}")


@pytest.mark.slow
def test_four_workers_on_postgresql(postgres_url):
    play(postgres_url)
