"""Encoders by the names that people give on the command line."""

from __future__ import annotations

from pathlib import Path

from detectors.embedding import QueryEncoder
from detectors.sentence_encoder import QueryEncoderSettings, query_encoder

ENCODER_HELP = (
    "encode the texts with hashed-ngram, minilm (extra embed) or the ONNX encoder in a folder; without it the files' "
    "vectors count, and texts without vectors are encoded with hashed-ngram"
)


def encoder_named(name: str | None) -> QueryEncoder | None:
    """The encoder; None without a name. Raises an EncoderError."""
    if name is None:
        return None
    if name in ("hashed-ngram", "minilm"):
        return query_encoder(QueryEncoderSettings.model_validate({"kind": name}))
    return query_encoder(QueryEncoderSettings(kind="folder", folder=Path(name)))
