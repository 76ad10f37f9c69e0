"""Benchmarks: ratios against peers and against what the machine can do, each within one run.

    python -m benchmarks                 all of them, a few minutes
    python -m benchmarks designs kernels only these
    python -m benchmarks --full          the largest sizes as well

Contestants run in turn (A B A B ...), so that noise hits all of them, and medians are compared. Tables go to
the terminal, the same numbers to build/benchmarks.json. A new benchmark is a module here with a function
`run(full)` that returns tables, and a line in `__main__`.
"""
