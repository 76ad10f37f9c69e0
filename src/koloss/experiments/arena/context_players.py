"""Who plays games with contexts: the library's learners, contextual GP-UCB, and one plain player for each context."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from koloss._random import LEARNERS, as_generator
from koloss.actions import Contexts, Points
from koloss.experiments.arena.base import Choice, ContextPlayer, Game, PlayerSpec
from koloss.experiments.arena.baselines import CENTRE, TOLERANCE, Exp3
from koloss.experiments.arena.context_peers import CONTEXT_PEERS, DeterministicInContext, InContext
from koloss.kernels import Kernel
from koloss.learners import BanditExpWeights, InsuredBandit
from koloss.learners.insured.regression import Regression
