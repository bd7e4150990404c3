"""The commands as a user types them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from collectors.trace import RagTrace

CAPTURES = "openinference-haystack", "openinference-langchain-memory", "openinference-llamaindex-simple"


def groundwatch(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "monitor.cli", *map(str, arguments)]
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(root)},
        timeout=60,
    )


def inspected(*paths: Path) -> list[RagTrace]:
    found = groundwatch("inspect", *paths)
    assert (found.returncode, found.stderr) == (0, "")
    return [RagTrace.model_validate_json(line) for line in found.stdout.splitlines()]


@pytest.mark.parametrize(
    "command", ["", "run", "check-config", "config-example", "config-schema", "demo", "inspect"]
)
def test_help_says_what_a_command_does(command: str) -> None:
    found = groundwatch(*command.split(), "--help")
    assert found.returncode == 0
    assert "usage: groundwatch" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("inspect nowhere.jsonl", "nowhere.jsonl"),
        ("replay nowhere.jsonl", "nowhere.jsonl"),
        ("run --config nowhere.yaml", "nowhere.yaml"),
        ("check-config nowhere.yaml", "nowhere.yaml"),
        ("demo --duration soon", "soon"),
        ("demo --duration 5s", "at least 60"),
        ("fly", "invalid choice"),
        ("run --drain inf", "no number of seconds"),
        ("run --drain -5", "no number of seconds"),
        ("demo --port 99999", "no port"),
        ("demo --report /nowhere/out.json", "cannot be written"),
        ("replay . --report /nowhere/out.json", "cannot be written"),
    ],
)
def test_a_mistake_is_one_message_on_stderr_and_status_2(arguments: str, says: str) -> None:
    found = groundwatch(*arguments.split())
    assert found.returncode == 2
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_check_config_names_the_path_in_the_file_and_the_nearest_key(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text("sampling:\n  rat: 0.5\nwatch:\n  tick_s: soon\n")
    found = groundwatch("check-config", path)
    assert found.returncode == 2
    assert "sampling.rat" in found.stderr
    assert "`rate`" in found.stderr
    assert "watch.tick_s" in found.stderr


NESTED = "a: " + "[" * 20_000
BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sampling: {checks: {faithfullness: 0.5}}", "there are cost, faithfulness"),
        ("rates: {slices: [tenat]}", "no trace has 'tenat'"),
        ("knowledge: {catalogue: nowhere.jsonl}", "knowledge.catalogue"),
        ("knowledge: {golden: GOLDEN}", "golden needs catalogue"),
        pytest.param(NESTED, "nested too deeply", id="nested"),
        pytest.param(BOMB, "holds more", id="alias bomb"),
    ],
)
def test_check_config_says_what_would_never_work(tmp_path: Path, text: str, says: str) -> None:
    path, golden = tmp_path / "g.yaml", tmp_path / "golden.jsonl"
    golden.write_text("")
    path.write_text(text.replace("GOLDEN", str(golden)))
    found = groundwatch("check-config", path)
    assert found.returncode == 2
    assert says in found.stderr
    assert "Traceback" not in found.stderr


def test_the_example_is_valid_by_the_printed_schema_and_by_the_command(tmp_path: Path) -> None:
    import yaml

    example = groundwatch("config-example").stdout
    schema = json.loads(groundwatch("config-schema").stdout)
    jsonschema.validate(yaml.safe_load(example), schema)
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert groundwatch("check-config", path).returncode == 0


@pytest.mark.part("shared")
def test_inspect_reads_all_forms_of_a_capture_alike(shared: Path, tmp_path: Path) -> None:
    capture = shared / "fixtures" / "otlp" / f"{CAPTURES[0]}.requests.jsonl"
    plain = inspected(capture)
    packed = tmp_path / "capture.jsonl.gz"
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    assert inspected(packed) == plain
    assert [trace.query for trace in plain][:2] == ["How long do refunds take?", "And how do I request one?"]
    assert all(trace.sources["query"] for trace in plain)


@pytest.mark.part("shared")
def test_inspect_takes_many_captures_in_any_order(shared: Path) -> None:
    paths = [shared / "fixtures" / "otlp" / f"{name}.requests.jsonl" for name in CAPTURES]
    assert inspected(*paths) == inspected(*reversed(paths))


def test_inspect_names_the_line_that_it_cannot_read_and_prints_the_rest(tmp_path: Path) -> None:
    span: dict[str, Any] = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "chat",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "openinference.span.kind", "value": {"stringValue": "CHAIN"}},
            {"key": "input.value", "value": {"stringValue": "why?"}},
            {"key": "output.value", "value": {"stringValue": "because"}},
        ],
    }
    request = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    path = tmp_path / "capture.jsonl"
    path.write_text(f"{request}\nnot json\n")
    found = groundwatch("inspect", path)
    assert found.returncode == 1
    assert "capture.jsonl line 2" in found.stderr
    [line] = found.stdout.splitlines()
    assert json.loads(line)["answer"] == "because"


def test_a_refused_span_is_named_by_file_and_line_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "capture.jsonl"
    path.write_text('{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00", "name": "x"}]}]}]}\n')
    inspected, replayed = groundwatch("inspect", path), groundwatch("replay", path)
    assert inspected.returncode == replayed.returncode == 1
    assert "capture.jsonl line 1: bad_trace_id" in inspected.stderr
    assert "0 spans, none of a RAG request" in inspected.stderr
    told = json.loads(replayed.stdout)
    assert "line 1: bad_trace_id" in told["problems"][0]
    assert told["counts"]["spans rejected"] == 1
    assert told["period"] == {"start": None, "end": None}


def test_an_array_that_holds_no_spans_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('[{"file": "x"}, {"y": 1}]')
    found = groundwatch("inspect", path)
    assert found.returncode == 1
    assert "list.json line 1: not_otlp" in found.stderr


@pytest.mark.part("shared")
def test_inspect_writes_the_same_bytes_every_time(shared: Path) -> None:
    capture = shared / "fixtures" / "otlp" / "openinference-langchain-memory-private.requests.jsonl"
    assert groundwatch("inspect", capture).stdout == groundwatch("inspect", capture).stdout


@pytest.mark.part("shared")
def test_replay_reports_every_rate_with_its_interval(shared: Path, tmp_path: Path) -> None:
    report = tmp_path / "out.json"
    captures = [shared / "fixtures" / "otlp" / f"{name}.requests.jsonl" for name in CAPTURES]
    config = tmp_path / "g.yaml"
    config.write_text("sampling: {rate: 1.0}\n")
    found = groundwatch("replay", *captures, "--config", config, "--report", report)
    assert (found.returncode, found.stdout) == (0, "")
    assert "replaying" in found.stderr
    told = json.loads(report.read_text())
    rates = {row["signal"]: row for row in told["rates"] if row["slice"] == "all"}
    assert told["counts"]["spans received"] > 100
    assert told["counts"]["requests judged"] == rates["slow_request_rate"]["evidence"]
    assert rates["slow_request_rate"]["lower"] <= 0 < rates["slow_request_rate"]["upper"] < 1
    unjudged = rates["filter_false_exclusion_rate"]
    assert (unjudged["estimate"], unjudged["evidence"]) == (None, 0)
