"""Pinned probes: every change of an encoder is seen and called by its kind, and an unchanged one never is."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.encoder_monitor import EncoderChange, compare_probes
from detectors.repeated_queries import RepeatedQueries, RepeatedQuerySettings
from detectors.vectors import NonFiniteVectors, WrongDimension, ZeroVectors


def _probes(seed: int, dimensions: int = 384) -> np.ndarray:
    """As a sentence encoder's: topics about a common direction, at unit length."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(12, dimensions))[rng.integers(12, size=100)]
    rows = 0.3 * rng.normal(size=dimensions) + topics + rng.normal(size=(100, dimensions))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _rotation(angle: float, dimensions: int = 384) -> np.ndarray:
    """A rotation of every plane of a random basis by the angle."""
    basis, _ = np.linalg.qr(np.random.default_rng(5).normal(size=(dimensions, dimensions)))
    turn = np.eye(dimensions) * np.cos(angle)
    for i in range(0, dimensions, 2):
        turn[i, i + 1], turn[i + 1, i] = -np.sin(angle), np.sin(angle)
    return basis @ turn @ basis.T


def _bf16(rows: np.ndarray) -> np.ndarray:
    return ((rows.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


def _int8(rows: np.ndarray) -> np.ndarray:
    scale = np.abs(rows).max() / 127.0
    return (np.round(rows / scale) * scale).astype(np.float32)


@pytest.mark.parametrize("seed", range(50))
def test_an_unchanged_encoder_is_never_called_changed(seed: int) -> None:
    """Rounding noise of single precision, of other batch sizes, ten times over."""
    rows = _probes(seed)
    noise = np.random.default_rng(1000 + seed).normal(size=rows.shape) * 2e-7 * 10
    report = compare_probes(rows, rows + noise.astype(np.float32))
    assert report.change is EncoderChange.NONE
    assert report.mean_cosine == pytest.approx(1.0, abs=1e-6)
    assert report.overlap == 1.0


@pytest.mark.parametrize(
    ("changed", "change"),
    [
        (_bf16, EncoderChange.PRECISION),
        (_int8, EncoderChange.PRECISION),
        (lambda rows: rows @ _rotation(0.01), EncoderChange.ROTATED),
        (lambda rows: rows @ _rotation(2.0), EncoderChange.ROTATED),
        (lambda rows: rows * 2.0, EncoderChange.RESCALED),
        (
            lambda rows: rows + 0.5 * rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0)),
            EncoderChange.REPLACED,
        ),
        (
            lambda rows: rows * np.random.default_rng(3).lognormal(0.0, 1.0, rows.shape[1]),
            EncoderChange.REPLACED,
        ),
        (lambda rows: rows[:, :256], EncoderChange.DIMENSION),
        (lambda rows: _probes(77), EncoderChange.REPLACED),
    ],
    ids=[
        "bf16",
        "int8",
        "rotation-0.01",
        "rotation",
        "scale",
        "prefix",
        "pooling",
        "dimension",
        "other-model",
    ],
)
def test_each_change_is_seen_and_named(changed, change) -> None:  # type: ignore[no-untyped-def]
    for seed in range(10):
        rows = _probes(seed)
        report = compare_probes(rows, changed(rows))
        assert report.change is change
        assert "pinned probes" in report.wording


def test_cosines_gram_and_overlap_are_what_they_are_called() -> None:
    rows = _probes(1)
    other = rows + 0.02 * np.random.default_rng(2).normal(size=rows.shape).astype(np.float32)
    report = compare_probes(rows, other, k=5)
    a, b = (
        side / np.linalg.norm(side, axis=1, keepdims=True)
        for side in (rows.astype(float), other.astype(float))
    )
    cosines = np.array([x @ y for x, y in zip(a, b, strict=True)])
    assert report.mean_cosine == pytest.approx(cosines.mean())
    assert report.min_cosine == pytest.approx(cosines.min())
    shares = []
    for i in range(len(a)):
        order = [
            sorted((j for j in range(len(a)) if j != i), key=lambda j: -side[i] @ side[j])[:5]
            for side in (a, b)
        ]
        shares.append(len(set(order[0]) & set(order[1])) / 5)
    assert report.overlap == pytest.approx(np.mean(shares))
    assert 0.0 < report.rank_overlap < 1.0


def test_a_broken_encoder_is_refused_by_type() -> None:
    rows = _probes(1)
    with pytest.raises(NonFiniteVectors):
        compare_probes(rows, rows * np.nan)
    with pytest.raises(ZeroVectors):
        compare_probes(rows, rows * 0.0)
    with pytest.raises(WrongDimension):
        compare_probes(rows, rows[:50])


def test_repeats_in_half_precision_do_not_disagree() -> None:
    rng, seen = np.random.default_rng(1), RepeatedQueries()
    rows = _probes(3)
    for _ in range(5):
        for i, row in enumerate(rows):
            seen.put(f"query {i}", row + 2e-7 * rng.normal(size=row.shape))
    report = seen.report()
    assert (report.is_changed, report.changed, report.trusted) == (False, 0, 400)


@pytest.mark.parametrize(
    "changed", [_bf16, _int8, lambda rows: rows @ _rotation(0.01)], ids=["bf16", "int8", "turn"]
)
def test_repeats_see_a_change_of_precision(changed) -> None:  # type: ignore[no-untyped-def]
    seen, rows = RepeatedQueries(), _probes(4)
    for side in (rows, rows, changed(rows)):
        for i, row in enumerate(side):
            seen.put(f"query {i}", row)
    assert seen.report().is_changed


def test_repeats_that_never_agreed_mean_nothing() -> None:
    """A service that embeds the query with its conversation."""
    rng, seen = np.random.default_rng(5), RepeatedQueries()
    for i in range(500):
        seen.put(f"query {i % 20}", rng.normal(size=16))
    report = seen.report()
    assert (report.is_changed, report.changed) == (False, 10)


def test_memory_is_bounded_and_another_dimension_is_a_change() -> None:
    seen = RepeatedQueries(RepeatedQuerySettings(texts=10, trusted_after=2, recent=4, changed=2))
    for i in range(1000):
        seen.put(f"query {i}", np.ones(4))
    assert len(seen._known) == 10
    for dimensions in (4, 8):
        for i in range(990, 1000):
            seen.put(f"query {i}", np.ones(dimensions))
    assert seen.report().is_changed
