"""Rates that a service shows without a judge: thumbs down, refusals, retrievals that found nothing. Census checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectors.trace import Feedback, RagTrace
from detectors.finding import Finding, Outcome, scored, unscored
from detectors.operations import by_feedback
from detectors.text import is_refusal_only

DISLIKE_LABELS = frozenset({"thumbs_down", "thumbs-down", "thumbsdown", "dislike"})


class ThumbsDownCheck:
    """Value 1.0: the user disliked the answer; 0.0: answered, and they did not say so (yet).

    `not_applicable`: `request_failed`. `not_scorable`: `no_answer` (one that was merely not captured counts).
    """

    name = "thumbs_down"
    scorer = "feedback-1"

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        return by_feedback(self.name, trace, disliked(trace.feedback))


class RefusalCheck:
    """Value 1.0: the answer declines and says nothing else (as logged, else by its text); 0.0: it answers.

    `not_applicable`: `request_failed`. `not_scorable`: `no_answer`.
    """

    name = "refusal"
    scorer = "text-1"

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        if trace.error is not None:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "request_failed")
        if trace.refused is not None:
            return scored(self.name, trace, float(trace.refused))
        if trace.answer is None:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "no_answer")
        return scored(self.name, trace, float(is_refusal_only(trace.answer)))


class EmptyRetrievalCheck:
    """Value 1.0: every retrieval of the request came back empty; 0.0: one found something.

    `not_applicable`: `no_retrieval`. `not_scorable`: `documents_unknown` (one is not told and none found anything).
    """

    name = "empty_retrieval"
    scorer = "retrieval-1"

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        return [self._check(trace) for trace in traces]

    def _check(self, trace: RagTrace) -> Finding:
        if not trace.retrievals:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "no_retrieval")
        if any(retrieval.documents for retrieval in trace.retrievals):
            return scored(self.name, trace, 0.0)
        if any(retrieval.documents is None for retrieval in trace.retrievals):
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "documents_unknown")
        return scored(self.name, trace, 1.0)


def disliked(feedback: Iterable[Feedback]) -> bool:
    """Whether any of it is a thumbs down."""
    return any(one.label.strip().casefold() in DISLIKE_LABELS for one in feedback)
