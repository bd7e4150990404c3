"""A filter as a vector store's span logged it: which notation it is in, and what it asks.

The database's name decides where the span has it, for the same text may mean different things to two of them; else the
notation shows in the shape. What no parser takes is kept as text and flagged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collectors.conventions import values
from collectors.conventions.convention import Read
from collectors.dialects.elasticsearch import parse_elasticsearch
from collectors.dialects.lancedb import parse_lancedb
from collectors.dialects.loading import load
from collectors.dialects.milvus import parse_milvus
from collectors.dialects.mongo import parse_chroma, parse_mongo
from collectors.dialects.qdrant import parse_qdrant
from collectors.dialects.spring_ai import parse_spring_ai
from collectors.dialects.unnamed import parse_any
from collectors.dialects.weaviate import parse_weaviate
from collectors.predicate import Predicate, UnparsedFilter
from collectors.span import AttributeValue, Span
from collectors.trace import Flag

_SYSTEMS = ("db.system.name", "db.system", "gen_ai.provider.name")

_BY_SYSTEM: Mapping[str, Callable[..., Predicate]] = {
    "chroma": parse_chroma,
    "chromadb": parse_chroma,
    "elasticsearch": parse_elasticsearch,
    "lancedb": parse_lancedb,
    "milvus": parse_milvus,
    "mongodb": parse_mongo,
    "opensearch": parse_elasticsearch,
    "pinecone": parse_mongo,
    "qdrant": parse_qdrant,
    "weaviate": parse_weaviate,
}
_OF_FRAMEWORKS = ({"operator", "conditions"}, {"operator", "field"}, {"filters", "condition"}, {"filters"})
"""Keys at the top of Haystack's and LlamaIndex's own notations, which they log whatever the store."""


NO_FILTER: tuple[object, ...] = (None, "", "None", "null", {}, [])
"""How a filter that was not given is written."""


def logged(system: str | None = None) -> Read:
    """Reads an attribute that holds a filter; `system` names the database where the attribute itself does."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
        if raw in NO_FILTER:
            return None
        if raw == values.REDACTED:
            flags.add(Flag.REDACTED)
            return None
        try:
            return parse_filter(raw, system or _system(span))
        except UnparsedFilter:
            flags.add(Flag.FILTER_UNPARSED)
            return values.as_json_text(raw)

    return read


def parse_filter(raw: object, system: str = "") -> Predicate:
    """The predicate of a filter in whatever notation it is in. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_filter("{'tenant': 'acme', 'published': True}"))
    'tenant = acme and published = true'
    >>> to_text(parse_filter("Expression[type=EQ, left=Key[key=dept], right=Value[value=sales]]", "qdrant"))
    'dept = sales'
    """
    if isinstance(raw, str) and raw.lstrip().startswith("Expression["):
        return parse_spring_ai(raw)
    parse = _BY_SYSTEM.get(system)
    return parse_any(raw) if parse is None or _is_of_a_framework(raw) else parse(raw)


def _is_of_a_framework(raw: object) -> bool:
    try:
        tree = load(raw)
    except UnparsedFilter:
        return False
    return isinstance(tree, Mapping) and any(names <= tree.keys() for names in _OF_FRAMEWORKS)


def _system(span: Span) -> str:
    found = next((span.attributes[name] for name in _SYSTEMS if name in span.attributes), "")
    return str(found).lower()
