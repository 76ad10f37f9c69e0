"""What happens in a study, one event after another: the log that its state is made from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

KINDS = (
    "created",
    "asked",
    "repeated",
    "told",
    "expired",
    "released",
    "paused",
    "resumed",
    "handed over",
    "re-armed",
    "changed",
)
"""Kinds of events."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a study. As data (`to_dict`) it is a plain dict."""

    seq: int  # its place in the log, from 1 and without gaps
    kind: str  # one of KINDS
    micros: int  # when, in microseconds since 1970; never before the event that precedes it
    decision: int | None = None  # which decision it is about
    request: str | None = None  # the key that whoever caused it gave
    data: dict[str, Any] = field(default_factory=dict)  # what is particular to its kind

    @property
    def at(self) -> datetime:
        """When it happened, in UTC."""
        return EPOCH + timedelta(microseconds=self.micros)

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, fit for JSON."""
        about = {"seq": self.seq, "kind": self.kind, "decision": self.decision}
        return {**about, "at": self.at.isoformat(), "request": self.request, **self.data}

    @property
    def text(self) -> str:
        """What is particular to it, as JSON; numbers are written so that they are read back exactly."""
        return json.dumps(self.data, separators=(",", ":"), allow_nan=False)
