"""Rates by hour out of the store: what is charted, what alarms, what survives a restart, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from alerts.signals import ALL, RATE_DRIFT
from detectors.control_chart import ChartState, ControlChartSettings
from detectors.finding import Finding, Outcome
from monitor.metrics import Metrics
from monitor.rate_charts import RateCharts, RateChartSettings
from monitor.store import ClosedRequest, Store, StoredFinding

CHART = ControlChartSettings(baseline_days=7, replays=50, minimum_units=20)
HOUR = 3600.0


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def live(store: Store, hour: int, bad: int, total: int, intent: str = "billing") -> None:
    """An hour of regeneration findings."""
    findings = [
        StoredFinding(
            Finding(
                f"{hour}-{intent}-{i}",
                0,
                "regeneration",
                Outcome.SCORED,
                float(i < bad),
                slices={"intent": intent},
            ),
            "feedback-1",
            hour * HOUR + 1 + i / 10,
        )
        for i in range(total)
    ]
    closed = [ClosedRequest(one.finding.trace_id, 0) for one in findings]
    store.record(closed, findings, at=hour * HOUR + 1)


def run(charts: RateCharts, store: Store, hours: range, rate: float, seed: int = 0) -> None:
    rng = np.random.default_rng([seed, hours.start])
    for hour in hours:
        live(store, hour, int(rng.binomial(40, rate)), 40)
        charts.tick((hour + 2) * HOUR + 1)


def made(store: Store, metrics: Metrics, slices: tuple[str, ...] = ("intent",), most: int = 8) -> RateCharts:
    return RateCharts(RateChartSettings(chart=CHART, max_charts=most), slices, store, metrics)


def test_a_rise_alarms_on_its_slice_and_says_from_what_to_what(store: Store) -> None:
    metrics = Metrics()
    charts = made(store, metrics)
    charts.tick(-1.0)
    run(charts, store, range(7 * 24), 0.1)
    calm = metrics.readings()[RATE_DRIFT.name, "intent=billing"]
    assert calm.estimate == 0.0
    run(charts, store, range(7 * 24, 9 * 24), 0.3)
    assert metrics.readings()[RATE_DRIFT.name, "intent=billing"].estimate == 1.0
    assert charts.reason("intent=billing").startswith("rate = regeneration; usual = 0.1")
    assert charts.readings()["thumbs_down", ALL].state is ChartState.COLLECTING


def test_a_restart_goes_on_where_it_was(store: Store) -> None:
    one = made(store, Metrics())
    one.tick(-1.0)
    run(one, store, range(7 * 24 + 5), 0.1)
    other = made(store, Metrics())
    assert other.readings() == one.readings()
    live(store, 7 * 24 + 5, 12, 40)
    for charts in (one, other):
        charts.tick((7 * 24 + 7) * HOUR + 1)
    assert other.readings() == one.readings()


def test_slices_beyond_the_cap_are_counted(store: Store) -> None:
    metrics = Metrics()
    charts = made(store, metrics, most=5)
    charts.tick(-1.0)
    for hour in range(2):
        for intent in ("a", "b", "c"):
            live(store, hour, 1, 5, intent)
        charts.tick((hour + 2) * HOUR + 1)
    assert len(charts.readings()) == 5
    assert metrics.count_of(metrics.rate_charts_refused) == 2


def test_nothing_is_known_while_the_baseline_is_collected(store: Store) -> None:
    metrics = Metrics()
    charts = made(store, metrics)
    charts.tick(-1.0)
    run(charts, store, range(48), 0.1)
    reading = metrics.readings()[RATE_DRIFT.name, ALL]
    assert reading.estimate is None
    assert reading.evidence > 0
    assert charts.readings()["regeneration", ALL].days_collected == 2


def test_other_settings_learn_anew_and_say_so(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    charts = made(store, Metrics())
    charts.tick(-1.0)
    run(charts, store, range(48), 0.1)
    again = RateCharts(
        RateChartSettings(chart=CHART.model_copy(update={"baseline_days": 8}), max_charts=8),
        ("intent",),
        store,
        Metrics(),
    )
    assert again.readings()["regeneration", ALL].days_collected == 0
    assert "learning anew: its settings changed" in caplog.text


def test_hours_that_are_too_many_to_catch_up_are_counted(store: Store) -> None:
    metrics = Metrics()
    charts = made(store, metrics)
    charts.tick(0.0)
    assert metrics.count_of(metrics.rate_chart_periods_skipped) == 0
    charts.tick(1000 * HOUR)
    assert metrics.count_of(metrics.rate_chart_periods_skipped) == 1000
