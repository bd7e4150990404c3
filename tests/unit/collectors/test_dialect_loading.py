"""Filters as they arrive: JSON, printed Python, hostile sizes; and filters that nothing names."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.dialects.loading import MAX_CHARS, MAX_DEPTH, MAX_VALUES, load
from collectors.dialects.unnamed import parse_any
from collectors.predicate import UnparsedFilter, to_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, null, true]}', {"a": [1, None, True]}),
        ("{'a': (1, None, True), 'b': \"it's\"}", {"a": [1, None, True], "b": "it's"}),
        (r"['a\'b', 'caf\xe9', '\u00e9\n\\', r'\d', u'x']", ["a'b", "café", "é\n\\", "\\d", "x"]),
        ("[1, -2, 3.5, 1e3, .5]", [1, -2, 3.5, 1000.0, 0.5]),
        ("F(a=G(b=[H(c='d')]), e=None)", {"a": {"b": [{"c": "d"}]}, "e": None}),
        ("a=1 b=[F(c=2)] d=<E.F: 'g'>", {"a": 1, "b": [{"c": 2}], "d": "g"}),
        (
            "[datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3, 4)]",
            ["2024-01-02T00:00:00", "2024-01-02T03:04:00"],
        ),
        ("datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)", "2024-01-02T03:04:00+00:00"),
        ("datetime.datetime(2024, 1, 2, 3, 4, tzinfo=TzInfo(UTC))", "2024-01-02T03:04:00+00:00"),
        ("datetime.datetime(2024, 1, 2, 3, 4, tzinfo=TzInfo(-01:30))", "2024-01-02T03:04:00-01:30"),
        ("UUID('12345678-1234-5678-1234-567812345678')", "12345678-1234-5678-1234-567812345678"),
        ("{}", {}),
        ("[]", []),
        ("None", None),
    ],
)
def test_reads_what_is_printed(text: str, value: object) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'a': b'bytes'}",
        "{1: 'a'}",
        "{'a'}",
        "[1",
        "[1 2]",
        "{'a' 1}",
        "F(1)",
        "a=1 2",
        "__import__('os')",
        "lambda: 1",
        r"'\q'",
        r"'\U00110000'",
        "'unclosed",
        "datetime.datetime(2024, 13, 1)",
        "datetime.datetime('a', 1, 1)",
        "datetime.datetime(2024, 1, 1, tzinfo=TzInfo(99999))",
        "datetime.datetime(2024, 1, 1, tzinfo=TzInfo(Mars))",
        "1" * 5000,
        "[" * 100_000,
        "(" * 100_000,
        "{'a':" * 5_000,
        "F(a=" * 5_000,
        "<A: " * 5_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        "x" * (MAX_CHARS + 1),
    ],
)
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UnparsedFilter):
        load(text)


def test_sizes_are_capped() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert load(deep) == deep
    for hostile in ([deep], [1] * (MAX_VALUES + 1), {1: 2}):
        with pytest.raises(UnparsedFilter):
            load(hostile)


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        ({"must": [{"key": "a", "match": {"value": 1}}]}, "a = 1"),
        ('{"bool": {"filter": {"term": {"a.keyword": "b"}}}}', "a = b"),
        ({"operator": "Equal", "path": ["a"], "valueText": "b"}, "a = b"),
        ({"filters": [{"key": "a", "value": "b"}]}, "a == b"),
        ({"field": "meta.a", "operator": "==", "value": "b"}, "a = b"),
        ({"a": {"$gt": 1}}, "a > 1"),
        ("{'a': 'b'}", "a = b"),
        ({"a": ["b", "c"]}, "a in (b, c)"),
        ([{"field": "a", "op": "ne", "value": 1}], "a != 1"),
        ([{"term": {"a": "b"}}], "a = b"),
        ("a > 1", "a > 1"),
        ("a == 'b' and c in ['d']", "a = b and c in (d)"),
        ("a <> 'b'", "a exists and a != b"),
        ({}, "everything"),
    ],
)
def test_an_unnamed_filter_with_one_reading(logged: Any, text: str) -> None:
    assert to_text(parse_any(logged)) == text


@pytest.mark.parametrize(
    "logged",
    [
        "acme",
        "not acme",
        "in stock",
        "a b = c",
        "",
        None,
        5,
        [1],
        {"a": {"b": 1}},
        {"a": {"$contains": "b"}},
        '"a"',
        {"type": "eq", "key": "tenant", "value": "acme"},
        {"field": "tenant", "op": "eq", "value": "acme"},
        {"attribute": "tenant", "comparator": "eq", "value": "acme"},
        {"namespace": "tenant", "allow_list": "acme"},
    ],
)
def test_an_unnamed_filter_without_one_is_refused(logged: Any) -> None:
    with pytest.raises(UnparsedFilter):
        parse_any(logged)
