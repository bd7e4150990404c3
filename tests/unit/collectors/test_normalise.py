"""Whole requests as traces: what is read from which span, and what is flagged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import to_text
from collectors.replay import read_batches
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent, SpanLink, StatusCode
from collectors.trace import Completeness, Flag, IdSource, RagTrace, ScoreKind

TRACE = "a" * 32
MS = 1_000_000


def span(
    span_id: str, parent: str | None, kind: str | None, start_ms: int = 0, ms: int = 10, **more: Any
) -> Span:
    attributes: dict[str, AttributeValue] = dict(more.pop("attributes", {}))
    if kind is not None:
        attributes["openinference.span.kind"] = kind
    resource = {"service.name": more.pop("service", "kb"), "service.version": "2.1"}
    start = 1_000_000_000_000 + start_ms * MS
    return Span(
        more.pop("trace_id", TRACE), span_id, parent, span_id, start, start + ms * MS, attributes,
        resource=resource, scope=Scope("lib", "1.0"), **more,
    )  # fmt: skip


def normalise(*spans: Span, **settings: Any) -> RagTrace | None:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(spans), now=0.0)
    (one,) = assembler.flush(now=1.0)
    return Normaliser(NormaliseSettings(**settings)).normalise(one)


def trace(*spans: Span, **settings: Any) -> RagTrace:
    found = normalise(*spans, **settings)
    assert found is not None
    return found


def chain(**attributes: AttributeValue) -> Span:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    return span(
        "r", None, "CHAIN", ms=100, attributes={"input.value": "How long?", "output.value": "5 days", **named}
    )


def documents(
    *names: str, prefix: str = "retrieval.documents", **more: AttributeValue
) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = dict(more)
    for place, name in enumerate(names):
        found[f"{prefix}.{place}.document.id"] = name
        found[f"{prefix}.{place}.document.content"] = f"text of {name}"
        found[f"{prefix}.{place}.document.score"] = 0.9 - place / 10
    return found


def test_a_plain_request() -> None:
    one = trace(
        chain(session__id="s1", user__id="u1"),
        span("x", "r", "RETRIEVER", 10, 20, attributes={"input.value": "How long?", **documents("a", "b")}),
        span(
            "m", "r", "LLM", 40, 50,
            attributes={"output.value": "5 days", "llm.model_name": "m1", "llm.token_count.prompt": 9,
                        "llm.token_count.completion": 3, "llm.cost.total": 0.01},
        ),
    )  # fmt: skip
    assert one.id == f"{TRACE}:r"
    assert (one.query, one.answer, one.session) == ("How long?", "5 days", "s1")
    assert one.duration_s == pytest.approx(0.1)
    assert one.stage_durations_s == pytest.approx({"retrieval": 0.02, "llm": 0.05})
    assert [document.id for document in one.retrievals[0].documents or ()] == ["a", "b"]
    assert (one.tokens.input, one.tokens.output, one.cost_usd) == (9, 3, 0.01)
    assert (one.versions.model, one.versions.service) == ("m1", "2.1")
    assert one.slices == {"service": "kb"}
    assert one.instrumentation == ("lib@1.0",)
    assert one.completeness is Completeness.COMPLETE
    assert one.flags == frozenset()
    assert one.sources["answer"] == "openinference output.value"
    assert one.user_hash not in (None, "u1")


def test_user_hashes_depend_on_the_salt() -> None:
    hashes = {trace(chain(user__id="u1"), user_salt=salt).user_hash for salt in ("", "one", "two")}
    assert len(hashes) == 3


def test_what_is_no_request_is_none() -> None:
    texts: dict[str, AttributeValue] = {
        "embedding.embeddings.0.embedding.text": "a document",
        "embedding.embeddings.0.embedding.vector": [0.1],
    }
    assert normalise(span("e", None, "EMBEDDING", attributes=texts)) is None
    assert (
        normalise(span("c", "lost", "CHAIN", attributes={"input.value": "{}", "output.value": "[]"})) is None
    )
    assert normalise(span("h", None, None)) is None
    indexing = span(
        "p", None, "CHAIN", attributes={"input.value": '{"documents": ["x"]}', "output.value": "done"}
    )
    assert normalise(indexing, span("e", "p", "EMBEDDING", attributes=texts)) is None


def test_a_chain_alone_is_a_request_when_it_was_asked_and_answered() -> None:
    assert trace(chain()).answer == "5 days"


def test_a_stream_takes_the_answer_from_the_model() -> None:
    one = trace(
        chain(output__value="<generator object Engine.stream at 0x7f>"),
        span("m1", "r", "LLM", 10, attributes={"llm.model_name": "m"}),
        span(
            "m2", "m1", "LLM", 12, 1,
            attributes={"output.value": "5 days"},
            events=(SpanEvent("First Token Stream Event", 1_000_000_000_000 + 90 * MS, {}),),
        ),
    )  # fmt: skip
    assert one.answer == "5 days"
    assert Flag.ANSWER_FROM_LEAF in one.flags
    assert one.time_to_first_token_s == pytest.approx(0.09)


def test_nested_models_are_counted_once() -> None:
    tokens: dict[str, AttributeValue] = {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    one = trace(
        chain(llm__token_count__prompt=999),
        span("p", "r", "LLM", 10, attributes=tokens),
        span("c", "p", "LLM", 11, attributes=tokens),
        span("q", "r", "LLM", 30),
        span("d", "q", "LLM", 31, attributes=tokens),
    )
    assert (one.tokens.input, one.tokens.output) == (20, 4)


def test_tokens_that_only_the_agent_counts() -> None:
    agent = span("g", None, "AGENT", attributes={"llm.token_count.prompt": 7, "output.value": "5 days"})
    assert trace(agent, span("m", "g", "LLM")).tokens.input == 7


def test_nested_spans_of_one_retrieval_count_once() -> None:
    one = trace(
        chain(),
        span("x", "r", "RETRIEVER", attributes=documents("a", "b")),
        span("y", "x", "RETRIEVER", attributes=documents("a", "b", **{"input.value": "asked inside"})),
        span("z", "r", "RETRIEVER", 20),
        span("w", "z", "RETRIEVER", 21, attributes=documents("c")),
    )
    assert [(found.span_id, found.query) for found in one.retrievals] == [("x", "asked inside"), ("w", None)]
    assert Flag.DOCS_UNKNOWN not in one.flags


def test_a_retriever_around_another_that_gave_other_documents_has_reranked() -> None:
    outer: dict[str, AttributeValue] = {
        "retrieval.documents.0.document.content": "text of b",
        "retrieval.documents.0.document.metadata": '{"_id": "b", "relevance_score": 0.7}',
    }
    inner = documents("a", "b")
    one = trace(
        chain(), span("o", "r", "RETRIEVER", attributes=outer), span("i", "o", "RETRIEVER", attributes=inner)
    )
    assert [found.span_id for found in one.retrievals] == ["i"]
    assert one.reranked is not None
    assert one.reranked.input_ids == ("a", "b")
    assert one.reranked.documents is not None
    best = one.reranked.documents[0]
    assert (best.id, best.id_source, best.score, best.score_kind) == (
        "b",
        IdSource.METADATA,
        0.7,
        ScoreKind.RERANK,
    )


def test_a_reranker_span() -> None:
    attributes = documents("a", "b", prefix="reranker.input_documents") | documents(
        "b", prefix="reranker.output_documents"
    )
    one = trace(
        chain(),
        span("x", "r", "RETRIEVER", attributes=documents("a", "b")),
        span("k", "r", "RERANKER", attributes=attributes),
    )
    assert one.reranked is not None
    assert one.reranked.input_ids == ("a", "b")
    assert [document.id for document in one.reranked.documents or ()] == ["b"]


def test_ids_come_from_the_output_and_else_from_the_text() -> None:
    bare: dict[str, AttributeValue] = {
        "retrieval.documents.0.document.content": "one",
        "retrieval.documents.1.document.content": "two",
    }
    raw = json.dumps({"documents": [{"id": "a", "page_content": "one"}, {"id": None, "page_content": "two"}]})
    one = trace(chain(), span("x", "r", "RETRIEVER", attributes={**bare, "output.value": raw}))
    found = one.retrievals[0].documents
    assert found is not None
    assert [(document.id_source, document.text) for document in found] == [
        (IdSource.OUTPUT, "one"),
        (IdSource.DERIVED, "two"),
    ]
    assert {Flag.DERIVED_IDS, Flag.NO_SCORES} <= one.flags
    again = trace(chain(), span("x", "r", "RETRIEVER", attributes=bare)).retrievals[0].documents
    assert again is not None
    assert again[1].id == found[1].id


def test_unknown_documents_are_not_empty_ones() -> None:
    unknown = trace(chain(), span("x", "r", "RETRIEVER"))
    assert unknown.retrievals[0].documents is None
    assert Flag.DOCS_UNKNOWN in unknown.flags
    empty = trace(chain(), span("x", "r", "RETRIEVER", attributes={"retrieval.documents": []}))
    assert empty.retrievals[0].documents == ()
    assert not {Flag.DOCS_UNKNOWN, Flag.NO_SCORES} & empty.flags


def test_an_error_has_no_answer_and_tells_why() -> None:
    raised = SpanEvent("exception", 5, {"exception.type": "Timeout", "exception.message": "30 s"})
    one = trace(
        span("h", None, None, status=StatusCode.ERROR),
        span("r", "h", "CHAIN", attributes={"input.value": "q"}, status=StatusCode.ERROR),
        span(
            "m",
            "r",
            "LLM",
            attributes={"output.value": "half an ans"},
            status=StatusCode.ERROR,
            events=(raised,),
        ),
    )
    assert one.id == f"{TRACE}:r"
    assert one.answer is None
    assert one.error is not None
    assert (one.error.type, one.error.message) == ("Timeout", "30 s")
    assert one.completeness is Completeness.COMPLETE


def test_a_step_that_failed_and_was_mended_is_no_error() -> None:
    one = trace(chain(), span("m", "r", "LLM", status=StatusCode.ERROR))
    assert one.error is None
    assert one.answer == "5 days"


def test_content_that_was_never_captured_is_flagged() -> None:
    one = trace(span("r", None, "CHAIN"), span("x", "r", "RETRIEVER"), span("m", "r", "LLM"))
    assert (one.query, one.answer) == (None, None)
    assert {Flag.CONTENT_NOT_CAPTURED, Flag.DOCS_UNKNOWN} <= one.flags
    assert one.completeness is Completeness.PARTIAL


def test_hidden_content_leaks_from_nowhere() -> None:
    hidden: dict[str, AttributeValue] = {"input.value": "__REDACTED__", "output.value": "__REDACTED__"}
    leak: dict[str, AttributeValue] = {**hidden, "llm.prompt_template.variables": '{"context": "secret"}'}
    one = trace(
        span("r", None, "CHAIN", attributes=hidden),
        span("p", "r", "PROMPT", attributes=leak),
        span("m", "r", "LLM", attributes=hidden),
    )
    assert (one.query, one.answer, one.context) == (None, None, None)
    assert Flag.REDACTED in one.flags
    assert Flag.CONTENT_NOT_CAPTURED not in one.flags


def test_context_is_what_the_prompt_was_given() -> None:
    said: dict[str, AttributeValue] = {
        "llm.prompt_template.variables": '{"context": "[a] text", "question": "q"}'
    }
    assert trace(chain(), span("p", "r", "PROMPT", attributes=said)).context == ("[a] text",)
    none: dict[str, AttributeValue] = {"llm.prompt_template.variables": '{"context": ""}'}
    assert trace(chain(), span("p", "r", "PROMPT", attributes=none)).context == ()


def test_rewritten_queries_and_the_embedding_of_the_one_asked() -> None:
    embedded: dict[str, AttributeValue] = {
        "embedding.model_name": "e5",
        "embedding.embeddings.0.embedding.text": "a document",
        "embedding.embeddings.0.embedding.vector": [9.0, 9.0],
        "embedding.embeddings.1.embedding.text": "How long?",
        "embedding.embeddings.1.embedding.vector": [0.5, 0.5],
    }
    one = trace(
        chain(),
        span("x", "r", "RETRIEVER", 5, attributes={"input.value": "refund duration", **documents("a")}),
        span("e", "x", "EMBEDDING", 6, attributes=embedded),
    )
    assert one.query == "How long?"
    assert one.rewritten_queries == ("refund duration",)
    assert one.query_embedding == (0.5, 0.5)
    assert one.versions.encoder == "e5"


def test_a_documents_embedding_is_never_the_querys() -> None:
    embedded: dict[str, AttributeValue] = {
        "embedding.embeddings.0.embedding.text": "a document",
        "embedding.embeddings.0.embedding.vector": [9.0],
    }
    assert trace(chain(), span("e", "r", "EMBEDDING", attributes=embedded)).query_embedding is None


FILTER = {"operator": "AND", "conditions": [
    {"field": "meta.tenant", "operator": "==", "value": "acme"},
    {"field": "meta.locale", "operator": "==", "value": "en-US"},
]}  # fmt: skip


def filtered(**settings: Any) -> tuple[str | None, str | None]:
    taken: dict[str, AttributeValue] = {
        "input.value": json.dumps({"filters": FILTER}),
        "retrieval.documents": [],
    }
    applied = trace(chain(), span("x", "r", "RETRIEVER", attributes=taken), **settings).retrievals[0].filter
    assert applied is not None
    parts = (applied.entitlement, applied.relevance)
    return tuple(None if part is None else to_text(part) for part in parts)  # type: ignore[return-value]


def test_a_filter_logged_as_one_is_split_by_the_configured_fields() -> None:
    assert filtered() == (None, "tenant = acme and locale = en-US")
    assert filtered(entitlement_fields={"tenant"}) == ("tenant = acme", "locale = en-US")
    assert filtered(entitlement_fields={"acl"}) == ("everything", "tenant = acme and locale = en-US")


def test_a_filter_belongs_to_its_own_retrieval_and_those_below() -> None:
    said: dict[str, AttributeValue] = {"rag.filter.relevance": [{"field": "locale", "value": "en-US"}]}
    one = trace(
        chain(),
        span("t", "r", "TOOL", attributes=said),
        span("x", "t", "RETRIEVER", 1, attributes=documents("a")),
        span("y", "r", "RETRIEVER", 2, attributes=documents("b")),
    )
    assert [found.filter is None for found in one.retrievals] == [False, True]


def test_a_filter_that_cannot_be_parsed_is_kept_as_text() -> None:
    said: dict[str, AttributeValue] = {"rag.filter.relevance": "locale LIKE 'en%'", "retrieval.documents": []}
    one = trace(chain(), span("x", "r", "RETRIEVER", attributes=said))
    applied = one.retrievals[0].filter
    assert applied is not None
    assert (applied.relevance, applied.text) == (None, "locale LIKE 'en%'")
    assert Flag.FILTER_UNPARSED in one.flags


def test_slices_session_and_versions_from_the_metadata() -> None:
    logged = json.dumps(
        {"tenant": "acme", "language": "de", "session_id": "s9", "index_version": "i7", "team": "x"}
    )
    one = trace(
        chain(metadata=logged),
        slice_keys={"tenant": ("tenant",), "locale": ("locale", "language"), "team": ("team",)},
    )
    assert one.slices == {"service": "kb", "tenant": "acme", "locale": "de", "team": "x"}
    assert one.session == "s9"
    assert one.versions.index == "i7"
    assert one.sources["slices.locale"] == "openinference metadata.language"


def test_rag_attributes_outrank_all_others_wherever_they_are() -> None:
    one = trace(
        chain(metadata='{"tenant": "from metadata"}'),
        span(
            "m",
            "r",
            "LLM",
            attributes={"rag.answer.text": "as given", "rag.query.text": "as asked", "rag.tenant.id": "t"},
        ),
    )
    assert (one.query, one.answer, one.slices["tenant"]) == ("as asked", "as given", "t")
    assert one.sources["query"] == "rag rag.query.text"


def test_feedback_by_link_and_on_the_spans_themselves() -> None:
    verdict: dict[str, AttributeValue] = {
        "annotations.0.annotation.name": "user_feedback",
        "annotations.0.annotation.label": "thumbs_down",
    }
    later = span(
        "f", None, "EVALUATOR", 9_000,
        attributes={"trace.annotations.0.annotation.name": "user_feedback",
                    "trace.annotations.0.annotation.label": "regenerate"},
        trace_id="f" * 32, links=(SpanLink(TRACE, "r", {}),),
    )  # fmt: skip
    one = trace(later, chain(**{name.replace(".", "__"): value for name, value in verdict.items()}))
    assert [found.label for found in one.feedback] == ["thumbs_down", "regenerate"]
    assert one.duration_s == pytest.approx(0.1)


def test_flags_of_loss_and_skew() -> None:
    one = trace(
        chain(),
        span("x", "r", "RETRIEVER", -2_000, attributes=documents("a"), service="other", dropped_attributes=3),
        span("m", "r", "LLM", dropped_events=1),
    )
    assert {Flag.ATTRS_DROPPED, Flag.EVENTS_DROPPED, Flag.CLOCK_SKEW} <= one.flags
    assert Flag.CLOCK_SKEW not in trace(chain(), span("m", "r", "LLM", -2_000)).flags


@pytest.mark.parametrize(
    ("state", "probability"),
    [
        ("", 1.0),
        ("ot=th:0", 1.0),
        ("ot=th:8", 0.5),
        ("x=y, ot=rv:1;th:c", 0.25),
        ("ot=th:nonsense", 1.0),
        ("th=8", 1.0),
    ],
)
def test_upstream_sampling(state: str, probability: float) -> None:
    one = trace(chain(), span("m", "r", "LLM", trace_state=state))
    assert one.sampling_probability == probability


def test_stages_side_by_side_count_once() -> None:
    one = trace(
        chain(),
        span("x", "r", "RETRIEVER", 0, 20, attributes=documents("a")),
        span("y", "r", "RETRIEVER", 10, 20, attributes=documents("b")),
        span("z", "r", "RETRIEVER", 50, 10, attributes=documents("c")),
    )
    assert one.stage_durations_s["retrieval"] == pytest.approx(0.04)


def test_a_lone_retrieval_is_a_fragment_and_its_query_is_known() -> None:
    one = trace(span("x", "lost", "RETRIEVER", attributes={"input.value": "q", **documents("a")}))
    assert one.completeness is Completeness.FRAGMENT
    assert one.query == "q"
    assert {Flag.NO_ROOT, Flag.ORPHAN_PARENT} <= one.flags
    assert Flag.CONTENT_NOT_CAPTURED not in one.flags


@pytest.mark.parametrize(
    "hostile",
    [
        "\x00",
        "{" * 5000,
        "[" * 5000,
        "9" * 5000,
        '{"messages": 7}',
        "null",
        "",
        r'{"question": "\ud800", "a": NaN}',
        r'["\ud800"]',
        "[NaN]",
    ],
)
def test_any_text_anywhere_is_survived(hostile: str) -> None:
    names = ["input.value", "output.value", "metadata", "session.id", "user.id", "rag.filter.relevance",
             "rag.citations", "rag.query.embedding", "gen_ai.retrieval.documents",
             "retrieval.documents.0.document.metadata",
             "llm.prompt_template.variables", "gen_ai.output.messages"]  # fmt: skip
    for mime in ("application/json", "text/plain"):
        everything: dict[str, AttributeValue] = dict.fromkeys(names, hostile)
        everything |= {"input.mime_type": mime, "output.mime_type": mime}
        for kind in ("CHAIN", "RETRIEVER", "LLM"):
            one = normalise(
                span("r", None, kind, attributes=everything),
                span("x", "r", "RETRIEVER", attributes=everything),
            )
            assert one is not None
            assert RagTrace.model_validate_json(one.model_dump_json()) == one


@pytest.mark.part("shared")
def test_every_capture_is_survived_whatever_it_speaks(shared: Path) -> None:
    paths = sorted((shared / "fixtures" / "otlp").glob("*.requests.jsonl"))
    assert len(paths) > 20
    normaliser = Normaliser(NormaliseSettings())
    for path in paths:
        assembler = Assembler(AssemblySettings())
        sent = set()
        for batch in read_batches([path]):
            assembler.add(batch, now=0.0)
            sent.update((one.trace_id, one.span_id) for one in batch.spans)
        requests = assembler.flush(now=1.0)
        assert {(one.trace_id, one.span_id) for request in requests for one in request.spans} == sent, (
            path.name
        )
        for found in map(normaliser.normalise, requests):
            assert found is None or RagTrace.model_validate_json(found.model_dump_json()) == found


def test_raw_output_in_another_order_lends_no_ids() -> None:
    """Texts of the attributes say which document is which; a text cut short still does."""
    name = "retrieval.documents"
    attributes = {f"{name}.0.document.content": "5 da", f"{name}.1.document.content": "14 days"}
    for texts, ids in ((("5 days", "14 days"), ["a", "b"]), (("14 days", "5 days"), None)):
        raw = [{"id": id_, "page_content": text} for id_, text in zip("ab", texts, strict=True)]
        told = {**attributes, "output.value": json.dumps({"documents": raw})}
        one = trace(chain(), span("x", "r", "RETRIEVER", 10, 20, attributes=told))
        found = one.retrievals[0].documents
        assert found is not None
        sources = {document.id_source for document in found}
        if ids is None:
            assert sources == {IdSource.DERIVED}
        else:
            assert [document.id for document in found] == ids


def test_metadata_ids_and_scores_that_are_none() -> None:
    given: dict[str, AttributeValue] = {}
    for place, metadata in enumerate(
        ({"id": True, "doc_id": "a", "relevance_score": 1}, {"id": "", "doc_id": 7, "relevance_score": "0.4"})
    ):
        given[f"retrieval.documents.{place}.document.metadata"] = json.dumps(metadata)
    one = trace(chain(), span("x", "r", "RETRIEVER", 10, 20, attributes=given))
    found = one.retrievals[0].documents or ()
    assert [(document.id, document.score) for document in found] == [("a", 1.0), ("7", 0.4)]
    assert {document.score_kind for document in found} == {ScoreKind.RERANK}


def test_a_reranking_that_is_not_told_is_unknown_and_not_absent() -> None:
    retriever = span("x", "r", "RETRIEVER", 10, 20, attributes=documents("a", "b"))
    hidden = span("y", "r", "RERANKER", 40, 10)
    one = trace(chain(), retriever, hidden)
    assert one.reranked is None
    assert Flag.DOCS_UNKNOWN in one.flags
    told = span("w", "r", "RERANKER", 30, 10, attributes=documents("b", prefix="reranker.output_documents"))
    assert Flag.DOCS_UNKNOWN not in trace(chain(), retriever, told).flags
    assert Flag.DOCS_UNKNOWN in trace(chain(), retriever, told, hidden).flags
    assert Flag.DOCS_UNKNOWN not in trace(chain(), retriever).flags
