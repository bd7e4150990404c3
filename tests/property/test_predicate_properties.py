"""What holds for every predicate on every document."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from collectors.dialects.clauses import parse_clauses
from collectors.predicate import (
    ALL,
    And,
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Or,
    Predicate,
    Range,
    clauses,
    conjunction,
    evaluate,
    fields,
    split,
    to_text,
)

NAMES = st.sampled_from(["tenant", "locale", "year", "acl", "odd name"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(["acme", "en-US", "true", "1", "and", "a b", ""]),
)
BOUNDS = st.one_of(st.none(), st.integers(-3, 3).map(float))
LEAVES = st.one_of(
    st.builds(Eq, field=NAMES, value=SCALARS),
    st.builds(Ne, field=NAMES, value=SCALARS),
    st.builds(In, field=NAMES, values=st.lists(SCALARS, max_size=3).map(tuple)),
    st.builds(Range, field=NAMES, gt=BOUNDS, gte=BOUNDS, lt=BOUNDS, lte=BOUNDS),
    st.builds(Exists, field=NAMES),
    st.builds(Contains, field=NAMES, value=SCALARS),
)
PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, items=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, items=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, item=inner),
    ),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=5)
ADAPTER: TypeAdapter[Predicate] = TypeAdapter(Predicate)


@given(PREDICATES, DOCUMENTS)
def test_not_is_the_opposite(predicate: Predicate, document: dict[str, Any]) -> None:
    assert evaluate(Not(item=predicate), document) is not evaluate(predicate, document)


@given(st.lists(PREDICATES, max_size=3), DOCUMENTS)
def test_and_or_obey_de_morgan(items: list[Predicate], document: dict[str, Any]) -> None:
    neither = Not(item=Or(items=tuple(items)))
    each_not = And(items=tuple(Not(item=item) for item in items))
    assert evaluate(neither, document) is evaluate(each_not, document)


@given(NAMES, SCALARS, DOCUMENTS)
def test_ne_is_not_eq(field: str, value: Any, document: dict[str, Any]) -> None:
    assert evaluate(Ne(field=field, value=value), document) is not evaluate(
        Eq(field=field, value=value), document
    )


@given(PREDICATES, DOCUMENTS)
def test_the_conjunction_of_the_clauses_means_the_same(
    predicate: Predicate, document: dict[str, Any]
) -> None:
    assert evaluate(conjunction(clauses(predicate)), document) is evaluate(predicate, document)


@given(PREDICATES, st.sets(NAMES), DOCUMENTS)
def test_split_keeps_the_meaning_and_keeps_entitlement_apart(
    predicate: Predicate, entitlement_fields: set[str], document: dict[str, Any]
) -> None:
    entitlement, relevance = split(predicate, entitlement_fields)
    both = evaluate(entitlement, document) and evaluate(relevance, document)
    assert both is evaluate(predicate, document)
    assert fields(relevance).isdisjoint(entitlement_fields)


@given(PREDICATES)
def test_json_gives_the_predicate_back(predicate: Predicate) -> None:
    assert ADAPTER.validate_json(ADAPTER.dump_json(predicate)) == predicate


@given(PREDICATES, PREDICATES, DOCUMENTS)
def test_texts_that_read_the_same_mean_the_same(
    one: Predicate, other: Predicate, document: dict[str, Any]
) -> None:
    if to_text(one) == to_text(other):
        assert evaluate(one, document) is evaluate(other, document)


SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def as_logged(leaf: Any) -> list[dict[str, Any]]:
    match leaf:
        case In(field=field, values=values):
            return [{"field": field, "op": "in", "value": list(values)}]
        case Exists(field=field):
            return [{"field": field, "op": "exists"}]
        case Range(field=field):
            bounds = {name: getattr(leaf, name) for name in SIGNS}
            return [
                {"field": field, "op": name, "value": at} for name, at in bounds.items() if at is not None
            ]
    return [{"field": leaf.field, "op": leaf.op, "value": leaf.value}]


@given(st.lists(LEAVES, max_size=4), DOCUMENTS)
def test_clause_lists_mean_what_was_logged(leaves: list[Any], document: dict[str, Any]) -> None:
    bound = [leaf for leaf in leaves if as_logged(leaf)]
    parsed = parse_clauses([clause for leaf in bound for clause in as_logged(leaf)])
    if not any(isinstance(leaf, Range) for leaf in bound):
        assert clauses(parsed) == tuple(bound)
        assert evaluate(parsed, document) is evaluate(And(items=tuple(bound)), document)
    assert bound or parsed == ALL
