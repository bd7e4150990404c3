"""A real Prometheus scrapes a real sidecar; `promtool` reads its exposition."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from receivers import wait_for
from sidecars import answer, free_port, running, tracing

SCRAPE = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: groundwatch
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@contextmanager
def prometheus(program: Path, folder: Path, target: int) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """A running Prometheus; gives a function that asks it an instant query."""
    (folder / "prometheus.yml").write_text(SCRAPE.format(port=target))
    port = free_port()
    command = [
        str(program),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]

    def query(expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                result: list[dict[str, Any]] = json.load(reply)["data"]["result"]
                return result
        except OSError:
            return []

    with (
        (folder / "prometheus.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield query
        finally:
            process.terminate()
            process.wait(10)


@pytest.mark.part("prometheus")
def test_prometheus_scrapes_what_the_guardrails_read(tmp_path: Path, part: Callable[[str], Path]) -> None:
    with running(tmp_path) as sidecar, prometheus(part("prometheus"), tmp_path, sidecar.web) as query:
        with tracing(sidecar.grpc) as provider:
            for number in range(20):
                answer(provider, number, invented=number < 10)
        sidecar.wait_for("requests judged", 20)
        evidence = 'groundwatch_signal_evidence{signal="unfaithful_rate",slice="all"} == 20'
        wait_for(lambda: bool(query(evidence)), within_s=30)
        [estimate] = query('groundwatch_signal_estimate{signal="unfaithful_rate",slice="all"}')
        assert float(estimate["value"][1]) == pytest.approx(0.5)
        assert estimate["metric"]["scorer"] == "lexical-1"
        assert query('up{job="groundwatch"}')[0]["value"][1] == "1"
        assert query('groundwatch_guardrail_state{guardrail="faithfulness",state="firing"}')


@pytest.mark.part("promtool")
def test_promtool_finds_nothing_to_say_of_the_metrics(tmp_path: Path, part: Callable[[str], Path]) -> None:
    with running(tmp_path) as sidecar:
        with tracing(sidecar.grpc) as provider:
            answer(provider, 1)
        sidecar.wait_for("requests judged", 1)
        exposition = urllib.request.urlopen(f"http://127.0.0.1:{sidecar.web}/metrics").read()
    found = subprocess.run(
        [part("promtool"), "check", "metrics"], input=exposition, capture_output=True, check=False
    )
    assert (found.returncode, found.stderr.decode()) == (0, "")
