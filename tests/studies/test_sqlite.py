from __future__ import annotations

import pytest

from koloss.studies.sqlite import SQLiteStore
from koloss.testing import StoreContract


class TestContract(StoreContract):
    @pytest.fixture(params=["power", "process"])
    def connect(self, tmp_path, request):
        return lambda: SQLiteStore(tmp_path / "studies.db", durability=request.param)
