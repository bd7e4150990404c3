"""Retrievals and rerankings of a request: which spans are one step, and what its documents are called."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from itertools import zip_longest

from collectors.conventions import Field, FoundDocument, SpanKind, openinference_io
from collectors.conventions.values import as_number, identity_in
from collectors.predicate import Predicate, split, without_prefix
from collectors.request import RequestView
from collectors.span import Span
from collectors.trace import AppliedFilter, Document, Flag, IdSource, Reranking, Retrieval, ScoreKind

_RERANK_SCORE = "relevance_score"
"""Where LangChain's compressors put the reranker's score."""
_SHARED = ("query", "filter", "top_k")
"""What spans of one nested retrieval may say for each other."""
_PAYLOAD = "metadata."
"""Under which LangChain keeps a document's metadata in Qdrant and Elasticsearch: filters there name it, while here a
document's metadata is what stands under it."""
_DEPTH = 16
"""Retrievers nested deeper than this are left out."""


class DocumentReader:
    """Reads what one request retrieved.

    `id_keys` are the metadata keys that may hold a document's id, in order; `entitlement_fields` split a filter that
    was logged as one.
    """

    def __init__(
        self, view: RequestView, id_keys: Sequence[str], entitlement_fields: Collection[str]
    ) -> None:
        self._view = view
        self._id_keys = id_keys
        self._entitlement_fields = entitlement_fields

    def read(self) -> tuple[tuple[Retrieval, ...], Reranking | None]:
        """The retrievals by start time, and the last reranking.

        Spans of one retrieval told at several depths are one. A retriever around others that gave other documents
        has reranked (or fused) them.
        """
        retrievals: list[Retrieval] = []
        reranked: Reranking | None = None
        for outer in self._view.outermost(SpanKind.RETRIEVER):
            found, last = self._told(outer, _DEPTH)
            retrievals.extend(found)
            reranked = last or reranked
        self._flag(retrievals)
        return tuple(retrievals), self._reranking() or reranked

    def _told(self, span: Span, depth: int) -> tuple[list[Retrieval], Reranking | None]:
        """What a retriever and those in it tell: what only one says of a retrieval, all of it have said."""
        found, reranked = self._retrieval(span), None
        inner: list[Retrieval] = []
        nested = self._view.nearest_below(span, SpanKind.RETRIEVER) if depth else []
        if not nested:
            return [found], None
        for below in nested:
            retrievals, last = self._told(below, depth - 1)
            inner.extend(retrievals)
            reranked = last or reranked
        told = [one for one in inner if one.documents is not None]
        found = reduce(_inherit, (one for one in inner if one.documents is None), found)
        if not told or (found.documents is not None and all(_is_same(one, found) for one in told)):
            return [reduce(_inherit, told, found)], reranked
        if found.documents is not None:
            candidates = _known(document for one in told for document in one.documents or ())
            reranked = Reranking(span_id=span.span_id, input_ids=candidates, documents=found.documents)
        return [_inherit(one, found) for one in told], reranked

    def _retrieval(self, span: Span) -> Retrieval:
        view = self._view
        return Retrieval(
            span_id=span.span_id,
            query=view.read(Field.INPUT, span, "retrievals.query"),
            filter=self._filter(span),
            documents=self._documents(Field.DOCUMENTS, span, "retrievals.documents"),
            top_k=view.read(Field.TOP_K, span, "retrievals.top_k"),
            duration_s=max(span.end_ns - span.start_ns, 0) / 1e9,
        )

    def _reranking(self) -> Reranking | None:
        """The last that tells anything; what another one gave is then unknown."""
        found: Reranking | None = None
        for span in self._view.outermost(SpanKind.RERANKER):
            taken = self._documents(Field.RERANK_INPUT, span, None)
            given = self._documents(Field.RERANKED, span, "reranked.documents")
            if given is None:
                self._view.flags.add(Flag.DOCS_UNKNOWN)
            if given is not None or taken is not None:
                found = Reranking(span_id=span.span_id, input_ids=_known(taken), documents=given)
        return found

    def _filter(self, span: Span) -> AppliedFilter | None:
        view = self._view
        said_by = (span, *view.above(span))
        entitlement = view.first_of(Field.ENTITLEMENT, said_by, "retrievals.filter")
        relevance = view.first_of(Field.RELEVANCE, said_by, "retrievals.filter")
        if entitlement is None and relevance is None:
            logged = view.read(Field.FILTER, span, "retrievals.filter")
            return self._split(self._handed_down(span) if logged is None else logged)
        unparsed = [part for part in (entitlement, relevance) if isinstance(part, str)]
        return AppliedFilter(
            entitlement=None if isinstance(entitlement, str) else entitlement,
            relevance=None if isinstance(relevance, str) else relevance,
            text=" and ".join(unparsed) or None,
        )

    def _handed_down(self, span: Span) -> Predicate | str | None:
        """The filter that a pipeline was given for this step of it."""
        view = self._view
        step = view.read(Field.STEP, span)
        for up in view.above(span) if step is not None else ():
            given = view.read(Field.STEP_FILTERS, up)
            if given is not None and step in given:
                view.read(Field.STEP_FILTERS, up, "retrievals.filter")
                found: Predicate | str = given[step]
                return found
        return None

    def _split(self, logged: Predicate | str | None) -> AppliedFilter | None:
        if logged is None:
            return None
        if isinstance(logged, str):
            return AppliedFilter(text=logged)
        logged = without_prefix(logged, _PAYLOAD)
        if not self._entitlement_fields:
            return AppliedFilter(relevance=logged)
        entitlement, relevance = split(logged, self._entitlement_fields)
        return AppliedFilter(entitlement=entitlement, relevance=relevance)

    def _documents(self, field: Field, span: Span, into: str | None) -> tuple[Document, ...] | None:
        found: tuple[FoundDocument, ...] | None = self._view.read(field, span, into)
        if found is None and into is not None:
            found = self._told_above(field, span, into)
        if found is None:
            return None
        named = [self._named(one) for one in found]
        if field is Field.DOCUMENTS and any(one.id is None for one in named):
            named = self._filled(named, span)
        return tuple(self._settled(one) for one in named)

    def _told_above(self, field: Field, span: Span, into: str) -> tuple[FoundDocument, ...] | None:
        """What the pipeline says that this step of it gave."""
        view = self._view
        step = view.read(Field.STEP, span)
        for up in view.above(span) if step is not None else ():
            given = view.read(Field.STEP_DOCUMENTS, up) or {}
            if step in given:
                view.read(Field.STEP_DOCUMENTS, up, into)
                found: tuple[FoundDocument, ...] = given[step]
                ranked = field is Field.RERANKED
                return tuple(one._replace(score_kind=ScoreKind.RERANK) for one in found) if ranked else found
        return None

    def _named(self, found: FoundDocument) -> FoundDocument:
        """Id and score from the metadata, where the convention's own attributes have none."""
        metadata = found.metadata
        if not metadata or (found.id is not None and found.score is not None):
            return found
        identity, source, score, kind, _, text = found
        told = as_number(metadata.get(_RERANK_SCORE))
        if score is None and told is not None:
            score, kind = told, ScoreKind.RERANK
        if identity is None:
            identity = identity_in(metadata, self._id_keys)
            source = None if identity is None else IdSource.METADATA
        return FoundDocument(identity, source, score, kind, metadata, text)

    def _filled(self, found: list[FoundDocument], span: Span) -> list[FoundDocument]:
        """What the retriever's raw output still knows of documents whose attributes are gone, place by place: nothing
        where it tells other documents, or the same in another order."""
        raw = openinference_io.printed_documents(span)
        if raw is None or len(raw) < len(found) or not all(map(_may_be_same, found, raw)):
            return found
        padded = found + [FoundDocument()] * (len(raw) - len(found))
        return [_merged(self._named(one), other) for one, other in zip(padded, raw, strict=True)]

    def _settled(self, found: FoundDocument) -> Document:
        identity, source = found.id, found.id_source
        if identity is None and found.text:
            digest = hashlib.blake2s(found.text.encode("utf-8", "surrogatepass"), digest_size=8)
            identity, source = f"text:{digest.hexdigest()}", IdSource.DERIVED
        return Document(
            id=identity,
            id_source=source,
            score=found.score,
            score_kind=found.score_kind,
            metadata=found.metadata,
            text=found.text,
        )

    def _flag(self, retrievals: Sequence[Retrieval]) -> None:
        documents = [document for one in retrievals for document in one.documents or ()]
        unnamed = any(one.id is None and one.text is None for one in documents)
        if unnamed or any(one.documents is None for one in retrievals):
            self._view.flags.add(Flag.DOCS_UNKNOWN)
        if documents and all(one.score is None for one in documents):
            self._view.flags.add(Flag.NO_SCORES)
        if any(one.id_source is IdSource.DERIVED for one in documents):
            self._view.flags.add(Flag.DERIVED_IDS)


def _is_same(inner: Retrieval, outer: Retrieval) -> bool:
    """Whether both gave the same documents in the same order, by id or by text; the inner may have told of the first
    only."""
    told, given = inner.documents or (), outer.documents or ()
    whole = len(told) == len(given) or (
        0 < len(told) < len(given) and inner.top_k is not None and inner.top_k >= len(given)
    )
    return whole and all(
        one.id == other.id or (one.text is not None and one.text == other.text)
        for one, other in zip(told, given, strict=False)
    )


def _known(documents: Iterable[Document] | None) -> tuple[str, ...] | None:
    """The ids, if all of them are known."""
    ids = None if documents is None else tuple(one.id for one in documents)
    return None if ids is None or None in ids else ids  # type: ignore[return-value]


def _inherit(one: Retrieval, other: Retrieval) -> Retrieval:
    """With what only the other span of a nested retrieval says."""
    missing = {
        name: said
        for name in _SHARED
        if getattr(one, name) is None and (said := getattr(other, name)) is not None
    }
    if one.documents and other.documents and _is_same(other, one):
        pairs = zip_longest(one.documents, other.documents)
        missing["documents"] = tuple(_filled_in(first, second) for first, second in pairs)
    return one.model_copy(update=missing) if missing else one


def _filled_in(one: Document, other: Document | None) -> Document:
    """With the other's score where it has none, and the other's id where its own is only derived."""
    if other is None:
        return one
    update: dict[str, object] = {}
    if one.score is None and other.score is not None:
        update = {"score": other.score, "score_kind": other.score_kind}
    if one.id_source in (None, IdSource.DERIVED) and other.id_source not in (None, IdSource.DERIVED):
        update |= {"id": other.id, "id_source": other.id_source}
    if one.metadata is None and other.metadata is not None:
        update["metadata"] = other.metadata
    return one.model_copy(update=update) if update else one


def _may_be_same(found: FoundDocument, raw: FoundDocument) -> bool:
    """No text contradicts; the attribute's may have been cut short."""
    return found.text is None or raw.text is None or raw.text.startswith(found.text)


def _merged(found: FoundDocument, raw: FoundDocument) -> FoundDocument:
    if found.id is None:
        found = found._replace(id=raw.id, id_source=raw.id_source)
    if found.score is None:
        found = found._replace(score=raw.score, score_kind=raw.score_kind)
    return found._replace(
        metadata=raw.metadata if found.metadata is None else found.metadata,
        text=raw.text if found.text is None else found.text,
    )
