"""Elasticsearch and OpenSearch queries that filter: `{"bool": {"filter": [{"term": {"tenant.keyword": "acme"}}]}}`.

Source: Elasticsearch reference, "Query DSL": boolean, term, terms, range, exists, match, `minimum_should_match`.

- A missing field meets no query but through `must_not`. `exists` is a value that is not null: not null, `[]`, `[null]`.
- A list meets a query when any of its values does; a range must be met by one value.
- The mapping decides the type, not the query: 2020 and "2020" find the same, as do true and "true". A sub-field
  `.keyword` is the field's text itself. Date bounds without a time mean the day: `lte` to its end, `gt` after its end.
- `should` filters where there is no `must` and no `filter`, or where `minimum_should_match` says so; else it ranks.
- `term` and `terms` are read as of keyword, number, date and boolean fields, as the reference advises.

Not read, for the mapping or more decides what they find: `match` of texts but on `.keyword`, ranges of other texts,
date math, `wildcard`, `prefix`, `regexp`, `ids`, `nested`, scripts, vectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta

from collectors.dialects.counting import at_least
from collectors.dialects.loading import load
from collectors.predicate import (
    ALL,
    NOTHING,
    Eq,
    Exists,
    In,
    Not,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    as_scalar,
    conjunction,
)
from collectors.predicate.times import as_time_text

_CLAUSES = {"must", "filter", "should", "must_not", "minimum_should_match"}
_IGNORED = {"boost", "_name"}
"""What says nothing of what is found."""
_KEYWORD = ".keyword"
_BOUNDS = {"gt", "gte", "lt", "lte"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,15})?", re.ASCII)
_PERCENT = re.compile(r"(-?)(\d{1,3})%", re.ASCII)


def parse_elasticsearch(value: object) -> Predicate:
    """The predicate of a query, a list of queries that must all hold, or the JSON of either. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_elasticsearch({"bool": {"filter": {"term": {"tenant.keyword": "acme"}},
    ...     "must_not": [{"range": {"year": {"lt": 2020}}}]}}))
    'tenant = acme and not (year < 2020)'
    """
    loaded = load(value)
    if loaded is None:
        return ALL
    if isinstance(loaded, Mapping) and loaded.keys() == {"query"}:
        loaded = loaded["query"]
    return conjunction(_queries(loaded))


def _queries(value: object) -> list[Predicate]:
    if value is None:
        return []
    return [_query(one) for one in (value if isinstance(value, list | tuple) else [value])]


def _query(value: object) -> Predicate:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise UnparsedFilter(f"not one query: {value!r:.200}")
    ((kind, body),) = value.items()
    if not isinstance(body, Mapping):
        raise UnparsedFilter(f"no body of a {kind} query: {body!r:.200}")
    said = {name: what for name, what in body.items() if name not in _IGNORED}
    match kind:
        case "bool":
            return _bool(said)
        case "match_all" if not said:
            return ALL
        case "match_none" if not said:
            return NOTHING
        case "constant_score" if said.keys() == {"filter"}:
            return conjunction(_queries(said["filter"]))
        case "exists" if said.keys() == {"field"} and isinstance(said["field"], str):
            return Exists(field=said["field"].removesuffix(_KEYWORD), holding="value")
        case "term" | "terms" | "match" | "match_phrase" | "range":
            return _of_field(kind, said)
    raise UnparsedFilter(f"no node for a {kind} query")


def _bool(said: Mapping[str, object]) -> Predicate:
    if unknown := said.keys() - _CLAUSES:
        raise UnparsedFilter(f"a bool query has no {sorted(unknown)}")
    required = _queries(said.get("must")) + _queries(said.get("filter"))
    excluded = [Not(item=one) for one in _queries(said.get("must_not"))]
    wanted = said.get("should")
    count = len(wanted) if isinstance(wanted, list | tuple) else int(wanted is not None)
    default = 0 if required else min(count, 1)
    least = _least(said.get("minimum_should_match"), count, default)
    optional = [at_least(least, _queries(wanted))] if least else []
    return conjunction([*required, *optional, *excluded])


def _least(value: object, count: int, default: int) -> int:
    """How many of `count` must match, by what `minimum_should_match` says."""
    if value is None:
        return default
    text = str(value)
    if isinstance(value, int | str) and not isinstance(value, bool):
        if percent := _PERCENT.fullmatch(text):
            part = count * int(percent[2]) // 100
            return min(count, count - part if percent[1] else part)
        if re.fullmatch(r"-?\d{1,6}", text, re.ASCII):
            number = int(text)
            return max(0, min(count, count + number if number < 0 else number))
    raise UnparsedFilter(f"no minimum_should_match: {value!r:.200}")


def _of_field(kind: str, said: Mapping[str, object]) -> Predicate:
    if len(said) != 1:
        raise UnparsedFilter(f"a {kind} query of {len(said)} fields: {sorted(said)}")
    ((field, value),) = said.items()
    match kind, value:
        case "range", Mapping():
            return _range(field.removesuffix(_KEYWORD), value)
        case "terms", list() | tuple():
            return _any_form(field, [as_scalar(one) for one in value])
        case (("term" | "match" | "match_phrase"), _):
            return _term(kind, field, value)
    raise UnparsedFilter(f"no {kind} of {field!r}: {value!r:.200}")


def _term(kind: str, field: str, value: object) -> Predicate:
    if isinstance(value, Mapping):
        key = "value" if kind == "term" else "query"
        if key not in value or value.keys() - _IGNORED != {key}:
            raise UnparsedFilter(f"no {kind} of {field!r}: {value!r:.200}")
        value = value[key]
    scalar = as_scalar(value)
    if scalar is None:
        raise UnparsedFilter(f"{field!r} is compared with null")
    if kind != "term" and isinstance(scalar, str) and not field.endswith(_KEYWORD):
        raise UnparsedFilter(f"what {kind} finds in {field!r} depends on its analyser")
    return _any_form(field, [scalar])


def _any_form(field: str, values: list[Scalar]) -> Predicate:
    """Any of the values, in every type that the mapping may have made of them."""
    if field.endswith(_KEYWORD):
        forms: list[Scalar] = [_text(value) for value in values]
    else:
        forms = [form for value in values for form in _forms(value)]
    name = field.removesuffix(_KEYWORD)
    return Eq(field=name, value=forms[0]) if len(forms) == 1 else In(field=name, values=tuple(forms))


def _forms(value: Scalar) -> tuple[Scalar, ...]:
    if not isinstance(value, str):
        return (value, _text(value))
    if value in ("true", "false"):
        return (value, value == "true")
    if _NUMBER.fullmatch(value):
        return (value, float(value) if "." in value else int(value))
    return (value,)


def _text(value: Scalar) -> str:
    if value is None:
        raise UnparsedFilter("a field is compared with null")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _range(field: str, value: Mapping[str, object]) -> Predicate:
    bounds = {name: bound for name, bound in value.items() if bound is not None and name not in _IGNORED}
    if not bounds or bounds.keys() - _BOUNDS:
        raise UnparsedFilter(f"no range of {field!r}: {value!r:.200}")
    if all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds.values()):
        return Range.model_validate({"field": field, **bounds})
    limits = [_time_limit(name, bound) for name, bound in bounds.items()]
    if len(dict(limits)) < len(limits):
        raise UnparsedFilter(f"a range of {field!r} with two bounds on one side: {value!r:.200}")
    return Range.model_validate({"field": field, "time": True, **dict(limits)})


def _time_limit(name: str, bound: object) -> tuple[str, str]:
    text = as_time_text(bound)
    if text is None:
        raise UnparsedFilter(f"no number and no date: {bound!r:.200}")
    if len(text) > len("2024-01-01") or name in ("gte", "lt"):
        return name, text
    try:
        following = date.fromisoformat(text) + timedelta(days=1)
    except OverflowError:
        raise UnparsedFilter(f"no day after {text}") from None
    return ("gte" if name == "gt" else "lt"), following.isoformat()
