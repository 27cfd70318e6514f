"""The policies in their order, and what a client keeps between calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from . import _observers
from ._call import Call, Reply
from ._flow import Ask, Effect, Flow, Next, Policy, compose, finish
from ._scope import current_scope
from ._settings import Settings
from .report import CallReport, Later

if TYPE_CHECKING:  # most programs have no budget, and count no tokens
    from .policies.budget import Budgets
    from .tokens import Calibrator

__all__ = ["Pipeline", "finish_at_exit"]


class Pipeline:
    """The way of each call of one client.

    Attributes:
        leftovers: What dropped bodies left to do; run by the next call, at `close` or at exit.
    """

    def __init__(self, settings: Settings) -> None:
        from weakref import finalize, ref  # not needed to import

        self.settings = settings
        self.clock = settings.clock
        self._hints: Policy | None = None
        self._newest: Later | None = None
        self._calibrators: list[Calibrator] = []
        self.leftovers: deque[Flow[None]] = deque()
        self._budgets: list[Budgets] = []
        # Two chains, so that calls without scope and budget pay for neither.
        self._limited: Next | None = None
        self._chain = self._limited_chain() if settings.budgets else compose(self._policies([]))
        # By a weak reference: what is left holds its pipeline, and would keep it until then.
        finalize(self, finish_at_exit, ref(self))

    @property
    def last_report(self) -> CallReport | None:
        """Of the call that ended last."""
        newest = self._newest
        return None if newest is None else newest.get()

    @property
    def calibrator(self) -> Calibrator:
        """What this client's calls teach about counts; made when it is first asked for."""
        given = self.settings.calibrator
        if given is not None:
            return given
        if not self._calibrators:
            from .tokens import Calibrator

            self._calibrators.append(Calibrator())  # of two threads at once, the first one's counts
        return self._calibrators[0]

    def flow(self, call: Call) -> Flow[Reply]:
        """Send `call` through every policy."""
        if self.leftovers:
            yield from finish(self.leftovers)
        scope = current_scope()
        if scope is None:
            return (yield from self._chain(call))
        return (yield from self._limited_chain()(replace(call, scope=scope)))

    def finish(self) -> Flow[None]:
        """Do what dropped bodies left to do."""
        yield from finish(self.leftovers)

    def leave(self) -> None:
        """At exit: what calls still hold is left to be settled, as if they were dropped."""
        for budgets in self._budgets:
            self.leftovers.extend(budgets.unsettled())

    def _limited_chain(self) -> Next:
        """With the policies of scopes and budgets, made when they are first needed."""
        if self._limited is None:
            from .policies.budget import Budgets
            from .policies.deadline import Deadlines

            budgets = Budgets(
                clock=self.clock,
                leftovers=self.leftovers,
                budgets=self.settings.budgets,
                calibrator=self.calibrator,
                catalog=self.settings.catalog,
            )
            self._budgets.append(budgets)  # of two threads at once, both count for somebody
            # The deadline first: it bounds the wait for a budget too.
            self._limited = compose(self._policies([Deadlines(clock=self.clock), budgets]))
        return self._limited

    def _policies(self, limits: list[Policy]) -> list[Policy]:
        # Imported here, so that `import smartclient` loads no policy.
        from .policies.retry import Retry
        from .policies.telemetry import Telemetry

        settings, clock = self.settings, self.clock
        policies: list[Policy] = [
            # Outermost: it reports what the caller saw, all attempts included.
            Telemetry(
                clock=clock,
                publish=self._publish,
                catalog=settings.catalog,
                calibrator=lambda: self.calibrator,
                counts_all=settings.calibrator is not None,
            ),
            # Around retry: every attempt settles into the one reservation of its call.
            *limits,
            # Inside telemetry, so that every attempt is in the report.
            Retry(
                clock=clock,
                stop=settings.stop,
                wait=settings.wait,
                max_retries=settings.max_retries,
                max_wait=settings.max_wait,
                wait_jitter=settings.wait_jitter,
                resend=settings.resend,
                resend_after_timeout=settings.resend_after_timeout,
            ),
        ]
        if self._hints is None and settings.cache_hints is not None:
            from .policies.cache_hints import Hints

            # One for all chains: what it knows of the prompts is the client's.
            self._hints = Hints(clock=clock, hints=settings.cache_hints, catalog=settings.catalog)
        if self._hints is not None:
            # Innermost: its marks are for the one model and address that are really called.
            policies.append(self._hints)
        return policies

    def _publish(self, report: Later) -> None:
        self._newest = report
        if self.settings.ledger is not None:
            _keep(self.settings.ledger, report, self.clock.now())
        if self.settings.on_report is not None:
            _observe(self.settings.on_report, report.get())


def finish_at_exit(pipeline: Callable[[], Pipeline | None]) -> None:
    """Do what dropped bodies left to do, as far as it needs no connection and no wait.

    Stores are told what they are owed: nobody would else let go of what calls hold there.

    Args:
        pipeline: A weak reference. One that was collected is not finished then: it may be
            collected in any thread, whatever locks that holds.
    """
    failures: dict[int, Exception] = {}
    alive = pipeline()
    if alive is not None:
        alive.leave()
    while alive is not None and alive.leftovers:
        _finish_now(alive.leftovers.popleft(), failures)


def _finish_now(flow: Flow[None], failures: dict[int, Exception]) -> None:
    """Run `flow` as far as it only asks stores; one that failed is not asked again."""
    try:
        effect: Effect | None = next(flow, None)
        while isinstance(effect, Ask):
            store = effect.store
            try:
                if id(store) in failures:
                    raise failures[id(store)]
                answer = store.do(effect.operation)
            except Exception as error:
                failures[id(store)] = error
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration:
        return
    except Exception:  # the next one is due too
        _observers.failed("what a dropped body left to do failed at exit", flow)
    finally:
        flow.close()


def _keep(ledger: Any, report: Later, at: float) -> None:
    try:
        ledger.add(report.get(), at=at)
    except Exception:  # who keeps the books must not break the call
        _observers.failed("the ledger failed", ledger)


def _observe(observer: Any, report: CallReport) -> None:
    try:
        observer(report)
    except Exception:  # an observer must not break the call that it observes
        _observers.failed("on_report failed", observer)
