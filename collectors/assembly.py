"""Spans to whole requests: how long to wait, what to do with what comes late, what to do when memory runs out."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from collectors.anchors import WHOLE_TRACE
from collectors.assembly_settings import AssemblyCounts, AssemblySettings
from collectors.conventions import Spoken, spoken_of
from collectors.feedback import LateFeedback, RequestIndex, Target, target_of, verdicts
from collectors.open_trace import Assembled, OpenTrace
from collectors.span import Receipt, Span, SpanBatch
from collectors.waiting import Waiting, WaitingFeedback

__all__ = ["Assembled", "Assembler", "AssemblyCounts", "AssemblySettings", "LateFeedback"]


_FEEDBACK_SHARE = 8
"""Feedback that waits for its request may take one in so many of the bytes."""


class Assembler:
    """Collects spans by trace and gives each request once it seems whole. One owner; no thread and no clock.

    A message's receipt is held while any span of it is in an open trace, and handed on with the requests that the
    trace becomes. `on_late` is given feedback on requests whose spans are gone, during `add`; without it such
    feedback is counted as unjoined.
    """

    def __init__(
        self, settings: AssemblySettings, on_late: Callable[[LateFeedback], None] | None = None
    ) -> None:
        self._settings = settings
        self._on_late = on_late
        self._open: OrderedDict[str, OpenTrace] = OrderedDict()
        """By the last span's arrival, as is `_closed`: the first has waited longest."""
        self._closed: OrderedDict[str, OpenTrace] = OrderedDict()
        self._agenda: list[tuple[float, str]] = []
        self._due_at: dict[str, float] = {}
        """The time of each trace's one valid entry in the agenda."""
        self._feedback = WaitingFeedback(settings.max_open_traces, settings.max_open_bytes // _FEEDBACK_SHARE)
        self._index = RequestIndex(settings.feedback_window_s, settings.max_remembered_requests)
        self._ready: list[Assembled] = []
        self.counts = AssemblyCounts()

    def add(self, batch: SpanBatch, now: float) -> None:
        """Take the spans of one message that arrived at `now` (Unix seconds, never falling)."""
        for span in batch.spans:
            self.counts.spans += 1
            spoken = spoken_of(span)
            target = target_of(span) if spoken.judges else None
            if target is not None:
                self._add_feedback(Waiting(span, target, batch.receipt, now))
                continue
            self._put(span.trace_id, span.span_id, span.parent_id, span, batch.receipt, now, spoken)
            for key in self._index.saw(span, spoken.refers, now) if spoken.refers else ():
                if self._feedback:
                    self._join(key, now)
            span.fold()
        self._make_room(now)

    def due(self, now: float) -> list[Assembled]:
        """The requests whose waiting has ended."""
        while self._agenda and self._agenda[0][0] <= now:
            due_at, trace_id = heapq.heappop(self._agenda)
            if self._due_at.get(trace_id) != due_at:
                continue
            del self._due_at[trace_id]
            self._visit(trace_id, now)
        self.counts.feedback_unjoined += self._feedback.expire(now - self._settings.revision_window_s)
        self._index.expire(now)
        return self._take_ready()

    def flush(self, now: float) -> list[Assembled]:
        """Everything that is open, as far as it came: for the drain and for the end of a replay."""
        for trace in list(self._open.values()):
            self._close(trace, "flush", now)
        self.counts.feedback_unjoined += self._feedback.expire(now)
        return self._take_ready()

    def _take_ready(self) -> list[Assembled]:
        ready, self._ready = self._ready, []
        return ready

    def _put(
        self,
        trace_id: str,
        key: str,
        parent: str | None,
        span: Span,
        receipt: Receipt | None,
        now: float,
        spoken: Spoken,
    ) -> None:
        trace = self._open.get(trace_id) or self._closed.get(trace_id)
        if trace is None:
            trace = OpenTrace(trace_id)
            self.counts.open_traces += 1
        if key in trace.nodes:
            self.counts.duplicate_spans += 1
            if trace.holds(key, span):
                return
        waited, settled = bool(trace.fresh), trace.settled
        counts, spans, held = self.counts, len(trace.nodes), trace.held_bytes
        trace.put(key, parent, span, receipt, now, spoken)
        counts.open_spans += len(trace.nodes) - spans
        counts.open_bytes += trace.held_bytes - held
        if not waited:
            self._closed.pop(trace_id, None)
            self._open[trace_id] = trace
        self._open.move_to_end(trace_id)
        if len(trace.nodes) >= self._settings.max_spans_per_trace:
            self._close(trace, "spans_cap", now)
            self._forget(trace)
        elif not waited or trace.settled is not settled:
            self._schedule(trace)
        if self._feedback:
            self._join(trace_id, now)

    def _count_held(self, trace: OpenTrace, sign: int) -> None:
        self.counts.open_spans += sign * len(trace.nodes)
        self.counts.open_bytes += sign * trace.held_bytes

    def _add_feedback(self, feedback: Waiting) -> None:
        """Feedback is part of the request that it is about; until that one comes it waits."""
        target = self._index.resolve(feedback.target)
        if target.trace_id in self._open or target.trace_id in self._closed:
            self._put_feedback(feedback, target)
        elif (request_id := self._index.request_id(target)) is not None:
            self._add_late(feedback, request_id)
        elif (key := target.key) is None:
            self.counts.feedback_unjoined += 1
        else:
            self.counts.feedback_unjoined += self._feedback.hold(key, feedback)

    def _join(self, key: str, now: float) -> None:
        """What waited under this key has its request now."""
        for waiting in self._feedback.take(key):
            self._put_feedback(replace(waiting, came_at=now), self._index.resolve(waiting.target))

    def _put_feedback(self, feedback: Waiting, target: Target) -> None:
        self.counts.feedback_joined += 1
        span, trace_id = feedback.span, target.trace_id
        assert trace_id is not None, "feedback is put only where its trace is known"
        key = span.span_id if span.trace_id == trace_id else f"{span.trace_id}:{span.span_id}"
        parent = target.span_id or WHOLE_TRACE
        self._put(trace_id, key, parent, span, feedback.receipt, feedback.came_at, spoken_of(span))

    def _add_late(self, feedback: Waiting, request_id: str) -> None:
        if self._on_late is None:
            self.counts.feedback_unjoined += 1
            return
        self.counts.feedback_joined += 1
        self.counts.feedback_late += 1
        span, receipt = feedback.span, feedback.receipt
        if receipt is not None:
            receipt.hold()
        self._on_late(LateFeedback(request_id, verdicts(span), f"{span.trace_id}:{span.span_id}", receipt))

    def _schedule(self, trace: OpenTrace) -> None:
        """An entry is only ever moved to an earlier time: a later one is found when the entry comes up."""
        deadline = self._deadline(trace)
        if deadline < self._due_at.get(trace.trace_id, float("inf")):
            self._due_at[trace.trace_id] = deadline
            heapq.heappush(self._agenda, (deadline, trace.trace_id))

    def _deadline(self, trace: OpenTrace) -> float:
        if not trace.fresh:
            return trace.touched_at + self._settings.revision_window_s
        wait = self._settings.answered_wait_s if trace.settled else self._settings.idle_wait_s
        return min(trace.touched_at + wait, trace.opened_at + self._settings.max_wait_s)

    def _visit(self, trace_id: str, now: float) -> None:
        trace = self._open.get(trace_id) or self._closed[trace_id]
        if now < self._deadline(trace):
            self._schedule(trace)
        elif not trace.fresh:
            self._forget(trace)
        elif now >= trace.opened_at + self._settings.max_wait_s:
            self._close(trace, "max_wait", now)
        else:
            self._close(trace, "answered" if trace.settled else "idle", now)

    def _close(self, trace: OpenTrace, why: str, now: float) -> None:
        given = trace.close(now, capped=why in ("spans_cap", "memory"))
        self._ready.extend(given)
        for one in given:
            self._index.closed(one.trace_id, one.anchor_span_id, now)
        self.counts.closed[why] += 1
        self.counts.requests += sum(one.revision == 0 for one in given)
        self.counts.revisions += sum(one.revision > 0 for one in given)
        self._count_held(trace, -1)
        trace.drop_expired(now - self._settings.revision_window_s)
        self._count_held(trace, 1)
        del self._open[trace.trace_id]
        self._closed[trace.trace_id] = trace
        self._schedule(trace)

    def _forget(self, trace: OpenTrace) -> None:
        del self._closed[trace.trace_id]
        self._due_at.pop(trace.trace_id, None)
        self.counts.open_traces -= 1
        self._count_held(trace, -1)

    def _make_room(self, now: float) -> None:
        """Over the caps, closed traces go first; then open ones are closed early, those that waited longest first."""
        while self._is_over():
            if self._closed:
                self.counts.forgotten_early += 1
            else:
                self._close(next(iter(self._open.values())), "memory", now)
            self._forget(next(iter(self._closed.values())))

    def _is_over(self) -> bool:
        counts, settings = self.counts, self._settings
        return (
            counts.open_spans > settings.max_open_spans
            or counts.open_bytes > settings.max_open_bytes
            or counts.open_traces > settings.max_open_traces
        )
