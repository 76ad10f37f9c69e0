"""What tests of clusters share."""

from __future__ import annotations

import importlib.util

import pytest

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="dask is not installed: pip install 'koloss[distributed]'",
)
