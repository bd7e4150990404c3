"""Units close by idleness, by size and by block, and lose no query."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from detectors.units import UnitSettings, UnitTracker


def test_a_session_closes_when_idle_and_a_later_query_begins_a_new_one() -> None:
    tracker = UnitTracker[float](UnitSettings(session_idle_s=10))
    tracker.add("s", 1.0, now=0)
    tracker.add("s", 2.0, now=12)  # the first unit is over, though nobody asked meanwhile
    assert tracker.closed(now=12) == [[1.0]]
    assert tracker.closed(now=22) == [[2.0]]


def test_a_session_closes_at_its_largest_size() -> None:
    tracker = UnitTracker[float](UnitSettings(session_max_queries=2))
    for value in range(5):
        tracker.add("s", float(value), now=0)
    assert [len(unit) for unit in tracker.closed(now=0)] == [2, 2]


def test_queries_without_a_session_form_blocks_of_time() -> None:
    tracker = UnitTracker[float](UnitSettings(block_s=60))
    for now in (0, 30, 59, 61, 100):
        tracker.add(None, float(now), now=now)
    assert [len(unit) for unit in tracker.closed(now=130)] == [3, 2]


def test_a_block_closes_at_its_largest_size() -> None:
    tracker = UnitTracker[float](UnitSettings(block_max_queries=3))
    for value in range(7):
        tracker.add(None, float(value), now=0)
    assert [len(unit) for unit in tracker.closed(now=1)] == [3, 3]


def test_of_a_large_unit_queries_spread_over_it_are_kept_and_the_others_counted() -> None:
    tracker = UnitTracker[float](UnitSettings(unit_queries=4, block_max_queries=10))
    for value in range(23):
        tracker.add(None, value, now=0)
    assert tracker.closed(now=1000) == [[0, 2, 5, 7], [10, 12, 15, 17], [20, 21, 22]]
    assert tracker.left_out == 12


def test_a_busy_block_does_not_hide_idle_sessions() -> None:
    tracker = UnitTracker[float](UnitSettings(session_idle_s=10, block_s=1000))
    tracker.add(None, 0.0, now=0)
    tracker.add("s", 1.0, now=1)
    assert tracker.closed(now=20) == [[1.0]]


def test_too_many_open_sessions_close_the_longest_idle_early_and_count() -> None:
    tracker = UnitTracker[float](UnitSettings(max_open=2))
    for index in range(4):
        tracker.add(f"s{index}", float(index), now=index)
    assert tracker.closed(now=4) == [[0.0], [1.0]]
    assert tracker.closed_early == 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.floats(0, 50, allow_nan=False)),
        min_size=1,
        max_size=60,
    )
)
def test_every_query_is_in_exactly_one_unit(steps: list[tuple[str | None, float]]) -> None:
    tracker = UnitTracker[float](UnitSettings(session_idle_s=20, block_s=30, session_max_queries=4))
    now, closed = 0.0, []
    for index, (session, wait) in enumerate(steps):
        now += wait
        tracker.add(session, float(index), now)
        closed += tracker.closed(now)
    closed += tracker.closed(now + 1000)
    assert sorted(query for unit in closed for query in unit) == [float(i) for i in range(len(steps))]
