"""The fuzzer's target: whatever the bytes, the decoder answers with sound spans or refuses with a reason.

A program of its own, since the fuzzer takes the process over: `python decode_harness.py CORPUS [libFuzzer's flags]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
with atheris.instrument_imports(include=["collectors"]):
    from collectors.errors import Reason, Undecodable
    from collectors.otlp import Limits, decode, decode_any_json, decode_logs_proto, decode_proto
    from collectors.otlp_limits import MAX_TIME_NS
    from collectors.span import SpanFlag

WIDE = Limits()
NARROW = Limits(
    decompressed_bytes=100_000,
    spans=20,
    attributes=4,
    events=2,
    links=2,
    depth=2,
    name_length=8,
    value_length=16,
)
_HEX = frozenset("0123456789abcdef")


def read(raw: bytes) -> None:
    """Decode one message in every way that a source may; fails on what no caller could live with."""
    for entry in (decode, decode_proto, decode_any_json, decode_logs_proto):
        for limits in (WIDE, NARROW):
            try:
                batch = entry(raw, limits)
            except Undecodable as refused:
                if refused.reason is Reason.DECODER_FAULT:
                    raise AssertionError(refused.detail) from refused.__cause__
                continue
            assert len(batch.spans) + len(batch.rejected) <= limits.spans
            for span in batch.spans:
                assert len(span.trace_id) == 32
                assert span.is_log or span.trace_id.strip("0"), "only a log record may belong to no trace"
                assert len(span.span_id) == 16
                assert span.span_id.strip("0")
                assert set(span.trace_id + span.span_id) <= _HEX
                assert span.parent_id is None or len(span.parent_id) == 16
                assert 0 <= span.start_ns <= MAX_TIME_NS
                assert 0 <= span.end_ns <= MAX_TIME_NS
                assert len(span.name) <= limits.name_length
                assert (
                    len(dict(span.attributes)) <= limits.attributes
                )  # which reads what is read when asked for
                assert set(span.flags) <= set(SpanFlag)
                assert len(span.events) <= limits.events
                assert len(span.links) <= limits.links


if __name__ == "__main__":
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()
