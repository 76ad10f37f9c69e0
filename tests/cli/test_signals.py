"""A signal ends a command that plays with one line, and its number in the exit code."""

from __future__ import annotations

import os
import signal

import pytest

from koloss import experiments


@pytest.mark.parametrize("name, how", [("SIGINT", "interrupted"), ("SIGTERM", "ended by SIGTERM")])
def test_signals_end_a_command(cli, monkeypatch, tmp_path, name, how):
    number = signal.Signals[name]
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(experiments, "run", lambda *_, **__: os.kill(os.getpid(), number))
    line = f"error: {how}; the same command goes on with the runs in {tmp_path}\n"
    assert cli("run", "posynomial", "--out", str(tmp_path)) == (128 + number, "", line)
    assert handlers == {one: signal.getsignal(one) for one in handlers}
