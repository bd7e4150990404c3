"""The built-in encoder: the same everywhere, bounded, and able to tell topics apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from detectors.embedding import HashedNgramEncoder, QueryEncoder

PINNED_VECTOR = [-0.4776234, 0.4483586, 0.3086607, -0.3086607, 0.0, 0.0, 0.0292648, -0.6159961]
PINNED_VECTOR = [-0.4776234, 0.4483586, 0.3086607, -0.3086607, 0.0, 0.0, 0.0292648, -0.6159961]
PINNED = ["How do I reset my password?", "Wie wird das Wetter?", "天气怎么样", "a"]


def test_it_is_a_query_encoder() -> None:
    encoder: QueryEncoder = HashedNgramEncoder()
    vectors = encoder.encode(PINNED)
    assert (encoder.name, encoder.dimensions) == ("hashed-ngram-1", 256)
    assert (vectors.shape, vectors.dtype) == ((4, 256), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-6)
    assert encoder.encode([]).shape == (0, 256)
    assert HashedNgramEncoder(64).name != encoder.name


def test_other_processes_give_the_same_bits() -> None:
    program = (
        "import sys, json; from detectors.embedding import HashedNgramEncoder;"
        "print(HashedNgramEncoder().encode(json.load(sys.stdin)).tobytes().hex())"
    )
    root = Path(__file__).resolve().parents[3]
    for seed in ("0", "12345"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(PINNED),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
        )
        assert run.stdout.strip() == HashedNgramEncoder().encode(PINNED).tobytes().hex()


def test_the_version_in_the_name_pins_the_vectors() -> None:
    """A change here needs a new name, or old references would be compared with other vectors."""
    vector = HashedNgramEncoder(8).encode(["reset password"])[0]
    assert vector == pytest.approx(np.array(PINNED_VECTOR), abs=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "?!...", "\N{GRINNING FACE}"])
def test_a_text_without_letters_is_a_row_of_zeros(text: str) -> None:
    assert not HashedNgramEncoder().encode([text]).any()


def test_case_punctuation_and_width_do_not_matter() -> None:
    first, second, third = HashedNgramEncoder().encode(
        ["Reset PASSWORD", "reset, password!", "ｒｅｓｅｔ password"]
    )
    assert (first == second).all()
    assert (first == third).all()


def test_lone_surrogates_and_nul_are_taken() -> None:
    vectors = HashedNgramEncoder().encode(["broken \ud800 text", "nul \x00 text"])
    assert np.isfinite(vectors).all()
    assert vectors.any(axis=1).all()


@pytest.mark.parametrize(
    ("near", "also", "far"),
    [
        ("reset my password", "password resetting", "weather in Rome tomorrow"),
        ("今天北京天气怎么样", "明天上海天气", "如何重置我的密码"),
        ("wie setze ich mein passwort zurück", "passwörter zurücksetzen", "wetter in rom morgen"),
    ],
)
def test_shared_words_and_word_parts_bring_texts_together(near: str, also: str, far: str) -> None:
    a, b, c = HashedNgramEncoder().encode([near, also, far])
    assert a @ b > a @ c + 0.1


def test_a_repeated_word_counts_less_than_in_proportion() -> None:
    once, often = HashedNgramEncoder(4096).encode(["refund policy", "refund " * 50 + "policy"])
    assert 0.7 < float(once @ often) < 0.95


def test_a_hostile_query_costs_no_more_than_a_long_one() -> None:
    encoder = HashedNgramEncoder()
    rng = np.random.default_rng(0)
    hostile = "".join(map(chr, rng.integers(97, 123, 2_000_000)))
    started = time.perf_counter()
    vector = encoder.encode([hostile])[0]
    assert time.perf_counter() - started < 1.0
    assert (vector == encoder.encode([hostile[:4096]])[0]).all()


@pytest.mark.parametrize(("dimensions", "characters"), [(0, 10), (8, 0)])
def test_an_encoder_without_room_is_refused(dimensions: int, characters: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        HashedNgramEncoder(dimensions, characters)


@pytest.mark.part("shared")
def test_it_tells_real_topics_apart(shared: Path) -> None:
    """CLINC150: queries are nearer to those of their own intent than to others', over all 150 intents."""
    lines = (shared / "data" / "clinc150_queries.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["intent"] != "oos" and row["split"] == "test"]
    vectors = HashedNgramEncoder().encode([row["query"] for row in rows]).astype(np.float64)
    intents = np.unique([row["intent"] for row in rows], return_inverse=True)[1]
    centres = np.stack([vectors[intents == intent].mean(axis=0) for intent in range(intents.max() + 1)])
    similarity = vectors @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T
    assert (similarity.argmax(axis=1) == intents).mean() > 0.7
