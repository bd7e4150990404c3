"""The way to one sink: a thread, and a bounded queue in which the newest state of an alert wins."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from alerts.alert import Alert
from alerts.http_post import DeliveryError, FailureReason
from alerts.sink import AlertSink

_log = logging.getLogger(__name__)

Identity = tuple[tuple[str, str], ...]


class DeliveryEvents(Protocol):
    """Who counts; called from the lanes' threads and from `submit`."""

    def sent(self, sink: str, alerts: int) -> None:
        """So many alerts were taken by the sink."""
        ...

    def failed(self, sink: str, reason: FailureReason, alerts: int) -> None:
        """One try failed; the alerts stay in the lane and are tried again."""
        ...

    def dropped(self, sink: str, reason: FailureReason, alerts: int) -> None:
        """So many alerts will not be tried again."""
        ...


class Backoff:
    """Waits that double from `first_s` to `most_s`, each drawn from its upper half to spread lanes out."""

    def __init__(self, first_s: float, most_s: float, seed: int) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._random = random.Random(seed)
        self._failures = 0

    def failed(self) -> float:
        """The wait after one more failure, in seconds."""
        wait = min(self._most_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 32)
        return wait * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """A success: the next failure waits shortly again."""
        self._failures = 0


class Lane:
    """Queued alerts are undelivered; standing ones fire and the sink knows it. `clock` gives Unix seconds."""

    def __init__(
        self,
        sink: AlertSink,
        events: DeliveryEvents,
        backoff: Backoff,
        *,
        capacity: int,
        clock: Callable[[], float],
    ) -> None:
        self._sink, self._events, self._backoff = sink, events, backoff
        self._capacity, self._clock = capacity, clock
        self._queue: dict[Identity, Alert] = {}
        self._standing: dict[Identity, Alert] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, alert: Alert) -> bool:
        """Take the alert's newest state, at once. False, counted, when the lane is full of others."""
        key = alert.identity
        with self._changed:
            known = key in self._queue or key in self._standing
            if not known and len(self._queue.keys() | self._standing.keys()) >= self._capacity:
                self._events.dropped(self._sink.name, FailureReason.QUEUE_FULL, 1)
                return False
            if key in self._standing and key not in self._queue and not alert.resolved:
                self._standing[key] = alert
            else:
                self._queue[key] = alert
                self._changed.notify()
        return True

    def start(self) -> None:
        """Begin to deliver; harmless when it already does."""
        with self._changed:
            if self._thread is not None:
                return
            self._stopping = stopping = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(stopping,), name=f"deliver-{self._sink.name}", daemon=True
            )
            self._thread.start()

    def finish(self) -> None:
        """Try what is queued once more, then end; `join` waits for it."""
        with self._changed:
            self._stopping.set()
            self._changed.notify()

    def join(self, deadline_s: float) -> None:
        """Wait for the end, at most so long."""
        with self._changed:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(max(0.0, deadline_s))

    def undelivered(self) -> tuple[Alert, ...]:
        """What the sink has not taken yet, oldest first."""
        with self._changed:
            return tuple(self._queue.values())

    def _run(self, stopping: threading.Event) -> None:
        resend_s = math.inf if self._sink.resend_s is None else self._sink.resend_s
        not_before, next_resend = 0.0, time.monotonic() + resend_s
        last = False
        while not last:
            last = self._wait(stopping, not_before, next_resend)
            due = time.monotonic() >= next_resend
            delivered = self._deliver(resend=due)
            not_before = 0.0 if delivered else time.monotonic() + self._backoff.failed()
            if due:
                next_resend = time.monotonic() + resend_s if delivered else not_before

    def _wait(self, stopping: threading.Event, not_before: float, next_resend: float) -> bool:
        """Sleep until there is something to do; True when this is the last round."""
        with self._changed:
            while not stopping.is_set():
                wake = min(not_before, next_resend) if self._queue else next_resend
                wait_s = wake - time.monotonic()
                if wait_s <= 0:
                    return False
                self._changed.wait(None if math.isinf(wait_s) else wait_s)
            return True

    def _deliver(self, *, resend: bool) -> bool:
        with self._changed:
            batch = (self._standing if resend else {}) | self._queue
        if batch and not self._send(list(batch.values())):
            return False
        self._backoff.reset()
        return True

    def _send(self, alerts: Sequence[Alert]) -> bool:
        try:
            self._sink.send(alerts, self._clock())
        except DeliveryError as error:
            return self._failed(alerts, error)
        except Exception as error:
            _log.exception("the sink %s broke", self._sink.name)
            return self._failed(alerts, DeliveryError(FailureReason.ERROR, repr(error)))
        self._events.sent(self._sink.name, len(alerts))
        self._settle(alerts, taken=True)
        return True

    def _failed(self, alerts: Sequence[Alert], error: DeliveryError) -> bool:
        if error.retryable:
            self._events.failed(self._sink.name, error.reason, len(alerts))
            _log.warning("%s took no alerts, will be tried again: %s", self._sink.name, error)
            return False
        if len(alerts) > 1:  # one of them is at fault: the others shall not suffer for it
            settled = [self._send([alert]) for alert in alerts]
            return all(settled)
        self._events.dropped(self._sink.name, error.reason, 1)
        _log.error("%s refuses the alert %s: %s", self._sink.name, alerts[0].name, error)
        self._settle(alerts, taken=False)
        return True

    def _settle(self, alerts: Iterable[Alert], *, taken: bool) -> None:
        """These are dealt with; a state that came in meanwhile stays in the queue."""
        with self._changed:
            for alert in alerts:
                key = alert.identity
                newest = self._queue.get(key) is alert
                if newest:
                    del self._queue[key]
                if alert.resolved or not taken:
                    self._standing.pop(key, None)
                elif newest or key not in self._standing:
                    self._standing[key] = alert
