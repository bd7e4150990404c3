"""The ensemble's reference, its budget and its one alarm, from the first unit on."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.drift_ensemble import DriftEnsemble, Standing
from detectors.drift_settings import QueryDriftSettings
from detectors.false_alarm_budget import FalseAlarmBudget
from detectors.run_length import WORLDS
from detectors.vectors import NonFiniteVectors, WrongDimension
from detectors.verdict import State

Rows = npt.NDArray[Any]

SETTINGS = QueryDriftSettings(
    reference_size=120,
    window_size=20,
    permutations=99,
    smallest_shift=0.3,
    slowdown=5.0,
    budget=FalseAlarmBudget(units_per_day=100.0),
)


def rows(rng: np.random.Generator, count: int, shift: float = 0.0) -> Rows:
    drawn = rng.normal(size=(count, 6)).astype(np.float32)
    drawn[:, 0] += shift
    return drawn


def feed(ensemble: DriftEnsemble, units: Rows, start: float = 0.0, step: float = 60.0) -> float:
    for row in units:
        start += step
        ensemble.push(row[None], start)
    return start


def standings(ensemble: DriftEnsemble) -> list[Standing]:
    return [watched.standing for watched in ensemble.watched()]


def stored(state: State) -> State:
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(value) for name, value in state.items()})
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def test_it_collects_then_measures_then_is_armed() -> None:
    ensemble, rng = DriftEnsemble(SETTINGS), np.random.default_rng(0)
    now = feed(ensemble, rows(rng, 119))
    assert standings(ensemble) == [Standing.COLLECTING] * 2
    assert "119 of 120" in ensemble.watched()[0].note
    now = feed(ensemble, rows(rng, 1), now)
    assert standings(ensemble) == [Standing.MEASURING] * 2
    feed(ensemble, rows(rng, WORLDS), now)
    assert standings(ensemble) == [Standing.ARMED] * 2
    for watched in ensemble.watched():
        assert watched.run_length == 6000.0, "100 a day for 30 days, half of the budget each"
        assert watched.threshold == pytest.approx(np.log10(6000.0))
        assert watched.run_length_one_in_ten is not None
        assert watched.verdict is not None
        assert (watched.reference_size, watched.reference_needed) == (120, 0)


def test_a_novel_topic_is_found_by_novelty_and_its_end_clears_the_alarm() -> None:
    ensemble, rng = DriftEnsemble(SETTINGS), np.random.default_rng(1)
    now = feed(ensemble, rows(rng, 120 + WORLDS))
    assert not ensemble.alarm
    now = feed(ensemble, rows(rng, 30, shift=8.0), now)
    assert ensemble.alarm
    assert ensemble.novelty.alarm.alarm
    feed(ensemble, rows(rng, 400), now)
    assert not ensemble.alarm


def test_a_reference_too_small_shows_but_does_not_alarm_and_grows_to_what_it_needs() -> None:
    strict = SETTINGS.model_copy(update={"slowdown": 0.3, "reference_size": 40, "reference_most": 4000})
    ensemble, rng = DriftEnsemble(strict), np.random.default_rng(2)
    now = feed(ensemble, rows(rng, 40 + WORLDS))
    refused = next(watched for watched in ensemble.watched() if watched.standing is Standing.TOO_SMALL)
    assert f"needs about {refused.reference_needed:,} for 1 false alarm in 30 days" in refused.note
    assert refused.verdict is not None
    assert refused.evidence is None
    for _ in range(4000):
        now = feed(ensemble, rows(rng, 1), now)
        if standings(ensemble) == [Standing.ARMED] * 2:
            break
    assert standings(ensemble) == [Standing.ARMED] * 2
    assert ensemble.size > 40


def test_collecting_ends_at_the_most_that_is_kept() -> None:
    strict = SETTINGS.model_copy(update={"slowdown": 0.001, "reference_most": 150})
    ensemble, rng = DriftEnsemble(strict), np.random.default_rng(3)
    feed(ensemble, rows(rng, 500))
    assert ensemble.size == 150
    assert len(ensemble.state()["unit_sizes"]) == 0
    assert Standing.TOO_SMALL in standings(ensemble)


def test_traffic_is_measured_where_none_is_given_and_shared_among_encoders() -> None:
    seen = SETTINGS.model_copy(update={"budget": FalseAlarmBudget()})
    ensemble, rng = DriftEnsemble(seen), np.random.default_rng(4)
    now = feed(ensemble, rows(rng, 120 + WORLDS), step=86.4)
    assert ensemble.mix.alarm.run_length == pytest.approx(1000 * 30 * 2, rel=0.1)
    ensemble.share_among(2)
    assert ensemble.mix.alarm.run_length == pytest.approx(1000 * 30 * 4, rel=0.1)
    feed(ensemble, rows(rng, 400), now, step=8.64)
    assert ensemble.mix.alarm.run_length > 1.5 * 1000 * 30 * 4
    given = DriftEnsemble(SETTINGS)
    feed(given, rows(rng, 121))
    given.share_among(3)
    assert given.mix.alarm.run_length == 6000.0


def test_without_passing_time_nothing_is_armed() -> None:
    ensemble = DriftEnsemble(SETTINGS.model_copy(update={"budget": FalseAlarmBudget()}))
    feed(ensemble, rows(np.random.default_rng(5), 120 + WORLDS), step=0.0)
    assert "no traffic rate" in ensemble.watched()[0].note


def test_a_reference_spans_the_time_asked_for() -> None:
    ensemble = DriftEnsemble(SETTINGS.model_copy(update={"reference_s": 9000.0}))
    rng = np.random.default_rng(6)
    now = feed(ensemble, rows(rng, 150))
    assert not ensemble.fitted
    feed(ensemble, rows(rng, 1), now)
    assert (ensemble.fitted, ensemble.size) == (True, 151)


@pytest.mark.parametrize("after", [30, 125, 120 + WORLDS - 1, 200])
def test_a_restored_ensemble_goes_on_bit_for_bit(after: int) -> None:
    ensemble, rng = DriftEnsemble(SETTINGS), np.random.default_rng(7)
    units = np.stack([rows(rng, 2) for _ in range(after + 80)])
    for i, unit in enumerate(units[:after]):
        ensemble.push(unit, float(i))
    restored = DriftEnsemble.from_state(stored(ensemble.state()))
    assert restored.watched() == ensemble.watched()
    for i, unit in enumerate(units[after:], start=after):
        ensemble.push(unit, float(i))
        restored.push(unit, float(i))
    assert restored.watched() == ensemble.watched()
    first, second = stored(ensemble.state()), stored(restored.state())
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name])


def test_bad_units_are_refused_by_type_and_change_nothing() -> None:
    ensemble, calm, rng = DriftEnsemble(SETTINGS), DriftEnsemble(SETTINGS), np.random.default_rng(8)
    units = rows(rng, 200)
    for i, row in enumerate(units):
        for bad, error in ((np.full((1, 6), np.nan), NonFiniteVectors), (np.ones((1, 7)), WrongDimension)):
            if i in (1, 50, 130, 190):
                with pytest.raises(error):
                    ensemble.push(bad, 60.0 * i)
        ensemble.push(row[None], 60.0 * i)
        calm.push(row[None], 60.0 * i)
    assert ensemble.watched() == calm.watched()


def test_a_reference_of_copies_neither_fails_nor_alarms() -> None:
    ensemble = DriftEnsemble(SETTINGS)
    feed(ensemble, np.ones((300, 6), dtype=np.float32))
    assert not ensemble.alarm
    assert all(watched.standing is not Standing.COLLECTING for watched in ensemble.watched())
