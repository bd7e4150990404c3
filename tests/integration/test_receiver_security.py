"""TLS, client certificates and tokens on both receivers, with real certificates and OpenTelemetry's own exporters; and
what strangers who hold on to connections cost the others."""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority, Identity, client_context
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import ValidationError

from collectors.events import NullEvents
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from collectors.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collectors.receiver_security import TlsFiles, TlsSettings
from collectors.span import SpanBatch

KINDS = ("grpc", "http")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOKEN = "s3cret-t0ken"


class Sink:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.open = threading.Event()
        self.open.set()

    def offer(self, batch: SpanBatch) -> bool:
        self.open.wait(20)
        self.names += [span.name for span in batch.spans]
        return True


class Counted(NullEvents):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self.counts[reason] += count

    def held_back(self, source: str) -> None:
        self.counts["held back"] += 1


class House:
    """One authority, its server certificate, and receivers behind it."""

    def __init__(self, folder: Path) -> None:
        self.ca = Authority(folder / "ours")
        self.strangers = Authority(folder / "theirs")
        self.server = self.ca.issue("server")
        self.client = self.ca.issue("client")
        self.sink = Sink()
        self.events = Counted()

    def tls(self, *, mutual: bool = False, identity: Identity | None = None) -> TlsSettings:
        certificate, key = identity or self.server
        return TlsSettings(certificate=certificate, key=key, client_ca=self.ca.file if mutual else None)

    def receiver(self, kind: str, **settings: Any) -> Any:
        self.sink, self.events = Sink(), Counted()
        if kind == "grpc":
            return OtlpGrpcReceiver(OtlpGrpcSettings(port=0, **settings), self.sink, self.events)
        return OtlpHttpReceiver(OtlpHttpSettings(port=0, **settings), self.sink, self.events)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


@pytest.fixture(autouse=True)
def _only_our_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP exporter's client puts these over the file that it was given."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def exporter(
    kind: str, port: int, ca: Path | None, identity: Identity | None = None, token: str | None = None
) -> SpanExporter:
    """The SDK's exporter with credentials, as a service would be set up."""
    if kind == "grpc":
        parts = {"root_certificates": ca and ca.read_bytes()}
        if identity:
            parts |= {
                "private_key": identity.key.read_bytes(),
                "certificate_chain": identity.certificate.read_bytes(),
            }
        return GrpcExporter(
            endpoint=f"127.0.0.1:{port}",
            insecure=ca is None,
            credentials=grpc.ssl_channel_credentials(**parts) if ca else None,
            headers=(("authorization", f"Bearer {token}"),) if token else None,
            timeout=1,
        )
    return HttpExporter(
        endpoint=f"http{'s' if ca else ''}://127.0.0.1:{port}/v1/traces",
        certificate_file=str(ca) if ca else None,
        client_certificate_file=str(identity.certificate) if identity else None,
        client_key_file=str(identity.key) if identity else None,
        headers={"Authorization": f"Bearer {token}"} if token else None,
        timeout=1,
    )


def spans() -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with provider.get_tracer("tests").start_as_current_span("asked"):
        pass
    provider.shutdown()
    return list(kept.get_finished_spans())


def exports(made: SpanExporter) -> bool:
    """Whether the exporter got its span through; failures take it its timeout."""
    try:
        return made.export(spans()) is SpanExportResult.SUCCESS
    finally:
        made.shutdown()


@pytest.mark.parametrize("kind", KINDS)
def test_over_tls_only_those_who_trust_the_authority_send(house: House, kind: str) -> None:
    with house.receiver(kind, tls=house.tls()) as receiver:
        assert exports(exporter(kind, receiver.port, house.ca.file))
        assert not exports(exporter(kind, receiver.port, house.strangers.file)), "the server is a stranger's"
        assert not exports(exporter(kind, receiver.port, None)), "in the clear"
    assert house.sink.names == ["asked"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_server_certificate_is_refused_by_senders(house: House, kind: str) -> None:
    with house.receiver(kind, tls=house.tls(identity=house.ca.issue("server", expired=True))) as receiver:
        assert not exports(exporter(kind, receiver.port, house.ca.file))
    assert house.sink.names == []


@pytest.mark.parametrize("kind", KINDS)
def test_with_client_certificates_only_those_that_we_trust_send(house: House, kind: str) -> None:
    with house.receiver(kind, tls=house.tls(mutual=True)) as receiver:
        ca = house.ca.file
        assert exports(exporter(kind, receiver.port, ca, house.client))
        assert not exports(exporter(kind, receiver.port, ca)), "no certificate"
        assert not exports(exporter(kind, receiver.port, ca, house.strangers.issue("client")))
        assert not exports(exporter(kind, receiver.port, ca, house.ca.issue("client", expired=True)))
        assert exports(exporter(kind, receiver.port, ca, house.client)), "the others did not harm it"
    assert house.sink.names == ["asked", "asked"]
    if kind == "http":
        assert house.events.counts["tls_failed"] >= 3
        assert set(house.events.counts) == {"tls_failed"}


@pytest.mark.parametrize("kind", KINDS)
def test_only_who_bears_the_token_sends(house: House, kind: str) -> None:
    with house.receiver(kind, tls=house.tls(), bearer_token=TOKEN) as receiver:
        ca = house.ca.file
        assert exports(exporter(kind, receiver.port, ca, token=TOKEN))
        for wrong in (None, "wrong", TOKEN[:-1], TOKEN + "x"):
            assert not exports(exporter(kind, receiver.port, ca, token=wrong))
    assert house.sink.names == ["asked"]
    assert house.events.counts == {"unauthenticated": 4}, "it is an answer that no exporter repeats"


@pytest.mark.parametrize("kind", KINDS)
def test_a_renewed_certificate_is_used_without_a_restart(house: House, kind: str, tmp_path: Path) -> None:
    newer = Authority(tmp_path / "newer")
    live = Identity(tmp_path / "live.pem", tmp_path / "live.key")
    shutil.copy(house.server.certificate, live.certificate)
    shutil.copy(house.server.key, live.key)
    with house.receiver(kind, tls=house.tls(identity=live)) as receiver:
        assert exports(exporter(kind, receiver.port, house.ca.file))
        renewed = newer.issue("server")
        shutil.copy(renewed.certificate, live.certificate)  # its key is not there yet: half a renewal
        assert exports(exporter(kind, receiver.port, house.ca.file)), "the old one serves until then"
        shutil.copy(renewed.key, live.key)
        assert exports(exporter(kind, receiver.port, newer.file))
        assert not exports(exporter(kind, receiver.port, house.ca.file))


def wire(name: str = "raw") -> bytes:
    made = ExportTraceServiceRequest()
    made.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, name=name)
    return made.SerializeToString()


def post(port: int, body: bytes = b"", context: ssl.SSLContext | None = None, **headers: str) -> Any:
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    )
    try:
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"} | headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


class TestToken:
    def test_grpc_answers_unauthenticated_before_it_reads(self, house: House) -> None:
        def half_a_message() -> Iterator[bytes]:
            yield wire()
            time.sleep(20)

        with (
            house.receiver("grpc", bearer_token=TOKEN) as receiver,
            grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel,
        ):
            with pytest.raises(grpc.RpcError) as refused:
                channel.stream_unary(EXPORT)(half_a_message(), timeout=5)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as unknown:
                channel.unary_unary("/grpc.health.v1.Health/Check")(b"")
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED

    @pytest.mark.parametrize(
        "header",
        [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, "Bearer \u00fc", f"Bearer {TOKEN} x"],
    )
    def test_http_answers_401_with_a_challenge(self, house: House, header: str | None) -> None:
        with house.receiver("http", bearer_token=TOKEN) as receiver:
            response, body = post(
                receiver.port, wire(), **({} if header is None else {"Authorization": header})
            )
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
            assert Status.FromString(body).code == 16
            again, _ = post(receiver.port, wire(), Authorization=f"bearer {TOKEN}")
            assert again.status == 200
        assert house.sink.names == ["raw"]

    @pytest.mark.parametrize("token", ["", "two words", "ünïcode", "a=b"])
    def test_what_is_no_token_is_a_mistake_of_the_settings(self, token: str) -> None:
        with pytest.raises(ValidationError, match="RFC 6750"):
            OtlpHttpSettings(bearer_token=token)


class TestFiles:
    def test_a_missing_file_is_a_mistake_of_the_settings(self, tmp_path: Path) -> None:
        with pytest.raises(ValidationError, match="is no file"):
            TlsSettings(certificate=tmp_path / "none.pem", key=tmp_path / "none.key")

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_key_that_does_not_fit_is_an_error_at_start(self, house: House, kind: str) -> None:
        receiver = house.receiver(
            kind, tls=house.tls(identity=Identity(house.server.certificate, house.client.key))
        )
        with pytest.raises(OSError, match=r"(?i)key"):
            receiver.start()
        receiver.stop()

    def test_what_vanishes_leaves_the_old_in_force(self, house: House, tmp_path: Path) -> None:
        key = tmp_path / "server.key"
        shutil.copy(house.server.key, key)
        files = TlsFiles(TlsSettings(certificate=house.server.certificate, key=key))
        before = files.context
        key.unlink()
        assert not files.renewed()
        assert files.context is before


@contextmanager
def held(port: int, count: int, send: bytes) -> Iterator[list[socket.socket]]:
    """Connections that say so much and then nothing."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            sockets.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            sockets[-1].sendall(send)
        yield sockets


def dripped(sockets: list[socket.socket], stop: threading.Event) -> None:
    """One byte now and then from each, as long as the other side listens."""
    while not stop.wait(0.1):
        for one in sockets:
            try:
                one.sendall(b"x")
            except OSError:
                stop.set()


class TestSlowSenders:
    @pytest.mark.parametrize("tls", [False, True])
    def test_silent_connections_hold_no_thread(self, house: House, tls: bool) -> None:
        settings = {"workers": 2, "read_timeout_s": 30.0, "idle_timeout_s": 30.0}
        with (
            house.receiver("http", tls=house.tls() if tls else None, **settings) as receiver,
            held(receiver.port, 50, b""),
        ):
            began = time.monotonic()
            response, _ = post(receiver.port, wire(), client_context(house.ca.file) if tls else None)
            assert response.status == 200
            assert time.monotonic() - began < 5

    @pytest.mark.parametrize(
        "begun",
        [
            b"X-Slow: ",
            b"Content-Type: application/x-protobuf\r\nContent-Length: 9999\r\n\r\n",
            b"Content-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n270f\r\n",
        ],
    )
    def test_a_request_that_drips_is_cut_off(self, house: House, begun: bytes) -> None:
        stop = threading.Event()
        with (
            house.receiver("http", workers=2, read_timeout_s=1.0) as receiver,
            held(receiver.port, 2, b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n" + begun) as sockets,
        ):
            dripping = threading.Thread(target=dripped, args=(sockets, stop))
            dripping.start()
            try:
                began = time.monotonic()
                response, _ = post(receiver.port, wire())
                assert response.status == 200
                assert time.monotonic() - began < 4
            finally:
                stop.set()
                dripping.join()

    def test_a_tls_greeting_that_never_ends_is_cut_off(self, house: House) -> None:
        with (
            house.receiver("http", tls=house.tls(), workers=2, read_timeout_s=1.0) as receiver,
            held(receiver.port, 2, b"\x16\x03\x01\x02\x00\x01"),
        ):
            response, _ = post(receiver.port, wire(), client_context(house.ca.file))
            assert response.status == 200
            assert house.events.counts["tls_failed"] == 2

    def test_connections_over_the_cap_are_closed(self, house: House) -> None:
        with house.receiver("http", connections=5) as receiver:
            with held(receiver.port, 8, b"") as sockets:
                closed = [one for one in sockets if _is_closed(one)]
                assert len(closed) == 3
            _wait(lambda: post(receiver.port, wire())[0].status == 200)

    def test_headers_are_capped(self, house: House) -> None:
        with house.receiver("http") as receiver:
            with held(receiver.port, 1, b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n") as (one,):
                try:
                    for _ in range(100):
                        one.sendall(b"X-Long: " + b"y" * 1_000 + b"\r\n")
                    answer = one.recv(100)
                except ConnectionError:
                    answer = b""
                assert not answer or answer.startswith(b"HTTP/1.1 413")
            assert post(receiver.port, wire())[0].status == 200

    def test_a_grpc_message_that_never_ends_is_cut_off(self, house: House) -> None:
        release = threading.Event()

        def half_a_stream() -> Iterator[bytes]:
            release.wait(20)
            yield b""

        with (
            house.receiver("grpc", workers=1, read_timeout_s=1.0) as receiver,
            grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel,
        ):
            slow = [channel.stream_unary(EXPORT).future(half_a_stream()) for _ in range(2)]
            channel.unary_unary(EXPORT)(wire(), timeout=8)
            for call in slow:
                assert call.code() is grpc.StatusCode.CANCELLED
            release.set()
        assert house.sink.names == ["raw"]
        assert house.events.counts == {"interrupted": 2}


def test_more_grpc_requests_than_may_wait_are_asked_to_try_again(house: House) -> None:
    with (
        house.receiver("grpc", workers=1, waiting=2, retry_delay_s=0.5) as receiver,
        grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel,
    ):
        house.sink.open.clear()
        calls = [channel.unary_unary(EXPORT).future(wire(str(number)), timeout=15) for number in range(10)]
        _wait(lambda: sum(call.done() for call in calls) == 7)
        for call in calls:
            if call.done():
                assert call.code() is grpc.StatusCode.UNAVAILABLE
                status = Status.FromString(dict(call.trailing_metadata())["grpc-status-details-bin"])
                retry = RetryInfo()
                assert status.details[0].Unpack(retry)
                assert retry.retry_delay.ToMilliseconds() == 500
        house.sink.open.set()
        assert sum(call.code() is grpc.StatusCode.OK for call in calls) == 3
    assert len(house.sink.names) == 3
    assert house.events.counts == {"held back": 7}


def _is_closed(one: socket.socket) -> bool:
    one.settimeout(0.5)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def _wait(true: Callable[[], bool], within_s: float = 8.0) -> None:
    ends = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)
