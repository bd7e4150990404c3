"""The Kafka collector through a front that asks for TLS, certificates and passwords, as production clusters do."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, Record, free_port
from certificates import Authority
from kafka_gateway import Gateway
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.dead_letter import DeadLetterSettings, FileDeadLetters
from collectors.kafka import KafkaCollector, KafkaSettings
from collectors.span import SpanBatch

USERS = {"groundwatch": "s3cret, with = and ,", "admin": "other"}
CREDENTIALS = {"sasl_plain_username": "groundwatch", "sasl_plain_password": USERS["groundwatch"]}


class Sink:
    def __init__(self) -> None:
        self.names: list[str] = []

    def offer(self, batch: SpanBatch) -> bool:
        self.names += [span.name for span in batch.spans]
        assert batch.receipt is not None
        batch.receipt.release()
        return True


ROOT = Path(__file__).resolve().parents[2]
_MEMBER = """
import json, sys, time
from pathlib import Path
from collectors.dead_letter import DeadLetterSettings, FileDeadLetters
from collectors.kafka import KafkaCollector, KafkaSettings

class Printing:
    def offer(self, batch):
        print(batch, flush=True)
        return True

letters = FileDeadLetters(DeadLetterSettings(path=Path(sys.argv[2])))
with KafkaCollector(KafkaSettings(**json.loads(sys.argv[1])), Printing(), letters, on_failure=print):
    time.sleep(60)
"""


class Front:
    """A broker behind a gateway, and one topic with one record."""

    def __init__(self, gateway: Gateway, broker: Broker, topic: str, folder: Path) -> None:
        self.gateway = gateway
        self.broker = broker
        self.topic = topic
        self.failures: list[BaseException] = []
        self._folder = folder

    def _settings(self, **settings: Any) -> dict[str, Any]:
        where = {
            "bootstrap_servers": [self.broker.bootstrap],
            "topics": [self.topic],
            "commit_interval_s": 0.2,
        }
        return where | settings

    @contextmanager
    def reading(self, **settings: Any) -> Iterator[Sink]:
        sink = Sink()
        letters = FileDeadLetters(DeadLetterSettings(path=self._folder / "dead.jsonl"))
        made = KafkaSettings.model_validate(self._settings(**settings))
        with KafkaCollector(made, sink, letters, on_failure=self.failures.append):
            yield sink
        assert self.failures == []

    def is_refused(self, **settings: Any) -> None:
        """Such a collector is turned away, twice since it tries again, and reads nothing. It runs in a process of its
        own, for the client leaves the sockets of handshakes that failed open."""
        refused = self.gateway.refused
        arguments = [json.dumps(self._settings(**settings)), str(self._folder / "dead.jsonl")]
        member = subprocess.Popen(
            [sys.executable, "-c", _MEMBER, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: self.gateway.refused >= refused + 2)
        finally:
            member.kill()
            said, _ = member.communicate()
        assert said == b""


@contextmanager
def front(
    folder: Path, tls: ssl.SSLContext | None, users: dict[str, str] | None, **options: Any
) -> Iterator[Front]:
    port, inner = free_port(), free_port()
    with (
        Gateway(inner, port, tls=tls, users=users) as gateway,
        Broker(inner, front=port, options=options) as broker,
    ):
        topic = broker.topic()
        message = ExportTraceServiceRequest()
        spans = message.resource_spans.add().scope_spans.add().spans
        spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, name="secured")
        broker.produce(topic, [Record(0, message.SerializeToString())])
        yield Front(gateway, broker, topic, folder)


def until(true: Callable[[], object], deadline_s: float = 20.0) -> None:
    ends = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < ends, "it did not come to be in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def server_context(authority: Authority, *, mutual: bool) -> ssl.SSLContext:
    certificate, key = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if mutual:
        context.load_verify_locations(authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def sasl(mechanism: str, **changes: str) -> dict[str, str]:
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, **CREDENTIALS, **changes}


def test_every_sasl_mechanism_lets_the_right_password_in_and_no_other(tmp_path: Path) -> None:
    with front(tmp_path, None, USERS, **sasl("PLAIN")) as behind:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            behind.gateway.seen.clear()
            with behind.reading(group_id=mechanism, **sasl(mechanism)) as sink:
                until(lambda sink=sink: sink.names == ["secured"])
            assert set(behind.gateway.seen) == {mechanism}
            behind.is_refused(**sasl(mechanism, sasl_plain_password="wrong"))
        behind.is_refused()


def test_tls_with_client_certificates_and_scram_at_once(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("groundwatch")
    options = sasl("SCRAM-SHA-512", security_protocol="SASL_SSL") | {
        "ssl_cafile": str(authority.file),
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
    }
    with front(tmp_path, server_context(authority, mutual=True), USERS, **options) as behind:
        with behind.reading(**options) as sink:
            until(lambda: sink.names == ["secured"])
        assert set(behind.gateway.seen) == {"SCRAM-SHA-512"}
        without = {
            name: value for name, value in options.items() if name not in ("ssl_certfile", "ssl_keyfile")
        }
        behind.is_refused(**without)


def test_a_broker_of_another_authority_is_not_believed(tmp_path: Path, authority: Authority) -> None:
    options = {"security_protocol": "SSL", "ssl_cafile": str(authority.file)}
    stranger = Authority(tmp_path / "stranger")
    with front(tmp_path, server_context(authority, mutual=False), None, **options) as behind:
        with behind.reading(**options) as sink:
            until(lambda: sink.names == ["secured"])
        behind.is_refused(**options | {"ssl_cafile": str(stranger.file)})
