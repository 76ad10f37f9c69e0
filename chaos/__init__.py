"""Faults, counted: processes that are killed, servers that die, lines that are cut, disks that are full, while a study is in use.

    python -m chaos                      everything, 1,000 kills among it: a quarter of an hour at most on two cores
    python -m chaos --quick              a small part of it, a minute
    python -m chaos kills disks          only these subjects
    python -m chaos --seed 7             other faults; the seed is printed

Every call that a client makes is written down before it is made, and again when it has ended: *ok*, *failed*, or *unknown*
(`chaos.history`). One pass over the log of the study then finds whether it can have been so (`chaos.checks`). A subject is a module
here, and its trials are functions that are given a site, a random generator and a size.
"""
