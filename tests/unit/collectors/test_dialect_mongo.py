"""MongoDB's style: MongoDB, Pinecone and Chroma."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.mongo import parse_chroma, parse_mongo
from collectors.predicate import UnparsedFilter, evaluate, to_text

VALUES: list[object] = ["missing", None, "a", ["a", "b"], 1, True, "1", [0, 10], []]


def passing(predicate: Any) -> list[object]:
    return [value for value in VALUES if evaluate(predicate, {} if value == "missing" else {"x": value})]


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        (
            {"genre": {"$eq": "drama"}, "year": {"$gte": 2020, "$lt": 2024}},
            "genre = drama and year >= 2020 and year < 2024",
        ),
        ({"$or": [{"a": 1}, {"$and": [{"b": 2}, {"c": {"$ne": 3}}]}]}, "a = 1 or (b = 2 and c != 3)"),
        ({"$nor": [{"a": 1}, {"b": 2}]}, "not (a = 1 or b = 2)"),
        ({"a": {"$not": {"$in": [1, 2]}}}, "not (a in (1, 2))"),
        ({"$not": {"a": 1}}, "not (a = 1)"),
        ({"a": {"$nin": ["x"]}, "b": {"$all": ["y", "z"]}}, "not (a in (x)) and b = y and b = z"),
        ({"a": {"$exists": True}, "b": {"$exists": False}}, "a is present and not (b is present)"),
        ({"a": None}, "a = null"),
        ({"a": {"$gt": "m"}}, 'a > "m"'),
        ({"at": {"$gt": {"$date": "2024-01-01T00:00:00Z"}}}, "at > 2024-01-01T00:00:00Z"),
        ('{"tenant": "acme"}', "tenant = acme"),
        ({}, "everything"),
    ],
)
def test_says(logged: Any, text: str) -> None:
    assert to_text(parse_mongo(logged)) == text


@pytest.mark.parametrize(
    ("logged", "found"),
    [
        ({"x": "a"}, ["a", ["a", "b"]]),
        ({"x": {"$ne": "a"}}, ["missing", None, 1, True, "1", [0, 10], []]),
        ({"x": {"$nin": ["a", 1]}}, ["missing", None, True, "1", [0, 10], []]),
        ({"x": 1}, [1]),
        ({"x": None}, ["missing", None]),
        ({"x": {"$exists": True}}, VALUES[1:]),
        ({"x": {"$gt": 4, "$lt": 6}}, [[0, 10]]),
        ({"x": {"$elemMatch": {}}}, None),
    ],
)
def test_lets_through_what_mongodb_does(logged: Any, found: list[object] | None) -> None:
    if found is None:
        with pytest.raises(UnparsedFilter):
            parse_mongo(logged)
        return
    assert passing(parse_mongo(logged)) == found


@pytest.mark.parametrize(
    ("logged", "found"),
    [
        ("{'x': 'a'}", ["a"]),
        ("{'x': {'$ne': 'a'}}", ["missing", None, ["a", "b"], 1, True, "1", [0, 10], []]),
        ("{'x': {'$contains': 'a'}}", [["a", "b"]]),
        ("{'x': {'$not_contains': 'a'}}", ["missing", None, "a", 1, True, "1", [0, 10], []]),
        ("{'x': {'$gte': 0}}", [1]),
        ("None", VALUES),
    ],
)
def test_lets_through_what_chroma_does(logged: str, found: list[object]) -> None:
    assert passing(parse_chroma(logged)) == found


@pytest.mark.parametrize(
    ("logged", "named"),
    [
        ({"a": {"$regex": "^x"}}, "regex"),
        ({"a": {"$elemMatch": {"b": 1}}}, "elemMatch"),
        ({"a": {"b": 1}}, "a"),
        ({"a": {"$eq": [1, 2]}}, "scalar"),
        ({"a": [1, 2]}, "scalar"),
        ({"$where": "this.a"}, "where"),
        ({"$and": []}, "and"),
        ({"$or": {"a": 1}}, "or"),
        ({"a": {"$in": "x"}}, "in"),
        ({"a": {"$gt": True}}, "gt"),
        ({"a": {"$exists": 1}}, "exists"),
        ({"a": {"$contains": "x"}}, "contains"),
        ({"a": {}}, "a"),
        ("{'a': $b}", "printed Python"),
        ({1: 2}, "key"),
    ],
)
def test_names_what_it_does_not_read(logged: Any, named: str) -> None:
    with pytest.raises(UnparsedFilter, match=named):
        parse_mongo(logged)


@pytest.mark.parametrize(
    "logged", [{"a": {"$exists": True}}, {"$contains": "text of the document"}, {"a": {"$all": ["x"]}}]
)
def test_chroma_has_fewer_operators(logged: Any) -> None:
    with pytest.raises(UnparsedFilter):
        parse_chroma(logged)
