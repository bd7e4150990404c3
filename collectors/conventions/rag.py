"""Our own attributes, `rag.*`, for what no convention has.

A service may set them on any span of the request. `rag.filter.*` are lists of `{field, op, value}`, structured or as
JSON; `rag.citations` of `{document_id, start, end}`; `rag.rerank.documents` of `{id, score}`.
"""

from __future__ import annotations

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, FoundDocument, Rule, SpanKind
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, IdSource, ScoreKind


def _cache_hit(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, bool] | None:
    """`rag.cache.layer` names the cache; without it the span's operation does."""
    if not isinstance(raw, bool):
        return None
    layer = (
        span.attributes.get("rag.cache.layer") or span.attributes.get("gen_ai.operation.name") or span.name
    )
    return str(layer), raw


def _ids(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    found = values.strings(span, raw, flags)
    return None if found is None else tuple(FoundDocument(one, IdSource.LOGGED) for one in found)


_RULES = {
    Field.QUERY: (Rule("rag.query.text", values.text),),
    Field.QUERY_EMBEDDING: (Rule("rag.query.embedding", values.vector),),
    Field.ANSWER: (Rule("rag.answer.text", values.text),),
    Field.REFUSED: (Rule("rag.answer.refused", values.boolean),),
    Field.ENTITLEMENT: (Rule("rag.filter.entitlement", values.clauses),),
    Field.RELEVANCE: (Rule("rag.filter.relevance", values.clauses),),
    Field.RERANK_INPUT: (Rule("rag.rerank.input_document_ids", _ids),),
    Field.RERANKED: (Rule("rag.rerank.documents", values.documents(ScoreKind.RERANK)),),
    Field.CONTEXT: (Rule("rag.context.text", values.strings),),
    Field.CONTEXT_IDS: (Rule("rag.context.document_ids", values.strings),),
    Field.CITATIONS: (Rule("rag.citations", values.citations),),
    Field.GOLD_IDS: (Rule("rag.gold.document_ids", values.strings),),
    Field.CACHE_HIT: (Rule("rag.cache.hit", _cache_hit),),
    Field.INDEX_VERSION: (Rule("rag.index.version", values.label),),
    Field.ENCODER_VERSION: (Rule("rag.encoder.version", values.label),),
    Field.TENANT: (Rule("rag.tenant.id", values.label),),
    Field.LOCALE: (Rule("rag.locale", values.label),),
    Field.INTENT: (Rule("rag.intent", values.label),),
}

_KINDS = (
    ("rag.query.text", SpanKind.WORKFLOW),
    ("rag.answer.text", SpanKind.WORKFLOW),
    ("rag.rerank.documents", SpanKind.RERANKER),
    ("rag.filter.relevance", SpanKind.RETRIEVER),
    ("rag.filter.entitlement", SpanKind.RETRIEVER),
)


def _kind_of(span: Span) -> SpanKind | None:
    """What the attributes imply, for spans that no other convention gave a kind."""
    return next((kind for name, kind in _KINDS if name in span.attributes), None)


CONVENTION = Convention("rag", _RULES, _kind_of, kinds_by=tuple(name for name, _ in _KINDS))
