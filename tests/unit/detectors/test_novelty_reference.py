"""Novelty ranks: distances against a plain computation, whole units left out, sizes that vary, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from detectors.novelty_reference import NoveltyReference
from detectors.vectors import Units

Rows = npt.NDArray[Any]


def sessions(rng: np.random.Generator, count: int, longest: int = 6, spread: float = 0.3) -> list[Rows]:
    """Each about a place of its own."""
    return [
        (rng.normal(size=4) + spread * rng.normal(size=(length, 4))).astype(np.float32)
        for length in rng.integers(1, longest + 1, size=count)
    ]


def test_ranks_are_those_of_a_plain_computation() -> None:
    rng = np.random.default_rng(0)
    known, new = sessions(rng, 40), sessions(rng, 5)[0]
    reference = NoveltyReference(Units.of(known), neighbours=3)

    def novelty(row: Rows, others: list[Rows]) -> float:
        distances = np.sort(np.linalg.norm(np.concatenate(others) - row, axis=1))
        return float(distances[:3].mean())

    own = [novelty(row, known[:i] + known[i + 1 :]) for i, unit in enumerate(known) for row in unit]
    expected = [(sum(d >= novelty(row, known) for d in own) + 1) / (len(own) + 1) for row in new]
    assert reference.query_p_values(new) == pytest.approx(expected, abs=1e-9)


def test_a_units_own_queries_are_not_its_neighbours() -> None:
    """Sessions of six near-copies: single queries left out, every one would have near neighbours, and every new
    session would look novel."""
    rng = np.random.default_rng(1)
    known = [np.repeat(unit[:1], 6, axis=0) + 1e-3 for unit in sessions(rng, 200)]
    reference = NoveltyReference(Units.of(known), neighbours=3)
    p = [reference.unit(np.repeat(unit[:1], 6, axis=0))[0] for unit in sessions(rng, 300)]
    assert 0.02 <= np.mean(np.array(p) <= 0.1) <= 0.2


@pytest.mark.parametrize("longest", [1, 8])
def test_unit_p_values_are_uniform_whatever_the_sizes(longest: int) -> None:
    """30 references of 300 units, 100 new units each: of 3,000 p-values 5 % are at most 0.05, give or take what
    references differ."""
    low = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        reference = NoveltyReference(Units.of(sessions(rng, 300, longest)), neighbours=3)
        low.append(np.mean([reference.unit(unit)[0] <= 0.05 for unit in sessions(rng, 100, longest)]))
    assert 0.03 <= np.mean(low) <= 0.065


def test_longer_sessions_alone_are_no_novelty() -> None:
    rng = np.random.default_rng(2)
    known = sessions(rng, 500, longest=4)
    reference = NoveltyReference(Units.of(known), neighbours=3)
    longer = [unit for unit in sessions(rng, 1500, longest=8) if len(unit) > 4]
    assert np.mean([reference.unit(unit)[0] <= 0.05 for unit in longer]) <= 0.06


def test_duplicates_at_distance_zero_are_ranked_with_their_ties() -> None:
    """Half of the reference is one question, asked again and again: asking it once more is as usual as can be."""
    rng = np.random.default_rng(3)
    asked = np.ones((1, 4), dtype=np.float32)
    known = [asked] * 100 + [rng.normal(5.0, 1.0, size=(1, 4)).astype(np.float32) for _ in range(100)]
    reference = NoveltyReference(Units.of(known), neighbours=3)
    assert reference.query_p_values(asked)[0] == 1.0
    assert reference.unit(asked)[0] == 1.0
    assert (reference.unit_p_values[:100] == 1.0).all()
    assert reference.unit(np.full((1, 4), -9.0, dtype=np.float32))[0] == pytest.approx(1 / 201)


def test_the_references_own_p_values_are_ranks_within_their_range() -> None:
    reference = NoveltyReference(Units.of(sessions(np.random.default_rng(6), 150, longest=1)), neighbours=3)
    np.testing.assert_allclose(np.sort(reference.unit_p_values), np.arange(1, 151) / 150)


def test_one_unit_alone_is_no_reference() -> None:
    with pytest.raises(ValueError, match="neighbours"):
        NoveltyReference(Units.of([np.ones((5, 2))]), neighbours=3)
