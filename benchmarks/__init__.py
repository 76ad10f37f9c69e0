"""Benchmarks: ratios against peers and against what the machine can do, each within one run.

    make bench                           all of them, half an hour; `koloss bench` does the same
    python -m benchmarks designs kernels only these
    python -m benchmarks --full          the largest sizes as well
    python -m benchmarks --page          no measurement: the page once more, from what is kept

Contestants run in turn (A B A B ...), so that noise hits all of them; medians and quartiles are compared. Tables go to
the terminal and to benchmarks/results.json, in the place of those of the same benchmark; docs/benchmarks.md is made
from that file. With `--out FILE` they go there alone. A new benchmark is a module here with a function `run(full)` that
returns tables, and a line in `NAMES`; what is aimed at stands in `aims`.
"""


class Unavailable(Exception):
    """What a benchmark needs is not to be had on this machine; what is kept of it stays."""


NAMES = (
    "bandit",
    "peers",
    "growth",
    "refresh",
    "profiles",
    "ridge",
    "large",
    "gpu",
    "insured",
    "contexts",
    "kernels",
    "proxies",
    "designs",
    "samplers",
    "oracles",
    "geometric",
    "leader",
    "studies",
    "many_studies",
    "imports",
    "memory",
    "threads",
    "late",
    "segments",
)
