"""The demo's sessions through the service's drift detectors with the demo's own settings, in simulated time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from detectors.drift_ensemble import DriftEnsemble
from detectors.embedding import HashedNgramEncoder
from monitor.demo.analysis import significant
from monitor.demo.command import demo_config
from monitor.demo.content import write_catalogue, write_golden
from monitor.demo.scenario import REQUESTS_PER_SECOND, Schedule, demo_settings
from monitor.demo.traffic import Users

DURATION_S = 90.0
UNCOVERED = "uncovered_topic"


@cache
def embedded(query: str) -> npt.NDArray[np.float32]:
    row: npt.NDArray[np.float32] = HashedNgramEncoder().encode([significant(query)])[0]
    return row


def alarms(seed: int, folder: Path) -> list[tuple[float, bool]]:
    """When the alarm went on and off, in seconds of the demo."""
    write_catalogue(folder / "catalogue.jsonl")
    write_golden(folder / "golden.jsonl")
    config = demo_config(
        demo_settings(DURATION_S), folder / "catalogue.jsonl", folder / "golden.jsonl", port=0
    )
    schedule, users = Schedule.of(DURATION_S), Users(seed, REQUESTS_PER_SECOND)
    ensemble, now, changes = DriftEnsemble(config.query_drift), 0.0, [(0.0, False)]
    while now < DURATION_S:
        now = users.next_arrival(now)
        asks = users.session(now, schedule.at(now).act.uncovered_share)
        ensemble.push(np.stack([embedded(ask.query) for ask in asks]), now)
        if ensemble.alarm != changes[-1][1]:
            changes.append((now, ensemble.alarm))
    return changes[1:]


def cleared(seed: int, folder: Path) -> bool:
    """Whether the one alarm, on within its act's first half, went off before the end."""
    act = next(one for one in Schedule.of(DURATION_S).acts if one.act.name == UNCOVERED)
    (on, is_on), *later = alarms(seed, folder)
    assert is_on
    assert act.start_s < on < (act.start_s + act.end_s) / 2
    assert all(act.end_s < off for off, _ in later)
    assert len(later) <= 1
    return len(later) == 1


def test_the_uncovered_topic_alarms_in_its_act_and_nothing_else_does(tmp_path: Path) -> None:
    assert cleared(1, tmp_path)


@pytest.mark.long
def test_fifty_runs_alarm_in_that_act_alone(tmp_path: Path) -> None:
    """A run in some twenty-five is still coming down when it ends."""
    assert sum(cleared(seed, tmp_path) for seed in range(2, 52)) >= 45
