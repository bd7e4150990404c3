"""One snapshot of everything for people: the status page, the API and the demo's terminal."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from alerts.guardrail import Guardrail
from alerts.signals import BY_NAME, Reading
from alerts.spec import GuardrailSpec
from monitor.drift import DriftWatch
from monitor.metrics import Clock, Metrics
from monitor.observing import Observer
from monitor.status import GuardrailStatus, Point, Status
from monitor.store import Store
from monitor.watching import Watch

RELEASE = version("groundwatch")
_RECENT = 50


class Overview:
    """Reads the watch, the drift windows, the store and the counters; changes nothing. Safe from any thread."""

    def __init__(
        self,
        watch: Watch,
        observer: Observer,
        drift: DriftWatch,
        store: Store,
        metrics: Metrics,
        scorers: dict[str, str],
        clock: Clock,
        problem: Callable[[], str],
    ) -> None:
        self._watch = watch
        self._observer = observer
        self._drift = drift
        self._store = store
        self._metrics = metrics
        self._scorers = scorers
        self._clock = clock
        self._problem = problem
        self._started_at = clock()

    def status(self) -> Status:
        problem = self._problem()
        return Status(
            version=RELEASE,
            started_at=self._started_at,
            now=self._clock(),
            healthy=not problem,
            problem=problem,
            guardrails=tuple(self._guardrail(*row) for row in self._watch.snapshot()),
            drift=self._drift.status(),
            alerts=tuple(self._store.alerts(_RECENT)),
            markers=tuple(self._store.markers(_RECENT)),
            counts=self.counts(),
        )

    def counts(self) -> dict[str, int]:
        """The pipeline's counters: what came, what became of it, what was put aside."""
        metrics, count = self._metrics, self._metrics.count_of
        return {
            "spans received": count(metrics.spans),
            "spans rejected": count(metrics.rejected),
            "messages refused": count(metrics.refused),
            "messages dead-lettered": count(metrics.dead_letters),
            "batches held back": count(metrics.held_back),
            "requests judged": count(metrics.requests, result="judged"),
            "requests revised": count(metrics.requests, result="revised"),
            "requests already counted": count(metrics.requests, result="already_counted"),
            "groups without a RAG request": count(metrics.requests, result="no_rag_request"),
            "requests left uncommitted": count(metrics.requests, result="left_uncommitted"),
            "findings scored": count(metrics.findings, outcome="scored"),
            "findings with an error": count(metrics.findings, outcome="error"),
            "notifications sent": count(metrics.notifications, result="sent"),
            "notifications failed": count(metrics.notifications, result="failed"),
        }

    def _guardrail(
        self,
        spec: GuardrailSpec,
        slice_name: str,
        guardrail: Guardrail,
        reading: Reading,
        history: tuple[Point, ...],
    ) -> GuardrailStatus:
        signal = BY_NAME[spec.signal]
        objective = spec.objective if spec.objective is not None else reading.high
        return GuardrailStatus(
            guardrail=spec.name,
            signal=spec.signal,
            slice=slice_name,
            title=spec.title,
            kind=signal.kind,
            unit=signal.unit,
            state=guardrail.condition,
            since=guardrail.memory.since or self._started_at,
            objective=objective,
            estimate=reading.estimate,
            lower=reading.lower,
            upper=reading.upper,
            evidence=reading.evidence,
            effective_evidence=reading.effective_evidence,
            not_scored=self._observer.not_scored(spec.signal, slice_name),
            reason=reading.reason,
            scorer=self._scorers.get(signal.check, "mmd"),
            history=history,
        )
