"""What the last digits of a learner's numbers depend on."""

from __future__ import annotations

import platform
from contextlib import suppress

import numpy as np
import scipy

from koloss._version import __version__


def _processor() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Hardware"):
                return value.strip()
    return platform.processor() or platform.machine()


PLATFORM = ", ".join(
    [
        f"koloss {__version__}",
        f"numpy {np.__version__}",
        f"scipy {scipy.__version__}",
        platform.system(),
        _processor(),
    ]
)
"""Where it is the same, a learner that is asked and told the same draws the same, to the last digit."""
