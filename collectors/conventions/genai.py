"""OpenTelemetry GenAI attributes: operations, the retrieval query and documents, messages, usage.

Source: github.com/open-telemetry/semantic-conventions-genai, with the earlier names that are still about
(`gen_ai.request.top_k` for `gen_ai.retrieval.top_k`). Content is opt-in and may be structured or JSON.
"""

from __future__ import annotations

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, Rule, SpanKind
from collectors.conventions.messages import last_assistant_text, last_user_text, question_in
from collectors.span import AttributeValue, Span
from collectors.trace import Feedback, Flag, ScoreKind

_KINDS = {
    "chat": SpanKind.LLM,
    "text_completion": SpanKind.LLM,
    "generate_content": SpanKind.LLM,
    "embeddings": SpanKind.EMBEDDING,
    "retrieval": SpanKind.RETRIEVER,
    "rerank": SpanKind.RERANKER,
    "execute_tool": SpanKind.TOOL,
    "invoke_agent": SpanKind.AGENT,
    "invoke_workflow": SpanKind.WORKFLOW,
}
_EVALUATION = "gen_ai.evaluation.result"


def _kind_of(span: Span) -> SpanKind | None:
    name = span.attributes.get("gen_ai.operation.name")
    return _KINDS.get(name) if isinstance(name, str) else None


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The user's last message; a workflow's may be its whole input as JSON, with the question inside."""
    messages = values.structured(raw, flags)
    asked = last_user_text(messages) if isinstance(messages, list) else None
    inside = values.parse_json(asked) if asked is not None and asked.startswith("{") else None
    return asked if inside is None else question_in(inside)


def _said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    messages = values.structured(raw, flags)
    return last_assistant_text(messages) if isinstance(messages, list) else None


def _prompt_version(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    version = values.label(span, raw, flags)
    name = span.attributes.get("gen_ai.prompt.name")
    return f"{name}@{version}" if version is not None and isinstance(name, str) else version


def _encoder(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, raw, flags) if _kind_of(span) is SpanKind.EMBEDDING else None


def _model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, raw, flags) if _kind_of(span) is SpanKind.LLM else None


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    seconds = values.as_number(raw)
    return None if seconds is None else span.start_ns + round(seconds * 1e9)


def _feedback(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[Feedback, ...] | None:
    found = []
    for event in span.events:
        named = (
            event.name == _EVALUATION and event.attributes.get("gen_ai.evaluation.name") == "user_feedback"
        )
        verdict = event.attributes.get("gen_ai.evaluation.score.label")
        if named and isinstance(verdict, str):
            score = values.as_number(event.attributes.get("gen_ai.evaluation.score.value"))
            found.append(Feedback(label=verdict, score=score, time_ns=event.time_ns))
    return tuple(found) or None


_RULES = {
    Field.INPUT: (
        Rule("gen_ai.retrieval.query.text", values.filled),
        Rule("gen_ai.input.messages", _asked),
    ),
    Field.OUTPUT: (Rule("gen_ai.output.messages", _said),),
    Field.DOCUMENTS: (Rule("gen_ai.retrieval.documents", values.documents(ScoreKind.SIMILARITY)),),
    Field.TOP_K: (Rule("gen_ai.retrieval.top_k", values.whole), Rule("gen_ai.request.top_k", values.whole)),
    Field.INPUT_TOKENS: (Rule("gen_ai.usage.input_tokens", values.whole),),
    Field.OUTPUT_TOKENS: (Rule("gen_ai.usage.output_tokens", values.whole),),
    Field.COST: (Rule("gen_ai.usage.cost", values.number),),
    Field.FIRST_TOKEN_NS: (Rule("gen_ai.response.time_to_first_chunk", _first_token),),
    Field.MODEL: (Rule("gen_ai.response.model", _model), Rule("gen_ai.request.model", _model)),
    Field.PROMPT_VERSION: (Rule("gen_ai.prompt.version", _prompt_version),),
    Field.ENCODER_VERSION: (Rule("gen_ai.request.model", _encoder),),
    Field.SESSION: (Rule("gen_ai.conversation.id", values.label),),
    Field.FEEDBACK: (Rule(_EVALUATION, _feedback, spread=True),),
}

CONVENTION = Convention("genai", _RULES, _kind_of, ("gen_ai.output.messages",))
