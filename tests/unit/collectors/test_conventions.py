"""What single spans mean, convention by convention."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.conventions import Field, SpanKind, has_answer, has_feedback, kind_of, read
from collectors.conventions.messages import answer_in, question_in
from collectors.predicate import ALL, to_text
from collectors.span import AttributeValue, Span, SpanEvent, StatusCode
from collectors.trace import Citation, Flag, IdSource, ScoreKind


def span(attributes: dict[str, AttributeValue], parent: str | None = "p" * 16, **more: Any) -> Span:
    return Span("a" * 32, "1" * 16, parent, "step", 1_000, 2_000, attributes, **more)


def value(field: Field, attributes: dict[str, AttributeValue], **more: Any) -> tuple[Any, set[Flag]]:
    flags: set[Flag] = set()
    reading = read(field, span(attributes, **more), flags)
    return (None if reading is None else reading.value), flags


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"openinference.span.kind": "RETRIEVER"}, SpanKind.RETRIEVER),
        ({"openinference.span.kind": "LLM", "llm.model_name": "m"}, SpanKind.LLM),
        ({"openinference.span.kind": "LLM"}, SpanKind.LLM),
        ({"openinference.span.kind": "LLM", "llm.prompt_template.template": "{q}"}, SpanKind.PROMPT),
        (
            {"openinference.span.kind": "LLM", "llm.prompt_template.template": "{q}", "llm.model_name": "m"},
            SpanKind.LLM,
        ),
        ({"openinference.span.kind": "UNKNOWN"}, None),
        ({"openinference.span.kind": 7}, None),
        ({"openinference.span.kind": ["LLM"]}, None),
        ({"gen_ai.operation.name": "invoke_workflow"}, SpanKind.WORKFLOW),
        ({"gen_ai.operation.name": "chat"}, SpanKind.LLM),
        ({"gen_ai.operation.name": "create_agent"}, None),
        ({"rag.query.text": "q"}, SpanKind.WORKFLOW),
        ({"rag.filter.relevance": "[]"}, SpanKind.RETRIEVER),
        ({"rag.query.text": "q", "openinference.span.kind": "CHAIN"}, SpanKind.CHAIN),
        ({"http.route": "/chat"}, None),
    ],
)
def test_kinds(attributes: dict[str, AttributeValue], kind: SpanKind | None) -> None:
    assert kind_of(span(attributes)) is kind


def test_answers_are_said_by_models_and_roots() -> None:
    output: dict[str, AttributeValue] = {"output.value": "5 days"}
    assert has_answer(span(output), SpanKind.LLM)
    assert has_answer(span(output, parent=None), SpanKind.CHAIN)
    assert not has_answer(span(output), SpanKind.CHAIN)
    assert not has_answer(span(output), SpanKind.RETRIEVER)
    assert not has_answer(span({}), SpanKind.LLM)
    assert has_answer(span({}, status=StatusCode.ERROR), SpanKind.LLM)
    assert has_answer(span({"rag.answer.text": ""}), None)


def test_precedence_is_per_field() -> None:
    attributes: dict[str, AttributeValue] = {
        "input.value": "from io",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "from genai"}]}],
    }
    reading = read(Field.INPUT, span(attributes), set())
    assert reading == ("from genai", "genai gen_ai.input.messages")
    attributes["llm.input_messages.0.message.role"] = "user"
    attributes["llm.input_messages.0.message.content"] = "from openinference"
    assert read(Field.INPUT, span(attributes), set()) == (
        "from openinference",
        "openinference llm.input_messages",
    )


@pytest.mark.parametrize(
    ("payload", "question"),
    [
        ("How long?", "How long?"),
        ("", None),
        (" ", None),
        ({"question": "How long?", "history": ["x"]}, "How long?"),
        ({"message": "How long?"}, "How long?"),
        ({"query_bundle": {"query_str": "How long?", "embedding": None}}, "How long?"),
        ({"input": {"question": "How long?"}}, "How long?"),
        ({"kwargs": {"query": "How long?"}, "args": []}, "How long?"),
        ({"input": ""}, None),
        (
            {"data": {"embedder": {"text": "How long?"}, "retriever": {"filters": {"operator": "AND"}}}},
            "How long?",
        ),
        ({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "How long?"}]}, "How long?"),
        ({"messages": [{"type": "human", "data": {"content": "How long?"}}, {"type": "ai", "data": {}}]}, "How long?"),
        ([{"lc": 1, "type": "constructor", "id": ["l", "HumanMessage"], "kwargs": {"content": "How long?"}}],
         "How long?"),
        ([{"role": "user", "content": [{"type": "text", "text": "How "}, {"type": "text", "text": "long?"}]}],
         "How long?"),
        (["one", "two"], None),
        (7, None),
        ({"filters": None}, None),
    ],
)  # fmt: skip
def test_questions_in_payloads(payload: object, question: str | None) -> None:
    assert question_in(payload) == question


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        ("5 days", "5 days"),
        ("<generator object stream at 0x7f00>", None),
        ("<async_generator object stream at 0x7f00>", None),
        ({"response_gen": "<generator object>", "source_nodes": []}, None),
        ({"response": "5 days", "source_nodes": ["x"]}, "5 days"),
        ({"question": "q", "docs": [], "answer": "5 days"}, "5 days"),
        ({"retriever": {"documents": []}, "llm": {"replies": ["5 days"], "meta": [{}]}}, "5 days"),
        ({"llm": {"replies": [{"role": "assistant", "content": [{"text": "5 days"}]}]}}, "5 days"),
        ({"messages": [{"type": "human", "data": {"content": "q"}}, {"type": "ai", "data": {"content": "5 days"}}]},
         "5 days"),
        ({"type": "ai", "data": {"content": "5 days"}}, "5 days"),
        ({"generations": [[{"text": "5 days", "message": {}}]]}, "5 days"),
        ({"generations": [[]]}, None),
        ({"choices": [{"message": {"role": "assistant", "content": "5 days"}}]}, "5 days"),
        ({"replies": ["one", "two"]}, None),
        ({"documents": []}, None),
    ],
)  # fmt: skip
def test_answers_in_payloads(payload: object, answer: str | None) -> None:
    assert answer_in(payload) == answer


def test_payloads_of_hostile_depth_end() -> None:
    nested: Any = "deep"
    for _ in range(10_000):
        nested = {"input": nested}
    assert question_in(nested) is None


def test_json_cut_short_is_flagged_and_an_answer_that_begins_with_a_bracket_is_not() -> None:
    cut: dict[str, AttributeValue] = {
        "output.value": '{"answer": "5 da',
        "output.mime_type": "application/json",
    }
    assert value(Field.OUTPUT, cut) == (None, {Flag.TRUNCATED_JSON})
    assert value(Field.OUTPUT, {"output.value": "[kb-101] says 5 days"}) == ("[kb-101] says 5 days", set())
    plain: dict[str, AttributeValue] = {"output.value": '{"answer": 1}', "output.mime_type": "text/plain"}
    assert value(Field.OUTPUT, plain) == ('{"answer": 1}', set())


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (Field.INPUT, "input.value"),
        (Field.OUTPUT, "output.value"),
        (Field.DOCUMENTS, "output.value"),
        (Field.OUTPUT, "llm.output_messages.0.message.content"),
        (Field.QUERY, "rag.query.text"),
        (Field.CONTEXT, "rag.context.text"),
        (Field.METADATA, "metadata"),
    ],
)
def test_hidden_content_is_flagged(field: Field, name: str) -> None:
    attributes: dict[str, AttributeValue] = {name: "__REDACTED__"}
    if name.startswith("llm."):
        attributes["llm.output_messages.0.message.role"] = "assistant"
    assert value(field, attributes) == (None, {Flag.REDACTED})


@pytest.mark.parametrize(
    "attributes",
    [
        {"retrieval.documents": []},
        {"output.value": "[]"},
        {"output.value": '{"documents": []}', "output.mime_type": "application/json"},
        {"gen_ai.retrieval.documents": []},
        {"gen_ai.retrieval.documents": "[]"},
    ],
)
def test_forms_of_no_documents(attributes: dict[str, AttributeValue]) -> None:
    assert value(Field.DOCUMENTS, attributes) == ((), set())


def test_absent_documents_are_unknown() -> None:
    assert value(Field.DOCUMENTS, {"openinference.span.kind": "RETRIEVER"}) == (None, set())


def test_openinference_documents_keep_holes() -> None:
    documents, _ = value(
        Field.DOCUMENTS,
        {
            "retrieval.documents.2.document.id": "c",
            "retrieval.documents.2.document.score": 0.5,
            "retrieval.documents.2.document.metadata": '{"tenant": "acme"}',
            "retrieval.documents.0.document.content": "first",
            "retrieval.documents.x.document.id": "no index",
            "retrieval.documents.9999999999.document.id": "absurd index",
        },
    )
    assert [one.id for one in documents] == [None, None, "c"]
    assert documents[0].text == "first"
    assert documents[2][1:] == (IdSource.LOGGED, 0.5, ScoreKind.SIMILARITY, {"tenant": "acme"}, None)


def test_an_index_bomb_is_packed() -> None:
    documents, _ = value(Field.DOCUMENTS, {"retrieval.documents.999999999.document.id": "a"})
    assert [one.id for one in documents] == ["a"]


def test_printed_documents() -> None:
    printed = [
        "<NodeWithScore(node=TextNode(id_=kb-302), score=0.3582735207334928)>",
        "Document(id=kb-104, content: 'a, b', meta: {'score': 1}, score: 0.25)",
        "something else",
    ]
    documents, _ = value(Field.DOCUMENTS, {"output.value": json.dumps(printed)})
    assert [(one.id, one.score) for one in documents] == [
        ("kb-302", 0.3582735207334928),
        ("kb-104", 0.25),
        (None, None),
    ]


def test_rag_attributes() -> None:
    logged: dict[str, AttributeValue] = {
        "rag.filter.entitlement": [{"field": "tenant", "op": "eq", "value": "acme"}],
        "rag.filter.relevance": "[]",
        "rag.query.embedding": [0.5, 1, 0.0],
        "rag.citations": '[{"document_id": "kb-101", "start": 3, "end": 9}, {"start": 1}, {"document_id": "kb-102"}]',
        "rag.context.text": ["one", "two"],
        "rag.context.document_ids": '["a", "b"]',
        "rag.gold.document_ids": [],
        "rag.cache.hit": True,
        "rag.cache.layer": "answer",
        "rag.answer.text": "",
        "rag.answer.refused": True,
        "rag.rerank.documents": '[{"id": "kb-104", "score": 0.2}]',
        "rag.rerank.input_document_ids": ["kb-104", "kb-103"],
    }
    assert to_text(value(Field.ENTITLEMENT, logged)[0]) == "tenant = acme"
    assert value(Field.RELEVANCE, logged) == (ALL, set())
    assert value(Field.QUERY_EMBEDDING, logged) == ((0.5, 1.0, 0.0), set())
    assert value(Field.CITATIONS, logged)[0] == (
        Citation(document_id="kb-101", start=3, end=9),
        Citation(document_id="kb-102"),
    )
    assert value(Field.CONTEXT, logged)[0] == ("one", "two")
    assert value(Field.CONTEXT_IDS, logged)[0] == ("a", "b")
    assert value(Field.GOLD_IDS, logged)[0] == ()
    assert value(Field.CACHE_HIT, logged)[0] == ("answer", True)
    assert value(Field.ANSWER, logged)[0] == ""
    assert value(Field.REFUSED, logged)[0] is True
    assert [one.score_kind for one in value(Field.RERANKED, logged)[0]] == [ScoreKind.RERANK]
    assert [one.id for one in value(Field.RERANK_INPUT, logged)[0]] == ["kb-104", "kb-103"]


@pytest.mark.parametrize(
    "logged",
    ["tenant:acme", '{"tenant": "acme"}', '[{"field": "a", "op": "like", "value": "x"}]', '[{"field"'],
)
def test_a_filter_that_cannot_be_parsed_stays_text(logged: str) -> None:
    said, flags = value(Field.RELEVANCE, {"rag.filter.relevance": logged})
    assert said == logged
    assert Flag.FILTER_UNPARSED in flags


@pytest.mark.parametrize("embedding", [[], "[]", "text", [0.1, "x"], [0.1, float("nan")], '{"a": 1}'])
def test_what_is_no_vector_is_none(embedding: Any) -> None:
    assert value(Field.QUERY_EMBEDDING, {"rag.query.embedding": embedding})[0] is None


def test_haystack_filters_from_the_component_input() -> None:
    tree = {"operator": "AND", "conditions": [{"field": "meta.tenant", "operator": "==", "value": "acme"}]}
    taken = json.dumps({"query_embedding": "<48-dimensional vector>", "filters": tree, "top_k": 5})
    attributes: dict[str, AttributeValue] = {"input.value": taken, "input.mime_type": "application/json"}
    assert to_text(value(Field.FILTER, attributes)[0]) == "tenant = acme"
    assert value(Field.TOP_K, attributes)[0] == 5
    none: dict[str, AttributeValue] = {"input.value": '{"filters": null, "top_k": null}'}
    assert value(Field.FILTER, none) == (None, set())
    odd: dict[str, AttributeValue] = {"input.value": '{"filters": {"operator": "XOR", "conditions": []}}'}
    assert value(Field.FILTER, odd) == ('{"operator": "XOR", "conditions": []}', {Flag.FILTER_UNPARSED})


def annotated(**annotation: AttributeValue) -> dict[str, AttributeValue]:
    return {f"annotations.0.annotation.{name}": said for name, said in annotation.items()}


def test_feedback_by_annotation() -> None:
    said, _ = value(Field.FEEDBACK, annotated(name="user_feedback", label="regenerate"))
    assert [(one.label, one.score, one.time_ns) for one in said] == [("regenerate", None, 1_000)]
    said, _ = value(Field.FEEDBACK, annotated(name="user_feedback", score=0.0))
    assert [(one.label, one.score) for one in said] == [("thumbs_down", 0.0)]
    judged = annotated(name="faithfulness", label="unfaithful", annotator_kind="LLM")
    assert value(Field.FEEDBACK, judged)[0] is None
    assert has_feedback(span(judged))
    assert not has_feedback(span({"openinference.span.kind": "EVALUATOR"}))


def test_feedback_by_event() -> None:
    told = SpanEvent(
        "gen_ai.evaluation.result",
        7,
        {
            "gen_ai.evaluation.name": "user_feedback",
            "gen_ai.evaluation.score.label": "thumbs_up",
            "gen_ai.evaluation.score.value": 1.0,
        },
    )
    judged = SpanEvent("gen_ai.evaluation.result", 8, {"gen_ai.evaluation.name": "relevance"})
    said, _ = value(Field.FEEDBACK, {}, events=(judged, told))
    assert [(one.label, one.score, one.time_ns) for one in said] == [("thumbs_up", 1.0, 7)]


def test_multi_part_messages() -> None:
    attributes: dict[str, AttributeValue] = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "How long?",
        "llm.input_messages.0.message.contents.1.message_content.type": "image",
    }
    assert value(Field.INPUT, attributes)[0] == "How long?"


def test_genai_names_old_and_new() -> None:
    assert value(Field.TOP_K, {"gen_ai.request.top_k": 3})[0] == 3
    assert value(Field.TOP_K, {"gen_ai.retrieval.top_k": 5, "gen_ai.request.top_k": 3})[0] == 5
    assert (
        value(Field.PROMPT_VERSION, {"gen_ai.prompt.name": "kb", "gen_ai.prompt.version": "7"})[0] == "kb@7"
    )
    assert value(Field.FIRST_TOKEN_NS, {"gen_ai.response.time_to_first_chunk": 0.5})[0] == 1_000 + 500_000_000
    embedder: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "e5",
    }
    assert value(Field.ENCODER_VERSION, embedder)[0] == "e5"
    assert value(Field.MODEL, embedder)[0] is None


def test_parts_of_a_message_are_read_in_the_order_of_their_numbers() -> None:
    """Ten parts and more sort otherwise as texts: "10" before "2"."""
    parts: dict[str, AttributeValue] = {"llm.input_messages.0.message.role": "user"}
    for index in (10, 2, 0, 1):
        name = f"llm.input_messages.0.message.contents.{index}.message_content"
        parts |= {f"{name}.type": "text", f"{name}.text": f"<{index}>"}
    parts["llm.input_messages.0.message.contents.1.message_content.type"] = "image"
    assert value(Field.INPUT, parts) == ("<0><2><10>", set())


def test_numbers_and_metadata_that_were_written_as_text() -> None:
    name = "retrieval.documents.0.document"
    (found,), flags = value(
        Field.DOCUMENTS,
        {f"{name}.id": 7, f"{name}.score": "0.83", f"{name}.metadata": "{'tenant': 'acme', 'draft': False}"},
    )
    assert (found.id, found.score, found.metadata) == ("7", 0.83, {"tenant": "acme", "draft": False})
    assert flags == set()
    assert value(Field.INPUT_TOKENS, {"gen_ai.usage.input_tokens": "12"}) == (12, set())
    assert value(Field.INPUT_TOKENS, {"gen_ai.usage.input_tokens": "-1"}) == (None, set())
    assert value(Field.INPUT_TOKENS, {"gen_ai.usage.input_tokens": "many"}) == (None, set())


@pytest.mark.parametrize(
    "logged",
    [
        [{"id": "kb-1", "score": 0.9, "content": "5 days", "metadata": {"tenant": "acme"}}],
        '[{"document_id": "kb-1", "score": "0.9", "text": "5 days", "metadata": "{\\"tenant\\": \\"acme\\"}"}]',
        "[{'id': 'kb-1', 'score': 0.9, 'content': '5 days', 'metadata': {'tenant': 'acme'}}]",
        "[Document(id='kb-1', score=0.9, metadata={'tenant': 'acme'}, page_content='5 days')]",
    ],
)
def test_genai_documents_however_a_service_writes_them(logged: Any) -> None:
    (found,), flags = value(Field.DOCUMENTS, {"gen_ai.retrieval.documents": logged})
    assert (found.id, found.score, found.text, found.metadata) == ("kb-1", 0.9, "5 days", {"tenant": "acme"})
    assert flags == set()


@pytest.mark.parametrize("cut", ['[{"id": "kb-1", "sc', "[{'id': 'kb-1', 'sc", "[Document(id='kb-1', "])
def test_documents_cut_short_are_flagged_and_none(cut: str) -> None:
    assert value(Field.DOCUMENTS, {"gen_ai.retrieval.documents": cut}) == (None, {Flag.TRUNCATED_JSON})


def test_an_empty_id_is_no_id() -> None:
    (one, other), _ = value(Field.DOCUMENTS, {"gen_ai.retrieval.documents": [{"id": ""}, {"id": True}]})
    assert (one.id, one.id_source, other.id) == (None, None, None)
