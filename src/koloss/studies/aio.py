"""Studies for event loops: what `Study` does, awaited.

One thread works for a study. What is asked and told while it is busy waits together and is committed together, so that many
concurrent calls cost few waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from koloss.learners import Decision, Decisions
from koloss.learners.ledger import Told
from koloss.learners.sharing import Forks
from koloss.studies import study as blocking
from koloss.studies.operations import Operation, Tell, asking
from koloss.studies.settings import as_key
from koloss.studies.store import PAGE, Event, Store

__all__ = ["Study"]

P = ParamSpec("P")
R = TypeVar("R")
Op = TypeVar("Op", bound=Operation)


def _awaited(
    method: Callable[Concatenate[blocking.Study, P], R], *, apart: bool = False
) -> Callable[Concatenate[Study, P], Coroutine[Any, Any, R]]:
    """A method of `koloss.Study`, done by the worker, or in a thread of its own."""

    @wraps(method)
    async def call(self: Study, /, *arguments: P.args, **named: P.kwargs) -> R:
        work = partial(method, self._study, *arguments, **named)
        return await (asyncio.to_thread(work) if apart else self._run(work))

    return call


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
    async def ask(self, count: None = None, **about: Unpack[blocking.About]) -> Decision: ...

    @overload
    async def ask(self, count: int, **about: Unpack[blocking.About]) -> Decisions: ...

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

    # What else `koloss.Study` does.

    pause = _awaited(blocking.Study.pause)
    resume = _awaited(blocking.Study.resume)
    hand_over = _awaited(blocking.Study.hand_over)
    re_arm = _awaited(blocking.Study.re_arm)
    change = _awaited(blocking.Study.change)
    forget_subject = _awaited(blocking.Study.forget_subject)
    status = _awaited(blocking.Study.status)
    recommend = _awaited(blocking.Study.recommend)
    probabilities = _awaited(blocking.Study.probabilities)
    guarantee = _awaited(blocking.Study.guarantee)
    # These take long and have a thread of their own: nobody who asks has to wait for them.
    export = _awaited(blocking.Study.export, apart=True)
    backup = _awaited(blocking.Study.backup, apart=True)

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """The log, from the event after this number on, read in pages."""
        events = self._study.events(after)
        while page := await self._run(lambda: list(islice(events, PAGE))):
            for event in page:
                yield event

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
