"""Printing and reading back: the printed form has one reading, which is the predicate itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collectors.predicate import (
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
    evaluate,
    parse_text,
    to_text,
)

WORDS = ("tenant", "a.b", "in", "Not", "itself", "is", "has", "item", "", "a b", '"', "1", "2024-01-01")


@st.composite
def _texts(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(WORDS) | st.text(max_size=4))


@st.composite
def _scalars(draw: st.DrawFn) -> Any:
    return draw(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts())


NAMES = _texts()
SCALARS = _scalars()
BOUNDS = SCALARS.filter(lambda value: not isinstance(value, bool))
INSTANTS = (
    st.none() | st.datetimes().map(lambda at: at.isoformat()) | st.dates().map(lambda day: f"{day}T10:00Z")
)
WHOLE = st.booleans()


def _in_time(bounds: tuple[Any, ...]) -> bool:
    return any(bound is not None for bound in bounds)


TIMES = st.tuples(INSTANTS, INSTANTS, INSTANTS, INSTANTS).filter(_in_time)
LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Eq, field=NAMES, value=SCALARS, whole=WHOLE),
    st.builds(Ne, field=NAMES, value=SCALARS, whole=WHOLE),
    st.builds(In, field=NAMES, values=st.lists(SCALARS, max_size=3).map(tuple), whole=WHOLE),
    st.builds(Other, field=NAMES, values=st.lists(SCALARS, max_size=3).map(tuple), whole=WHOLE),
    st.builds(Range, field=NAMES, gt=BOUNDS, gte=BOUNDS, lt=BOUNDS, lte=BOUNDS, whole=WHOLE),
    st.builds(
        lambda name, at: Range(field=name, gt=at[0], gte=at[1], lt=at[2], lte=at[3], time=True), NAMES, TIMES
    ),
    st.builds(
        Exists, field=NAMES, holding=st.sampled_from(["anything", "not_null", "items", "value", "list"])
    ),
    st.builds(Contains, field=NAMES, value=SCALARS, part=st.sampled_from(["either", "item", "text"])),
)


def _several(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[tuple[Predicate, ...]]:
    """None, or two and more: one alone prints as itself."""
    return st.lists(inner, max_size=3).filter(lambda items: len(items) != 1).map(tuple)


PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, items=_several(inner)),
        st.builds(Or, items=_several(inner)),
        st.builds(Not, item=inner),
    ),
    max_leaves=8,
)


@given(PREDICATES)
def test_the_printed_form_reads_as_the_predicate(predicate: Predicate) -> None:
    assert parse_text(to_text(predicate)) == predicate


@given(LEAVES)
def test_the_only_item_of_a_connective_prints_as_itself(leaf: Predicate) -> None:
    for alone in (And(items=(leaf,)), Or(items=(leaf,))):
        assert parse_text(to_text(alone)) == leaf


DOCUMENTS = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3), max_size=5)


@given(PREDICATES, DOCUMENTS)
def test_every_predicate_can_be_asked_of_every_document(
    predicate: Predicate, document: dict[str, Any]
) -> None:
    assert evaluate(Not(item=predicate), document) is not evaluate(predicate, document)


PIECES = st.sampled_from(
    [
        *(
            "tenant",
            "a",
            "=",
            "!=",
            "<",
            "<=",
            ">",
            "(",
            ")",
            ",",
            "and",
            "or",
            "not",
            "in",
            "itself",
            "other",
            "than",
        ),
        *(
            "within",
            "has",
            "item",
            "is",
            "present",
            "3",
            "-1.5e3",
            "2024-01-01",
            "1e999",
            '"q\\"x"',
            '"\\q',
            "null",
        ),
        *("everything", "NaN", "Infinity"),
    ]
)


@given(st.lists(PIECES, max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_a_predicate_or_unparsed(text: str) -> None:
    try:
        predicate = parse_text(text)
    except UnparsedFilter:
        return
    assert to_text(parse_text(to_text(predicate))) == to_text(predicate)
