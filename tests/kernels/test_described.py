"""Kernels from words: tables of TOML files, and lines of text."""

from __future__ import annotations

import pytest

import koloss as kl
from koloss.core.toml import Source
from koloss.errors import SpecError
from koloss.kernels.described import kernel_of_text, read_kernel

SOURCE = Source("game.toml", 'kernel = {kind = "Gaussian", bandwidth = -1}\n')


def test_a_table_a_word_and_the_kernel_of_a_space():
    table = {"kind": "gaussian", "bandwidth": 0.5}
    space = kl.Space(size=kl.Int(1, 3))
    assert read_kernel(table, ("kernel",), SOURCE) == kl.Gaussian(0.5)
    assert read_kernel("auto", ("kernel",), SOURCE) == "auto"
    assert read_kernel({"kind": "mixed"}, ("kernel",), SOURCE, space=space) == kl.Mixed(space)


@pytest.mark.parametrize(
    "data, key",
    [
        ({"kind": "Gaussian", "bandwidth": -1}, "kernel.bandwidth"),
        ({"kind": "Gauss"}, "kernel.kind"),
        ({"bandwidth": 1}, "kernel.kind"),
        (3, "kernel.kind"),
    ],
)
def test_a_mistake_in_a_table_has_its_line_and_key(data, key):
    with pytest.raises(SpecError) as error:
        read_kernel(data, ("kernel",), SOURCE)
    assert (error.value.line, error.value.key) == (1, key)


@pytest.mark.parametrize(
    "text, kernel",
    [
        ("gaussian", kl.Gaussian(0.3)),
        ("Matern:smoothness=1.5", kl.Matern(1.5, 0.3)),
        ("periodic: period = 2", kl.Periodic(0.5, 2.0)),
        ("linear", kl.Linear()),
    ],
)
def test_a_line_of_text(text, kernel):
    assert kernel_of_text(text) == kernel


@pytest.mark.parametrize(
    "text, message",
    [
        ("gauss", "`kind` must be one of"),
        ("gaussian:0.3", "`kind` must be like gaussian:bandwidth=0.3, got '0.3' in it"),
        ("gaussian:bandwidth=wide", "`bandwidth` must be a number, got 'wide'"),
        ("gaussian:width=1", "`width` is not a parameter of Gaussian"),
    ],
)
def test_a_line_that_describes_no_kernel(text, message):
    with pytest.raises(ValueError, match=message):
        kernel_of_text(text)
