"""Filter predicates: evaluation, printing, splitting, and the notations that build them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from collectors.dialects.clauses import parse_clauses
from collectors.dialects.haystack import parse_haystack
from collectors.predicate import (
    ALL,
    NOTHING,
    And,
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Or,
    Other,
    Predicate,
    Range,
    UnparsedFilter,
    clauses,
    conjunction,
    disjunction,
    evaluate,
    fields,
    negation,
    parse_equalities,
    parse_text,
    split,
    to_text,
    without_prefix,
)

DOCUMENT = {
    "tenant": "acme",
    "acl": ["support", "sales"],
    "version": 3,
    "score": 0.5,
    "published": True,
    "title": "Refund policy",
    "owner": None,
    "author": {"team": "billing"},
}


@pytest.mark.parametrize(
    ("predicate", "satisfied"),
    [
        (Eq(field="tenant", value="acme"), True),
        (Eq(field="tenant", value="ACME"), False),
        (Eq(field="missing", value="acme"), False),
        (Eq(field="missing", value=None), True),
        (Eq(field="owner", value=None), True),
        (Eq(field="tenant", value=None), False),
        (Eq(field="acl", value="sales"), True),
        (Eq(field="version", value=3.0), True),
        (Eq(field="version", value="3"), False),
        (Eq(field="published", value=1), False),
        (Eq(field="version", value=True), False),
        (Eq(field="author.team", value="billing"), True),
        (Eq(field="author.name", value="x"), False),
        (Ne(field="tenant", value="globex"), True),
        (Ne(field="missing", value="globex"), True),
        (Ne(field="acl", value="sales"), False),
        (In(field="tenant", values=("globex", "acme")), True),
        (In(field="tenant", values=()), False),
        (In(field="acl", values=("sales",)), True),
        (Range(field="version", gte=3, lt=4), True),
        (Range(field="version", gt=3), False),
        (Range(field="version", lte=2), False),
        (Range(field="published", gte=0), False),
        (Range(field="tenant", gte=0), False),
        (Range(field="missing", gte=0), False),
        (Exists(field="tenant"), True),
        (Exists(field="owner"), False),
        (Exists(field="missing"), False),
        (Contains(field="title", value="fund"), True),
        (Contains(field="title", value=1), False),
        (Contains(field="acl", value="support"), True),
        (Contains(field="version", value=3), False),
        (ALL, True),
        (Or(items=()), False),
        (Not(item=Eq(field="tenant", value="acme")), False),
        (And(items=(Eq(field="tenant", value="acme"), Range(field="version", gte=3))), True),
        (Or(items=(Eq(field="tenant", value="globex"), Exists(field="owner"))), False),
    ],
)
def test_evaluates(predicate: Predicate, satisfied: bool) -> None:
    assert evaluate(predicate, DOCUMENT) is satisfied


VALUES: dict[str, Any] = {
    "null": None,
    "nothing": [],
    "nulls": [None],
    "one": "a",
    "many": ["a", None],
    "number": 1,
    "truth": True,
    "day": "2024-01-02",
    "moment": "2024-01-01T23:30:00-01:00",
    "date": datetime(2024, 1, 2, tzinfo=UTC),
}


def satisfying(predicate: Predicate) -> str:
    """The names of the values that the field `x` may have, and `missing`."""
    documents = {"missing": {}, **{name: {"x": value} for name, value in VALUES.items()}}
    return " ".join(name for name, document in documents.items() if evaluate(predicate, document))


@pytest.mark.parametrize(
    ("predicate", "satisfied_by"),
    [
        (Exists(field="x", holding="anything"), "null nothing nulls one many number truth day moment date"),
        (Exists(field="x"), "nothing nulls one many number truth day moment date"),
        (Exists(field="x", holding="items"), "nulls one many number truth day moment date"),
        (Exists(field="x", holding="value"), "one many number truth day moment date"),
        (Exists(field="x", holding="list"), "nothing nulls many"),
        (Eq(field="x", value="a"), "one many"),
        (Eq(field="x", value="a", whole=True), "one"),
        (Eq(field="x", value=1), "number"),
        (Eq(field="x", value=1.0), "number"),
        (Eq(field="x", value=True), "truth"),
        (Eq(field="x", value="1"), ""),
        (Eq(field="x", value=None), "missing null nulls many"),
        (Eq(field="x", value=None, whole=True), "missing null"),
        (In(field="x", values=("a", None), whole=True), "missing null one"),
        (Other(field="x", values=("a",)), "number truth day moment date"),
        (Other(field="x", values=()), "one many number truth day moment date"),
        (Contains(field="x", value="a", part="item"), "many"),
        (Contains(field="x", value="a", part="text"), "one"),
        (Contains(field="x", value="a"), "one many"),
        (Range(field="x"), "number"),
        (Range(field="x", gt="Z"), "one many"),
        (Range(field="x", gt="Z", whole=True), "one"),
        (Range(field="x", gte="2024-01-02"), "one many day"),
        (Range(field="x", gte="2024-01-02", time=True), "day moment date"),
        (Range(field="x", gt="2024-01-02T00:00:00Z", lt="2024-01-02T01:00:00Z", time=True), "moment"),
    ],
)
def test_what_is_there_and_what_it_holds(predicate: Predicate, satisfied_by: str) -> None:
    assert satisfying(predicate) == satisfied_by


def test_times_are_bounded_by_times() -> None:
    for bounds in ({}, {"gt": 3}, {"gt": "soon"}, {"gt": "2024-01-01", "lt": 5}, {"lt": "2024-13-01"}):
        with pytest.raises(ValueError, match="ISO-8601"):
            Range.model_validate({"field": "x", "time": True, **bounds})


def test_no_number_equals_itself_as_nan() -> None:
    assert not evaluate(Range(field="x", gte=0), {"x": float("nan")})


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (parse_equalities({"tenant": "acme", "locale": "en-US"}), "tenant = acme and locale = en-US"),
        (Eq(field="name", value="two words"), 'name = "two words"'),
        (Eq(field="version", value="3"), 'version = "3"'),
        (Eq(field="version", value=3), "version = 3"),
        (Eq(field="published", value=True), "published = true"),
        (Eq(field="owner", value=None), "owner = null"),
        (Eq(field="odd name", value="and"), '"odd name" = "and"'),
        (Ne(field="locale", value="de-DE"), "locale != de-DE"),
        (In(field="locale", values=("en-US", "de-DE")), "locale in (en-US, de-DE)"),
        (Range(field="year", gte=2020, lt=2024), "2020 <= year < 2024"),
        (Range(field="score", gt=0.25), "score > 0.25"),
        (Exists(field="acl"), "acl exists"),
        (Contains(field="tags", value="faq"), "tags contains faq"),
        (Not(item=Eq(field="a", value="b")), "not (a = b)"),
        (
            And(
                items=(
                    Eq(field="a", value="b"),
                    Or(items=(Eq(field="c", value="d"), Eq(field="e", value="f"))),
                )
            ),
            "a = b and (c = d or e = f)",
        ),
        (Range(field="year", gt=1, gte=2, lt=3.5), "year within (> 1, >= 2, < 3.5)"),
        (Range(field="name", gte="a b", lt="c"), '"a b" <= name < "c"'),
        (Range(field="at", lt="2024-01-02T00:00:00Z", time=True), "at < 2024-01-02T00:00:00Z"),
        (Range(field="year"), "year has any number"),
        (Eq(field="tenant", value="acme", whole=True), "tenant == acme"),
        (Ne(field="tenant", value="acme", whole=True), "tenant !== acme"),
        (In(field="tenant", values=("acme",), whole=True), "tenant itself in (acme)"),
        (Other(field="locale", values=("de",)), "locale other than (de)"),
        (Exists(field="acl", holding="value"), "acl has a value"),
        (Contains(field="tags", value="faq", part="item"), "tags has item faq"),
        (ALL, "everything"),
        (Or(items=()), "nothing"),
    ],
)
def test_prints_as_a_person_would_write_it(predicate: Predicate, text: str) -> None:
    assert to_text(predicate) == text


def test_a_clause_that_reads_an_entitlement_field_is_entitlement_as_a_whole() -> None:
    shared = Or(items=(Eq(field="tenant", value="acme"), Eq(field="public", value=True)))
    locale = Eq(field="locale", value="en-US")
    assert split(And(items=(locale, shared)), {"tenant"}) == (shared, locale)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("a = 1 and b = 2 or c = 3", "(a = 1 and b = 2) or c = 3"),
        ("not a = 1", "not (a = 1)"),
        ('  a="x"and(b!=y)', "a = x and b != y"),
        ("((a exists))", "a exists"),
        ("a = 1 or (b = 2 or c = 3)", "a = 1 or (b = 2 or c = 3)"),
    ],
)
def test_reads_what_people_write(written: str, text: str) -> None:
    assert to_text(parse_text(written)) == text


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            "a",
            "a =",
            "= 1",
            "a = 1 b = 2",
            "a in 1",
            "(a = 1",
            "a = and",
            "1 < a",
            "a > b",
            "a ~ 1",
            "a < 1 < 2",
        ),
        *(
            "a within (> 1, > 2)",
            "a within (> 1, < 2024-01-01)",
            "2024-01-01 < a < 3",
            "a > 2024-13-01",
            'a = "\\q"',
        ),
        *("(" * 200 + "a = 1" + ")" * 200, "not " * 200 + "a = 1", "a = 1" + " " * (1 << 20)),
    ],
)
def test_what_nobody_prints_is_refused(written: str) -> None:
    with pytest.raises(UnparsedFilter):
        parse_text(written)


def test_parts_of_a_name_come_off() -> None:
    both = And(items=(Eq(field="meta.a", value=1), Not(item=Exists(field="b")), Or(items=())))
    assert to_text(without_prefix(both, "meta.")) == "a = 1 and not (b exists) and nothing"


def test_putting_together_is_flat() -> None:
    one, other = Eq(field="a", value=1), Eq(field="b", value=2)
    assert conjunction([And(items=(one, ALL)), other]) == And(items=(one, other))
    assert disjunction([Or(items=(one, NOTHING)), other]) == Or(items=(one, NOTHING, other))
    assert disjunction([one]) == conjunction([one]) == negation(negation(one)) == one
    assert (disjunction([]), conjunction([])) == (NOTHING, ALL)


def test_split_of_no_entitlement_is_all() -> None:
    locale = Eq(field="locale", value="en-US")
    assert split(locale, {"tenant"}) == (ALL, locale)
    assert split(locale, ()) == (ALL, locale)
    assert split(ALL, {"tenant"}) == (ALL, ALL)


def test_clauses_flatten_conjunctions_only() -> None:
    either = Or(items=(Eq(field="a", value=1), Eq(field="b", value=2)))
    nested = And(items=(And(items=(Eq(field="c", value=3),)), either))
    assert clauses(nested) == (Eq(field="c", value=3), either)
    assert fields(nested) == {"a", "b", "c"}


def test_equality_lists_mean_any() -> None:
    assert parse_equalities({"locale": ["en-US", "en-GB"]}) == In(field="locale", values=("en-US", "en-GB"))
    assert parse_equalities({}) == ALL


@pytest.mark.parametrize("value", [{"nested": 1}, [["deep"]], float("nan"), object()])
def test_equalities_refuse_what_is_no_scalar(value: Any) -> None:
    with pytest.raises(UnparsedFilter):
        parse_equalities({"field": value})


def test_clause_lists() -> None:
    logged = [
        {"field": "tenant", "op": "eq", "value": "acme"},
        {"field": "locale", "op": "in", "value": ["en-US"]},
        {"field": "product", "op": "nin", "value": ["legacy"]},
        {"field": "year", "op": ">=", "value": 2020},
        {"field": "acl", "op": "exists"},
        {"field": "draft", "op": "exists", "value": False},
        {"field": "tags", "op": "contains", "value": "faq"},
    ]
    assert to_text(parse_clauses(logged)) == (
        "tenant = acme and locale in (en-US) and not (product in (legacy)) and year >= 2020 and acl exists "
        "and not (draft exists) and tags contains faq"
    )
    assert parse_clauses([]) == ALL


@pytest.mark.parametrize(
    "clause",
    [
        "tenant = acme",
        {"op": "eq", "value": "acme"},
        {"field": "a", "op": "like", "value": "b"},
        {"field": "a", "op": "in", "value": "b"},
        {"field": "a", "op": "gte", "value": "yesterday"},
        {"field": "a", "op": "gt", "value": True},
        {"field": "a", "value": 1, "boost": 2},
    ],
)
def test_clauses_that_say_something_else_are_refused(clause: object) -> None:
    with pytest.raises(UnparsedFilter):
        parse_clauses([clause])


def test_haystack_trees() -> None:
    tree = {
        "operator": "AND",
        "conditions": [
            {"field": "meta.tenant", "operator": "==", "value": "acme"},
            {
                "operator": "OR",
                "conditions": [
                    {"field": "meta.year", "operator": ">", "value": 2020},
                    {"field": "meta.locale", "operator": "not in", "value": ["de-DE"]},
                ],
            },
            {"operator": "NOT", "conditions": [{"field": "meta.draft", "operator": "==", "value": True}]},
        ],
    }
    assert to_text(parse_haystack(tree)) == (
        "tenant = acme and (year > 2020 or not (locale in (de-DE))) and not (draft = true)"
    )


@pytest.mark.parametrize(
    "tree",
    [
        None,
        {},
        {"operator": "AND"},
        {"operator": "AND", "conditions": {"field": "a"}},
        {"operator": "XOR", "conditions": []},
        {"field": "meta.a", "operator": "contains", "value": 1},
        {"field": "meta.a", "operator": "=="},
        {"field": "meta.a", "operator": ">", "value": "yesterday"},
    ],
)
def test_haystack_trees_that_cannot_be_read_are_refused(tree: object) -> None:
    with pytest.raises(UnparsedFilter):
        parse_haystack(tree)


def test_haystack_trees_of_hostile_depth_are_refused() -> None:
    tree: dict[str, Any] = {"field": "meta.a", "operator": "==", "value": 1}
    for _ in range(5000):
        tree = {"operator": "AND", "conditions": [tree]}
    with pytest.raises(UnparsedFilter):
        parse_haystack(tree)
