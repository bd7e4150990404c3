"""Snapshots as the sidecar makes them, to test the status page with: an incident, a quiet day, a fresh start."""

from __future__ import annotations

import math

from monitor.status import AlertRecord, DriftStatus, GuardrailStatus, Marker, Point, Status

NOW = 1_764_540_000.0
_STEP = 5.0
_STEPS = 144
_START = NOW - _STEP * _STEPS
_RELEASE, _FIRED, _RESOLVED = _START + 240, _START + 285, _START + 560


def fresh() -> Status:
    """Right after a start: guardrails, and nothing that they could judge."""
    rows = [
        ("faithfulness", "unfaithful_rate", "Unfaithful answers", "rate", "1", 0.10),
        (
            "filter_exclusion",
            "filter_false_exclusion_rate",
            "Answers removed by the filter",
            "rate",
            "1",
            0.02,
        ),
        ("cost", "cost_per_query_usd", "Cost of a query", "mean", "USD", 0.05),
        ("query_drift", "query_drift", "Query drift", "alarm", "1", None),
    ]
    guardrails = tuple(
        GuardrailStatus(
            guardrail=name, signal=signal, slice="all", title=title, kind=kind, unit=unit, state="no_data",
            since=NOW - 12, objective=objective, estimate=None, lower=None, upper=None, evidence=0,
            effective_evidence=0.0, not_scored={}, reason="", scorer="",
        )
        for name, signal, title, kind, unit, objective in rows
    )  # fmt: skip
    drift = DriftStatus(
        detector="mmd", statistic=None, p_value=None, evidence=None, threshold=3.0, reference_size=0,
        current_size=0, alarm=False,
    )  # fmt: skip
    return Status(
        version="0.1.0", started_at=NOW - 12, now=NOW, healthy=True, problem="", guardrails=guardrails,
        drift=(drift,), alerts=(), markers=(), counts={},
    )  # fmt: skip


def quiet() -> Status:
    """Everything holds, after the incident has resolved."""
    return _scene(firing=False)


def incident() -> Status:
    """A release hard-coded a locale in the filter: exclusion fires on all traffic and on one slice."""
    return _scene(firing=True)


def _scene(*, firing: bool) -> Status:
    end = None if firing else _RESOLVED
    fault = (_RELEASE, NOW + 1 if firing else _RESOLVED - 60)
    rows = [
        _rate("faithfulness", "unfaithful_rate", "Unfaithful answers", 0.10, _series(0.043, 0.02), 214,
              not_scored={"not_applicable": 31, "not_scorable": 4}, scorer="lexical-1"),
        _rate("latency", "slow_request_rate", "p95 latency over its objective", 0.05,
              _series(0.012, 0.006), 1893),
        _rate("filter_exclusion", "filter_false_exclusion_rate", "Answers removed by the filter", 0.02,
              _series(0.003, 0.004, fault, 0.15), 362, not_scored={"not_scorable": 1531},
              scorer="catalogue-1", firing=firing, reason="locale = en-US" if firing else ""),
        _rate("filter_exclusion", "filter_false_exclusion_rate", "Answers removed by the filter", 0.02,
              _series(0.003, 0.01, fault, 0.61), 71, slice_name="locale=de", scorer="catalogue-1",
              firing=firing, reason="locale = en-US" if firing else ""),
        _rate("filter_exclusion", "filter_false_exclusion_rate", "Answers removed by the filter", 0.02,
              _series(0.002, 0.004), 240, slice_name="locale=en-US", scorer="catalogue-1"),
        _rate("regeneration", "regeneration_rate", "Answers asked for again", None,
              _series(0.06, 0.03, gap=(40, 66)), 1893),
        _rate("cost", "cost_per_query_usd", "Cost of a query", 0.05,
              _series(0.0123, 0.0008), 1893, kind="mean", unit="USD"),
        _alarm(),
    ]  # fmt: skip
    alerts = [
        AlertRecord(
            guardrail="filter_exclusion", slice=slice_name, severity="critical", fired_at=_FIRED + late,
            resolved_at=end,
            summary=f"filter_exclusion: at least {low} % of queries lost every known answer; locale = en-US",
        )
        for slice_name, low, late in (("all", 12.1, 0), ("locale=de", 49.6, 10))
    ]  # fmt: skip
    markers = (
        Marker(time=_START + 62, kind="index", service="handbook-rag", before=None, after="2025-11-29"),
        Marker(time=_RELEASE, kind="service", service="handbook-rag", before="1.4.0", after="1.5.0"),
        Marker(time=_RELEASE + 4, kind="prompt", service="handbook-rag", before="p7", after="p8"),
    )
    counts = {"spans_received": 18934, "requests_closed": 1893, "requests_sampled": 412, "dead_letters": 0,
              "shed": 0, "queue_depth": 3}  # fmt: skip
    return Status(
        version="0.1.0", started_at=_START - 20, now=NOW, healthy=True, problem="", guardrails=tuple(rows),
        drift=(_drift(),), alerts=tuple(alerts), markers=markers, counts=counts,
    )  # fmt: skip


def _series(
    base: float, wobble: float, fault: tuple[float, float] = (0.0, 0.0), peak: float = 0.0,
    gap: tuple[int, int] = (0, 0),
) -> tuple[Point, ...]:  # fmt: skip
    points = []
    level = base
    for index in range(8, _STEPS + 1):
        time = _START + index * _STEP
        level += 0.13 * ((peak if fault[0] <= time < fault[1] else base) - level)
        estimate = max(0.0, level + wobble * math.sin(index / 5) * math.cos(index / 11))
        half = wobble * (0.7 + 9.0 / index) + 0.2 * estimate
        if gap[0] <= index < gap[1]:
            points.append(Point(time=time))
            continue
        lower, upper = max(0.0, estimate - half), estimate + half
        points.append(Point(time=time, estimate=estimate, lower=lower, upper=upper))
    return tuple(points)


def _rate(
    name: str, signal: str, title: str, objective: float | None, history: tuple[Point, ...], evidence: int, *,
    slice_name: str = "all", firing: bool = False, not_scored: dict[str, int] | None = None, reason: str = "",
    scorer: str = "", kind: str = "rate", unit: str = "1",
) -> GuardrailStatus:  # fmt: skip
    last = history[-1]
    return GuardrailStatus(
        guardrail=name, signal=signal, slice=slice_name, title=title, kind=kind, unit=unit,
        state="firing" if firing else "ok", since=_FIRED if firing else _START + 40, objective=objective,
        estimate=last.estimate, lower=last.lower, upper=last.upper, evidence=evidence,
        effective_evidence=0.937 * evidence, not_scored=not_scored or {}, reason=reason, scorer=scorer,
        history=history,
    )  # fmt: skip


def _alarm() -> GuardrailStatus:
    history = tuple(Point(time=_START + index * _STEP, estimate=0.0) for index in range(30, _STEPS + 1))
    return GuardrailStatus(
        guardrail="query_drift", signal="query_drift", slice="all", title="Query drift", kind="alarm",
        unit="1", state="ok", since=_START + 150, objective=None, estimate=0.0, lower=None, upper=None, evidence=96,
        effective_evidence=96.0, not_scored={}, reason="", scorer="mmd", history=history,
    )  # fmt: skip


def _drift() -> DriftStatus:
    history = tuple(
        Point(time=_START + index * _STEP, estimate=0.4 * math.sin(index / 9) + 0.011 * max(0, index - 70))
        for index in range(30, _STEPS + 1)
    )
    return DriftStatus(
        detector="mmd", statistic=0.00231, p_value=0.214, evidence=history[-1].estimate, threshold=3.0,
        reference_size=240, current_size=96, alarm=False, history=history,
    )  # fmt: skip
