"""What single spans of Langfuse, LangSmith, MLflow, LlamaIndex and Haystack mean, and what hostile ones cost."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.conventions import Field, SpanKind, has_answer, kind_of, read
from collectors.conventions.convention import FoundDocument
from collectors.conventions.payloads import documents_in
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import to_text
from collectors.span import AttributeValue, Scope, Span, SpanBatch, SpanEvent
from collectors.trace import Completeness, Flag, IdSource, RagTrace, ScoreKind

TRACE = "a" * 32
LLAMAINDEX = Scope("llamaindex.opentelemetry.tracer")
MLFLOW = Scope("mlflow.tracing.provider")
HUMAN_MESSAGE = json.dumps(
    {
        "messages": [
            [
                {
                    "lc": 1,
                    "id": ["schema", "HumanMessage"],
                    "type": "constructor",
                    "kwargs": {"content": "How long?"},
                }
            ]
        ]
    }
)


def span(attributes: Mapping[str, AttributeValue] | None = None, **more: Any) -> Span:
    made = {
        "trace_id": TRACE,
        "span_id": "1" * 16,
        "parent_id": None,
        "name": "step",
        "start_ns": 0,
        "end_ns": 9,
    }
    return Span(**{**made, **more, "attributes": dict(attributes or {})})


def value(field: Field, attributes: Mapping[str, AttributeValue], **more: Any) -> tuple[Any, set[Flag]]:
    flags: set[Flag] = set()
    reading = read(field, span(attributes, **more), flags)
    return (None if reading is None else reading.value), flags


def events(*pairs: tuple[str, Mapping[str, AttributeValue]]) -> tuple[SpanEvent, ...]:
    return tuple(SpanEvent(name, 5, attributes) for name, attributes in pairs)


def traces(*spans: Span) -> list[RagTrace]:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(spans), now=0.0)
    normaliser = Normaliser(NormaliseSettings())
    found = (normaliser.normalise(one) for one in assembler.flush(now=1.0))
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"langsmith.span.kind": "retriever", "gen_ai.operation.name": "embeddings"}, SpanKind.RETRIEVER),
        ({"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat"}, SpanKind.PROMPT),
        ({"langsmith.span.kind": "parser", "gen_ai.operation.name": "parser"}, None),
        ({"mlflow.spanType": '"CHAT_MODEL"'}, SpanKind.LLM),
        ({"mlflow.spanType": '"UNKNOWN"'}, None),
        ({"mlflow.spanType": ["CHAIN"]}, None),
        ({"gen_ai.operation.name": "RETRIEVER"}, SpanKind.RETRIEVER),
        ({"langfuse.observation.type": "generation"}, SpanKind.LLM),
        ({"langfuse.observation.type": "span"}, None),
        ({"langfuse.observation.type": "span", "langfuse.internal.is_app_root": True}, SpanKind.CHAIN),
        ({"langfuse.observation.type": 3}, None),
        ({"haystack.component.type": "InMemoryBM25Retriever"}, SpanKind.RETRIEVER),
        ({"haystack.component.type": "TransformersSimilarityRanker"}, SpanKind.RERANKER),
        ({"haystack.component.type": "OpenAIChatGenerator"}, SpanKind.LLM),
        ({"haystack.component.type": "ChatPromptBuilder"}, SpanKind.PROMPT),
        ({"haystack.component.type": "DocumentWriter"}, None),
    ],
)
def test_kinds(attributes: dict[str, AttributeValue], kind: SpanKind | None) -> None:
    assert kind_of(span(attributes)) is kind


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("RetrievalStartEvent", SpanKind.RETRIEVER),
        ("LLMPredictStartEvent", SpanKind.LLM),
        ("SynthesizeStartEvent", None),
    ],
)
def test_kinds_by_event(event: str, kind: SpanKind | None) -> None:
    assert kind_of(span(events=events((event, {})))) is kind


def test_answers_settle_a_request() -> None:
    for name in ("mlflow.spanOutputs", "gen_ai.completion", "langfuse.observation.output"):
        assert has_answer(span({name: "5 days"}), SpanKind.LLM), name
    assert has_answer(span({"haystack.pipeline.output_data": "{}"}), SpanKind.CHAIN)
    assert has_answer(span(events=events(("QueryEndEvent", {}))), SpanKind.CHAIN)
    assert not has_answer(span(events=events(("QueryStartEvent", {}))), SpanKind.CHAIN)


# Values written as JSON once or twice over, cut short, or hidden


@pytest.mark.parametrize(
    ("name", "raw", "question", "flags"),
    [
        ("mlflow.spanInputs", '"How long?"', "How long?", set()),
        ("mlflow.spanInputs", '"\\"How long?\\""', "How long?", set()),
        ("mlflow.spanInputs", '"How lo', None, {Flag.TRUNCATED_JSON}),
        ("mlflow.spanInputs", '{"question": "How lo', None, {Flag.TRUNCATED_JSON}),
        ("mlflow.spanInputs", "null", None, set()),
        ("mlflow.spanInputs", "__REDACTED__", None, {Flag.REDACTED}),
        ("langfuse.observation.input", "How long?", "How long?", set()),
        ("langfuse.observation.input", '"How long?"', "How long?", set()),
        ("langfuse.observation.input", '"Quoted," he asked', '"Quoted," he asked', set()),
        ("langfuse.observation.input", "[kb-101] what is it?", "[kb-101] what is it?", set()),
        ("langfuse.observation.input", '{"args": ["How lo', None, {Flag.TRUNCATED_JSON}),
        ("langfuse.observation.input", '[{"role": "user", "content": "How lo', None, {Flag.TRUNCATED_JSON}),
        ("langfuse.observation.input", '{"args": ["u-17", "How long?"], "kwargs": {}}', None, set()),
        ("langfuse.observation.input", '{"args": ["u-17"], "kwargs": {"question": "How long?"}}', "How long?", set()),
        ("langfuse.observation.input", '[{"role": "user", "content": "How long?"}]', "How long?", set()),
        ("langfuse.observation.input", '{"args": [[{"role": "user", "content": "How long?"}]], "kwargs": {}}',
         "How long?", set()),
        ("gen_ai.prompt", HUMAN_MESSAGE, "How long?", set()),
        ("gen_ai.prompt", '{"question": "How lo', None, {Flag.TRUNCATED_JSON}),
        ("gen_ai.prompt", 7, None, set()),
    ],
)  # fmt: skip
def test_questions(name: str, raw: AttributeValue, question: str | None, flags: set[Flag]) -> None:
    assert value(Field.INPUT, {name: raw}) == (question, flags)


@pytest.mark.parametrize(
    ("name", "raw", "answer"),
    [
        (
            "mlflow.spanOutputs",
            '{"choices": [{"message": {"role": "assistant", "content": "5 days"}}]}',
            "5 days",
        ),
        (
            "mlflow.spanOutputs",
            "{\"answer\": \"{'messages': [HumanMessage(content='How long?'), AIMe\"}",
            None,
        ),
        ("langfuse.observation.output", "5 days", "5 days"),
        ("langfuse.observation.output", '{"role": "assistant", "content": "5 days"}', "5 days"),
        ("langfuse.observation.output", "<generator object chat at 0x7f00>", None),
        ("gen_ai.completion", '{"output": null}', None),
        ("gen_ai.completion", '{"generations": [[]], "llm_output": null}', None),
        ("haystack.component.output", '{"replies": ["5 days"], "meta": [{"model": "m"}]}', "5 days"),
    ],
)
def test_answers(name: str, raw: str, answer: str | None) -> None:
    assert value(Field.OUTPUT, {name: raw})[0] == answer


# Langfuse


def test_langfuse_metadata_is_read_in_each_versions_form() -> None:
    forms: list[dict[str, AttributeValue]] = [
        {"langfuse.trace.metadata.tenant": '"acme"'},
        {"langfuse.trace.metadata.tenant": "acme"},
        {"langfuse.trace.metadata": '{"tenant": "acme"}'},
        {"langfuse.observation.metadata.tenant": '"acme"'},
        {"langfuse.trace.tags": ["prod", "tenant:acme"]},
        {"langfuse.trace.tags": '["prod", "tenant:acme"]'},
        {"langfuse.trace.tags": "tenant:acme"},
    ]
    for form in forms:
        (trace,) = traces(
            span({"langfuse.observation.type": "generation", "langfuse.observation.output": "5", **form})
        )
        assert trace.slices.get("tenant") == "acme", form
        assert trace.sources["slices.tenant"] == f"langfuse {next(iter(form)).removesuffix('.tenant')}.tenant"


@pytest.mark.parametrize(
    "odd", [7, True, 1.5, None, b"x", {"tenant": 1}, "{", "[1", ["a", 3, None, "x:"], "[[["]
)
@pytest.mark.parametrize(
    "name",
    [
        "langfuse.trace.tags",
        "langfuse.trace.metadata",
        "langfuse.observation.usage_details",
        "langfuse.observation.input",
        "langfuse.observation.completion_start_time",
        "langfuse.observation.prompt.version",
        "langfuse.observation.type",
    ],
)
def test_langfuse_values_of_any_type_lose_nothing_else(name: str, odd: AttributeValue) -> None:
    whole: dict[str, AttributeValue] = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": "How long?",
        "langfuse.observation.output": "5 days",
    }
    found = traces(span({**whole, name: odd}))
    assert name == "langfuse.observation.type" or [one.answer for one in found] == ["5 days"]


def test_langfuse_trace_input_and_output_speak_for_the_request_wherever_they_stand() -> None:
    """Until version 4 any span could set them."""
    root = span({"langfuse.observation.type": "chain", "langfuse.observation.input": '{"state": 1}'})
    step = span(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.output": "a draft",
            "langfuse.trace.input": '{"question": "How long?"}',
            "langfuse.trace.output": "5 days",
        },
        span_id="2" * 16,
        parent_id=root.span_id,
    )
    (trace,) = traces(root, step)
    assert (trace.query, trace.answer) == ("How long?", "5 days")
    assert trace.sources["query"] == "langfuse langfuse.trace.input"


def test_langfuse_first_token_usage_and_cost() -> None:
    attributes: dict[str, AttributeValue] = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.completion_start_time": '"1970-01-01T00:00:01.500001Z"',
        "langfuse.observation.usage_details": '{"prompt_tokens": 50, "completion_tokens": 9}',
        "langfuse.observation.cost_details": '{"input": 0.25, "output": 0.5}',
        "langfuse.observation.prompt.name": "desk",
        "langfuse.observation.prompt.version": 3,
    }
    assert value(Field.FIRST_TOKEN_NS, attributes)[0] == 1_500_001_000
    assert value(Field.INPUT_TOKENS, attributes)[0] == 50
    assert value(Field.OUTPUT_TOKENS, attributes)[0] == 9
    assert value(Field.COST, attributes)[0] == 0.75
    assert value(Field.PROMPT_VERSION, attributes)[0] == "desk@3"
    naive = {"langfuse.observation.completion_start_time": '"1970-01-01T00:00:01"'}
    assert value(Field.FIRST_TOKEN_NS, naive)[0] is None, "whose clock it is cannot be known"


def joined(**own: Any) -> Span:
    """The first span of a process that joined a trace, which its SDK marks as a root."""
    attributes: dict[str, AttributeValue] = {
        "langfuse.observation.type": "chain",
        "langfuse.internal.as_root": True,
        "langfuse.internal.is_app_root": True,
        "langfuse.observation.input": "rewrite this",
        "langfuse.observation.output": "rewritten",
    }
    return span(attributes, span_id="2" * 16, parent_id="1" * 16, start_ns=5, **own)


def test_a_process_that_joins_a_trace_does_not_rename_the_request() -> None:
    """langfuse/langfuse 15927: the mark of the joining process made it the trace's root."""
    root = span(
        {
            "langfuse.observation.type": "span",
            "langfuse.internal.is_app_root": True,
            "langfuse.observation.input": '{"question": "How long?"}',
            "langfuse.observation.output": '{"answer": "5 days"}',
        }
    )
    retriever = span(
        {"langfuse.observation.type": "retriever", "langfuse.observation.output": "[]"},
        span_id="3" * 16,
        parent_id="2" * 16,
    )
    for order in ((root, joined(), retriever), (retriever, joined(), root)):
        (trace,) = traces(*order)
        assert (trace.query, trace.answer) == ("How long?", "5 days")
        assert trace.id == f"{TRACE}:{root.span_id}"


def test_where_the_parent_was_filtered_out_the_applications_root_stands_for_the_request() -> None:
    """langfuse/langfuse 15039: the HTTP span above is never exported."""
    model = span(
        {"langfuse.observation.type": "generation", "langfuse.observation.output": "a draft"},
        span_id="3" * 16,
        parent_id="2" * 16,
        start_ns=6,
    )
    (trace,) = traces(model, joined())
    assert (trace.query, trace.answer) == ("rewrite this", "rewritten")
    assert trace.completeness is Completeness.COMPLETE
    assert {Flag.NO_ROOT, Flag.ORPHAN_PARENT} <= trace.flags


@pytest.mark.parametrize(
    "prefix",
    ["gen_ai.prompt.{}.content", "llm.input_messages.{}.message.content", "retrieval.documents.{}.document.content",
     "langfuse.trace.metadata.{}.x", "gen_ai.completion.{}.content"],
)  # fmt: skip
def test_huge_indices_in_keys_cost_no_more_than_their_attributes(prefix: str) -> None:
    """langfuse/langfuse 15890: a list was made as long as its largest index."""
    indices = (0, 999_999_999, 2**31, 2**53, 10**40)
    attributes: dict[str, AttributeValue] = {prefix.format(index): "x" for index in indices}
    attributes["openinference.span.kind"] = "RETRIEVER"
    started = time.process_time()
    found = traces(span(attributes))
    assert time.process_time() - started < 1.0
    for trace in found:
        for retrieval in trace.retrievals:
            assert len(retrieval.documents or ()) <= len(indices)


# Filters and documents of functions


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("mlflow.spanInputs", '{"query": "q", "filters": {"tenant": "acme"}}', "tenant = acme"),
        (
            "langfuse.observation.input",
            '{"args": ["q"], "kwargs": {"where": {"tenant": "acme"}}}',
            "tenant = acme",
        ),
        (
            "gen_ai.prompt",
            '{"q": "q", "search_kwargs": {"k": 4, "filter": {"tenant": "acme"}}}',
            "tenant = acme",
        ),
        ("mlflow.spanInputs", '{"query": "q", "filters": {}}', None),
        ("mlflow.spanInputs", '{"query": "q", "filters": null}', None),
    ],
)
def test_filters_among_arguments(name: str, raw: str, expected: str | None) -> None:
    found, flags = value(Field.FILTER, {name: raw})
    assert (None if found is None else to_text(found)) == expected
    assert not flags


def test_a_filter_that_no_one_can_read_is_kept_as_text() -> None:
    found, flags = value(Field.FILTER, {"mlflow.spanInputs": '{"filters": {"$near": [1, 2]}}'})
    assert found == '{"$near": [1, 2]}'
    assert flags == {Flag.FILTER_UNPARSED}


def test_top_k_among_arguments() -> None:
    assert value(Field.TOP_K, {"gen_ai.prompt": '{"q": "q", "k": 4}'})[0] == 4
    assert value(Field.TOP_K, {"langfuse.observation.input": '{"args": [], "kwargs": {"top_k": 7}}'})[0] == 7
    assert value(Field.TOP_K, {"mlflow.spanInputs": '{"top_k": "many"}'})[0] is None


@pytest.mark.parametrize("name", ["mlflow.spanOutputs", "langfuse.observation.output", "gen_ai.completion"])
def test_documents_come_in_many_wrappings(name: str) -> None:
    one = {"id": "kb-1", "page_content": "5 days", "metadata": {"tenant": "acme"}}
    payloads = [
        [one],
        {"documents": [one]},
        {"output": [one]},
        [[one, 0.5]],
        {"matches": [one]},
        {"nodes": [one]},
    ]
    for payload in payloads:
        found, flags = value(Field.DOCUMENTS, {name: json.dumps(payload)})
        assert [(document.id, document.text) for document in found] == [("kb-1", "5 days")], payload
        assert not flags
    assert value(Field.DOCUMENTS, {name: "[]"})[0] == ()
    assert value(Field.DOCUMENTS, {name: '[{"id": "kb-1", "page_con'}) == (None, {Flag.TRUNCATED_JSON})


# MLflow


def test_mlflow_prompt_and_tags() -> None:
    linked = {"mlflow.linkedPrompts": '[{"name": "desk", "version": "3"}]'}
    assert value(Field.PROMPT_VERSION, linked)[0] == "desk@3"
    several = {"mlflow.linkedPrompts": '[{"name": "a", "version": "1"}, {"name": "b", "version": "2"}]'}
    assert value(Field.PROMPT_VERSION, several)[0] is None
    for gate in ("mlflow.traceRequestId", "gen_ai.operation.name"):
        tagged = span({gate: "x", "mlflow.traceTag.tenant": "acme", "mlflow.spanOutputs": '"5"', "mlflow.spanInputs":
                       '"q"', "mlflow.spanType": '"WORKFLOW"'}, scope=MLFLOW)  # fmt: skip
        (trace,) = traces(tagged)
        assert trace.slices["tenant"] == "acme"
        assert trace.sources["slices.tenant"] == "mlflow mlflow.traceTag.tenant"


def test_mlflows_own_metadata_is_not_taken_for_openinferences() -> None:
    raw: dict[str, AttributeValue] = {"metadata": '{"tenant": "acme"}'}
    assert read(Field.METADATA, span(raw, scope=MLFLOW), set()) == ({"tenant": "acme"}, "mlflow metadata")
    assert read(Field.METADATA, span(raw), set()) == ({"tenant": "acme"}, "openinference metadata")


# LlamaIndex


def test_llamaindex_takes_a_query_as_text_or_as_a_bundle() -> None:
    for name in ("str_or_query_bundle", "str_or_query_bundle.query_str"):
        found = events(("RetrievalStartEvent", {name: "How long?"}))
        assert read(Field.INPUT, span(events=found), set()) == ("How long?", "llamaindex RetrievalStartEvent")


def test_llamaindex_chat_messages_have_blocks() -> None:
    messages = [
        {"role": "system", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "Answer."}]},
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "How long?"}]},
    ]
    began = events(("LLMChatStartEvent", {"messages": json.dumps(messages)}))
    assert value(Field.INPUT, {}, events=began)[0] == "How long?"
    blocks = json.dumps([{"block_type": "text", "text": "5 days"}])
    ended = events(
        ("LLMChatEndEvent", {"response.message.role": "assistant", "response.message.blocks": blocks})
    )
    assert value(Field.OUTPUT, {}, events=ended)[0] == "5 days"


def test_llamaindex_nodes_that_were_cut_are_flagged_and_the_ids_in_the_keys_remain() -> None:
    cut = events(("RetrievalEndEvent", {"nodes": '[{"node": {"id_": "kb-1", "te'}))
    assert value(Field.DOCUMENTS, {}, events=cut) == (None, {Flag.TRUNCATED_JSON})
    keys: dict[str, AttributeValue] = {
        "response.response": "5 days",
        "response.source_nodes": '[{"node": {"id_": "kb-1", "te',
        "response.metadata.kb-1.tenant": "acme",
        "response.metadata.kb-1.geo.country": "de",
        "response.metadata.v1.2.page": 3,
    }
    found, flags = value(Field.CONTEXT_IDS, {}, events=events(("QueryEndEvent", keys)))
    assert found == ("kb-1", "v1.2")
    assert flags == {Flag.TRUNCATED_JSON}


def test_llamaindex_ids_in_keys_cost_bounded_work() -> None:
    deep = ".".join(["a"] * 5000)
    keys: dict[str, AttributeValue] = {f"response.metadata.{index}.x": 1 for index in range(5000)}
    keys[f"response.metadata.{deep}.x"] = 1
    started = time.process_time()
    found, _ = value(Field.CONTEXT_IDS, {}, events=events(("QueryEndEvent", keys)))
    assert time.process_time() - started < 1.0
    assert found is not None
    assert len(found) <= 1000


def test_llamaindex_streams_have_their_first_token_by_the_events_own_times() -> None:
    streamed = events(
        ("LLMChatStartEvent", {"timestamp": '"2026-11-30 22:00:00.000000"'}),
        ("LLMChatInProgressEvent", {"timestamp": '"2026-11-30 22:00:00.250000"'}),
        ("LLMChatInProgressEvent", {"timestamp": '"2026-11-30 22:00:00.500000"'}),
    )
    assert value(Field.FIRST_TOKEN_NS, {}, events=streamed, start_ns=1_000)[0] == 1_000 + 250_000_000
    broken = events(
        ("LLMChatStartEvent", {"timestamp": "noon"}), ("LLMChatInProgressEvent", {"timestamp": 3})
    )
    assert value(Field.FIRST_TOKEN_NS, {}, events=broken)[0] is None


@pytest.mark.parametrize("odd", [None, 7, "{", [1, "a"], {"x": 1}, b"x"])
def test_llamaindex_events_of_any_shape_lose_nothing_else(odd: AttributeValue) -> None:
    names = ("nodes", "messages", "chunks", "embeddings", "text_chunks", "query", "response.response")
    hostile = dict.fromkeys((*names, "model_dict.model"), odd)
    told_by = (
        "QueryStartEvent", "RetrievalStartEvent", "RetrievalEndEvent", "EmbeddingEndEvent", "GetResponseStartEvent",
        "ReRankEndEvent", "LLMChatStartEvent", "LLMChatEndEvent", "QueryEndEvent",
    )  # fmt: skip
    model = events(("LLMPredictStartEvent", {}), ("LLMPredictEndEvent", {"output": "5 days"}))
    (trace,) = traces(
        span(events=events(*((name, hostile) for name in told_by)), scope=LLAMAINDEX, name="Engine.query"),
        span(events=model, span_id="2" * 16, parent_id="1" * 16),
    )
    assert trace.answer == ("{" if odd == "{" else "5 days")


# Haystack


def pipeline(data: str, *names: str) -> list[RagTrace]:
    root = span({"haystack.pipeline.input_data": data}, name="haystack.pipeline.run")
    steps = [
        span(
            {"haystack.component.name": name, "haystack.component.type": "InMemoryBM25Retriever"},
            span_id=str(index) * 16,
            parent_id=root.span_id,
            start_ns=index,
            name="haystack.component.run",
        )
        for index, name in enumerate(names, 2)
    ]
    return traces(root, *steps)


def test_haystack_gives_each_retriever_its_own_filter() -> None:
    def condition(value: str) -> dict[str, str]:
        return {"field": "meta.tenant", "operator": "==", "value": value}

    data = {
        "faq": {"query": "How long?", "filters": condition("acme")},
        "manuals": {"query": "How long?", "filters": condition("shared")},
        "news": {"query": "How long?"},
    }
    (trace,) = pipeline(json.dumps(data), "faq", "manuals", "news")
    found = [
        one.filter and one.filter.relevance and to_text(one.filter.relevance) for one in trace.retrievals
    ]
    assert found == ["tenant = acme", "tenant = shared", None]
    assert trace.query == "How long?"
    assert Flag.DOCS_UNKNOWN in trace.flags


def test_haystack_prints_python_where_a_callback_is_among_its_inputs() -> None:
    data = (
        "{'retriever': {'query': \"What's <b at 0x1> \\\\'it\\\\'?\", "
        "'filters': {'field': 'meta.tenant', 'operator': '==', 'value': 'acme'}}, "
        "'llm': {'streaming_callback': <function run.<locals>.<lambda> at 0x7fa8984ad760>}}"
    )
    (trace,) = pipeline(data, "retriever")
    assert trace.query == "What's <b at 0x1> \\'it\\'?"
    assert trace.retrievals[0].filter is not None


@pytest.mark.parametrize("data", ["{'a': ChatMessage(x)}", "{'a': " + "[" * 9000, "{'a': '" + "x" * 200_000])
def test_haystack_printed_python_that_is_no_literal_is_not_captured(data: str) -> None:
    started = time.process_time()
    (trace,) = pipeline(data, "retriever")
    assert time.process_time() - started < 1.0
    assert trace.query is None
    assert Flag.CONTENT_NOT_CAPTURED in trace.flags


def test_haystack_documents_hold_their_metadata_beside_their_own_keys() -> None:
    raw = '{"documents": [{"tenant": "acme", "id": "kb-1", "content": "5 days", "blob": null, "score": 0.5}]}'
    ((found,), _) = value(Field.DOCUMENTS, {"haystack.component.output": raw})
    assert found.metadata == {"tenant": "acme"}
    assert (found.id, found.id_source, found.score_kind) == ("kb-1", IdSource.OUTPUT, ScoreKind.SIMILARITY)


def test_haystack_models_tell_their_usage_beside_or_inside_the_replies() -> None:
    meta = {"model": "m", "usage": {"prompt_tokens": 71, "completion_tokens": 8}}
    beside = {"replies": ["5 days"], "meta": [meta]}
    inside = {"replies": [{"role": "assistant", "meta": meta, "content": [{"text": "5 days"}]}]}
    for given in (beside, inside):
        attributes: dict[str, AttributeValue] = {
            "haystack.component.type": "OpenAIChatGenerator",
            "haystack.component.output": json.dumps(given),
        }
        assert value(Field.INPUT_TOKENS, attributes)[0] == 71
        assert value(Field.OUTPUT_TOKENS, attributes)[0] == 8
        assert value(Field.MODEL, attributes)[0] == "m"
        assert value(Field.OUTPUT, attributes)[0] == "5 days"
    for odd in ('{"replies": []}', '{"replies": [3]}', '{"meta": []}', "[]", "3", '{"meta": {"usage": 3}}'):
        assert value(Field.INPUT_TOKENS, {"haystack.component.output": odd})[0] is None


# LangSmith


def test_langsmith_tags_and_hub_commits() -> None:
    run = span(
        {
            "langsmith.span.kind": "llm",
            "langsmith.span.tags": "prod, locale=de-DE, seq:step:4",
            "langsmith.metadata.lc_hub_commit_hash": "4b2ab1",
            "langsmith.trace.session_name": "a-project",
            "gen_ai.completion": '{"output": "5 days"}',
        }
    )
    (trace,) = traces(run)
    assert trace.slices["locale"] == "de-DE"
    assert trace.versions.prompt == "4b2ab1"
    assert trace.session is None, "the session name of LangSmith is a project"


def test_session_and_user_of_plain_spans() -> None:
    found = traces(
        span({"session.id": "s-1", "enduser.id": "u-1"}, name="POST /chat"),
        span(
            {
                "langsmith.span.kind": "chain",
                "gen_ai.prompt": '{"q": "How long?"}',
                "gen_ai.completion": '{"output": "5"}',
            },
            span_id="2" * 16,
            parent_id="1" * 16,
        ),
    )
    (trace,) = found
    assert trace.session == "s-1"
    assert trace.sources["session"] == "otel session.id"
    assert trace.sources["user_hash"] == "otel enduser.id"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"ids": [["a", "b"]], "documents": [["x y", "z"]], "distances": [[0.1, 0.2]], "metadatas": None},
            [("a", 0.1, "x y", None), ("b", 0.2, "z", None)],
        ),
        ({"ids": [["a"], ["b"]], "documents": [["x"], ["y"]]}, None),
        ({"ids": [], "documents": []}, []),
        (
            {"points": [{"id": 1, "version": 3, "score": 0.4, "payload": {"text": "x", "tenant": "acme"}}]},
            [("1", 0.4, "x", {"text": "x", "tenant": "acme"})],
        ),
        (
            [{"id": "p", "payload": {"page_content": "x", "metadata": {"tenant": "acme"}}, "score": 0.4}],
            [("p", 0.4, "x", {"tenant": "acme"})],
        ),
        (
            {"hits": {"total": 1, "hits": [{"_id": "h", "_score": 1.5, "_source": {"text": "x"}}]}},
            [("h", 1.5, "x", {"text": "x"})],
        ),
        (
            {
                "retrievalResults": [
                    {"content": {"text": "x", "type": "TEXT"}, "score": 0.5, "metadata": {"c": 1}}
                ]
            },
            [(None, 0.5, "x", {"c": 1})],
        ),
        ({"data": [{"score": 0.5, "content": [{"type": "text", "text": "x"}]}]}, [(None, 0.5, "x", None)]),
        (["Five days.", "kb-101", ""], [(None, None, "Five days.", None), *[(None, None, None, None)] * 2]),
        ([[{"id": "a"}, None], [{"id": "b"}, 0.5]], [("a", None, None, None), ("b", 0.5, None, None)]),
        ([{"id": "a", "score": float("inf"), "metadata": "{'t': 1}"}], [("a", None, None, {"t": 1})]),
    ],
)
def test_documents_as_stores_hand_them_on(given: Any, told: list[tuple[Any, ...]] | None) -> None:
    found = documents_in(given)
    assert told == (None if found is None else [(one.id, one.score, one.text, one.metadata) for one in found])


def test_a_document_without_id_and_text_is_unknown() -> None:
    """Its place is kept, and the trace says that something came back of which nothing is known."""
    retrieved = {"langfuse.observation.type": "retriever", "langfuse.observation.input": "q"}
    for output, unknown in (('["kb-101"]', True), ('[{"id": "kb-101"}]', False), ("[]", False)):
        (trace,) = traces(span({**retrieved, "langfuse.observation.output": output}))
        assert (Flag.DOCS_UNKNOWN in trace.flags) is unknown


def called(number: int, parent: int | None, operation: str, **said: Any) -> Span:
    """A span of Vercel's AI SDK: `_` stands for the dot in names."""
    attributes = {f"ai.{name.replace('_', '.')}": value for name, value in said.items()}
    return span(
        {"ai.operationId": operation, "ai.model.id": "m", **attributes},
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=operation,
        start_ns=number,
        end_ns=90 - number,
        scope=Scope("ai"),
    )


def test_vercels_calls_with_tools() -> None:
    asked = json.dumps([{"role": "user", "content": [{"type": "text", "text": "How long?"}]}])
    metadata = {
        "telemetry_metadata_tenant": "acme",
        "telemetry_metadata_sessionId": "s1",
    }
    (trace,) = traces(
        called(
            1, None, "ai.generateText", prompt=json.dumps({"system": "Be brief.", "prompt": "How long?"}),
            response_text="5 days", usage_promptTokens=20, usage_completionTokens=5, **metadata,
        ),
        called(
            2, 1, "ai.generateText.doGenerate", prompt_messages=asked, response_toolCalls="[]",
            usage_promptTokens=10, usage_completionTokens=2,
        ),
        called(3, 1, "ai.toolCall", toolCall_name="search", toolCall_result='"5 days"'),
        called(
            4, 1, "ai.generateText.doGenerate", prompt_messages=asked, response_text="5 days",
            response_msToFirstChunk=0.00002, usage_inputTokens=10, usage_outputTokens=3,
        ),
    )  # fmt: skip
    assert (trace.query, trace.answer, trace.tokens.input, trace.tokens.output) == (
        "How long?",
        "5 days",
        20,
        5,
    )
    assert (trace.slices["tenant"], trace.session, trace.versions.model) == ("acme", "s1", "m")
    assert trace.time_to_first_token_s == pytest.approx(23e-9)
    assert (trace.completeness, trace.flags) == (Completeness.COMPLETE, frozenset())
    assert trace.sources["answer"] == "vercel ai.response.text"


def test_vercels_calls_without_content_say_so() -> None:
    """`recordInputs: false, recordOutputs: false`."""
    (trace,) = traces(
        called(1, None, "ai.streamText", usage_inputTokens=20), called(2, 1, "ai.streamText.doStream")
    )
    assert (trace.query, trace.answer) == (None, None)
    assert trace.flags == {Flag.CONTENT_NOT_CAPTURED}


def test_vercels_embeddings_and_rerankings() -> None:
    texts = [json.dumps({"id": "kb-1", "text": "14 days"}), json.dumps({"id": "kb-2", "text": "5 days"})]
    ranking = ['{"index": 1, "relevanceScore": 0.9}', '{"index": 7, "relevanceScore": 0.1}']
    (trace,) = traces(
        called(1, None, "ai.streamText", prompt='{"prompt": "How long?"}', response_text="5 days"),
        called(2, 1, "ai.embed", value='"How long?"', embedding="[0.5, 1]"),
        called(3, 2, "ai.embed.doEmbed", values=['"How long?"'], embeddings=["[0.5, 1]"]),
        called(4, 1, "ai.rerank", documents=texts),
        called(5, 4, "ai.rerank.doRerank", documents=texts, ranking=ranking),
        called(6, 1, "ai.streamText.doStream", response_object='{"answer": "5 days"}'),
    )
    assert (trace.query_embedding, trace.versions.encoder) == ((0.5, 1.0), "m")
    assert trace.reranked is not None
    assert trace.reranked.input_ids == ("kb-1", "kb-2")
    assert [(one.id, one.score) for one in trace.reranked.documents or ()] == [("kb-2", 0.9), (None, 0.1)]


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"ai.operationId": "ai.streamObject"}, SpanKind.AGENT),
        ({"operation.name": "ai.generateText.doGenerate my-function"}, SpanKind.LLM),
        ({"operation.name": "GET /ai.html"}, None),
        ({"ai.operationId": 7}, None),
        ({"ai.operationId": "ai"}, None),
    ],
)
def test_vercels_kinds(attributes: dict[str, AttributeValue], kind: SpanKind | None) -> None:
    assert kind_of(span(attributes)) is kind


@pytest.mark.parametrize(
    ("field", "attributes"),
    [
        (Field.INPUT, {"ai.prompt": '{"prompt": "How lo'}),
        (Field.OUTPUT, {"ai.response.object": '{"answer": "5 da'}),
        (Field.RERANK_INPUT, {"ai.documents": ['{"id": "kb']}),
    ],
)
def test_vercels_json_cut_short_is_flagged(field: Field, attributes: dict[str, AttributeValue]) -> None:
    found, flags = value(field, attributes)
    assert found in (None, (FoundDocument(),))
    assert flags == {Flag.TRUNCATED_JSON}


@pytest.mark.parametrize(
    "given",
    [
        {"filter": {"tenant": "acme"}, "expr": "year > 3"},
        {"where": {"tenant": "acme"}, "where_document": {"$contains": "refund"}},
        {"where_document": {"$contains": "refund"}},
    ],
)
def test_a_second_filter_is_not_dropped(given: dict[str, Any]) -> None:
    attributes = {
        "langfuse.observation.type": "retriever",
        "langfuse.observation.input": json.dumps({"query": "q", **given}),
    }
    assert value(Field.FILTER, attributes) == (json.dumps(given), {Flag.FILTER_UNPARSED})
