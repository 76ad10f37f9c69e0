"""Studies for event loops: the same answers, committed together, and safe to cancel."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest

import koloss as kl
from koloss.studies import aio
from koloss.studies.sqlite import SQLiteStore
from tests.support.forks import in_fork
from tests.support.studies import bandit, insured

PATIENCE = 600
"""Seconds after which a test that hangs has failed."""


class Gate(SQLiteStore):
    """A store that counts its transactions, and lets none begin while the gate is closed."""

    def __init__(self, path):
        super().__init__(path)
        self.begun, self.reached = 0, threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    @contextmanager
    def transaction(self, name):
        self.begun += 1
        self.reached.set()
        assert self.gate.wait(PATIENCE)
        with super().transaction(name) as log:
            yield log


@pytest.fixture
def store(tmp_path):
    return Gate(tmp_path / "studies.db")


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


async def created(store):
    return await kl.aio.Study.create(store, "prices", learner=bandit())


def test_it_is_the_same_study(store):
    async def play():
        study = await created(store)
        first = await study.ask()
        await study.tell(first, 0.5)
        batch = await study.ask(5, request="b")
        await study.tell(batch, [0.1] * 5)
        return [first.index, *batch.index.tolist(), (await study.ask()).index]

    same = bandit()
    alone = same.ask()
    same.tell(alone, 0.5)
    batch = same.ask(5)
    same.tell(batch, [0.1] * 5)
    assert run(play()) == [alone.index, *batch.index.tolist(), same.ask().index]
    assert kl.studies.verify(store, "prices").ok


def test_what_waits_together_is_committed_together(store):
    async def play():
        study = await created(store)
        store.gate.clear()
        asking = [asyncio.create_task(study.ask()) for _ in range(100)]
        await asyncio.sleep(0)  # all of them wait, of which one has begun
        store.gate.set()
        decisions = await asyncio.gather(*asking)
        together, store.begun = store.begun, 0
        for decision in decisions[:10]:
            await study.tell(decision, 0.5)
        return decisions, together

    decisions, together = run(play())
    assert sorted(decision.id for decision in decisions) == list(range(100))
    assert together <= 2
    assert store.begun == 10  # one after the other they are alone


def test_the_loop_goes_on_meanwhile(store):
    async def play():
        study = await created(store)
        store.gate.clear()
        asking = asyncio.create_task(study.ask())
        turns = 0
        while not store.reached.is_set() or turns < 10:
            await asyncio.sleep(0.001)
            turns += 1
        assert not asking.done()
        store.gate.set()
        return (await asking).id

    assert run(play()) == 0


def test_a_cancelled_ask_can_be_asked_again_under_its_key(store):
    async def play():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        study = await created(store)
        store.gate.clear()
        asking = asyncio.create_task(study.ask(request="r"))
        telling = asyncio.create_task(study.tell(99, 0.5))  # which fails when nobody listens
        await asyncio.sleep(0)
        for task in (asking, telling):
            task.cancel()
        for task in (asking, telling):
            with pytest.raises(asyncio.CancelledError):
                await task
        store.gate.set()
        again = await study.ask(request="r")
        other = await study.ask()
        kinds = [(event.kind, event.request) async for event in study.events()]
        del asking, telling
        return again.id, other.id, kinds, complaints

    first, second, kinds, complaints = run(play())
    assert (first, second) == (0, 1)
    assert kinds == [("created", None), ("asked", "r"), ("asked", None)]
    assert complaints == []


def test_a_cancelled_call_does_not_wait_for_the_next_one(store):
    """It has been sent, and happens now, not when somebody else calls."""

    async def play():
        study = await created(store)
        store.gate.clear()
        first = asyncio.create_task(study.ask())
        await asyncio.to_thread(store.reached.wait, PATIENCE)
        second = asyncio.create_task(study.ask())  # the worker is at the first one
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        store.gate.set()
        await first
        await study.close()

    run(play())
    assert [event.kind for event in store.events("prices")] == ["created", "asked", "asked"]


def test_everything_else(store, tmp_path, monkeypatch):
    monkeypatch.setattr(aio, "PAGE", 2)

    async def play():
        async with await kl.aio.Study.create(
            store, "prices", learner=insured(), subjects="plain"
        ) as study:
            one, same = await study.ask(subject="bob"), await study.ask(subject="bob")
            assert one.id == same.id
            assert await study.forget_subject("bob") == 1
            await study.tell(one, 0.25)
            await study.pause(author="me", reason="stock")
            await study.resume()
            await study.hand_over(reason="a hunch")
            await study.re_arm()
            await study.change("labels", {"team": "shop"}, author="me", reason="order")
            await study.export(tmp_path / "table.csv")
            await study.backup(tmp_path / "copy.db")
            assert (await study.recommend()).index in range(6)
            assert len(await study.probabilities()) == 6
            assert (await study.guarantee()).total > 0
            status = await study.status()
            assert (status.asked, status.told, status.labels) == (1, 1, {"team": "shop"})
            kinds = [event.kind async for event in study.events(after=1)]
            assert repr(study) == f"aio.Study({store.url!r}, 'prices')"
        assert study.name == "prices"
        assert (await study.ask()).id == 1  # closed, and opened again
        await study.close()
        opened = await kl.aio.Study.open(store, "prices")
        assert (await opened.status()).asked == 2
        return kinds

    buttons = ["paused", "resumed", "handed over", "re-armed", "changed"]
    assert run(play()) == ["asked", "told", *buttons]
    assert (tmp_path / "table.csv").exists()
    copy = SQLiteStore(tmp_path / "copy.db")
    assert copy.names() == ["prices"]


def test_two_loops_one_after_the_other(store):
    study = run(created(store))
    assert [run(study.ask()).id for _ in range(3)] == [0, 1, 2]


def test_a_fork_has_a_worker_of_its_own(tmp_path):
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    study = run(created(url))
    run(study.ask())

    def child():
        return run(study.ask()).id

    assert in_fork(child) == 1
    assert run(study.ask()).id == 2
