"""The AI SDK of Vercel (`ai.*` attributes, versions 3 to 6): calls of models, embeddings, rerankings and tools.

Source: github.com/vercel/ai, packages/ai/src (telemetry, generate-text, embed, rerank); earlier names that are still
about: `ai.result.*` for `ai.response.*`, `promptTokens` for `inputTokens`. A call (`ai.generateText`) stands around its
model's calls (`ai.generateText.doGenerate`) and tools. Whatever is no text of its own is JSON, and each item of a list.
It has no retrieval: a service makes one itself, or gives the model a tool, whose result may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import payloads, values
from collectors.conventions.convention import Convention, Field, FoundDocument, Rule, SpanKind
from collectors.conventions.messages import answer_in, question_in
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_OPERATION, _NAMED_OPERATION = "ai.operationId", "operation.name"
_METADATA = "ai.telemetry.metadata"
_DOCUMENTS, _RANKING = "ai.documents", "ai.ranking"
_CALLS = {"generateText", "streamText", "generateObject", "streamObject"}
_OTHERS = {
    "embed": SpanKind.EMBEDDING,
    "embedMany": SpanKind.EMBEDDING,
    "toolCall": SpanKind.TOOL,
}


def _kind_of(span: Span) -> SpanKind | None:
    """`ai.streamText.doStream`; versions without ids name the operation, with the function's id behind a space."""
    told = span.attributes.get(_OPERATION, span.attributes.get(_NAMED_OPERATION))
    parts = told.partition(" ")[0].split(".") if isinstance(told, str) else []
    if len(parts) < 2 or parts[0] != "ai":
        return None
    if parts[1] in _CALLS:
        return SpanKind.AGENT if len(parts) == 2 else SpanKind.LLM
    if parts[1] == "rerank":  # the ranking is told by the model's call alone
        return None if len(parts) == 2 else SpanKind.RERANKER
    return _OTHERS.get(parts[1])


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return question_in(values.structured(raw, flags))


def _object(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The answer in a generated object; an object that has none by name is the answer itself."""
    made = values.structured(raw, flags)
    return (answer_in(made) or values.as_json_text(raw)) if made else None


def _embedded(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
    """`ai.value` with `ai.embedding`, or the lists `ai.values` with `ai.embeddings`, item by item."""
    attributes = span.attributes
    pairs = [(raw, attributes.get("ai.embedding"))]
    if isinstance(raw, list):
        vectors = attributes.get("ai.embeddings")
        if not isinstance(vectors, list) or len(vectors) != len(raw):
            return None
        pairs = list(zip(raw, vectors, strict=True))
    found = []
    for written, numbers in pairs:
        text = values.structured(written, flags)
        vector = values.vector(span, numbers, flags)
        if isinstance(text, str) and vector is not None:
            found.append((text, vector))
    return tuple(found) or None


def _candidates(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    """What is to be ranked: texts, or objects of the application's own."""
    if not isinstance(raw, list):
        return None
    items = [values.structured(item, flags) for item in raw]
    return tuple(
        FoundDocument(text=item) if isinstance(item, str) else payloads.document(item) for item in items
    )


def _ranked(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    """The ranking tells places among the candidates, with scores; unknown documents where those are not told."""
    if not isinstance(raw, list):
        return None
    candidates = _candidates(span, span.attributes.get(_DOCUMENTS), flags) or ()
    return tuple(_placed(values.structured(item, flags), candidates) for item in raw)


def _placed(item: Any, candidates: tuple[FoundDocument, ...]) -> FoundDocument:
    if not isinstance(item, Mapping):
        return FoundDocument()
    place, score = item.get("index"), values.as_number(item.get("relevanceScore"))
    found = FoundDocument()
    if isinstance(place, int) and 0 <= place < len(candidates):
        found = candidates[place]
    return found._replace(score=score, score_kind=None if score is None else ScoreKind.RERANK)


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    milliseconds = values.as_number(raw)
    return None if milliseconds is None else span.start_ns + round(milliseconds * 1e6)


def _model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, raw, flags) if _kind_of(span) in (SpanKind.AGENT, SpanKind.LLM) else None


def _encoder(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, raw, flags) if _kind_of(span) is SpanKind.EMBEDDING else None


def _metadata(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    prefix = f"{_METADATA}."
    skip = len(prefix)
    return {name[skip:]: span.attributes[name] for name in span.attributes if name.startswith(prefix)} or None


_RULES = {
    Field.INPUT: (Rule("ai.prompt", _asked), Rule("ai.prompt.messages", _asked)),
    Field.OUTPUT: (
        Rule("ai.response.text", values.filled),
        Rule("ai.result.text", values.filled),
        Rule("ai.response.object", _object),
        Rule("ai.result.object", _object),
    ),
    Field.RERANK_INPUT: (Rule(_DOCUMENTS, _candidates),),
    Field.RERANKED: (Rule(_RANKING, _ranked),),
    Field.EMBEDDINGS: (Rule("ai.value", _embedded), Rule("ai.values", _embedded)),
    Field.INPUT_TOKENS: (
        Rule("ai.usage.inputTokens", values.whole),
        Rule("ai.usage.promptTokens", values.whole),
    ),
    Field.OUTPUT_TOKENS: (
        Rule("ai.usage.outputTokens", values.whole),
        Rule("ai.usage.completionTokens", values.whole),
    ),
    Field.FIRST_TOKEN_NS: (
        Rule("ai.response.msToFirstChunk", _first_token),
        Rule("ai.stream.msToFirstChunk", _first_token),
    ),
    Field.MODEL: (Rule("ai.response.model", _model), Rule("ai.model.id", _model)),
    Field.ENCODER_VERSION: (Rule("ai.model.id", _encoder),),
    Field.SESSION: (Rule(f"{_METADATA}.sessionId", values.label),),
    Field.USER: (Rule(f"{_METADATA}.userId", values.label),),
    Field.METADATA: (Rule(_METADATA, _metadata, spread=True),),
}

CONVENTION = Convention(
    "vercel",
    _RULES,
    _kind_of,
    ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
    kinds_by=(_OPERATION, _NAMED_OPERATION),
)
