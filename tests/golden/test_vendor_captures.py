"""Real captures of LangSmith, MLflow (both modes) and Haystack's own tracing against what their scenarios truly were.

LangSmith and MLflow recorded each scenario twice: through LangChain, and through functions of the application's own
("manual"), whose arguments hold the filters. `vendor_captures.json` pins the rest; see `captures`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import SCENARIOS, Held, Traces, check_golden, held, scenarios_of, told, traces

from collectors.trace import Completeness, Flag, RagTrace

pytestmark = pytest.mark.part("shared")

GOLDEN = Path(__file__).with_name("vendor_captures.json")
CAPTURES = (
    "haystack-native-nocontent",
    "langsmith-otel",
    "mlflow-otlp",
    "mlflow-otlp-genai",
    "trap-missing-root-mlflow-tags",
)
SCOPES = ("langsmith", "mlflow.tracing.provider", "app")
"""`app` made the HTTP spans around Haystack's own: other Haystack spans stand beside OpenLLMetry's."""

NO_FILTER = {"filters": (None, "LangChain's callbacks tell no filter")}
NO_SESSION = {"session": (None, "MLflow keeps the session of a trace to itself")}
NO_INPUTS = {"filters": (None, "MLflow's GenAI mode drops the inputs of retrievers")}
NO_CONTENT = {"answer": (None, "content tracing was off; the flag says so")}

LACKS: dict[str, tuple[Held, Held]] = {
    "haystack-native-nocontent": (NO_CONTENT, {}),
    "langsmith-otel": (NO_FILTER, {}),
    "mlflow-otlp": (NO_FILTER, NO_SESSION),
    "mlflow-otlp-genai": (NO_INPUTS, NO_INPUTS | NO_SESSION),
    "trap-missing-root-mlflow-tags": (NO_FILTER, NO_SESSION),
}
"""What the framework's traces do not hold, and what those of the application's own functions do not."""


def requests(found: Traces) -> list[RagTrace]:
    assert None not in found.values(), "each trace of these captures is a request"
    return [one for one in found.values() if one is not None]


@pytest.mark.parametrize("capture", CAPTURES)
def test_gives_the_truth_wherever_the_capture_holds_it(
    capture: str, directory: Path, manifest: dict[str, Any]
) -> None:
    seen = traces(directory, capture)
    rows = scenarios_of(capture, manifest)
    assert seen.keys() == {trace_id for trace_id, _ in rows}
    told_before: set[str] = set()
    for trace_id, scenario in rows:
        trace = seen[trace_id]
        assert trace is not None
        assert scenario is not None
        lacks = LACKS[capture][scenario in told_before]
        told_before.add(scenario)
        assert told(trace) == held(scenario, manifest["scenario_truth"], lacks), (scenario, trace_id)


def test_every_scenario_is_in_every_capture(manifest: dict[str, Any]) -> None:
    for capture in CAPTURES:
        assert set(SCENARIOS) <= {scenario for _, scenario in scenarios_of(capture, manifest)}, capture


def test_captures_of_these_instrumentations_are_all_here(manifest: dict[str, Any]) -> None:
    speaking = {
        name
        for name, one in manifest["fixtures"].items()
        if any(scope.partition("@")[0] in SCOPES for scope in one["scopes"])
    }
    assert speaking == set(CAPTURES)


def test_every_trace_names_its_instrumentation(directory: Path) -> None:
    """With its version where the spans tell it: MLflow's is its SDK's; LangSmith and Haystack tell none."""
    named = {
        capture: {one.instrumentation for one in requests(traces(directory, capture))} for capture in CAPTURES
    }
    mlflow = {("mlflow.tracing.provider@3.17.2",)}
    assert named == {
        "haystack-native-nocontent": {("app", "haystack")},
        "langsmith-otel": {("langsmith",)},
        "mlflow-otlp": mlflow,
        "mlflow-otlp-genai": mlflow,
        "trap-missing-root-mlflow-tags": mlflow,
    }


def test_a_lost_root_is_flagged_and_the_request_is_read_from_what_is_left(directory: Path) -> None:
    found = requests(traces(directory, "trap-missing-root-mlflow-tags"))
    lost = [one for one in found if Flag.NO_ROOT in one.flags]
    assert len(lost) == 8
    for trace in lost:
        assert Flag.ORPHAN_PARENT in trace.flags
        assert trace.completeness is Completeness.COMPLETE, "a chain stands for the request all the same"


def test_what_genai_mode_drops_is_unknown_and_not_empty(directory: Path) -> None:
    for trace in requests(traces(directory, "mlflow-otlp-genai")):
        assert Flag.DOCS_UNKNOWN in trace.flags
        assert all(one.documents is None for one in trace.retrievals)
        if trace.session != "sess-7":
            assert Flag.QUERY_FROM_LEAF in trace.flags, "the agent alone has the question on its root"


def test_content_that_was_not_traced_is_flagged(directory: Path) -> None:
    for trace in requests(traces(directory, "haystack-native-nocontent")):
        assert Flag.DOCS_UNKNOWN in trace.flags
        assert (Flag.CONTENT_NOT_CAPTURED in trace.flags) is (trace.error is None)


def test_an_empty_retrieval_is_known_to_be_empty(directory: Path, manifest: dict[str, Any]) -> None:
    for capture in ("langsmith-otel", "mlflow-otlp", "trap-missing-root-mlflow-tags"):
        seen = traces(directory, capture)
        empty = [
            seen[trace_id] for trace_id, scenario in scenarios_of(capture, manifest) if scenario == "empty"
        ]
        for trace in empty:
            assert trace is not None
            assert [one.documents for one in trace.retrievals] == [()]
            assert Flag.DOCS_UNKNOWN not in trace.flags


def test_the_rest_stands_as_it_was_last_read_by_a_person(directory: Path) -> None:
    check_golden(GOLDEN, {capture: traces(directory, capture) for capture in CAPTURES})
