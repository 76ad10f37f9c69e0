"""The paper's experiments, and any that a small TOML file describes: played, summed up and reported."""

from koloss.experiments.catalogue import bounds, catalogue
from koloss.experiments.results import Curve, Dimension, Result, Results
from koloss.experiments.runner import run
from koloss.experiments.spec import (
    Experiment,
    LearnerSpec,
    Picture,
    Source,
    SpecError,
    load,
    parse,
    shipped,
    spec_text,
)
from koloss.games.store import FolderInUse, Job, Progress

__all__ = [
    "Curve",
    "Dimension",
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
