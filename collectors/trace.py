"""`RagTrace`: one answered (or failed) question, whatever framework told of it.

Absent and empty are different values everywhere: `None` means the traces did not say, an empty tuple or string
means that they said "nothing".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer

from collectors.predicate import Predicate


class Completeness(StrEnum):
    """How much of the request reached us."""

    COMPLETE = "complete"
    """An anchor, and an answer or an error."""
    PARTIAL = "partial"
    """An anchor without an answer, or an answer without an anchor."""
    FRAGMENT = "fragment"
    """Neither."""


class Flag(StrEnum):
    """What a reader of this trace must know before trusting it; a fall in captured content must never look like
    a fall in quality."""

    NO_ROOT = "no_root"
    ORPHAN_PARENT = "orphan_parent"
    ATTRS_DROPPED = "attrs_dropped"
    EVENTS_DROPPED = "events_dropped"
    TRUNCATED_JSON = "truncated_json"
    REDACTED = "redacted"
    CONTENT_NOT_CAPTURED = "content_not_captured"
    DOCS_UNKNOWN = "docs_unknown"
    NO_SCORES = "no_scores"
    DERIVED_IDS = "derived_ids"
    ANSWER_FROM_LEAF = "answer_from_leaf"
    QUERY_FROM_LEAF = "query_from_leaf"
    MULTI_REQUEST_TRACE = "multi_request_trace"
    LATE_REVISION = "late_revision"
    CLOCK_SKEW = "clock_skew"
    DUPLICATE_SPANS = "duplicate_spans"
    FILTER_UNPARSED = "filter_unparsed"
    SPANS_CAPPED = "spans_capped"


class ScoreKind(StrEnum):
    """What a document's score means: higher is better for all but `distance`."""

    SIMILARITY = "similarity"
    DISTANCE = "distance"
    RERANK = "rerank"


class IdSource(StrEnum):
    """Where a document's id came from."""

    LOGGED = "logged"
    """The convention's own id attribute."""
    METADATA = "metadata"
    """A key of the document's metadata."""
    OUTPUT = "output"
    """The retriever's raw output."""
    DERIVED = "derived"
    """A hash of its text: stable, but not the service's own id."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Document(_Frozen):
    """One retrieved document or chunk, in the order in which it was returned."""

    id: str | None = None
    id_source: IdSource | None = None
    score: float | None = None
    score_kind: ScoreKind | None = None
    metadata: Mapping[str, Any] | None = None
    text: str | None = None


class AppliedFilter(_Frozen):
    """The metadata filter of a retrieval. `entitlement` is what the caller may see and is never relaxed nor blamed;
    `relevance` is the rest. Each is None where the traces do not say; a service that logs one filter has all of it
    in `relevance` until the configured entitlement fields split it. `text` keeps what could not be parsed."""

    entitlement: Predicate | None = None
    relevance: Predicate | None = None
    text: str | None = None


class Retrieval(_Frozen):
    """One retrieval. `documents` is None where the traces do not tell what came back (not the same as empty)."""

    span_id: str
    query: str | None = None
    filter: AppliedFilter | None = None
    documents: tuple[Document, ...] | None = None
    top_k: int | None = None
    duration_s: float | None = None


class Reranking(_Frozen):
    """One reranking step: what went in and what came out, best first."""

    span_id: str
    input_ids: tuple[str, ...] | None = None
    documents: tuple[Document, ...] | None = None


class Citation(_Frozen):
    """A document that the answer cites; `start` and `end` are character offsets in the answer."""

    document_id: str
    start: int | None = None
    end: int | None = None


class TraceError(_Frozen):
    """Why the request failed."""

    type: str | None = None
    message: str | None = None


class Tokens(_Frozen):
    """Token counts of the request, counted once (not on parents and leaves)."""

    input: int | None = None
    output: int | None = None


class Versions(_Frozen):
    """What answered: a change of any of these is a change marker."""

    service: str | None = None
    model: str | None = None
    prompt: str | None = None
    index: str | None = None
    encoder: str | None = None


class Feedback(_Frozen):
    """What a person did with the answer: `thumbs_up`, `thumbs_down`, `regenerate`, `copy`, or the label as logged."""

    label: str
    score: float | None = None
    time_ns: int | None = None


class RagTrace(_Frozen):
    """One request to a RAG service, as far as its spans told of it.

    `id` is `trace_id:anchor_span_id`. Times are Unix nanoseconds of the service's clock, durations seconds, costs US
    dollars. `sources` maps a field's path to the convention and attribute that gave it, e.g.
    `"query": "openinference input.value"`, `"slices.tenant": "rag rag.tenant.id"`.
    """

    id: str
    trace_id: str
    revision: int = 0
    start_time_ns: int
    duration_s: float | None = None
    query: str | None = None
    """As asked."""
    rewritten_queries: tuple[str, ...] = ()
    """What was searched for instead, each once."""
    query_embedding: tuple[float, ...] | None = None
    retrievals: tuple[Retrieval, ...] = ()
    reranked: Reranking | None = None
    context: tuple[str, ...] | None = None
    """The passages actually sent to the model, in order."""
    context_document_ids: tuple[str, ...] | None = None
    answer: str | None = None
    citations: tuple[Citation, ...] | None = None
    gold_document_ids: tuple[str, ...] | None = None
    refused: bool | None = None
    error: TraceError | None = None
    stage_durations_s: Mapping[str, float] = Field(default_factory=dict)
    time_to_first_token_s: float | None = None
    """From the start of the request, as its user waited."""
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    cache_hits: Mapping[str, bool] = Field(default_factory=dict)
    versions: Versions = Versions()
    slices: Mapping[str, str] = Field(default_factory=dict)
    """`service`, `tenant`, `locale`, `intent` where known."""
    session: str | None = None
    user_hash: str | None = None
    feedback: tuple[Feedback, ...] = ()
    sampling_probability: float = 1.0
    """What an upstream sampler kept this trace with (`ot.th` of the trace state); 1 where none said."""
    instrumentation: tuple[str, ...] = ()
    """`scope@version` of every instrumentation that took part."""
    completeness: Completeness = Completeness.COMPLETE
    flags: frozenset[Flag] = frozenset()
    sources: Mapping[str, str] = Field(default_factory=dict)

    @field_serializer("flags")
    def _in_order(self, flags: frozenset[Flag]) -> list[Flag]:
        """A set has no order of its own; the same trace is to be written the same way every time."""
        return sorted(flags)
