"""Every hostile message of the handed set has the outcome that its manifest asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.errors import Reason, SpanReason, Undecodable
from collectors.otlp import Limits, decode
from collectors.span import SpanBatch, SpanFlag, StatusCode

pytestmark = pytest.mark.part("shared")

QUESTION = "How long do refunds take?"


def _accepted(batch: SpanBatch) -> None:
    assert [span.attributes["input.value"] for span in batch.spans] == [QUESTION]
    assert batch.spans[0].attributes["openinference.span.kind"] == "RETRIEVER"
    assert batch.rejected == ()


def _no_spans(batch: SpanBatch) -> None:
    assert (batch.spans, batch.rejected) == ((), ())


def _snake_case(batch: SpanBatch) -> None:
    (span,) = batch.spans
    assert span.trace_id == "14579f4bb39f5fc9a9d864e82e16e3e2"
    assert (span.start_ns, span.end_ns) == (1796067480000000000, 1796067480005000000)


def _upper_ids_string_enums(batch: SpanBatch) -> None:
    _accepted(batch)
    (span,) = batch.spans
    assert span.trace_id == "14579f4bb39f5fc9a9d864e82e16e3e2"
    assert (span.kind, span.status) == (1, StatusCode.ERROR)


def _attributes_object(batch: SpanBatch) -> None:
    assert batch.spans == ()
    assert [rejection.reason for rejection in batch.rejected] == [SpanReason.BAD_ATTRIBUTES]


def _nan_and_null(batch: SpanBatch) -> None:
    (span,) = batch.spans
    assert span.attributes["retrieval.documents.0.document.score"] is None
    assert span.attributes["retrieval.documents.0.document.id"] == 123
    assert span.attributes["x"] is None
    assert span.attributes["y"] is None
    assert span.flags == {SpanFlag.NOT_FINITE}


def _attribute_flood(batch: SpanBatch) -> None:
    (span,) = batch.spans
    kept = Limits().attributes
    assert len(span.attributes) == kept
    assert span.dropped_attributes == 12_345 + 20_002 - kept, "what the sender dropped and what we did"
    assert span.flags == {SpanFlag.ATTRIBUTES_CAPPED}
    assert span.attributes["input.value"] == QUESTION


def _nul_and_long_name(batch: SpanBatch) -> None:
    (span,) = batch.spans
    assert span.attributes["output.value"] == "ab"
    assert len(span.name) == Limits().name_length
    assert span.flags == {SpanFlag.NAME_CAPPED}


def _bad_ids(batch: SpanBatch) -> None:
    assert [span.trace_id for span in batch.spans] == ["319957270602daee880080bc1d5ea5cb"]
    assert [rejection.reason for rejection in batch.rejected] == [
        SpanReason.BAD_TRACE_ID,
        SpanReason.BAD_TRACE_ID,
        SpanReason.BAD_SPAN_ID,
    ]


def _duplicates(batch: SpanBatch) -> None:
    """The key's last value is kept and flagged here; that the spans are one is for assembly to see, by their ids."""
    assert len({(span.trace_id, span.span_id) for span in batch.spans}) == 1
    for span in batch.spans:
        assert span.attributes["input.value"] == "second value"
        assert SpanFlag.DUPLICATE_KEY in span.flags


def _deep_value(batch: SpanBatch) -> None:
    (span,) = batch.spans
    assert SpanFlag.DEPTH_CAPPED in span.flags
    assert max(_depth(value) for value in span.attributes.values()) == Limits().depth


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(item) for item in value), default=0)
    return 0


OUTCOMES: dict[str, Reason | Callable[[SpanBatch], None]] = {
    "truncated.pb": Reason.TRUNCATED,
    "garbage.bin": Reason.NOT_OTLP,
    "empty.bin": _no_spans,
    "confluent-framed.pb": _accepted,
    "gzipped-value.pb.gz": _accepted,
    "gzip-bomb.pb.gz": Reason.DECOMPRESSION_CAP,
    "bare-array.json": _accepted,
    "snake-case.json": _snake_case,
    "upper-ids-string-enums.json": _upper_ids_string_enums,
    "instrumentation-library-spans.json": _accepted,
    "attributes-object.json": _attributes_object,
    "nan-null-values.json": _nan_and_null,
    "jaeger-json.json": Reason.JAEGER_JSON,
    "attr-flood.pb": _attribute_flood,
    "nul-and-long-name.pb": _nul_and_long_name,
    "bad-ids.pb": _bad_ids,
    "duplicate-span-and-key.pb": _duplicates,
    "deep-anyvalue.pb": _deep_value,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_hostile_message_has_its_outcome(shared: Path, name: str) -> None:
    raw = (shared / "fixtures/otlp/malformed" / name).read_bytes()
    outcome = OUTCOMES[name]
    if isinstance(outcome, Reason):
        with pytest.raises(Undecodable) as refused:
            decode(raw)
        assert refused.value.reason == outcome
    else:
        outcome(decode(raw))


def test_every_message_of_the_manifest_is_in_the_table(shared: Path) -> None:
    manifest = json.loads((shared / "fixtures/otlp/malformed/MANIFEST.json").read_text())
    assert {entry["file"] for entry in manifest} == set(OUTCOMES)
