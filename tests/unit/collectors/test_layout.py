"""A request's layout: who is above whom, whom to believe and whom to ask."""

from __future__ import annotations

from collectors.conventions import Field, SpanKind, spoken_of
from collectors.layout import NOWHERE, Layout, layout_of
from collectors.span import AttributeValue, Span

CHAIN, RETRIEVER, LLM = SpanKind.CHAIN, SpanKind.RETRIEVER, SpanKind.LLM


def layout(
    kinds: list[SpanKind | None],
    parents: list[int],
    anchor: int = NOWHERE,
    attributes: list[dict[str, AttributeValue]] | None = None,
) -> Layout:
    spans = [Span("a" * 32, f"{number}", None, "s", 0, 1, one)
             for number, one in enumerate(attributes or [{} for _ in kinds])]  # fmt: skip
    return layout_of(tuple(map(spoken_of, spans)), tuple(kinds), tuple(parents), anchor)


def test_the_anchor_is_believed_first_then_what_is_above_it_then_what_is_below() -> None:
    one = layout([None, CHAIN, RETRIEVER, LLM, RETRIEVER], [NOWHERE, 0, 1, 1, 2], anchor=1)
    assert one.believed == (1, 0, 2, 3, 4)
    assert (one.outermost(RETRIEVER), one.by_kind[RETRIEVER]) == ([2], [2, 4])
    assert one.nearest_below(0, RETRIEVER) == [2]
    assert list(one.above(4)) == [2, 1, 0]


def test_a_chain_that_merely_wraps_another_lets_it_speak() -> None:
    assert layout([CHAIN, CHAIN, LLM], [NOWHERE, 0, 1], anchor=0).speakers == (0, 1)
    assert layout([CHAIN, CHAIN, LLM], [NOWHERE, 0, 0], anchor=0).speakers == (0,)


def test_rings_and_spans_that_are_their_own_parent_end() -> None:
    ring = layout([CHAIN, CHAIN, CHAIN], [1, 0, 2], anchor=0)
    assert (list(ring.above(0)), list(ring.above(2))) == ([1], [])
    assert sorted(ring.believed) == [0, 1, 2]


def test_rules_are_ranked_and_keep_the_order_of_belief() -> None:
    said: list[dict[str, AttributeValue]] = [
        {"output.value": "b"}, {"rag.answer.text": "a"}, {"output.value": "c"}]  # fmt: skip
    rules = layout([None, None, CHAIN], [2, 2, NOWHERE], anchor=2, attributes=said).rules
    assert [place for _, place in rules[Field.OUTPUT]] == [2, 0]
    assert [place for _, place in rules[Field.ANSWER]] == [1]


def test_a_layout_is_remembered_unless_it_is_large() -> None:
    small, large = ([CHAIN, LLM], [NOWHERE, 0]), ([CHAIN] * 65, [NOWHERE] * 65)
    assert layout(*small) is layout(*small)
    assert layout(*large) is not layout(*large)
