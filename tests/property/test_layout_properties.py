"""What is remembered of a request's layout never shows: a trace is the same whatever was normalised before it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors import layout
from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.replay import read_batches
from collectors.span import AttributeValue, Span, SpanBatch, StatusCode
from collectors.trace import RagTrace

_KINDS = st.sampled_from([None, "CHAIN", "AGENT", "RETRIEVER", "RERANKER", "LLM", "EMBEDDING"])
_TEXTS = ("input.value", "output.value", "llm.model_name", "session.id", "rag.query.text", "rag.answer.text",
          "retrieval.documents.0.document.id", "retrieval.documents.0.document.content")  # fmt: skip
_COUNTS = ("llm.token_count.prompt", "llm.token_count.completion", "llm.cost.total")
_VALUES: dict[str, st.SearchStrategy[AttributeValue]] = {
    **{name: st.sampled_from(["", "one", "two", "[]", '{"a": 1}']) for name in _TEXTS},
    **{name: st.sampled_from([None, 0, 1, 3, "x"]) for name in _COUNTS},
}
_FRESH = Normaliser(NormaliseSettings())


@st.composite
def alike(draw: st.DrawFn) -> list[list[Span]]:
    """Requests whose spans hang together alike and have attributes of the same names, each with its own values."""
    count = draw(st.integers(1, 8))
    parents = st.one_of(st.none(), st.integers(0, count + 1).map(lambda number: f"{number:016x}"))
    shapes = [
        (draw(_KINDS), draw(parents), draw(st.sets(st.sampled_from(list(_VALUES)), max_size=6)))
        for _ in range(count)
    ]
    requests = []
    for _ in range(draw(st.integers(2, 3))):
        spans = []
        for number, (kind, parent, names) in enumerate(shapes):
            attributes = {name: draw(_VALUES[name]) for name in sorted(names)}
            if kind is not None:
                attributes["openinference.span.kind"] = kind
            status = draw(st.sampled_from([StatusCode.UNSET, StatusCode.ERROR]))
            end = number + draw(st.integers(1, 9))
            spans.append(
                Span("a" * 32, f"{number:016x}", parent, "s", number, end, attributes, status=status)
            )
        requests.append(spans)
    return requests


def assembled(spans: list[Span]) -> list[Assembled]:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(tuple(spans)), now=0.0)
    return assembler.flush(now=1.0)


def fresh(one: Assembled) -> RagTrace | None:
    layout.forget()
    return _FRESH.normalise(one)


@given(alike())
def test_a_request_reads_the_same_after_others_of_its_layout(requests: list[list[Span]]) -> None:
    every = [one for spans in requests for one in assembled(spans)]
    expected = [fresh(one) for one in every]
    normaliser = Normaliser(NormaliseSettings())
    layout.forget()
    assert [normaliser.normalise(one) for one in every] == expected
    assert [normaliser.normalise(one) for one in reversed(every)] == expected[::-1]


def test_every_capture_reads_the_same_after_all_others(shared: Path) -> None:
    every: list[Assembled] = []
    for path in sorted((shared / "fixtures" / "otlp").glob("*.requests.jsonl")):
        every += assembled([span for batch in read_batches([path]) for span in batch.spans])
    assert len(every) > 200
    expected = [fresh(one) for one in every]
    assert sum(one is not None for one in expected) > 100
    remembered = Normaliser(NormaliseSettings())
    for _ in range(2):
        assert [remembered.normalise(one) for one in every] == expected


def test_values_still_decide_who_is_asked_next(shared: Path) -> None:
    """The same layout, one capture's texts emptied at random: what one span no longer says, the next one does."""
    (path,) = (shared / "fixtures" / "otlp").glob("openinference-langchain-qdrant.requests.jsonl")
    every = assembled([span for batch in read_batches([path]) for span in batch.spans])
    chance = random.Random(7)
    emptied = [replace(one, spans=tuple(_emptied(span, chance) for span in one.spans)) for one in every]
    mixed = [one for pair in zip(every, emptied, strict=True) for one in pair]
    expected = [fresh(one) for one in mixed]
    normaliser = Normaliser(NormaliseSettings())
    found = [normaliser.normalise(one) for one in mixed]
    assert found == expected
    assert found[::2] != found[1::2]


def _emptied(span: Span, chance: random.Random) -> Span:
    return replace(
        span,
        attributes={
            name: ""
            if isinstance(value, str) and not name.endswith("kind") and chance.random() < 0.3
            else value
            for name, value in span.attributes.items()
        },
    )
