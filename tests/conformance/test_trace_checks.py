"""What every trace check must hold to, whatever a trace holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.predicate import And, Contains, Eq, Exists, In, Ne, Not, Or, Predicate, Range
from collectors.trace import (
    AppliedFilter,
    Document,
    Feedback,
    Flag,
    RagTrace,
    Reranking,
    Retrieval,
    Tokens,
    TraceError,
    Versions,
)
from detectors.faithfulness import FaithfulnessCheck
from detectors.filter_exclusion import FilterExclusionCheck
from detectors.finding import Finding, Outcome, TraceCheck
from detectors.lexical import LexicalScorer
from detectors.operations import CostCheck, LatencyCheck, RegenerationCheck, TokenPrice
from detectors.rate_checks import EmptyRetrievalCheck, RefusalCheck, ThumbsDownCheck

METADATA: Mapping[str, Mapping[str, object]] = {
    "d1": {"a": "x", "n": 3},
    "d2": {"a": ["x", "y"], "n": None},
    "d3": {},
}


class _Catalogue:
    def metadata(self, document_id: str) -> Mapping[str, object] | None:
        return METADATA.get(document_id)


class _Golden:
    def gold(self, trace: RagTrace) -> tuple[str, ...] | None:
        return ("d1", "d9") if trace.query else None


PRICES = {"m": TokenPrice(input_usd_per_million=1.0, output_usd_per_million=2.0)}
CHECKS: dict[str, Callable[[], TraceCheck]] = {
    "faithfulness": lambda: FaithfulnessCheck(LexicalScorer()),
    "filter_exclusion": lambda: FilterExclusionCheck(_Catalogue(), _Golden()),
    "latency": lambda: LatencyCheck(2.0),
    "cost": lambda: CostCheck(PRICES),
    "regeneration": RegenerationCheck,
    "thumbs_down": ThumbsDownCheck,
    "refusal": RefusalCheck,
    "empty_retrieval": EmptyRetrievalCheck,
}

words = st.sampled_from(
    ["Refunds take five days.", "I don't know.", "It costs 40 euros [1].", "Why?", "", " ", "a"]
)
texts = st.one_of(words, st.lists(words, max_size=4).map(" ".join), st.text(max_size=40))
numbers = st.one_of(st.none(), st.floats(), st.just(0.5))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(["x", "y"]))
names = st.sampled_from(["a", "n", "missing"])
leaves: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Eq, field=names, value=scalars),
    st.builds(Ne, field=names, value=scalars),
    st.builds(In, field=names, values=st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Range, field=names, gt=numbers, lte=numbers),
    st.builds(Exists, field=names),
    st.builds(Contains, field=names, value=scalars),
)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(And, items=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, items=st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, item=inner),
    ),
    max_leaves=6,
)
ids = st.lists(st.sampled_from(["d1", "d2", "d3", "d9"]), max_size=3).map(tuple)
documents = st.none() | st.lists(
    st.builds(Document, id=st.just("d1"), text=st.none() | texts), max_size=2
).map(tuple)
filters = st.none() | st.builds(
    AppliedFilter, entitlement=st.none() | predicates, relevance=st.none() | predicates
)
retrievals = st.lists(
    st.builds(Retrieval, span_id=st.just("s"), filter=filters, documents=documents), max_size=2
).map(tuple)


def _or_none(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


traces = st.builds(
    RagTrace,
    id=st.sampled_from(["t1:a", "t2:b", "t3:c"]),
    trace_id=st.just("t"),
    revision=st.integers(0, 3),
    start_time_ns=st.just(0),
    duration_s=numbers,
    query=_or_none(texts),
    retrievals=retrievals,
    reranked=_or_none(st.builds(Reranking, span_id=st.just("r"), documents=documents)),
    context=_or_none(st.lists(texts, max_size=3).map(tuple)),
    answer=_or_none(texts),
    gold_document_ids=_or_none(ids),
    refused=_or_none(st.booleans()),
    error=_or_none(st.builds(TraceError)),
    tokens=st.builds(Tokens, input=_or_none(st.integers(0, 9)), output=_or_none(st.integers(0, 9))),
    cost_usd=numbers,
    versions=st.builds(Versions, model=_or_none(st.sampled_from(["m", "m-2026-01-31", "n"]))),
    slices=st.dictionaries(st.sampled_from(["tenant", "locale"]), st.sampled_from(["x", "y"])),
    feedback=st.lists(
        st.builds(Feedback, label=st.sampled_from(["regenerate", "thumbs_up", ""])), max_size=2
    ).map(tuple),
    flags=st.frozensets(st.sampled_from(list(Flag)), max_size=2),
)
batches = st.lists(traces, max_size=5)


@pytest.fixture(params=sorted(CHECKS))
def check(request: pytest.FixtureRequest) -> TraceCheck:
    return CHECKS[request.param]()


def shown(finding: Finding) -> str:
    """Comparable although evidence may hold NaN."""
    return repr(finding)


by_check = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@by_check
@given(batch=batches)
def test_one_finding_a_trace_in_order_and_of_weight_one(check: TraceCheck, batch: list[RagTrace]) -> None:
    findings = check.check(batch)
    assert [(f.trace_id, f.revision) for f in findings] == [(t.id, t.revision) for t in batch]
    for finding, trace in zip(findings, batch, strict=True):
        assert finding.check == check.name
        assert finding.weight == 1.0
        assert finding.slices == trace.slices
        if finding.outcome is Outcome.SCORED:
            assert finding.value is not None
            assert 0.0 <= finding.value < float("inf")
        else:
            assert finding.reason, "what is not scored says why"
            assert finding.reason.replace("_", "").isalpha(), "a reason is safe as a metric label"


@by_check
@given(batch=batches)
def test_a_batch_gives_what_single_calls_give(check: TraceCheck, batch: list[RagTrace]) -> None:
    singles = [check.check([trace])[0] for trace in batch]
    assert [shown(f) for f in check.check(batch)] == [shown(f) for f in singles]


@by_check
@given(batch=batches)
def test_a_check_is_pure(check: TraceCheck, batch: list[RagTrace]) -> None:
    before = repr(batch)  # compares where NaN does not equal itself
    first = check.check(batch)
    assert repr(batch) == before, "the input stays as it was"
    assert [shown(f) for f in check.check(batch)] == [shown(f) for f in first], (
        "asked again, it says the same"
    )


def test_names_are_metric_labels(check: TraceCheck) -> None:
    assert check.name in CHECKS
    assert check.scorer
    assert check.scorer == check.scorer.strip().lower()
    assert list(check.check([])) == []
