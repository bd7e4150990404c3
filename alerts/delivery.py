"""Alerts on their way: every sink has a lane of its own.

A sink that is down holds up neither the guardrails nor another sink. Its lane keeps the latest state of each
alert and tries again until it is delivered, so that no final state is lost; only what a person must mend (the
receiver refuses the content, or more alerts fire than a lane may hold) ends an alert's way, and that is
counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from alerts.alert import Alert
from alerts.lane import Backoff, DeliveryEvents, Lane
from alerts.sink import AlertSink

__all__ = ["DeliveryEvents", "Dispatcher"]


class Dispatcher:
    """Hands every alert to every sink. `submit` never blocks and may be called before `start`."""

    def __init__(
        self,
        sinks: Sequence[AlertSink],
        events: DeliveryEvents,
        *,
        capacity: int = 10_000,
        retry_first_s: float = 1.0,
        retry_most_s: float = 60.0,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`capacity` bounds the alerts of a lane, queued and standing; waits between tries double up to
        `retry_most_s`; `clock` gives Unix seconds."""
        self._lanes = [
            Lane(
                sink,
                events,
                Backoff(retry_first_s, retry_most_s, seed + index),
                capacity=capacity,
                clock=clock,
            )
            for index, sink in enumerate(sinks)
        ]

    def submit(self, alert: Alert) -> bool:
        """Take the alert's newest state for every sink; False when a lane was full (which is counted).

        An alert that already stands is not sent again for new annotations: they go with its next resend.
        """
        taken = [lane.submit(alert) for lane in self._lanes]
        return all(taken)

    def start(self) -> None:
        """Begin to deliver."""
        for lane in self._lanes:
            lane.start()

    def stop(self, deadline_s: float = 10.0) -> None:
        """Try what is queued once more, then end, all within the deadline.

        Standing alerts are not ended: a monitor that starts again takes them up, and Alertmanager ends those
        of one that does not.
        """
        end = time.monotonic() + deadline_s
        for lane in self._lanes:
            lane.finish()
        for lane in self._lanes:
            lane.join(end - time.monotonic())

    def undelivered(self) -> tuple[Alert, ...]:
        """What some sink has not taken yet; to be kept and submitted again after a restart."""
        waiting = {id(alert): alert for lane in self._lanes for alert in lane.undelivered()}
        return tuple(waiting.values())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
