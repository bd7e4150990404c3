"""The rolling test equals a full recomputation, after any number of steps and restarts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.kernel import median_gamma
from detectors.mmd import permutation_test
from detectors.mmd_rolling import RollingMmd
from detectors.permutations import permutation_labels
from detectors.vectors import NonFiniteVectors, TooFewRows, UnusableVectors, WrongDimension
from detectors.verdict import State

Rows = npt.NDArray[Any]


def embeddings(rng: np.random.Generator, count: int, d: int = 32, shift: float = 0.0) -> Rows:
    """Rows of length 1, as encoders give them."""
    rows = rng.normal(size=(count, d))
    rows[:, 0] += shift
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def in_slots(stream: list[Rows], window: int) -> list[Rows]:
    """The last `window` units as the slots hold them: unit i of the stream is in slot i modulo the window."""
    last = len(stream)
    held = range(last - window, last)
    return [stream[i] for i in sorted(held, key=lambda i: i % window)]


def test_p_values_equal_full_recomputation_after_10_000_steps() -> None:
    rng = np.random.default_rng(0)
    reference = embeddings(rng, 200)
    labels = permutation_labels(200, 50, 1000, rng)
    rolling = RollingMmd(reference, 50, seed=0, labels=labels)
    stream: list[Rows] = []
    for step in range(10_000):
        unit = embeddings(rng, 1, shift=0.4 if step % 3000 > 2500 else 0.0)
        stream = [*stream[-149:], unit] if len(stream) >= 200 else [*stream, unit]
        rolling.push(unit)
        if step in (49, 2_549, 5_003, 9_949, 9_999):
            held = in_slots_of(stream, step + 1, 50)
            full = permutation_test(
                reference, np.concatenate(held), seed=0, labels=labels, gamma=rolling.kernel.gamma
            )
            ours = rolling.test()
            assert ours is not None
            assert (ours.p_value, ours.p_values) == (full.p_value, full.p_values)
            assert ours.statistic == pytest.approx(full.statistic, abs=1e-8)


def in_slots_of(kept: list[Rows], pushed: int, window: int) -> list[Rows]:
    held = range(pushed - window, pushed)
    return [kept[i - pushed] for i in sorted(held, key=lambda i: i % window)]


def test_units_of_many_rows_in_batches_of_any_size() -> None:
    rng = np.random.default_rng(1)
    reference = [embeddings(rng, length) for length in rng.integers(1, 6, size=60)]
    stream = [embeddings(rng, length, shift=0.3) for length in rng.integers(1, 6, size=300)]
    labels = permutation_labels(60, 25, 500, rng)
    rolling, start, compared, equal = RollingMmd(reference, 25, seed=0, labels=labels), 0, 0, 0
    while start < len(stream):
        count = int(rng.integers(1, 40))
        rolling.push(stream[start : start + count])
        start = min(start + count, len(stream))
        ours = rolling.test()
        assert (ours is None) == (start < 25)
        if ours is not None:
            held = in_slots(stream[:start], 25)
            full = permutation_test(reference, held, seed=0, labels=labels, gamma=rolling.kernel.gamma)
            # Equal but where a relabelling is as good as tied with the window: sums agree to 3e-6 of their spread.
            assert ours.p_values == pytest.approx(full.p_values, abs=1.01 / 501)
            equal += ours.p_values == full.p_values
            assert ours.statistic == pytest.approx(full.statistic, abs=1e-8)
            compared += 1
    assert compared > 5
    assert equal >= compared - 2


def test_nothing_grows() -> None:
    rng = np.random.default_rng(2)
    rolling = RollingMmd(embeddings(rng, 40), 10, permutations=99, seed=0)

    def held() -> int:
        return (
            sum(np.asarray(value).nbytes for value in rolling.state().values())
            + rolling._rolling._rows._rows.nbytes
        )

    rolling.push(embeddings(rng, 40))
    before = held()
    rolling.push([embeddings(rng, 50)])
    rolling.push(embeddings(rng, 2000))
    for _ in range(200):
        rolling.push(embeddings(rng, 1))
    assert held() <= 2 * before


def through_bytes(state: State) -> State:
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(value) for name, value in state.items()})
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("pushed", [0, 7, 20, 133])
def test_a_restored_engine_goes_on_bit_for_bit(pushed: int) -> None:
    rng = np.random.default_rng(3)
    rolling = RollingMmd(
        [embeddings(rng, n) for n in rng.integers(1, 4, size=50)], 20, permutations=199, seed=5
    )
    rolling.push([embeddings(rng, n) for n in rng.integers(1, 4, size=pushed)]) if pushed else None
    restored = RollingMmd.from_state(through_bytes(rolling.state()))
    for _ in range(60):
        unit = [embeddings(rng, int(rng.integers(1, 5)))]
        rolling.push(unit)
        restored.push(unit)
        assert restored.test() == rolling.test()
    first, second = rolling.state(), restored.state()
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(second[name]))
        assert np.asarray(value).dtype == np.asarray(second[name]).dtype


def test_a_mapped_half_precision_reference_stays_on_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    reference, stream = embeddings(rng, 1500, 16).astype(np.float16), embeddings(rng, 60, 16, 0.2)
    np.save(tmp_path / "reference.npy", reference)
    mapped = np.load(tmp_path / "reference.npy", mmap_mode="r")
    labels = permutation_labels(1500, 30, 200, rng)
    gamma = median_gamma(reference)
    on_disk = RollingMmd(mapped, 30, seed=0, labels=labels, gamma=gamma)
    in_memory = RollingMmd(reference.astype(np.float32), 30, seed=0, labels=labels, gamma=gamma)
    assert isinstance(on_disk._points.rows, np.memmap)
    for engine in (on_disk, in_memory):
        engine.push(stream)
    ours, expected = on_disk.test(), in_memory.test()
    assert ours is not None
    assert expected is not None
    assert ours.p_value == expected.p_value
    assert ours.statistic == pytest.approx(expected.statistic, abs=1e-8)
    restored = RollingMmd.from_state(on_disk.state(), reference=mapped)
    assert restored.test() == ours


def test_later_changes_of_the_callers_rows_do_no_harm() -> None:
    rng = np.random.default_rng(5)
    reference, unit = embeddings(rng, 50), embeddings(rng, 20)
    given, untouched = reference.copy(), RollingMmd(reference, 20, permutations=99, seed=0)
    rolling = RollingMmd(given, 20, permutations=99, seed=0)
    given[...] = 0.0
    pushed = unit.copy()
    rolling.push(pushed)
    pushed[...] = 0.0
    untouched.push(unit)
    more = embeddings(rng, 3)
    rolling.push(more)
    untouched.push(more)
    assert rolling.test() == untouched.test()


def test_duplicates_everywhere_show_nothing() -> None:
    rolling = RollingMmd(np.ones((20, 3)), 10, permutations=99, seed=0)
    rolling.push(np.ones((25, 3)))
    result = rolling.test()
    assert result is not None
    assert (result.statistic, result.p_value) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("unit", "error"),
    [
        (np.full((1, 32), np.nan), NonFiniteVectors),
        (np.full((1, 32), -np.inf), NonFiniteVectors),
        (np.ones((1, 31)), WrongDimension),
        (np.ones(32), WrongDimension),
        (np.empty((0, 32)), TooFewRows),
    ],
)
def test_what_cannot_be_compared_is_refused_whole(unit: Rows, error: type[UnusableVectors]) -> None:
    rng = np.random.default_rng(6)
    rolling, calm = (
        RollingMmd(embeddings(np.random.default_rng(6), 30), 10, permutations=99, seed=0) for _ in range(2)
    )
    good = embeddings(rng, 12)
    rolling.push(good[:6])
    with pytest.raises(error):
        rolling.push([good[6:7], unit])
    rolling.push(good[6:])
    calm.push(good[:6])
    calm.push(good[6:])
    assert rolling.test() == calm.test()


def test_a_window_of_one_and_a_reference_of_one_are_refused() -> None:
    with pytest.raises(TooFewRows):
        RollingMmd(np.ones((10, 2)), 1, seed=0)
    with pytest.raises(TooFewRows):
        RollingMmd(np.ones((1, 2)), 5, seed=0)


def test_one_seed_gives_one_answer() -> None:
    rng = np.random.default_rng(7)
    reference, stream = embeddings(rng, 60), embeddings(rng, 30, shift=0.2)
    results = []
    for seed in (1, 1, 2):
        rolling = RollingMmd(reference, 30, permutations=500, seed=seed)
        rolling.push(stream)
        results.append(rolling.test())
    assert results[0] == results[1]
    assert results[0] != results[2]


@pytest.mark.long
def test_a_million_queries_cost_flat_memory_and_flat_time() -> None:
    """And the sums have not wandered: the last window's p-value is that of a full recomputation."""
    import resource
    import time

    rng = np.random.default_rng(8)
    reference = embeddings(rng, 100, 16)
    labels = permutation_labels(100, 50, 200, rng)
    rolling = RollingMmd(reference, 50, seed=0, labels=labels)
    seconds, peaks, pool = [], [], embeddings(rng, 20_000, 16)
    for _ in range(50):
        began = time.process_time()
        for start in range(0, 20_000, 10):
            rolling.push(pool[start : start + 10])
            rolling.test()
        seconds.append(time.process_time() - began)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[4] < 2_000, "kilobytes"
    assert np.median(seconds[-10:]) < 1.5 * np.median(seconds[5:15])
    full = permutation_test(reference, pool[-50:], seed=0, labels=labels, gamma=rolling.kernel.gamma)
    ours = rolling.test()
    assert ours is not None
    assert (ours.p_value, ours.p_values) == (full.p_value, full.p_values)
    assert ours.statistic == pytest.approx(full.statistic, abs=1e-8)
