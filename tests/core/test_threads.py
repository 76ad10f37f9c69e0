"""Small matrices get a single BLAS thread, and the others come back."""

from __future__ import annotations

import sys
import threading
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import koloss as kl
from koloss.core import threads as blas
from koloss.core.threads import WORTH_THREADS, in_parallel, threads_for
from koloss.designs import working_set


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("BLAS has no second thread here")
        yield


def test_one_thread_for_small_products_and_all_of_them_afterwards():
    with threads_for(1e6):
        assert threads() == {1}
        with threads_for(1e5), threads_for(2 * WORTH_THREADS):
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


def test_large_products_keep_their_threads():
    with threads_for(WORTH_THREADS):
        assert threads() == {2}


def test_threads_come_back_after_an_error():
    with pytest.raises(ZeroDivisionError), threads_for(1.0):
        1 / 0  # noqa: B018
    assert threads() == {2}


def test_a_design_is_made_by_one_thread(monkeypatch):
    seen, solve = set(), working_set.interior_point

    def watched(*args):
        seen.update(threads())
        return solve(*args)

    monkeypatch.setattr(working_set, "interior_point", watched)
    kl.john_design(np.random.default_rng(0).normal(size=(100, 5)))
    assert seen == {1}
    assert threads() == {2}


def test_another_python_thread_may_be_the_last():
    # The first to enter has ended long before the last, in a thread of its own, leaves.
    entered, leave, first = threading.Event(), threading.Event(), threads_for(1.0)

    def stay():
        with threads_for(1.0):
            entered.set()
            leave.wait(300)

    other = threading.Thread(target=stay)
    first.__enter__()
    other.start()
    entered.wait(300)
    first.__exit__(None, None, None)
    assert threads() == {1}
    leave.set()
    other.join()
    assert threads() == {2}


def test_libraries_that_are_loaded_later_are_found(monkeypatch):
    number = [2]

    class Library:
        internal_api = "another"

        def get_num_threads(self):
            return number[0]

        def set_num_threads(self, threads):
            number[0] = threads

    with threads_for(1.0):  # all that there are now are known
        assert number == [2]
    known = blas._found
    monkeypatch.setattr(blas, "_found", lambda: [*known(), Library()])
    with threads_for(1.0):
        assert number == [2]
    monkeypatch.setitem(sys.modules, "koloss_a_module_with_a_library", types.ModuleType("m"))
    with threads_for(1.0):
        assert number == [1]
    assert number == [2]


class TestInParallel:
    """Parts are shared by Python threads, with one BLAS thread each, and come back in order."""

    def test_in_order_and_by_several(self):
        meeting = threading.Barrier(2, timeout=300)  # passed by two threads at once, or not at all
        seen = set()

        def square(k):
            if k < 2:
                meeting.wait()
            seen.update(threads())
            return k * k

        assert list(in_parallel(square, range(50))) == [k * k for k in range(50)]
        assert seen == {1}
        assert threads() == {2}

    def test_by_one_where_a_single_thread_is_wanted(self):
        with threads_for(1.0):
            callers = set(in_parallel(lambda _: threading.get_ident(), range(20)))
        assert callers == {threading.get_ident()}

    def test_an_error_comes_out_and_threads_come_back(self):
        with pytest.raises(ZeroDivisionError):
            list(in_parallel(lambda k: 1 // (k - 7), range(1000)))
        assert threads() == {2}

    def test_whoever_stops_early_gets_the_threads_back(self):
        done = []
        results = in_parallel(done.append, range(1000))
        next(results)
        results.close()
        assert len(done) < 1000
        assert threads() == {2}

    def test_nothing_to_do(self):
        assert list(in_parallel(str, [])) == []
