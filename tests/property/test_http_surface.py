"""schemathesis against everything that listens for HTTP: whatever comes, it gets an answer that is described, soon."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import web_scenes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from collectors.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collectors.span import SpanBatch
from monitor.web import WebServer, WebSettings, create_app

schemathesis.serializer.alias("application/x-protobuf", "application/octet-stream")

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SOON_S = 5.0
EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

_STATUS = {
    "type": "object",
    "required": ["message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "details": {"type": "array"}},
    "additionalProperties": False,
}
"""`google.rpc.Status`, the body of every answer that is none of success."""


def _answers(**bodies: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for code, schema in bodies.items():
        content = {"application/json": {"schema": schema}, "application/x-protobuf": {}}
        described[code.removeprefix("s")] = {"description": "as OTLP says", "content": content}
    return described


def _export(rejected: str, group: str, scopes: str, items: str) -> dict[str, Any]:
    """One path of OTLP/HTTP, with requests that are nearly right: that is where decoders break."""
    partial = {
        "type": "object",
        "required": [rejected, "errorMessage"],
        "properties": {
            rejected: {"type": "string", "pattern": "^[1-9][0-9]*$"},
            "errorMessage": {"type": "string"},
        },
    }
    success = {"type": "object", "properties": {"partialSuccess": partial}, "additionalProperties": False}
    anything = {"type": ["null", "boolean", "number", "string", "array", "object"]}
    value = {
        "type": "object",
        "properties": {
            "stringValue": {"type": "string"},
            "intValue": {"type": ["string", "integer"]},
            "doubleValue": {"type": ["number", "string"]},
            "arrayValue": {"type": "object", "properties": {"values": {"type": "array", "items": anything}}},
            "kvlistValue": anything,
        },
    }
    attribute = {"type": "object", "properties": {"key": {"type": "string"}, "value": value}}
    item = {
        "type": "object",
        "properties": {
            "traceId": {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"},
            "spanId": {"type": "string", "pattern": "^[0-9a-fA-F]{16}$"},
            "parentSpanId": anything,
            "name": {"type": "string"},
            "eventName": {"type": "string"},
            "body": value,
            "kind": {"type": ["integer", "string"]},
            "startTimeUnixNano": {"type": ["string", "integer"]},
            "timeUnixNano": {"type": ["string", "integer"]},
            "attributes": {"type": "array", "items": attribute},
            "events": {"type": "array", "items": anything},
            "links": {"type": "array", "items": anything},
            "status": anything,
        },
        "required": ["traceId", "spanId"],
    }
    scope = {"type": "object", "properties": {"scope": anything, items: {"type": "array", "items": item}}}
    resource = {
        "type": "object",
        "properties": {
            "resource": {
                "type": "object",
                "properties": {"attributes": {"type": "array", "items": attribute}},
            },
            scopes: {"type": "array", "items": scope},
        },
    }
    request = {
        "type": "object",
        "properties": {group: {"type": "array", "items": resource}},
        "required": [group],
    }
    return {
        "post": {
            "parameters": [
                {
                    "name": "Content-Encoding",
                    "in": "header",
                    "schema": {"type": "string", "enum": ["identity", "gzip", "br", "GZIP", ""]},
                }
            ],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": request},
                    "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
                    "text/plain": {"schema": {"type": "string"}},
                },
            },
            "responses": _answers(s200=success, s400=_STATUS, s413=_STATUS, s415=_STATUS),
        }
    }


def _page(content_type: str, *codes: int, **query: Any) -> dict[str, Any]:
    answers = {str(code): {"description": "", "content": {content_type: {}}} for code in codes or (200,)}
    named = [{"name": name, "in": "query", "schema": schema} for name, schema in query.items()]
    return {"get": {"parameters": named, "responses": answers}}


def _described(paths: dict[str, Any]) -> Any:
    return schemathesis.openapi.from_dict(
        {"openapi": "3.1.0", "info": {"title": "surface", "version": "1"}, "paths": paths}
    )


receiver_surface = _described(
    {
        "/v1/traces": _export("rejectedSpans", "resourceSpans", "scopeSpans", "spans"),
        "/v1/logs": _export("rejectedLogRecords", "resourceLogs", "scopeLogs", "logRecords"),
    }
)
_names = {"type": "array", "items": {"type": "string"}}
web_surface = _described(
    {
        "/": _page("text/html", x={"type": "string"}),
        "/board": _page("text/html"),
        "/api/status": _page("application/json"),
        "/metrics": _page("text/plain", **{"name[]": _names}),
        "/healthz": _page("text/plain"),
        "/readyz": _page("text/plain"),
        "/{anything}": {
            "get": {
                "parameters": [
                    {"name": "anything", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": {str(code): {"description": ""} for code in (200, 308, 400, 404, 405)},
            }
        },
    }
)


class Taking:
    def offer(self, batch: SpanBatch) -> bool:
        return True


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    settings = OtlpHttpSettings(port=0, read_timeout_s=2.0, max_message_bytes=100_000)
    with OtlpHttpReceiver(settings, Taking()) as listening:
        yield f"http://127.0.0.1:{listening.port}"


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    app = create_app(web_scenes.incident, CollectorRegistry())
    with WebServer(WebSettings(port=0), app) as serving:
        yield f"http://127.0.0.1:{serving.port}"


@receiver_surface.parametrize()
@EXAMPLES
def test_the_receiver_answers_as_otlp_says(case: schemathesis.Case, receiver: str) -> None:
    response = case.call(base_url=receiver, timeout=SOON_S)
    case.validate_response(response, checks=CHECKS)


@web_surface.parametrize()
@EXAMPLES
def test_the_pages_answer(case: schemathesis.Case, web: str) -> None:
    response = case.call(base_url=web, timeout=SOON_S)
    case.validate_response(response, checks=CHECKS)


_line = st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))
_method = st.sampled_from(
    [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD", b"TRACE", b"MKCOL"]
)
_path = st.one_of(st.sampled_from([b"/v1/traces", b"/v1/logs", b"/", b"/metrics", b"/board", b"*"]), _line)
_header = st.one_of(
    st.tuples(
        st.sampled_from([b"Content-Length", b"Transfer-Encoding", b"Content-Type", b"Expect", b"Host"]), _line
    ),
    st.tuples(_line, _line),
)


@pytest.mark.parametrize("surface", ["receiver", "web"])
@EXAMPLES
@given(method=_method, path=_path, headers=st.lists(_header, max_size=4), body=st.binary(max_size=200))
@example(method=b"GET", path=b"/", headers=[(b" folded", b"under no header")], body=b"")
def test_bytes_that_are_hardly_http_get_an_answer_or_a_closed_connection(
    surface: str,
    request: pytest.FixtureRequest,
    method: bytes,
    path: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    host, port = request.getfixturevalue(surface).removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SOON_S)
    try:
        connection.connect()
        lines = [method + b" " + path + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
        connection.sock.sendall(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
        connection.sock.shutdown(1)  # nothing more comes
        answer = b""
        while part := connection.sock.recv(4_096):
            answer += part
    except ConnectionError:
        return
    finally:
        connection.close()
    assert not answer or answer.startswith(b"HTTP/1.1 ")
    assert not answer.startswith(b"HTTP/1.1 5") or answer.startswith((b"HTTP/1.1 501", b"HTTP/1.1 505"))
