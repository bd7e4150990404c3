"""Faithfulness: does the context that was sent to the model hold what the answer claims?

The unit is the answer, never the claim. The scorer is chosen by name; every finding's metric carries that
name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from collectors.trace import Document, Flag, RagTrace
from detectors.finding import Finding, Outcome, scored, unscored
from detectors.text import claims, is_refusal_only, sentences, without_citations

CHUNK_BORDER = "\n\n"
"""What stands between the passages of a premise: a scorer that must shorten it may cut only here."""


class FaithfulnessScorer(Protocol):
    """Scores whether a premise (the whole context) holds a hypothesis (the whole answer).

    Scores below `threshold` mean unfaithful. May raise `NotScorableError` for a pair that it cannot judge.
    """

    @property
    def name(self) -> str: ...

    @property
    def threshold(self) -> float: ...

    def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """One number in [0, 1] a pair of premise and hypothesis, in order; higher is more consistent."""
        ...


@runtime_checkable
class ExplainingScorer(Protocol):
    """A scorer that can also say, cheaply, what it saw in a pair: token counts, words without support."""

    def explain(self, premise: str, hypothesis: str) -> Mapping[str, object]: ...


class NotScorableError(ValueError):
    """A scorer cannot judge this pair; `reason` is safe as a metric label."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(slots=True, frozen=True)
class _Failure:
    outcome: Outcome
    reason: str
    detail: str


class FaithfulnessCheck:
    """Value 1.0: the answer makes a claim that its context does not hold; 0.0: it makes none.

    `not_applicable`: `request_failed`, `refusal` (and nothing else), `no_claim`. `not_scorable`:
    `no_answer`, `content_not_captured`, `redacted`, `no_context`, `context_incomplete` (attributes were
    dropped or cut, and a missing passage would look like an invented fact), or the scorer's own reason.
    `invalid`: `score_out_of_range`, `score_count`. `error`: `scorer_failed`.

    `ranker` finds the weakest sentence of an unfaithful answer for its evidence: the scorer itself unless a
    cheaper one is given.
    """

    name = "faithfulness"

    def __init__(self, scorer: FaithfulnessScorer, ranker: FaithfulnessScorer | None = None) -> None:
        self._scorer = scorer
        self._ranker = ranker or scorer

    @property
    def scorer(self) -> str:
        return self._scorer.name

    def check(self, traces: Sequence[RagTrace]) -> list[Finding]:
        prepared = [self._prepare(trace) for trace in traces]
        pairs = [pair for pair in prepared if not isinstance(pair, Finding)]
        scores = iter(self._scores(pairs))
        return [
            item if isinstance(item, Finding) else self._judge(trace, item, next(scores))
            for trace, item in zip(traces, prepared, strict=True)
        ]

    def _prepare(self, trace: RagTrace) -> Finding | tuple[str, str]:
        if trace.error is not None:
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "request_failed")
        if trace.answer is None or not trace.answer.strip():
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, _why_absent(trace))
        answer = without_citations(trace.answer)
        if is_refusal_only(answer) or (trace.refused and len(sentences(answer)) == 1):
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "refusal")
        if not claims(answer):
            return unscored(self.name, trace, Outcome.NOT_APPLICABLE, "no_claim")
        context = context_of(trace)
        if not context:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "no_context")
        if trace.flags & {Flag.ATTRS_DROPPED, Flag.TRUNCATED_JSON}:
            return unscored(self.name, trace, Outcome.NOT_SCORABLE, "context_incomplete")
        return CHUNK_BORDER.join(context), answer

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float | _Failure]:
        """A score or a failure a pair; when a batch fails, its pairs are tried alone so that one cannot
        harm others."""
        if not pairs:
            return []
        try:
            values = [float(value) for value in self._scorer.score(pairs)]
        except Exception as error:  # whatever a model raises is an outcome here, not the end of the pipeline
            if len(pairs) == 1:
                return [_failure(error)]
            return [result for pair in pairs for result in self._scores([pair])]
        if len(values) != len(pairs):
            if len(pairs) == 1:
                return [_Failure(Outcome.INVALID, "score_count", f"{len(values)} scores for one pair")]
            return [result for pair in pairs for result in self._scores([pair])]
        return [
            value if 0.0 <= value <= 1.0 else _Failure(Outcome.INVALID, "score_out_of_range", repr(value))
            for value in values
        ]

    def _judge(self, trace: RagTrace, pair: tuple[str, str], score: float | _Failure) -> Finding:
        if isinstance(score, _Failure):
            return unscored(
                self.name, trace, score.outcome, score.reason, detail=score.detail, scorer=self.scorer
            )
        unfaithful = score < self._scorer.threshold
        evidence: dict[str, object] = {
            "score": score,
            "threshold": self._scorer.threshold,
            "scorer": self.scorer,
        }
        try:
            if unfaithful:
                evidence["weakest_sentence"] = self._weakest(pair)
            if isinstance(self._scorer, ExplainingScorer):
                evidence |= self._scorer.explain(*pair)
        except Exception as error:  # a judgement stands without its explanation
            evidence["explanation_failed"] = f"{type(error).__name__}: {error}"
        return scored(self.name, trace, float(unfaithful), **evidence)

    def _weakest(self, pair: tuple[str, str]) -> str:
        premise, hypothesis = pair
        candidates = claims(hypothesis)
        if len(candidates) == 1:
            return candidates[0]
        scores = self._ranker.score([(premise, sentence) for sentence in candidates])
        return min(
            zip(candidates, scores, strict=True), key=lambda c: c[1] if math.isfinite(c[1]) else math.inf
        )[0]


def context_of(trace: RagTrace) -> tuple[str, ...] | None:
    """The passages that the answer rests on, in order: the context as sent, else the reranked documents,
    else the retrieved ones, each only if all their texts are known. None where the trace does not tell."""
    if trace.context is not None:
        return tuple(passage for passage in trace.context if passage.strip())
    if trace.reranked is not None and (texts := _texts(trace.reranked.documents)) is not None:
        return texts
    found: list[str] = []
    for retrieval in trace.retrievals:
        texts = _texts(retrieval.documents)
        if texts is None:
            return None
        found += texts
    return tuple(dict.fromkeys(found)) if trace.retrievals else None


def _texts(documents: tuple[Document, ...] | None) -> tuple[str, ...] | None:
    if documents is None or any(document.text is None for document in documents):
        return None
    return tuple(document.text for document in documents if document.text and document.text.strip())


def _why_absent(trace: RagTrace) -> str:
    for flag in (Flag.REDACTED, Flag.CONTENT_NOT_CAPTURED):
        if flag in trace.flags:
            return flag.value
    return "no_answer"


def _failure(error: Exception) -> _Failure:
    if isinstance(error, NotScorableError):
        return _Failure(Outcome.NOT_SCORABLE, error.reason, str(error))
    return _Failure(Outcome.ERROR, "scorer_failed", f"{type(error).__name__}: {error}")
