"""Studies over connections that are cut between a commit and its answer: nothing twice, nothing lost, nothing else than without."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import koloss as kl
from koloss.errors import CommitUnknown, StoreError
from koloss.studies import open_store, postgres_connections, worker
from koloss.studies.verify import verify
from tests.support import inside

POINTS = kl.Points([[0.0], [0.25], [0.5], [0.75], [1.0]])


def learner():
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), horizon=500, loss_range=(0, 1), rng=7)


def loss(decision):
    return float((decision.action[0] - 0.4) ** 2)


@pytest.fixture
def study(postgres_url):
    with kl.Study.create(postgres_url, "prices", learner=learner()) as study:
        yield study


@pytest.fixture
def distant(server, schema, study, proxy):
    """The same study, by a proxy."""
    with kl.Study.open(server.url(schema, port=proxy.port), "prices") as distant:
        yield distant


def kinds(study):
    return [(event.kind, event.decision) for event in study.events()]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_study_over_a_bad_line_is_the_learner_alone(distant, proxy, share, monkeypatch):
    """A share of the commits is not answered, half of these not done either: the game is that of a learner without a store."""
    monkeypatch.setattr(worker, "PATIENCE", 0.001)
    alone, rng = learner(), np.random.default_rng(3)
    cuts = 0
    for _ in range(8):
        for call in ("ask", "tell"):
            if rng.random() < share:
                proxy.cut = str(rng.choice(["before", "after"]))
                cuts += 1
            if call == "ask":
                pair = decision, expected = distant.ask(), alone.ask()
                one, other = ((d.id, d.index, d.probability) for d in pair)
                assert one == other
            else:
                distant.tell(decision, loss(decision))
                alone.tell(expected, loss(expected))
    assert proxy.cuts == cuts
    assert (cuts > 5) == (share > 0)
    assert kinds(distant)[1:] == [(kind, k) for k in range(8) for kind in ("asked", "told")]
    played = inside.worker(distant).look(lambda state: state.learner.distribution)
    np.testing.assert_array_equal(played, alone.distribution)
    assert verify(distant.store, "prices").ok


@pytest.mark.parametrize("cut", ["before", "after"])
def test_what_is_not_known_is_never_said_to_have_failed(study, distant, proxy, cut, monkeypatch):
    """The server is not there to be asked, either; the same key gets the answer later, here or elsewhere."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.1)
    monkeypatch.setattr(worker, "PATIENCE", 0.001)
    proxy.cut, proxy.broken = cut, True
    with pytest.raises(CommitUnknown):
        distant.ask(request="visit")
    proxy.broken = False
    decision = study.ask(request="visit")
    assert distant.ask(request="visit").id == decision.id == 0
    assert kinds(study)[1:] == [("asked", 0)]


def test_what_has_failed_is_said_to_have_failed(study, distant, proxy, monkeypatch):
    """A control for the one above: before the commit it is known."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.1)
    proxy.broken = True
    proxy.cut_all()
    with pytest.raises(StoreError) as raised:
        distant.ask()
    assert not isinstance(raised.value, CommitUnknown)
    assert kinds(study)[1:] == []


def test_a_creation_that_cannot_be_seen_has_not_failed(server, schema, study, proxy, monkeypatch):
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.1)
    with contextlib.closing(open_store(server.url(schema, port=proxy.port))) as store:
        proxy.cut, proxy.broken = "after", True
        with pytest.raises(CommitUnknown):
            kl.Study.create(store, "other", learner=learner())
    assert study.store.names() == ["other", "prices"]
