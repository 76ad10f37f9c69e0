"""Histories that were written with one kernel of a BLAS and are verified with another: honest ones prove themselves."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.studies import open_store, platform, verify
from koloss.studies.platform import PLATFORM

KERNELS = ("Haswell", "Prescott")
"""Core types of OpenBLAS that every 64-bit processor of Intel's kind with AVX2 has."""

HERE = Path(__file__).parents[2]


def learners() -> dict[str, Any]:
    few, many = (kl.Points(np.linspace(0, 1, n)[:, None]) for n in (8, 41))
    rest: dict[str, Any] = {"horizon": 10_000, "loss_range": (0, 1), "rng": 0}
    return {
        "few": kl.BanditExpWeights(few, kl.Gaussian(0.5), **rest),
        "many": kl.BanditExpWeights(many, kl.Gaussian(0.1), **rest),
        "ball": kl.BanditExpWeights(kl.Ball(3), kl.Linear(), **rest),
        "ucb": kl.InsuredBandit(many, kl.Gaussian(0.5), **rest),
        "thompson": kl.InsuredBandit(few, kl.Gaussian(0.5), policy="thompson", **rest),
    }


def write(url: str) -> None:
    """Studies whose losses are symmetric: forecasts are tied, and rounding decides between them."""
    store = open_store(url, durability="process")
    for name, learner in learners().items():
        study = kl.Study.create(store, name, learner=learner)
        for _ in range(60):
            decision = study.ask()
            distance = np.sum((np.asarray(decision.action) - 0.5) ** 2)
            study.tell(decision, float(np.clip(distance, 0, 1)))
        study.close()
    store.close()


def tamper(url: str) -> None:
    """Alter a probability in every study, or what it says of its epoch where there are no probabilities."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        where = "from koloss_events where seq = 120"
        for study, text in database.execute(f"select study, data {where}").fetchall():
            data = json.loads(text)
            data["p" if data.get("p") is not None else "epoch"] = 0.123456
            change = "update koloss_events set data = ? where seq = 120 and study = ?"
            database.execute(change, (json.dumps(data), study))
        database.commit()


def in_child(kernel: str, verb: str, url: str) -> dict[str, Any]:
    """What another process says, whose BLAS uses a kernel."""
    environment = os.environ | {
        "OPENBLAS_CORETYPE": kernel,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    made = subprocess.run(
        [sys.executable, "-m", "tests.studies.test_kernels", verb, url],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    said: dict[str, Any] = json.loads(made.stdout)
    return said


@pytest.mark.slow
def test_a_history_proves_itself_with_another_kernel(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    platforms = [in_child(KERNELS[0], "write", url)["platform"]]
    said = in_child(KERNELS[1], "verify", url)
    if said["platform"] == platforms[0]:
        pytest.skip("the BLAS here has no kernels to choose from")
    assert said["reports"].keys() == learners().keys()
    for name, report in said["reports"].items():
        assert report["platforms"] == platforms, name
        assert report["problems"] == [], name
    assert sum(report["counted"]["differences"] for report in said["reports"].values()) > 0
    # The control: what was altered is found, with whichever kernel it is verified.
    tamper(url)
    for kernel in KERNELS:
        reports = in_child(kernel, "verify", url)["reports"]
        found = {name for name, report in reports.items() if not report["ok"]}
        # Of draws on a ball and from a posterior only the writer's platform knows, once one was another.
        assert found >= learners().keys() - {"ball", "thompson"}, kernel
        assert kernel == KERNELS[1] or found == learners().keys()


def test_the_blas_of_another_package_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the process has loaded for something else changes no number of a learner's."""
    home = Path(np.__file__).parent
    theirs, other = (
        {"user_api": "blas", "internal_api": name, "filepath": str(folder / "blas.so")}
        for name, folder in (("theirs", home.with_name("numpy.libs")), ("other", home.with_name("scs.libs")))
    )  # fmt: skip
    monkeypatch.setattr(platform, "threadpool_info", lambda: [other, theirs])
    assert list(platform.blas()) == ["theirs"]
    monkeypatch.setattr(platform, "threadpool_info", lambda: [other])  # a system's, for instance
    assert list(platform.blas()) == ["other"]


if __name__ == "__main__":
    import logging

    logging.getLogger("koloss.studies").setLevel(logging.ERROR)
    said: dict[str, Any] = {"platform": PLATFORM}
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        said["reports"] = {name: verify(sys.argv[2], name).to_dict() for name in learners()}
    print(json.dumps(said))
