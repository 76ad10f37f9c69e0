"""`Study`: a learner with a name that any number of processes ask and tell.

One transaction for each ask or tell: lock the study, apply the events of others, let leases run out, act, append, commit. The
state in memory is only ever what the log says; where anything fails it is thrown away and made again.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, overload

from koloss.core.arrays import as_int
from koloss.errors import CommitUnknown, StoreError, StudyExists
from koloss.guarantees import Guarantee
from koloss.learners import Decision, Decisions, Recommendation
from koloss.learners.base import Learner
from koloss.learners.ledger import Told
from koloss.studies.operations import Forget, Press, Tell, asking
from koloss.studies.platform import PLATFORM
from koloss.studies.settings import (
    LONGEST_REASON,
    StudySettings,
    as_key,
    as_plain,
    as_text,
    said_by,
)
from koloss.studies.state import LEARNERS, copied, created, without_secrets
from koloss.studies.status import Status, best_of, probabilities_of, promise_of, status_of
from koloss.studies.store import Event, Store, check_findable, check_name, open_store
from koloss.studies.worker import Worker

log = logging.getLogger("koloss.studies")


class About(TypedDict, total=False):
    """What `Study.ask` can be told of a decision."""

    context: Any
    subject: str | None
    request: str | None
    allowed: Any


class Study:
    """A learner with a name in a store, which any number of processes ask and tell. Threads may share one object.

    `Study.create` and `Study.from_toml` begin one, `Study.open` takes part in one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import koloss as kl
    >>> learner = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [0.5], [1.0]]),
    ...     kl.Gaussian(0.5),
    ...     horizon=1000,
    ...     loss_range=(0, 1),
    ...     rng=0,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = f"sqlite:///{pathlib.Path(folder) / 'shop.db'}"
    ...     with kl.Study.create(store, "prices", learner=learner, unit="EUR") as study:
    ...         decision = study.ask()
    ...     with kl.Study.open(store, "prices") as study:  # here or in any other process
    ...         study.tell(decision.id, 0.25)
    ...         [event.kind for event in study.events()]
    ['created', 'asked', 'told']
    """

    def __init__(
        self, store: Store, name: str, *, policy: Any, clock: Callable[[], float], owned: bool
    ) -> None:
        self.name, self.store, self._owned = name, store, owned
        self._worker = Worker(store, name, policy, clock)

    @classmethod
    def create(
        cls,
        store: str | Store,
        name: str,
        *,
        learner: Learner[Any, Any],
        goal: str | None = None,
        unit: str = "",
        lease: Any = None,
        default: float | None = None,
        release: str | None = None,
        labels: Any = None,
        subjects: str = "hashed",
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Begin a study: the learner, as it is now, becomes the first event.

        Parameters
        ----------
        store : URL or Store
            Such as "sqlite:///shop.db" or "postgresql://user@host/shop".
        name : str
            1 to 100 letters, digits, dots, dashes and underscores.
        learner : BanditExpWeights or InsuredBandit
            The study has a copy of it, coins included.
        goal : "minimize" or "maximize", optional
            Whether losses are told, or rewards; the learner's own goal unless said. A learner that minimises is told the two ends of
            its range less the reward, or minus the reward where it has no range.
        unit : str
            Of the values.
        lease : float or timedelta, optional
            Seconds after which a decision is waited for no more, and its subject may have another. Its value is still welcome.
        default : float, optional
            What is told where nothing was by the end of the lease. A value that comes after that is written down and not used.
        release : "window", optional
            Hold values back until the lease has run out, for values that decide when they are told.
        labels : mapping from text to text, optional
        subjects : "hashed" or "plain"
            Whether subjects are stored as keyed hashes.
        clock : function
            Seconds since 1970.

        Raises
        ------
        StudyExists
            Where the store has a study of this name.
        """
        if not isinstance(learner, Learner):
            raise TypeError(f"`learner` must be a bandit learner, got {type(learner).__name__}")
        kind = type(learner).__name__
        if learner.feedback != "bandit" or LEARNERS.get(kind) is not type(learner):
            raise TypeError(
                f"`learner` must be one of {', '.join(LEARNERS)}, got {kind}: a study is told numbers, one per decision"
            )
        settings = StudySettings.of(learner, goal, unit, lease, default, release, labels, subjects)
        check_name(name)
        first = created(learner, settings, round(clock() * 1e6), PLATFORM)
        policy = copied(getattr(learner.settings, "policy", None))  # which may be refused
        opened = open_store(store)
        _begin(opened, name, first)
        log.info("study %s created in %s", name, opened.url)
        owned = not isinstance(store, Store)
        return cls(opened, name, policy=policy, clock=clock, owned=owned)

    @classmethod
    def from_toml(
        cls,
        store: str | Store,
        path: str | Path,
        *,
        name: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Begin a study that a TOML file describes.

        Its tables are the arguments of `create`, of the learner, the actions and the kernel; `koloss study create --example`
        prints a file with all of them.

        Parameters
        ----------
        store : URL or Store
        path : str or Path
        name : str, optional
            In place of the name in the file.
        clock : function
            Seconds since 1970.

        Raises
        ------
        SpecError
            For a mistake in the file, with its line and key.
        StudyExists
            Where the store has a study of this name.
        """
        from koloss.studies.spec import load

        spec = load(path)
        called = spec.name if name is None else name
        if called is None:
            raise spec.source.error(("name",), "is missing in the file, and no other is given")
        with spec.pointing():
            return cls.create(store, called, learner=spec.learner, clock=clock, **spec.settings)

    @classmethod
    def open(
        cls,
        store: str | Store,
        name: str,
        *,
        policy: Any = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Take part in a study.

        Parameters
        ----------
        store : URL or Store
        name : str
        policy : object, optional
            In the place of a policy of your own, as `InsuredBandit.from_state` takes it: as it was when the study was created.
        clock : function
            Seconds since 1970.

        Raises
        ------
        StudyNotFound
            Where the store has no study of this name.
        """
        check_findable(name)
        opened = open_store(store)
        study = cls(opened, name, policy=policy, clock=clock, owned=not isinstance(store, Store))
        try:
            study._worker.look(lambda _: None)
        except BaseException:
            study.close()
            raise
        return study

    # Ask and tell.

    @overload
    def ask(self, count: None = None, **about: Unpack[About]) -> Decision: ...

    @overload
    def ask(self, count: int, **about: Unpack[About]) -> Decisions: ...

    def ask(
        self,
        count: int | None = None,
        *,
        context: Any = None,
        subject: str | None = None,
        request: str | None = None,
        allowed: Any = None,
    ) -> Decision | Decisions:
        """Make a decision, or `count` of them; once this returns, they are in the log.

        Parameters
        ----------
        count, context, allowed : optional
            As for the learner.
        subject : str, optional
            A user or a visit: the same one gets the same decision until it is told or its lease runs out.
        request : str, optional
            A key: the same one gets the same answer, however often it is sent. With another context or choice it is a conflict; another
            subject is not noticed, since the log does not hold subjects.

        Raises
        ------
        StudyPaused
            Until it is resumed.
        RequestConflict
            Where the key was used for something else.
        """
        asked = asking(count, context, subject, request, allowed)
        return self._worker.submit(asked).answer  # type: ignore[no-any-return]

    def tell(self, decision: Told, value: Any, *, request: str | None = None) -> None:
        """Say what a decision has brought, or several; once this returns, it is in the log.

        Parameters
        ----------
        decision : Decision, Decisions, id, params, or a sequence of these
        value : float, or one for each decision
            In the study's units: a loss, or with `goal="maximize"` a reward.
        request : str, optional
            A key: what is sent again under the same one is counted once.

        Raises
        ------
        AlreadyTold
            Where it was told before under another key, or under none.
        UnknownDecision
            Where this study has not made it.
        LossOutOfBounds
            Outside of what was promised to the learner.
        """
        self._worker.submit(Tell(request=as_key(request), decision=decision, value=value))

    # What an operator does.

    def pause(self, *, author: str = "", reason: str = "", request: str | None = None) -> None:
        """Make no decisions until `resume()`; values are still welcome."""
        self._press("paused", request, author, reason)

    def resume(self, *, author: str = "", reason: str = "", request: str | None = None) -> None:
        """Make decisions again."""
        self._press("resumed", request, author, reason)

    def hand_over(
        self,
        *,
        context: Any = None,
        author: str = "",
        reason: str = "",
        request: str | None = None,
    ) -> None:
        """Stop the policy in play, as `InsuredBandit.hand_over` does."""
        plain = as_plain("context", context)
        self._press("handed over", request, author, reason, context=plain)

    def re_arm(
        self,
        *,
        context: Any = None,
        author: str = "",
        reason: str = "",
        request: str | None = None,
    ) -> None:
        """Let the policy that was stopped last play again, as `InsuredBandit.re_arm` does."""
        plain = as_plain("context", context)
        self._press("re-armed", request, author, reason, context=plain)

    def change(
        self, setting: str, value: Any, *, author: str, reason: str, request: str | None = None
    ) -> None:
        """Change a setting in the middle.

        Parameters
        ----------
        setting : "withdraw", "add", "loss_range", "lease" or "labels"
            Actions that are offered no more or again, by their rows; a wider range of the values; the lease of decisions to come.
        value : optional
        author, reason : str
            Who changes it, and why.
        """
        required = as_text("author", author), as_text("reason", reason, LONGEST_REASON)
        setting, plain = as_text("setting", setting), as_plain("value", value)
        self._press("changed", request, *required, setting=setting, value=plain)

    def _press(self, kind: str, request: str | None, *by: str, **data: Any) -> None:
        given = {name: value for name, value in data.items() if value is not None} | said_by(*by)
        self._worker.submit(Press(request=as_key(request), kind=kind, data=given))

    def forget_subject(self, subject: str) -> int:
        """Erase what is held of a subject, who gets another decision next time; how many entries there were."""
        return int(self._worker.submit(Forget(subject=subject)).answer)

    # What is known.

    def status(self) -> Status:
        """Where the study stands."""
        facts = self.store.facts()
        return self._worker.look(lambda state: status_of(self.name, self.store.url, state, facts))

    @property
    def settings(self) -> StudySettings:
        """What was said when it was created."""
        return self._worker.look(lambda state: state.settings)

    @property
    def learner(self) -> Learner[Any, Any]:
        """A copy of the learner as it is now, to look at: what is done to it is not done to the study."""
        return self._worker.look(lambda state: copy.deepcopy(state.learner))

    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far, with its mean value in the study's units."""
        return self._worker.look(lambda state: best_of(state, context))

    def probabilities(self, context: Any = None) -> list[dict[str, Any]]:
        """Actions of a finite set and how likely each is next, the likeliest first; none where that cannot be said.

        Each has its `index`, `probability`, `action`, and `params` where actions have some. A learner with contexts is asked for one.
        """
        return self._worker.look(
            lambda state: probabilities_of(state, as_plain("context", context))
        )

    def guarantee(self, /, **options: Any) -> Guarantee:
        """The learner's regret bound, with what it assumes of late values."""
        return self._worker.look(lambda state: promise_of(state, options))

    def events(self, after: int = 0) -> Iterator[Event]:
        """The log, from the event after this number on, read in pages."""
        after = as_int("after", after, minimum=0)
        for event in self.store.stream(self.name, after):
            yield event if event.kind != "created" else without_secrets(event)

    def export(self, path: str | Path) -> None:
        """Write the decisions to a .parquet or .csv file: time, context, action, probability, value, late by."""
        from koloss.studies.export import export

        export(self, path)

    def backup(self, path: str | Path) -> None:
        """Write a copy of the whole store, while others go on."""
        self.store.backup(path)

    def close(self) -> None:
        """Give the store's connection back, where it was opened here."""
        if self._owned:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study({self.store.url!r}, {self.name!r})"


def _begin(store: Store, name: str, first: Event) -> None:
    """Create a study; where it cannot be known whether that happened, try again: a second time it is refused."""
    try:
        store.create(name, [first])
    except CommitUnknown as unknown:
        try:
            store.create(name, [first])
        except StudyExists:
            (there,) = store.events(name, 0, 1)
            if there.data != first.data:  # whose key nobody else has
                raise
        except StoreError:
            raise unknown from None
