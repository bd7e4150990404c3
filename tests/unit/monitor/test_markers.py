"""Change markers come once a change, and neither from the first version seen nor from a slow replica."""

from __future__ import annotations

from collectors.trace import RagTrace, Versions
from monitor.markers import ChangeWatch


def trace(**versions: str) -> RagTrace:
    return RagTrace(
        id="t:a", trace_id="t", start_time_ns=0, versions=Versions(**versions), slices={"service": "kb"}
    )


def test_the_first_version_is_no_change_and_the_next_is_one_once() -> None:
    watch = ChangeWatch()
    assert watch.put(trace(service="1"), now=0) == []
    [marker] = watch.put(trace(service="2"), now=5)
    assert (marker.kind, marker.service, marker.before, marker.after, marker.time) == (
        "service",
        "kb",
        "1",
        "2",
        5,
    )
    assert watch.put(trace(service="2"), now=6) == []


def test_a_slow_replica_of_the_old_version_is_no_change_back() -> None:
    watch = ChangeWatch()
    for version in ("1", "2", "1", "2"):
        found = watch.put(trace(service=version), now=0)
    assert found == []


def test_a_rollback_is_seen_once_nothing_else_answers_for_a_while() -> None:
    watch = ChangeWatch()
    for version in ("1", "2"):
        watch.put(trace(service=version), now=0)
    found = [m for now in range(30) for m in watch.put(trace(service="1"), now=float(now))]
    assert [(m.before, m.after) for m in found] == [("2", "1")]


def test_a_rollback_after_a_restart_is_seen() -> None:
    first = ChangeWatch()
    markers = [m for v in ("1", "2") for m in first.put(trace(model=v), now=0)]
    restarted = ChangeWatch(markers)
    assert restarted.put(trace(model="2"), now=1) == []
    [back] = restarted.put(trace(model="1"), now=2)
    assert (back.before, back.after) == ("2", "1")
