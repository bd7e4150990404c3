"""What a span's shape says of it leaves nothing out that the span itself would say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.conventions import RULES, Field, given, kind_of, read, spoken_of
from collectors.replay import read_batches
from collectors.shape import Shape, shape_of
from collectors.span import AttributeValue, Span, SpanEvent
from collectors.trace import Flag


def span(*events: str, **attributes: AttributeValue) -> Span:
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    made = tuple(SpanEvent(name, 0, {}) for name in events)
    return Span("a" * 32, "b" * 16, None, "step", 0, 1, named, events=made)


def captured(shared: Path) -> list[Span]:
    paths = sorted((shared / "fixtures" / "otlp").glob("*.requests.jsonl"))
    assert paths
    return [one for batch in read_batches(paths) for one in batch.spans]


@pytest.mark.part("shared")
def test_no_rule_is_left_out_that_would_give_something(shared: Path) -> None:
    for one in captured(shared):
        for field, rules in RULES.items():
            flags: set[Flag] = set()
            first = next(
                (
                    (value, source)
                    for _, source, rule in rules
                    if (value := given(rule, one, flags)) is not None
                ),
                None,
            )
            told: Any = read(field, one, set())
            assert (None if told is None else tuple(told)) == first, field


@pytest.mark.part("shared")
def test_no_convention_is_left_out_that_would_name_the_kind(shared: Path) -> None:
    from collectors.conventions import _KINDS

    for one in captured(shared):
        expected = next((kind for own in _KINDS if (kind := own.kind_of(one)) is not None), None)
        assert kind_of(one) is expected


def test_rules_are_found_by_attribute_by_event_and_by_beginning() -> None:
    assert Field.SESSION in spoken_of(span(session__id="s-1")).rules
    assert Field.DOCUMENTS in spoken_of(span(retrieval__documents__0__document__id="kb-1")).rules
    assert Field.DOCUMENTS in spoken_of(span("db.query.result")).rules
    assert spoken_of(span("something else", nothing__known=1)).rules == {}


def test_an_attribute_called_as_an_event_is_no_event() -> None:
    assert Field.INPUT in spoken_of(span("QueryStartEvent")).rules
    assert Field.INPUT not in spoken_of(span(QueryStartEvent="x")).rules


def test_what_is_remembered_of_a_shape_does_not_depend_on_the_order_of_names() -> None:
    one, other = shape_of({"b": 1, "a": 2}), shape_of({"a": 3, "b": 4})
    assert one.names == other.names == ("a", "b")
    assert one.members == other.members


def test_a_shape_of_very_many_names_is_read_all_the_same() -> None:
    many = {f"retrieval.documents.{number}.document.id": f"kb-{number}" for number in range(400)}
    assert len(shape_of(many).indexed("retrieval.documents.")) == 400
    assert shape_of(many) is not shape_of(many)  # nor remembered
    found = read(Field.DOCUMENTS, Span("a" * 32, "b" * 16, None, "s", 0, 1, dict(many)), set())
    assert found is not None
    assert [document.id for document in found.value] == [f"kb-{number}" for number in range(400)]


def test_indices_that_are_none_are_left_out() -> None:
    assert Shape(("d.1.id", "d.one.id", "d.2", "d.9999999999.id", "dd.1.id")).indexed("d.") == (
        (1, "id", "d.1.id"),
    )
