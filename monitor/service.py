"""Running: components in order, one shared deadline to stop them, and health that turns red when anything dies."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from collectors.span import SpanBatch
from monitor.metrics import Clock, Metrics
from monitor.pipeline import Intake, Judging, Settled
from monitor.stage import Stage
from monitor.status import Status
from monitor.store import Ownership, Store
from monitor.watching import Watch

_LOG = logging.getLogger(__name__)

_LAST_STEP_S = 3.0
"""Kept of a drain's deadline for the last commit and the farewell to the group."""


class Component(Protocol):
    """Whatever is started and stopped; both are harmless twice and in any order."""

    def start(self) -> None: ...

    def stop(self, deadline_s: float = 10.0) -> None: ...


@runtime_checkable
class TwoStep(Component, Protocol):
    """A source that still has something to do with what it gave downstream: Kafka's offsets are committed when their
    requests are stored. It falls quiet first and is stopped last."""

    def quiesce(self) -> None: ...


class Health:
    """Green until the first problem; thread-safe. `failed` is set with it."""

    def __init__(self) -> None:
        self.failed = threading.Event()
        self._problem = ""
        self._lock = threading.Lock()

    @property
    def problem(self) -> str:
        return self._problem

    def fail(self, where: str, error: BaseException) -> None:
        """Note a problem; the first one stays, since the others follow from it."""
        _LOG.error("%s failed: %r", where, error, exc_info=error)
        with self._lock:
            self._problem = self._problem or f"{where} failed: {type(error).__name__}: {error}"
        self.failed.set()


class SpanQueue:
    """The sink of every collector: a bounded queue before the intake, and the intake's thread behind it."""

    def __init__(
        self,
        intake: Intake,
        judging: Stage[Settled],
        health: Health,
        metrics: Metrics,
        clock: Clock,
        *,
        capacity: int,
        tick_s: float,
    ) -> None:
        self._intake = intake
        self._judging = judging
        self._metrics = metrics
        self._clock = clock
        self._stage: Stage[SpanBatch] = Stage(
            "intake",
            self._accept,
            capacity=capacity,
            max_batch=64,
            on_failure=health.fail,
            tick=self._tick,
            tick_s=tick_s,
            finish=self._flush,
        )
        self.start, self.stop = self._stage.start, self._stage.stop

    def offer(self, batch: SpanBatch) -> bool:
        """Take the batch, and with it the first hold of its message, which the intake lets go of."""
        return self._stage.offer(batch)

    def _accept(self, batches: Sequence[SpanBatch]) -> None:
        now = self._clock()
        for batch in batches:
            self._intake.accept(batch, now)

    def _tick(self) -> None:
        self._metrics.queue_depth.labels("intake").set(self._stage.depth)
        self._metrics.queue_depth.labels("judging").set(self._judging.depth)
        self._pass_on(self._intake.due(self._clock()))

    def _flush(self) -> None:
        self._pass_on(self._intake.flush(self._clock()))

    def _pass_on(self, closed: Sequence[Settled]) -> None:
        for item in closed:
            self._judging.put(item)


def judging_stage(
    judging: Judging, health: Health, clock: Clock, *, capacity: int, tick_s: float, save_s: float
) -> Stage[Settled]:
    """The thread that owns the checks, the windows and the drift detectors."""
    saved_at = clock()

    def tick() -> None:
        nonlocal saved_at
        now = clock()
        judging.tick(now)
        if now - saved_at >= save_s:
            judging.save(now)
            saved_at = now

    def finish() -> None:
        judging.tick(clock())
        judging.save(clock())

    return Stage(
        "judging",
        lambda closed: judging.judge(closed, clock()),
        capacity=capacity,
        max_batch=32,
        on_failure=health.fail,
        tick=tick,
        tick_s=tick_s,
        finish=finish,
    )


def watch_stage(watch: Watch, health: Health, clock: Clock, evaluation_s: float) -> Stage[None]:
    """The thread that evaluates the guardrails; it has no input but the registry."""

    def look() -> None:
        watch.evaluate(clock())

    def finish() -> None:
        now = clock()
        watch.evaluate(now)
        watch.save(now)

    return Stage(
        "watch",
        lambda _: None,
        capacity=1,
        on_failure=health.fail,
        tick=look,
        tick_s=evaluation_s,
        finish=finish,
    )


class StoreKeeper:
    """Closes the store last, once every stage that writes to it has ended."""

    def __init__(self, store: Store, ownership: Ownership) -> None:
        self._store = store
        self._ownership = ownership

    def start(self) -> None:
        """The store is open already: what it holds was needed to build the rest."""

    def stop(self, deadline_s: float = 10.0) -> None:
        self._store.close()
        self._ownership.release()


class Sidecar:
    """All components, downstream first; started in that order and drained in the opposite one."""

    def __init__(
        self, components: Sequence[tuple[str, Component]], health: Health, status: StatusSource
    ) -> None:
        self._components = tuple(components)
        self._health = health
        self._status = status
        self._stop_asked = threading.Event()
        self._started = self._stopped = False

    def start(self) -> None:
        """Start everything, or nothing: what started before a failure is stopped again, and the error raised.

        Raises RuntimeError after a stop: its store is closed, and a new sidecar takes up what it holds.
        """
        if self._stopped:
            raise RuntimeError("a stopped sidecar does not start again: build a new one")
        self._started = True
        started: list[tuple[str, Component]] = []
        try:
            for name, component in self._components:
                component.start()
                started.append((name, component))
        except BaseException:
            self._stopped = True
            self._stop_all(started, 5.0)
            raise

    def stop(self, deadline_s: float = 25.0) -> None:
        """Drain: sources first, then each stage in the data's order, within one deadline for all."""
        if self._started and not self._stopped:
            self._stopped = True
            self._stop_all(self._components, deadline_s)

    def status(self) -> Status:
        """The snapshot that the status page shows."""
        return self._status.status()

    @property
    def names(self) -> tuple[str, ...]:
        """The components' names, downstream first."""
        return tuple(name for name, _ in self._components)

    def component(self, name: str) -> Component:
        """A component by name, e.g. to ask a receiver for its port. Raises KeyError."""
        return dict(self._components)[name]

    def run(self, deadline_s: float = 25.0) -> int:
        """Start, serve until SIGTERM, SIGINT or a failure, drain; gives the process's exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop_asked.set())
        self.start()
        _LOG.info("watching; stop with SIGTERM or Ctrl-C")
        while not self._stop_asked.wait(0.2) and not self._health.failed.is_set():
            pass
        self.stop(deadline_s)
        counts = self._status.counts()
        _LOG.info("stopped; %s", ", ".join(f"{name} {count}" for name, count in counts.items() if count))
        return 1 if self._health.failed.is_set() else 0

    def _stop_all(self, components: Sequence[tuple[str, Component]], deadline_s: float) -> None:
        """Upstream first, all sources quiet before anything behind them drains; two-step sources end after the drain,
        for which a part of the deadline is kept."""
        ends = time.monotonic() + deadline_s
        two_step = [(name, one) for name, one in reversed(components) if isinstance(one, TwoStep)]
        for name, source in two_step:
            self._guarded(name, source.quiesce)
        kept_s = min(_LAST_STEP_S, deadline_s / 4) if two_step else 0.0
        others = [(name, one) for name, one in reversed(components) if not isinstance(one, TwoStep)]
        for step, until in ((others, ends - kept_s), (two_step, ends)):
            for name, component in step:
                self._guarded(name, partial(component.stop, max(0.2, until - time.monotonic())))

    def _guarded(self, name: str, stop: Callable[[], None]) -> None:
        try:
            stop()
        except Exception as error:
            self._health.fail(f"stopping {name}", error)


class StatusSource(Protocol):
    """Where the snapshot comes from."""

    def status(self) -> Status: ...

    def counts(self) -> dict[str, int]: ...
