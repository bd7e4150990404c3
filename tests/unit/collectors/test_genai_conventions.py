"""OpenTelemetry GenAI and OpenLLMetry: old names and new, messages wherever they stand, what was lost on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.conventions import Field, SpanKind, kind_of, read
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent
from collectors.trace import Completeness, Flag, RagTrace

LLAMAINDEX = Scope("opentelemetry.instrumentation.llamaindex", "0.62.4")
CHAT: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat"}


def span(
    attributes: dict[str, AttributeValue], *events: tuple[str, dict[str, AttributeValue]], **more: Any
) -> Span:
    told = tuple(SpanEvent(name, 5, said) for name, said in events)
    more = {"span_id": "1" * 16, "parent_id": None, "trace_id": "a" * 32, "start_ns": 0, "end_ns": 9, **more}
    return Span(name="step", attributes=attributes, events=told, **more)


def value(field: Field, one: Span) -> Any:
    reading = read(field, one, set())
    return None if reading is None else reading.value


def traced(*spans: Span) -> RagTrace:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(spans), now=0.0)
    (request,) = assembler.flush(now=1.0)
    trace = Normaliser(NormaliseSettings()).normalise(request)
    assert trace is not None
    return trace


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.system": "openai", "gen_ai.request.model": "m"}, SpanKind.LLM),
        ({"gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}, SpanKind.LLM),
        (
            {"gen_ai.system": "openai", "gen_ai.request.model": "m", "llm.request.type": "completion"},
            SpanKind.LLM,
        ),
        (
            {"gen_ai.system": "openai", "gen_ai.request.model": "m", "llm.request.type": "embedding"},
            SpanKind.EMBEDDING,
        ),
        (
            {"llm.request.type": "rerank", "gen_ai.system": "cohere", "gen_ai.request.model": "m"},
            SpanKind.RERANKER,
        ),
        ({"gen_ai.operation.name": "embedding"}, SpanKind.EMBEDDING),
        ({"gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai"}, SpanKind.CHAIN),
        ({"gen_ai.operation.name": "vector_db_retrieve", "traceloop.span.kind": "task"}, SpanKind.RETRIEVER),
        ({"gen_ai.operation.name": "execute_task", "traceloop.span.kind": "task"}, None),
        ({"traceloop.span.kind": "workflow"}, SpanKind.WORKFLOW),
        ({"traceloop.span.kind": "tool"}, SpanKind.TOOL),
        ({"traceloop.span.kind": ["workflow"]}, None),
        ({"traceloop.span.kind": "unknown"}, None),
    ],
)
def test_kinds(attributes: dict[str, AttributeValue], kind: SpanKind | None) -> None:
    assert kind_of(span(attributes)) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("VectorIndexRetriever.task", SpanKind.RETRIEVER),
        ("CohereRerank.task", SpanKind.RERANKER),
        ("LLMRerank.task", SpanKind.RERANKER),
        ("FakeLLM.workflow", SpanKind.LLM),
        ("RetrieverQueryEngine.workflow", SpanKind.WORKFLOW),
        ("CompactAndRefine.task", None),
    ],
)
def test_llamaindexs_classes_say_what_they_are(name: str, kind: SpanKind | None) -> None:
    attributes: dict[str, AttributeValue] = {
        "traceloop.entity.name": name,
        "traceloop.span.kind": name.partition(".")[2],
    }
    assert kind_of(span(attributes, scope=LLAMAINDEX)) is kind


def test_messages_by_index() -> None:
    one = span({
        **CHAT,
        "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": '[{"type": "text", "text": "How long?"}]',
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "5 days",
        "gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 2,
    })  # fmt: skip
    trace = traced(one)
    assert (trace.query, trace.answer) == ("How long?", "5 days")
    assert (trace.tokens.input, trace.tokens.output) == (7, 2)
    assert trace.sources["answer"] == "genai gen_ai.completion"


def test_new_token_names_outrank_old_ones() -> None:
    one = span({**CHAT, "gen_ai.usage.input_tokens": 8, "gen_ai.usage.prompt_tokens": 7})
    assert value(Field.INPUT_TOKENS, one) == 8


PARTS = [{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "5 days"}]}]


@pytest.mark.parametrize(
    "events",
    [
        [("gen_ai.user.message", {"content": "How long?"}),
         ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "5 days"}})],
        [("gen_ai.user.message", {"gen_ai.event.content": '{"role": "user", "content": "How long?"}'}),
         ("gen_ai.choice", {"gen_ai.event.content": '{"message": {"content": "5 days"}, "index": 0}'})],
        [("gen_ai.user.message", {"body": "How long?"}), ("gen_ai.choice", {"message": '{"content": "5 days"}'})],
        [("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "How long?"}]'}),
         ("gen_ai.content.completion", {"gen_ai.completion": '[{"role": "assistant", "content": "5 days"}]'})],
        [("gen_ai.content.prompt", {"gen_ai.prompt": "How long?"}),
         ("gen_ai.content.completion", {"gen_ai.completion": "5 days"})],
        [("gen_ai.client.inference.operation.details",
          {"gen_ai.input.messages": json.dumps(PARTS), "gen_ai.output.messages": json.dumps(SAID)})],
    ],
)  # fmt: skip
def test_messages_in_events(events: list[tuple[str, dict[str, AttributeValue]]]) -> None:
    trace = traced(span(CHAT, *events))
    assert (trace.query, trace.answer) == ("How long?", "5 days")
    assert trace.sources["answer"].startswith("genai_events gen_ai.")
    assert trace.completeness is Completeness.COMPLETE


def test_attributes_outrank_events() -> None:
    one = span(
        {**CHAT, "gen_ai.output.messages": json.dumps(SAID)},
        ("gen_ai.choice", {"message": {"content": "another"}}),
    )
    assert value(Field.OUTPUT, one) == "5 days"


def test_the_last_question_of_a_talk_is_the_question() -> None:
    asked: list[tuple[str, dict[str, AttributeValue]]] = [
        ("gen_ai.user.message", {"content": text}) for text in ("How long?", "And by mail?")
    ]
    assert value(Field.INPUT, span(CHAT, *asked)) == "And by mail?"


def test_a_call_of_a_tool_is_no_answer() -> None:
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "t", "arguments": {"text": "x"}}]}]
    assert value(Field.OUTPUT, span({**CHAT, "gen_ai.output.messages": json.dumps(calls)})) is None
    choice: dict[str, AttributeValue] = {"message": {"tool_calls": [{"function": {"name": "t"}}]}}
    assert value(Field.OUTPUT, span(CHAT, ("gen_ai.choice", choice))) is None


def test_a_stream_that_lost_its_role_still_answers() -> None:
    given = [{"role": "unknown", "parts": [{"type": "text", "content": "5 days"}]}]
    assert value(Field.OUTPUT, span({**CHAT, "gen_ai.output.messages": json.dumps(given)})) == "5 days"


def test_no_model_is_called_unknown() -> None:
    attributes: dict[str, AttributeValue] = {
        **CHAT,
        "gen_ai.response.model": "unknown",
        "gen_ai.request.model": "m",
    }
    assert value(Field.MODEL, span(attributes)) == "m"


def test_documents_need_neither_id_nor_score() -> None:
    """open-telemetry/semantic-conventions-genai 344."""
    given = [{"content": "5 days"}, {"id": "kb-2"}, {"id": None, "score": None}, {}]
    trace = traced(
        span({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(given)})
    )
    assert trace.retrievals[0].documents is not None
    assert [one.id_source for one in trace.retrievals[0].documents] == ["derived", "logged", None, None]
    assert {Flag.DERIVED_IDS, Flag.NO_SCORES} <= trace.flags


def test_values_that_were_omitted_for_their_size_are_flagged() -> None:
    """traceloop/openllmetry 3211: over a million characters neither input nor output was set."""
    workflow = span({"traceloop.span.kind": "workflow", "gen_ai.operation.name": "invoke_agent"})
    retriever = span({"gen_ai.operation.name": "vector_db_retrieve"}, span_id="2" * 16, parent_id="1" * 16)
    trace = traced(workflow, retriever)
    assert {Flag.CONTENT_NOT_CAPTURED, Flag.DOCS_UNKNOWN} <= trace.flags
    assert trace.retrievals[0].documents is None


def test_json_that_was_cut_is_flagged_and_not_half_read() -> None:
    whole = json.dumps({"documents": [{"page_content": "5 days" * 50}], "count": 1})
    retriever = span(
        {
            "gen_ai.operation.name": "vector_db_retrieve",
            "traceloop.entity.input": '{"query": "How long?"}',
            "traceloop.entity.output": whole[:100],
        }
    )
    trace = traced(retriever)
    assert trace.query == "How long?"
    assert {Flag.TRUNCATED_JSON, Flag.DOCS_UNKNOWN} <= trace.flags


def test_association_properties_outlive_hidden_content() -> None:
    workflow = span({
        "traceloop.span.kind": "workflow",
        "traceloop.association.properties.session_id": "sess-1",
        "traceloop.association.properties.user_id": "u-1",
        "traceloop.association.properties.tenant": "acme",
        "traceloop.association.properties.prompt_version": "kb@7",
    })  # fmt: skip
    trace = traced(workflow)
    assert (trace.session, trace.slices["tenant"], trace.versions.prompt) == ("sess-1", "acme", "kb@7")
    assert trace.user_hash is not None
    assert trace.sources["session"] == "openllmetry traceloop.association.properties.session_id"


def test_a_streams_question_is_told_with_its_end() -> None:
    workflow = span({
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": '{"inputs": {"input": ""}, "metadata": {"topic": "x"}}',
        "traceloop.entity.output": '{"outputs": "5 days", "kwargs": {"inputs": {"question": "How long?"}}}',
    })  # fmt: skip
    trace = traced(workflow)
    assert (trace.query, trace.answer) == ("How long?", "5 days")
    assert trace.sources["query"] == "openllmetry traceloop.entity.output"


def test_context_comes_from_the_prompts_variables() -> None:
    workflow = span({"gen_ai.operation.name": "invoke_workflow"})
    chat = span(
        {**CHAT, "gen_ai.prompt.variable.context": "", "gen_ai.prompt.variable.question": "How long?"},
        span_id="2" * 16,
        parent_id="1" * 16,
    )
    assert traced(workflow, chat).context == ()


def test_pipelines_tell_what_their_steps_gave() -> None:
    outputs = {
        "retriever": {"documents": [{"id": "a", "score": 0.5}, {"id": "b", "score": 0.4}]},
        "ranker": {"documents": [{"id": "b", "score": 0.9}]},
        "llm": {
            "replies": ["5 days"],
            "meta": [{"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}],
        },
    }
    workflow = span({"traceloop.span.kind": "workflow", "traceloop.entity.output": json.dumps(outputs)})

    def step(number: str, name: str, kind: str) -> Span:
        attributes: dict[str, AttributeValue] = {
            "haystack.component.name": name,
            "haystack.component.type": kind,
        }
        found = span(attributes, span_id=number * 16, parent_id="1" * 16)
        found.name = "haystack.component.run"
        return found

    trace = traced(
        workflow, step("2", "retriever", "QdrantEmbeddingRetriever"), step("3", "ranker", "CohereRanker")
    )
    assert trace.retrievals[0].documents is not None
    assert [one.id for one in trace.retrievals[0].documents] == ["a", "b"]
    assert trace.reranked is not None
    assert trace.reranked.documents is not None
    assert [(one.id, one.score_kind) for one in trace.reranked.documents] == [("b", "rerank")]
    assert (trace.answer, trace.versions.model) == ("5 days", "m")
    assert (trace.tokens.input, trace.tokens.output) == (3, 2)


def test_semantic_kernels_own_operation_and_counts() -> None:
    """microsoft/semantic-kernel, model_diagnostics: content in events of the span, a role with a capital."""
    trace = traced(
        span(
            {
                "gen_ai.operation.name": "chat.completions",
                "gen_ai.system": "openai",
                "gen_ai.request.model": "m",
                "gen_ai.response.prompt_tokens": 4,
                "gen_ai.response.completion_tokens": 5,
            },
            ("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "How long?"}]'}),
            (
                "gen_ai.content.completion",
                {"gen_ai.completion": '[{"role": "Assistant", "content": "5 days"}]'},
            ),
        )
    )
    assert (trace.query, trace.answer, trace.tokens.input, trace.tokens.output) == (
        "How long?",
        "5 days",
        4,
        5,
    )
    assert Flag.CONTENT_NOT_CAPTURED not in trace.flags
