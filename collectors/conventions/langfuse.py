"""Langfuse's SDKs (OpenTelemetry since version 3): observations as spans, their inputs and outputs as text or JSON.

Source: langfuse-python, langfuse/_client/attributes.py (5.0.4; `langfuse.trace.input` and `.output` until 4), and the
names that langfuse's server takes from others (`langfuse.session.id`, `langfuse.user.id`). Strings are written as they
are, but each metadata value as JSON since 5. `langfuse.internal.as_root` marks the first span of each process that
joins a trace: it says nothing of the request, and only a span's place in the tree makes it the anchor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from collectors.conventions import calls, quoted, values
from collectors.conventions.convention import Convention, Field, Read, Rule, SpanKind
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_KINDS = {
    "generation": SpanKind.LLM,
    "chain": SpanKind.CHAIN,
    "agent": SpanKind.AGENT,
    "tool": SpanKind.TOOL,
    "retriever": SpanKind.RETRIEVER,
    "embedding": SpanKind.EMBEDDING,
    "evaluator": SpanKind.EVALUATOR,
    "guardrail": SpanKind.GUARDRAIL,
}
_TYPE, _TAKEN, _GIVEN = (
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.output",
)
_MODEL = "langfuse.observation.model.name"
_APP_ROOT = "langfuse.internal.is_app_root"
_SPEAKS = (
    _TYPE, _TAKEN, "langfuse.trace.name", "langfuse.environment", "langfuse.session.id", "langfuse.user.id",
    "langfuse.trace.tags", "langfuse.version",
)  # fmt: skip
"""Whatever carries metadata carries one of these: looking for keys that begin so on every span would cost more than
all else."""


def _kind_of(span: Span) -> SpanKind | None:
    """The observation's type; a plain span that is the application's topmost may stand for the request."""
    name = span.attributes.get(_TYPE)
    if not isinstance(name, str):
        return None
    return _KINDS.get(name) or (SpanKind.CHAIN if span.attributes.get(_APP_ROOT) is True else None)


def _below(prefix: str) -> Read:
    """Metadata by key, or as one JSON map."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
        found = quoted.below(span, f"{prefix}.")
        if found is None and prefix in span.attributes:
            found = quoted.decoded(span.attributes[prefix], flags)
        return found if isinstance(found, dict) else None

    return read


def _metadata(prefix: str) -> tuple[Rule, ...]:
    return tuple(Rule(name, _below(prefix), named=prefix) for name in (prefix, *_SPEAKS))


def _count(*names: str) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
        usage = quoted.decoded(raw, flags)
        if not isinstance(usage, dict):
            return None
        counts = (values.whole(span, usage.get(name), flags) for name in names)
        return next((count for count in counts if count is not None), None)

    return read


def _cost(span: Span, raw: AttributeValue, flags: set[Flag]) -> float | None:
    """The total, or the sum of what is listed."""
    costs = quoted.decoded(raw, flags)
    if not isinstance(costs, dict):
        return None
    total = values.as_number(costs.get("total"))
    parts = [part for part in map(values.as_number, costs.values()) if part is not None]
    return total if total is not None else (sum(parts) if parts else None)


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    written = quoted.decoded(raw, flags)
    try:
        at = datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None:
        return None
    elapsed = at - datetime(1970, 1, 1, tzinfo=UTC)
    return ((elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1_000


def _prompt_version(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    version = values.label(span, raw, flags)
    name = span.attributes.get("langfuse.observation.prompt.name")
    return f"{name}@{version}" if version is not None and isinstance(name, str) else version


def _model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, quoted.decoded(raw, flags), flags)


def _encoder(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return _model(span, raw, flags) if _kind_of(span) is SpanKind.EMBEDDING else None


def _is_prompt(span: Span) -> bool:
    """LangChain's prompt templates are of no type of their own."""
    return span.name.endswith("PromptTemplate")


_USAGE = "langfuse.observation.usage_details"

_RULES = {
    Field.QUERY: (Rule("langfuse.trace.input", calls.asked(quoted.decoded)),),
    Field.ANSWER: (Rule("langfuse.trace.output", calls.said(quoted.decoded)),),
    Field.INPUT: (Rule(_TAKEN, calls.asked(quoted.decoded)),),
    Field.OUTPUT: (Rule(_GIVEN, calls.said(quoted.decoded)),),
    Field.DOCUMENTS: (Rule(_GIVEN, calls.documents(quoted.decoded)),),
    Field.RERANK_INPUT: (Rule(_TAKEN, calls.documents(quoted.decoded)),),
    Field.RERANKED: (Rule(_GIVEN, calls.documents(quoted.decoded, ScoreKind.RERANK)),),
    Field.FILTER: (Rule(_TAKEN, calls.applied_filter(quoted.decoded)),),
    Field.TOP_K: (Rule(_TAKEN, calls.top_k(quoted.decoded)),),
    Field.CONTEXT: (Rule(_TAKEN, calls.context(quoted.decoded, _is_prompt)),),
    Field.EMBEDDINGS: (Rule(_TAKEN, calls.embedded(quoted.decoded, _GIVEN)),),
    Field.INPUT_TOKENS: (Rule(_USAGE, _count("input", "input_tokens", "prompt_tokens")),),
    Field.OUTPUT_TOKENS: (Rule(_USAGE, _count("output", "output_tokens", "completion_tokens")),),
    Field.COST: (Rule("langfuse.observation.cost_details", _cost),),
    Field.FIRST_TOKEN_NS: (Rule("langfuse.observation.completion_start_time", _first_token),),
    Field.MODEL: (Rule(_MODEL, _model),),
    Field.ENCODER_VERSION: (Rule(_MODEL, _encoder),),
    Field.PROMPT_VERSION: (Rule("langfuse.observation.prompt.version", _prompt_version),),
    Field.SESSION: (Rule("langfuse.session.id", values.label),),
    Field.USER: (Rule("langfuse.user.id", values.label),),
    Field.METADATA: (
        *_metadata("langfuse.trace.metadata"),
        *_metadata("langfuse.observation.metadata"),
        Rule("langfuse.trace.tags", quoted.tags),
    ),
}

CONVENTION = Convention("langfuse", _RULES, _kind_of, (_GIVEN, "langfuse.trace.output"), kinds_by=(_TYPE,))
