"""LlamaIndex's own OpenTelemetry integration: methods as spans, its instrumentation events as their span events.

Source: llama-index-observability-otel, base.py and utils.py (0.7.0); event classes of llama-index-core 0.14,
instrumentation/events. Events are flattened with dots, so document ids stand inside attribute keys
(`response.metadata.kb-101.tenant`); lists of maps become JSON. All events of a span are added as it ends: their true
times are in their `timestamp`, local and without a zone. Instrumentation tags become `llamaindex.{key}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from collectors.conventions import quoted, values
from collectors.conventions.convention import Convention, Field, FoundDocument, Read, Rule, SpanKind
from collectors.conventions.messages import last_assistant_text, last_user_text
from collectors.conventions.payloads import documents_in
from collectors.span import AttributeValue, Span, SpanEvent
from collectors.trace import Flag, ScoreKind

_KINDS = {
    "QueryStartEvent": SpanKind.CHAIN,
    "RetrievalStartEvent": SpanKind.RETRIEVER,
    "ReRankStartEvent": SpanKind.RERANKER,
    "EmbeddingStartEvent": SpanKind.EMBEDDING,
    "SparseEmbeddingStartEvent": SpanKind.EMBEDDING,
    "LLMChatStartEvent": SpanKind.LLM,
    "LLMCompletionStartEvent": SpanKind.LLM,
    "LLMPredictStartEvent": SpanKind.LLM,
    "LLMStructuredPredictStartEvent": SpanKind.LLM,
    "AgentChatWithStepStartEvent": SpanKind.AGENT,
    "AgentRunStepStartEvent": SpanKind.AGENT,
}
_SCOPE = "llamaindex.opentelemetry.tracer"
_PROGRESS = ("LLMChatInProgressEvent", "LLMCompletionInProgressEvent")
_LLM_STARTS = ("LLMChatStartEvent", "LLMCompletionStartEvent")
_LLM_ENDS = ("LLMChatEndEvent", "LLMCompletionEndEvent")
_RESPONSES = ("QueryEndEvent", "SynthesizeEndEvent", "AgentChatWithStepEndEvent")
_NAMELESS = {"unknown", ""}


def _kind_of(span: Span) -> SpanKind | None:
    """By its first event; a chat engine has none of its own."""
    for event in span.events:
        if event.name in _KINDS:
            return _KINDS[event.name]
    is_engine = span.scope.name == _SCOPE and "ChatEngine." in span.name
    return SpanKind.CHAIN if is_engine and span.name.endswith("chat") else None


def _query(name: str) -> Read:
    """A query that is text, or a bundle with text in it."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
        event = _attributes(raw)
        return values.filled(span, event.get(name, event.get(f"{name}.query_str")), flags)

    return read


def _text(name: str) -> Read:
    return lambda span, raw, flags: values.filled(span, _attributes(raw).get(name), flags)


def _nodes(name: str, kind: ScoreKind) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        return documents_in(quoted.decoded(_attributes(raw).get(name), flags), kind)

    return read


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return last_user_text(_messages(_attributes(raw).get("messages"), flags))


def _said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    blocks = _attributes(raw).get("response.message.blocks")
    return last_assistant_text(_messages([{"role": "assistant", "blocks": blocks}], flags))


def _messages(raw: AttributeValue, flags: set[Flag]) -> list[dict[str, object]]:
    """Chat messages, whose content is a list of blocks."""
    listed = quoted.decoded(raw, flags)
    messages = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [
        {"role": one.get("role"), "content": one.get("content", quoted.decoded(one.get("blocks"), flags))}
        for one in messages
    ]


def _context(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    chunks = _attributes(raw).get("text_chunks")
    return None if chunks is None else values.strings(span, chunks, flags)


def _context_text(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    found = _attributes(raw).get("template_args.context_str")
    return None if not isinstance(found, str) else ((found,) if found else ())


def _context_ids(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """The ids of what the response was made from: its nodes, else the keys that their metadata is filed under."""
    event = _attributes(raw)
    found = documents_in(quoted.decoded(event.get("response.source_nodes"), flags))
    if found is not None:
        ids = tuple(one.id for one in found if one.id is not None)
        return ids if len(ids) == len(found) else None
    return _ids_in_keys(event, "response.metadata.")


def _ids_in_keys(event: Mapping[str, AttributeValue], prefix: str) -> tuple[str, ...] | None:
    """`{prefix}{id}.{key}`: the id ends before the last dot, or before that of a shorter one where the metadata is
    itself a map. At most `MAX_LIST` of them.

    >>> _ids_in_keys({"m.kb-1.tenant": "a", "m.kb-1.geo.country": "de", "m.v1.2.page": 3, "query": "q"}, "m.")
    ('kb-1', 'v1.2')
    """
    candidates = {name[len(prefix) :].rpartition(".")[0]: None for name in event if name.startswith(prefix)}
    ids: dict[str, None] = {}
    for candidate in candidates:
        if len(ids) == values.MAX_LIST:
            break
        parts = candidate.split(".")[: values.MAX_LIST]
        shorter = (".".join(parts[:length]) for length in range(1, len(parts)))
        ids[next((one for one in shorter if one in candidates), candidate)] = None
    ids.pop("", None)
    return tuple(ids) or None


def _embedded(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
    event = _attributes(raw)
    chunks = values.strings(span, event.get("chunks"), flags)
    vectors = quoted.decoded(event.get("embeddings"), flags)
    if chunks is None or not isinstance(vectors, list) or len(chunks) != len(vectors):
        return None
    pairs = (
        (chunk, values.vector(span, vector, flags)) for chunk, vector in zip(chunks, vectors, strict=True)
    )
    return tuple((chunk, vector) for chunk, vector in pairs if vector is not None) or None


def _model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    event = _attributes(raw)
    found = values.label(span, event.get("model_dict.model_name", event.get("model_dict.model")), flags)
    return None if found in _NAMELESS else found


def _tokens(*names: str) -> Read:
    """Providers put the usage into the response's own arguments, or leave it in their raw answer."""
    places = tuple(
        f"response.{place}{name}" for place in ("additional_kwargs.", "raw.usage.") for name in names
    )

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
        event = _attributes(raw)
        counts = (values.whole(span, event.get(place), flags) for place in places)
        return next((count for count in counts if count is not None), None)

    return read


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    """From the start of the span as long as from the start of the call to the first chunk."""
    began = next((event for event in span.events if event.name in _LLM_STARTS), None)
    first = next((event for event in span.events if event.name in _PROGRESS), None)
    if began is None or first is None:
        return None
    times = _time(began), _time(first)
    if times[0] is None or times[1] is None:
        return None
    return span.start_ns + max(round((times[1] - times[0]).total_seconds() * 1e9), 0)


def _time(event: SpanEvent) -> datetime | None:
    written = quoted.unquoted(event.attributes.get("timestamp"))
    try:
        return datetime.fromisoformat(written).replace(tzinfo=None) if isinstance(written, str) else None
    except ValueError:
        return None


def _tags(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    return quoted.below(span, "llamaindex.")


def _attributes(raw: AttributeValue) -> Mapping[str, AttributeValue]:
    return raw if isinstance(raw, dict) else {}


def _at(events: tuple[str, ...], read: Read) -> tuple[Rule, ...]:
    return tuple(Rule(name, read, event=True) for name in events)


_RULES = {
    Field.INPUT: (
        *_at(("QueryStartEvent", "SynthesizeStartEvent"), _query("query")),
        *_at(("RetrievalStartEvent",), _query("str_or_query_bundle")),
        *_at(("AgentChatWithStepStartEvent",), _text("user_msg")),
        *_at(("AgentRunStepStartEvent",), _text("input")),
        *_at(("LLMChatStartEvent",), _asked),
    ),
    Field.OUTPUT: (
        *_at(_RESPONSES, _text("response.response")),
        *_at(("LLMChatEndEvent",), _said),
        *_at(("LLMCompletionEndEvent",), _text("response.text")),
        *_at(("LLMPredictEndEvent",), _text("output")),
    ),
    Field.DOCUMENTS: _at(("RetrievalEndEvent",), _nodes("nodes", ScoreKind.SIMILARITY)),
    Field.RERANK_INPUT: _at(("ReRankStartEvent",), _nodes("nodes", ScoreKind.SIMILARITY)),
    Field.RERANKED: _at(("ReRankEndEvent",), _nodes("nodes", ScoreKind.RERANK)),
    Field.CONTEXT: (
        *_at(("LLMPredictStartEvent",), _context_text),
        *_at(("GetResponseStartEvent",), _context),
    ),
    Field.CONTEXT_IDS: _at(_RESPONSES, _context_ids),
    Field.EMBEDDINGS: _at(("EmbeddingEndEvent",), _embedded),
    Field.INPUT_TOKENS: _at(_LLM_ENDS, _tokens("prompt_tokens", "input_tokens")),
    Field.OUTPUT_TOKENS: _at(_LLM_ENDS, _tokens("completion_tokens", "output_tokens")),
    Field.FIRST_TOKEN_NS: (Rule(_PROGRESS[0], _first_token, spread=True, shown_by=_PROGRESS),),
    Field.MODEL: _at(_LLM_STARTS, _model),
    Field.ENCODER_VERSION: _at(("EmbeddingStartEvent",), _model),
    Field.METADATA: tuple(Rule(name, _tags, event=True, named="llamaindex") for name in _KINDS),
}

CONVENTION = Convention("llamaindex", _RULES, _kind_of, (*_RESPONSES, *_LLM_ENDS, "LLMPredictEndEvent"))
