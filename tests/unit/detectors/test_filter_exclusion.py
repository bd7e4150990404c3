"""Filter false exclusion: who counts, what is excluded, and which clause did it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.predicate import ALL, And, Eq, In, Not, Predicate, Range, clauses, evaluate, to_text
from collectors.trace import AppliedFilter, RagTrace, Retrieval
from detectors.filter_exclusion import FilterExclusionCheck
from detectors.finding import Finding, Outcome

DOCUMENTS: Mapping[str, Mapping[str, object]] = {
    "de": {"tenant": "acme", "locale": "de-DE", "kind": "faq", "year": 2025},
    "en": {"tenant": "acme", "locale": "en-US", "kind": "manual", "year": 2026},
    "globex": {"tenant": "globex", "locale": "en-US", "kind": "faq", "year": 2026},
}
ACME = Eq(field="tenant", value="acme")
ENGLISH = Eq(field="locale", value="en-US")
GERMAN = Eq(field="locale", value="de-DE")
FAQ = Eq(field="kind", value="faq")
RECENT = Range(field="year", gte=2026)


class Documents:
    def __init__(self, documents: Mapping[str, Mapping[str, object]] = DOCUMENTS) -> None:
        self._documents = documents

    def metadata(self, document_id: str) -> Mapping[str, object] | None:
        if document_id == "unreachable":
            raise ConnectionError("catalogue is down")
        return self._documents.get(document_id)


class Golden:
    def __init__(self, by_query: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._by_query = by_query or {}

    def gold(self, trace: RagTrace) -> tuple[str, ...] | None:
        return self._by_query.get(trace.query or "")


def retrieval(relevance: Predicate | None, entitlement: Predicate | None = None) -> Retrieval:
    return Retrieval(span_id="s", filter=AppliedFilter(entitlement=entitlement, relevance=relevance))


def judged(gold: tuple[str, ...] | None, *retrievals: Retrieval, **fields: Any) -> Finding:
    trace = RagTrace(
        id="t:a", trace_id="t", start_time_ns=0, retrievals=retrievals, gold_document_ids=gold, **fields
    )
    (finding,) = FilterExclusionCheck(Documents(), Golden({"q": ("de",)})).check([trace])
    return finding


def test_a_filter_that_removes_the_only_answer_is_found_and_named() -> None:
    finding = judged(("de",), retrieval(And(items=(ENGLISH, FAQ)), ACME), slices={"tenant": "acme"})
    assert (finding.outcome, finding.value) == (Outcome.SCORED, 1.0)
    assert finding.evidence["blamed"] == [to_text(ENGLISH)]
    assert finding.evidence["gold"] == finding.evidence["excluded"] == ["de"]
    assert finding.evidence["partial"] == 1.0
    assert finding.slices == {"tenant": "acme"}


def test_one_surviving_gold_document_is_enough_and_the_share_is_told() -> None:
    finding = judged(("de", "en"), retrieval(ENGLISH, ACME))
    assert finding.value == 0.0
    assert finding.evidence["partial"] == 0.5
    assert finding.evidence["excluded"] == ["de"]
    assert finding.evidence["blamed"] == []


def test_no_filter_excludes_nothing() -> None:
    assert judged(("de",), retrieval(ALL, ACME)).value == 0.0


def test_a_document_that_the_caller_may_not_see_never_counts() -> None:
    assert judged(("de", "globex"), retrieval(ENGLISH, ACME)).value == 1.0, "globex would survive the filter"
    alone = judged(("globex",), retrieval(ENGLISH, ACME))
    assert (alone.outcome, alone.reason) == (Outcome.NOT_APPLICABLE, "no_eligible_gold")


def test_entitlement_is_never_blamed() -> None:
    finding = judged(("de",), retrieval(And(items=(ENGLISH, RECENT)), ACME))
    assert finding.evidence["blamed"] == [to_text(ENGLISH), to_text(RECENT)]


def test_without_a_logged_entitlement_everything_is_eligible() -> None:
    assert judged(("globex",), retrieval(GERMAN)).evidence["gold"] == ["globex"]


def test_clauses_that_exclude_only_together_are_blamed_together() -> None:
    finding = judged(("de",), retrieval(And(items=(ENGLISH, FAQ, RECENT)), ACME))
    assert finding.evidence["blamed"] == sorted([to_text(ENGLISH), to_text(RECENT)])


def test_several_retrievals_exclude_only_if_none_lets_a_gold_document_through() -> None:
    assert judged(("de",), retrieval(ENGLISH, ACME), retrieval(GERMAN, ACME)).value == 0.0
    both = judged(("de",), retrieval(ENGLISH, ACME), retrieval(RECENT, ACME))
    assert both.value == 1.0
    assert both.evidence["blamed"] == sorted([to_text(ENGLISH), to_text(RECENT)])


@pytest.mark.parametrize(
    ("gold", "retrievals", "outcome", "reason"),
    [
        (("de",), (), Outcome.NOT_APPLICABLE, "no_retrieval"),
        ((), (retrieval(ENGLISH),), Outcome.NOT_APPLICABLE, "unanswerable"),
        (None, (retrieval(ENGLISH),), Outcome.NOT_SCORABLE, "no_gold"),
        (("de",), (Retrieval(span_id="s"),), Outcome.NOT_SCORABLE, "filter_unknown"),
        (("de",), (retrieval(None, ACME),), Outcome.NOT_SCORABLE, "filter_unknown"),
        (("de",), (retrieval(GERMAN), Retrieval(span_id="s")), Outcome.NOT_SCORABLE, "filter_unknown"),
        (("gone",), (retrieval(ENGLISH),), Outcome.NOT_SCORABLE, "gold_not_in_catalogue"),
        (("de", "unreachable"), (retrieval(ENGLISH),), Outcome.ERROR, "knowledge_failed"),
    ],
)
def test_what_is_not_scored_says_why(
    gold: tuple[str, ...] | None, retrievals: tuple[Retrieval, ...], outcome: Outcome, reason: str
) -> None:
    finding = judged(gold, *retrievals)
    assert (finding.outcome, finding.reason, finding.value) == (outcome, reason, None)


def test_a_gold_document_missing_from_the_catalogue_is_left_out_and_named() -> None:
    finding = judged(("de", "gone"), retrieval(ENGLISH, ACME))
    assert (finding.value, finding.evidence["missing"], finding.evidence["partial"]) == (1.0, ["gone"], 1.0)


def test_the_golden_set_is_asked_where_the_trace_is_silent() -> None:
    assert judged(None, retrieval(ENGLISH, ACME), query="q").value == 1.0
    assert judged(("en",), retrieval(ENGLISH, ACME), query="q").value == 0.0, (
        "the trace's own gold goes first"
    )


FIELDS = {"a": ("x", "y", "z"), "b": ("x", "y", "z"), "c": ("x", "y", "z")}
metadata = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in FIELDS.items()})
leaf = st.one_of(
    [st.builds(Eq, field=st.just(field), value=st.sampled_from(values)) for field, values in FIELDS.items()]
    + [
        st.builds(In, field=st.just(field), values=st.lists(st.sampled_from(values), max_size=2).map(tuple))
        for field, values in FIELDS.items()
    ]
)
clause = st.one_of(leaf, st.builds(Not, item=leaf))
conjunctions = st.lists(clause, max_size=5).map(lambda items: And(items=tuple(items)))
catalogues = st.lists(metadata, min_size=1, max_size=4).map(
    lambda rows: {f"d{i}": row for i, row in enumerate(rows)}
)


def _excluded(
    catalogue: Mapping[str, Mapping[str, object]], relevance: Predicate, entitlement: Predicate
) -> Finding:
    trace = RagTrace(
        id="t:a",
        trace_id="t",
        start_time_ns=0,
        gold_document_ids=tuple(catalogue),
        retrievals=(retrieval(relevance, entitlement),),
    )
    (finding,) = FilterExclusionCheck(Documents(catalogue), Golden()).check([trace])
    return finding


@given(catalogues, conjunctions, conjunctions)
def test_equals_the_definition(
    catalogue: Mapping[str, Mapping[str, object]], relevance: And, entitlement: And
) -> None:
    eligible = [m for m in catalogue.values() if evaluate(entitlement, m)]
    finding = _excluded(catalogue, relevance, entitlement)
    if not eligible:
        assert finding.reason == "no_eligible_gold"
    else:
        assert finding.value == float(not any(evaluate(relevance, m) for m in eligible))


@given(catalogues, conjunctions, clause)
def test_one_more_clause_never_lets_more_through(
    catalogue: Mapping[str, Mapping[str, object]], relevance: And, more: Predicate
) -> None:
    before = _excluded(catalogue, relevance, ALL)
    after = _excluded(catalogue, And(items=(*relevance.items, more)), ALL)
    assert before.value is not None
    assert after.value is not None
    assert after.value >= before.value


@given(catalogues, conjunctions)
def test_blame_equals_trying_every_removal(
    catalogue: Mapping[str, Mapping[str, object]], relevance: And
) -> None:
    finding = _excluded(catalogue, relevance, ALL)
    texts = sorted({to_text(c) for c in clauses(relevance)})

    def lets_through(removed: tuple[str, ...]) -> bool:
        kept = And(items=tuple(c for c in clauses(relevance) if to_text(c) not in removed))
        return any(evaluate(kept, m) for m in catalogue.values())

    smallest: list[tuple[str, ...]] = []
    for size in range(1, len(texts) + 1):
        smallest = [removed for removed in combinations(texts, size) if lets_through(removed)]
        if smallest:
            break
    if finding.value == 0.0:
        assert finding.evidence["blamed"] == []
    elif len(smallest[0]) == 1:
        assert finding.evidence["blamed"] == [text for (text,) in smallest]
    else:
        assert finding.evidence["blamed"] == list(smallest[0])
