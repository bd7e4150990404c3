"""Thumbs down, refusal, empty retrieval: what counts, what does not, and why."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.trace import Document, Feedback, Flag, RagTrace, Retrieval, TraceError
from detectors.finding import Finding, Outcome
from detectors.rate_checks import EmptyRetrievalCheck, RefusalCheck, ThumbsDownCheck

FOUND = Retrieval(span_id="1", documents=(Document(id="d"),))
EMPTY = Retrieval(span_id="2", documents=())
UNKNOWN = Retrieval(span_id="3", documents=None)
FAILED = TraceError(type="Timeout")


def trace(**fields: Any) -> RagTrace:
    return RagTrace(id="t:1", trace_id="t", start_time_ns=0, **fields)


def said(finding: Finding) -> tuple[Outcome, float | None, str]:
    return finding.outcome, finding.value, finding.reason


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"answer": "Yes."}, (Outcome.SCORED, 0.0, "")),
        ({"answer": "Yes.", "feedback": (Feedback(label="Thumbs_Down"),)}, (Outcome.SCORED, 1.0, "")),
        ({"answer": "Yes.", "feedback": (Feedback(label="thumbs_up"),)}, (Outcome.SCORED, 0.0, "")),
        ({"flags": frozenset({Flag.REDACTED})}, (Outcome.SCORED, 0.0, "")),
        ({}, (Outcome.NOT_SCORABLE, None, "no_answer")),
        ({"error": FAILED}, (Outcome.NOT_APPLICABLE, None, "request_failed")),
    ],
)
def test_thumbs_down(fields: dict[str, Any], expected: tuple[Outcome, float | None, str]) -> None:
    assert said(ThumbsDownCheck().check([trace(**fields)])[0]) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"answer": "I don't know."}, (Outcome.SCORED, 1.0, "")),
        ({"answer": "It costs 40 euros."}, (Outcome.SCORED, 0.0, "")),
        ({"answer": "I don't know.", "refused": False}, (Outcome.SCORED, 0.0, "")),
        ({"refused": True}, (Outcome.SCORED, 1.0, "")),
        ({}, (Outcome.NOT_SCORABLE, None, "no_answer")),
        ({"error": FAILED, "refused": True}, (Outcome.NOT_APPLICABLE, None, "request_failed")),
    ],
)
def test_refusal(fields: dict[str, Any], expected: tuple[Outcome, float | None, str]) -> None:
    assert said(RefusalCheck().check([trace(**fields)])[0]) == expected


@pytest.mark.parametrize(
    ("retrievals", "expected"),
    [
        ((), (Outcome.NOT_APPLICABLE, None, "no_retrieval")),
        ((EMPTY,), (Outcome.SCORED, 1.0, "")),
        ((EMPTY, FOUND, UNKNOWN), (Outcome.SCORED, 0.0, "")),
        ((EMPTY, UNKNOWN), (Outcome.NOT_SCORABLE, None, "documents_unknown")),
    ],
)
def test_empty_retrieval(
    retrievals: tuple[Retrieval, ...], expected: tuple[Outcome, float | None, str]
) -> None:
    assert said(EmptyRetrievalCheck().check([trace(retrievals=retrievals)])[0]) == expected
