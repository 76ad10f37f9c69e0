"""Failures that carry their numbers, so that a caller can decide what to do next.

Plain bad arguments are `ValueError` or `TypeError` with a message that names the argument, the rule and
the value. The types here are for what only the computation can find out.
"""

from __future__ import annotations

from typing import Any

LONGEST_PROBLEM = 600
"""Characters of what is wrong with a TOML file: the value in it may be as long as the file."""


class KolossWarning(UserWarning):
    """Something that is allowed, and hardly meant."""


class KolossError(Exception):
    """Base of every error that is particular to this library."""


class NoFiniteFeatures(KolossError, TypeError):
    """The kernel has no finite feature map; use a proxy instead."""


class NetTooLarge(KolossError, ValueError):
    """A net would need more memory than allowed.

    Attributes
    ----------
    points : float
        (Estimated) number of points of the refused net.
    """

    def __init__(self, message: str, *, points: float) -> None:
        super().__init__(message)
        self.points = points


class NotPositiveDefinite(KolossError, ValueError):
    """The kernel is not positive semidefinite on the actions.

    Attributes
    ----------
    eigenvalue : float
        The smallest eigenvalue of the kernel that was seen, or an upper bound on it.
    """

    def __init__(self, message: str, *, eigenvalue: float) -> None:
        super().__init__(message)
        self.eigenvalue = eigenvalue


class RankUnreachable(KolossError, ValueError):
    """The rank asked for is above the numerical rank.

    Attributes
    ----------
    rank : int
        The largest rank that can be had.
    """

    def __init__(self, message: str, *, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


class ToleranceUnreachable(KolossError, ValueError):
    """No rank certifies the tolerance asked for.

    Attributes
    ----------
    epsilon : float
        The smallest error that could be certified.
    """

    def __init__(self, message: str, *, epsilon: float) -> None:
        super().__init__(message)
        self.epsilon = epsilon


class DesignNotConverged(KolossError, RuntimeError):
    """The design did not reach its tolerance.

    Attributes
    ----------
    gap : float
        max leverage / rank - 1 of the best design found.
    """

    def __init__(self, message: str, *, gap: float) -> None:
        super().__init__(message)
        self.gap = gap


class UnknownDecision(KolossError, ValueError):
    """A decision that this learner has not made, or has been told about already."""


class LossOutOfBounds(KolossError, ValueError):
    """A loss outside the interval that the learner was promised."""


class SnapshotError(KolossError, ValueError):
    """A snapshot that is damaged, of another kind, or from a newer version."""


class SnapshotInUse(KolossError, FileExistsError):
    """A file that another process has written, or that is no snapshot, would be replaced by one."""


class PolicyError(KolossError, RuntimeError):
    """A policy of the user's raised an error, or proposed what is not an action."""


class ForkedLearner(KolossError, RuntimeError):
    """A learner that was made before this process was forked: it has its parent's coins and its parent's ledger."""


class AdversaryError(KolossError, RuntimeError):
    """The Python file of an adversary that a spec names cannot be used."""


class NoDistribution(KolossError, AttributeError):
    """The learner plays a compact set, where single actions have no probability."""


class StoreError(KolossError, RuntimeError):
    """A store of studies that cannot be used, or whose database failed: nothing has been committed."""


class CommitUnknown(StoreError):
    """The connection was lost between a commit and its answer: what was to be committed may be there or not."""


class StudyNotFound(KolossError, LookupError):
    """There is no study of this name in the store."""


class StudyExists(KolossError, ValueError):
    """There is a study of this name in the store already."""


class StudyPaused(KolossError, RuntimeError):
    """The study hands out no decisions until it is resumed."""


class RequestConflict(KolossError, ValueError):
    """A request key that was used for another request before."""


class AlreadyTold(UnknownDecision):
    """The value of this decision was told before, and is counted once."""


class SpecError(KolossError, ValueError):
    """A mistake in the TOML file of an experiment or a study.

    Attributes
    ----------
    path : str
        Of the file.
    line : int
        From 1; 0 where the mistake is the file as a whole.
    key : str
        With the tables it is in.
    problem : str
        The rule and the value.
    """

    def __init__(self, path: str, line: int, key: str, problem: str) -> None:
        if len(problem) > LONGEST_PROBLEM:
            problem = f"{problem[: LONGEST_PROBLEM - 100]} … {problem[-100:]}"
        where = f"{path}, line {line}" if line else path
        super().__init__(f"{where}: {key + ': ' if key else ''}{problem}")
        self.path = path
        self.line = line
        self.key = key
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return SpecError, (self.path, self.line, self.key, self.problem)
