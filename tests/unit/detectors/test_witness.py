"""The witness's scores against a plain computation, its ranks where nothing moves, and where something does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.vectors import Units
from detectors.witness import BLOCK, SPANS, Witness

Rows = npt.NDArray[Any]


def rows(rng: np.random.Generator, count: int, shift: float = 0.0) -> Rows:
    drawn = rng.normal(size=(count, 6)).astype(np.float32)
    drawn[:, 0] += shift
    return drawn


def ranks(witness: Witness, units: Rows) -> Rows:
    return np.array([witness.push(row[None]) for row in units])


def test_ranks_are_those_of_a_plain_computation() -> None:
    rng = np.random.default_rng(0)
    reference = [rows(rng, length) for length in rng.integers(1, 4, size=30)]
    stream = [rows(rng, length) for length in rng.integers(1, 4, size=75)]
    witness = Witness(Units.of(reference), seed=5)
    got = np.array([witness.push(unit) for unit in stream])

    order = np.random.default_rng([5, 1]).permutation(30)
    fit, held = [reference[i] for i in sorted(order[:10])], [reference[i] for i in sorted(order[10:])]
    gamma = witness._kernel.gamma

    def kernel(a: Rows, b: Rows) -> float:
        a, b = a.astype(np.float64), b.astype(np.float64)
        return float(np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2)).mean())

    for unit in (10, 34, 74):
        known = unit - unit % BLOCK
        for column, span in enumerate(SPANS):
            recent = stream[max(known - span, 0) : known]

            def score(one: Rows, recent: list[Rows] = recent) -> float:
                return float(
                    np.mean([kernel(one, r) for r in recent]) - np.mean([kernel(one, f) for f in fit])
                )

            mine = score(stream[unit])
            expected = (1 + sum(score(one) >= mine - 1e-6 for one in held)) / (len(held) + 1)
            assert got[unit, column] == pytest.approx(expected)


def test_there_is_no_rank_before_there_is_a_witness() -> None:
    got = ranks(Witness(Units(rows(np.random.default_rng(1), 60)), 0), rows(np.random.default_rng(2), 12))
    assert np.isnan(got[:BLOCK]).all()
    assert not np.isnan(got[BLOCK:]).any()


def test_ranks_are_uniform_on_average_over_references() -> None:
    """40 references of 90 units, 60 new units each."""
    low = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        got = ranks(Witness(Units(rows(rng, 90)), seed), rows(rng, 70))[BLOCK:]
        low.append((got <= 0.1).mean(axis=0))
    assert (np.abs(np.mean(low, axis=0) - 0.1) < 0.03).all()


def test_replayed_ranks_are_uniform_on_average_over_worlds() -> None:
    witness = Witness(Units(rows(np.random.default_rng(3), 150)), 0)
    low = [
        (witness.replay(np.random.default_rng(seed), 8, 200)[:, BLOCK:] <= 0.1).mean(axis=(0, 1))
        for seed in range(40)
    ]
    assert (np.abs(np.mean(low, axis=0) - 0.1) < 0.02).all()


def test_a_shift_makes_ranks_small() -> None:
    rng = np.random.default_rng(4)
    witness = Witness(Units(rows(rng, 300)), 0)
    assert (ranks(witness, rows(rng, 150, shift=1.5))[50:] <= 0.2).mean() > 0.4


def test_a_restored_witness_ranks_on_bit_for_bit() -> None:
    rng = np.random.default_rng(5)
    reference = Units(rows(rng, 90))
    witness, restored = Witness(reference, 1), Witness(reference, 1)
    ranks(witness, rows(rng, 237))
    restored.restore(witness.state())
    more = rows(rng, 60)
    np.testing.assert_array_equal(ranks(witness, more), ranks(restored, more))
    with pytest.raises(ValueError, match="to_held"):
        Witness(Units(rows(rng, 30)), 1).restore(witness.state())
