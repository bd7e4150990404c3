"""MLflow Tracing over OTLP, in its own attributes or (`MLFLOW_ENABLE_OTEL_GENAI_SEMCONV`) in those of GenAI.

Source: mlflow/tracing/constant.py, processor/otel.py and export/genai_semconv/translator.py (3.17.2). Every value is
JSON, so a string is quoted. The GenAI mode keeps the span type where it has no operation for it
(`gen_ai.operation.name = "RETRIEVER"`) and drops inputs and outputs of all but models and tools. Sessions and users set
on the trace are not exported; tags are, on the root span alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import calls, quoted, values
from collectors.conventions.convention import Convention, Field, Read, Rule, SpanKind
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_KINDS = {
    "LLM": SpanKind.LLM,
    "CHAT_MODEL": SpanKind.LLM,
    "CHAIN": SpanKind.CHAIN,
    "AGENT": SpanKind.AGENT,
    "TOOL": SpanKind.TOOL,
    "RETRIEVER": SpanKind.RETRIEVER,
    "RERANKER": SpanKind.RERANKER,
    "EMBEDDING": SpanKind.EMBEDDING,
    "WORKFLOW": SpanKind.WORKFLOW,
    "GUARDRAIL": SpanKind.GUARDRAIL,
    "EVALUATOR": SpanKind.EVALUATOR,
}
_TYPE, _TAKEN, _GIVEN = "mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"
_OPERATION = "gen_ai.operation.name"
_SCOPE = "mlflow."


def _load(raw: AttributeValue, flags: set[Flag]) -> Any:
    return quoted.decoded(raw, flags, always_json=True)


def _kind_of(span: Span) -> SpanKind | None:
    name = span.attributes.get(_TYPE) or span.attributes.get(_OPERATION)
    return _KINDS.get(name.strip('"')) if isinstance(name, str) else None


def _label(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, _load(raw, flags), flags)


def _encoder(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return _label(span, raw, flags) if _kind_of(span) is SpanKind.EMBEDDING else None


def _part(name: str, read: Read) -> Read:
    """One entry of a map."""

    def part(span: Span, raw: AttributeValue, flags: set[Flag]) -> Any:
        whole = _load(raw, flags)
        return read(span, whole.get(name), flags) if isinstance(whole, dict) else None

    return part


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    return next((event.time_ns for event in span.events if event.name == "new_token"), None)


def _linked_prompt(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """`[{name, version}]`; of several, which one made the answer is not told."""
    linked = _load(raw, flags)
    if not isinstance(linked, list) or len(linked) != 1 or not isinstance(linked[0], dict):
        return None
    name, version = linked[0].get("name"), linked[0].get("version")
    return f"{name}@{version}" if name and version else None


def _metadata(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    """What LangChain's runs carry; MLflow writes it under a bare name."""
    found = _load(raw, flags)
    return found if isinstance(found, dict) else None


def _trace_tags(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    return quoted.below(span, "mlflow.traceTag.")


def _is_root(span: Span) -> bool:
    return span.parent_id is None and is_mlflow(span)


def is_mlflow(span: Span) -> bool:
    """Whether MLflow made the span, in whichever mode."""
    return span.scope.name.startswith(_SCOPE) or _TYPE in span.attributes


def _is_prompt(span: Span) -> bool:
    """LangChain's prompt templates are of no type of their own."""
    return span.name.endswith("PromptTemplate")


_RULES = {
    Field.INPUT: (Rule(_TAKEN, calls.asked(_load)),),
    Field.OUTPUT: (Rule(_GIVEN, calls.said(_load)),),
    Field.DOCUMENTS: (Rule(_GIVEN, calls.documents(_load)),),
    Field.RERANK_INPUT: (Rule(_TAKEN, calls.documents(_load)),),
    Field.RERANKED: (Rule(_GIVEN, calls.documents(_load, ScoreKind.RERANK)),),
    Field.FILTER: (Rule(_TAKEN, calls.applied_filter(_load)),),
    Field.TOP_K: (Rule(_TAKEN, calls.top_k(_load)),),
    Field.CONTEXT: (Rule(_TAKEN, calls.context(_load, _is_prompt)),),
    Field.EMBEDDINGS: (Rule(_TAKEN, calls.embedded(_load, _GIVEN)),),
    Field.INPUT_TOKENS: (Rule("mlflow.chat.tokenUsage", _part("input_tokens", values.whole)),),
    Field.OUTPUT_TOKENS: (Rule("mlflow.chat.tokenUsage", _part("output_tokens", values.whole)),),
    Field.COST: (Rule("mlflow.llm.cost", _part("total_cost", values.number)),),
    Field.FIRST_TOKEN_NS: (Rule("new_token", _first_token, spread=True),),
    Field.MODEL: (Rule("mlflow.llm.model", _label),),
    Field.ENCODER_VERSION: (Rule("mlflow.llm.model", _encoder),),
    Field.PROMPT_VERSION: (Rule("mlflow.linkedPrompts", _linked_prompt),),
    Field.METADATA: (
        Rule("metadata", _metadata, only=is_mlflow),
        Rule("mlflow.traceRequestId", _trace_tags, named="mlflow.traceTag", only=_is_root),
        Rule(_OPERATION, _trace_tags, named="mlflow.traceTag", only=_is_root),
    ),
}

CONVENTION = Convention("mlflow", _RULES, _kind_of, (_GIVEN,), kinds_by=(_TYPE, _OPERATION))
