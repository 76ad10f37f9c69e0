"""Runs in a folder: each is one whole file, played once, by any number of processes.

A job is plain data. Its key is a digest of the job, of the files that it reads, and of the version of Koloss and of a peer's
package. Seeds depend on names and numbers alone, so that results do not depend on what else is played, on the number of
processes, or on the order in which runs end.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from koloss._version import __version__
from koloss.core import files
from koloss.core.files import PARTS, replacing
from koloss.core.text import slug
from koloss.errors import KolossError
from koloss.games.trace import Ended, Packed, Trace, read_npz, write_npz
from koloss.games.workers import do_all

_NAMED = ("make", "game", "player", "number", "rounds", "seed", "seeds")
"""Fields of a job that are in its key as they are."""

_ONE = threading.Lock()
"""Held while another's executor plays a run: warnings and standard output belong to a process, and its workers may be threads."""


class FolderInUse(KolossError, RuntimeError):
    """Another process is playing runs into the same folder."""


class WorkerDiffers(KolossError, RuntimeError):
    """A worker of an executor would play another run than the one that it is asked for, and why."""


class CannotPlay(KolossError, ValueError):
    """A player that a game is not for, and why."""


@dataclass(frozen=True)
class Job:
    """One run."""

    make: str  # "module:function": from the job and two seeds to something with `play(limit)`, such as a Match
    game: str  # names, by which its file is found and its seeds are made
    player: str
    number: int  # k, from 0
    rounds: int
    seed: int
    arguments: Mapping[str, Any] = field(default_factory=dict)  # plain data
    seeds: Literal["generators", "numbers"] = "generators"  # in which form `make` gets them
    limit: float = math.inf  # seconds, from when the player has been made
    package: str = ""  # the distribution that the player needs, if any
    files: tuple[str, ...] = ()  # that are read
    carried: Any = None  # what cannot be named, and travels by pickle
    carried_digest: str = ""  # which stands for it in the key

    @cached_property
    def key(self) -> str:
        """Digest of what the run depends on; a time limit only decides how far it gets."""
        depends = {
            "koloss": __version__,
            "package": version_of(self.package) if self.package else "",
            "files": [_file_digest(Path(path)) for path in self.files],
            **{name: getattr(self, name) for name in _NAMED},
            "arguments": dict(self.arguments),
            "carried": self.carried_digest,
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Progress:
    """What has been done so far."""

    done: int  # runs, those that were there before included
    total: int
    job: Job | None = None  # the run that has just ended
    seconds: float = 0.0  # that it took
    error: str = ""  # why it failed; empty where it did not
    replaced: int = 0  # runs in the folder of another size, seed or version, which are played again: told once, at first


def play_jobs(
    jobs: Sequence[Job],
    folder: Path,
    *,
    processes: int,
    executor: Executor | None = None,
    progress: Callable[[Progress], Any] | None = None,
    fresh: bool = False,
) -> list[Packed]:
    """Play the runs that are not in a folder yet (all, where `fresh`), and give all of them, in order.

    The folder is `locked` by the caller. A run that failed leaves a file that says why, and is played again next time; one
    whose process died leaves none.
    """
    runs = [None if fresh else load(job, folder) for job in jobs]
    waiting = [k for k, run in enumerate(runs) if run is None]
    done = len(jobs) - len(waiting)
    tell = progress or (lambda _: None)
    others = sum(_is_another(jobs[k], folder) for k in waiting)
    tell(Progress(done, len(jobs), replaced=others))

    def report(i: int, result: Any) -> None:
        nonlocal done
        k = waiting[i]
        if isinstance(result, WorkerDiffers):  # and so it would be with all the others
            raise result
        if isinstance(result, Exception):
            result = _unplayed(jobs[k], "died", f"failed: {result}")
        else:
            save(jobs[k], result, folder)
        runs[k], done = result, done + 1
        plain = result.plain
        failed = plain["ended"] in ("failed", "died")
        why = plain["message"].removeprefix("failed").lstrip(": ") if failed else ""
        seconds = plain["facts"]["run_seconds"]
        tell(Progress(done, len(jobs), jobs[k], seconds, why))

    todo = [jobs[k] for k in waiting]
    how = perform if executor is None else partial(perform_elsewhere, here=_versions())
    do_all(how, todo, report, jobs=processes, executor=executor)
    return [run for run in runs if run is not None]


def perform(job: Job) -> Packed:
    """Play one run; an error of the player is a result, too."""
    begin, making, where = time.perf_counter(), 0.0, "before the first round"
    module, _, name = job.make.partition(":")
    try:
        # Warnings of other packages are not ours to repair.
        with warnings.catch_warnings(action="ignore") if job.package else nullcontext():
            match = getattr(importlib.import_module(module), name)(job, *seeds_of(job))
            making, where = time.perf_counter() - begin, "after the last round"
            run: Packed = match.play(job.limit).pack()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even an exit: others go on
        run = _unplayed(job, *_explain(job, error, where))
    times = {"making": making, "run_seconds": time.perf_counter() - begin}
    run.plain["facts"] |= {**times, "limit": job.limit}
    return run


def perform_elsewhere(job: Job, *, here: dict[str, str]) -> Packed:
    """The same on a machine that may be another: one with other versions, or other files, is refused."""
    there, who = _versions(), f"the worker on {platform.node()}"
    for name, version in here.items():
        if version != there[name]:
            raise WorkerDiffers(f"{who} must have {name} {version}, got {there[name]}")
    if replace(job).key != job.key:  # that of a copy is computed here, that of the job came with it
        needs = ", ".join(filter(None, (job.package, *job.files)))
        raise WorkerDiffers(f"{who} must have the same {needs}, got another for {job.game}")
    with _ONE:
        return perform(job)


def _versions() -> dict[str, str]:
    """What numbers depend on beside the job."""
    import scipy

    return {
        "Koloss": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
    }


def _explain(job: Job, error: BaseException, where: str) -> tuple[Ended, str]:
    """How a run ended that has no trace."""
    if isinstance(error, CannotPlay):
        return "cannot", str(error)
    if isinstance(error, ImportError) and job.package and version_of(job.package) is None:
        how = str(error).partition("pip install ")[2] or job.package
        return "missing", f"not installed: pip install {how}"
    return "failed", f"failed {where}: {type(error).__name__}: {error}"


def _unplayed(job: Job, ended: Ended, message: str) -> Packed:
    facts: dict[str, object] = {"making": 0.0, "run_seconds": 0.0, "limit": job.limit}
    return Trace.unplayed(ended, message, facts).pack()


# Seeds.


def seeds_of(job: Job) -> tuple[Any, Any]:
    """Seeds of the player, and of the game; the game's are the same for all players.

    Experiments take generators, comparisons with other packages whole numbers: two derivations from the same sequences.
    """
    game = _name_number(job.game)
    keys = (game, 1, _name_number(job.player), job.number), (game, 0, job.number)
    mine, theirs = (np.random.SeedSequence(job.seed, spawn_key=key) for key in keys)
    if job.seeds == "generators":
        return np.random.default_rng(mine), np.random.default_rng(theirs)
    first, second = (int(s.generate_state(1, np.uint64)[0] >> 1) for s in (mine, theirs))
    return first, second


def _name_number(name: str) -> int:
    """A number that stands for a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


# Files.


def path_of(job: Job, folder: Path) -> Path:
    """The file of a run."""
    return folder / "runs" / slug(job.game) / slug(job.player) / f"{job.number}.npz"


def save(job: Job, run: Packed, folder: Path) -> None:
    """Write the file of a run, with its key and the digest of its contents, whole or not at all."""
    path = path_of(job, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        write_npz(file, Packed({**run.plain, "key": job.key}, run.arrays))


def load(job: Job, folder: Path) -> Packed | None:
    """The run that was kept; None where there is none to go on with.

    That is where it is not there, of another key, damaged, failed, or stopped by a shorter time limit. What made it fail may
    be something that its key does not know: memory, a file that its adversary reads, another module.
    """
    run = _read(job, folder)
    if run is None or run.plain.pop("key") != job.key or run.plain["ended"] == "failed":
        return None
    short = run.plain["ended"] == "stopped" and run.plain["facts"]["limit"] < job.limit
    return None if short else run


def _read(job: Job, folder: Path) -> Packed | None:
    try:
        run = read_npz(path_of(job, folder))
        return run if {"key", "ended", "facts"} <= run.plain.keys() else None
    except Exception:  # a damaged file can fail in any way
        return None


def _is_another(job: Job, folder: Path) -> bool:
    """Whether the file of a run holds one that was played to the end, but is not the run of this job."""
    run = _read(job, folder)
    return run is not None and run.plain["ended"] == "done" and run.plain["key"] != job.key


def missing(jobs: Sequence[Job], folder: Path) -> list[Job]:
    """Runs that are not in a folder yet."""
    return [job for job in jobs if load(job, folder) is None]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time; the lock goes when its process does, however that ends.

    Whatever is still half written then was left by a process that was killed, and is removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(files.locked(path, wait=0))
        except BlockingIOError:
            holder = path.read_text(errors="replace").strip() or "unknown"
            advice = "wait until that ends, or choose another folder"
            raise FolderInUse(f"{folder} is in use by process {holder}; {advice}") from None
        with files.naming(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        for inside in ("", "figures/", "runs/**/"):
            for stray in folder.glob(f"{inside}{PARTS}"):
                stray.unlink(missing_ok=True)
        yield


def check_names(argument: str, names: Sequence[str]) -> None:
    """Refuse a name that comes twice: files and seeds are found by it."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"`{argument}` must have different names, got {name!r} twice")


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"


def version_of(package: str) -> str | None:
    """Version of a package; None where it is not installed.

    Examples
    --------
    >>> version_of("numpy") is None, version_of("a-package-that-is-not-there")
    (False, None)
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
