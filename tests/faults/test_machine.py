"""The machine of studies can fail: bugs planted in the library, each of which it must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from koloss.errors import KolossError
from koloss.studies import worker
from koloss.studies.operations import Press, Tell, Turn
from koloss.studies.sqlite import SQLiteTransaction
from koloss.studies.state import State
from tests.support.studies import bandit
from tests.support.study_machine import eager, folder, made, play

__all__ = ["eager", "folder"]  # fixtures


def forget_held(state: State) -> State:
    state.held.clear()
    return state


from_bytes = State.from_bytes.__func__  # type: ignore[attr-defined]
BUGS = {
    "keys are not looked up": (SQLiteTransaction, "by_request", lambda *_: []),
    "leases do not run out": (Turn, "expire", lambda _: None),
    "a default is counted beside the value": (Tell, "_is_used", lambda *_: True),
    "a button does nothing": (Press, "run", lambda *_: None),
    "what is unknown has failed": (worker, "ATTEMPTS", 1),
    "snapshots forget what is held": (
        State,
        "from_bytes",
        classmethod(lambda *said: forget_held(from_bytes(*said))),
    ),
}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("bug", BUGS)
def test_a_study_with_a_fault_is_found_out(
    bug: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*BUGS[bug])
    said = {"lease": 10.0, "default": 0.5}
    if "held" in bug:
        said["release"] = "window"
    with pytest.raises((AssertionError, KolossError, KeyError)):
        play(made(bandit), said, folder, examples=200, seed=0)
