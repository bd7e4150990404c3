"""Weaviate's `where`: `{"operator": "Equal", "path": ["tenant"], "valueText": "acme"}`.

Source: Weaviate documentation, "Filters" (conditional filters, filter by null state); weaviate/weaviate issue 3319 for
`NotEqual` (1.24 and later), weaviate/weaviate-io pull request 276 for empty texts.

- `NotEqual`, `ContainsNone` and `Not` are the complement: a missing property passes.
- A list meets a condition when any item does. Properties have types, so a number and a text are never compared.
- `IsNull` is missing, null, an empty list or an empty text: all of these are indexed alike.
- `Equal` and `Contains...` of a text are read as of a property tokenised by `field`, which is what the documentation
  asks for where a text is a key; in a property tokenised by `word` the same filter finds more.

Not read: `Like` (wildcards, and not by case), texts compared by order, references to other objects, lengths, geography,
ids, and the Python client's printed `And` and `Or`, which look the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.dialects.loading import load_mapping
from collectors.predicate import (
    ALL,
    Eq,
    Exists,
    In,
    Not,
    Or,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    as_scalar,
    conjunction,
    disjunction,
)
from collectors.predicate.times import as_time_text

_BOUNDS = {"GreaterThan": "gt", "GreaterThanEqual": "gte", "LessThan": "lt", "LessThanEqual": "lte"}
_NOT_METADATA = {"id", "uuid"}


def parse_weaviate(value: object) -> Predicate:
    """The predicate of a `where`, as a mapping or its JSON. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_weaviate({"operator": "And", "operands": [
    ...     {"operator": "Equal", "path": ["tenant"], "valueText": "acme"},
    ...     {"operator": "GreaterThan", "path": "year", "valueInt": 2020}]}))
    'tenant = acme and year > 2020'
    """
    loaded = load_mapping(value)
    return _where(loaded) if loaded else ALL


def _where(value: object) -> Predicate:
    if not isinstance(value, Mapping) or not isinstance(operator := value.get("operator"), str):
        raise UnparsedFilter(f"no operator: {value!r:.200}")
    if operator in ("And", "Or", "Not"):
        return _logical(operator, value)
    return _condition(_path(value), operator, *_typed_value(value))


def _logical(operator: str, value: Mapping[str, object]) -> Predicate:
    operands = value.get("operands")
    if value.keys() != {"operator", "operands"} or not isinstance(operands, list | tuple) or not operands:
        raise UnparsedFilter(f"{operator} without operands: {value!r:.200}")
    items = [_where(one) for one in operands]
    match operator:
        case "And":
            return conjunction(items)
        case "Or":
            return disjunction(items)
    if len(items) != 1:
        raise UnparsedFilter(f"Not of {len(items)} operands")
    return Not(item=items[0])


def _path(value: Mapping[str, object]) -> str:
    path = value.get("path", value.get("target"))
    if isinstance(path, list | tuple) and len(path) == 1:
        path = path[0]
    if not isinstance(path, str) or not path or path in _NOT_METADATA or path[0] == "_" or "(" in path:
        raise UnparsedFilter(f"no property of the object itself: {path!r:.200}")
    return path


def _typed_value(value: Mapping[str, object]) -> tuple[str, object]:
    """The name of the value's type (empty where the client printed none) and the value."""
    typed = {key: what for key, what in value.items() if key.startswith("value") and what is not None}
    if len(typed) != 1 or value.keys() - typed.keys() - {"operator", "path", "target"}:
        raise UnparsedFilter(f"not one value: {value!r:.200}")
    ((key, found),) = typed.items()
    return key.removeprefix("value"), found


def _condition(field: str, operator: str, kind: str, value: object) -> Predicate:
    match operator:
        case "Equal":
            return _equal(field, kind, value)
        case "NotEqual":
            return Not(item=_equal(field, kind, value))
        case "GreaterThan" | "GreaterThanEqual" | "LessThan" | "LessThanEqual":
            return _range(field, kind, {_BOUNDS[operator]: value})
        case "ContainsAny" | "ContainsAll" | "ContainsNone":
            return _contains(field, operator, value)
        case "IsNull" if isinstance(value, bool):
            null = Or(
                items=(Not(item=Exists(field=field, holding="items")), Eq(field=field, value="", whole=True))
            )
            return null if value else Not(item=null)
    raise UnparsedFilter(f"no node for {operator} of {value!r:.200}")


def _equal(field: str, kind: str, value: object) -> Predicate:
    if kind == "Date":
        return _range(field, kind, {"gte": value, "lte": value})
    return Eq(field=field, value=_scalar(value))


def _range(field: str, kind: str, bounds: Mapping[str, object]) -> Predicate:
    if kind == "Date":
        times = {name: as_time_text(bound) for name, bound in bounds.items()}
        if None not in times.values():
            return Range.model_validate({"field": field, "time": True, **times})
    elif all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds.values()):
        return Range.model_validate(
            {"field": field, **{name: _scalar(bound) for name, bound in bounds.items()}}
        )
    raise UnparsedFilter(f"no order for {field!r} and {bounds!r:.200}")


def _contains(field: str, operator: str, value: object) -> Predicate:
    if not isinstance(value, list | tuple) or not value:
        raise UnparsedFilter(f"{operator} without values: {value!r:.200}")
    values = tuple(_scalar(one) for one in value)
    match operator:
        case "ContainsAll":
            return conjunction([Eq(field=field, value=one) for one in values])
        case "ContainsAny":
            return In(field=field, values=values)
    return Not(item=In(field=field, values=values))


def _scalar(value: object) -> Scalar:
    scalar = as_scalar(value)
    if scalar is None:
        raise UnparsedFilter("a property is compared with null")
    return scalar
