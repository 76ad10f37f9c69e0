"""The checker of chaos finds what it is there to find, and a few processes are killed."""

from __future__ import annotations

import copy
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import koloss as kl
from koloss.errors import CommitUnknown, StoreError, UnknownDecision
from koloss.studies import Event, open_store
from koloss.testing.stores import exit_code, fork
from tests.faults.chaos.checks import check, done, replay
from tests.faults.chaos.clients import NAME, Client, learner
from tests.faults.chaos.history import FAILED, OK, UNKNOWN, Attempt, Journal, read
from tests.faults.chaos.kills import kill
from tests.faults.chaos.trials import Row, Site


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A sound history: two clients, keys, a batch, an ask whose end is unknown and happened, and one that did not."""
    url = f"sqlite:///{tmp_path_factory.mktemp('history')}/shop.db"
    store = open_store(url, durability="process")
    study = kl.Study.create(store, NAME, learner=learner())
    clock = iter(range(1000))
    attempts: list[Attempt] = []

    def call(name, what, outcome=OK, happens=True, **said):
        attempt = Attempt(name, what, {"request": None, **said}, next(clock))
        if what == "ask":
            attempt.said = {"count": None, "subject": None, **attempt.said}
            if happens:
                asked = attempt.said
                made = study.ask(asked["count"], subject=asked["subject"], request=asked["request"])
                fields = {"ids": made.id, "index": made.index, "p": made.probability}
                attempt.answer = {k: np.atleast_1d(v).tolist() for k, v in fields.items()}
        elif happens:
            study.tell(said["ids"], said["values"], request=said.get("request"))
        attempt.outcome = outcome
        if outcome != OK:
            attempt.answer = None
        if outcome != UNKNOWN:
            attempt.ended = next(clock)
        attempts.append(attempt)

    call("a-0", "ask")
    call("b-0", "ask", count=3)
    call("a-1", "tell", ids=[0], values=[0.5])
    call("key", "ask", request="key", outcome=UNKNOWN)
    call("key", "ask", request="key")
    call("b-1", "ask", outcome=UNKNOWN)  # decision 5
    call("b-2", "ask", outcome=UNKNOWN, happens=False)
    call("a-2", "tell", ids=[1, 3], values=[0.1, 0.3])
    call("b-3", "tell", ids=[0], values=[0.7], outcome=FAILED, happens=False)
    call("a-3", "ask", subject="me")  # decision 6
    call("b-4", "ask", subject="me")
    call("a-4", "tell", ids=[2], values=[0.2])
    call("b-5", "ask", subject="you", outcome=UNKNOWN)  # decision 7
    call("again", "ask", subject="you", request="again")
    events = list(study.events())
    store.close()
    return attempts, events


@pytest.fixture
def history(written):
    """The same, to be forged."""
    return copy.deepcopy(written)


def find(attempts, name):
    return next(k for k, attempt in enumerate(attempts) if attempt.name == name)


def place(events, kind, decision):
    return next(
        k for k, event in enumerate(events) if (event.kind, event.decision) == (kind, decision)
    )


def renumbered(events):
    return [replace(event, seq=k) for k, event in enumerate(events, start=1)]


def test_a_sound_history_is_found_sound(history):
    attempts, events = history
    assert check(attempts, events) == []
    assert done(attempts, events) == 1
    assert replay(learner(), events) == []


def lose_told(attempts, events):
    del events[place(events, "told", 2)]
    return attempts, renumbered(events)


def lose_asked(attempts, events):
    """From the newest decisions on, so that there is no gap."""
    return attempts, events[: place(events, "asked", 6)]


def hand_out_twice(attempts, events):
    answer = attempts[find(attempts, "a-0")].answer
    attempts[find(attempts, "key") + 1].answer = answer
    return attempts, events


def make_twice(attempts, events):
    again = events[place(events, "asked", 0)]
    return attempts, renumbered([*events, again])


def tell_twice(attempts, events):
    again = events[place(events, "told", 0)]
    return attempts, renumbered([*events, again])


def count_twice(attempts, events):
    """A default, and the value that came after it."""
    found = place(events, "told", 0)
    default = Event(0, "expired", events[found].micros, 0, None, {"value": 0.5})
    return attempts, renumbered([*events[:found], default, *events[found:]])


def leave_gap(attempts, events):
    found = place(events, "asked", 5)
    return attempts, events[:found] + events[found + 1 :]


def skip_decision(attempts, events):
    found = place(events, "asked", 5)
    return attempts, renumbered(events[:found] + events[found + 1 :])


def run_backwards(attempts, events):
    events[-1] = replace(events[-1], micros=events[-2].micros - 1)
    return attempts, events


def do_what_failed(attempts, events):
    found = place(events, "told", 0)
    events[found] = replace(events[found], data={"value": 0.7})
    return attempts, events


def tear_batch(attempts, events):
    first = place(events, "told", 1)
    events[first].data.pop("batch")
    del events[first + 1]
    return attempts, renumbered(events)


def invent_decision(attempts, events):
    """There are two asks whose end is unknown, and so there cannot be three."""
    last = events[-1]
    more = [
        Event(last.seq + k, "asked", last.micros, 7 + k, None, {"index": 0, "p": 0.5, "epoch": 1})
        for k in (1, 2)
    ]
    return attempts, events + more


def invent_value(attempts, events):
    found = place(events, "told", 2)
    events[found] = replace(events[found], data={"value": 0.99})
    return attempts, events


def answer_otherwise(attempts, events):
    attempts[find(attempts, "a-0")].answer["p"] = [0.9]
    return attempts, events


def carry_out_twice(attempts, events):
    last = events[-1]
    data = {"index": 0, "p": 0.5, "epoch": 1}
    return attempts, [*events, Event(last.seq + 1, "asked", last.micros, 8, "key", data)]


def swap(attempts, events):
    """A value is there before one that had ended when it began."""
    first, second = place(events, "told", 0), place(events, "told", 2)
    events[first], events[second] = events[second], events[first]
    same = [replace(event, micros=0) for event in events]
    return attempts, renumbered(same)


def refuse_in_the_end(attempts, events, final=True):
    """What was unknown is known not to have happened once it is refused under its key, as nothing that was done is."""
    second = attempts[find(attempts, "key") + 1]
    second.outcome, second.answer, second.final, second.error = FAILED, None, final, "refused"
    return attempts, events


def break_down(attempts, events):
    attempts[0].error = "unexpected KeyError(3)"
    return attempts, events


FORGERIES = {
    lose_told: "a-4 ended ok and is not there",
    lose_asked: "a-3 was given decision 6, which is not there",
    hand_out_twice: "decision 0 was handed out to a-0, key",
    make_twice: "decision 0 is made twice",
    tell_twice: "decision 0 is told twice",
    count_twice: "the value of decision 0 is counted twice",
    leave_gap: "event 9 follows event 7",
    skip_decision: "decision 6 follows decision 4",
    run_backwards: "is before the one that it follows",
    do_what_failed: "b-3 has failed and is there",
    tear_batch: "a-2 is there in part",
    invent_decision: "nobody has asked for decision 9",
    invent_value: "nobody has told decision 2 that",
    answer_otherwise: "a-0 was given decision 0 otherwise than the log has it",
    carry_out_twice: "key is done twice",
    swap: "a-1, event 12, ended before a-4 began, which it follows",
    refuse_in_the_end: "key has failed and is there",
    break_down: "unexpected KeyError",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_history_is_found_out(history, forge):
    attempts, events = forge(*history)
    problems = check(attempts, events)
    assert any(FORGERIES[forge] in problem for problem in problems), problems


def test_a_store_that_fails_later_says_nothing_of_what_is_unknown(history):
    assert check(*refuse_in_the_end(*history, final=False)) == []


def test_a_draw_that_a_learner_alone_would_not_have_made(history):
    _, events = history
    found = events[place(events, "asked", 4)]
    found.data["index"] = (found.data["index"] + 1) % 6
    assert len(replay(learner(), events)) == 1


# Journals.


def test_how_calls_end_is_written_down(tmp_path):
    journal = Journal(tmp_path / "c0.jsonl", mark=lambda: 7)

    def fail(error):
        def act():
            raise error

        return act

    said = {"request": None}
    journal.call("ask", said, lambda: {"ids": [0]})
    for error in (CommitUnknown("?"), StoreError("!"), UnknownDecision("no"), KeyError(3)):
        journal.call("tell", said, fail(error))
    found = read([journal.path])
    assert [one.outcome for one in found] == [OK, UNKNOWN, FAILED, FAILED, UNKNOWN]
    assert [one.final for one in found] == [False, False, False, True, False]
    assert found[0].answer == {"ids": [0]}
    assert found[0].mark == 7
    assert found[4].error == "unexpected KeyError(3)"
    assert all(one.invoked <= one.ended < np.inf for one in found)


def test_a_call_that_never_ended_is_unknown(tmp_path):
    def work():
        journal = Journal(tmp_path / "c0.jsonl")
        journal.call("ask", {"request": "k"}, lambda: os.kill(os.getpid(), signal.SIGKILL))

    assert exit_code(fork(work)) == -signal.SIGKILL
    (found,) = read([tmp_path / "c0.jsonl"])
    assert (found.name, found.outcome, found.ended) == ("k", UNKNOWN, np.inf)
    assert json.loads((tmp_path / "c0.jsonl").read_text())["number"] == 0


# Small trials.


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_a_few_processes_are_killed(tmp_path, threads):
    row = Row("kill")
    site = Site(tmp_path, row, None, {"lease": 0.1, "default": 0.5})
    kill(site, np.random.default_rng(threads), 8, threads=threads, durability="process")
    assert row.problems == []
    assert row.faults >= 8
    assert row.outcomes[OK] > 0


def test_a_store_that_forgets_is_found_out(tmp_path):
    """The control: a client whose third commit is answered and then undone."""
    url = f"sqlite:///{tmp_path}/shop.db"
    kl.Study.create(url, NAME, learner=learner()).close()
    client = Client(url, tmp_path / "c0.jsonl", seed=1)
    store = open_store(url)
    study, journal = kl.Study.open(store, NAME), Journal(client.journal)
    for k in range(6):
        if k == 3:
            kept = store.path.read_bytes(), (tmp_path / "shop.db-wal").read_bytes()
        said = {"count": None, "subject": None, "request": None}
        client._call(study, journal, np.random.default_rng(k), "ask", said)
        if k == 3:
            store.close()
            store.path.write_bytes(kept[0])
            (tmp_path / "shop.db-wal").write_bytes(kept[1])
            study = kl.Study.open(store, NAME)
    attempts, events = read([client.journal]), list(study.events())
    store.close()
    assert [one.outcome for one in attempts] == [OK] * 6
    assert any("decision 3 was handed out to" in problem for problem in check(attempts, events))
