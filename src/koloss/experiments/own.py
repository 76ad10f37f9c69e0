"""An adversary of the user's: a function in a Python file that a spec names.

Whatever that code does wrong is said with its file and its line. What it prints goes to standard error: standard output
is for results.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.errors import AdversaryError
from koloss.games.adversaries import Adversary
from koloss.kernels import Kernel, Loss


def own_adversary(
    path: Path, name: str, kernel: Kernel, actions: ActionSet, rng: np.random.Generator
) -> Adversary:
    """What the function of that name in a file makes."""
    if not (path.is_file() and path.suffix == ".py"):
        raise ValueError(f"`file` must be a Python file beside the spec, got {path.name!r}")
    spec = importlib.util.spec_from_file_location(path.stem, os.path.abspath(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _blaming(path):
        spec.loader.exec_module(module)
    make = getattr(module, name, None)
    if not callable(make):
        raise ValueError(f"`make` must be a function of {path.name}, got {name!r}")
    with _blaming(path):
        made = make(kernel, actions, rng)
    if not isinstance(made, Adversary):
        got = f"{type(made).__name__} from {path.name}"
        raise TypeError(f"`make` must give an Adversary, got {got}")
    return _Own(made, path, len(actions) if isinstance(actions, Points) else None)


class _Own(Adversary):
    """An adversary whose mistakes are told as such."""

    def __init__(self, adversary: Adversary, path: Path, points: int | None) -> None:
        self.adversary, self.path, self.points = adversary, path, points
        with _blaming(path):
            self.oblivious, self.name = bool(adversary.oblivious), repr(adversary)

    def choose(self, t: int, player: Any) -> Any:
        with _blaming(self.path):
            loss = self.adversary(t, player)
        if isinstance(loss, Loss):
            return loss
        try:
            values = np.asarray(loss, dtype=float)
        except (TypeError, ValueError):
            values = np.array(np.nan)
        points = "all points" if self.points is None else f"{self.points} points"
        fits = values.ndim == 1 and self.points in (None, len(values))
        if not (fits and np.isfinite(values).all()):
            got = f"shape {values.shape}" if values.ndim == 1 and not fits else _shown(loss)
            rule = f"must be a Loss, or the finite losses of {points}"
            raise AdversaryError(f"{self.path.name}: what is played in round {t} {rule}, got {got}")
        return values

    def __repr__(self) -> str:
        return self.name


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Run the user's code; what it raises, be it an exit, is an `AdversaryError` with the line."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = _line(error, os.path.abspath(path))
        where = f"{path.name}, line {line}" if line else path.name
        words = f"{type(error).__name__}: {_shown(error, str)}".removesuffix(": ")
        # A RuntimeError whose cause is a StopIteration is taken for that itself by `contextmanager`.
        cause = None if isinstance(error, StopIteration) else error
        raise AdversaryError(f"{where}: {words}") from cause


def _line(error: BaseException, path: str) -> int | None:
    """The last line of a file that was being run, or that cannot be read as Python."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    steps = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in steps if frame.f_code.co_filename == path]
    return lines[-1] if lines else None


def _shown(thing: Any, form: Any = repr) -> str:
    """A thing in words, on one line, cut where they are long."""
    try:
        text = " ".join(form(thing).split())
    except Exception:
        return f"a {type(thing).__name__} that cannot be shown"
    return text if len(text) <= 300 else f"{text[:300]} …"
