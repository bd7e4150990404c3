"""Spans to whole requests: how long to wait, what to do with what comes late, what to do when memory runs out."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field

from collectors.anchors import WHOLE_TRACE
from collectors.feedback import LateFeedback, RequestIndex, Target, target_of, verdicts
from collectors.open_trace import Assembled, OpenTrace
from collectors.span import Receipt, Span, SpanBatch

__all__ = ["Assembled", "Assembler", "AssemblyCounts", "AssemblySettings", "LateFeedback"]


class AssemblySettings(BaseModel):
    """How long a request may take to arrive, and how much is held meanwhile. All times by arrival, in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answered_wait_s: float = Field(
        12,
        gt=0,
        description="Close a trace so long after its last span, once an anchor and an answer are there.",
    )
    idle_wait_s: float = Field(
        30, gt=0, description="Close a trace so long after its last span, whatever is there."
    )
    max_wait_s: float = Field(
        120, gt=0, description="Close a trace so long after its first span at the latest."
    )
    revision_window_s: float = Field(
        300, ge=0, description="Spans that come within this time after closing make a new revision."
    )
    max_open_spans: int = Field(
        200_000, ge=1, description="Spans held at most, those of closed traces included."
    )
    max_open_traces: int = Field(50_000, ge=1, description="Traces held at most, closed ones included.")
    max_spans_per_trace: int = Field(
        5_000, ge=1, description="A trace that grows to this is closed early, in parts."
    )
    feedback_window_s: float = Field(
        86_400, ge=0, description="Feedback joins its request for so long after the request closed."
    )
    max_remembered_requests: int = Field(
        100_000,
        ge=1,
        description="Closed requests whose ids are remembered at most, for feedback to find them.",
    )


@dataclass(slots=True)
class AssemblyCounts:
    """What assembly holds (`open_*`), and what it has done since it was made."""

    open_spans: int = 0
    open_traces: int = 0
    spans: int = 0
    duplicate_spans: int = 0
    requests: int = 0
    revisions: int = 0
    feedback_joined: int = 0
    feedback_late: int = 0
    """Feedback that joined a request whose spans were gone already."""
    feedback_unjoined: int = 0
    """Feedback whose request did not come within the revision window, or could not be told from its neighbours."""
    forgotten_early: int = 0
    """Closed traces that made room before their window ended: what still comes for them starts a new request."""
    closed: Counter[str] = field(default_factory=Counter)
    """Closings of traces by reason: answered, idle, max_wait, spans_cap, memory, flush."""


@dataclass(slots=True, frozen=True)
class _Waiting:
    """Feedback that came before the request that it is about."""

    span: Span
    target: Target
    receipt: Receipt | None
    came_at: float


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
        self._feedback: OrderedDict[str, list[_Waiting]] = OrderedDict()
        """By what it waits for: a trace, a response or a session."""
        self._index = RequestIndex(settings.feedback_window_s, settings.max_remembered_requests)
        self._ready: list[Assembled] = []
        self.counts = AssemblyCounts()

    def add(self, batch: SpanBatch, now: float) -> None:
        """Take the spans of one message that arrived at `now` (Unix seconds, never falling)."""
        for span in batch.spans:
            self.counts.spans += 1
            target = target_of(span)
            if target is not None:
                self._add_feedback(_Waiting(span, target, batch.receipt, now))
                continue
            self._put(span.trace_id, span.span_id, span.parent_id, span, batch.receipt, now)
            for key in self._index.saw(span, now):
                self._join(key, now)
        self._make_room(now)

    def due(self, now: float) -> list[Assembled]:
        """The requests whose waiting has ended."""
        while self._agenda and self._agenda[0][0] <= now:
            due_at, trace_id = heapq.heappop(self._agenda)
            if self._due_at.get(trace_id) != due_at:
                continue
            del self._due_at[trace_id]
            self._visit(trace_id, now)
        self._expire_feedback(now - self._settings.revision_window_s)
        self._index.expire(now)
        return self._take_ready()

    def flush(self, now: float) -> list[Assembled]:
        """Everything that is open, as far as it came: for the drain and for the end of a replay."""
        for trace in list(self._open.values()):
            self._close(trace, "flush", now)
        self._expire_feedback(now)
        return self._take_ready()

    def _take_ready(self) -> list[Assembled]:
        ready, self._ready = self._ready, []
        return ready

    def _put(
        self, trace_id: str, key: str, parent: str | None, span: Span, receipt: Receipt | None, now: float
    ) -> None:
        trace = self._open.get(trace_id) or self._closed.get(trace_id)
        if trace is None:
            trace = OpenTrace(trace_id)
            self.counts.open_traces += 1
        if key in trace.nodes:
            self.counts.duplicate_spans += 1
        else:
            self.counts.open_spans += 1
        if trace.holds(key, span):
            return
        trace.put(key, parent, span, receipt, now)
        self._closed.pop(trace_id, None)
        self._open[trace_id] = trace
        self._open.move_to_end(trace_id)
        if len(trace.nodes) >= self._settings.max_spans_per_trace:
            self._close(trace, "spans_cap", now)
            self._forget(trace)
        else:
            self._schedule(trace)
        self._join(trace_id, now)

    def _add_feedback(self, feedback: _Waiting) -> None:
        """Feedback is part of the request that it is about; until that one comes it waits."""
        target = self._index.resolve(feedback.target)
        if target.trace_id in self._open or target.trace_id in self._closed:
            self._put_feedback(feedback, target)
        elif (request_id := self._index.request_id(target)) is not None:
            self._add_late(feedback, request_id)
        elif (key := target.key) is None:
            self.counts.feedback_unjoined += 1
        else:
            if feedback.receipt is not None:
                feedback.receipt.hold()
            self._feedback.setdefault(key, []).append(feedback)
            while len(self._feedback) > self._settings.max_open_traces:
                self._give_up_feedback()

    def _join(self, key: str, now: float) -> None:
        """What waited under this key has its request now."""
        for waiting in self._feedback.pop(key, ()) if self._feedback else ():
            self._put_feedback(replace(waiting, came_at=now), self._index.resolve(waiting.target))
            if waiting.receipt is not None:
                waiting.receipt.release()

    def _put_feedback(self, feedback: _Waiting, target: Target) -> None:
        self.counts.feedback_joined += 1
        span, trace_id = feedback.span, target.trace_id
        assert trace_id is not None, "feedback is put only where its trace is known"
        key = span.span_id if span.trace_id == trace_id else f"{span.trace_id}:{span.span_id}"
        parent = target.span_id or WHOLE_TRACE
        self._put(trace_id, key, parent, span, feedback.receipt, feedback.came_at)

    def _add_late(self, feedback: _Waiting, request_id: str) -> None:
        if self._on_late is None:
            self.counts.feedback_unjoined += 1
            return
        self.counts.feedback_joined += 1
        self.counts.feedback_late += 1
        span, receipt = feedback.span, feedback.receipt
        if receipt is not None:
            receipt.hold()
        self._on_late(LateFeedback(request_id, verdicts(span), f"{span.trace_id}:{span.span_id}", receipt))

    def _expire_feedback(self, limit: float) -> None:
        while self._feedback and next(iter(self._feedback.values()))[0].came_at <= limit:
            self._give_up_feedback()

    def _give_up_feedback(self) -> None:
        _, given_up = self._feedback.popitem(last=False)
        for waiting in given_up:
            self.counts.feedback_unjoined += 1
            if waiting.receipt is not None:
                waiting.receipt.release()

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
        self.counts.open_spans -= trace.drop_expired(now - self._settings.revision_window_s)
        del self._open[trace.trace_id]
        self._closed[trace.trace_id] = trace
        self._schedule(trace)

    def _forget(self, trace: OpenTrace) -> None:
        del self._closed[trace.trace_id]
        self._due_at.pop(trace.trace_id, None)
        self.counts.open_traces -= 1
        self.counts.open_spans -= len(trace.nodes)

    def _make_room(self, now: float) -> None:
        """Over the caps, closed traces go first; then open ones are closed early, those that waited longest first."""
        while (
            self.counts.open_spans > self._settings.max_open_spans
            or self.counts.open_traces > self._settings.max_open_traces
        ):
            if self._closed:
                self.counts.forgotten_early += 1
            else:
                self._close(next(iter(self._open.values())), "memory", now)
            self._forget(next(iter(self._closed.values())))
