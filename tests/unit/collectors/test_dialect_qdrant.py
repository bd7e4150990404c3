"""Qdrant filters: what they ask, on what they pass, and what is left as text."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.qdrant import parse_qdrant
from collectors.predicate import ALL, UnparsedFilter, evaluate, to_text, without_prefix

TENANT = {"key": "tenant", "match": {"value": "acme"}}
YEAR = {"key": "year", "range": {"gte": 2020, "lt": None}}


def asks(*conditions: Any) -> dict[str, Any]:
    return {"must": list(conditions)}


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        (asks(TENANT, YEAR), "tenant = acme and year >= 2020"),
        ({"should": [TENANT, YEAR]}, "tenant = acme or year >= 2020"),
        ({"must": TENANT, "must_not": YEAR}, "tenant = acme and not (year >= 2020)"),
        ({"must": [TENANT], "should": []}, "tenant = acme"),
        (
            {"min_should": {"conditions": [TENANT, YEAR, {"is_null": {"key": "acl"}}], "min_count": 2}},
            (
                "(tenant = acme and year >= 2020) or (tenant = acme and acl is present and acl = null) "
                "or (year >= 2020 and acl is present and acl = null)"
            ),
        ),
        (asks({"key": "locale", "match": {"any": ["de", "fr"]}}), "locale in (de, fr)"),
        (asks({"key": "locale", "match": {"except": ["de"]}}), "locale other than (de)"),
        (asks({"is_empty": {"key": "acl"}}), "not (acl is not empty)"),
        (asks({"key": "acl", "is_empty": False}), "acl is not empty"),
        (
            asks({"key": "at", "range": {"gte": "2024-01-01T00:00:00Z", "lt": "2024-02-01"}}),
            "2024-01-01T00:00:00Z <= at < 2024-02-01",
        ),
        (asks({"key": "at", "datetime_range": {"gt": "2024-01-01 10:00:00z"}}), "at > 2024-01-01T10:00:00Z"),
        (asks({"should": [TENANT, asks(YEAR)]}), "tenant = acme or year >= 2020"),
        (
            "Filter(should=None, must=[FieldCondition(key='n', match=MatchExcept(except_=[1]))])",
            "n other than (1)",
        ),
        (
            (
                "must=[FieldCondition(key='at', match=None, range=DatetimeRange(lt=None, gt=datetime.datetime(2024, 1, "
                "1, 9, 30, tzinfo=TzInfo(7200)), gte=None, lte=None), values_count=None)] must_not=None"
            ),
            "at > 2024-01-01T09:30:00+02:00",
        ),
        ({}, "everything"),
        (None, "everything"),
        ('{"must": null}', "everything"),
    ],
)
def test_says(logged: Any, text: str) -> None:
    assert to_text(parse_qdrant(logged)) == text


@pytest.mark.parametrize(
    ("condition", "passing"),
    [
        ({"key": "x", "match": {"value": "a"}}, ["a", ["a", "b"]]),
        ({"key": "x", "match": {"value": 1}}, [1]),
        ({"key": "x", "match": {"value": True}}, [True]),
        ({"key": "x", "match": {"except": ["a"]}}, [["a", "b"], 1, True, "1", [5, 20]]),
        ({"key": "x", "range": {"gt": 6, "lt": 10}}, []),
        ({"key": "x", "range": {"gt": 4, "lt": 10}}, [[5, 20]]),
        ({"is_empty": {"key": "x"}}, ["missing", None, []]),
        ({"is_null": {"key": "x"}}, [None, [None]]),
        (
            {"must_not": [{"key": "x", "match": {"value": "a"}}]},
            ["missing", None, [], [None], 1, True, "1", [5, 20]],
        ),
    ],
)
def test_lets_through_what_qdrant_does(condition: Any, passing: list[object]) -> None:
    values: list[object] = ["missing", None, [], [None], "a", ["a", "b"], 1, True, "1", [5, 20]]
    predicate = parse_qdrant(asks(condition))
    found = [value for value in values if evaluate(predicate, {} if value == "missing" else {"x": value})]
    assert found == passing


@pytest.mark.parametrize(
    ("logged", "named"),
    [
        (asks({"key": "body", "match": {"text": "refund"}}), "text"),
        (asks({"has_id": [1, 2]}), "has_id"),
        (asks({"nested": {"key": "a", "filter": asks(TENANT)}}), "nested"),
        (asks({"key": "tags", "values_count": {"gt": 1}}), "values_count"),
        (asks({"key": "place", "geo_radius": {"radius": 1}}), "geo_radius"),
        (asks({"key": "a[].b", "match": {"value": 1}}), r"a\[\].b"),
        (asks({"key": "x", "match": {"value": 0.5}}), "value"),
        (asks({"key": "x", "range": {"gt": 1, "lt": "2024-01-01"}}), "2024-01-01"),
        (asks({"key": "x", "match": {"value": 1}, "range": {"gt": 1}}), "2 conditions"),
        (asks({"key": "x"}), "0 conditions"),
        (asks({}), None),
        (asks("tenant"), "tenant"),
        ({"must": [TENANT], "filter": []}, "filter"),
        ({"min_should": {"conditions": [TENANT], "min_count": 0}}, "min_count"),
        ([TENANT], "mapping"),
        ("tenant is acme", "tenant"),
    ],
)
def test_names_what_it_does_not_read(logged: Any, named: str | None) -> None:
    if named is None:
        assert parse_qdrant(logged) == ALL
        return
    with pytest.raises(UnparsedFilter, match=named):
        parse_qdrant(logged)


def test_a_framework_s_prefix_comes_off() -> None:
    logged = asks({"key": "metadata.tenant", "match": {"value": "acme"}}, YEAR)
    assert to_text(without_prefix(parse_qdrant(logged), "metadata.")) == "tenant = acme and year >= 2020"


def test_counts_within_counts_do_not_explode() -> None:
    condition: Any = TENANT
    for _ in range(3):
        condition = {"min_should": {"conditions": [condition] * 6, "min_count": 3}}
    with pytest.raises(UnparsedFilter, match="nodes"):
        parse_qdrant(condition)
    with pytest.raises(UnparsedFilter, match="ways"):
        parse_qdrant({"min_should": {"conditions": [TENANT] * 20, "min_count": 10}})
