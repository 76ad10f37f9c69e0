"""How a command ends that is killed, or finds a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from koloss.experiments import load, run
from koloss.games.store import locked
from tests.support.command_line import own_adversary
from tests.support.runs import HEARING, alive, in_group, numbers, wait_for

WAITS = """\
    import os, pathlib, time
    pathlib.Path(f"playing-{os.getpid()}").touch()
    time.sleep(99)
"""
WAITS_ONCE = """\
    import os, pathlib, time
    try:
        pathlib.Path("first").touch(exist_ok=False)
    except FileExistsError:
        return kl.LinearLoss([0.5, 0.0])
    pathlib.Path(f"playing-{os.getpid()}").touch()
    time.sleep(99)
"""
LINE = "error: {}; the same command goes on with the runs in out"
ENDS = {
    signal.SIGINT: (130, LINE.format("interrupted")),
    signal.SIGTERM: (143, LINE.format("ended by SIGTERM")),
    signal.SIGHUP: (129, LINE.format("ended by SIGHUP")),
    signal.SIGKILL: (-9, ""),
}
REPRODUCE = ["reproduce", "--only", "gaussian-bandit", "--rounds", "3000"]

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(os.name != "posix", reason="signals are POSIX"),
]


@pytest.fixture
def start(tmp_path, spec):
    """Start a command in a group of its own, with interrupts heard, in the folder of the spec."""
    (tmp_path / "temporary").mkdir()

    def call(*arguments, first=HEARING, jobs="2"):
        code = first + "from koloss.cli import main; main()"
        command = [sys.executable, "-c", code, *arguments, "--out", "out", "--jobs", jobs]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True,
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        )  # fmt: skip

    return call


def playing(folder):
    """Processes that have begun to play."""
    return [int(path.name.partition("-")[2]) for path in folder.glob("playing-*")]


def nothing_left(process, folder):
    """No process, no file in the place for temporary ones, no lock, nothing half written."""
    wait_for(lambda: not in_group(process.pid), seconds=10)
    assert [*(folder / "temporary").iterdir()] == []
    with locked(folder / "out"):
        pass
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("number", ENDS)
def test_a_signal_ends_a_run_and_its_processes(spec, start, cli, number):
    """An interrupt is heard by all of them, as from a terminal; a second run is told who has the folder."""
    own_adversary(spec, WAITS)
    folder, second = spec.parent, None
    jobs = 2 if number in (signal.SIGTERM, signal.SIGKILL) else 1
    with start("run", "own.toml", jobs=str(jobs)) as process:
        wait_for(lambda: len(playing(folder)) == jobs)
        if number == signal.SIGTERM:
            second = cli("run", "own.toml", "--out", "out", "--jobs", "1")
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=600)
    code, line = ENDS[number]
    assert (process.returncode, out) == (code, "")
    assert err.strip() == line or number == signal.SIGKILL  # when Python tells what it cleans up
    assert not any(alive(pid) for pid in playing(folder)) or number == signal.SIGKILL
    nothing_left(process, folder)
    message = f"error: out is in use by process {process.pid}; wait until that ends, or choose another folder\n"
    assert second == (None if number != signal.SIGTERM else (1, "", message))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_the_other_verb(start, tmp_path, number):
    with start(*REPRODUCE) as process:
        wait_for(lambda: len(in_group(process.pid)) > 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    code, line = ENDS[number]
    assert (process.returncode, out) == (code, "")
    assert (
        err.strip() == line or number == signal.SIGKILL
    )  # when processes that are just starting may complain
    nothing_left(process, tmp_path)


def test_ctrl_c_while_processes_start(start, tmp_path):
    """A terminal interrupts them, too, before they can do anything about it: still one line."""
    with start("run", "own.toml") as process:
        wait_for(lambda: len(in_group(process.pid)) > 2)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert (process.returncode, err.strip()) == ENDS[signal.SIGINT]
    nothing_left(process, tmp_path)


def test_a_killed_process_is_replaced_and_what_is_ignored_stays_so(spec, start):
    """Hangups are ignored here, as under nohup."""
    own_adversary(spec, WAITS_ONCE)
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with start("run", "own.toml", first=ignoring) as process:
        (pid,) = wait_for(lambda: playing(spec.parent))
        process.send_signal(signal.SIGHUP)
        os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "1 of 2 runs done\n2 of 2 runs done\n")
    nothing_left(process, spec.parent)
    run([load(spec)], out=spec.parent / "again", jobs=1)
    again, results = (numbers(spec.parent / name / "results.json") for name in ("again", "out"))
    assert results == again


def test_a_disk_that_is_full(spec, shell):
    """The file is named, and nothing is left half written."""
    code = "import os, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ['MOST']),) * 2)\n"
    code += "from koloss.cli import main; main()"
    command = ["run", "own.toml", "--jobs", "1"]
    answer = shell(*command, code=code, MOST="0")
    assert answer == (1, "", "error: own-results/.lock: File too large\n")
    answer = shell(*command, code=code, MOST="900")
    assert answer == (1, "", "error: own-results/runs/own/expweights/0.npz: File too large\n")
    left = [path.name for path in spec.parent.glob("own-results/**/*") if path.is_file()]
    assert left == [".lock"]
