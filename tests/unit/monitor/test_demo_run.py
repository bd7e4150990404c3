"""The demo's ends, with the real service process and a sidecar that receives everything and notices nothing."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.events import NullEvents
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from collectors.span import SpanBatch
from monitor.demo import run
from monitor.demo.run import FAILED, INTERRUPTED, run_demo
from monitor.demo.scenario import DemoSettings
from monitor.status import Status


class DeafSidecar:
    """Receives for real; `on_look` may do something at each look, given how many there were."""

    def __init__(self, on_look: Callable[[int], None] = lambda _: None, problem: str = "") -> None:
        self._receiver = OtlpGrpcReceiver(OtlpGrpcSettings(port=0), self, NullEvents())
        self._on_look = on_look
        self._problem = problem
        self._looks = 0
        self.spans = 0
        self.stops = 0
        self.files: tuple[Path, Path] | None = None

    @property
    def grpc_port(self) -> int:
        return self._receiver.port

    def make(self, settings: DemoSettings, catalogue: Path, golden: Path) -> DeafSidecar:
        assert settings["rate_window_s"] > 0
        assert catalogue.stat().st_size > 0
        assert golden.stat().st_size > 0
        self.files = (catalogue, golden)
        return self

    def offer(self, batch: SpanBatch) -> bool:
        self.spans += len(batch.spans)
        return True

    def start(self) -> None:
        self._receiver.start()

    def stop(self, deadline_s: float = 10.0) -> None:
        self.stops += 1
        self._receiver.stop(deadline_s)

    def status(self) -> Status:
        self._looks += 1
        self._on_look(self._looks)
        return Status(
            version="0.1.0", started_at=0.0, now=1.0, healthy=not self._problem, problem=self._problem,
            guardrails=(), drift=(), alerts=(), markers=(), counts={"spans_received": self.spans},
        )  # fmt: skip


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MINIMUM_DURATION_S", 1.0)


@pytest.mark.usefixtures("short")
def test_a_sidecar_that_notices_nothing_fails_and_the_report_says_why(tmp_path: Path) -> None:
    sidecar, stream, path = DeafSidecar(), io.StringIO(), tmp_path / "out.json"
    assert run_demo(4.0, path, sidecar.make, stream=stream) == FAILED
    report = json.loads(path.read_text("utf-8"))
    assert report["passed"] is False
    assert {e["guardrail"]: e["verdict"] for e in report["expectations"]} == {
        "filter_exclusion": "not_fired",
        "faithfulness": "not_fired",
        "query_drift": "not_fired",
    }
    assert report["acts"][0]["name"] == "healthy"
    assert report["counts"]["service"]["requests"] > 20
    assert 4 * report["counts"]["service"]["requests"] <= report["counts"]["sidecar"]["spans_received"]
    assert stream.getvalue().rstrip().endswith("FAILED")
    assert sidecar.stops == 1
    assert sidecar.files is not None
    assert not any(file.exists() for file in sidecar.files)


def test_ctrl_c_ends_everything_with_130() -> None:
    def press(looks: int) -> None:
        if looks == 6:
            signal.raise_signal(signal.SIGINT)

    sidecar, stream = DeafSidecar(press), io.StringIO()
    assert run_demo(300.0, None, sidecar.make, stream=stream) == INTERRUPTED
    assert "interrupted" in stream.getvalue()
    assert sidecar.stops == 1


def test_a_crash_of_the_service_is_told_with_its_last_words() -> None:
    no_number: Any = "seven"
    sidecar, stream = DeafSidecar(), io.StringIO()
    assert run_demo(300.0, None, sidecar.make, seed=no_number, stream=stream) == FAILED
    assert "ended early with status 2" in stream.getvalue()
    assert "invalid int value: 'seven'" in stream.getvalue()
    assert sidecar.stops == 1


def test_a_failed_sidecar_ends_the_demo_at_once(tmp_path: Path) -> None:
    sidecar, stream, path = DeafSidecar(problem="judging died"), io.StringIO(), tmp_path / "out.json"
    assert run_demo(300.0, path, sidecar.make, stream=stream) == FAILED
    assert "judging died" in json.loads(path.read_text("utf-8"))["problems"][0]


def test_a_demo_too_short_for_its_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 60 s"):
        run_demo(30.0, None, DeafSidecar().make)
