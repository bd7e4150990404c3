"""One trace's way, without threads and without a clock: spans in, stored findings and moved gauges out.

The service runs the two halves in a thread each; a replay runs both in its own, in the traces' time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.feedback import LateFeedback
from collectors.normalise import Normaliser
from collectors.span import SpanBatch
from collectors.trace import RagTrace
from monitor.metrics import Metrics
from monitor.observing import Observer
from monitor.scoring import Scorer
from monitor.store import Store

_ASSEMBLY_COUNTS = (
    "spans",
    "duplicate_spans",
    "requests",
    "revisions",
    "feedback_joined",
    "feedback_late",
    "feedback_unjoined",
    "forgotten_early",
)


@dataclass(slots=True, frozen=True)
class Closed:
    """A request that assembly closed, and what it became; the messages behind it are held until it is stored."""

    request: Assembled
    trace: RagTrace


Settled = Closed | LateFeedback
"""What the first half hands to the second."""


class Intake:
    """The first half: spans to `RagTrace`. One owner."""

    def __init__(self, assembly: AssemblySettings, normaliser: Normaliser, metrics: Metrics) -> None:
        self._late: list[LateFeedback] = []
        self._assembler = Assembler(assembly, on_late=self._late.append)
        self._normaliser = normaliser
        self._metrics = metrics
        self._counted: Counter[str] = Counter()

    def accept(self, batch: SpanBatch, now: float) -> None:
        """Take a batch's spans; its receipt's first hold ends here, since assembly now holds for each request."""
        self._assembler.add(batch, now)
        if batch.receipt is not None:
            batch.receipt.release()

    def due(self, now: float) -> list[Settled]:
        """What has waited long enough, and feedback on what was closed long ago."""
        return [*self._close(self._assembler.due(now)), *self._heard()]

    def flush(self, now: float) -> list[Settled]:
        """Everything that is still open, for the end of a replay or of a service.

        What came from a source that can be read again (a Kafka record holds its receipt) is left to the next reader,
        which will see the whole request: judging half of it now would make the tombstone for the half.
        """
        closed = self._assembler.flush(now)
        unread = [request for request in closed if request.receipts]
        self._metrics.requests.labels("left_uncommitted").inc(len(unread))
        return [*self._close([request for request in closed if not request.receipts]), *self._heard()]

    def _heard(self) -> list[LateFeedback]:
        late = self._late[:]
        self._late.clear()
        return late

    def _close(self, requests: Sequence[Assembled]) -> list[Closed]:
        self._count()
        closed = []
        for request in requests:
            trace = self._normaliser.normalise(request)
            if trace is None:
                self._metrics.requests.labels("no_rag_request").inc()
                request.release()
            else:
                closed.append(Closed(request, trace))
        return closed

    def _count(self) -> None:
        """Carry assembly's own counts into the catalogue."""
        counts = self._assembler.counts
        now = Counter({f"closed_{why}": count for why, count in counts.closed.items()})
        now.update({name: getattr(counts, name) for name in _ASSEMBLY_COUNTS})
        for event, count in (now - self._counted).items():
            self._metrics.assembly.labels(event).inc(count)
        self._counted = now
        self._metrics.open_spans.set(counts.open_spans)
        self._metrics.open_traces.set(counts.open_traces)


class Judging:
    """The second half: `RagTrace` to findings, rates and gauges. One owner."""

    def __init__(
        self, scorer: Scorer, observer: Observer, store: Store, metrics: Metrics, *, retention_s: float
    ) -> None:
        self._retention_s = retention_s
        self._scorer = scorer
        self._observer = observer
        self._store = store
        self._metrics = metrics

    def judge(self, settled: Sequence[Settled], now: float) -> None:
        """Judge and store; then, and only then, let go of the messages behind the requests."""
        closed = [item for item in settled if isinstance(item, Closed)]
        fresh = [item for item in closed if self._is_new(item.trace)]
        self._observer.observe(self._scorer.judge([item.trace for item in fresh]), now)
        for item in fresh:
            self._metrics.requests.labels("judged" if item.trace.revision == 0 else "revised").inc()
        self._metrics.requests.labels("already_counted").inc(len(closed) - len(fresh))
        for item in closed:
            item.request.release()
        for late in settled:
            if isinstance(late, LateFeedback):
                changed = self._observer.hear(late)
                self._metrics.late_feedback.labels(str(changed).lower()).inc()
                late.release()

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._observer.tick(now)

    def save(self, now: float) -> None:
        """Persist what findings alone cannot restore, and let go of what retention does not keep."""
        self._observer.save(now)
        self._store.prune(now - self._retention_s)

    def _is_new(self, trace: RagTrace) -> bool:
        known = self._store.closed_revision(trace.id)
        return known is None or trace.revision > known
