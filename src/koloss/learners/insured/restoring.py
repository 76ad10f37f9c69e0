"""Snapshots of an insured learner."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from koloss.learners.bandit.exp2 import Epoch
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.masks import check_rows
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.insured.account import Account
from koloss.learners.insured.chances import Chances
from koloss.learners.insured.diagnostics import alarm_from_dict
from koloss.learners.insured.exploration import Exploration
from koloss.learners.insured.forecast import forecaster_from
from koloss.learners.insured.growing import FirstLook, GrowingEngine, Growth
from koloss.learners.insured.landmarks import GrownForecaster
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import UserPolicy, restore_policies
from koloss.learners.insured.roster import Roster
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.specialists import Specialists
from koloss.learners.reading import Reader

if TYPE_CHECKING:
    from koloss.learners.insured.insured_bandit import InsuredBandit
    from koloss.learners.insured.settings import InsuredSettings

COUNTS = ("_late", "_crowd", "_robust_late", "_at_once", "_longest_at_once", "_sat_out")
"""Numbers of a learner that a snapshot keeps."""


def save(learner: InsuredBandit) -> dict[str, Any]:
    """Plain data for a snapshot, beside settings, ledger and generator."""
    robust, watched = learner._exp2, learner._last
    laws = [learner.ledger.current, *(entry.law for entry in learner.ledger)]
    kept = [law.exploration for law in laws if isinstance(law, Round)]
    kept += [watched.exploration, learner._first]
    explorations = {one.number: one for one in kept}
    state = {
        "engine": learner.engine.to_dict(),
        "robust": None if learner.robust is learner.engine else learner.robust.to_dict(),
        "batch": learner.batch,
        "hull": _hull(learner),
        "forecaster": learner._forecaster.state(),
        "policies": [p.state() if isinstance(p, UserPolicy) else None for p in learner._policies],
        "alarms": [asdict(alarm) for alarm in learner.alarms],
        "counts": [getattr(learner, name) for name in COUNTS],
        "chances": learner._chances.to_dict(),
        "paused": learner._paused,
        "account": learner._account.to_dict(),
        "roster": learner._roster.to_dict(),
        "first": learner._first.number,
        "pending": learner._pending.state(),
        "number": watched.number,
        "watched": watched.to_dict(),
        "explorations": [one.to_dict() for n, one in explorations.items() if n > 1],
        "exp2": None if robust is None else robust.to_dict(),
        "sleeps": robust is not None and learner._stage is not robust,
    }
    if learner._masked:
        state["masked"] = learner._masked
    if learner._growth is not None:
        state["growth"] = learner._growth.to_dict()
    return state


def _hull(learner: InsuredBandit) -> dict[str, Any] | None:
    if not learner._hull.learned:
        return None
    return {**learner._hull.to_dict(), "center": learner._center, "width": learner._width}


def load(learner: InsuredBandit, data: Reader) -> None:
    """Take back what `save` gave."""
    settings = learner.settings
    kind = GrowingEngine if settings.in_play else PointsEngine
    engine = kind.from_dict(data.part("engine"), settings.watched)
    robust = engine
    if settings.shares_engine:
        data.nothing("robust")
    else:
        robust = kind.from_dict(data.part("robust"), settings.robust)
    N, m = engine.features.shape
    learner._growth = _growth(settings, engine, robust, data)
    if learner._growth is None:
        learner._forecaster = forecaster_from(
            settings.forecast_kernel, engine, data.part("forecaster")
        )
    else:
        said = data.part("forecaster")
        learner._forecaster = GrownForecaster.restored(settings.kernel, engine.points, said)
    saved = data.items("policies", len(settings.policies))
    given, learner._replacements = learner._replacements, None
    learner._policies = restore_policies(settings.names, settings.deviations, N, given, saved)
    learner._prepare(engine, robust, data.count("batch", 1))
    if learner._hull.learned:
        said = data.part("hull")
        learner._hull = LossRange.from_dict(said, learner._hull)
        learner._center = said.number("center")
        learner._width = said.number("width", 0, positive=True)
    else:
        data.nothing("hull")
    learner.alarms = [alarm_from_dict(one, settings.names) for one in data.parts("alarms")]
    counts = data.items("counts", len(COUNTS))
    for k, name in enumerate(COUNTS):
        setattr(learner, name, counts.count(str(k)))
    learner._chances = Chances.from_dict(data.part("chances"), N)
    learner._paused = data.flag("paused")
    if data.has_key("masked"):
        learner._masked = data.count("masked", 1)
    learner._account = Account.from_dict(data.part("account"), N, engine.shares)
    flights = FirstLook if settings.in_play else Pending
    learner._pending = flights.from_state(learner._forecaster, data.part("pending"))
    if data.has("roster"):
        learner._roster = Roster.from_dict(data.part("roster"), N)
        learner._account.offered = offered = learner._roster.offered
        for policy in learner._policies:
            if isinstance(policy, UserPolicy):
                policy.offer(offered)
        if isinstance(learner._forecaster, GrownForecaster):
            learner._forecaster.watch(engine.features, offered)
    era = learner._roster.era
    kept = [Exploration.from_dict(one, N, m, era) for one in data.parts("explorations")]
    learner._explorations = {one.number: one for one in (*kept, learner._first)}
    number = data.count("first", 1)
    if number not in learner._explorations or learner._explorations[number].era != era:
        data.refuse("first", "must be among the explorations, and of the latest era", number)
    learner._first = learner._explorations[number]
    learner._stage = learner._last = learner._watched(
        data.count("number", 0, len(settings.names) - 1)
    )
    learner._last.load(data.part("watched"), learner._explorations)
    sleeps = data.flag("sleeps")
    if data.has("exp2"):
        learner._exp2 = Specialists.from_dict(robust, data.part("exp2"), settings.horizon)
        learner._exp2.born = learner._account.born
        if learner._exp2.latest.number != era:
            data.refuse("exp2.eras", "must end with that of now", learner._exp2.latest.number)
        if not sleeps:
            learner._stage = learner._exp2
    elif learner._is_short:
        data.refuse("exp2", "must be there where there is nothing to insure", None)


def _growth(
    settings: InsuredSettings, engine: PointsEngine, robust: PointsEngine, data: Reader
) -> Growth | None:
    """How the set grows, where it does."""
    if not settings.in_play:
        return None
    engines = [engine] if robust is engine else [engine, robust]
    return Growth.from_dict(settings, data.part("growth"), engines)


def check(learner: InsuredBandit, data: Reader) -> None:
    """Refuse a state whose parts do not fit together."""
    stage, ledger = learner._exp2, learner.ledger
    latest = ledger.current
    if isinstance(latest, Round) and latest.choice is None and latest.law is None:
        data.refuse("ledger.current", "must have a law to be drawn from", None)
    if stage is not None:
        if stage.made > ledger.made or stage.heard > ledger.heard:
            data.refuse("learner.exp2", "must have heard no more than all have", stage.heard)
        if isinstance(latest, Epoch) and latest.number > stage.latest.first:
            stage.epoch = latest
        stage.check(data)
    check_rows(data, ledger)
    if any(isinstance(entry.law, Epoch) and entry.key < 0 for entry in ledger):
        data.refuse("ledger.keys", "must be rows where the robust learner plays", -1)
    if learner._account.outstanding > ledger.unheard:
        data.refuse("learner.account.outstanding", "must wait", learner._account.outstanding)
    if learner._pending.count != len(ledger):
        data.refuse("learner.pending.count", "must wait", learner._pending.count)
    if learner._last.heard > ledger.heard:
        data.refuse("learner.watched.heard", "must be within what was heard", learner._last.heard)
