"""Damaged, forged and oversized snapshots, and files that several processes write."""

from __future__ import annotations

import io
import math
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import KolossError, SnapshotError
from koloss.learners.reading import shown
from koloss.learners.snapshots import FORMAT
from tests.support.cases import LEARNERS, Case, play
from torture.forging import BAD_VALUES, label, mutations, outcome, replaced, reseal
from torture.trials import Cases, trial

# States that were changed and sealed again.


def probe(case: Case, learner: Any) -> str | None:
    """Three rounds, told late losses among them, and what is known after them."""
    waiting = [entry.id for entry in learner.ledger][:2]
    for t in range(3):
        decision = learner.ask()
        if not np.all(np.isfinite(decision.action)):
            return f"loads, and plays {decision.action}"
        if decision.probability is not None and not 0 <= decision.probability <= 1 + 1e-6:
            return f"loads, and plays with probability {decision.probability}"
        tell(learner, decision, case.loss(decision.action, t))
    for i in waiting:
        tell(learner, i, case.loss(np.zeros(2), i))
    if case.finite:
        p = learner.distribution
        if not (np.all(p >= 0) and abs(p.sum() - 1) < 1e-5):
            return f"loads, and has probabilities that add up to {p.sum()}"
    total = learner.guarantee().total
    if math.isnan(total):
        return "loads, and has a guarantee that is NaN"
    learner.recommend(), str(learner.diagnostics), learner.state()
    return None


def tell(learner: Any, decision: Any, loss: Any) -> None:
    try:
        learner.tell(decision, loss)
    except KolossError:  # out of bounds that were narrowed
        pass
    except (TypeError, ValueError) as error:  # not a loss of the kernel that was put there
        if not str(error).startswith("`loss` must"):
            raise


@cache
def played(name: str) -> tuple[Case, Any]:
    """A case, and its state after some rounds."""
    case = LEARNERS[name]
    learner = case.make(rng=np.random.default_rng(0))
    play(case, learner, 12)
    return case, learner.state()


@trial("snapshots: forged states are refused, or play", quick=1, full=14)
def forged(rng: np.random.Generator) -> Cases:
    """Of every learner some leaves and branches, each with something else in its place, sealed again."""
    for name in LEARNERS:
        case, state = played(name)
        changes = list(mutations(state, rng))
        for k in rng.choice(len(changes), size=FORGED):
            path, new = changes[k]
            result = outcome(case, reseal(replaced(state, path, new)), probe)
            yield result and f"{label(name, path, new)}: {result}"


FORGED = 40
"""Changes of each learner's state in one call."""


@trial("snapshots: whatever else is given as a state", quick=1, full=8)
def anything(rng: np.random.Generator) -> Cases:
    """Values of all kinds, states of other learners and formats, names of functions in the place of a generator's."""
    for name in map(str, rng.choice(list(LEARNERS), size=12, replace=False)):
        case, state = played(name)
        others = [played(other)[1] for other in LEARNERS if LEARNERS[other].kind is not case.kind]
        given = [*BAD_VALUES, *(others[k] for k in rng.choice(len(others), size=5))]
        given += [
            {**state, "version": v} for v in (0, 1, FORMAT + 1, "3", True, 3.0, None, np.array(3))
        ]
        given += [{**state, "kind": k} for k in ("Something", None, 3, np.zeros(2), "x" * 10**6)]
        given += [{**state, "digest": d} for d in (None, "", 0, np.zeros(3))]
        for kind in ("seed", "test", "default_rng", "Generator", "__doc__", "random", "PCG32"):
            given.append(reseal(replaced(state, ("rng", "bit_generator"), kind)))
        for what in given:
            try:
                case.kind.from_state(what)
                yield f"{name}: loads {shown(what)}"
            except SnapshotError:
                yield None
            except Exception as error:
                yield f"{name}, {shown(what)}: {type(error).__name__}: {error}"


# Files that are damaged, or made to harm.


@cache
def written(name: str) -> tuple[Case, bytes, str]:
    """A case, its file, and the digest of its state."""
    case, state = played(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        kl.save_state(path, state)
        return case, path.read_bytes(), state["digest"]


def opened(content: bytes, case: Case) -> tuple[str, int]:
    """What a file of such bytes is loaded as, or "refused"; and how many bytes that took at most."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        path.write_bytes(content)
        tracemalloc.start()
        try:
            learner = case.kind.from_state(kl.load_state(path))
            result = learner.state()["digest"]
        except SnapshotError:
            result = "refused"
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return result, peak


@trial("snapshots: files with wrong bits, or cut off", quick=10, full=100)
def damaged(rng: np.random.Generator) -> Cases:
    """Each is refused, or is the same learner to the last bit."""
    for name in rng.choice(list(LEARNERS), size=4, replace=False):
        case, content, digest = written(str(name))
        for k in range(12):
            changed = bytearray(content)
            position = int(rng.integers(len(content)))
            if k < 8:
                changed[position] ^= 1 << int(rng.integers(8))
            elif k == 8:
                changed = changed[:position]
            elif k == 9:
                changed[position:] = bytes(len(changed) - position)
            elif k == 10:
                changed = changed[position:]
            else:
                changed[position:position] = rng.bytes(int(rng.integers(1, 100)))
            result, _ = opened(bytes(changed), case)
            if result in ("refused", digest):
                yield None
            else:
                yield f"{name}, {k}, byte {position} of {len(content)}: {result}"


def npy(shape: Any, descr: str = "<f8", body: bytes = b"", version: int = 1) -> bytes:
    """An array's file that says what it likes."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + body


def text(content: bytes) -> bytes:
    return npy(f"({len(content)},)", "|u1", content)


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def bombs() -> Iterator[tuple[str, bytes]]:
    """Files that are not what they seem."""
    many, plain = 5 * 10**7, text(b'{"a": {"__array__": "array0"}}')
    zeros = npy(f"({many // 8},)", body=bytes(many))
    yield "compressed", packed({"json.npy": plain, "array0.npy": zeros}, zipfile.ZIP_DEFLATED)
    yield "compressed text", packed({"json.npy": text(b"[" * 10**6)}, zipfile.ZIP_DEFLATED)
    for shape in (
        "(10**9,)",
        "(1000000000,)",
        "(0, 10**18)",
        f"(0, {10**18})",
        f"({10**30},)",
        "(-1,)",
        "3",
        "(True,)",
    ):
        yield f"shape {shape}", packed({"json.npy": plain, "array0.npy": npy(shape)})
    for descr in ("|O", "V8", "<f2", "nonsense", "<U1000000000"):
        yield (
            f"dtype {descr}",
            packed({"json.npy": plain, "array0.npy": npy("(1,)", descr, bytes(8))}),
        )
    yield (
        "version",
        packed({"json.npy": plain, "array0.npy": npy("(1,)", body=bytes(8), version=9)}),
    )
    yield "deep header", packed({"json.npy": plain, "array0.npy": npy("(" * 5000)})
    texts = {
        "deep": b"[" * 100_000 + b"]" * 100_000,
        "deep mapping": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "long integer": b'{"kind": ' + b"9" * 5000 + b"}",
        "NaN": b'{"kind": "BanditExpWeights", "version": NaN}',
        "a key twice": b'{"kind": 1, "kind": 2}',
        "not UTF-8": b'{"kind": "\xff\xfe"}',
        "a list": b"[1, 2]",
        "nothing": b"",
        "an array twice": b'{"a": {"__array__": "array0"}, "b": {"__array__": "array0"}}',
        "an array that is not there": b'{"a": {"__array__": "array7"}}',
        "json as an array": b'{"a": {"__array__": "json"}}',
        "a number as a reference": b'{"a": {"__array__": [1]}}',
    }
    for name, content in texts.items():
        yield name, packed({"json.npy": text(content), "array0.npy": npy("(1,)", body=bytes(8))})
    yield "other members", packed({"json.npy": plain, "../../evil.npy": plain, "array0.npy": plain})
    yield "no text", packed({"array0.npy": npy("(1,)", body=bytes(8))})
    yield "a wrong id", packed({"json.npy": text(b"{}"), "id.npy": text(b"../../etc")})
    yield "a pickle", pickle.dumps({"kind": "BanditExpWeights"})
    yield "empty", b""
    yield "an empty archive", packed({})
    # A directory that says less, or more, than there is; and one with a member under two names.
    good = bytearray(packed({"json.npy": plain, "array0.npy": npy("(1,)", body=bytes(8))}))
    entry = good.index(b"PK\x01\x02")
    for offset, value in ((20, 2**31), (24, 2**31), (20, 1), (24, 1), (42, 2**31), (42, 7)):
        lying = bytearray(good)
        lying[entry + offset : entry + offset + 4] = struct.pack("<I", value)
        yield f"directory, {offset}: {value}", bytes(lying)
    encrypted = bytearray(good)
    encrypted[entry + 8] |= 1
    yield "encrypted", bytes(encrypted)
    with warnings.catch_warnings(action="ignore"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("json.npy", plain), archive.writestr("json.npy", plain)
    yield "a member twice", file.getvalue()


@trial("snapshots: bombs and forged files", quick=1, full=1)
def bombed(_: np.random.Generator) -> Cases:
    """Each is refused, and nothing is expanded: never more than a few times the size of the file and some."""
    for name, content in bombs():
        result, peak = opened(content, LEARNERS["bandit"])
        if result != "refused":
            yield f"{name}: {result}"
        elif peak > 8 * len(content) + 2**22:
            yield f"{name}: a file of {len(content)} bytes took {peak}"
        else:
            yield None


# Processes that share a file.

LEARNER = """
import sys
import koloss as kl
from koloss.errors import SnapshotInUse
learner = kl.BanditExpWeights(kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100)
state = learner.state()
"""

SERVANT = (
    LEARNER
    + """
print("ready", flush=True)
for line in sys.stdin:
    verb, path = line.rstrip("\\n").split(" ", 1)
    try:
        if verb == "load":
            state = kl.load_state(path)
        else:
            kl.save_state(path, state, overwrite=verb == "overwrite")
        print("done", flush=True)
    except SnapshotInUse:
        print("in use", flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
"""
)

KEEPER = (
    LEARNER
    + """
path = sys.argv[1]
kl.load_state(path)
print("ready", flush=True)
while True:
    kl.save_state(path, state)
"""
)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], **pipes)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def order(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@trial("snapshots: two processes save to one file", quick=1, full=6)
def shared(_: np.random.Generator) -> Cases:
    """Of two that load one file, or find none, and save at the same time, one is told; the file is the other's."""
    with tempfile.TemporaryDirectory() as folder:
        pair = [start(SERVANT) for _ in range(2)]
        try:
            for k in range(50):
                path = str(Path(folder) / f"{k}.npz")
                if k % 2:
                    order(pair[0], f"save {path}")
                    answer(pair[0])
                    for process in pair:
                        order(process, f"load {path}")
                        answer(process)
                for process in pair:
                    order(process, f"save {path}")
                answers = sorted(answer(process) for process in pair)
                left = sorted(os.listdir(folder))
                kl.load_state(path)
                good = answers == ["done", "in use"] and left == sorted(
                    f"{i}.npz" for i in range(k + 1)
                )
                yield None if good else f"round {k}: {answers}, {left[:4]}"
                for process in pair:
                    order(process, f"overwrite {path}")
                answers = [answer(process) for process in pair]
                yield None if answers == ["done", "done"] else f"round {k}, overwrite: {answers}"
        finally:
            for process in pair:
                process.kill()
                process.communicate()


@trial("snapshots: killed while saving", quick=4, full=40)
def killed(rng: np.random.Generator) -> Cases:
    """The file is whole, the next process can save, and leaves nothing of the killed one behind."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        _, state = played("bandit")
        kl.save_state(path, state)
        process = start(KEEPER, str(path))
        time.sleep(float(rng.uniform(0.02, 0.2)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kind = kl.BanditExpWeights
        again = kind.from_state(kl.load_state(path))
        kl.save_state(path, again.state())
        left = os.listdir(folder)
        yield None if left == ["state.npz"] else f"left behind: {left}"
