"""`groundwatch replay`: captures through the whole pipeline in the traces' own time, as fast as it goes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median_high

from alerts.guardrail import Transition
from collectors.events import CollectorEvents, count_taken
from collectors.replay import SOURCE, Skipped, captures, read_batches
from collectors.span import SpanBatch
from monitor.pipeline import Intake, Judging, Settled
from monitor.watching import Watch

Progress = Callable[[int, int], None]
"""Bytes read, bytes in all."""
_LONGEST_WALK = 2_000
"""Looks taken while nothing happens; a longer silence is crossed in as many longer steps."""


class Replay:
    """Drives the two halves of the pipeline and the watch by the captures' own clock, in one thread.

    Time is the latest batch's, so it never runs backwards; between two batches it advances in steps of
    `step_s`, as the service's ticks would, so that requests close, windows slide and guardrails fire when they would
    have.
    """

    def __init__(
        self, intake: Intake, judging: Judging, watch: Watch, events: CollectorEvents, *, step_s: float
    ) -> None:
        self._intake = intake
        self._events = events
        self._judging = judging
        self._watch = watch
        self._step_s = step_s
        self.now = 0.0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        """When the first and the last batch were sent; None without any."""
        self.transitions: list[Transition] = []

    def run(self, batches: Iterable[SpanBatch], settle_s: float) -> None:
        """Take every batch in turn, then let `settle_s` seconds pass so that what is open closes by its own rules."""
        for batch in batches:
            at = _time_of(batch)
            if at is not None:
                if self.started_at is None:
                    self.started_at = self.now = at
                self._advance(at)
            count_taken(self._events, SOURCE, batch)
            self._intake.accept(batch, self.now)
        self.ended_at = self.now if self.started_at is not None else None
        self._advance(self.now + settle_s)
        self._judge(self._intake.flush(self.now))
        self._look()

    def _advance(self, to: float) -> None:
        step = max(self._step_s, (to - self.now) / _LONGEST_WALK)
        while self.now + step <= to:
            self.now += step
            self._judge(self._intake.due(self.now))
            self._look()
        self.now = max(self.now, to)

    def _judge(self, closed: Sequence[Settled]) -> None:
        if closed:
            self._judging.judge(closed, self.now)

    def _look(self) -> None:
        self._judging.tick(self.now)
        self.transitions.extend(self._watch.evaluate(self.now))


def in_time_order(
    paths: Sequence[Path], on_progress: Progress, on_skipped: Callable[[Skipped], None]
) -> Iterator[SpanBatch]:
    """The batches of all captures merged by time, each file being in its own order already; streamed, not loaded.
    Raises FileNotFoundError."""
    found = list(captures(paths))
    done = dict.fromkeys(range(len(found)), 0)
    total = sum(capture.size for capture in found)

    def read(number: int) -> Iterator[tuple[float, SpanBatch]]:
        def note(read_bytes: int, _: int) -> None:
            done[number] = read_bytes
            on_progress(sum(done.values()), total)

        latest = 0.0
        for batch in read_batches([found[number].path], note, on_skipped):
            latest = max(latest, _time_of(batch) or latest)
            yield latest, batch

    for _, batch in heapq.merge(*map(read, done), key=lambda item: item[0]):
        yield batch


def _time_of(batch: SpanBatch) -> float | None:
    """About when the batch was sent, Unix seconds; None for a batch without times. The median of its spans' ends, so
    that one span from a wrong clock cannot carry everybody's time away."""
    ends = [span.end_ns for span in batch.spans if span.end_ns > 0]
    return median_high(ends) / 1e9 if ends else None
