"""A filter of which nothing says what notation it is in: read only where it can be one thing alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from collectors.dialects.clauses import parse_clauses
from collectors.dialects.elasticsearch import parse_elasticsearch
from collectors.dialects.haystack import parse_haystack
from collectors.dialects.lancedb import parse_lancedb
from collectors.dialects.llamaindex import parse_llamaindex
from collectors.dialects.loading import load
from collectors.dialects.milvus import parse_milvus
from collectors.dialects.mongo import parse_mongo
from collectors.dialects.qdrant import parse_qdrant
from collectors.dialects.weaviate import parse_weaviate
from collectors.predicate import Predicate, UnparsedFilter, parse_equalities

_Parser = Callable[[Any], Predicate]
_STRUCTURED: tuple[_Parser, ...] = (
    parse_qdrant,
    parse_elasticsearch,
    parse_weaviate,
    parse_llamaindex,
    parse_haystack,
)
_EXPRESSIONS: tuple[_Parser, ...] = (parse_milvus, parse_lancedb)
_NAMING = {"field", "key", "attribute", "column", "path", "namespace", "name", "property"}
_COMPARING = {
    "op",
    "operator",
    "comparator",
    "value",
    "values",
    "type",
    "match",
    "allow",
    "allow_list",
    "condition",
}
"""Keys of a map that is one condition in a notation not known here (`{"type": "eq", "key": "tenant", "value": 1}`), and
no equalities of fields that happen to have such names."""
_COMPARES = re.compile(r"[=<>(]|\b(?:in|is|like|between)\b", re.IGNORECASE)
"""Without it a text is a word or two, and a field alone is too little to be sure that it is a condition."""


def parse_any(value: object) -> Predicate:
    """The predicate on which all notations that can read the value agree. Raises `UnparsedFilter`.

    Tried are Qdrant, Elasticsearch, Weaviate, LlamaIndex and Haystack; for what none of these can read, MongoDB's
    style, plain equalities and lists of clauses; for texts, the expressions of Milvus and LanceDB. Chroma is not
    tried: how it takes lists could not be told from MongoDB's way.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_any('{"must": [{"key": "tenant", "match": {"value": "acme"}}]}'))
    'tenant = acme'
    """
    if isinstance(value, str):
        text = value
        try:
            value = load(text)
        except UnparsedFilter:
            return _expression(text)
    if isinstance(value, list | tuple):
        return _only(_agreed((parse_elasticsearch, parse_clauses), value), value)
    if not isinstance(value, Mapping):
        raise UnparsedFilter(f"no filter: {value!r:.200}")
    structured = _agreed(_STRUCTURED, value)
    if not structured and not _NAMING.isdisjoint(value) and not _COMPARING.isdisjoint(value):
        raise UnparsedFilter(f"a condition of an unknown notation: {value!r:.200}")
    return _only(structured or _agreed((parse_mongo, parse_equalities), value), value)


def _expression(text: str) -> Predicate:
    return _only(_agreed(_EXPRESSIONS, text) if _COMPARES.search(text) else [], text)


def _agreed(parsers: Sequence[_Parser], value: object) -> list[Predicate]:
    """What the parsers make of it, each reading once."""
    readings: list[Predicate] = []
    for parse in parsers:
        try:
            found = parse(value)
        except UnparsedFilter:
            continue
        if found not in readings:
            readings.append(found)
    return readings


def _only(readings: Sequence[Predicate], value: object) -> Predicate:
    if len(readings) != 1:
        raise UnparsedFilter(f"{len(readings) or 'no'} readings of {value!r:.200}")
    return readings[0]
