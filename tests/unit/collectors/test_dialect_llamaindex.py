"""LlamaIndex `MetadataFilters`."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.llamaindex import parse_llamaindex
from collectors.predicate import UnparsedFilter, evaluate, to_text


def one(operator: str, value: object) -> dict[str, Any]:
    return {"filters": [{"key": "x", "value": value, "operator": operator}], "condition": "and"}


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        ({"filters": [{"key": "tenant", "value": "acme"}]}, "tenant == acme"),
        (
            {
                "filters": [
                    {"key": "a", "value": 1, "operator": "!="},
                    {"filters": [{"key": "b", "value": ["x"], "operator": "in"}], "condition": "not"},
                ],
                "condition": "or",
            },
            "a !== 1 or not (b itself in (x))",
        ),
        (one(">=", 3), "x itself >= 3"),
        (one("nin", ["a"]), "not (x itself in (a))"),
        (one("any", ["a", "b"]), "x contains a or x contains b"),
        (one("all", ["a", "b"]), "x exists and x contains a and x contains b"),
        (one("is_empty", None), 'not (x is not empty) or x == ""'),
        (
            (
                "MetadataFilters(filters=[MetadataFilter(key='a', value='b', operator=<FilterOperator.EQ: '=='>)], "
                "condition=<FilterCondition.AND: 'and'>)"
            ),
            "a == b",
        ),
        ({"filters": [], "condition": "or"}, "everything"),
    ],
)
def test_says(logged: Any, text: str) -> None:
    assert to_text(parse_llamaindex(logged)) == text


@pytest.mark.parametrize(
    ("operator", "value", "found"),
    [
        ("==", "a", ["a"]),
        ("!=", "a", ["missing", None, "ab", ["a"], []]),
        ("nin", ["a"], ["missing", None, "ab", ["a"], []]),
        ("contains", "a", ["a", "ab", ["a"]]),
        ("is_empty", None, ["missing", None, []]),
        (">", "a", ["ab"]),
    ],
)
def test_lets_through_what_llamaindex_does(operator: str, value: object, found: list[object]) -> None:
    values: list[object] = ["missing", None, "a", "ab", ["a"], []]
    predicate = parse_llamaindex(one(operator, value))
    assert [v for v in values if evaluate(predicate, {} if v == "missing" else {"x": v})] == found


@pytest.mark.parametrize(
    ("logged", "named"),
    [
        (one("text_match", "a"), "text_match"),
        (one("==", None), "null"),
        (one("==", {"a": 1}), "scalar"),
        (one("in", "a"), "list"),
        (one(">", True), "order"),
        ({"filters": [{"value": 1}]}, "filter"),
        ({"filters": {"key": "a"}}, "filters"),
        ({"filters": [{"key": "a", "value": 1}], "condition": "xor"}, "xor"),
        ({"filters": ["a"]}, "filter"),
    ],
)
def test_names_what_it_does_not_read(logged: Any, named: str) -> None:
    with pytest.raises(UnparsedFilter, match=named):
        parse_llamaindex(logged)
