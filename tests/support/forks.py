"""Work done in a fork of this process."""

from __future__ import annotations

import os
import pickle
import warnings
from os import _exit as exit_at_once


def in_fork(work):
    """What `work()` returns, or the error that it raises, in a forked child."""
    receive, send = os.pipe()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # for threads
        child = os.fork()
    if child == 0:
        try:
            try:
                answer = work()
            except Exception as error:
                answer = error
            with os.fdopen(send, "wb") as pipe:
                pickle.dump(answer, pipe)
        finally:
            exit_at_once(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data)
