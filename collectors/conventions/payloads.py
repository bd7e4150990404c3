"""Documents in what frameworks hand on: five shapes of one, and the lists they come in.

Shapes: `{id?, page_content | content | text, metadata | meta, score?}` (LangChain, Haystack); LangChain's
`{lc, kwargs: {page_content, metadata}}`; LlamaIndex's `{node: {id_, text, metadata}, score}`; each perhaps printed as
JSON inside a list; and a pair of document and score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import values
from collectors.conventions.convention import FoundDocument
from collectors.trace import IdSource, ScoreKind

_LISTS = (
    "documents", "nodes", "source_nodes", "source_documents", "docs", "output", "results", "matches", "points", "hits",
    "chunks",
)  # fmt: skip
_TEXTS = ("page_content", "content", "text", "document")
_IDS = ("id", "id_", "node_id")


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
        found = next((payload[name] for name in _LISTS if isinstance(payload.get(name), list)), None)
        return None if found is None else documents_in(found, kind)
    if not isinstance(payload, list):
        return None
    return tuple(document(item, kind) for item in payload)


def document(item: object, kind: ScoreKind = ScoreKind.SIMILARITY) -> FoundDocument:
    """One document of any of the shapes; an unknown one where it is none of them, so that ranks stay true."""
    if isinstance(item, str):
        item = values.parse_json(item) if item.startswith("{") else None
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], dict) and _is_scalar(item[1]):
        score = values.as_number(item[1])
        return document(item[0], kind)._replace(score=score, score_kind=None if score is None else kind)
    if not isinstance(item, dict):
        return FoundDocument()
    for wrapper in ("node", "kwargs"):
        if isinstance(inner := item.get(wrapper), dict):
            return _flat(inner, item.get("score", inner.get("score")), kind)
    return _flat(item, item.get("score"), kind)


def _is_scalar(value: object) -> bool:
    """A score, even where it is no number: NaN is written as null."""
    return not isinstance(value, dict | list)


def _flat(item: Mapping[str, Any], score: object, kind: ScoreKind) -> FoundDocument:
    identity = values.identity_in(item, _IDS)
    value = values.as_number(score)
    return FoundDocument(
        id=identity,
        id_source=None if identity is None else IdSource.OUTPUT,
        score=value,
        score_kind=None if value is None else kind,
        metadata=values.mapping_in(item.get("metadata", item.get("meta")), set()),
        text=next((item[name] for name in _TEXTS if isinstance(item.get(name), str)), None),
    )
