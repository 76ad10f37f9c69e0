"""What the last digits of a learner's numbers depend on."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg  # of which the BLAS is then loaded
from threadpoolctl import threadpool_info

from koloss._version import __version__


def _simd() -> str:
    """The highest instructions that NumPy has chosen its loops for."""
    with suppress(ImportError):
        from numpy._core._multiarray_umath import (  # type: ignore[import-not-found, unused-ignore]
            __cpu_baseline__,
            __cpu_dispatch__,
            __cpu_features__,
        )

        found = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
        for name in reversed([*__cpu_baseline__, *found]):
            return str(name)
    return "unknown"


def blas() -> Iterator[str]:
    """Name, version and kernels of each BLAS that NumPy and SciPy call; of others where theirs cannot be told from them."""
    loaded = [one for one in threadpool_info() if one["user_api"] == "blas"]
    # Wheels bring one along, in a folder of theirs or next to it; other packages bring others, which do not count.
    packages = [Path(str(module.__file__)).parent for module in (np, scipy)]
    homes = [*packages, *(one.with_name(f"{one.name}.libs") for one in packages)]
    ours = [
        one for one in loaded if any(Path(one["filepath"]).is_relative_to(home) for home in homes)
    ]
    for one in ours or loaded:
        parts = (one["internal_api"], one.get("version"), one.get("architecture"))
        yield " ".join(str(part) for part in parts if part)
    if not loaded:  # one that threadpoolctl does not know
        with suppress(KeyError, TypeError):
            built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
            yield f"{built['name']} {built['version']}"


PLATFORM = ", ".join(
    [
        f"koloss {__version__}",
        f"numpy {np.__version__} {_simd()}",
        f"scipy {scipy.__version__}",
        *sorted(set(blas())),
        f"{platform.system()} {platform.machine()}",
        " ".join(part for part in platform.libc_ver() if part) or "its own libc",
    ]
)
"""What decides the last digits: versions, the BLAS and its kernels, the instructions that NumPy uses, the C library."""
