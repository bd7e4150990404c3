"""The routes: what each says, in which format, with which headers, and what becomes of hostile text."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
import web_scenes
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from monitor.status import AlertRecord, Marker, Status
from monitor.web import create_app

HOSTILE = "<script>alert('x')</script>\"'&{{ 7*7 }}"


def client(status: Status | Callable[[], Status], registry: CollectorRegistry | None = None) -> FlaskClient:
    snapshot = status if callable(status) else lambda: status
    return create_app(snapshot, registry or CollectorRegistry()).test_client()


def text_of(html: str) -> str:
    """What a reader sees of a page, on one line."""
    words: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            words.append(data)

    Reader().feed(html)
    return " ".join(" ".join(words).split())


def test_a_fresh_start_says_no_evidence_and_shows_no_rate() -> None:
    page = client(web_scenes.fresh()).get("/")
    text = text_of(page.text)
    assert page.status_code == 200
    assert "No evidence yet for any of 4 guardrails" in text
    assert text.count("no evidence yet") >= 8
    assert re.search(r"<strong>", page.text) is None
    assert "No alert has fired." in text


def test_the_incident_is_said_in_the_headline_with_bound_and_reason() -> None:
    text = text_of(client(web_scenes.incident()).get("/").text).replace("\u202f", " ")
    assert (
        "filter_exclusion is firing on all traffic: at least 11.6 % of queries lost every known answer; "
        "locale = en-US"
    ) in text
    assert "Also filter_exclusion is firing on locale=de: at least 47.7 %" in text


def test_every_part_of_a_row_is_there() -> None:
    text = text_of(client(web_scenes.incident()).get("/").text).replace("\u202f", " ")
    for part in (
        "Answers removed by the filter",
        "14.8 % 11.6 % to 18.1 %",
        "362 judged, effective 339.2",
        "not scored: 31 not applicable, 4 not scorable",
        "scorer catalogue-1",
        "reason locale = en-US",
        "since 21:52:45 (7 min 15 s)",
        "p 0.214 (shown, never paged on)",
        "reference 240",
        "first seen as 2025-11-29",
        "1.4.0 → 1.5.0",
        "spans received 18 934",
    ):
        assert part in text, part


def test_a_resolved_alert_keeps_its_duration() -> None:
    text = text_of(client(web_scenes.quiet()).get("/").text).replace("\u202f", " ")
    assert "All 6 guardrails hold" in text
    assert "21:52:45 to 21:57:20 , 4 min 35 s" in text


def test_text_from_outside_is_never_markup() -> None:
    scene = web_scenes.incident()
    row = scene.guardrails[2].model_copy(
        update=dict.fromkeys(
            ("guardrail", "signal", "slice", "title", "reason", "scorer", "state", "unit"), HOSTILE
        )
        | {"not_scored": {HOSTILE: 3}}
    )
    alert = AlertRecord(
        guardrail=HOSTILE, slice=HOSTILE, severity=HOSTILE, summary=HOSTILE, fired_at=scene.now - 9
    )
    scene = scene.model_copy(
        update={
            "guardrails": (row, *scene.guardrails),
            "alerts": (alert,),
            "markers": (
                Marker(time=scene.now - 9, kind=HOSTILE, service=HOSTILE, before=HOSTILE, after=HOSTILE),
            ),
            "drift": (scene.drift[0].model_copy(update={"detector": HOSTILE}),),
            "counts": {HOSTILE: 1},
            "healthy": False,
            "problem": HOSTILE,
            "version": HOSTILE,
        }
    )
    for path in ("/", "/board"):
        html = client(scene).get(path).text
        assert re.findall(r"<script[^>]*>", html) == (
            ['<script src="/static/refresh.js" defer>'] if path == "/" else []
        )
        assert html.count("&lt;script&gt;") >= 15
        assert "{{ 7*7 }}" in html


def test_no_page_needs_inline_style_or_script() -> None:
    reply = client(web_scenes.incident()).get("/")
    assert re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", reply.text) is None
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path", ["/", "/board", "/api/status", "/metrics", "/healthz", "/static/page.css", "/nowhere"]
)
def test_every_answer_carries_the_security_headers(path: str) -> None:
    with client(web_scenes.quiet()).get(path) as reply:
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_follows_the_status_at_each_request(path: str) -> None:
    now = [web_scenes.quiet()]
    probe = client(lambda: now[0])
    assert (probe.get(path).status_code, probe.get(path).text) == (200, "ok\n")
    now[0] = now[0].model_copy(update={"healthy": False, "problem": "stage scoring died: MemoryError"})
    assert (probe.get(path).status_code, probe.get(path).text) == (503, "stage scoring died: MemoryError\n")


def test_a_sick_monitor_leads_the_headline_over_all_guardrails() -> None:
    sick = web_scenes.quiet().model_copy(update={"healthy": False, "problem": "stage scoring died"})
    text = text_of(client(sick).get("/").text)
    assert "The monitor itself is unwell: stage scoring died" in text
    assert "When it last looked: All 6 guardrails hold" in text


def test_the_json_is_the_status_and_nothing_else() -> None:
    scene = web_scenes.incident()
    reply = client(scene).get("/api/status")
    assert reply.mimetype == "application/json"
    assert Status.model_validate_json(reply.data) == scene


def test_numbers_that_json_lacks_become_null() -> None:
    scene = web_scenes.quiet()
    row = scene.guardrails[0].model_copy(update={"estimate": float("nan")})
    probe = client(scene.model_copy(update={"guardrails": (row,)}))
    assert json.loads(probe.get("/api/status").data)["guardrails"][0]["estimate"] is None
    assert probe.get("/").status_code == 200


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("groundwatch_spans", "Spans.", registry=registry).inc(3)
    Counter("groundwatch_sheds", "Shed.", registry=registry).inc(1)
    return registry


def test_metrics_in_prometheus_text(registry: CollectorRegistry) -> None:
    reply = client(web_scenes.quiet(), registry).get("/metrics")
    assert reply.content_type.startswith("text/plain; version=0.0.4")
    assert "groundwatch_spans_total 3.0" in reply.text


def test_metrics_in_openmetrics_where_it_is_asked_for(registry: CollectorRegistry) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"
    reply = client(web_scenes.quiet(), registry).get("/metrics", headers={"Accept": accept})
    assert reply.content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    assert families["groundwatch_spans"].samples[0].value == 3.0
    assert reply.headers["Vary"] == "Accept, Accept-Encoding"


def test_metrics_are_gzipped_and_restricted_where_it_is_asked_for(registry: CollectorRegistry) -> None:
    reply = client(web_scenes.quiet(), registry).get(
        "/metrics?name[]=groundwatch_spans_total", headers={"Accept-Encoding": "gzip"}
    )
    assert reply.headers["Content-Encoding"] == "gzip"
    text = gzip.decompress(reply.data).decode()
    assert "groundwatch_spans_total 3.0" in text
    assert "sheds" not in text


def test_an_unknown_place_is_a_404_that_names_the_known_ones() -> None:
    reply = client(web_scenes.quiet()).get("/metric<b>s")
    assert (reply.status_code, reply.content_type) == (404, "text/plain; charset=utf-8")
    assert reply.text.startswith("Nothing stands at /metric<b>s. There is / (status page)")


def test_a_wrong_method_says_which_are_allowed() -> None:
    reply = client(web_scenes.quiet()).post("/api/status")
    assert reply.status_code == 405
    assert "GET" in reply.headers["Allow"]


def test_a_status_that_cannot_be_made_is_a_500_without_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Status:
        raise RuntimeError("secret detail")

    reply = client(broken).get("/healthz")
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "secret detail" in caplog.text
