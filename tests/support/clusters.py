"""What tests of clusters share."""

from __future__ import annotations

import importlib.util

import pytest

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="dask is not installed: pip install 'koloss[distributed]'",
)

REMOTE = """\
from distributed import LocalCluster
import time
if __name__ == "__main__":
    cluster = LocalCluster(1, processes=False, protocol="tcp", threads_per_worker=1, dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""
"""A cluster in one process, to be killed."""
