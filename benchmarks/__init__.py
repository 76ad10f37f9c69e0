"""Benchmarks: ratios against peers and against what the machine can do, each within one run.

    make bench                            all of them, a quarter of an hour
    python -m benchmarks designs late     only these: groups, or parts of a group
    python -m benchmarks --full           the largest sizes as well
    python -m benchmarks --show designs   no measurement: the tables that are kept
    python -m benchmarks --page           no measurement: the page once more, from what is kept

Contestants run in turn (A B A B ...), so that noise hits all of them; medians and quartiles are compared. Tables go to
the terminal and to benchmarks/results.json, in place of those of the same part; docs/benchmarks.md is made from that file.
With `--out FILE` they go there alone. A new part is a module here with a function `run(full)` that returns tables, and a
name in `GROUPS`; what is aimed at stands in `aims`.

Three modules have commands of their own: `growing` (sets that grow against Optuna and BoTorch, hours), `guarantees` (the
table of docs/guarantees.md) and `against` (single rounds of two checkouts).
"""


class Unavailable(Exception):
    """What a benchmark needs is not available on this machine; what is kept of it stays."""


GROUPS = {
    "bandit": ("bandit", "growth"),
    "insured": ("insured", "late"),
    "contexts": ("contexts", "segments"),
    "designs": ("designs",),
    "samplers": ("samplers",),
    "oracles": ("oracles",),
    "studies": ("studies", "many_studies", "imports"),
    "scale": ("large", "gpu"),
}
"""What is measured, and the modules that do it."""

NAMES = tuple(name for parts in GROUPS.values() for name in parts)
