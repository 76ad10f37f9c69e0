"""Runs that are killed, folders that are shared, files that are damaged."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss import experiments, report
from koloss.experiments.run import jobs_of
from koloss.games.store import load, path_of, perform, save
from koloss.games.trace import read_npz
from torture.trials import Cases, trial

GAME = """\
[game]
kernel = {kind = "Linear"}
actions = {kind = "Points", X = [[-1.0], [1.0]]}
rounds = 400
runs = 6

[adversary]
kind = "random"

[[learner]]
kind = "ExpWeights"
"""
WAITING = GAME.replace('"random"', '"python"\nfile = "waiting.py"').replace("400", "5")
ADVERSARY = """\
import time
from pathlib import Path
import koloss as kl

def make(kernel, actions, rng):
    return kl.games.Function(choose, norm=1.0)

def choose(t, player):
    while not Path("go").exists():
        time.sleep(0.01)
    return kl.LinearLoss([0.5])
"""
RUNS = 6

SMALL = ("quadratic-bandit", "quadratic-full-information", "polynomial-bandit")
"""Experiments whose files are damaged."""

TIMES = ("seconds", "learner_seconds", "run_seconds", "making", "machine")

# Jobs in the background of some shells are started with the interrupt ignored, and pass that on.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # also under nohup
    "from koloss.cli import main; main()"
)
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")


# Commands.


@contextmanager
def folder_of(spec: str) -> Iterator[Path]:
    """A folder with a spec, and a place for temporary files."""
    with tempfile.TemporaryDirectory(prefix="koloss-") as name:
        folder = Path(name)
        (folder / "own.toml").write_text(spec)
        (folder / "waiting.py").write_text(ADVERSARY)
        (folder / "temporary").mkdir()
        yield folder


def start(folder: Path) -> subprocess.Popen[str]:
    """`koloss run` in a group of its own."""
    command = [sys.executable, "-c", COMMAND, "run", "own.toml", "--out", "out", "--jobs", "2"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
    )  # fmt: skip


def processes(key: int, value: int) -> list[int]:
    """Processes with this parent (1) or of this group (2), but for those that have ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(facts[key]) == value and facts[0] != "Z":
            found.append(int(path.parent.name))
    return found


def left_behind(process: subprocess.Popen[str], folder: Path) -> str:
    """What is there ten seconds after a command has ended, and should not be."""
    for _ in range(200):
        if not (left := processes(2, process.pid)):
            break
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    files = [path.name for path in (folder / "temporary").iterdir()]
    return f"left processes {left}, files {files}" if left or files else ""


def without_times(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name not in TIMES}


def contents(out: Path) -> dict[str, Any]:
    """results.json and the files of all runs, without times."""
    text = (out / "results.json").read_text()
    found: dict[str, Any] = {"results": json.loads(text, object_hook=without_times)}
    for path in sorted(out.glob("runs/**/*.npz")):
        plain, arrays = read_npz(path)
        plain = without_times(plain) | {"facts": without_times(plain["facts"])}
        found[str(path.relative_to(out))] = plain, {k: a.tobytes() for k, a in arrays.items()}
    return found


def go_on(specs: Any, out: Path, **size: Any) -> experiments.Results:
    """Play what is missing, here."""
    with ThreadPoolExecutor(1) as pool:
        return experiments.run(specs, out=out, executor=pool, **size)


@cache
def undisturbed() -> dict[str, Any]:
    """What a run gives that nobody disturbs."""
    with folder_of(GAME) as folder:
        go_on([folder / "own.toml"], folder / "out")
        return contents(folder / "out")


def difference(folder: Path) -> str:
    """What is wrong with a folder in which the same command has gone on; nothing where nothing is."""
    out = folder / "out"
    page = out / "report.html"
    if page.exists() and not page.read_text().endswith("</html>\n"):
        return "half a page"
    go_on([folder / "own.toml"], out)
    if contents(out) != undisturbed():
        return "other results"
    strays = [str(path) for path in out.rglob("*.part")]
    return f"half-written files {strays}" if strays else ""


def reach(process: subprocess.Popen[str], folder: Path, stage: int) -> None:
    """Wait until so many runs have been written, or the command has ended."""
    while process.poll() is None and len([*folder.glob("out/runs/**/*.npz")]) < stage:
        time.sleep(0.01)


@trial("koloss run: a signal at a random time, then resumed", quick=6, full=24)
def kills(rng: np.random.Generator) -> Cases:
    number, stage = signal.Signals[str(rng.choice(SIGNALS))], int(rng.integers(RUNS + 1))
    with folder_of(GAME) as folder:
        process = start(folder)
        reach(process, folder, stage)
        # Before the first run there is as much to do as after the last.
        time.sleep(float(rng.uniform(0.0, 0.1 if 0 < stage < RUNS else 1.0)))
        begun = (folder / "out").exists()
        process.send_signal(number)
        _, err = process.communicate()
        wrong = left_behind(process, folder)
        if not begun:
            pass  # the interpreter itself was starting, and says what it likes
        elif process.returncode not in (0, -number, 128 + number):
            wrong = f"exit code {process.returncode}: {err}"
        elif number != signal.SIGKILL and "Traceback" in err:
            wrong = err
        wrong = wrong or difference(folder)
        yield f"{number.name} after {stage} runs: {wrong}" if wrong else None


@trial("koloss run: a worker killed at a random time, it goes on", quick=2, full=12)
def killed_workers(rng: np.random.Generator) -> Cases:
    with folder_of(GAME) as folder:
        process, stage = start(folder), int(rng.integers(RUNS))
        reach(process, folder, stage)
        while not (children := _workers(process.pid)) and process.poll() is None:
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0.0, 0.1)))
        with suppress(ProcessLookupError):  # it has just done all that there was
            os.kill(int(rng.choice(children)), signal.SIGKILL)
        _, err = process.communicate()
        wrong = left_behind(process, folder)
        if process.returncode != 0:
            wrong = f"exit code {process.returncode}: {err}"
        wrong = wrong or difference(folder)
        yield f"after {stage} runs: {wrong}" if wrong else None


def _workers(pid: int) -> list[int]:
    """The processes of a command that play."""
    found = []
    for child in processes(1, pid):
        try:
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
        except OSError:
            continue
    return found


@trial("koloss run: two on one folder, one is told", quick=1, full=6)
def two_runs(_: np.random.Generator) -> Cases:
    with folder_of(WAITING) as folder:
        first = start(folder)
        while not (folder / "out" / ".lock").exists() and first.poll() is None:
            time.sleep(0.01)
        second = start(folder)
        _, told = second.communicate()
        (folder / "go").touch()
        _, err = first.communicate()
        wrong = left_behind(first, folder) or left_behind(second, folder)
        if second.returncode != 1 or f"is in use by process {first.pid};" not in told:
            wrong = f"the second ended with {second.returncode}: {told}"
        elif first.returncode != 0:
            wrong = f"the first ended with {first.returncode}: {err}"
        yield wrong or None


# Files.


@cache
def whole() -> tuple[tempfile.TemporaryDirectory[str], dict[str, Any]]:
    """A folder of small runs, and what is in it."""
    folder = tempfile.TemporaryDirectory(prefix="koloss-")
    go_on(SMALL, Path(folder.name), rounds=20, runs=2)
    return folder, contents(Path(folder.name))


def mended(rng: np.random.Generator, damage: Any) -> str | None:
    """Damage the file of a run, go on, and compare."""
    folder, before = whole()
    out = Path(folder.name)
    paths = sorted(out.glob("runs/**/*.npz"))
    path = paths[int(rng.integers(len(paths)))]
    intact = path.read_bytes()
    damaged, what = damage(intact)
    path.write_bytes(damaged)
    what = f"{what} of {path.relative_to(out)}"
    try:
        go_on(SMALL, out, rounds=20, runs=2)
        return None if contents(out) == before else f"{what}: other results"
    except Exception as error:
        return f"{what}: {type(error).__name__}: {error}"
    finally:
        path.write_bytes(intact)


@trial("file of a run: one bit flipped, played again", quick=45, full=240)
def flips(rng: np.random.Generator) -> Cases:
    def flip(data: bytes) -> tuple[bytes, str]:
        k, bit = int(rng.integers(len(data))), int(rng.integers(8))
        return data[:k] + bytes([data[k] ^ 1 << bit]) + data[k + 1 :], f"bit {bit} of byte {k}"

    yield mended(rng, flip)


@trial("file of a run: cut short, played again", quick=15, full=100)
def cuts(rng: np.random.Generator) -> Cases:
    def cut(data: bytes) -> tuple[bytes, str]:
        k = int(rng.integers(len(data)))
        return data[:k], f"{k} bytes"

    yield mended(rng, cut)


SAVERS, SAVES = 4, 150


@trial("file of a run: four processes save it 150 times each", quick=1, full=4)
def saves(_: np.random.Generator) -> Cases:
    (job,) = jobs_of([experiments.load("posynomial")], rounds=20, runs=1)
    run = perform(job)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="koloss-") as name:
        ours, theirs = fork.Pipe()
        arguments = (job, run, Path(name), theirs)
        savers = [fork.Process(target=_save_often, args=arguments) for __ in range(SAVERS)]
        for saver in savers:
            saver.start()
        for __ in range(SAVERS * SAVES):
            yield ours.recv()
        for saver in savers:
            saver.join()
        files = [path.name for path in path_of(job, Path(name)).parent.iterdir()]
        yield None if files == [path_of(job, Path(name)).name] else f"left {files}"


def _save_often(job: Any, run: Any, folder: Path, pipe: Any) -> None:
    for _ in range(SAVES):
        try:
            save(job, run, folder)
            wrong = None if load(job, folder) is not None else "not what was saved"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        pipe.send(wrong)  # short enough to be sent whole


@trial("results, page and trace: killed while they are written", quick=20, full=300)
def killed_writers(rng: np.random.Generator) -> Cases:
    results = _results()
    learner = kl.ExpWeights(kl.Points([[0.0], [1.0]]), kernel=kl.Linear(), horizon=10, rng=0)
    trace = kl.play(learner, kl.games.Replay([[0.0, 1.0]]), 10)
    with tempfile.TemporaryDirectory(prefix="koloss-") as name:
        out = Path(name)

        def write() -> None:
            results.write(out)
            report.write_page(results, out)
            for suffix in ("npz", "parquet"):
                trace.save(out / f"trace.{suffix}")

        write()
        pid = os.fork()
        if pid == 0:
            while True:
                write()
        time.sleep(float(rng.uniform(0.0, 0.1)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wrong = []
        if json.loads((out / "results.json").read_text()) != results.to_dict():
            wrong.append("results.json")
        if not (out / "report.html").read_text().endswith("</html>\n"):
            wrong.append("report.html")
        for suffix in ("npz", "parquet"):
            if len(kl.Trace.load(out / f"trace.{suffix}")) != 10:
                wrong.append(suffix)
        write()
        wrong += [path.name for path in out.rglob("*.part") if path.parent != out]
        yield ", ".join(wrong) or None


@cache
def _results() -> experiments.Results:
    """Results whose page has no figures, which would take most of the time."""
    folder, _ = whole()
    results = go_on(SMALL, Path(folder.name), rounds=20, runs=2)
    bare = tuple(experiments.Result(one.experiment) for one in results.results)
    return experiments.Results(bare, results.seed, results.seconds, results.machine)
