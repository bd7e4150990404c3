"""Offsets are committable only below the oldest unfinished record, whatever the order of finishing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from collectors.watermark import Watermark


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    start=st.integers(0, 1000),
    data=st.data(),
)
def test_only_what_lies_below_the_oldest_unfinished_is_committable(
    gaps: list[int], start: int, data: st.DataObject
) -> None:
    watermark = Watermark[int]()
    offsets = [start + sum(gaps[:count]) for count in range(len(gaps))]
    finishes = {offset: watermark.track(0, offset) for offset in offsets}
    open_offsets = set(offsets)
    committed = offsets[0]
    for offset in data.draw(st.permutations(offsets)):
        finishes[offset]()
        open_offsets.remove(offset)
        expected = min(open_offsets, default=offsets[-1] + 1)
        assert watermark.committable() == ({} if expected == committed else {0: expected})
        assert watermark.unfinished(0) == len(open_offsets)
        assert watermark.position(0) == expected
        if data.draw(st.booleans()):
            watermark.mark_committed(watermark.committable())
            committed = expected
            assert watermark.committable() == {}
    assert watermark.position(0) == offsets[-1] + 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=40))
def test_partitions_do_not_know_each_other(steps: list[tuple[str, bool]]) -> None:
    watermark = Watermark[str]()
    seen = {"a": 0, "b": 0}
    stuck: dict[str, int] = {}
    for partition, finished in steps:
        finish = watermark.track(partition, seen[partition])
        if finished:
            finish()
        else:
            stuck.setdefault(partition, seen[partition])
        seen[partition] += 1
    for partition, count in seen.items():
        expected = stuck.get(partition, count)
        assert watermark.position(partition) == (expected if count else None)
        assert watermark.committable().get(partition, 0) == expected


def test_finishes_of_a_forgotten_partition_mean_nothing_to_its_next_assignment() -> None:
    watermark = Watermark[str]()
    old = watermark.track("p", 10)
    watermark.forget(["p", "never seen"])
    assert watermark.position("p") is None
    new = watermark.track("p", 5)
    old()
    assert watermark.committable() == {}
    new()
    assert watermark.committable() == {"p": 6}


def test_a_log_that_starts_again_starts_a_new_count() -> None:
    watermark = Watermark[str]()
    watermark.track("p", 500)()
    old = watermark.track("p", 501)
    first = watermark.track("p", 0)
    old()
    assert watermark.committable() == {}
    first()
    assert watermark.committable() == {"p": 1}


def test_many_threads_may_finish_at_once() -> None:
    watermark = Watermark[int]()
    finishes = [watermark.track(0, offset) for offset in range(4_000)]

    def finish(some: list[Callable[[], None]]) -> None:
        for one in some:
            one()

    threads = [threading.Thread(target=finish, args=(finishes[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watermark.committable() == {0: 4_000}
    assert watermark.unfinished(0) == 0
