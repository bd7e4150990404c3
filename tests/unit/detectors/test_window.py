"""The rolling window: time, keys, outcomes, and what no estimate may hold."""

from __future__ import annotations

from math import inf, nan

import pytest

from detectors.estimate import NoEvidence, UnusableValue, hajek_rate
from detectors.window import RollingWindow


def test_only_the_span_counts_and_its_far_end_is_open() -> None:
    window = RollingWindow(span_s=10.0)
    for second in range(20):
        window.put(f"t{second}", float(second), float(second < 10), 1.0, "scored")
    assert window.expire(now=19.0) == 10
    assert window.rate().n == 10
    assert window.rate().value == 0.0


def test_a_revision_supersedes() -> None:
    window = RollingWindow(span_s=10.0)
    window.put("a", 0.0, 1.0, 1.0, "scored")
    window.put("b", 0.0, 0.0, 1.0, "scored")
    window.put("a", 5.0, 0.0, 4.0, "scored")
    assert window.rate() == hajek_rate([0.0, 0.0], [1.0, 4.0])
    window.put("a", 6.0, None, 1.0, "not_scorable")
    assert (window.rate().n, window.not_scored()) == (1, {"not_scorable": 1})
    window.put("a", 7.0, 1.0, 1.0, "scored")
    assert (window.rate().value, window.not_scored()) == (0.5, {})


def test_an_entry_moved_by_its_revision_does_not_expire_with_the_earlier_one() -> None:
    window = RollingWindow(span_s=10.0)
    window.put("a", 0.0, 1.0, 1.0, "scored")
    window.put("a", 8.0, 1.0, 1.0, "scored")
    assert window.expire(now=12.0) == 0
    assert window.rate().n == 1
    assert window.expire(now=18.0) == 1


def test_times_need_no_order_and_the_clock_may_go_back() -> None:
    window = RollingWindow(span_s=10.0)
    window.put("late", 9.0, 1.0, 1.0, "scored")
    window.put("early", 1.0, 0.0, 1.0, "scored")
    assert window.expire(now=12.0) == 1
    assert window.expire(now=2.0) == 0
    assert window.rate().value == 1.0


def test_without_scored_entries_there_is_no_evidence() -> None:
    window = RollingWindow(span_s=10.0)
    window.put("a", 0.0, None, 1.0, "not_applicable")
    window.put("b", 0.0, None, 1.0, "error")
    window.put("c", 0.0, None, 1.0, "error")
    with pytest.raises(NoEvidence):
        window.rate()
    with pytest.raises(NoEvidence):
        window.mean()
    assert window.not_scored() == {"not_applicable": 1, "error": 2}
    assert window.expire(now=10.0) == 3
    assert window.not_scored() == {}


def test_the_bound_evicts_the_oldest_and_counts_it() -> None:
    window = RollingWindow(span_s=1000.0, max_entries=3)
    for second in range(5):
        window.put(f"t{second}", float(second), float(second), 1.0, "scored")
    assert (len(window), window.evicted) == (3, 2)
    assert window.mean().value == 3.0


def test_the_expiry_queue_stays_bounded_under_revisions() -> None:
    window = RollingWindow(span_s=1000.0)
    for second in range(10_000):
        window.put("same", float(second), 1.0, 1.0, "scored")
    assert len(window._oldest) < 32
    assert window.rate().n == 1


@pytest.mark.parametrize(
    ("time", "value", "weight", "outcome"),
    [
        (0.0, nan, 1.0, "scored"),
        (0.0, inf, 1.0, "scored"),
        (0.0, 1.0, 0.0, "scored"),
        (nan, 1.0, 1.0, "scored"),
        (inf, 1.0, 1.0, "scored"),
        (0.0, None, 1.0, "scored"),
        (0.0, 1.0, 1.0, "error"),
    ],
)
def test_what_no_estimate_may_hold_leaves_the_window_as_it_was(
    time: float, value: float | None, weight: float, outcome: str
) -> None:
    window = RollingWindow(span_s=10.0)
    window.put("a", 0.0, 1.0, 1.0, "scored")
    with pytest.raises(UnusableValue):
        window.put("a", time, value, weight, outcome)
    assert (len(window), window.rate().value, window.not_scored()) == (1, 1.0, {})


@pytest.mark.parametrize(("span", "entries"), [(0.0, 5), (-1.0, 5), (nan, 5), (1.0, 0)])
def test_a_window_without_room_is_refused(span: float, entries: int) -> None:
    with pytest.raises(ValueError, match="window"):
        RollingWindow(span_s=span, max_entries=entries)
