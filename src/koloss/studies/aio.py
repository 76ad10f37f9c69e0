"""Studies for event loops: what `Study` does, awaited.

One thread works for a study. What is asked and told while it is busy waits together and is committed together, so that many
concurrent calls cost few waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from koloss.guarantees import Guarantee
from koloss.learners import Decision, Decisions, Recommendation
from koloss.learners.ledger import Told
from koloss.learners.sharing import Forks
from koloss.studies import study as blocking
from koloss.studies.events import Event
from koloss.studies.log import Store
from koloss.studies.operations import Operation, Tell, asking
from koloss.studies.plain import as_key
from koloss.studies.status import Status

PAGE = 1000
"""Events that are read at a time."""

__all__ = ["Study"]

R = TypeVar("R")
Op = TypeVar("Op", bound=Operation)


class Study:
    """A study for event loops; `koloss.Study` has the same methods, and says what they do.

    Tasks may share one. A call that is cancelled may have happened, or may still happen: what was given a `request` key can be sent
    again under the same one, and is done once.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile
    >>> import koloss as kl
    >>> learner = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=1000, loss_range=(0, 1), rng=0
    ... )
    >>> async def serve(store):
    ...     async with await kl.aio.Study.create(store, "prices", learner=learner) as study:
    ...         decisions = await asyncio.gather(*(study.ask() for _ in range(100)))
    ...         await study.tell(decisions, [0.5] * 100)
    ...         return await study.status()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     status = asyncio.run(serve(f"sqlite:///{pathlib.Path(folder) / 'shop.db'}"))
    >>> status.asked, status.told
    (100, 100)
    """

    def __init__(self, study: blocking.Study) -> None:
        self._study = study
        self._settle_here()

    def _settle_here(self) -> None:
        """Have a worker in this process."""
        self._home = Forks.count
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="koloss-study")

    @property
    def name(self) -> str:
        """Of the study."""
        return self._study.name

    @property
    def store(self) -> Store:
        """Where it lives."""
        return self._study.store

    def __repr__(self) -> str:
        return f"aio.{self._study!r}"

    @classmethod
    async def create(cls, store: str | Store, name: str, **settings: Any) -> Self:
        """Begin a study, as `koloss.Study.create` does."""
        return cls(await asyncio.to_thread(blocking.Study.create, store, name, **settings))

    @classmethod
    async def open(cls, store: str | Store, name: str, **settings: Any) -> Self:
        """Take part in a study, as `koloss.Study.open` does."""
        return cls(await asyncio.to_thread(blocking.Study.open, store, name, **settings))

    # Ask and tell.

    @overload
    async def ask(
        self,
        count: None = None,
        *,
        context: Any = None,
        subject: str | None = None,
        request: str | None = None,
        allowed: Any = None,
    ) -> Decision: ...

    @overload
    async def ask(
        self,
        count: int,
        *,
        context: Any = None,
        subject: str | None = None,
        request: str | None = None,
        allowed: Any = None,
    ) -> Decisions: ...

    async def ask(
        self,
        count: int | None = None,
        *,
        context: Any = None,
        subject: str | None = None,
        request: str | None = None,
        allowed: Any = None,
    ) -> Decision | Decisions:
        """Make a decision, or `count` of them."""
        asked = asking(count, context, subject, request, allowed)
        return (await self._submit(asked)).answer  # type: ignore[no-any-return]

    async def tell(self, decision: Told, value: Any, *, request: str | None = None) -> None:
        """Say what a decision has brought, or several."""
        await self._submit(Tell(request=as_key(request), decision=decision, value=value))

    # What an operator does.

    async def pause(self, **said: Any) -> None:
        """Make no decisions until `resume()`."""
        await self._run(self._study.pause, **said)

    async def resume(self, **said: Any) -> None:
        """Make decisions again."""
        await self._run(self._study.resume, **said)

    async def hand_over(self, **said: Any) -> None:
        """Stop the policy in play."""
        await self._run(self._study.hand_over, **said)

    async def re_arm(self, **said: Any) -> None:
        """Let the policy that was stopped last play again."""
        await self._run(self._study.re_arm, **said)

    async def change(self, setting: str, value: Any, **said: Any) -> None:
        """Change a setting in the middle."""
        await self._run(self._study.change, setting, value, **said)

    async def forget_subject(self, subject: str) -> int:
        """Erase what is held of a subject."""
        return await self._run(self._study.forget_subject, subject)

    # What is known.

    async def status(self) -> Status:
        """Where the study stands."""
        return await self._run(self._study.status)

    async def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far."""
        return await self._run(self._study.recommend, context)

    async def probabilities(self, context: Any = None) -> list[dict[str, Any]]:
        """Actions of a finite set and how likely each is next."""
        return await self._run(self._study.probabilities, context)

    async def guarantee(self, **options: Any) -> Guarantee:
        """The learner's regret bound."""
        return await self._run(self._study.guarantee, **options)

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The log, from the event after this number on, read in pages."""
        events = self._study.events(after)
        while page := await self._run(lambda: list(islice(events, PAGE))):
            for event in page:
                yield event

    # Those that take long have a thread of their own: nobody who asks has to wait for them.

    async def export(self, path: str | Path) -> None:
        """Write the decisions to a .parquet or .csv file."""
        await asyncio.to_thread(self._study.export, path)

    async def backup(self, path: str | Path) -> None:
        """Write a copy of the whole store."""
        await asyncio.to_thread(self._study.backup, path)

    async def close(self) -> None:
        """Give the store's connection back, and let the worker go, after what waits has been done."""
        await self._run(self._study.close)
        self._worker.shutdown(wait=False)
        self._settle_here()  # as its store, it may be used again

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # The worker.

    async def _submit(self, operation: Op) -> Op:
        """Have an operation carried out, together with all that wait when the worker comes to it."""
        self._study._worker.enqueue(operation)
        return await self._run(self._study._worker.finish, operation)

    async def _run(self, call: Callable[..., R], *arguments: Any, **named: Any) -> R:
        if self._home != Forks.count:  # a fork has no threads
            self._settle_here()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._worker, partial(call, *arguments, **named))
        # What waits is done though its caller is gone: it would be found waiting by the next one, at any time.
        work.add_done_callback(_look_at)
        return await asyncio.shield(work)


def _look_at(work: asyncio.Future[Any]) -> None:
    """Let an error that nobody waits for any more be no complaint of the loop's."""
    if not work.cancelled():
        work.exception()
