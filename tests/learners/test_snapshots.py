"""Snapshots: plain data, exact to the last bit, refused where they are damaged; files that are never half written."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.core import snapshot
from koloss.core.files import PARTS, replacing
from koloss.core.snapshot import FORMAT, seal, unseal
from koloss.errors import SnapshotError, SnapshotInUse
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


@pytest.mark.process
@pytest.mark.parametrize("name", ["bandit, ball", "exp weights, ball", "exp weights, box"])
def test_a_process_that_has_loaded_nothing_reads_a_snapshot(name, tmp_path):
    kl.save_state(tmp_path / "state.npz", state_of(name))
    kind = LEARNERS[name].kind.__name__
    read = f"import koloss as kl; kl.{kind}.from_state(kl.load_state('state.npz')).ask()"
    subprocess.run([sys.executable, "-c", read], cwd=tmp_path, check=True)


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
    assert '"described"' not in plain
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
        (lambda s: {**s, "identity": "x"}, "damaged"),
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


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


SETTINGS, LEDGER = "learner.settings.BanditSettings", "learner.ledger.Ledger"
THETA = "learner._exp2.Exp2.theta"

FORGERIES = [
    (f"{SETTINGS}.horizon", -1, "`horizon` must be at least 1, got -1"),
    (f"{SETTINGS}.horizon", True, "`learner.settings.horizon` in `state` must be of type int"),
    (f"{SETTINGS}.tuning", "other", "`tuning` must be one of"),
    (f"{SETTINGS}.loss_range", {"tuple": [1.0, 0.0]}, "`loss_range` must be"),
    (f"{SETTINGS}.kernel", {"plain": {"kind": "Nothing"}}, "`kind` must be one of .* 'Nothing'"),
    (f"{SETTINGS}.kernel.plain.bandwidth", NAN, "`bandwidth` must be finite"),
    (f"{SETTINGS}.actions.plain.X", at(3, NAN), "`X` must be finite"),
    (f"{SETTINGS}.actions", {"plain": {"kind": "Linear"}}, "must be of type ActionSet"),
    (f"{SETTINGS}.prior", {"pickle": "x"}, "must be of a class that is kept, got 'pickle'"),
    (f"{SETTINGS}.delay", MISSING, "`learner.settings.delay` in `state` must be there"),
    (f"{SETTINGS}.more", 1, "must have no other keys than those of its kind, got .'more'"),
    (f"{LEDGER}.heard", 2.5, "`learner.ledger.heard` in `state` must be of type int"),
    (f"{LEDGER}.heard", 2**63, "must be a number that is finite"),
    (f"{LEDGER}.opened", {"deque": 3}, "`learner.ledger.opened` in `state` must be a list"),
    (f"{LEDGER}.opened", [], "must be of type deque"),
    (f"{LEDGER}.current", {"Exp2": {}}, "`learner.ledger.current.engine` .* must be there"),
    (f"{LEDGER}.current", {"same": 10**6}, "must be what has come before"),
    (f"{LEDGER}.current", {"subprocess.Popen": ["x"]}, "must be of a class that is kept"),
    (f"{LEDGER}.current", {"tuple": [1], "list": [1]}, "must be plain data"),
    (f"{LEDGER}._turns", nested(200), "must be at most 100 deep"),
    (THETA, at(0, NAN), "must hold numbers that are finite"),
    (THETA, at(0, 1e300), "must hold numbers that are finite"),
    (THETA, lambda a: a[None], "must be of type Vector"),
    (THETA, lambda a: a.astype(int), "must be of type Vector"),
    (THETA, lambda a: a.astype(complex), "must hold numbers, got"),
    (THETA, np.zeros((0, 10**9)), "must have sides of at most"),
    (THETA, [0.0], "must be of type Vector"),
    (THETA, np.ones(2), "θ must have"),
    ("learner._rng.rng.bit_generator", "seed", "`bit_generator` must be one of .* got 'seed'"),
    ("learner._rng.rng.state.inc", 4, "`inc` must be odd, got 4"),
    ("learner._rng.rng.has_uint32", 9, "`has_uint32` must be 0 or 1, got 9"),
]


@pytest.mark.parametrize("path, value, message", FORGERIES)
def test_forged_states_are_refused(path, value, message):
    with pytest.raises(SnapshotError, match=message):
        kl.BanditExpWeights.from_state(forged(state_of("bandit"), path, value))


def test_what_was_forged_and_is_legal_raises_our_errors_alone():
    features = "learner.ledger.Ledger.current.Epoch.whole.PointsEngine.features"
    learner = kl.BanditExpWeights.from_state(forged(state_of("bandit"), features, lambda a: a[:3]))
    with pytest.raises(SnapshotError, match="snapshot of this learner does not hold together"):
        play(LEARNERS["bandit"], learner, 20)
    with pytest.raises(TypeError, match="`count` must be"):
        learner.ask("much")


OF_EVERY_FORM = [
    *("bandit", "bandit, anytime, bonus", "bandit, ball", "insured", "exp weights, ball"),
    *("exp weights, gaussian", "gradient, points", "gradient, ball", "leader, ball"),
]
"""Learners whose states have different keys; forgeries of all others are drawn in test_fuzz_snapshots.py."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_EVERY_FORM)
def test_every_attribute_is_needed_and_no_other(name):
    state = state_of(name)

    def holders(value, path):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key[0].isupper() and isinstance(inner, dict):
                    yield f"{path}.{key}", inner
                yield from holders(inner, f"{path}.{key}")

    for holder, attributes in (
        ("learner", state["learner"]),
        *holders(state["learner"], "learner"),
    ):
        for path, value in (
            (f"{holder}.more", 0),
            *((f"{holder}.{k}", MISSING) for k in attributes),
        ):
            with pytest.raises(SnapshotError, match=r"no other keys|must be there"):
                LEARNERS[name].kind.from_state(forged(state, path, value))


@pytest.mark.parametrize("kind", ["seed", "test", "default_rng", "Generator", "random"])
def test_no_function_is_called_by_a_snapshot(kind, monkeypatch):
    def called(*_, **__):
        raise AssertionError

    state = forged(state_of("bandit"), "learner._rng.rng.bit_generator", kind)
    monkeypatch.setattr(np.random, kind, called)
    with pytest.raises(SnapshotError, match="`bit_generator` must be one of"):
        kl.BanditExpWeights.from_state(state)


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
    for version in (0, 5, 7, "6", True, 6.0, None, np.array(6), 10**5000):
        with pytest.raises(SnapshotError, match="`state` must be of format 6, got"):
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
    mine = dict(snapshot._latest)
    monkeypatch.setattr(snapshot, "_latest", {})  # as in another process
    with pytest.raises(
        SnapshotInUse, match=r"got .*state.npz, which another has written; one process"
    ):
        kl.save_state(path, state)
    kl.save_state(path, state, overwrite=True)
    theirs = path.read_bytes()
    monkeypatch.setattr(snapshot, "_latest", mine)
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


def test_a_file_of_another_learner_is_not_replaced(tmp_path):
    path, learner = tmp_path / "state.npz", LEARNERS["bandit"].build()
    kl.save_state(path, learner.state())
    again, other = kl.BanditExpWeights.from_state(kl.load_state(path)), LEARNERS["bandit"].build()
    kl.save_state(path, again.state())
    assert other.state()["identity"] != learner.state()["identity"] == again.state()["identity"]
    with pytest.raises(SnapshotInUse, match="which is of another; one process"):
        kl.save_state(path, other.state())
    kl.save_state(path, other.state(), overwrite=True)


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
