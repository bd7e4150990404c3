"""The worked example of the filter metric: six documents, four queries, false exclusion 2 of 4 = 50 %."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.predicate import Eq, In, Predicate, evaluate
from collectors.trace import AppliedFilter, RagTrace, Retrieval
from detectors.estimate import NoEvidence, hajek_rate
from detectors.filter_exclusion import FilterExclusionCheck
from detectors.finding import Finding, Outcome
from monitor.knowledge import JsonlCatalogue, JsonlGoldenSet

DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"id": "acme-refund-en", "metadata": {"tenant": "acme", "locale": "en-US"}},
    {"id": "acme-refund-de", "metadata": {"tenant": "acme", "locale": "de-DE"}},
    {"id": "acme-warranty-de", "metadata": {"tenant": "acme", "locale": "de-DE"}},
    {"id": "globex-refund-en", "metadata": {"tenant": "globex", "locale": "en-US"}},
    {"id": "globex-shipping-fr", "metadata": {"tenant": "globex", "locale": "fr-FR"}},
    {"id": "globex-warranty-en", "metadata": {"tenant": "globex", "locale": "en-US"}},
)
GOLDEN = (
    {"query": "How do I get a refund?", "gold": ["acme-refund-en", "acme-refund-de"]},
    # Globex's English warranty would survive the filter, but Acme's callers may not see it.
    {"query": "How long is the warranty?", "gold": ["acme-warranty-de", "globex-warranty-en"]},
    {"query": "Where is my parcel?", "gold": ["globex-shipping-fr"]},
    {"query": "Can I send it back?", "gold": ["globex-refund-en"]},
)
ENGLISH_ONLY = Eq(field="locale", value="en-US")


def asked(number: int, tenant: str, relevance: Predicate = ENGLISH_ONLY) -> RagTrace:
    return RagTrace(
        id=f"q{number}:a",
        trace_id=f"q{number}",
        start_time_ns=0,
        query=str(GOLDEN[number - 1]["query"]),
        retrievals=(
            Retrieval(
                span_id="s",
                filter=AppliedFilter(entitlement=Eq(field="tenant", value=tenant), relevance=relevance),
            ),
        ),
    )


QUERIES = (asked(1, "acme"), asked(2, "acme"), asked(3, "globex"), asked(4, "globex"))


@pytest.fixture
def check(tmp_path: Path) -> FilterExclusionCheck:
    for name, rows in (("catalogue", DOCUMENTS), ("golden", GOLDEN)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return FilterExclusionCheck(
        JsonlCatalogue.read(tmp_path / "catalogue.jsonl"), JsonlGoldenSet.read(tmp_path / "golden.jsonl")
    )


def rate(findings: list[Finding]) -> float:
    judged = [f for f in findings if f.outcome is Outcome.SCORED and f.value is not None]
    return hajek_rate([f.value for f in judged if f.value is not None], [f.weight for f in judged]).value


def test_two_of_four_queries_are_falsely_excluded(check: FilterExclusionCheck) -> None:
    findings = check.check(QUERIES)
    assert [f.value for f in findings] == [0.0, 1.0, 1.0, 0.0]
    assert rate(findings) == 0.5
    assert [f.evidence["blamed"] for f in findings] == [[], ["locale = en-US"], ["locale = en-US"], []]
    assert [f.evidence["partial"] for f in findings] == [0.5, 1.0, 1.0, 0.0]


def test_the_unauthorised_gold_document_never_counts(check: FilterExclusionCheck) -> None:
    finding = check.check(QUERIES)[1]
    assert finding.evidence["gold"] == ["acme-warranty-de"]


def test_the_right_filter_excludes_nobody(check: FilterExclusionCheck) -> None:
    everything = In(field="locale", values=("en-US", "de-DE", "fr-FR"))
    findings = check.check([asked(n, t, everything) for n, t in ((1, "acme"), (2, "acme"), (3, "globex"))])
    assert rate(findings) == 0.0


def test_gold_rebuilt_after_filtering_would_hide_all_of_it(check: FilterExclusionCheck) -> None:
    """The mistake that this metric exists for: gold that is recomputed on what survived reads 100 % success."""
    survivors = {str(row["id"]) for row in DOCUMENTS if evaluate(ENGLISH_ONLY, row["metadata"])}
    rebuilt = [survivors.intersection(row["gold"]) for row in GOLDEN]
    judged = [gold for gold in rebuilt if gold]  # what was filtered away leaves the denominator, unseen
    assert sum(bool(gold & survivors) for gold in judged) / len(judged) == 1.0
    assert rate(check.check(QUERIES)) == 0.5


def test_no_eligible_query_is_no_evidence(check: FilterExclusionCheck) -> None:
    findings = check.check([asked(3, "acme"), asked(4, "acme")])
    assert [(f.outcome, f.reason) for f in findings] == [(Outcome.NOT_APPLICABLE, "no_eligible_gold")] * 2
    with pytest.raises(NoEvidence):
        rate(findings)
