"""A filter as a vector store's span logged it: which notation it is in, and what it asks.

The database's name decides where the span has it, for the same text may mean different things to two of them; else the
notation shows in the shape. What no parser takes is kept as text and flagged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from collectors.conventions import values
from collectors.conventions.convention import Read
from collectors.dialects.haystack import parse_haystack
from collectors.dialects.loading import load
from collectors.dialects.mongo import parse_chroma, parse_mongo
from collectors.dialects.qdrant import parse_qdrant
from collectors.dialects.spring_ai import parse_spring_ai
from collectors.predicate import Predicate, UnparsedFilter, parse_equalities
from collectors.span import AttributeValue, Span
from collectors.trace import Flag

_SYSTEMS = ("db.system.name", "db.system", "gen_ai.provider.name")

Parse = Callable[[object], Predicate]

_BY_SYSTEM: Mapping[str, Parse] = {
    "chroma": parse_chroma,
    "chromadb": parse_chroma,
    "pinecone": parse_mongo,
    "mongodb": parse_mongo,
    "qdrant": parse_qdrant,
}
_BY_KEY: Mapping[str, Parse] = {
    "conditions": parse_haystack,
    "must": parse_qdrant,
    "must_not": parse_qdrant,
    "should": parse_qdrant,
    "min_should": parse_qdrant,
}
"""By a key that only one notation has at its top."""


def logged(system: str | None = None) -> Read:
    """Reads an attribute that holds a filter; `system` names the database where the attribute itself does."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
        if raw in (None, "", {}, []):
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
    if (parse := _BY_SYSTEM.get(system)) is not None and not _is_haystack(raw):
        return parse(raw)
    tree = load(raw)
    if not isinstance(tree, Mapping) or not all(isinstance(name, str) for name in tree):
        raise UnparsedFilter(f"no filter in any notation: {raw!r:.200}")
    return _tree(tree)


def _tree(tree: Mapping[str, object]) -> Predicate:
    if _is_haystack(tree):
        return parse_haystack(tree)
    parse = next((_BY_KEY[name] for name in tree if name in _BY_KEY), None)
    if parse is not None:
        return parse(tree)
    return parse_mongo(tree) if _has_operators(tree) else parse_equalities(tree)


def _is_haystack(tree: object) -> bool:
    """Haystack's own notation goes to every store that it has an integration for."""
    return isinstance(tree, Mapping) and "operator" in tree and ("conditions" in tree or "field" in tree)


def _has_operators(tree: Mapping[str, object]) -> bool:
    return any(
        name.startswith("$")
        or (isinstance(value, Mapping) and any(str(key).startswith("$") for key in value))
        for name, value in tree.items()
    )


def _system(span: Span) -> str:
    found = next((span.attributes[name] for name in _SYSTEMS if name in span.attributes), "")
    return str(found).lower()
