"""What every DriftDetector does, whatever its statistic. A new detector is one more entry in DETECTORS."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.alibi_backend import AlibiDetector, AlibiMissing, AlibiSettings, alibi_detector
from detectors.drift_settings import QueryDriftSettings
from detectors.novelty import NoveltyDetector
from detectors.query_drift import QueryDriftDetector
from detectors.verdict import DriftDetector, DriftVerdict, State

DIMENSIONS = 6
REFERENCE = 100
WINDOW = 20

Rows = npt.NDArray[Any]
Make = Callable[[], DriftDetector]

SETTINGS = QueryDriftSettings(
    reference_size=REFERENCE, window_size=WINDOW, permutations=199, smallest_shift=0.3, slowdown=9.0, seed=3
)
RUN_LENGTH = 3000.0

DETECTORS: dict[str, Make] = {
    QueryDriftDetector.name: lambda: QueryDriftDetector(SETTINGS, RUN_LENGTH),
    NoveltyDetector.name: lambda: NoveltyDetector(SETTINGS, RUN_LENGTH),
    "alibi_mmd": lambda: alibi("mmd"),
    "alibi_lsdd": lambda: alibi("lsdd"),
    "alibi_classifier": lambda: alibi("classifier"),
    "alibi_mmd_online": lambda: alibi("mmd_online", permutations=200),
}


def alibi(detector: str, permutations: int = 99) -> AlibiDetector:
    settings = {"detector": detector, "run_length": 40.0, "permutations": permutations}
    windows = {"reference_size": REFERENCE, "window_size": WINDOW, "seed": 3}
    return alibi_detector(AlibiSettings.model_validate(settings | windows))


@pytest.fixture(params=sorted(DETECTORS))
def make(request: pytest.FixtureRequest) -> Make:
    if request.param.startswith("alibi"):
        try:
            alibi("mmd")
        except AlibiMissing:
            pytest.skip("needs the extra alibi")
    return DETECTORS[request.param]


def rows(seed: int, count: int, shift: float = 0.0) -> Rows:
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype(np.float32)
    drawn[:, 0] += shift
    return drawn


def fitted(make: Make) -> DriftDetector:
    detector = make()
    detector.fit(rows(0, REFERENCE))
    return detector


def pushed(detector: DriftDetector, units: Rows) -> list[DriftVerdict | None]:
    verdicts = []
    for row in units:
        detector.push(row[None])
        verdicts.append(detector.test())
    return verdicts


def stored(state: State) -> State:
    """The state as a store gives it back: through bytes, without pickle."""
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(value) for name, value in state.items()})
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def test_there_is_no_verdict_before_there_are_windows(make: Make) -> None:
    detector = make()
    assert detector.test() is None
    detector.fit(rows(0, REFERENCE))
    assert detector.test() is None
    assert pushed(detector, rows(1, WINDOW - 1)) == [None] * (WINDOW - 1)
    assert pushed(detector, rows(2, 1))[0] is not None


def test_a_verdict_is_well_formed(make: Make) -> None:
    for verdict in pushed(fitted(make), rows(1, 3 * WINDOW))[WINDOW - 1 :]:
        assert verdict is not None
        assert 0.0 < verdict.p_value <= 1.0
        assert np.isfinite([verdict.statistic, verdict.evidence]).all()
        assert verdict.threshold > 0.0 or (np.isnan(verdict.threshold) and not verdict.alarm)
        assert (verdict.reference_size, verdict.current_size) == (REFERENCE, WINDOW)
        if verdict.lower is not None and verdict.upper is not None:
            assert verdict.lower <= verdict.statistic <= verdict.upper
        assert verdict.alarm or not verdict.evidence >= verdict.threshold


def test_a_sustained_shift_alarms_and_its_end_clears(make: Make) -> None:
    detector = fitted(make)
    calm = pushed(detector, rows(7, 2 * WINDOW))[-1]
    assert calm is not None
    assert not calm.alarm
    shifted = pushed(detector, rows(1, 5 * WINDOW, shift=4.0))[-1]
    assert shifted is not None
    assert shifted.alarm or np.isnan(shifted.threshold), "only what has no threshold never alarms"
    assert shifted.p_value < 0.03
    back = pushed(detector, rows(2, 10 * WINDOW))[-WINDOW:]
    assert not all(verdict is None or verdict.alarm for verdict in back)


def test_equal_input_gives_equal_verdicts(make: Make) -> None:
    units = rows(1, 3 * WINDOW, shift=0.5)
    assert pushed(fitted(make), units) == pushed(fitted(make), units)


def test_looking_moves_nothing(make: Make) -> None:
    watched, unwatched = fitted(make), fitted(make)
    units = rows(1, 3 * WINDOW, shift=0.8)
    for row in units:
        watched.push(row[None])
        for _ in range(2):
            watched.test()
        unwatched.push(row[None])
    assert watched.test() == unwatched.test()


@pytest.mark.parametrize("after", [0, 5, WINDOW, WINDOW + 7, 4 * WINDOW])
def test_a_restored_detector_goes_on_bit_for_bit(make: Make, after: int) -> None:
    original = fitted(make)
    pushed(original, rows(1, after, shift=0.8))
    restored = type(original).from_state(stored(original.state()))
    assert restored.test() == original.test()
    more = rows(2, 2 * WINDOW + 3, shift=0.8)
    assert pushed(restored, more) == pushed(original, more)
    first, second = original.state(), restored.state()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.asarray(value).dtype == np.asarray(second[name]).dtype
        np.testing.assert_array_equal(value, second[name])


def test_a_state_is_a_snapshot(make: Make) -> None:
    detector = fitted(make)
    pushed(detector, rows(1, WINDOW))
    state = detector.state()
    expected = type(detector).from_state(state).test()
    pushed(detector, rows(2, WINDOW, shift=3.0))
    assert type(detector).from_state(state).test() == expected


@pytest.mark.parametrize(
    "unit",
    [
        np.full((1, DIMENSIONS), np.nan),
        np.full((1, DIMENSIONS), np.inf),
        np.zeros((1, DIMENSIONS + 1)),
        np.zeros((0, DIMENSIONS)),
        np.zeros(DIMENSIONS),
    ],
    ids=["nan", "infinite", "dimension", "empty", "flat"],
)
def test_a_bad_unit_is_refused_by_type_and_loses_nothing_else(make: Make, unit: Rows) -> None:
    disturbed, calm = fitted(make), fitted(make)
    units = rows(1, WINDOW)
    pushed(disturbed, units[:7])
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 (the reason is checked below)
        disturbed.push(unit)
    assert getattr(refusal.value, "reason", "") in {"non_finite", "wrong_dimension", "too_few_rows"}
    pushed(disturbed, units[7:])
    pushed(calm, units)
    assert disturbed.test() == calm.test()


def test_a_bad_reference_leaves_the_old_one(make: Make) -> None:
    detector = fitted(make)
    expected = pushed(fitted(make), rows(1, WINDOW))[-1]
    for bad in (np.full((REFERENCE, DIMENSIONS), np.nan), np.zeros((1, DIMENSIONS))):
        with pytest.raises(ValueError):  # noqa: PT011 (each detector's own message)
            detector.fit(bad)
    assert pushed(detector, rows(1, WINDOW))[-1] == expected


def test_a_unit_of_many_rows_is_one_unit(make: Make) -> None:
    """A hundred queries of one session must not fill the window."""
    detector = fitted(make)
    for seed in range(WINDOW - 1):
        detector.push(rows(seed, 100))
        assert detector.test() is None
    detector.push(rows(99, 1))
    verdict = detector.test()
    assert verdict is not None
    assert verdict.current_size == WINDOW
