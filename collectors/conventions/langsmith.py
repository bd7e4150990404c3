"""LangSmith's OpenTelemetry export (`LANGSMITH_OTEL_ENABLED`): runs as spans, inputs and outputs as JSON.

Source: langsmith-sdk, langsmith/_internal/otel/_otel_exporter.py (0.15.1). Run types become `langsmith.span.kind`; the
`gen_ai.operation.name` beside it calls a retriever "embeddings" and a prompt "chat", and is not believed.
`langsmith.trace.session_name` is the project, not a session: that is in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import calls, quoted, values
from collectors.conventions.convention import Convention, Field, Rule, SpanKind
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_KINDS = {
    "chain": SpanKind.CHAIN,
    "llm": SpanKind.LLM,
    "retriever": SpanKind.RETRIEVER,
    "embedding": SpanKind.EMBEDDING,
    "tool": SpanKind.TOOL,
    "prompt": SpanKind.PROMPT,
}
_KIND = "langsmith.span.kind"
_TAKEN, _GIVEN = "gen_ai.prompt", "gen_ai.completion"


def _kind_of(span: Span) -> SpanKind | None:
    name = span.attributes.get(_KIND)
    return _KINDS.get(name) if isinstance(name, str) else None


def _metadata(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    return quoted.below(span, "langsmith.metadata.")


def _is_prompt(span: Span) -> bool:
    return _kind_of(span) is SpanKind.PROMPT


_RULES = {
    Field.INPUT: (Rule(_TAKEN, calls.asked(quoted.decoded)),),
    Field.OUTPUT: (Rule(_GIVEN, calls.said(quoted.decoded)),),
    Field.DOCUMENTS: (Rule(_GIVEN, calls.documents(quoted.decoded)),),
    Field.RERANK_INPUT: (Rule(_TAKEN, calls.documents(quoted.decoded)),),
    Field.RERANKED: (Rule(_GIVEN, calls.documents(quoted.decoded, ScoreKind.RERANK)),),
    Field.FILTER: (Rule(_TAKEN, calls.applied_filter(quoted.decoded)),),
    Field.TOP_K: (Rule(_TAKEN, calls.top_k(quoted.decoded)),),
    Field.CONTEXT: (Rule(_TAKEN, calls.context(quoted.decoded, _is_prompt)),),
    Field.PROMPT_VERSION: (Rule("langsmith.metadata.lc_hub_commit_hash", values.label),),
    Field.METADATA: (
        Rule(_KIND, _metadata, named="langsmith.metadata"),
        Rule("langsmith.span.tags", quoted.tags),
    ),
}

CONVENTION = Convention("langsmith", _RULES, _kind_of, (_GIVEN,), kinds_by=(_KIND,))
