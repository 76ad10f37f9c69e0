"""An insured learner with contexts: from its settings to who plays, and what `InsuredBandit` asks of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
