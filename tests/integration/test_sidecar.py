"""The sidecar as a process: a real exporter in, a page out, nothing lost by SIGTERM, nothing forgotten by SIGKILL."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from receivers import Receiver, wait_for
from sidecars import Running, answer, running, tracing

from monitor.store import Store

SPANS_A_REQUEST = 3
FAST_GUARDRAIL = {
    "name": "faithfulness",
    "signal": "unfaithful_rate",
    "title": "Unfaithful answers",
    "objective": 0.1,
    "severity": "critical",
    "hold_s": 0,
    "clear_s": 0,
}


def test_spans_in_a_firing_guardrail_out(tmp_path: Path) -> None:
    with Receiver() as people:
        alerting = {"service": "kb", "webhooks": [{"url": people.url}]}
        rates = {"window_s": 6.0}
        with running(tmp_path, alerting=alerting, rates=rates, guardrails=[FAST_GUARDRAIL]) as sidecar:
            with tracing(sidecar.grpc) as provider:
                for number in range(40):
                    answer(provider, number, invented=number % 2 == 0)
            sidecar.wait_for("requests judged", 40)
            wait_for(lambda: bool(people.bodies), within_s=15)
            page = people.bodies[0]["alerts"][0]
            assert page["status"] == "firing"
            assert (
                page["labels"] | {"guardrail": "faithfulness", "service": "kb", "slice": "all"}
                == page["labels"]
            )
            assert "n = " in page["annotations"]["summary"]
            [row] = sidecar.status()["guardrails"]
            assert row["scorer"] == "lexical-1"
            assert row["lower"] < 0.5 < row["upper"]
            with tracing(sidecar.grpc) as provider:  # the window slides over good answers: repaired
                ends = time.monotonic() + 25
                number = 100
                while all(body["alerts"][0]["status"] == "firing" for body in people.bodies):
                    assert time.monotonic() < ends, sidecar.status()
                    answer(provider, number)
                    number += 1
                    time.sleep(0.05)
            assert sidecar.terminate() == 0


def test_the_metrics_are_what_the_guardrails_read(tmp_path: Path) -> None:
    with running(tmp_path) as sidecar:
        with tracing(sidecar.grpc) as provider:
            for number in range(5):
                answer(provider, number)
        sidecar.wait_for("requests judged", 5)
        wait_for(lambda: sidecar.status()["guardrails"][0]["evidence"] == 5, within_s=5)
        text = urllib.request.urlopen(f"http://127.0.0.1:{sidecar.web}/metrics").read().decode()
    line = 'groundwatch_signal_evidence{scorer="lexical-1",signal="unfaithful_rate",slice="all"} 5.0'
    assert line in text.splitlines()
    assert 'groundwatch_spans_received_total{source="otlp_grpc"} 15.0' in text.splitlines()


def test_sigterm_under_load_accounts_for_every_accepted_span(tmp_path: Path) -> None:
    with running(tmp_path) as sidecar:
        stop = threading.Event()

        def load() -> None:
            with tracing(sidecar.grpc) as provider:
                number = 0
                while not stop.is_set():
                    answer(provider, number)
                    number += 1
                    time.sleep(0.002)

        thread = threading.Thread(target=load)
        thread.start()
        sidecar.wait_for("spans received", 900)
        assert sidecar.terminate() == 0
        stop.set()
        thread.join(30)
        counts = last_counts(sidecar)
        assert counts["spans received"] >= 900
        assert counts.get("spans rejected", 0) == 0
        with Store.open(sidecar.store) as store:
            latency = sum(1 for _ in store.findings(since=0, check="latency"))
        judged = counts["requests judged"]
        assert latency == judged
        # A batch may end in the middle of a request; what it held of it was judged as far as it came.
        assert judged * SPANS_A_REQUEST >= counts["spans received"]
        assert (judged - 64) * SPANS_A_REQUEST <= counts["spans received"]


def test_a_drain_that_is_not_done_in_time_says_so(tmp_path: Path) -> None:
    slow = {"answered_wait_s": 600, "idle_wait_s": 600, "max_wait_s": 600}
    sidecar = Running(tmp_path, drain_s=0.3, assembly=slow)
    try:
        sidecar.start()
        with tracing(sidecar.grpc) as provider:
            for number in range(3000):
                answer(provider, number)
                if number % 500 == 499:
                    provider.force_flush()
        sidecar.wait_for("spans received", 9000)
        assert sidecar.terminate() == 1
    finally:
        sidecar.kill()
    assert "the deadline came first" in sidecar.log.read_text()


def test_a_second_owner_of_the_same_state_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as sidecar:
        config = tmp_path / "second.yaml"
        config.write_text(f"store: {{path: {sidecar.store}}}")
        command = [sys.executable, "-m", "monitor.cli", "run", "--config", str(config)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 2
    assert "another process owns this state" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_taken_port_is_one_clear_message(tmp_path: Path) -> None:
    with running(tmp_path) as sidecar:
        command = [
            sys.executable,
            "-m",
            "monitor.cli",
            "demo",
            "--duration",
            "60s",
            "--port",
            str(sidecar.web),
        ]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert str(sidecar.web) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_killed_sidecar_finds_its_findings_windows_and_alerts_again(tmp_path: Path) -> None:
    sidecar = Running(tmp_path, guardrails=[FAST_GUARDRAIL])
    try:
        sidecar.start()
        with tracing(sidecar.grpc) as provider:
            for number in range(30):
                answer(provider, number, invented=True)
        sidecar.wait_for("requests judged", 30)
        wait_for(lambda: sidecar.status()["guardrails"][0]["state"] == "firing", within_s=10)
        before = sidecar.status()
        sidecar.kill()
        sidecar.start()
        wait_for(lambda: sidecar.status()["guardrails"][0]["evidence"] == 30, within_s=10)
        after = sidecar.status()
    finally:
        sidecar.kill()
    assert after["guardrails"][0]["state"] == "firing"
    assert after["guardrails"][0]["since"] == before["guardrails"][0]["since"]
    assert [alert["fired_at"] for alert in after["alerts"]] == [
        alert["fired_at"] for alert in before["alerts"]
    ]


def last_counts(sidecar: Running) -> dict[str, int]:
    """What the sidecar said of itself when it had stopped."""
    [line] = [line for line in sidecar.log.read_text().splitlines() if "stopped; " in line]
    pairs = [item.rsplit(" ", 1) for item in line.split("stopped; ")[1].split(", ")]
    return {name: int(count) for name, count in pairs}
