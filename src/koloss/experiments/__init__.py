"""The paper's experiments, and any that a small TOML file describes: played, summed up and reported."""

from koloss.core.toml import Source
from koloss.errors import SpecError
from koloss.experiments.results import Curve, Result, Results, bounds
from koloss.experiments.run import run
from koloss.experiments.specs import (
    Experiment,
    LearnerSpec,
    Picture,
    catalogue,
    load,
    parse,
    shipped,
    spec_text,
)
from koloss.games.store import FolderInUse, Job, Progress

__all__ = [
    "Curve",
    "Experiment",
    "FolderInUse",
    "Job",
    "LearnerSpec",
    "Picture",
    "Progress",
    "Result",
    "Results",
    "Source",
    "SpecError",
    "bounds",
    "catalogue",
    "load",
    "parse",
    "run",
    "shipped",
    "spec_text",
]
