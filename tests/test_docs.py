"""The documentation's figures are what their script draws."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.slow
def test_figures_can_be_drawn_again(tmp_path):
    # The numbers in them are tested elsewhere; a drawing differs from one matplotlib to the next.
    script = DOCS / "figures" / "guide.py"
    spec = importlib.util.spec_from_file_location("guide_figures", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ROUNDS = 100  # a tenth of those in the guide
    drawn = {path.name for path in module.main(tmp_path)}
    assert drawn == {path.name for path in script.parent.glob("*.svg")}
    assert all((tmp_path / name).stat().st_size > 10_000 for name in drawn)


def test_figures_are_shown_in_both_schemes():
    shown = {
        (name, scheme, only)
        for page in DOCS.glob("**/*.md")
        for name, scheme, only in re.findall(
            r"figures/(\w+)-(light|dark)\.svg#only-(light|dark)\)", page.read_text("utf-8")
        )
    }
    names = {path.stem.rpartition("-")[0] for path in (DOCS / "figures").glob("*.svg")}
    assert shown == {(name, scheme, scheme) for name in names for scheme in ("light", "dark")}
