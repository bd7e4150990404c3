"""A stage handles all it accepted, says no when full, and never dies in silence."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from monitor.stage import Stage, Undrained


def no_failure(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name} failed: {error!r}")


def test_everything_accepted_is_handled_before_stop_returns() -> None:
    seen: list[int] = []
    stage: Stage[int] = Stage("t", seen.extend, capacity=1000, max_batch=7, on_failure=no_failure)
    with stage:
        accepted = [i for i in range(500) if stage.offer(i)]
    assert seen == accepted == list(range(500))


def test_a_full_queue_answers_no_and_takes_nothing() -> None:
    gate = threading.Event()
    seen: list[int] = []

    def handle(batch: Sequence[int]) -> None:
        gate.wait(5)
        seen.extend(batch)

    stage: Stage[int] = Stage("t", handle, capacity=2, on_failure=no_failure)
    with stage:
        accepted = [i for i in range(50) if stage.offer(i)]
        assert len(accepted) < 50
        gate.set()
    assert seen == accepted


def test_finish_runs_after_the_last_item_and_ticks_come_while_idle() -> None:
    events: list[object] = []
    ticked = threading.Event()
    stage: Stage[int] = Stage(
        "t",
        events.extend,
        capacity=10,
        on_failure=no_failure,
        tick=ticked.set,
        tick_s=0.01,
        finish=lambda: events.append("finish"),
    )
    with stage:
        assert ticked.wait(5)
        stage.offer(1)
    assert events == [1, "finish"]


def test_an_exception_is_reported_with_the_stage_name() -> None:
    failures: list[tuple[str, BaseException]] = []
    failed = threading.Event()

    def on_failure(name: str, error: BaseException) -> None:
        failures.append((name, error))
        failed.set()

    def handle(batch: Sequence[int]) -> None:
        raise ZeroDivisionError(batch[0])

    stage: Stage[int] = Stage("judging", handle, capacity=10, on_failure=on_failure)
    with stage:
        stage.offer(1)
        assert failed.wait(5)
    assert failures[0][0] == "judging"
    assert isinstance(failures[0][1], ZeroDivisionError)


def test_a_drain_that_overruns_says_what_it_lost() -> None:
    release = threading.Event()
    failures: list[tuple[str, BaseException]] = []
    stage: Stage[int] = Stage(
        "t",
        lambda batch: release.wait(5) and None,
        capacity=100,
        on_failure=lambda *row: failures.append(row),
    )
    stage.start()
    for i in range(20):
        assert stage.offer(i)
    stage.stop(deadline_s=0.1)
    release.set()
    stage.stop(deadline_s=5)
    [(name, error)] = failures
    assert name == "t"
    assert isinstance(error, Undrained)
    assert "1" in str(error)


@pytest.mark.parametrize("calls", [("stop",), ("start", "start", "stop", "stop"), ("stop", "start", "stop")])
def test_start_and_stop_are_harmless_in_any_order(calls: tuple[str, ...]) -> None:
    stage: Stage[int] = Stage("t", lambda batch: None, capacity=1, on_failure=no_failure)
    for call in calls:
        getattr(stage, call)()
    assert stage.offer(1) is False
