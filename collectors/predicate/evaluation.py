"""Whether a document satisfies a predicate: the AST's one semantics, described in `nodes`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from collectors.predicate.nodes import (
    And,
    Bound,
    Contains,
    Eq,
    Exists,
    In,
    Leaf,
    Ne,
    Not,
    Or,
    Other,
    Predicate,
    Range,
    Scalar,
)
from collectors.predicate.times import as_instant

Metadata = Mapping[str, object]


def evaluate(predicate: Predicate, metadata: Metadata) -> bool:
    """Whether a document with this metadata satisfies the predicate.

    >>> evaluate(Eq(field="tenant", value="acme"), {"tenant": "globex"})
    False
    >>> evaluate(Eq(field="acl", value="sales"), {"acl": ["support", "sales"]})
    True
    """
    match predicate:
        case And(items=items):
            return all(evaluate(item, metadata) for item in items)
        case Or(items=items):
            return any(evaluate(item, metadata) for item in items)
        case Not(item=item):
            return not evaluate(item, metadata)
        case _:
            return _evaluate_leaf(predicate, _lookup(metadata, predicate.field))


class _Missing:
    """What no document holds: the value of a field that is not there."""


_MISSING = _Missing()


def _lookup(metadata: Metadata, field: str) -> object:
    value: object = metadata.get(field, _MISSING)
    if value is not _MISSING or "." not in field:
        return value
    value = metadata
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _evaluate_leaf(leaf: Leaf, value: object) -> bool:
    match leaf:
        case Exists(holding=holding):
            return _exists(value, holding)
        case Contains():
            return _contains(value, leaf)
        case _:
            return _compare(leaf, (value,) if leaf.whole else _items(value))


def _compare(leaf: Eq | Ne | In | Other | Range, candidates: Sequence[object]) -> bool:
    match leaf:
        case Eq(value=wanted):
            return _any_equals(candidates, wanted)
        case Ne(value=unwanted):
            return not _any_equals(candidates, unwanted)
        case In(values=values):
            return any(_any_equals(candidates, wanted) for wanted in values)
        case Other(values=values):
            there = (item for item in candidates if item is not None and item is not _MISSING)
            return any(not any(_equals(item, unwanted) for unwanted in values) for item in there)
        case Range():
            return any(_within(item, leaf) for item in candidates)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _items(value: object) -> Sequence[object]:
    return value if _is_list(value) else (value,)


def _any_equals(candidates: Sequence[object], wanted: Scalar) -> bool:
    return any(_equals(item, wanted) or (wanted is None and item is _MISSING) for item in candidates)


def _equals(value: object, wanted: Scalar) -> bool:
    if wanted is None or isinstance(wanted, bool):
        return value is wanted
    return not isinstance(value, bool) and isinstance(value, str | int | float) and value == wanted


def _exists(value: object, holding: str) -> bool:
    match holding:
        case "anything":
            return value is not _MISSING
        case "items":
            return value is not _MISSING and value is not None and (not _is_list(value) or bool(value))
        case "value":
            return any(item is not _MISSING and item is not None for item in _items(value))
        case "list":
            return _is_list(value)
    return value is not _MISSING and value is not None


def _contains(value: object, leaf: Contains) -> bool:
    if isinstance(value, str):
        return leaf.part != "item" and isinstance(leaf.value, str) and leaf.value in value
    if _is_list(value):
        return leaf.part != "text" and any(_equals(item, leaf.value) for item in value)
    return False


def _within(value: object, limits: Range) -> bool:
    if limits.gt is None and limits.gte is None and limits.lt is None and limits.lte is None:
        return _is_number(value)
    return (
        _holds(operator.gt, value, limits.gt, limits.time)
        and _holds(operator.ge, value, limits.gte, limits.time)
        and _holds(operator.lt, value, limits.lt, limits.time)
        and _holds(operator.le, value, limits.lte, limits.time)
    )


def _holds(compare: Callable[[Any, Any], bool], value: object, bound: Bound, time: bool) -> bool:
    if bound is None:
        return True
    if time:
        instant = as_instant(value)
        return instant is not None and compare(instant, as_instant(bound))
    same_kind = isinstance(value, str) if isinstance(bound, str) else _is_number(value)
    return same_kind and compare(value, bound)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
