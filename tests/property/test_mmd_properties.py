"""What the statistic must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.mmd import median_gamma, mmd2, permutation_test

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
