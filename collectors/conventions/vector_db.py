"""Spans of vector databases: Chroma, Pinecone, Milvus and Qdrant as OpenLLMetry tells of them, Spring AI's stores, and
`db.vector.query.*` of whoever else writes it.

Sources: traceloop/openllmetry, opentelemetry.semconv_ai and the wrappers of each database;
spring-projects/spring-ai, DefaultVectorStoreObservationConvention. Results are events of the span, one a document.
Chroma gives distances; Pinecone's score and what Milvus calls a distance depend on the index's metric: Milvus's is
taken as it is called. No event at all may mean no result or none told: only a count of 0 says "nothing".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import filters, values
from collectors.conventions.convention import Convention, Field, FoundDocument, Rule, SpanKind
from collectors.dialects.loading import load
from collectors.predicate import UnparsedFilter
from collectors.span import AttributeValue, Span, SpanEvent
from collectors.trace import Flag, IdSource, ScoreKind

_STORES = frozenset({"chroma", "lancedb", "marqo", "milvus", "pinecone", "qdrant", "weaviate"})
_SYSTEMS = ("db.system", "db.system.name")
_OPERATIONS = ("db.operation", "db.operation.name")
_SEARCHES = ("query", "search", "hybrid_search", "similarity_search", "recommend")
"""What the name of an operation that retrieves begins with."""
_ASKED = ("db.vector.query.top_k", "db.vector.query.filter", "db.vector.query.content")
_SEARCH_COUNT = "db.milvus.search.result_count"
_TEXTS = ("text", "document", "page_content", "content", "chunk")
"""Where frameworks keep a chunk's text in the metadata of stores that hold no text."""


def _kind_of(span: Span) -> SpanKind | None:
    """A search of a store; other operations of it (upsert, delete) are no retrieval."""
    attributes = span.attributes
    if any(name in attributes for name in _ASKED):
        return SpanKind.RETRIEVER
    store, _, operation = span.name.partition(".")
    if store not in _STORES:
        store = next((str(attributes[name]).lower() for name in _SYSTEMS if name in attributes), "")
        operation = next((str(attributes[name]) for name in _OPERATIONS if name in attributes), "")
    is_store = store in _STORES or attributes.get("spring.ai.kind") == "vector_store"
    return SpanKind.RETRIEVER if is_store and operation.startswith(_SEARCHES) else None


def _number(raw: object) -> float | None:
    """Milvus's distances are text."""
    if isinstance(raw, str):
        try:
            raw = float(raw)
        except ValueError:
            return None
    return values.as_number(raw)


def _map(raw: object, flags: set[Flag]) -> Mapping[str, Any] | None:
    """Metadata as JSON (Chroma) or as Python text (Pinecone, Milvus)."""
    found = raw
    if isinstance(raw, str):
        try:
            found = load(raw)
        except UnparsedFilter:
            flags.add(Flag.TRUNCATED_JSON)
    return found if isinstance(found, Mapping) else None


def _found(event: SpanEvent, prefix: str, metadata_name: str, flags: set[Flag]) -> FoundDocument:
    """One result; Milvus's `query` logs the entity's own fields without a prefix."""
    attributes = event.attributes
    if not any(name.startswith(prefix) for name in attributes):
        attributes = {f"{prefix}.id": attributes.get("id"), f"{prefix}.{metadata_name}": dict(attributes)}
    identity = attributes.get(f"{prefix}.id")
    score = _number(attributes.get(f"{prefix}.score"))
    distance = _number(attributes.get(f"{prefix}.distance"))
    kind = ScoreKind.SIMILARITY if score is not None else ScoreKind.DISTANCE if distance is not None else None
    metadata = _map(attributes.get(f"{prefix}.{metadata_name}"), flags)
    texts = [attributes.get(f"{prefix}.document"), *((metadata or {}).get(name) for name in _TEXTS)]
    return FoundDocument(
        id=None if identity is None else str(identity),
        id_source=None if identity is None else IdSource.LOGGED,
        score=distance if score is None else score,
        score_kind=kind,
        metadata=metadata,
        text=next((text for text in texts if isinstance(text, str)), None),
    )


_READERS = {
    "db.query.result": ("db.query.result", "metadata"),
    "db.search.result": ("db.search.result", "entity"),
}


def _results(event_name: str) -> Any:
    prefix, metadata_name = _READERS[event_name]

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        if _tells_the_first_only(span):
            flags.add(Flag.DOCS_UNKNOWN)
        return (
            tuple(
                _found(event, prefix, metadata_name, flags)
                for event in span.events
                if event.name == event_name
            )
            or None
        )

    return read


def _tells_the_first_only(span: Span) -> bool:
    """OpenLLMetry's Chroma wrapper makes one event a query, of its best result: what else came back is unknown."""
    asked = span.attributes.get("db.chroma.query.n_results", 10)
    several = isinstance(asked, int) and asked > 1
    return several and len(span.events) == 1 and span.scope.name == "opentelemetry.instrumentation.chromadb"


def _none_found(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    return () if raw == 0 else None


def _with_documents(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """Chroma's filter on the documents' texts, which no predicate on metadata says: it and what stands beside it are
    text."""
    if raw in filters.NO_FILTER:
        return None
    flags.add(Flag.FILTER_UNPARSED)
    parts = (span.attributes.get("db.chroma.query.where"), raw)
    return " and ".join(values.as_json_text(part) for part in parts if part not in filters.NO_FILTER)


def _texts(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    """Spring AI's documents, of which it tells the texts alone."""
    texts = values.structured(raw, flags)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return None
    return tuple(FoundDocument(text=text) for text in texts)


_RULES = {
    Field.INPUT: (Rule("db.vector.query.content", values.filled),),
    Field.DOCUMENTS: (
        Rule("db.query.result", _results("db.query.result"), spread=True),
        Rule("db.search.result", _results("db.search.result"), spread=True),
        Rule(_SEARCH_COUNT, _none_found),
        Rule("db.vector.query.response.documents", _texts),
    ),
    Field.FILTER: (
        Rule("db.chroma.query.where_document", _with_documents),
        Rule("db.chroma.query.where", filters.logged("chroma")),
        Rule("pinecone.query.filter", filters.logged("pinecone")),
        Rule("db.milvus.search.filter", filters.logged("milvus")),
        Rule("db.milvus.query.filter", filters.logged("milvus")),
        Rule("db.vector.query.filter", filters.logged()),
    ),
    Field.TOP_K: tuple(
        Rule(name, values.whole)
        for name in (
            "db.vector.query.top_k",
            "db.chroma.query.n_results",
            "pinecone.query.top_k",
            "db.milvus.search.limit",
            "db.milvus.query.limit",
        )
    ),
}

CONVENTION = Convention("vector_db", _RULES, _kind_of)
