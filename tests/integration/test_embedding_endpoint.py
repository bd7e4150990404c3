"""The embedding endpoint over real HTTP: what it is asked, what may go wrong, and that judging never waits for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from alerts.signals import ALL, ENCODER_CHANGE
from collectors.trace import RagTrace
from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import EncoderUnavailable, HashedNgramEncoder
from detectors.units import UnitSettings
from monitor.drift import DriftWatch
from monitor.embedding_endpoint import DeferredEncoding, EmbeddingEndpoint, EmbeddingEndpointSettings
from monitor.encoder_watch import EncoderWatch, EncoderWatchSettings
from monitor.metrics import Metrics
from monitor.stage import Stage


class Server(ThreadingHTTPServer):
    """Serves the built-in encoder's vectors as OpenAI's call does, in any order; `answer` may replace what it says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: list[dict[str, Any]] = []
        self.answer: tuple[int, bytes] | None = None
        self.delay_s = 0.0
        self.gate = threading.Event()
        self.gate.set()
        self.encoder = HashedNgramEncoder()

    def handle_error(self, *_: object) -> None:
        """A client that went away is what some of these tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/embeddings"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append(body | {"authorization": self.headers.get("Authorization")})
        time.sleep(self.server.delay_s)
        self.server.gate.wait()
        vectors = self.server.encoder.encode(body["input"])
        items = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(vectors)]
        status, said = self.server.answer or (200, json.dumps({"data": items[::-1]}).encode())
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def _settings(server: Server, **more: Any) -> EmbeddingEndpointSettings:
    return EmbeddingEndpointSettings(url=server.url, model="ada", timeout_s=1.0, batch=3, **more)


def test_vectors_come_in_the_texts_order_in_batches_with_the_token(server: Server) -> None:
    endpoint = EmbeddingEndpoint(_settings(server, token=SecretStr("s3cret")))
    texts = [f"question number {i}" for i in range(7)]
    assert np.allclose(endpoint.encode(texts), HashedNgramEncoder().encode(texts), atol=1e-6)
    assert [len(call["input"]) for call in server.calls] == [3, 3, 1]
    assert {call["authorization"] for call in server.calls} == {"Bearer s3cret"}
    assert {call["model"] for call in server.calls} == {"ada"}
    assert (endpoint.name, endpoint.dimensions) == ("endpoint-ada", 256)
    assert "s3cret" not in repr(endpoint.settings)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, b"oops"), "answered 500"),
        ((302, b""), "answered 302"),
        ((200, b"no json"), "Expecting value"),
        ((200, b"{}"), "data"),
        ((200, b'{"data": [{"index": 0, "embedding": ["x"]}]}'), "could not convert"),
        ((200, b'{"data": []}'), "0"),
    ],
)
def test_what_is_no_answer_is_told_with_the_address(
    server: Server, answer: tuple[int, bytes], said: str
) -> None:
    server.answer = answer
    with pytest.raises(EncoderUnavailable, match=f"{server.url}.*{said}"):
        EmbeddingEndpoint(_settings(server)).encode(["hello"])


def test_silence_and_a_closed_port_are_told(server: Server) -> None:
    server.delay_s = 1.5
    with pytest.raises(EncoderUnavailable, match="timed out"):
        EmbeddingEndpoint(_settings(server)).encode(["hello"])
    closed = EmbeddingEndpointSettings(url="http://127.0.0.1:9/v1/embeddings", model="ada")
    with pytest.raises(EncoderUnavailable, match="refused"):
        EmbeddingEndpoint(closed).encode(["hello"])


def _trace(number: int) -> RagTrace:
    return RagTrace(
        id=f"{number}:a",
        trace_id=str(number),
        start_time_ns=0,
        query=f"how do I pay bill {number}",
        session=f"s{number}",
    )


def _watched(server: Server, metrics: Metrics, **more: Any) -> tuple[DriftWatch, Stage[RagTrace]]:
    deferred = DeferredEncoding(EmbeddingEndpoint(_settings(server, **more)), metrics, time.time)
    stage = Stage[RagTrace]("embedding", deferred.embed, capacity=5, max_batch=3, on_failure=lambda *_: None)
    deferred.offer = stage.offer
    drift = DriftWatch(
        UnitSettings(session_idle_s=1), QueryDriftSettings(), deferred.endpoint, metrics, deferred=deferred
    )
    return drift, stage


def test_queries_come_back_as_units_while_nobody_waits(server: Server) -> None:
    metrics = Metrics()
    drift, stage = _watched(server, metrics)
    server.gate.clear()
    stage.start()
    for number in range(4):
        drift.put(_trace(number), 0.0)
    server.gate.set()  # only now does the endpoint answer: a query that waited for it would have timed out
    stage.stop(10.0)
    drift.tick(1.0)
    drift.tick(10.0)
    (mix, _) = drift.status()
    assert mix.detector == "query_mmd/endpoint-ada"
    assert mix.reference_size == 4


def test_what_waits_too_long_or_finds_nobody_is_counted(server: Server) -> None:
    metrics = Metrics()
    drift, stage = _watched(server, metrics)
    for number in range(8):
        drift.put(_trace(number), 0.0)
    assert metrics.count_of(metrics.drift_skipped, reason="encoder_busy") == 3
    server.answer = (503, b"")
    stage.start()
    stage.stop(10.0)
    assert metrics.count_of(metrics.drift_skipped, reason="encoder_unavailable") == 5
    assert len(server.calls) == 1, "after a failure it is left alone for a while"


def test_probes_see_an_endpoint_that_changes_and_one_that_is_gone_is_no_change(server: Server) -> None:
    metrics = Metrics()
    endpoint = EmbeddingEndpoint(_settings(server))
    watch = EncoderWatch(EncoderWatchSettings(interval_s=60.0), endpoint, metrics)
    watch.tick(0.0)
    server.answer = (503, b"")
    watch.tick(60.0)
    assert metrics.readings()[ENCODER_CHANGE.name, ALL].estimate == 0.0
    server.answer = None
    server.encoder = HashedNgramEncoder(dimensions=128)
    watch.tick(120.0)
    assert watch.reason() == "encoder = endpoint-ada; change = dimension"
