"""A copy of a store in a file of SQLite's, from what a database says of itself at one moment."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from koloss._files import sync_folder
from koloss.studies.events import Event
from koloss.studies.log import Snapshot
from koloss.studies.sqlite import SQLiteStore


@dataclass(frozen=True)
class Content:
    """All that a store holds of a study."""

    name: str
    pages: Iterator[list[Event]]
    snapshots: list[Snapshot]
    decisions: dict[str, int]  # of each subject


def write_copy(path: str | Path, studies: Iterator[Content]) -> None:
    """Write studies to a new file, which is a store like any other; where anything fails there is none."""
    target = Path(os.path.abspath(path))
    if os.path.lexists(target):
        raise FileExistsError(f"`path` must be that of a new file, got {str(path)!r}")
    part = target.with_name(f".koloss-{secrets.token_hex(8)}.part")
    try:
        # What is not yet called by its name need not survive a power cut on its way.
        with contextlib.closing(SQLiteStore(part, durability="process")) as store:
            for study in studies:
                store.create(study.name, next(study.pages))
                with store.transaction(study.name) as log:
                    for page in study.pages:
                        log.append(page)
                    for snapshot in reversed(study.snapshots):
                        log.save_snapshot(snapshot)
                    for subject, decision in study.decisions.items():
                        log.bind(subject, decision)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_folder(target.parent)
    finally:
        for end in ("", "-wal", "-shm", ".lock"):
            Path(f"{part}{end}").unlink(missing_ok=True)
