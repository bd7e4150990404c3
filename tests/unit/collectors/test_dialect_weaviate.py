"""Weaviate's `where`."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.weaviate import parse_weaviate
from collectors.predicate import UnparsedFilter, evaluate, to_text

TENANT = {"operator": "Equal", "path": ["tenant"], "valueText": "acme"}


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        (TENANT, "tenant = acme"),
        ({"operator": "NotEqual", "path": "tenant", "valueString": "acme"}, "not (tenant = acme)"),
        (
            {
                "operator": "Or",
                "operands": [TENANT, {"operator": "GreaterThanEqual", "path": ["n"], "valueNumber": 1.5}],
            },
            "tenant = acme or n >= 1.5",
        ),
        ({"operator": "Not", "operands": [TENANT]}, "not (tenant = acme)"),
        ({"operator": "ContainsAny", "path": ["t"], "valueText": ["a", "b"]}, "t in (a, b)"),
        ({"operator": "ContainsAll", "path": ["t"], "valueText": ["a", "b"]}, "t = a and t = b"),
        ({"operator": "ContainsNone", "path": ["t"], "valueTextArray": ["a"]}, "not (t in (a))"),
        (
            {"operator": "LessThan", "path": ["at"], "valueDate": "2024-01-01T00:00:00Z"},
            "at < 2024-01-01T00:00:00Z",
        ),
        ({"operator": "Equal", "path": ["on"], "valueDate": "2024-01-01"}, "2024-01-01 <= on <= 2024-01-01"),
        ("_FilterValue(value='acme', operator=<_Operator.EQUAL: 'Equal'>, target='tenant')", "tenant = acme"),
        ({}, "everything"),
    ],
)
def test_says(logged: Any, text: str) -> None:
    assert to_text(parse_weaviate(logged)) == text


def test_null_is_all_that_is_indexed_as_nothing() -> None:
    null = parse_weaviate({"operator": "IsNull", "path": ["x"], "valueBoolean": True})
    there = parse_weaviate({"operator": "IsNull", "path": ["x"], "valueBoolean": False})
    documents: list[dict[str, object]] = [
        {},
        {"x": None},
        {"x": []},
        {"x": ""},
        {"x": "a"},
        {"x": ["a"]},
        {"x": 0},
    ]
    assert [evaluate(null, document) for document in documents] == [True] * 4 + [False] * 3
    assert [evaluate(there, document) for document in documents] == [False] * 4 + [True] * 3


@pytest.mark.parametrize(
    ("logged", "named"),
    [
        ({"operator": "Like", "path": ["t"], "valueText": "ac*"}, "Like"),
        ({"operator": "WithinGeoRange", "path": ["p"], "valueGeoRange": {}}, "WithinGeoRange"),
        (
            {"operator": "Equal", "path": ["inPublication", "Publication", "name"], "valueText": "x"},
            "inPublication",
        ),
        ({"operator": "Equal", "path": ["id"], "valueText": "x"}, "id"),
        ({"operator": "GreaterThan", "path": ["len(t)"], "valueInt": 1}, "len"),
        ({"operator": "GreaterThan", "path": ["t"], "valueText": "m"}, "order"),
        ({"operator": "And", "operands": []}, "And"),
        ({"operator": "Not", "operands": [TENANT, TENANT]}, "Not"),
        ({"operator": "Equal", "path": ["t"]}, "value"),
        ({"operator": "Equal", "path": ["t"], "valueText": "a", "valueInt": 1}, "value"),
        ({"path": ["t"], "valueText": "a"}, "operator"),
        (
            "_FilterAnd(filters=[_FilterValue(value=1, operator=<_Operator.EQUAL: 'Equal'>, target='a')])",
            "operator",
        ),
    ],
)
def test_names_what_it_does_not_read(logged: Any, named: str) -> None:
    with pytest.raises(UnparsedFilter, match=named):
        parse_weaviate(logged)
