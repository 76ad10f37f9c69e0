"""Faults while a study is in use: killed processes and servers, cut lines, full disks, torn logs, clocks that jump.

    python -m tests.faults.chaos                everything, 1,000 kills included: about a quarter of an hour on two cores
    python -m tests.faults.chaos --quick        a small part of it, a minute
    python -m tests.faults.chaos kills disks    only these subjects
    python -m tests.faults.chaos --seed 7       other faults; the seed is printed

A client writes a line before each call and a line when it has ended: *ok*, *failed*, or *unknown* (`history`). One pass over the log
of the study then decides whether both can be true (`checks`). A subject is a module here; a trial is a function of a site, a random
generator and a size.
"""
