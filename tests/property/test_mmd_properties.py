"""What the statistic must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.kernel import median_gamma
from detectors.mmd import mmd2, permutation_test
from detectors.mmd_rolling import RollingMmd
from detectors.permutations import permutation_labels

SIZES = st.integers(2, 20)


def rows(seed: int, n: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(0.5, 1.5, size=(m, d)), rng


@given(st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 8))
def test_the_statistic_is_symmetric_and_knows_no_order(seed: int, n: int, m: int, d: int) -> None:
    x, y, rng = rows(seed, n, m, d)
    expected = mmd2(x, y)
    assert mmd2(y, x) == pytest.approx(expected, abs=1e-10)
    assert mmd2(rng.permutation(x), rng.permutation(y)) == pytest.approx(expected, abs=1e-10)


@given(st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 8), st.floats(0.01, 100.0))
def test_the_statistic_ignores_place_rotation_and_scale(
    seed: int, n: int, m: int, d: int, scale: float
) -> None:
    x, y, rng = rows(seed, n, m, d)
    expected = mmd2(x, y)
    offset = rng.normal(0.0, 100.0, size=d)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    assert mmd2(x + offset, y + offset) == pytest.approx(expected, abs=1e-8)
    assert mmd2(x @ rotation, y @ rotation) == pytest.approx(expected, abs=1e-8)
    assert mmd2(x * scale, y * scale) == pytest.approx(expected, abs=1e-8)


@given(st.integers(0, 2**32), SIZES, SIZES, st.integers(1, 8))
def test_the_statistic_is_bounded_and_the_p_value_is_never_zero(seed: int, n: int, m: int, d: int) -> None:
    x, y, _ = rows(seed, n, m, d)
    result = permutation_test(x, y, permutations=99, seed=seed)
    assert -2.0 <= result.statistic <= 2.0
    assert 0.01 <= result.p_value <= 1.0
    assert result.gamma == pytest.approx(median_gamma(np.concatenate([x, y])), rel=1e-9)


@given(st.integers(0, 2**32), st.integers(6, 30), st.integers(3, 12), st.floats(-2.0, 2.0))
@settings(deadline=None)
def test_a_constant_added_to_all_vectors_or_their_order_moves_no_p_value(
    seed: int, n: int, m: int, constant: float
) -> None:
    x, y, rng = rows(seed, n, m, 4)
    labels = permutation_labels(n, m, 99, rng)
    expected = permutation_test(x, y, seed=0, labels=labels)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    for moved_x, moved_y in ((x + constant, y + constant), (x @ rotation, y @ rotation)):
        assert permutation_test(moved_x, moved_y, seed=0, labels=labels).p_values == expected.p_values
    order, now = rng.permutation(n), n + rng.permutation(m)
    reordered = permutation_test(x[order], y[now - n], seed=0, labels=labels[:, np.concatenate([order, now])])
    assert reordered.p_values == expected.p_values


@given(st.integers(0, 2**32), st.integers(6, 40), st.integers(2, 12), st.integers(1, 30), st.data())
@settings(deadline=None, max_examples=60)
def test_sums_over_rows_in_and_out_do_not_depend_on_the_path(
    seed: int, n: int, m: int, before: int, data: st.DataObject
) -> None:
    """Whatever went through the window, in whatever batches, the last m units decide, once slots are the same."""
    rng = np.random.default_rng(seed)
    reference, stream = rng.normal(size=(n, 3)), rng.normal(0.3, 1.2, size=(m * before, 3))
    labels = permutation_labels(n, m, 50, rng)
    straight = RollingMmd(reference, m, seed=0, labels=labels)
    straight.push(stream[-m:])
    winding = RollingMmd(reference, m, seed=0, labels=labels)
    start = 0
    while start < len(stream):
        count = data.draw(st.integers(1, len(stream) - start))
        winding.push(stream[start : start + count])
        start += count
    # Kernel values are single precision, and products of other shapes round otherwise in their last bit.
    assert winding.statistics() == pytest.approx(straight.statistics(), abs=3e-6)
    assert winding.permuted() == pytest.approx(straight.permuted(), abs=1e-5)
