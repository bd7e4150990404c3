"""LlamaIndex `MetadataFilters`, as JSON and as Python prints them.

Source: llama_index.core.vector_stores `types` (operators, conditions) and `utils.build_metadata_filter_fn`, which is
what the framework itself does in memory; a store behind it may differ.

- `!=` and `nin` match a node without the key (earlier versions: not); nothing else but `is_empty` does.
- Values are compared as Python does: a list equals no scalar; texts have an order.
- `contains`, `any` and `all` look for a value in a list, or for a text in a text.
- The condition `not` holds when none of the filters does.

Not read: `text_match` and `text_match_insensitive`, which stores answer by their text index.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.dialects.loading import load_mapping
from collectors.predicate import (
    ALL,
    Contains,
    Eq,
    Exists,
    In,
    Ne,
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

_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parse_llamaindex(value: object) -> Predicate:
    """The predicate of `MetadataFilters`: a mapping, its JSON, or what Python prints of it. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_llamaindex("filters=[MetadataFilter(key='year', value=2020, operator=<FilterOperator.GT: '>'>)]"))
    'year itself > 2020'
    """
    loaded = load_mapping(value)
    return _filters(loaded) if loaded else ALL


def _filters(value: object) -> Predicate:
    if not isinstance(value, Mapping):
        raise UnparsedFilter(f"no filter: {value!r:.200}")
    if "filters" not in value:
        return _filter(value)
    filters, condition = value["filters"], value.get("condition") or "and"
    if not isinstance(filters, list | tuple) or value.keys() - {"filters", "condition"}:
        raise UnparsedFilter(f"no filters: {value!r:.200}")
    if not filters:
        return ALL
    items = [_filters(one) for one in filters]
    match condition:
        case "and":
            return conjunction(items)
        case "or":
            return disjunction(items)
        case "not":
            return Not(item=disjunction(items))
    raise UnparsedFilter(f"no condition {condition!r:.200}")


def _filter(value: Mapping[str, object]) -> Predicate:
    key, operator = value.get("key"), value.get("operator") or "=="
    if (
        not isinstance(key, str)
        or not isinstance(operator, str)
        or value.keys() - {"key", "value", "operator"}
    ):
        raise UnparsedFilter(f"no filter: {value!r:.200}")
    wanted = value.get("value")
    match operator:
        case "==":
            return Eq(field=key, value=_scalar(wanted), whole=True)
        case "!=":
            return Ne(field=key, value=_scalar(wanted), whole=True)
        case ">" | ">=" | "<" | "<=":
            return _range(key, operator, wanted)
        case "contains":
            return Contains(field=key, value=_scalar(wanted))
        case "is_empty":
            return Or(
                items=(Not(item=Exists(field=key, holding="items")), Eq(field=key, value="", whole=True))
            )
    return _of_several(key, operator, wanted)


def _of_several(key: str, operator: str, wanted: object) -> Predicate:
    match operator:
        case "in":
            return In(field=key, values=_scalars(wanted), whole=True)
        case "nin":
            return Not(item=In(field=key, values=_scalars(wanted), whole=True))
        case "any":
            return disjunction([Contains(field=key, value=one) for one in _scalars(wanted)])
        case "all":
            return conjunction(
                [Exists(field=key), *(Contains(field=key, value=one) for one in _scalars(wanted))]
            )
    raise UnparsedFilter(f"no node for the operator {operator!r:.200}")


def _range(key: str, operator: str, value: object) -> Predicate:
    bound = _scalar(value)
    if isinstance(bound, bool):
        raise UnparsedFilter(f"no order for {key!r} and {value!r}")
    return Range.model_validate({"field": key, _BOUNDS[operator]: bound, "whole": True})


def _scalar(value: object) -> Scalar:
    scalar = as_scalar(value)
    if scalar is None:
        raise UnparsedFilter("a key is compared with null")
    return scalar


def _scalars(value: object) -> tuple[Scalar, ...]:
    if not isinstance(value, list | tuple):
        raise UnparsedFilter(f"no list of values: {value!r:.200}")
    return tuple(_scalar(one) for one in value)
