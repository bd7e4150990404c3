"""Langfuse's SDK (5.0.4), LlamaIndex's own tracing (0.7.0) and Haystack's with content (3.4.1), as they really export.

The recordings hold a made-up library desk's questions, run through the real libraries with a simulated model.
`recorded_frameworks.json` pins what `TRUTH` does not say; see `captures`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import Traces, check_golden, told, traces

from collectors.trace import Completeness, Flag, RagTrace

DIRECTORY = Path(__file__).with_name("recordings")
GOLDEN = Path(__file__).with_name("recorded_frameworks.json")
RECORDINGS = ("haystack-native", "langfuse-sdk", "llamaindex-native")

TRUTH = {
    "s-1": ("How long may I keep a book?", {"branch": "north"}, ["lib-1", "lib-2"], "Four weeks [lib-1]."),
    "s-2": ("Was kostet ein Ausweis?", {"branch": "south", "lang": "de"}, ["lib-3"], "Nichts [lib-3]."),
    "s-3": ("How do I book a room?", {"branch": "north"}, ["lib.v2.4", "lib-1"], "At the desk [lib.v2.4]."),
    "s-4": ("How long may I keep a film?", {"branch": "north"}, ["lib-1", "lib-2"], "One week [lib-2]."),
    "s-5": ("Do you lend bicycles?", {"branch": "east"}, [], "I found nothing about that."),
    "s-6": ("When do you open?", {"branch": "north"}, ["lib-1"], None),
}
"""By session: the question, the filter, the documents, and the answer (the last one failed)."""
SPLINTERS = {"llamaindex-native": 1}
"""LlamaIndex's streaming call of the model is a trace of its own."""


def by_session(recording: str) -> dict[str, RagTrace]:
    found = [one for one in traces(DIRECTORY, recording).values() if one is not None]
    whole = {one.session or "": one for one in found if one.retrievals}
    assert len(found) - len(whole) == SPLINTERS.get(recording, 0)
    return whole


def instead(recording: str, session: str) -> dict[str, Any]:
    """What a recording holds in place of the truth."""
    if recording != "llamaindex-native":
        return {}
    answers = {"s-3": None, "s-5": "Empty Response"}
    return {"filters": None} | ({"answer": answers[session]} if session in answers else {})


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("session", TRUTH)
def test_gives_the_truth_wherever_the_recording_holds_it(recording: str, session: str) -> None:
    trace = by_session(recording)[session]
    query, filters, documents, answer = TRUTH[session]
    known = {
        "query": query,
        "filters": filters,
        "answer": answer,
        "error": session == "s-6",
        "session": session,
    }
    assert told(trace) == known | instead(recording, session)
    (retrieval,) = trace.retrievals
    assert retrieval.documents is not None
    assert [one.id for one in retrieval.documents] == documents
    assert trace.user_hash is not None


def test_what_langfuse_writes_as_json_once_more_is_read_as_what_it_is() -> None:
    for trace in by_session("langfuse-sdk").values():
        assert trace.versions.prompt == "desk@3"
        assert trace.versions.index == "2026-11-28", "from a tag that is a pair"
        assert trace.slices["intent"] == "loans"
        assert trace.instrumentation == ("langfuse-sdk@5.0.4",)


def test_a_stream_that_llamaindex_did_not_record_is_not_captured_and_not_guessed() -> None:
    found = traces(DIRECTORY, "llamaindex-native").values()
    streaming = [one for one in found if one is not None and one.session == "s-3"]
    assert len(streaming) == 2
    for trace in streaming:
        assert trace.answer is None
        assert Flag.CONTENT_NOT_CAPTURED in trace.flags
        assert trace.completeness is Completeness.PARTIAL


def test_llamaindexs_chat_engine_stands_for_its_request() -> None:
    trace = by_session("llamaindex-native")["s-7"]
    assert trace.completeness is Completeness.COMPLETE
    assert (trace.query, trace.answer) == ("And a book?", "Four weeks [lib-1].")


def test_what_was_sent_to_the_model_is_known() -> None:
    for recording in ("haystack-native", "llamaindex-native"):
        trace = by_session(recording)["s-4"]
        assert trace.reranked is not None
        assert trace.reranked.input_ids == ("lib-1", "lib-2")
        assert trace.context_document_ids == ("lib-2",)
        assert trace.context is not None
        assert "Films may be kept for one week." in trace.context[0]


def test_the_rest_stands_as_it_was_last_read_by_a_person() -> None:
    found: dict[str, Traces] = {one: traces(DIRECTORY, one) for one in RECORDINGS}
    check_golden(GOLDEN, found)
