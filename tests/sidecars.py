"""A real `groundwatch run` in a process of its own, and a real SDK exporter to feed it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A running sidecar: where it listens, what it says of itself, how it ends."""

    def __init__(self, folder: Path, *, drain_s: float = 15.0, **sections: Any) -> None:
        self._drain_s = drain_s
        self.grpc, self.web = free_port(), free_port()
        self.store = folder / "state.sqlite"
        self.log = folder / "sidecar.log"
        self._config = folder / "groundwatch.yaml"
        config: dict[str, Any] = {
            "collectors": {"otlp_grpc": {"port": self.grpc}, "otlp_http": {"enabled": False}},
            "assembly": {"answered_wait_s": 0.3, "idle_wait_s": 1.0, "max_wait_s": 5.0},
            "sampling": {"rate": 1.0},
            "watch": {"tick_s": 0.2, "evaluation_s": 0.2},
            "store": {"path": str(self.store)},
            "web": {"port": self.web},
        }
        for name, section in sections.items():
            config[name] = {**config.get(name, {}), **section} if isinstance(section, dict) else section
        self._config.write_text(yaml.safe_dump(config))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            sys.executable,
            "-m",
            "monitor.cli",
            "run",
            "--config",
            str(self._config),
            "--drain",
            str(self._drain_s),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            assert self.process.poll() is None, self.log.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.web}/healthz", timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"the sidecar did not come up: {self.log.read_text()}")

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/api/status", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait_for(self, count: str, at_least: int, within_s: float = 30.0) -> dict[str, Any]:
        """The status once one of its counts has come so far."""
        ends = time.monotonic() + within_s
        while (status := self.status())["counts"][count] < at_least:
            assert time.monotonic() < ends, f"{count}: {status['counts']}\n{self.log.read_text()}"
            time.sleep(0.1)
        return status

    def terminate(self) -> int:
        """SIGTERM; gives the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """SIGKILL: no drain, no goodbye."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait(10)


@contextmanager
def running(folder: Path, **sections: Any) -> Iterator[Running]:
    """A sidecar that is up; killed at the end if it still runs."""
    sidecar = Running(folder, **sections)
    try:
        sidecar.start()
        yield sidecar
    finally:
        sidecar.kill()


@contextmanager
def tracing(port: int, service: str = "kb", version: str = "1.0.0") -> Iterator[TracerProvider]:
    """A tracer provider that exports to the port as a production service does."""
    provider = TracerProvider(resource=Resource({"service.name": service, "service.version": version}))
    exporter = OTLPSpanExporter(endpoint=f"127.0.0.1:{port}", insecure=True, timeout=3)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    try:
        yield provider
    finally:
        provider.shutdown()


CONTEXT = "Refunds are issued to the original payment method within 5 business days after approval."
FAITHFUL = "Refunds are issued within 5 business days after approval."
INVENTED = "Refunds take 3 weeks, cost 25 dollars and are handled by Martin Keller in Oslo."


def answer(provider: TracerProvider, number: int, *, invented: bool = False, session: str = "") -> None:
    """One request of a small RAG service: three spans."""
    tracer = provider.get_tracer("tests.service", "1")
    query = f"How long does refund number {number} take?"
    reply = INVENTED if invented else FAITHFUL
    with tracer.start_as_current_span(
        "chat",
        attributes={
            "openinference.span.kind": "CHAIN",
            "input.value": query,
            "output.value": reply,
            "session.id": session or f"session-{number}",
        },
    ):
        with tracer.start_as_current_span(
            "retrieve",
            attributes={
                "openinference.span.kind": "RETRIEVER",
                "input.value": query,
                "retrieval.documents.0.document.id": "kb-101",
                "retrieval.documents.0.document.content": CONTEXT,
                "rag.filter.entitlement": json.dumps([{"field": "tenant", "op": "eq", "value": "acme"}]),
                "rag.filter.relevance": json.dumps([{"field": "locale", "op": "eq", "value": "en-US"}]),
            },
        ):
            pass
        with tracer.start_as_current_span(
            "llm",
            attributes={
                "openinference.span.kind": "LLM",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": reply,
                "llm.token_count.prompt": 60,
                "llm.token_count.completion": 12,
            },
        ):
            pass
