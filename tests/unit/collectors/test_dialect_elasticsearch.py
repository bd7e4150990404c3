"""Elasticsearch and OpenSearch queries that filter."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.elasticsearch import parse_elasticsearch
from collectors.predicate import UnparsedFilter, evaluate, to_text

TENANT = {"term": {"tenant": "acme"}}
YEAR = {"range": {"year": {"gte": 2020, "boost": 2.0}}}


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        (TENANT, "tenant = acme"),
        ([TENANT, YEAR], "tenant = acme and year >= 2020"),
        ({"query": {"bool": {"must": [TENANT], "filter": YEAR}}}, "tenant = acme and year >= 2020"),
        ({"bool": {"should": [TENANT, YEAR]}}, "tenant = acme or year >= 2020"),
        ({"bool": {"should": [TENANT], "filter": [YEAR]}}, "year >= 2020"),
        (
            {"bool": {"should": [TENANT], "filter": [YEAR], "minimum_should_match": 1}},
            "year >= 2020 and tenant = acme",
        ),
        ({"bool": {"should": [TENANT], "must_not": [YEAR]}}, "tenant = acme and not (year >= 2020)"),
        (
            {"bool": {"should": [TENANT, YEAR], "minimum_should_match": "100%"}},
            "tenant = acme and year >= 2020",
        ),
        ({"bool": {"should": [TENANT, YEAR], "minimum_should_match": -1}}, "tenant = acme or year >= 2020"),
        (
            {"bool": {"should": [TENANT, YEAR], "minimum_should_match": "-60%"}},
            "tenant = acme or year >= 2020",
        ),
        ({"bool": {}}, "everything"),
        ({"match_all": {"boost": 1}}, "everything"),
        ({"bool": {"must_not": {"match_all": {}}}}, "not (everything)"),
        ({"constant_score": {"filter": TENANT}}, "tenant = acme"),
        ({"terms": {"tenant.keyword": ["acme", "globex"]}}, "tenant in (acme, globex)"),
        ({"match": {"tenant.keyword": {"query": "acme"}}}, "tenant = acme"),
        ({"term": {"year": 2020}}, 'year in (2020, "2020")'),
        ({"term": {"year": "2020"}}, 'year in ("2020", 2020)'),
        ({"term": {"draft": {"value": True}}}, 'draft in (true, "true")'),
        ({"exists": {"field": "acl"}}, "acl has a value"),
        ({"range": {"at": {"gte": "2024-01-01", "lte": "2024-01-31"}}}, "2024-01-01 <= at < 2024-02-01"),
        ({"range": {"at": {"gt": "2024-01-01"}}}, "at >= 2024-01-02"),
        ({"range": {"at": {"lte": "2024-01-01T10:00:00Z"}}}, "at <= 2024-01-01T10:00:00Z"),
    ],
)
def test_says(logged: Any, text: str) -> None:
    assert to_text(parse_elasticsearch(logged)) == text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"exists": {"field": "x"}}, ["a", ["a", None], 1]),
        ({"bool": {"must_not": {"term": {"x": "a"}}}}, ["missing", None, [], [None], 1]),
        ({"term": {"x": "a"}}, ["a", ["a", None]]),
        ({"term": {"x": "1"}}, [1]),
    ],
)
def test_lets_through_what_elasticsearch_does(query: Any, found: list[object]) -> None:
    values: list[object] = ["missing", None, [], [None], "a", ["a", None], 1]
    predicate = parse_elasticsearch(query)
    assert [v for v in values if evaluate(predicate, {} if v == "missing" else {"x": v})] == found


@pytest.mark.parametrize(
    ("logged", "named"),
    [
        ({"match": {"body": "refund"}}, "analyser"),
        ({"match_phrase": {"body": "refund policy"}}, "analyser"),
        ({"wildcard": {"a": "b*"}}, "wildcard"),
        ({"nested": {"path": "a", "query": TENANT}}, "nested"),
        ({"knn": {"field": "v"}}, "knn"),
        ({"range": {"at": {"gte": "now-1d/d"}}}, "now-1d"),
        ({"range": {"at": {"gte": "2024-01-01", "format": "yyyy"}}}, "format"),
        ({"range": {"at": {"lt": "2024-01-09", "lte": "2024-01-01"}}}, "two bounds"),
        ({"range": {"at": {"lte": "9999-12-31"}}}, "9999-12-31"),
        ({"range": {"a": {}}}, "range"),
        ({"term": {"a": {"value": "x", "case_insensitive": True}}}, "term"),
        ({"term": {"a": None}}, "null"),
        ({"terms": {"a": {"index": "b", "id": "1", "path": "c"}}}, "terms"),
        ({"term": {"a": 1, "b": 2}}, "2 fields"),
        ({"bool": {"must": [], "prefer": []}}, "prefer"),
        ({"bool": {"should": [TENANT], "minimum_should_match": "2<75%"}}, "minimum_should_match"),
        (
            {"bool": {"filter": [TENANT], "should": [{"match": {"body": "x"}}], "minimum_should_match": 1}},
            "analyser",
        ),
        ({"tenant": "acme"}, "body"),
        ({"term": TENANT, "range": YEAR}, "one query"),
        ("{not json", "no value"),
    ],
)
def test_names_what_it_does_not_read(logged: Any, named: str) -> None:
    with pytest.raises(UnparsedFilter, match=named):
        parse_elasticsearch(logged)


def test_what_only_ranks_need_not_be_read() -> None:
    logged = {"bool": {"filter": [TENANT], "should": [{"match": {"body": "refund"}}]}}
    assert to_text(parse_elasticsearch(logged)) == "tenant = acme"
