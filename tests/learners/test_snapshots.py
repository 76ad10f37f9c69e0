"""Snapshots: plain data, exact to the last bit, refused where they are damaged; files that are never half written."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import stat
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.core.files import PARTS, replacing
from koloss.errors import SnapshotError, SnapshotInUse
from koloss.learners import snapshots
from koloss.learners.snapshots import FORMAT, seal, unseal
from tests.support.cases import LEARNERS, play, same
from tests.support.forging import MISSING, forged


@pytest.mark.slow
def test_resume_is_exact(any_case, tmp_path):
    halves = any_case.make(rng=7)
    play(any_case, halves, 12)
    kl.save_state(tmp_path / "state.npz", halves.state())
    again = type(halves).from_state(kl.load_state(tmp_path / "state.npz"))
    assert same(again.state(), halves.state())
    assert repr(again) == repr(halves)
    rest, expected = play(any_case, again, 12, start=12), play(any_case, halves, 12, start=12)
    assert rest == expected
    assert same(again.state(), halves.state())


@pytest.mark.slow
def test_pickles_go_on_alone(any_case):
    learner = any_case.make(rng=7)
    play(any_case, learner, 12)
    out, before = learner.ask(**any_case.asked(12)), learner.state()
    again = pickle.loads(pickle.dumps(learner))
    assert same(again.state(), learner.state())
    again.tell(out, any_case.loss(out.action, 0))
    played = play(any_case, again, 12, start=12)
    assert same(learner.state(), before)
    learner.tell(out, any_case.loss(out.action, 0))
    assert play(any_case, learner, 12, start=12) == played


def leaves(value):
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


@pytest.mark.slow
def test_snapshot_is_plain_data_and_a_copy(case):
    learner = case.make()
    play(case, learner, 12)
    state = learner.state()
    for leaf in leaves(state):
        assert leaf is None or isinstance(leaf, (str, int, float, bool, np.ndarray)), type(leaf)
        assert not isinstance(leaf, np.ndarray) or leaf.dtype.kind in "fiub"
    plain = json.dumps(state, default=np.ndarray.tolist)
    play(case, learner, 5, start=12)
    play(case, type(learner).from_state(state), 5, start=12)
    assert json.dumps(state, default=np.ndarray.tolist) == plain


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda s: {**s, "version": FORMAT + 1}, "newer koloss"),
        (lambda s: {**s, "version": FORMAT - 1}, f"of format {FORMAT}, got {FORMAT - 1}"),
        (lambda s: {**s, "kind": "Something"}, "must be a snapshot of .*, got one of Something"),
        (lambda s: {k: v for k, v in s.items() if k != "digest"}, "damaged"),
        (lambda s: {**s, "ledger": {**s["ledger"], "made": 10**6}}, "damaged"),
        (lambda s: {**s, "ledger": {**s["ledger"], "mark": "x"}}, "damaged"),
        (lambda s: {**s, "learner": {**s["learner"], "more": 0}}, "damaged"),
        (lambda s: "text", "must be a snapshot of .*, got str"),
        (lambda s: {}, "must be a snapshot of .*, got dict"),
    ],
)
def test_bad_snapshots_are_refused(kind, damage, message):
    learner = next(case for case in LEARNERS.values() if case.kind is kind).make()
    with pytest.raises(SnapshotError, match=message):
        kind.from_state(damage(learner.state()))


# A digest shows damage, not intent: what was changed and sealed again must be refused, too.


@functools.cache
def state_of(name):
    learner = LEARNERS[name].make(rng=1)
    play(LEARNERS[name], learner, 12)
    return learner.state()


def at(k, value):
    def changed(array):
        array = array.copy()
        array.reshape(-1)[k] = value
        return array

    return changed


NAN = float("nan")

FORGERIES = {
    "bandit": [
        ("settings.horizon", -1, "`horizon` must be at least 1, got -1"),
        ("settings.horizon", True, "`horizon` must be an integer, got True"),
        ("settings.tuning", "other", "`tuning` must be one of"),
        ("settings.loss_range", {"tuple": [1.0, 0.0]}, "`loss_range` must be"),
        ("settings.kernel", {"plain": {"kind": "Nothing"}}, "`kind` must be one of .* 'Nothing'"),
        ("settings.kernel.plain.bandwidth", NAN, "`bandwidth` must be finite"),
        ("settings.actions.plain.X", at(3, NAN), "`X` must be finite"),
        ("settings.actions.plain.X", at(3, 0.5), "`learner.engine.points` .* of the settings"),
        ("settings.actions", {"plain": {"kind": "Linear"}}, "`actions` must be an ActionSet"),
        ("settings.spacing", NAN, "`spacing` must be finite"),
        ("settings.prior", {"pickle": "x"}, "a setting must be"),
        ("settings.delay", MISSING, "`settings.delay` in `state` must be there, got nothing"),
        ("settings.more", 1, "`settings` in `state` must have no other keys .*'more'"),
        ("ledger.heard", -1, "`ledger.heard` in `state` must be a whole number from 0"),
        ("ledger.heard", 2.5, "`ledger.heard` in `state` must be a whole number"),
        ("ledger.heard", 10**6, "must be at least what was heard and forgotten"),
        ("ledger.forgotten", 10**6, "must be at least what was heard and forgotten"),
        ("ledger.entries", at(0, 10**6), "`ledger.entries` in `state` must hold ids in order"),
        ("ledger.entries", at(1, 99), "`ledger.entries` in `state` must hold ids in order"),
        ("ledger.entries", at(2, 99), "`ledger.entries` in `state` must hold ids in order"),
        ("ledger.entries", lambda a: a[[0, 0, 1]], "`ledger.entries` in `state` must hold"),
        ("ledger.entries", lambda a: a * 1.0, "must hold integers of 64 bits, got"),
        ("ledger.keys", at(0, 30), "`ledger.keys` in `state` must hold numbers from 0 to 29"),
        ("ledger.current", 99, "`ledger.current` in `state` must be a whole number"),
        ("ledger.laws.0.gamma", 0.0, r"`ledger.laws\[0\].gamma` in `state` must be a positive"),
        ("ledger.laws.0.law.factor", lambda a: -a, "must have a positive diagonal"),
        ("learner.exp2.theta", at(0, NAN), "`learner.exp2.theta` in `state` must hold numbers"),
        ("learner.exp2.theta", at(0, 1e300), "`learner.exp2.theta` in `state` must hold"),
        ("learner.exp2.theta", lambda a: a[1:], r"must have shape \(\d+,\), got \(\d+,\)"),
        ("learner.engine.rates.kappa", 0.0, "`learner.engine.rates.kappa` in `state` must be"),
        ("learner.engine.weights", at(0, 0.5), "`learner.engine.weights` .* must add up to 1"),
        ("rng.bit_generator", "seed", "`bit_generator` must be one of .* got 'seed'"),
        ("rng.state.inc", 4, "`inc` must be odd, got 4"),
        ("rng.has_uint32", 9, "`has_uint32` must be 0 or 1, got 9"),
    ],
    "bandit, ball": [
        ("ledger.keys", lambda a: a + 1, "must hold (points of the unit ball|numbers)"),
        ("learner.engine.dimension", 3, "`learner.engine.dimension` in `state` must be"),
        ("learner.exp2.sampler.kind", "x", "`kind` must be one of"),
    ],
    "insured": [
        ("learner.stages.0.watched.exploration", 99, "must be among those of the snapshot, got 99"),
        (
            "learner.stages.0.watched.paid",
            NAN,
            r"`learner.stages\[0\].watched.paid` in `state` must be a finite",
        ),
        ("learner.forecaster.trusted", 9, "`learner.forecaster.trusted` in `state` must be"),
        (
            "learner.stages.0.chances.chosen",
            [[3, 99]],
            r"`learner.stages\[0\].chances.chosen.0.1` in `state` must be",
        ),
    ],
    "insured, too short": [
        ("learner.alarms.0.reason", "fun", "must be one of 'budget', .* got 'fun'"),
        ("learner.stages.0.exp2", None, "must be there where there is nothing to insure"),
    ],
    "exp weights, points": [
        ("learner.total", at(0, NAN), "`learner.total` in `state` must hold numbers"),
        ("learner.stale", False, "must be True for draws that are exact"),
        ("ledger.laws", [{}], "ExpWeights keeps no laws"),
    ],
    "exp weights, ball": [
        ("learner.total.kind", "LinearLoss", "fails at `learner.total`"),
    ],
    "exp weights, gaussian": [
        ("learner.sampler.moves", 10**9, "the particles must be"),
        ("learner.expansion.pending", -1, "`learner.expansion.pending` in"),
    ],
    "gradient, ball": [
        ("learner.mean.mixture.rows", lambda a: a + 9, "must be actions"),
        ("learner.mean.mixture.room", 10**15, "`learner.mean.mixture.room` in"),
        ("learner.progress.height", NAN, "`learner.progress.height` in `state` must be"),
    ],
    "leader, points": [
        ("learner.leader.index", at(0, 30), "`learner.leader.index` in `state` must hold"),
        ("learner.leader.weights", lambda a: a * 2, "`learner.leader.weights` in"),
    ],
}


@pytest.mark.parametrize(
    "name, path, value, message", [(name, *one) for name in FORGERIES for one in FORGERIES[name]]
)
def test_forged_states_are_refused(name, path, value, message):
    with pytest.raises(SnapshotError, match=message):
        LEARNERS[name].kind.from_state(forged(state_of(name), path, value))


OF_EVERY_FORM = [
    *("bandit", "bandit, anytime, bonus", "bandit, hindsight", "bandit, ball", "insured"),
    *("insured, held", "insured, too short", "exp weights, points", "exp weights, ball"),
    *("exp weights, gaussian", "gradient, points", "gradient, ball", "leader, ball"),
]
"""Learners whose states have different keys; forgeries of all others are drawn in test_fuzz_snapshots.py."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EVERY_FORM)
def test_every_key_is_needed_and_no_other(name):
    state = state_of(name)

    def paths(value, path):
        if isinstance(value, dict):
            for key in value:
                yield from ((*path, key), *paths(value[key], (*path, key)))
        elif isinstance(value, list) and value:
            yield from paths(value[0], (*path, "0"))

    inside = [
        path for path in paths(state, ()) if path[0] in ("settings", "ledger", "learner", "rng")
    ]
    defaults = {"covering_radius", "radius", "lower", "offset", "vector"}  # of sets and losses
    places = [path for path in inside if len(path) >= 2 and path[-1] not in defaults]
    forgeries = [(path, MISSING) for path in places]
    forgeries += [((*holder, "more"), 0) for holder in sorted({path[:-1] for path in places})]
    for path, value in forgeries:
        with pytest.raises(SnapshotError):
            LEARNERS[name].kind.from_state(forged(state, ".".join(path), value))


@pytest.mark.parametrize("kind", ["seed", "test", "default_rng", "Generator", "random"])
def test_no_function_is_called_by_a_snapshot(kind, monkeypatch):
    def called(*_, **__):
        raise AssertionError

    state = forged(state_of("bandit"), "rng.bit_generator", kind)
    monkeypatch.setattr(np.random, kind, called)
    with pytest.raises(SnapshotError, match="`bit_generator` must be one of"):
        kl.BanditExpWeights.from_state(state)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


NOT_PLAIN = {
    "nested": nested(10**5),
    "long": 10**5000,
    "a set": {1, 2},
    "bytes": b"x",
    "an object": object(),
    "a key that is no text": {3: 4},
    "a reference": {"__array__": "array0"},
    "an array of objects": np.array([{}]),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_data_is_refused(name):
    state = {**state_of("bandit"), "learner": NOT_PLAIN[name]}
    with pytest.raises(SnapshotError, match="`state` must be plain data"):
        kl.BanditExpWeights.from_state(state)


def test_other_versions_are_refused():
    for version in (0, 4, 6, "5", True, 5.0, None, np.array(5), 10**5000):
        with pytest.raises(SnapshotError, match="`state` must be of format 5, got"):
            kl.BanditExpWeights.from_state({**state_of("bandit"), "version": version})


def test_settings_that_a_snapshot_describes_come_back():
    class Warped:
        def __call__(self, X, Y):
            return kl.Gaussian(0.5)(X, Y)

        def diag(self, X):
            return kl.Gaussian(0.5).diag(X)

        def __repr__(self):
            return "Warped()"

    points = kl.Points([[0.0], [0.4], [1.0]])
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), points, rank=2)
    for settings in (
        {"kernel": Warped()},
        {"proxy": proxy, "kernel": kl.Gaussian(0.5)},
        {"design": kl.uniform_design(proxy.features), "kernel": Warped(), "rank": 2},
        {"prior": np.array([0.1, 0.2, 0.7]), "kernel": Warped(), "sample_error": np.float32(0.2)},
    ):
        learner = kl.BanditExpWeights(points, horizon=50, loss_range=(0, 1), rng=0, **settings)
        again = kl.BanditExpWeights.from_state(learner.state())
        assert repr(again) == repr(learner)
        assert same(again.state(), learner.state())
    said = {"trigger": np.float32(0.5), "horizon": 900, "loss_range": (0, 1), "rng": 0}
    learner = kl.InsuredBandit(points, Warped(), **said)
    assert same(kl.InsuredBandit.from_state(learner.state()).state(), learner.state())


def test_a_prior_comes_back_to_the_last_bit():
    prior = np.array([0.1, 0.2, 0.3, 0.15, 0.25]) * (1 + 3e-16)
    points = kl.Points(np.arange(5.0)[:, None])
    learner = kl.ExpWeights(points, kl.Gaussian(1.0), horizon=10, prior=prior, rng=0)
    for _ in range(5):
        before, learner = learner, kl.ExpWeights.from_state(learner.state())
        np.testing.assert_array_equal(learner.settings.prior, before.settings.prior)


def test_sealed_state_comes_back():
    state = {"numbers": np.arange(3), "rest": {"a": [1, None, 0.5]}}
    assert unseal("Thing", seal("Thing", state))["rest"] == state["rest"]
    other = seal("Thing", {**state, "numbers": np.arange(3.0)})  # other bytes, same numbers
    assert other["digest"] != seal("Thing", state)["digest"]


# Files.


def test_damaged_file_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    kl.save_state(path, LEARNERS["bandit"].make().state())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SnapshotError, match="`path` must be a snapshot"):
        kl.load_state(path)
    path.write_bytes(data[:-2000] + bytes(1000) + data[-1000:])
    with pytest.raises(SnapshotError):
        kl.BanditExpWeights.from_state(kl.load_state(path))
    with pytest.raises(FileNotFoundError):
        kl.load_state(tmp_path / "nothing.npz")


def test_errors_of_the_system_pass(tmp_path):
    state = state_of("bandit")
    with pytest.raises(FileNotFoundError, match=r"no folder\W+state.npz'"):
        kl.save_state(tmp_path / "no folder" / "state.npz", state)
    for call in (lambda: kl.load_state(tmp_path), lambda: kl.save_state(tmp_path, state)):
        with pytest.raises((IsADirectoryError, PermissionError)):
            call()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        kl.save_state(tmp_path / "file" / "state.npz", state)
    with pytest.raises(TypeError, match="`state` must be a snapshot, got str"):
        kl.save_state(tmp_path / "state.npz", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_not_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # which would be waited for
    with pytest.raises(SnapshotError, match="it is not a file"):
        kl.load_state(tmp_path / "pipe")


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be opened there")
def test_a_file_stays_ours_if_saving_is_interrupted(tmp_path, monkeypatch):
    path, state, fsync = tmp_path / "state.npz", state_of("bandit"), os.fsync

    def interrupted(kind, descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) == (kind == "folder"):
            raise KeyboardInterrupt
        fsync(descriptor)

    kl.save_state(path, state)
    for kind in ("file", "folder"):  # before and after the new file has taken its place
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", functools.partial(interrupted, kind))
            with pytest.raises(KeyboardInterrupt):
                kl.save_state(path, state)
        kl.save_state(path, state)
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_what_a_killed_process_left_is_cleared(tmp_path, monkeypatch):
    mine, other = tmp_path / "state.npz", tmp_path / "other.npz"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_: None)  # nobody tidies up after a kill
        for path in (mine, other):
            with suppress(SystemExit), replacing(path):
                raise SystemExit
    (tmp_path / ".state.npz.lock").touch()
    (tmp_path / "state.npz.part").touch()
    assert len(list(tmp_path.glob(PARTS))) == 2
    kl.save_state(mine, state_of("bandit"))
    assert len(list(tmp_path.glob(PARTS))) == 1  # of somebody who may be at work
    kl.save_state(other, state_of("bandit"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["other.npz", "state.npz", "state.npz.part"]


# One process owns a file.


def test_a_file_of_another_process_is_not_replaced(tmp_path, monkeypatch):
    path, state = tmp_path / "state.npz", state_of("bandit")
    kl.save_state(path, state)
    kl.save_state(path, kl.load_state(path))
    mine = dict(snapshots._latest)
    monkeypatch.setattr(snapshots, "_latest", {})  # as in another process
    with pytest.raises(
        SnapshotInUse, match=r"got .*state.npz, which another has written; one process"
    ):
        kl.save_state(path, state)
    kl.save_state(path, state, overwrite=True)
    theirs = path.read_bytes()
    monkeypatch.setattr(snapshots, "_latest", mine)
    with pytest.raises(SnapshotInUse, match="which another has written since"):
        kl.save_state(path, state)
    with pytest.raises(FileExistsError):
        kl.save_state(path, state)
    assert path.read_bytes() == theirs
    kl.load_state(path)
    kl.save_state(path, state)
    path.unlink()
    kl.save_state(path, state)  # nothing is lost where nothing is
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


def test_one_file_has_one_owner_under_all_its_names(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    path, state = tmp_path / "folder" / "state.npz", state_of("bandit")
    link = tmp_path / "link.npz"
    link.symlink_to(path)
    kl.save_state(link, state)
    assert link.is_symlink()
    monkeypatch.chdir(tmp_path / "folder")
    kl.save_state("state.npz", state)
    kl.save_state(link, state)
    kl.save_state(path, kl.load_state("../link.npz"))


@pytest.mark.parametrize("content", [b"", b"my thesis", b"PK\x05\x06" + bytes(18)])
def test_what_is_not_a_snapshot_is_not_replaced(tmp_path, content):
    path, state = tmp_path / "thesis.npz", state_of("bandit")
    path.write_bytes(content)
    with pytest.raises(SnapshotInUse, match="which is not a snapshot"):
        kl.save_state(path, state)
    assert path.read_bytes() == content
    np.savez(path, results=np.zeros(3))
    with pytest.raises(SnapshotInUse, match="which is not a snapshot"):
        kl.save_state(path, state)
    kl.save_state(path, state, overwrite=True)
    kl.load_state(path)


# Bombs.


def npy(shape, dtype="<f8", body=b""):
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


ONE = npy("(1,)", body=bytes(8))


def archive(text, array=ONE, compression=zipfile.ZIP_STORED, **more):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as members:
        members.writestr("json.npy", npy(f"({len(text)},)", "|u1", text))
        members.writestr("array0.npy", array)
        for name, content in more.items():
            members.writestr(f"{name}.npy", content)
    return file.getvalue()


REFERENCE = b'{"a": {"__array__": "array0"}}'


SHAPE = "an array of .* has shape"
TWICE = b'{"a": {"__array__": "array0"}, "b": {"__array__": "array0"}}'

BOMBS = {
    "compressed": (
        lambda: archive(REFERENCE, npy(f"({10**6},)", body=bytes(8 * 10**6)), zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "a huge shape": (lambda: archive(REFERENCE, npy(f"({10**12},)")), SHAPE),
    "a huge empty shape": (lambda: archive(REFERENCE, npy(f"(0, {10**18})")), SHAPE),
    "objects": (lambda: archive(REFERENCE, npy("(1,)", "|O", bytes(8))), SHAPE),
    "longer than it says": (lambda: archive(REFERENCE, npy("(2,)", body=bytes(8))), SHAPE),
    "no array": (lambda: archive(REFERENCE, b"no array at all"), "magic string"),
    "deep": (lambda: archive(b"[" * 10**5 + b"]" * 10**5), "recursion"),
    "a long integer": (lambda: archive(b'{"a": ' + b"9" * 5000 + b"}"), "digits"),
    "a key twice": (lambda: archive(REFERENCE[:-1] + b', "b": 1, "b": 2}'), "a key comes twice"),
    "an array twice": (lambda: archive(TWICE), "array0"),
    "an array too many": (lambda: archive(b"{}"), "it has arrays that belong nowhere"),
    "another member": (lambda: archive(REFERENCE, evil=b""), "it has other members"),
    "a wrong id": (lambda: archive(REFERENCE, id=npy("(1,)", "|u1", b"x")), "its id is 'x'"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_they_are_expanded(tmp_path, name):
    path, (make, message) = tmp_path / "state.npz", BOMBS[name]
    content = make()
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError, match=message):
            kl.load_state(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20 + 20 * len(content)
    finally:
        tracemalloc.stop()
