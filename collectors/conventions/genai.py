"""OpenTelemetry GenAI attributes: operations, the retrieval query and documents, messages, usage.

Source: github.com/open-telemetry/semantic-conventions-genai (model/gen-ai), with the earlier names that are still
about: `gen_ai.request.top_k` for `gen_ai.retrieval.top_k`, `gen_ai.usage.prompt_tokens` and `completion_tokens`,
`gen_ai.prompt.N.content` and `gen_ai.completion.N.content`, `gen_ai.system` for `gen_ai.provider.name`; Semantic
Kernel has operations and counts of its own (microsoft/semantic-kernel, gen_ai_attributes.py). Content is
opt-in and may be structured or JSON. `gen_ai.retrieval.filters` and `gen_ai.prompt.variable.*` are in no
specification, but in instrumentations.
"""

from __future__ import annotations

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, Rule, SpanKind
from collectors.conventions.filters import logged
from collectors.conventions.messages import last_assistant_text, last_user_text, question_in
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_KINDS = {
    "chat": SpanKind.LLM,
    "text_completion": SpanKind.LLM,
    "chat.completions": SpanKind.LLM,  # Semantic Kernel
    "text.completions": SpanKind.LLM,
    "generate_content": SpanKind.LLM,
    "embeddings": SpanKind.EMBEDDING,
    "embedding": SpanKind.EMBEDDING,
    "retrieval": SpanKind.RETRIEVER,
    "rerank": SpanKind.RERANKER,
    "execute_tool": SpanKind.TOOL,
    "invoke_agent": SpanKind.AGENT,
    "invoke_workflow": SpanKind.WORKFLOW,
    "framework": SpanKind.CHAIN,  # Spring AI's chat client and advisors
}
_PROVIDERS = ("gen_ai.provider.name", "gen_ai.system")
_NO_MODEL = "unknown"
"""What OpenLLMetry writes where it knows no model."""


def _kind_of(span: Span) -> SpanKind | None:
    attributes = span.attributes
    name = attributes.get("gen_ai.operation.name")
    if name is None and "gen_ai.request.model" in attributes and any(one in attributes for one in _PROVIDERS):
        # Before operations had a name, only calls of models were told of; embeddings have a type of their own.
        return SpanKind.LLM if attributes.get("llm.request.type", "chat") in ("chat", "completion") else None
    return _KINDS.get(name) if isinstance(name, str) else None


def asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The user's last message; a workflow's may be its whole input as JSON, with the question inside."""
    messages = values.structured(raw, flags)
    found = last_user_text(messages) if isinstance(messages, list) else None
    inside = values.parse_json(found) if found is not None and found.startswith("{") else None
    return found if inside is None else question_in(inside)


def said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The last message that went out; it is the model's, whatever role a stream lost."""
    messages = values.structured(raw, flags)
    if not isinstance(messages, list):
        return None
    return last_assistant_text(messages) or last_assistant_text(
        [{**one, "role": "assistant"} for one in messages if isinstance(one, dict)]
    )


def _messages(span: Span, prefix: str, default_role: str) -> list[dict[str, object]]:
    """`{prefix}N.{role,content}` as messages; a content of several parts is JSON."""
    messages: list[dict[str, object]] = []
    for item in values.in_order(values.indexed(span, prefix)):
        content: object = item.get("content")
        if isinstance(content, str) and content.startswith("[{"):
            content = values.parse_json(content) or content
        messages.append({"role": item.get("role", default_role), "content": content})
    return messages


def _asked_by_index(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return last_user_text(_messages(span, "gen_ai.prompt.", "user"))


def _said_by_index(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return last_assistant_text(_messages(span, "gen_ai.completion.", "assistant"))


def _prompt_version(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    version = values.label(span, raw, flags)
    name = span.attributes.get("gen_ai.prompt.name")
    return f"{name}@{version}" if version is not None and isinstance(name, str) else version


def _encoder(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, raw, flags) if _kind_of(span) is SpanKind.EMBEDDING else None


def _model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    if raw == _NO_MODEL or _kind_of(span) not in (SpanKind.LLM, None):
        return None
    return values.label(span, raw, flags)


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    seconds = values.as_number(raw)
    return None if seconds is None else span.start_ns + round(seconds * 1e9)


_RULES = {
    Field.INPUT: (
        Rule("gen_ai.retrieval.query.text", values.filled),
        Rule("gen_ai.input.messages", asked),
        Rule("gen_ai.prompt", _asked_by_index, spread=True),
    ),
    Field.OUTPUT: (
        Rule("gen_ai.output.messages", said),
        Rule("gen_ai.completion", _said_by_index, spread=True),
    ),
    Field.DOCUMENTS: (Rule("gen_ai.retrieval.documents", values.documents(ScoreKind.SIMILARITY)),),
    Field.FILTER: (Rule("gen_ai.retrieval.filters", logged()),),
    Field.TOP_K: (Rule("gen_ai.retrieval.top_k", values.whole), Rule("gen_ai.request.top_k", values.whole)),
    Field.CONTEXT: (
        Rule("gen_ai.prompt.variable.context", values.passages),
        Rule("gen_ai.prompt.variable.context_str", values.passages),
    ),
    Field.INPUT_TOKENS: (
        Rule("gen_ai.usage.input_tokens", values.whole),
        Rule("gen_ai.usage.prompt_tokens", values.whole),
        Rule("gen_ai.response.prompt_tokens", values.whole),
    ),
    Field.OUTPUT_TOKENS: (
        Rule("gen_ai.usage.output_tokens", values.whole),
        Rule("gen_ai.usage.completion_tokens", values.whole),
        Rule("gen_ai.response.completion_tokens", values.whole),
    ),
    Field.COST: (Rule("gen_ai.usage.cost", values.number),),
    Field.FIRST_TOKEN_NS: (Rule("gen_ai.response.time_to_first_chunk", _first_token),),
    Field.MODEL: (Rule("gen_ai.response.model", _model), Rule("gen_ai.request.model", _model)),
    Field.PROMPT_VERSION: (Rule("gen_ai.prompt.version", _prompt_version),),
    Field.ENCODER_VERSION: (Rule("gen_ai.request.model", _encoder),),
    Field.SESSION: (Rule("gen_ai.conversation.id", values.label),),
}

CONVENTION = Convention(
    "genai",
    _RULES,
    _kind_of,
    ("gen_ai.output.messages", "gen_ai.completion.0.content"),
    kinds_by=("gen_ai.operation.name", "gen_ai.request.model"),
)
