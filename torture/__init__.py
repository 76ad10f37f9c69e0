"""Hostile use, counted: each row of the table says how many cases were tried and how many failed.

    python -m torture                    everything, some minutes on two cores
    python -m torture --quick            a tenth of it or less, two minutes
    python -m torture calls snapshots    only these subjects
    python -m torture --seed 7           other cases; the seed is printed, and each failure with what repeats it

A subject is a module here. Its trials are generator functions that are given a random generator and yield once for
each case tried: None where the library did as it should, and otherwise a line that says what it did.
"""
