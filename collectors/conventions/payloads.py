"""Documents in what frameworks and stores hand on: the shapes of one, and the lists they come in.

Shapes: `{id?, page_content | content | text, metadata | meta, score?}` (LangChain, Haystack); LangChain's
`{lc, kwargs: {page_content, metadata}}`; LlamaIndex's `{node: {id_, text, metadata}, score}`; Qdrant's points
`{id, score, payload}`; Elasticsearch's hits `{_id, _score, _source}`; Bedrock's `{content: {text}, score, metadata}`;
each perhaps printed as JSON inside a list; a pair of document and score; a chunk's bare text. Chroma gives columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import values
from collectors.conventions.convention import FoundDocument
from collectors.trace import IdSource, ScoreKind

_LISTS = (
    "documents", "nodes", "source_nodes", "source_documents", "docs", "output", "results", "matches", "points", "hits",
    "chunks", "retrievalResults", "data",
)  # fmt: skip
_TEXTS = ("page_content", "content", "text", "document")
_IDS = ("id", "id_", "node_id", "_id")
_METADATA = ("metadata", "meta", "payload", "_source")
_SCORES = ("score", "_score")
_DISTANCES = ("distance", "_distance")


def documents_in(payload: object, kind: ScoreKind = ScoreKind.SIMILARITY) -> tuple[FoundDocument, ...] | None:
    """The documents of a list, or of the first such list in a map; None where there is none.

    >>> documents_in({"documents": [{"page_content": "5 days", "metadata": {"tenant": "acme"}}], "count": 1})[0].text
    '5 days'
    >>> documents_in({"documents": []}), documents_in({"answer": "5 days"})
    ((), None)
    >>> documents_in(['{"node": {"id_": "kb-1", "text": "5 days"}, "score": 0.5}'])[0].id
    'kb-1'
    """
    if isinstance(payload, dict):
        if isinstance(payload.get("ids"), list):
            return _columns(payload)
        hits = payload.get("hits")
        holder = hits if isinstance(hits, dict) else payload
        found = next((holder[name] for name in _LISTS if isinstance(holder.get(name), list)), None)
        return None if found is None else documents_in(found, kind)
    if not isinstance(payload, list):
        return None
    return tuple(document(item, kind) for item in payload)


def _columns(found: Mapping[str, Any]) -> tuple[FoundDocument, ...] | None:
    """Chroma's `{ids, documents, metadatas, distances}`, a list inside each for its one query. Several queries' results
    are several retrievals, which one span cannot tell apart.

    >>> _columns({"ids": [["a", "b"]], "documents": [["x", "y"]], "distances": [[0.1, 0.2]]})[1][:4]
    ('b', <IdSource.OUTPUT: 'output'>, 0.2, <ScoreKind.DISTANCE: 'distance'>)
    >>> _columns({"ids": [["a"], ["b"]]}) is None
    True
    """
    ids = found["ids"]
    if any(isinstance(one, list) for one in ids):
        if len(ids) != 1:
            return None
        found = {name: one[0] for name, one in found.items() if isinstance(one, list) and len(one) == 1}
        ids = found["ids"]

    def column(name: str) -> list[Any]:
        given = found.get(name)
        return given if isinstance(given, list) and len(given) == len(ids) else [None] * len(ids)

    rows = zip(ids, column("documents"), column("metadatas"), column("distances"), strict=True)
    return tuple(
        document({"id": identity, "text": text, "metadata": metadata, "distance": distance})
        for identity, text, metadata, distance in rows
    )


def document(item: object, kind: ScoreKind = ScoreKind.SIMILARITY) -> FoundDocument:
    """One document of any of the shapes; an unknown one where it is none of them, so that ranks stay true. A bare text
    is a chunk's where it has more than one word: a single word may as well be an id."""
    if isinstance(item, str):
        if not item.startswith("{"):
            return FoundDocument(text=item) if len(item.split(maxsplit=1)) > 1 else FoundDocument()
        item = values.parse_json(item)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], dict) and _is_scalar(item[1]):
        score = values.as_number(item[1])
        return document(item[0], kind)._replace(score=score, score_kind=None if score is None else kind)
    if not isinstance(item, dict):
        return FoundDocument()
    for wrapper in ("node", "kwargs"):
        if isinstance(inner := item.get(wrapper), dict):
            return _flat({**inner, "score": item.get("score", inner.get("score"))}, kind)
    return _flat(item, kind)


def _is_scalar(value: object) -> bool:
    """A score, even where it is no number: NaN is written as null."""
    return not isinstance(value, dict | list)


def _flat(item: Mapping[str, Any], kind: ScoreKind) -> FoundDocument:
    identity = values.identity_in(item, _IDS)
    metadata = next(
        (found for name in _METADATA if (found := values.mapping_in(item.get(name), set())) is not None), None
    )
    score, kind_told = _score(item, kind)
    text = _text(item)
    if text is None and metadata is not None:
        text = _text(metadata)
        inner = metadata.get("metadata")
        metadata = inner if text is not None and isinstance(inner, dict) else metadata
    return FoundDocument(
        id=identity,
        id_source=None if identity is None else IdSource.OUTPUT,
        score=score,
        score_kind=kind_told,
        metadata=metadata,
        text=text,
    )


def _score(item: Mapping[str, Any], kind: ScoreKind) -> tuple[float | None, ScoreKind | None]:
    for names, meaning in ((_SCORES, kind), (_DISTANCES, ScoreKind.DISTANCE)):
        told = next((one for name in names if (one := values.as_number(item.get(name))) is not None), None)
        if told is not None:
            return told, meaning
    return None, None


def _text(item: Mapping[str, Any]) -> str | None:
    """The text, or that of its parts (Bedrock's one, OpenAI's list)."""
    for name in _TEXTS:
        found = item.get(name)
        if isinstance(found, str):
            return found
        parts = found if isinstance(found, list) else [found]
        texts = [
            part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
        if texts:
            return "\n".join(texts)
    return None
