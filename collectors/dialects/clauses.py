"""`rag.filter.entitlement` and `rag.filter.relevance`: lists of `{field, op, value}` that must all hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from collectors.predicate import (
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Predicate,
    Range,
    UnparsedFilter,
    as_scalar,
    conjunction,
)
from collectors.predicate.times import as_time_text

_OPERATORS = {
    "eq": "eq", "==": "eq", "=": "eq",
    "ne": "ne", "!=": "ne", "<>": "ne",
    "in": "in", "nin": "nin", "not in": "nin",
    "gt": "gt", ">": "gt", "gte": "gte", ">=": "gte",
    "lt": "lt", "<": "lt", "lte": "lte", "<=": "lte",
    "exists": "exists", "contains": "contains",
}  # fmt: skip


def parse_clauses(items: Sequence[object]) -> Predicate:
    """`rag.filter.*`: a list of `{field, op, value}`, all of which must hold.

    `op` is one of eq, ne, in, nin, gt, gte, lt, lte, exists, contains, or the usual sign; it defaults to eq.
    The four with an order compare numbers, or times where the value is an ISO-8601 date or date-time.
    Raises `UnparsedFilter` for anything else.

    >>> from collectors.predicate import to_text
    >>> logged = [{"field": "tenant", "value": "acme"}, {"field": "year", "op": ">=", "value": 2020}]
    >>> to_text(parse_clauses(logged))
    'tenant = acme and year >= 2020'
    """
    return conjunction([_parse_clause(item) for item in items])


def comparison(field: str, op: str, value: object) -> Predicate:
    """One comparison by the name or sign of its operator; what the parsers of all dialects share.

    Raises `UnparsedFilter` for an operator or value that no node can hold.
    """
    name = _OPERATORS.get(op.lower())
    match name:
        case "eq":
            return Eq(field=field, value=as_scalar(value))
        case "ne":
            return Ne(field=field, value=as_scalar(value))
        case "in" | "nin" if isinstance(value, list | tuple):
            inside = In(field=field, values=tuple(as_scalar(item) for item in value))
            return inside if name == "in" else Not(item=inside)
        case "gt" | "gte" | "lt" | "lte":
            return _range(field, name, value)
        case "exists":
            return Not(item=Exists(field=field)) if value is False else Exists(field=field)
        case "contains":
            return Contains(field=field, value=as_scalar(value))
    raise UnparsedFilter(f"no comparison {op!r} of {field!r} with {value!r:.200}")


def _parse_clause(item: object) -> Predicate:
    if not isinstance(item, Mapping) or not isinstance(item.get("field"), str):
        raise UnparsedFilter(f"not a clause with a field: {item!r:.200}")
    unknown = item.keys() - {"field", "op", "value"}
    if unknown:
        raise UnparsedFilter(f"a clause has no {sorted(map(str, unknown))}")
    return comparison(item["field"], str(item.get("op", "eq")), item.get("value"))


def _range(field: str, name: str, value: object) -> Predicate:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return Range.model_validate({"field": field, name: value})
    time = as_time_text(value)
    if time is None:
        raise UnparsedFilter(f"neither a number nor an ISO-8601 date to compare with: {value!r:.200}")
    return Range.model_validate({"field": field, name: time, "time": True})
