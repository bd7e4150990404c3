"""The query drift detector: its reference, its units, and its promise about false alarms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import HashedNgramEncoder
from detectors.kernel import median_gamma
from detectors.mmd import mmd2, permutation_test
from detectors.query_drift import QueryDriftDetector
from detectors.vectors import TooFewRows, ZeroVectors
from detectors.verdict import DriftVerdict

Rows = npt.NDArray[Any]

SMALL = QueryDriftSettings(
    reference_size=150, window_size=40, permutations=199, smallest_shift=0.3, slowdown=4.0
)
RUN_LENGTH = 10_000.0


def topics(seed: int, count: int) -> Rows:
    """Centres of topics on the sphere, shape (count, 24)."""
    centres = np.random.default_rng(seed).normal(size=(count, 24))
    return centres / np.linalg.norm(centres, axis=1, keepdims=True)


def queries(rng: np.random.Generator, centres: Rows, count: int, noise: float = 0.12) -> Rows:
    """Queries about random ones of these topics: unit vectors, shape (count, 24)."""
    drawn = centres[rng.integers(len(centres), size=count)] + rng.normal(0.0, noise, size=(count, 24))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def sessions(
    rng: np.random.Generator, centres: Rows, count: int, mean_length: float, noise: float = 0.12
) -> list[Rows]:
    """Sessions that each ask about one topic, of geometric length."""
    lengths = rng.geometric(1.0 / mean_length, size=count)
    return [queries(rng, centres[[rng.integers(len(centres))]], length, noise) for length in lengths]


def units_until_alarm(detector: QueryDriftDetector, stream: Rows) -> int | None:
    for pushed, row in enumerate(stream, start=1):
        detector.push(row[None])
        if detector.alarm.alarm:
            return pushed
    return None


def compared(settings: QueryDriftSettings, reference: list[Rows], current: list[Rows]) -> DriftVerdict:
    detector = QueryDriftDetector(settings)
    detector.fit(reference)
    for unit in current:
        detector.push(unit)
    verdict = detector.test()
    assert verdict is not None
    return verdict


def test_a_reference_below_a_window_is_refused() -> None:
    with pytest.raises(TooFewRows):
        QueryDriftDetector(SMALL).fit(np.ones((39, 4)))
    with pytest.raises(ValidationError, match="reference_size"):
        QueryDriftSettings(reference_size=30, window_size=40)


def test_nothing_is_compared_before_there_is_a_reference() -> None:
    with pytest.raises(ValueError, match="fit it first"):
        QueryDriftDetector(SMALL).push(np.ones((1, 4)))


def test_the_statistic_is_that_of_units_that_weigh_the_same() -> None:
    rng = np.random.default_rng(2)
    units = [rng.normal(size=(length, 6)).astype(np.float32) for length in rng.integers(1, 9, size=34)]
    settings = QueryDriftSettings(reference_size=24, window_size=10, permutations=99)
    verdict = compared(settings, units[:24], units[24:])
    gamma = median_gamma(np.concatenate(units[:24]))

    def kernel(a: Rows, b: Rows) -> float:
        return float(np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2)).mean())

    values = np.array([[kernel(a, b) for b in units] for a in units])
    np.fill_diagonal(values, 0.0)
    within = values[:24, :24].sum() / (24 * 23) + values[24:, 24:].sum() / (10 * 9)
    assert verdict.statistic == pytest.approx(within - 2 * values[:24, 24:].mean(), abs=1e-7)
    assert mmd2(units[:24], units[24:], gamma) == pytest.approx(verdict.statistic, abs=1e-7)


def test_a_query_of_zeros_is_refused_by_name() -> None:
    detector = QueryDriftDetector(SMALL)
    rows = np.ones((150, 2))
    detector.fit(rows)
    with pytest.raises(ZeroVectors, match="row 1 ") as refusal:
        detector.push(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert refusal.value.reason == "zero_vector"
    rows[149] = 0.0
    with pytest.raises(ZeroVectors, match="row 149 "):
        detector.fit(rows)


def test_windows_by_time_hold_what_came_in_that_time() -> None:
    settings = QueryDriftSettings(reference_size=30, window_size=10, window_s=50.0, permutations=99)
    detector, rng = QueryDriftDetector(settings, RUN_LENGTH), np.random.default_rng(3)
    detector.fit(queries(rng, topics(3, 8), 60))
    sizes, now = [], 0.0
    for i, row in enumerate(queries(rng, topics(3, 8), 340)):
        now += 2.0 if i < 140 else 0.5
        detector.push(row[None], now)
        verdict = detector.test()
        sizes.append(None if verdict is None else verdict.current_size)
    assert sizes[:9] == [None] * 9
    assert sizes[9] == 10
    assert sizes[100] == 26, "50 seconds at one in two, both ends included"
    assert sizes[339] == 101
    restored = QueryDriftDetector.from_state(detector.state())
    assert restored.test() == detector.test()
    for row in queries(rng, topics(99, 1), 60):
        now += 1.0
        detector.push(row[None], now)
        restored.push(row[None], now)
    assert restored.test() == detector.test()


def test_the_level_holds_on_sessions_where_single_rows_fail() -> None:
    """Unshifted sessions of mean length 3: units reject at 5 %, permuted rows at several times that."""
    runs, by_unit, by_row = 120, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        centres = topics(seed, 30)
        before, now = sessions(rng, centres, 80, 3.0), sessions(rng, centres, 40, 3.0)
        settings = QueryDriftSettings(reference_size=80, window_size=40, permutations=199, seed=seed)
        verdict = compared(settings, before, now)
        by_unit += verdict.p_value <= 0.05
        rows = permutation_test(np.concatenate(before), np.concatenate(now), permutations=199, seed=seed)
        by_row += rows.p_value <= 0.05
    assert 1 <= by_unit <= 14, "binomial(120, .05) with probability .996"
    assert by_row > 60


def test_longer_sessions_about_the_same_things_are_no_drift() -> None:
    """From 1.2 to 3 queries a session: plain means become shorter, and that alone would be called drift."""
    runs, by_unit, by_mean = 40, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        centres = topics(seed, 30)
        units = sessions(rng, centres, 150, 1.2, noise=0.3)
        units += sessions(rng, centres, 60, 3.0, noise=0.3)
        settings = QueryDriftSettings(reference_size=150, window_size=60, permutations=199, seed=seed)
        verdict = compared(settings, units[:150], units[150:])
        by_unit += verdict.p_value <= 0.05
        means = np.stack([unit.mean(axis=0) for unit in units])
        by_mean += permutation_test(means[:150], means[150:], permutations=199, seed=seed).p_value <= 0.05
    assert by_unit <= 0.15 * runs
    assert by_mean >= 0.5 * runs


def test_a_new_topic_of_60_percent_alarms_within_150_units() -> None:
    """What comes before is long enough for the run length to be measured."""
    delays = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        known, novel = topics(seed, 20), topics(seed + 1000, 1)
        detector = QueryDriftDetector(SMALL.model_copy(update={"seed": seed}), RUN_LENGTH)
        detector.fit(queries(rng, known, 150))
        assert units_until_alarm(detector, queries(rng, known, 60)) is None
        is_novel = rng.random(200) < 0.6
        stream = np.where(is_novel[:, None], queries(rng, novel, 200), queries(rng, known, 200))
        delays.append(units_until_alarm(detector, stream))
    assert sum(delay is not None and delay <= 150 for delay in delays) >= 5, delays


def test_unshifted_streams_keep_quiet_where_raw_p_values_would_not() -> None:
    """8 streams of 600 units at a run length of 10,000: about half an alarm is allowed, three are unlikely."""
    alarms, raw = 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        known = topics(seed, 20)
        detector = QueryDriftDetector(SMALL.model_copy(update={"seed": seed}), RUN_LENGTH)
        detector.fit(queries(rng, known, 150))
        alarmed = low = False
        for pushed, row in enumerate(queries(rng, known, 600), start=1):
            detector.push(row[None])
            alarmed |= detector.alarm.alarm
            if pushed % 40 == 0:
                verdict = detector.test()
                assert verdict is not None
                low |= verdict.p_value <= 0.05
        alarms += alarmed
        raw += low
    assert alarms <= 2
    assert raw >= 2, "raw p-values would have alarmed"


def real_sessions(rng: np.random.Generator, pools: list[Rows], count: int, mean_length: float) -> list[Rows]:
    """Sessions of geometric length, each about one intent."""
    lengths = np.minimum(rng.geometric(1.0 / mean_length, size=count), 50)
    drawn = rng.integers(len(pools), size=count)
    return [pools[i][rng.integers(len(pools[i]), size=n)] for i, n in zip(drawn, lengths, strict=True)]


@pytest.mark.long
@pytest.mark.part("shared")
@pytest.mark.parametrize("mean_length", [1.0, 1.5, 2.0, 3.0, 8.0])
def test_type_one_error_on_session_traffic_is_3_to_7_percent(shared: Path, mean_length: float) -> None:
    """CLINC150, one intent a session, 400 runs; the standard error is 1.1 points."""
    lines = (shared / "data" / "clinc150_queries.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["intent"] != "oos"]
    vectors = HashedNgramEncoder().encode([row["query"] for row in rows])
    intents = np.array([row["intent"] for row in rows])
    pools = [vectors[intents == name] for name in np.unique(intents)]
    rejected = 0
    for seed in range(400):
        rng = np.random.default_rng([seed, int(10 * mean_length)])
        settings = QueryDriftSettings(reference_size=200, window_size=70, permutations=299, seed=seed)
        units = real_sessions(rng, pools, 270, mean_length)
        verdict = compared(settings, units[:200], units[200:])
        rejected += verdict.p_value <= 0.05
    assert 12 <= rejected <= 28


def test_a_state_of_another_version_or_a_part_of_one_is_refused() -> None:
    state = dict(QueryDriftDetector(SMALL).state())
    with pytest.raises(ValueError, match="version"):
        QueryDriftDetector.from_state({**state, "version": 99})
    del state["run_length"]
    with pytest.raises(ValueError, match="run_length"):
        QueryDriftDetector.from_state(state)
