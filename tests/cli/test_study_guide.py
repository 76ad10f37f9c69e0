"""The commands in the guide work, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "study_commands.md"


@pytest.mark.slow
def test_the_commands_of_the_guide(cli, tmp_path, monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    (spec,) = (body for kind, body in blocks if kind == "toml")
    (tmp_path / "prices.toml").write_text(spec, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = [line for kind, body in blocks if kind == "console" for line in body.splitlines()]
    verbs = set()
    for line in lines:
        program, *words = shlex.split(line)
        if program == "export":
            monkeypatch.setenv(*words[0].split("=", 1))
            continue
        assert (program, words[0]) == ("koloss", "study")
        answer = cli(*words)
        assert (answer.code, answer.err) == (0, ""), line
        assert answer.out
        verbs.add(words[1])
    assert len(verbs) == 14  # all of them
    assert {path.name for path in tmp_path.glob("*.csv")} == {"prices.csv"}

    (tmp_path / "prices.toml").write_text(spec.replace("3600", "0"), encoding="utf-8")
    (error,) = (body for kind, body in blocks if kind == "text")
    assert cli("study", "create", "prices.toml", "--name", "other").err == error
