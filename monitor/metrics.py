"""The whole metric catalogue. Guardrails, the status page and Prometheus all read this one registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from alerts.signals import Reading, Signal
from collectors.errors import Reason

PREFIX = "groundwatch"
_WHOLE_MESSAGE = frozenset(Reason)
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_NUMBERS = (
    "estimate",
    "lower_bound",
    "upper_bound",
    "evidence",
    "effective_evidence",
    "band_low",
    "band_high",
)


class Metrics:
    """Every family of the catalogue, on one registry (a new one unless given)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry if registry is not None else CollectorRegistry()
        self._ingest()
        self._judging()
        self._signals()
        self._guardrails()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _ingest(self) -> None:
        self.spans = self._counter("spans_received", "Spans accepted from a source.", "source")
        self.rejected = self._counter("spans_rejected", "Spans refused alone, by reason.", "source", "reason")
        self.refused = self._counter(
            "messages_refused", "Messages refused whole, by reason.", "source", "reason"
        )
        self.held_back = self._counter("batches_held_back", "Batches answered with back-pressure.", "source")
        self.dead_letters = self._counter(
            "dead_letters", "Messages put aside whole, by reason.", "source", "reason"
        )
        self.assembly = self._counter("assembly_events", "What assembly did, by kind.", "event")
        self.open_spans = self._gauge(
            "open_spans", "Spans held, those of closed requests that may be revised included."
        )
        self.open_traces = self._gauge(
            "open_traces", "Traces held, closed ones that may be revised included."
        )
        self.requests = self._counter("requests_closed", "Requests closed, by what became of them.", "result")
        self.late_feedback = self._counter(
            "late_feedback",
            "Feedback on requests whose spans are gone, by whether it changed a finding.",
            "changed",
        )
        self.traces = self._counter(
            "traces",
            "Traces by instrumentation and how much of them came.",
            "instrumentation",
            "completeness",
        )
        self.flags = self._counter(
            "trace_flags", "Traces by flag and instrumentation.", "flag", "instrumentation"
        )
        self.kafka_lag = self._gauge(
            "kafka_lag", "Records not yet finished here, read or not.", "topic", "partition"
        )
        self.kafka_committed = self._gauge(
            "kafka_committed_offset", "The next record to read after a restart.", "topic", "partition"
        )
        self.kafka_committed_at = self._gauge(
            "kafka_last_commit_timestamp_seconds",
            "When offsets of the partition last moved.",
            "topic",
            "partition",
        )
        self.kafka_commit_failures = self._counter(
            "kafka_commit_failures", "Commits that did not go through.", "reason"
        )
        self.kafka_rebalances = self._counter("kafka_rebalanced_partitions", "Partitions moved.", "direction")
        self.kafka_assigned = self._gauge("kafka_assigned_partitions", "Partitions read here now.")
        self.queue_depth = self._gauge("queue_depth", "Items waiting before a stage.", "stage")

    def _judging(self) -> None:
        self.decisions = self._counter(
            "sampler_decisions", "Sampling decisions.", "check", "stratum", "selected"
        )
        self.sampler_faults = self._counter(
            "sampler_faults", "Numbers of a trace not used, by reason.", "reason"
        )
        self.findings = self._counter(
            "findings", "Findings, by outcome and reason.", "check", "scorer", "outcome", "reason"
        )
        self.check_seconds = Histogram(
            f"{PREFIX}_check_duration_seconds",
            "Time a check takes for a micro-batch.",
            ["check"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "The watched service's request durations.",
            ["service"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.heartbeat = self._gauge(
            "judging_last_success_timestamp_seconds", "When the judging stage last finished a round."
        )

    def _signals(self) -> None:
        labels = ("signal", "slice", "scorer")
        texts = {
            "estimate": "The signal's estimate over its rolling window; NaN without evidence.",
            "lower_bound": "Lower end of the signal's confidence interval.",
            "upper_bound": "Upper end of the signal's confidence interval.",
            "evidence": "Units judged in the window.",
            "effective_evidence": "Units judged, after weighting (Kish).",
            "band_low": "Lower end of the signal's own control band.",
            "band_high": "Upper end of the signal's own control band.",
        }
        self.signal = {name: self._gauge(f"signal_{name}", texts[name], *labels) for name in _NUMBERS}
        self.not_scored = self._gauge(
            "signal_not_scored",
            "Units in the window that do not enter the rate, by outcome.",
            *labels,
            "outcome",
        )
        self.windows_evicted = self._gauge(
            "window_evicted_entries",
            "Entries that the cap, not their age, took from a window.",
            "signal",
            "slice",
        )
        self.unusable = self._counter("findings_unusable", "Findings that no window may hold.", "check")
        chart = ("rate", "slice")
        charted = {
            "statistic": "The control chart's statistic.",
            "limit": "Where the control chart alarms; NaN while the baseline is collected.",
            "baseline": "The rate expected at the last look; NaN before one.",
            "baseline_seconds": "Whole days collected for the baseline, in seconds; 0 once it is learnt.",
        }
        self.rate_chart = {
            name: self._gauge(f"rate_chart_{name}", text, *chart) for name, text in charted.items()
        }
        self.rate_chart_state = self._gauge(
            "rate_chart_state", "1 for the state the control chart is in, else 0.", *chart, "state"
        )
        self.rate_charts_refused = self._counter(
            "rate_charts_refused", "Pairs of rate and slice not charted, because there are too many."
        )
        self.rate_chart_periods_skipped = self._counter(
            "rate_chart_periods_skipped",
            "Hours that no chart has seen, because the sidecar was away for too long.",
        )
        drift = ("detector", "encoder")
        self.drift_p_value = self._gauge(
            "drift_p_value", "p-value of the current window, for display only.", *drift
        )
        self.drift_statistic = self._gauge(
            "drift_statistic",
            "Unbiased MMD squared of the windows; share of far queries for novelty.",
            *drift,
        )
        self.drift_evidence = self._gauge(
            "drift_evidence_log10",
            "log10 of the units in which the sequential statistic is so high once without a shift.",
            *drift,
        )
        self.drift_threshold = self._gauge("drift_threshold_log10", "Evidence that alarms.", *drift)
        self.drift_run_length = self._gauge(
            "drift_run_length_units",
            "Units to a false alarm: as budgeted, and what one reference in ten of this size does not reach.",
            *drift,
            "which",
        )
        self.drift_standing = self._gauge(
            "drift_standing", "1 for how far the detector's alarm is, else 0.", *drift, "standing"
        )
        self.drift_reference_needed = self._gauge(
            "drift_reference_needed_units",
            "Units that the reference still has to reach; 0 once it suffices.",
            *drift,
        )
        self.drift_rows = self._gauge("drift_window_rows", "Rows in a window.", *drift, "window")
        self.drift_encoders_forgotten = self._counter(
            "drift_encoders_forgotten", "Encoder versions whose windows made room for newer ones."
        )
        self.drift_units_closed_early = self._gauge(
            "drift_units_closed_early", "Sessions closed before they were idle, because too many were open."
        )
        self.drift_left_out = self._gauge(
            "drift_queries_left_out", "Queries of large units that stand behind others of the same unit."
        )
        self.drift_skipped = self._counter(
            "drift_queries_skipped", "Queries not compared, by reason.", "reason"
        )

        probed = {
            "mean_cosine": "Mean cosine of the probes' vectors to those pinned; 1 where nothing changed.",
            "min_cosine": "Least cosine of a probe's vector to the one pinned.",
            "overlap": "Mean share of a probe's nearest 10 that it still has.",
            "gram_change": "Root mean square change of the probes' inner products; 0 for a rotated basis.",
        }
        self.encoder_probes = {
            name: self._gauge(f"encoder_probe_{name}", text, "encoder") for name, text in probed.items()
        }

    def _guardrails(self) -> None:
        labels = ("guardrail", "slice")
        self.guardrail_state = self._gauge(
            "guardrail_state", "1 for the state the guardrail is in, else 0.", *labels, "state"
        )
        self.guardrail_objective = self._gauge("guardrail_objective", "What must hold.", "guardrail")
        self.transitions = self._counter("guardrail_transitions", "State changes.", *labels, "state")
        self.notifications = self._counter(
            "notifications", "Alert deliveries, by sink, result and reason.", "sink", "result", "reason"
        )
        self.build = self._gauge("build_info", "The running version.", "version")

    def publish(self, signal: Signal, slice_name: str, scorer: str, numbers: Mapping[str, float]) -> None:
        """Set the signal's numbers (keys of the `groundwatch_signal_*` families) on one slice."""
        for name, value in numbers.items():
            self.signal[name].labels(signal.name, slice_name, scorer).set(value)

    def readings(self) -> dict[tuple[str, str], Reading]:
        """What the registry says of every published signal and slice, in one pass over it."""
        numbers: dict[tuple[str, str], dict[str, float]] = {}
        for name, gauge in self.signal.items():
            for family in gauge.collect():
                for sample in family.samples:
                    key = (sample.labels["signal"], sample.labels["slice"])
                    numbers.setdefault(key, {})[name] = sample.value
        return {key: _reading(*key, found) for key, found in numbers.items()}

    def count_of(self, counter: Counter, **labels: str) -> int:
        """The sum of a counter's samples that carry these labels."""
        return int(
            sum(
                sample.value
                for family in counter.collect()
                for sample in family.samples
                if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
            )
        )


def _reading(signal: str, slice_name: str, found: Mapping[str, float]) -> Reading:
    def known(name: str) -> float | None:
        value = found.get(name)
        return (
            value if value is not None and isfinite(value) else None
        )  # NaN is how a gauge says "no evidence"

    return Reading(
        signal=signal,
        slice=slice_name,
        estimate=known("estimate"),
        lower=known("lower_bound"),
        upper=known("upper_bound"),
        evidence=int(found.get("evidence", 0)),
        effective_evidence=found.get("effective_evidence", 0.0),
        low=known("band_low"),
        high=known("band_high"),
    )


class MeteredCollectors:
    """Counts what the collectors do (`collectors.events.CollectorEvents`) in the catalogue."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def received(self, source: str, spans: int) -> None:
        self._metrics.spans.labels(source).inc(spans)

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        whole = reason in _WHOLE_MESSAGE
        (self._metrics.refused if whole else self._metrics.rejected).labels(source, reason).inc(count)

    def held_back(self, source: str) -> None:
        self._metrics.held_back.labels(source).inc()

    def dead_lettered(self, source: str, reason: str) -> None:
        self._metrics.dead_letters.labels(source, reason).inc()

    def lag(self, topic: str, partition: int, records: int) -> None:
        self._metrics.kafka_lag.labels(topic, partition).set(records)

    def committed(self, topic: str, partition: int, offset: int) -> None:
        self._metrics.kafka_committed.labels(topic, partition).set(offset)
        self._metrics.kafka_committed_at.labels(topic, partition).set_to_current_time()

    def commit_failed(self, reason: str) -> None:
        self._metrics.kafka_commit_failures.labels(reason).inc()

    def rebalanced(self, assigned: int, revoked: int) -> None:
        self._metrics.kafka_rebalances.labels("assigned").inc(assigned)
        self._metrics.kafka_rebalances.labels("revoked").inc(revoked)
        self._metrics.kafka_assigned.inc(assigned - revoked)


Clock = Callable[[], float]
"""Unix seconds."""
