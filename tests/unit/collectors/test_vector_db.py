"""Spans of vector databases as their instrumentations write them: documents, scores and what they mean, filters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.conventions import Field, SpanKind, kind_of, read
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import to_text
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent
from collectors.trace import Flag, IdSource, RagTrace, ScoreKind

CHROMA: dict[str, AttributeValue] = {"db.system": "chroma", "db.operation": "query"}
MILVUS: dict[str, AttributeValue] = {"db.system": "milvus", "db.operation": "search"}


def span(
    name: str, attributes: dict[str, AttributeValue], *events: dict[str, AttributeValue], **more: Any
) -> Span:
    event_name = "db.search.result" if name.startswith("milvus") else "db.query.result"
    told = tuple(SpanEvent(event_name, 5, one) for one in events)
    more = {"span_id": "1" * 16, "parent_id": None, **more}
    return Span(
        trace_id="a" * 32, name=name, start_ns=0, end_ns=9, attributes=attributes, events=told, **more
    )


def value(field: Field, one: Span) -> tuple[Any, set[Flag]]:
    flags: set[Flag] = set()
    reading = read(field, one, flags)
    return (None if reading is None else reading.value), flags


def traced(*spans: Span) -> RagTrace:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(spans), now=0.0)
    (request,) = assembler.flush(now=1.0)
    trace = Normaliser(NormaliseSettings()).normalise(request)
    assert trace is not None
    return trace


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        ("chroma.query", CHROMA, SpanKind.RETRIEVER),
        ("chroma.add", {"db.system": "chroma", "db.operation": "add"}, None),
        ("pinecone.query", {"db.system": "Pinecone"}, SpanKind.RETRIEVER),
        ("pinecone.upsert", {"db.system": "Pinecone"}, None),
        (
            "milvus.hybrid_search",
            {"db.system": "milvus", "db.operation": "hybrid_search"},
            SpanKind.RETRIEVER,
        ),
        ("milvus.delete", {"db.system": "milvus", "db.operation": "delete"}, None),
        ("qdrant.query_points", {"db.system": "Qdrant"}, SpanKind.RETRIEVER),
        ("qdrant.upsert", {"db.system": "Qdrant"}, None),
        ("SELECT kb", {"db.system": "postgresql", "db.operation": "query"}, None),
        (
            "pg_vector query",
            {"db.system": "pg_vector", "spring.ai.kind": "vector_store", "db.operation.name": "query"},
            SpanKind.RETRIEVER,
        ),
        (
            "pg_vector add",
            {"db.system": "pg_vector", "spring.ai.kind": "vector_store", "db.operation.name": "add"},
            None,
        ),
        ("search", {"db.vector.query.top_k": 3}, SpanKind.RETRIEVER),
    ],
)
def test_searches_are_retrievals_and_writes_are_not(
    name: str, attributes: dict[str, AttributeValue], kind: SpanKind | None
) -> None:
    assert kind_of(span(name, attributes)) is kind


def test_chroma_tells_distances_and_python_text() -> None:
    one = span(
        "chroma.query",
        {
            **CHROMA,
            "db.chroma.query.n_results": 2,
            "db.chroma.query.where": "{'tenant': 'acme', 'draft': False}",
        },
        {
            "db.query.result.id": "kb-101",
            "db.query.result.distance": 0.25,
            "db.query.result.metadata": '{"tenant": "acme"}',
            "db.query.result.document": "5 days",
        },
        {"db.query.result.id": "kb-102", "db.query.result.distance": 0.5},
    )
    trace = traced(one)
    (retrieval,) = trace.retrievals
    assert retrieval.documents is not None
    first, second = retrieval.documents
    assert (first.id, first.id_source, first.score, first.score_kind) == (
        "kb-101", IdSource.LOGGED, 0.25, ScoreKind.DISTANCE,
    )  # fmt: skip
    assert (first.metadata, first.text) == ({"tenant": "acme"}, "5 days")
    assert (second.id, second.text) == ("kb-102", None)
    assert retrieval.top_k == 2
    assert retrieval.filter is not None
    assert retrieval.filter.relevance is not None
    assert to_text(retrieval.filter.relevance) == "tenant == acme and draft == false"
    assert Flag.DOCS_UNKNOWN not in trace.flags
    assert trace.sources["retrievals.documents"] == "vector_db db.query.result"
    assert trace.sources["retrievals.filter"] == "vector_db db.chroma.query.where"


def test_openllmetry_tells_the_best_of_chromas_results_only() -> None:
    scope = Scope("opentelemetry.instrumentation.chromadb", "0.62.4")
    best: dict[str, AttributeValue] = {"db.query.result.id": "kb-101", "db.query.result.distance": 0.25}
    several = span("chroma.query", {**CHROMA, "db.chroma.query.n_results": 3}, best, scope=scope)
    assert value(Field.DOCUMENTS, several)[1] == {Flag.DOCS_UNKNOWN}
    alone = span("chroma.query", {**CHROMA, "db.chroma.query.n_results": 1}, best, scope=scope)
    assert value(Field.DOCUMENTS, alone)[1] == set()


def test_no_event_is_unknown_not_empty() -> None:
    trace = traced(span("chroma.query", CHROMA))
    assert trace.retrievals[0].documents is None
    assert Flag.DOCS_UNKNOWN in trace.flags


def test_pinecone_tells_scores_and_a_filter_in_json() -> None:
    one = span(
        "pinecone.query",
        {"db.system": "Pinecone", "pinecone.query.top_k": 5,
         "pinecone.query.filter": json.dumps({"tenant": {"$eq": "acme"}, "year": {"$gte": 2020}})},
        {"db.query.result.id": "kb-1", "db.query.result.score": 0.75,
         "db.query.result.metadata": "{'tenant': 'acme', 'text': '5 days'}"},
    )  # fmt: skip
    (retrieval,) = traced(one).retrievals
    assert retrieval.documents is not None
    (document,) = retrieval.documents
    assert (document.score, document.score_kind, document.text) == (0.75, ScoreKind.SIMILARITY, "5 days")
    assert retrieval.filter is not None
    assert retrieval.filter.relevance is not None
    assert to_text(retrieval.filter.relevance) == "tenant = acme and year >= 2020"
    assert retrieval.top_k == 5


def test_milvus_tells_distances_as_text_and_entities_as_python() -> None:
    one = span(
        "milvus.search",
        {**MILVUS, "db.milvus.search.limit": 3, "db.milvus.search.result_count": 1,
         "db.milvus.search.filter": "tenant == 'acme' and year >= 2020"},
        {"db.search.query.id": 0, "db.search.result.id": 7, "db.search.result.distance": "0.125",
         "db.search.result.entity": "{'tenant': 'acme', 'text': '5 days'}"},
    )  # fmt: skip
    (retrieval,) = traced(one).retrievals
    assert retrieval.documents is not None
    (document,) = retrieval.documents
    assert (document.id, document.score, document.score_kind) == ("7", 0.125, ScoreKind.DISTANCE)
    assert document.metadata == {"tenant": "acme", "text": "5 days"}
    assert retrieval.top_k == 3
    assert retrieval.filter is not None
    assert retrieval.filter.relevance is not None
    assert to_text(retrieval.filter.relevance) == "tenant = acme and year >= 2020"


def test_milvus_counts_nothing_found() -> None:
    trace = traced(span("milvus.search", {**MILVUS, "db.milvus.search.result_count": 0}))
    assert trace.retrievals[0].documents == ()
    assert Flag.DOCS_UNKNOWN not in trace.flags


def test_milvus_query_tells_the_entities_own_fields() -> None:
    event = SpanEvent("db.query.result", 5, {"id": 7, "tenant": "acme", "text": "5 days"})
    one = Span("a" * 32, "1" * 16, None, "milvus.query", 0, 9, {"db.system": "milvus", "db.operation": "query"},
               events=(event,))  # fmt: skip
    (document,) = value(Field.DOCUMENTS, one)[0]
    assert (document.id, document.metadata["tenant"], document.text) == ("7", "acme", "5 days")


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("db.vector.query.filter", '{"tenant": "acme"}', "tenant = acme"),
        ("db.vector.query.filter", "{'tenant': {'$in': ['acme', 'globex']}}", "tenant in (acme, globex)"),
        (
            "db.vector.query.filter",
            (
                "Expression[type=AND, left=Expression[type=EQ, left=Key[key=country], right=Value[value=UK]], "
                "right=Expression[type=GTE, left=Key[key=year], right=Value[value=2020]]]"
            ),
            "country = UK and year >= 2020",
        ),
        (
            "gen_ai.retrieval.filters",
            {"operator": "AND", "conditions": [{"field": "meta.tenant", "operator": "==", "value": "acme"}]},
            "tenant = acme",
        ),
        (
            "gen_ai.retrieval.filters",
            '{"must": [{"key": "tenant", "match": {"value": "acme"}}]}',
            "tenant = acme",
        ),
    ],
)
def test_filters_in_whatever_notation(name: str, raw: AttributeValue, text: str) -> None:
    found, flags = value(Field.FILTER, span("search", {"gen_ai.operation.name": "retrieval", name: raw}))
    assert (to_text(found), flags) == (text, set())


@pytest.mark.parametrize(
    "raw", ["tenant like everything", "{'tenant': open('x')}", "{" * 500, "Expression[type=X]"]
)
def test_what_no_parser_takes_is_kept_as_text(raw: str) -> None:
    found, flags = value(Field.FILTER, span("search", {"db.vector.query.filter": raw}))
    assert (found, flags) == (raw, {Flag.FILTER_UNPARSED})


def test_no_filter_is_not_said() -> None:
    nothing: list[AttributeValue] = ["", {}, "__REDACTED__"]
    for raw in nothing:
        assert value(Field.FILTER, span("search", {"db.vector.query.filter": raw}))[0] is None


def test_spring_writes_numbers_as_text() -> None:
    one = span("pg_vector query", {"db.vector.query.top_k": "4", "db.vector.query.content": "How long?"})
    assert value(Field.TOP_K, one)[0] == 4
    assert traced(one).query == "How long?"


def test_the_store_under_a_framework_fills_in_what_it_alone_knows() -> None:
    documents = [{"page_content": "5 days", "metadata": {}}, {"page_content": "By mail", "metadata": {}}]
    outer = span(
        "vector_db_retrieve VectorStoreRetriever",
        {"gen_ai.operation.name": "vector_db_retrieve",
         "traceloop.entity.input": json.dumps({"query": "How long?"}),
         "traceloop.entity.output": json.dumps({"documents": documents, "count": 2})},
    )  # fmt: skip
    inner = span(
        "chroma.query",
        {**CHROMA, "db.chroma.query.where": "{'tenant': 'acme'}", "db.chroma.query.n_results": 2},
        {"db.query.result.id": "kb-1", "db.query.result.distance": 0.1, "db.query.result.document": "5 days"},
        {
            "db.query.result.id": "kb-2",
            "db.query.result.distance": 0.2,
            "db.query.result.document": "By mail",
        },
        span_id="2" * 16,
        parent_id="1" * 16,
    )
    trace = traced(outer, inner)
    (retrieval,) = trace.retrievals
    assert trace.reranked is None
    assert retrieval.documents is not None
    assert [(one.id, one.score, one.score_kind) for one in retrieval.documents] == [
        ("kb-1", 0.1, ScoreKind.DISTANCE),
        ("kb-2", 0.2, ScoreKind.DISTANCE),
    ]
    assert (retrieval.query, retrieval.top_k) == ("How long?", 2)
    assert retrieval.filter is not None
    assert Flag.DERIVED_IDS not in trace.flags


def test_spring_ais_documents_are_texts() -> None:
    told: dict[str, AttributeValue] = {"spring.ai.kind": "vector_store", "db.operation.name": "query"}
    name = "db.vector.query.response.documents"
    found, flags = value(Field.DOCUMENTS, span("pg_vector query", {**told, name: '["5 days", "14 days"]'}))
    assert ([one.text for one in found], [one.id for one in found]) == (["5 days", "14 days"], [None, None])
    assert flags == set()
    unescaped = '["5 days", "say "no""]'
    assert value(Field.DOCUMENTS, span("q", {**told, name: unescaped})) == (None, {Flag.TRUNCATED_JSON})


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ('{"tenant": "acme"}', '{"tenant": "acme"} and {"$contains": "refund"}'),
        ("None", '{"$contains": "refund"}'),
        (None, '{"$contains": "refund"}'),
    ],
)
def test_chromas_filter_on_texts_is_kept_as_text(where: str | None, text: str) -> None:
    """Without it the rest would be the whole filter, and blamed for what the other kept out."""
    attributes = {**CHROMA, "db.chroma.query.where_document": '{"$contains": "refund"}'}
    one = span(
        "chroma.query", attributes if where is None else {**attributes, "db.chroma.query.where": where}
    )
    trace = traced(one)
    assert trace.retrievals[0].filter is not None
    assert trace.retrievals[0].filter.model_dump() == {"entitlement": None, "relevance": None, "text": text}
    assert Flag.FILTER_UNPARSED in trace.flags


def test_a_filter_that_was_not_given_is_none() -> None:
    for nothing in ("None", "null", ""):
        given = {"db.chroma.query.where": nothing, "db.chroma.query.where_document": nothing}
        assert value(Field.FILTER, span("chroma.query", {**CHROMA, **given})) == (None, set())


def test_the_key_that_langchain_keeps_metadata_under_comes_off() -> None:
    """Else the tenant's filter would be no entitlement, and no document would ever satisfy it."""
    asked = {
        "must": [
            {"key": "metadata.tenant", "match": {"value": "acme"}},
            {"key": "metadata.n", "range": {"gt": 1}},
        ]
    }
    one = span("qdrant.query_points", {"db.system": "qdrant", "db.vector.query.filter": json.dumps(asked)})
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch((one,)), now=0.0)
    (request,) = assembler.flush(now=1.0)
    trace = Normaliser(NormaliseSettings(entitlement_fields=frozenset({"tenant"}))).normalise(request)
    assert trace is not None
    found = trace.retrievals[0].filter
    assert found is not None
    assert found.entitlement is not None
    assert found.relevance is not None
    assert (to_text(found.entitlement), to_text(found.relevance)) == ("tenant = acme", "n > 1")
