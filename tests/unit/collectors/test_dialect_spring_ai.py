"""What Java prints of Spring AI's filter expressions."""

from __future__ import annotations

import pytest

from collectors.dialects.spring_ai import parse_spring_ai
from collectors.predicate import UnparsedFilter, evaluate, to_text


def leaf(kind: str, key: str, value: str) -> str:
    return f"Expression[type={kind}, left=Key[key={key}], right=Value[value={value}]]"


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (leaf("EQ", "tenant", "acme"), "tenant = acme"),
        (leaf("NE", "tenant", "acme"), "tenant != acme"),
        (leaf("GT", "year", "2020"), "year > 2020"),
        (leaf("LTE", "price", "9.5"), "price <= 9.5"),
        (leaf("IN", "tenant", "[acme, globex]"), "tenant in (acme, globex)"),
        (leaf("NIN", "tenant", "[acme]"), "not (tenant in (acme))"),
        (leaf("IN", "tenant", "[]"), "tenant in ()"),
        (
            f"Expression[type=OR, left=Group[content={leaf('EQ', 'a', 'x')}], right={leaf('EQ', 'b', 'y')}]",
            "a = x or b = y",
        ),
        (f"Expression[type=NOT, left={leaf('EQ', 'a', 'x')}, right=null]", "not (a = x)"),
        ("Expression[type=ISNULL, left=Key[key=a], right=null]", "not (a exists)"),
        ("Expression[type=ISNOTNULL, left=Key[key=a], right=null]", "a exists"),
    ],
)
def test_printed_expressions(printed: str, text: str) -> None:
    assert to_text(parse_spring_ai(printed)) == text


def test_a_value_whose_type_is_lost_is_taken_both_ways() -> None:
    is_2020 = parse_spring_ai(leaf("EQ", "year", "2020"))
    is_not = parse_spring_ai(leaf("NE", "year", "2020"))
    is_draft = parse_spring_ai(leaf("EQ", "draft", "true"))
    for year in ("2020", 2020):
        assert evaluate(is_2020, {"year": year})
        assert not evaluate(is_not, {"year": year})
    assert evaluate(is_draft, {"draft": True})
    assert evaluate(is_draft, {"draft": "true"})


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "tenant = acme",
        leaf("LIKE", "a", "b"),
        leaf("GT", "year", "soon"),
        leaf("EQ", "a", "b")[:-1],
        leaf("EQ", "a", "b") + "]",
        leaf("EQ", "a", "x[1]"),
        "Group[content=" * 40,
    ],
)
def test_what_is_none_is_not_guessed(printed: str) -> None:
    with pytest.raises(UnparsedFilter):
        parse_spring_ai(printed)
