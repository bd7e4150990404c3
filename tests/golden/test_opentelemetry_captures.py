"""Real captures of OpenTelemetry GenAI and OpenLLMetry against what their scenarios truly were.

OpenLLMetry's LlamaIndex instrumentation joins the last six requests into one trace without a root, so requests here go
by their own ids. `opentelemetry_captures.json` pins the rest; see `captures`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from captures import AGENTIC, SCENARIOS, Held, check_golden, held, told

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import Eq, clauses
from collectors.replay import read_batches
from collectors.trace import Completeness, Flag, RagTrace

pytestmark = pytest.mark.part("shared")

GOLDEN = Path(__file__).with_name("opentelemetry_captures.json")

RETRIEVALS_ALONE: Held = {
    "filters": (None, "the instrumentation logs no filter"),
    "answer": (
        None,
        "of LlamaIndex, GenAI's instrumentation tells the retrievals alone, each in a trace of its own",
    ),
    "error": (False, "so nothing tells that the model failed"),
    "session": (None, "so nothing tells the session"),
}
NO_FILTER: Held = {"filters": (None, "LangChain's callbacks tell no filter, and Qdrant's spans none either")}
HIDDEN: Held = {"query": (None, "content was not captured"), "answer": (None, "content was not captured")}
NO_SESSION: Held = {"session": (None, "neither the workflow's spans nor the framework's tell the session")}
CAPTURES: dict[str, Held] = {
    "genai-langchain-no-content": {**NO_FILTER, **HIDDEN},
    "genai-langchain-span-only": NO_FILTER,
    "genai-llama_index-no-content": {**RETRIEVALS_ALONE, **HIDDEN},
    "genai-llama_index-span-and-event": RETRIEVALS_ALONE,
    "genai-llama_index-span-only": RETRIEVALS_ALONE,
    "openllmetry-haystack": NO_SESSION,
    "openllmetry-langchain": NO_FILTER,
    "openllmetry-langchain-private": {**NO_FILTER, **HIDDEN},
    "openllmetry-llamaindex": {**NO_SESSION, "filters": (None, "the instrumentation logs no filter")},
    "reference-multiservice": {},
    "trap-duplicate-spans": NO_FILTER,
}
"""What each capture's instrumentation does not hold."""

INSTEAD: dict[tuple[str, str], Held] = {
    ("openllmetry-llamaindex", "empty"): {
        "answer": ("Empty Response", "LlamaIndex answers so by itself, without asking the model"),
    },
    ("openllmetry-llamaindex", "streaming"): {
        "answer": (None, "spans of a stream end before it does: neither root nor model has an output"),
    },
    ("openllmetry-llamaindex", "error"): {
        "error": (False, "the spans that failed never came, and those that did tell of no error"),
    },
}
CHAT = ("How long do refunds take?", "And how do I request one?")
CHATTED = "Refunds take 5 business days [kb-101]."
"""The two questions to LlamaIndex's chat engine, after the seven to its query engine, and its answer to both."""


@cache
def requests(directory: Path, capture: str) -> dict[str, RagTrace | None]:
    """Every request of the capture by its id in order, logs beside spans where it has some."""
    assembler = Assembler(AssemblySettings())
    for batch in read_batches(sorted(directory.glob(f"{capture}.*"))):
        assert not batch.rejected
        assembler.add(batch, now=0.0)
    normaliser = Normaliser(NormaliseSettings())
    closed = sorted(assembler.flush(now=1.0), key=lambda one: one.spans[0].start_ns)
    return {f"{one.trace_id}:{one.anchor_span_id}": normaliser.normalise(one) for one in closed}


def told_of(directory: Path, capture: str) -> list[RagTrace]:
    return [one for one in requests(directory, capture).values() if one is not None]


def told_with_entitlement(trace: RagTrace) -> dict[str, Any]:
    """The whole filter, as the scenarios know it."""
    found = told(trace)
    for one in trace.retrievals:
        if one.filter is not None and one.filter.entitlement is not None:
            allowed = {eq.field: eq.value for eq in clauses(one.filter.entitlement) if isinstance(eq, Eq)}
            found["filters"] = allowed | (found["filters"] or {})
    return found


@pytest.mark.parametrize("capture", CAPTURES)
def test_gives_the_truth_wherever_the_capture_holds_it(
    capture: str, directory: Path, manifest: dict[str, Any]
) -> None:
    given = told_of(directory, capture)
    for scenario, trace in zip(SCENARIOS, given, strict=False):
        known = held(
            scenario, manifest["scenario_truth"], CAPTURES[capture], INSTEAD.get((capture, scenario))
        )
        assert told_with_entitlement(trace) == known, scenario
    assert len(given) >= len(SCENARIOS)
    rest = given[len(SCENARIOS) :]
    if "llama" in capture:
        assert len(rest) == 2, "the chat engine was asked twice"
    elif rest:
        known = held("agentic", {"agentic": AGENTIC}, CAPTURES[capture])
        assert [told(trace) for trace in rest] == [known]


def test_captures_of_these_instrumentations_are_all_here(manifest: dict[str, Any]) -> None:
    ours = ("opentelemetry.instrumentation.", "kb.instrumentation")
    speaking = {
        name for name, one in manifest["fixtures"].items() if any(s.startswith(ours) for s in one["scopes"])
    }
    assert speaking == set(CAPTURES)


def test_what_is_no_request_gives_none(directory: Path, manifest: dict[str, Any]) -> None:
    """Indexing, the making of an agent, and a tracer that failed to start."""
    nothing = {
        capture: sum(one is None for one in requests(directory, capture).values()) for capture in CAPTURES
    }
    assert {capture: count for capture, count in nothing.items() if count} == {
        "openllmetry-haystack": 2,
        "openllmetry-langchain": 2,
        "openllmetry-langchain-private": 2,
        "openllmetry-llamaindex": 1,
        "trap-duplicate-spans": 2,
    }


def test_six_requests_in_one_trace_without_a_root_are_told_apart(directory: Path) -> None:
    last = told_of(directory, "openllmetry-llamaindex")[3:]
    assert len({trace.trace_id for trace in last}) == 1
    assert tuple(trace.query for trace in last[-2:]) == CHAT
    assert {trace.answer for trace in last[-2:]} == {CHATTED}
    for trace in last:
        assert {Flag.MULTI_REQUEST_TRACE, Flag.NO_ROOT, Flag.ORPHAN_PARENT} <= trace.flags
        assert len(trace.retrievals) == 1, "no request has its neighbour's retrieval"
    streaming, _, _, failed, *_ = last
    assert Flag.CONTENT_NOT_CAPTURED in streaming.flags, "its model is there, what it said is not"
    assert streaming.stage_durations_s["llm"] == pytest.approx(0.139, abs=0.001)
    assert failed.completeness is Completeness.FRAGMENT
    assert "llm" not in failed.stage_durations_s


def test_content_that_was_not_captured_is_flagged_and_not_guessed(directory: Path) -> None:
    for capture in (
        "genai-langchain-no-content",
        "openllmetry-langchain-private",
        "genai-llama_index-no-content",
    ):
        for trace in told_of(directory, capture):
            assert {Flag.CONTENT_NOT_CAPTURED, Flag.DOCS_UNKNOWN} <= trace.flags, capture
            assert trace.query is None
            assert trace.answer is None
            assert all(one.documents is None for one in trace.retrievals)


def test_an_empty_retrieval_is_known_to_be_empty(directory: Path) -> None:
    for capture in CAPTURES:
        empty = told_of(directory, capture)[SCENARIOS.index("empty")]
        if empty.query is not None:
            assert [one.documents for one in empty.retrievals] == [()], capture
            assert Flag.DOCS_UNKNOWN not in empty.flags


def test_a_span_that_came_twice_counts_once(directory: Path) -> None:
    twice, once = (told_of(directory, name) for name in ("trap-duplicate-spans", "openllmetry-langchain"))
    for doubled, single in zip(twice, once, strict=True):
        assert Flag.DUPLICATE_SPANS in doubled.flags
        assert doubled.tokens == single.tokens
        assert len(doubled.retrievals) == len(single.retrievals)


def test_feedback_told_by_spans_and_by_logs_joins_its_request_once(directory: Path) -> None:
    found = {
        scenario: [one.label for one in trace.feedback]
        for scenario, trace in zip(SCENARIOS, told_of(directory, "reference-multiservice"), strict=True)
    }
    assert {scenario: labels for scenario, labels in found.items() if labels} == {
        "multi_turn_1": ["thumbs_up"],
        "multi_turn_2": ["copy"],
        "streaming": ["thumbs_down"],
        "empty": ["regenerate"],
    }


def test_the_rest_stands_as_it_was_last_read_by_a_person(directory: Path) -> None:
    check_golden(GOLDEN, {capture: requests(directory, capture) for capture in CAPTURES})
