"""The Mongo style of MongoDB Atlas, Pinecone and Chroma: `{"tenant": {"$eq": "acme"}}`.

Sources: MongoDB manual, "Query Predicates" and the pages of `$ne`, `$nin`, `$exists`, `$all`; Pinecone, "Filter by
metadata"; Chroma, "Metadata Filtering", whose answers were checked against its local mode (1.5).

- MongoDB: `$ne`, `$nin` and `$not` match a document without the field; null means missing or null; `$exists` counts
  null; a list matches when any item does, and each operator of one field may be met by another item.
- Pinecone: the same by its documentation's "based on MongoDB's operators" (a null cannot be stored there).
- Chroma: as MongoDB for missing fields, but a list equals no scalar: only `$contains` and `$not_contains` look inside,
  and they look inside nothing else. (Its local mode truncates a fraction before comparing it with an integer; that is
  not followed.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from collectors.dialects.loading import load_mapping
from collectors.predicate import (
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    as_scalar,
    conjunction,
    disjunction,
)
from collectors.predicate.times import as_time_text

_BOUNDS = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_Field = Callable[[str, object], Predicate]
"""What a notation makes of the condition on one field."""


def parse_mongo(value: object) -> Predicate:
    """The predicate of a MongoDB or Pinecone filter, as a mapping or its text. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_mongo({"tenant": "acme", "year": {"$gte": 2020}, "$or": [{"a": 1}, {"b": {"$exists": True}}]}))
    'tenant = acme and year >= 2020 and (a = 1 or b is present)'
    """
    return _document(load_mapping(value), partial(_field, whole=False))


def parse_chroma(value: object) -> Predicate:
    """The predicate of a Chroma `where`, as a mapping or the text that Python prints of it. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_chroma("{'$and': [{'tenant': 'acme'}, {'tags': {'$contains': 'faq'}}]}"))
    'tenant == acme and tags has item faq'
    """
    return _document(load_mapping(value), partial(_field, whole=True))


def _document(document: Mapping[str, object], field: _Field) -> Predicate:
    return conjunction([_entry(name, value, field) for name, value in document.items()])


def _entry(name: str, value: object, field: _Field) -> Predicate:
    if not name.startswith("$"):
        return field(name, value)
    match name:
        case "$and":
            return conjunction(_branches(name, value, field))
        case "$or":
            return disjunction(_branches(name, value, field))
        case "$nor":
            return Not(item=disjunction(_branches(name, value, field)))
        case "$not" if isinstance(value, Mapping):
            return Not(item=_document(value, field))
    raise UnparsedFilter(f"no field for {name}")


def _branches(name: str, value: object, field: _Field) -> list[Predicate]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(one, Mapping) for one in value):
        raise UnparsedFilter(f"{name} without a list of filters")
    return [_document(one, field) for one in value]


def _field(name: str, condition: object, whole: bool) -> Predicate:
    if not isinstance(condition, Mapping):
        return Eq(field=name, value=as_scalar(condition), whole=whole)
    if not condition or not all(key.startswith("$") for key in condition):
        raise UnparsedFilter(f"{name!r} is compared with a document")
    return conjunction([_operator(name, key, value, whole) for key, value in condition.items()])


def _operator(name: str, key: str, value: object, whole: bool) -> Predicate:
    match key:
        case "$eq":
            return Eq(field=name, value=as_scalar(value), whole=whole)
        case "$ne":
            return Ne(field=name, value=as_scalar(value), whole=whole)
        case "$in":
            return In(field=name, values=_scalars(key, value), whole=whole)
        case "$nin":
            return Not(item=In(field=name, values=_scalars(key, value), whole=whole))
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _range(name, key, value, whole)
        case "$contains" | "$not_contains" if whole:
            inside = Contains(field=name, value=as_scalar(value), part="item")
            return inside if key == "$contains" else Not(item=inside)
        case _ if not whole:
            return _mongo_operator(name, key, value)
    raise UnparsedFilter(f"no operator {key}")


def _mongo_operator(name: str, key: str, value: object) -> Predicate:
    match key:
        case "$exists" if isinstance(value, bool):
            present = Exists(field=name, holding="anything")
            return present if value else Not(item=present)
        case "$all" if scalars := _scalars(key, value):
            return conjunction([Eq(field=name, value=one) for one in scalars])
        case "$not" if isinstance(value, Mapping):
            return Not(item=_field(name, value, whole=False))
    raise UnparsedFilter(f"no operator {key}")


def _range(name: str, key: str, value: object, whole: bool) -> Predicate:
    time = isinstance(value, Mapping) and value.keys() == {"$date"}
    bound = as_time_text(value["$date"]) if time else as_scalar(value)  # type: ignore[index]
    if bound is None or isinstance(bound, bool):
        raise UnparsedFilter(f"no order for {key}: {value!r:.200}")
    return Range.model_validate({"field": name, _BOUNDS[key]: bound, "time": time, "whole": whole})


def _scalars(key: str, value: object) -> tuple[Scalar, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UnparsedFilter(f"{key} without a list of values")
    return tuple(as_scalar(one) for one in value)
