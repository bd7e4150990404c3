"""Milvus expressions and LanceDB conditions: precedence, literals, and SQL's three values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collectors.dialects.lancedb import parse_lancedb
from collectors.dialects.milvus import parse_milvus
from collectors.predicate import Predicate, UnparsedFilter, evaluate, to_text

Parser = Callable[[object], Predicate]


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        ('a == 1 or b == 2 and c == "x"', "a = 1 or (b = 2 and c = x)"),
        ("(a == 1 || b == 2) && c in [1, 2,]", "(a = 1 or b = 2) and c in (1, 2)"),
        ("not a > 1 and b < 2", "a <= 1 and b < 2"),
        ("!(1 < a <= 5)", "a <= 1 or a > 5"),
        ("5 > a", "a < 5"),
        ('meta["k"][\'l\'] == 1 and $meta["m"] == true', "meta.k.l = 1 and m = true"),
        ('JSON_CONTAINS(meta["tags"], "x")', "meta.tags has item x"),
        ("array_contains_all(t, [1, 2])", "t has item 1 and t has item 2"),
        ("array_contains_any(t, ['a'])", "t has item a"),
        ('name like "%pro%"', "name has text pro"),
        ('name like "pro"', "name = pro"),
        (r"""name == "say \"hi\"\n" and raw == r'a\b' """, r'name = "say \"hi\"\n" and raw = "a\\b"'),
        ("a is null or exists m['x']", "not (a exists) or m.x exists"),
        ("at >= ISO '2025-01-01T00:00:00Z'", "at >= 2025-01-01T00:00:00Z"),
        ("a == -1.5e3", "a = -1500.0"),
        ("", "everything"),
    ],
)
def test_milvus_says(logged: str, text: str) -> None:
    assert to_text(parse_milvus(logged)) == text


@pytest.mark.parametrize(
    ("logged", "text"),
    [
        ("a = 1 OR b <> 2 AND c = 'it''s'", 'a = 1 or (b exists and b != 2 and c = "it\'s")'),
        ('"odd name" = 1 AND `b`.c = 2', '"odd name" = 1 and b.c = 2'),
        ("year NOT BETWEEN 2020 AND 2024", "year < 2020 or year > 2024"),
        ("NOT draft AND published IS NOT FALSE", "draft = false and not (published = false)"),
        (
            "array_has(tags, 'x') OR array_has_any(tags, make_array('y'))",
            "tags has item x or tags has item y",
        ),
        (
            "at >= date '2024-01-01' AND at < timestamp '2024-02-01 00:00:00'",
            "at >= 2024-01-01 and at < 2024-02-01T00:00:00",
        ),
        ("a = NULL", "nothing"),
        ("a NOT LIKE '%x%'", "a exists and not (a has text x)"),
        ("true AND a = 1", "a = 1"),
        (None, "everything"),
    ],
)
def test_lancedb_says(logged: str | None, text: str) -> None:
    assert to_text(parse_lancedb(logged)) == text


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("x != 'a'", ["b"]),
        ("not (x = 'a')", ["b"]),
        ("x not in ('a')", ["b"]),
        ("x not in ('a', null)", []),
        ("x in ('a', null)", ["a"]),
        ("not (x = 'a' and y = 1)", ["b"]),
        ("not (x = 'a' and y is null)", ["b"]),
        ("not (x = 'a' or y = 1)", []),
        ("x is null", [None, "missing"]),
        ("not (x is null)", ["a", "b"]),
    ],
)
def test_unknown_does_not_pass(condition: str, found: list[object]) -> None:
    predicate = parse_lancedb(condition)
    values: list[object] = ["a", "b", None, "missing"]
    assert [v for v in values if evaluate(predicate, {} if v == "missing" else {"x": v})] == found


@pytest.mark.parametrize("parse", [parse_milvus, parse_lancedb])
@pytest.mark.parametrize(
    ("logged", "named"),
    [
        ("a + 1 > 2", "a"),
        ("a = b and a == b", "compared|condition"),
        ("a > 1 > 2 b", "more"),
        ("upper(a) > 'x'", "upper"),
        ("a like 'x%'", "x%"),
        ("a like '_'", "_"),
        ("a in [", "missing|constant"),
        ("a in 5", "missing"),
        ("(a > 1", "missing"),
        ("a > 1)", "more"),
        ("a > true", "order"),
        ("a > 'unclosed", "word"),
        ("1 > 2", "field"),
        ("a not 5", "not"),
        ("a > 00", "octal"),
        ("a > 1e999", "large"),
        ("and", "and"),
        ("(" * 200 + "a > 1" + ")" * 200, "deeper"),
        ("not " * 200 + "a > 1", "deeper"),
        ("a > 1 or " * 10_000 + "b > 1", "longer|word"),
        (5, "5"),
    ],
)
def test_names_what_it_does_not_read(parse: Parser, logged: object, named: str) -> None:
    with pytest.raises(UnparsedFilter, match=named):
        parse(logged)


@pytest.mark.parametrize(
    "logged", ["text_match(body, 'x')", "a[0] == 1", "a == {value}", "flag", "a =~ 'x'", 'a == "\\q"']
)
def test_milvus_keeps_as_text(logged: str) -> None:
    with pytest.raises(UnparsedFilter):
        parse_milvus(logged)


@pytest.mark.parametrize(
    "logged", ["a ILIKE '%x%'", "CAST(a AS int) = 1", "a ~ 'x'", "a LIKE '%x%' ESCAPE '!'", "date 'soon' < a"]
)
def test_lancedb_keeps_as_text(logged: str) -> None:
    with pytest.raises(UnparsedFilter):
        parse_lancedb(logged)
