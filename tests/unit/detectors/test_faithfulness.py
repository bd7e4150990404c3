"""The faithfulness check: what is judged, what is not and why, and what a broken scorer does to its neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from collectors.trace import Document, Flag, RagTrace, Reranking, Retrieval, TraceError
from detectors.faithfulness import FaithfulnessCheck, NotScorableError, context_of
from detectors.finding import Outcome
from detectors.lexical import LexicalScorer

PASSAGE = "Refunds are paid within five business days after the return was received at our warehouse."
INVENTED = "Gold members in Zurich also receive 75 francs and a 40 percent voucher from our partner bank."


def trace(**fields: Any) -> RagTrace:
    return RagTrace(**({"id": "t:a", "trace_id": "t", "start_time_ns": 0, "context": (PASSAGE,)} | fields))


class ByHypothesis:
    """A scorer whose answer is a function of the hypothesis; records what it was asked."""

    name = "by-hypothesis"
    threshold = 0.5

    def __init__(self, function: Callable[[str], float]) -> None:
        self._function = function
        self.asked: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.asked += pairs
        return [self._function(hypothesis) for _, hypothesis in pairs]


def judged(one: RagTrace) -> Any:
    (finding,) = FaithfulnessCheck(LexicalScorer()).check([one])
    return finding


def test_a_quoting_answer_with_a_citation_is_faithful() -> None:
    finding = judged(trace(answer=f"{PASSAGE[:-1]} [kb-101]."))
    assert (finding.outcome, finding.value) == (Outcome.SCORED, 0.0)
    assert finding.evidence["scorer"] == "lexical-1"
    assert finding.evidence["score"] >= finding.evidence["threshold"] == 0.5
    assert finding.evidence["unsupported_numbers"] == [], "the citation is not part of the claim"


def test_an_inventing_answer_is_not_and_its_weakest_sentence_is_shown() -> None:
    finding = judged(trace(answer=f"{PASSAGE} {INVENTED} [kb-101]", slices={"tenant": "acme"}))
    assert (finding.outcome, finding.value) == (Outcome.SCORED, 1.0)
    assert finding.evidence["weakest_sentence"].startswith("Gold members")
    assert finding.slices == {"tenant": "acme"}


@pytest.mark.parametrize(
    ("fields", "outcome", "reason"),
    [
        ({"answer": PASSAGE, "error": TraceError(type="Timeout")}, Outcome.NOT_APPLICABLE, "request_failed"),
        ({"answer": "I'm sorry, but I don't know."}, Outcome.NOT_APPLICABLE, "refusal"),
        (
            {"answer": "Ei tietoa tästä asiasta valitettavasti.", "refused": True},
            Outcome.NOT_APPLICABLE,
            "refusal",
        ),
        ({"answer": "Which plan are you asking about?"}, Outcome.NOT_APPLICABLE, "no_claim"),
        ({"answer": "Yes."}, Outcome.NOT_APPLICABLE, "no_claim"),
        ({"answer": "[kb-101]"}, Outcome.NOT_APPLICABLE, "no_claim"),
        ({}, Outcome.NOT_SCORABLE, "no_answer"),
        ({"answer": "  "}, Outcome.NOT_SCORABLE, "no_answer"),
        ({"flags": frozenset({Flag.CONTENT_NOT_CAPTURED})}, Outcome.NOT_SCORABLE, "content_not_captured"),
        ({"flags": frozenset({Flag.REDACTED})}, Outcome.NOT_SCORABLE, "redacted"),
        ({"answer": PASSAGE, "context": None}, Outcome.NOT_SCORABLE, "no_context"),
        ({"answer": PASSAGE, "context": ()}, Outcome.NOT_SCORABLE, "no_context"),
        ({"answer": PASSAGE, "context": (" ",)}, Outcome.NOT_SCORABLE, "no_context"),
        (
            {"answer": PASSAGE, "flags": frozenset({Flag.ATTRS_DROPPED})},
            Outcome.NOT_SCORABLE,
            "context_incomplete",
        ),
        (
            {"answer": PASSAGE, "flags": frozenset({Flag.TRUNCATED_JSON})},
            Outcome.NOT_SCORABLE,
            "context_incomplete",
        ),
    ],
)
def test_what_is_not_judged_says_why(fields: Mapping[str, Any], outcome: Outcome, reason: str) -> None:
    finding = judged(trace(**fields))
    assert (finding.outcome, finding.reason, finding.value) == (outcome, reason, None)


@pytest.mark.parametrize("refused", [None, True])
def test_a_refusal_phrase_with_a_claim_behind_it_is_judged(refused: bool | None) -> None:
    finding = judged(trace(answer=f"I don't know exactly. {INVENTED}", refused=refused))
    assert (finding.outcome, finding.value) == (Outcome.SCORED, 1.0)


def documents(*texts: str | None) -> tuple[Document, ...]:
    return tuple(Document(id=f"d{i}", text=text) for i, text in enumerate(texts))


def retrieval(*texts: str | None, known: bool = True) -> Retrieval:
    return Retrieval(span_id="s", documents=documents(*texts) if known else None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"context": ("a",), "retrievals": (retrieval("b"),)}, ("a",)),
        ({"context": (), "retrievals": (retrieval("b"),)}, ()),
        (
            {"reranked": Reranking(span_id="r", documents=documents("c")), "retrievals": (retrieval("b"),)},
            ("c",),
        ),
        (
            {"reranked": Reranking(span_id="r", documents=documents(None)), "retrievals": (retrieval("b"),)},
            ("b",),
        ),
        ({"reranked": Reranking(span_id="r"), "retrievals": (retrieval("b"),)}, ("b",)),
        ({"retrievals": (retrieval("b", "c"), retrieval("c", "d"))}, ("b", "c", "d")),
        ({"retrievals": (retrieval("b"), retrieval("c", None))}, None),
        ({"retrievals": (retrieval("b"), retrieval(known=False))}, None),
        ({"retrievals": (retrieval(),)}, ()),
        ({}, None),
    ],
)
def test_the_context_is_the_closest_to_what_was_sent(
    fields: Mapping[str, Any], expected: tuple[str, ...] | None
) -> None:
    assert context_of(trace(**{"context": None, **fields})) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -0.001, 1.001])
def test_a_score_out_of_range_is_invalid_and_alone(bad: float) -> None:
    scorer = ByHypothesis(lambda h: bad if "bad" in h else 0.9)
    traces = [
        trace(answer="A good enough answer."),
        trace(answer="A bad answer here."),
        trace(answer="Another good one."),
    ]
    findings = FaithfulnessCheck(scorer).check(traces)
    assert [f.outcome for f in findings] == [Outcome.SCORED, Outcome.INVALID, Outcome.SCORED]
    assert findings[1].reason == "score_out_of_range"


@pytest.mark.parametrize("edge", [0.0, 1.0, 0.5])
def test_the_edges_of_the_range_are_valid_and_the_threshold_itself_is_faithful(edge: float) -> None:
    (finding,) = FaithfulnessCheck(ByHypothesis(lambda h: edge)).check([trace(answer="One claim is here.")])
    assert finding.value == float(edge < 0.5)


def _explode(hypothesis: str) -> float:
    if "explode" in hypothesis:
        raise RuntimeError("out of memory")
    if "endless" in hypothesis:
        raise NotScorableError("too_long", "9000 tokens")
    return 0.9


def test_a_scorer_that_raises_harms_only_what_it_raised_for() -> None:
    answers = (
        "This is fine really.",
        "This will explode now.",
        "An endless answer follows.",
        "This is fine too.",
    )
    findings = FaithfulnessCheck(ByHypothesis(_explode)).check([trace(answer=a) for a in answers])
    assert [f.outcome for f in findings] == [
        Outcome.SCORED,
        Outcome.ERROR,
        Outcome.NOT_SCORABLE,
        Outcome.SCORED,
    ]
    assert [f.reason for f in findings] == ["", "scorer_failed", "too_long", ""]
    assert "out of memory" in str(findings[1].evidence["detail"])


class LosesOne(ByHypothesis):
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return super().score(pairs)[: 1 if len(pairs) > 1 else None]


class Silent(ByHypothesis):
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return []


def test_a_scorer_that_loses_scores_is_asked_one_by_one() -> None:
    traces = [trace(answer="This is fine really."), trace(answer="This is also fine.")]
    assert [f.value for f in FaithfulnessCheck(LosesOne(lambda h: 0.9)).check(traces)] == [0.0, 0.0]
    silent = FaithfulnessCheck(Silent(lambda h: 0.9)).check(traces)
    assert [(f.outcome, f.reason) for f in silent] == [(Outcome.INVALID, "score_count")] * 2


def test_whole_contexts_are_scored_by_whole_answers_and_a_cheap_ranker_finds_the_sentence() -> None:
    scorer = ByHypothesis(lambda h: 0.1)
    check = FaithfulnessCheck(scorer, ranker=LexicalScorer())
    (finding,) = check.check([trace(context=("One.", PASSAGE), answer=f"{PASSAGE} {INVENTED} [1]")])
    assert scorer.asked == [(f"One.\n\n{PASSAGE}", f"{PASSAGE} {INVENTED}")]
    assert finding.evidence["weakest_sentence"] == INVENTED
    assert check.scorer == "by-hypothesis"


class BadExplainer(ByHypothesis):
    def explain(self, premise: str, hypothesis: str) -> Mapping[str, object]:
        raise KeyError("tokens")


def test_a_judgement_stands_without_its_explanation() -> None:
    (finding,) = FaithfulnessCheck(BadExplainer(lambda h: 0.9)).check([trace(answer="This is fine really.")])
    assert finding.value == 0.0
    assert "KeyError" in str(finding.evidence["explanation_failed"])
