"""Haystack 2 filters: condition trees like `{"field": "meta.tenant", "operator": "==", "value": "acme"}`.

Source: Haystack's documentation, "Metadata Filtering". Logical operators AND, OR and NOT hold `conditions`;
comparisons are ==, !=, >, >=, <, <=, in, not in; numbers and ISO-8601 dates have an order. Metadata fields carry the
prefix `meta.`, which the documents' own metadata does not.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.dialects.clauses import comparison
from collectors.dialects.loading import load
from collectors.predicate import And, Not, Or, Predicate, UnparsedFilter, conjunction

_COMPARISONS = {"==", "!=", ">", ">=", "<", "<=", "in", "not in"}
MAX_DEPTH = 32


def parse_haystack(tree: object) -> Predicate:
    """The predicate of a Haystack condition tree, or of its text. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_haystack({"field": "meta.tenant", "operator": "==", "value": "acme"}))
    'tenant = acme'
    """
    return _parse(load(tree), MAX_DEPTH)


def _parse(node: object, depth: int) -> Predicate:
    if depth == 0:
        raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}")
    if not isinstance(node, Mapping) or not isinstance(operator := node.get("operator"), str):
        raise UnparsedFilter(f"not a condition with an operator: {node!r:.200}")
    if "conditions" in node:
        return _logical(operator, node["conditions"], depth)
    field = node.get("field")
    if not isinstance(field, str) or "value" not in node or operator.lower() not in _COMPARISONS:
        raise UnparsedFilter(f"not a comparison: {node!r:.200}")
    return comparison(field.removeprefix("meta."), operator, node["value"])


def _logical(operator: str, conditions: object, depth: int) -> Predicate:
    if not isinstance(conditions, list):
        raise UnparsedFilter(f"conditions are not a list: {conditions!r:.200}")
    items = tuple(_parse(item, depth - 1) for item in conditions)
    match operator.upper():
        case "AND":
            return conjunction(items)
        case "OR":
            return items[0] if len(items) == 1 else Or(items=items)
        case "NOT":
            return Not(item=items[0] if len(items) == 1 else And(items=items))
    raise UnparsedFilter(f"no logical operator {operator!r}")
