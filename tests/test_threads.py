"""Small matrices get a single BLAS thread, and the others come back."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import koloss as kl
from koloss._threads import WORTH_THREADS, threads_for
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


def test_those_who_overlap_wait_for_the_last():
    first, second = threads_for(1.0), threads_for(1.0)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
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
