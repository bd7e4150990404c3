"""Why something from outside was not taken: closed sets of reasons, each one a label that is counted."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a whole message could not be read."""

    TOO_LARGE = "too_large"
    """The message, as it came, is larger than the cap."""
    DECOMPRESSION_CAP = "decompression_cap"
    """It unpacks to more than the cap."""
    TOO_MANY_SPANS = "too_many_spans"
    BAD_GZIP = "bad_gzip"
    BAD_FRAMING = "bad_framing"
    """A Schema-Registry prefix that does not end in a payload."""
    BAD_JSON = "bad_json"
    TRUNCATED = "truncated"
    """It starts as an OTLP protobuf message and ends in the middle of one."""
    NOT_OTLP = "not_otlp"
    """Neither a protobuf nor a JSON export request."""
    JAEGER_JSON = "jaeger_json"
    ZIPKIN_JSON = "zipkin_json"
    LOGS = "logs"
    """An OTLP export request for logs where only one for spans is read."""
    METRICS = "metrics"
    UNKNOWN_FORMAT = "unknown_format"
    """A capture file whose name tells no known format."""
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    """A content type or content encoding that the receiver does not speak."""
    UNAUTHENTICATED = "unauthenticated"
    """The sender does not bear the receiver's token."""
    TLS_FAILED = "tls_failed"
    """A connection, not a message: the sender and we agreed on no TLS, as without a certificate that we trust."""
    INTERRUPTED = "interrupted"
    """It never came whole: the sender stopped or was too slow, or it was cut off at the transport's own cap."""
    UNREADABLE_BATCH = "unreadable_batch"
    """Records of a Kafka partition that no codec here unpacks; the partition waits, nothing of it is skipped."""
    DECODER_FAULT = "decoder_fault"
    """The decoder itself failed on it: a defect of ours, kept from stopping the stream."""


class Undecodable(ValueError):  # noqa: N818 (the field's term for a message like this)
    """A whole message that cannot be read: `reason` to count by, `detail` for a person."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SpanReason(StrEnum):
    """Why one span was refused while its neighbours were kept (`Rejection.reason`)."""

    BAD_TRACE_ID = "bad_trace_id"
    BAD_SPAN_ID = "bad_span_id"
    BAD_PARENT_ID = "bad_parent_id"
    BAD_TIME = "bad_time"
    BAD_ATTRIBUTES = "bad_attributes"
    """The attributes are no list of keys and values, or a value is not what its type says."""
    BAD_RESOURCE = "bad_resource"
    """The resource or scope that the span belongs to cannot be read."""
    BAD_STRUCTURE = "bad_structure"
    """The span, or the list it stands in, is not shaped like one."""


class SpanRefused(ValueError):  # noqa: N818 (it is an outcome, not a failure of ours)
    """Raised inside the decoder for one span; leaves it as a `Rejection`."""

    def __init__(self, reason: SpanReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
