"""Qdrant filters, as the REST API takes them and as its Python client prints them.

Source: Qdrant documentation, "Filtering"; its answers were checked against the client's local mode (1.20).

- A condition on a list holds when any item meets it, also `except`: some item is none of those values.
- A missing field meets no condition but `is_empty`; `must_not` holds for it, and so does no `match except`.
- `is_empty` is missing, null or an empty list; `is_null` is a null that is there, alone or in a list.
- Values match by type: 1, "1" and true differ. `range` is of numbers, and of date-times where its bounds are texts.
- An empty or absent `should` asks nothing; `min_should` asks for at least `min_count` of its conditions.

Not read: `match text` and `match phrase` (their answer depends on the field's text index), `has_id`, `has_vector` (no
metadata), `nested` and `[]` in keys (conditions on the same element of a list), `values_count`, geography.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial

from collectors.dialects.counting import at_least
from collectors.dialects.loading import load_mapping
from collectors.predicate import (
    And,
    Eq,
    Exists,
    In,
    Not,
    Other,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    as_scalar,
    conjunction,
    disjunction,
    negation,
)
from collectors.predicate.times import as_time_text

_CLAUSES = {"must", "should", "must_not", "min_should"}
_BOUNDS = {"gt", "gte", "lt", "lte"}


def parse_qdrant(value: object) -> Predicate:
    """The predicate of a Qdrant filter: a mapping, its JSON, or what the Python client prints. Raises `UnparsedFilter`.

    Field names are those of the payload: see `without_prefix` for frameworks that keep metadata under a key of it.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_qdrant({"must": [{"key": "tenant", "match": {"value": "acme"}}]}))
    'tenant = acme'
    >>> to_text(parse_qdrant("must_not=[FieldCondition(key='locale', match=MatchAny(any=['de', 'fr']))] must=None"))
    'not (locale in (de, fr))'
    """
    return _filter(load_mapping(value))


def _filter(value: Mapping[str, object]) -> Predicate:
    if unknown := value.keys() - _CLAUSES:
        raise UnparsedFilter(f"a filter has no {sorted(unknown)}")
    parts = _conditions(value.get("must"))
    if should := _conditions(value.get("should")):
        parts.append(disjunction(should))
    parts.extend(negation(condition) for condition in _conditions(value.get("must_not")))
    if (least := value.get("min_should")) is not None:
        parts.append(_min_should(least))
    return conjunction(parts)


def _conditions(clause: object) -> list[Predicate]:
    if clause is None:
        return []
    return [_condition(one) for one in (clause if isinstance(clause, list | tuple) else [clause])]


def _min_should(value: object) -> Predicate:
    if not isinstance(value, Mapping) or value.keys() != {"conditions", "min_count"}:
        raise UnparsedFilter(f"no min_should: {value!r:.200}")
    count = value["min_count"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise UnparsedFilter(f"no min_count: {count!r:.200}")
    return at_least(count, _conditions(value["conditions"]))


def _condition(value: object) -> Predicate:
    if not isinstance(value, Mapping):
        raise UnparsedFilter(f"no condition: {value!r:.200}")
    said = {name: what for name, what in value.items() if what is not None}
    if said and said.keys() <= _CLAUSES:
        return _filter(said)
    if "key" in said:
        return _field_condition(_key(said.pop("key")), said)
    match said:
        case {"is_empty": {"key": key}} if len(said) == 1:
            return _is_empty(_key(key))
        case {"is_null": {"key": key}} if len(said) == 1:
            return _is_null(_key(key))
    if not said and value.keys() <= _CLAUSES:
        return _filter(said)
    raise UnparsedFilter(f"no condition on a field: {', '.join(sorted(said)) or 'empty'}")


def _key(key: object) -> str:
    if not isinstance(key, str) or "[" in key or '"' in key:
        raise UnparsedFilter(f"not the key of a field: {key!r:.200}")
    return key


def _field_condition(key: str, said: Mapping[str, object]) -> Predicate:
    if len(said) != 1:
        raise UnparsedFilter(f"{key!r} has {len(said)} conditions in one: {sorted(said)}")
    ((kind, value),) = said.items()
    match kind, value:
        case "match", Mapping():
            return _match(key, value)
        case "range" | "datetime_range", Mapping():
            return _range(key, value)
        case (("is_empty" | "is_null"), bool()):
            found = _is_empty(key) if kind == "is_empty" else _is_null(key)
            return found if value else negation(found)
    raise UnparsedFilter(f"no condition on metadata: {kind}")


def _match(key: str, match: Mapping[str, object]) -> Predicate:
    said = {name.rstrip("_"): what for name, what in match.items() if what is not None}
    if len(said) != 1:
        raise UnparsedFilter(f"no match: {match!r:.200}")
    ((kind, value),) = said.items()
    match kind, value:
        case (("value" | "keyword" | "integer" | "boolean"), str() | bool() | int()):
            return Eq(field=key, value=value)
        case "any", list() | tuple():
            return In(field=key, values=_scalars(value))
        case "except", list() | tuple():
            return Other(field=key, values=_scalars(value))
    raise UnparsedFilter(f"match {kind} depends on the text index" if kind == "text" else f"no match: {kind}")


def _scalars(values: list[object] | tuple[object, ...]) -> tuple[Scalar, ...]:
    return tuple(as_scalar(value) for value in values)


def _range(key: str, value: Mapping[str, object]) -> Predicate:
    bounds = {name: bound for name, bound in value.items() if bound is not None}
    if bounds.keys() - _BOUNDS:
        raise UnparsedFilter(f"no range: {value!r:.200}")
    in_time = bool(bounds) and all(isinstance(bound, str | date) for bound in bounds.values())
    read: Callable[[object], object] = as_time_text if in_time else partial(_number, key)
    said = {name: read(bound) for name, bound in bounds.items()}
    if None in said.values():
        raise UnparsedFilter(f"no time to compare {key!r} with: {value!r:.200}")
    return Range.model_validate({"field": key, "time": in_time, **said})


def _number(key: str, bound: object) -> int | float:
    number = as_scalar(bound)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnparsedFilter(f"no number to compare {key!r} with: {bound!r:.200}")
    return number


def _is_empty(key: str) -> Predicate:
    return Not(item=Exists(field=key, holding="items"))


def _is_null(key: str) -> Predicate:
    return And(items=(Exists(field=key, holding="anything"), Eq(field=key, value=None)))
