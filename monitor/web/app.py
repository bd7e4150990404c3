"""The web application: the status page, its JSON, the metrics and the health checks.

Pages are server-rendered; the only script refreshes them in place. No route changes anything yet: a page that
does (the review of a blind sample) is a blueprint of its own, registered in `create_app`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from http import HTTPStatus

from flask import Flask, Response, render_template, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from werkzeug.exceptions import HTTPException

from monitor.status import Status
from monitor.web import figures
from monitor.web.view import page

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PLACES = "There is / (status page), /api/status, /metrics, /healthz and /readyz."


def create_app(status: Callable[[], Status], registry: CollectorRegistry) -> Flask:
    """The application over a snapshot function and the registry that `/metrics` serves.

    `status` is called once a request, from several threads at once.
    """
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    for phrase in (figures.value, figures.duration, figures.count, figures.number, figures.clock):
        app.add_template_filter(phrase)
    for name in (figures.iso, figures.words):
        app.add_template_filter(name)
    app.after_request(_secure)
    app.register_error_handler(HTTPException, _plain_error)

    @app.get("/")
    def status_page() -> str:
        return render_template("status.html", page=page(status()))

    @app.get("/board")
    def board() -> str:
        """The status page's changing part alone, for the script that refreshes it."""
        return render_template("board.html", page=page(status()))

    @app.get("/api/status")
    def api_status() -> Response:
        return Response(status().model_dump_json(), mimetype="application/json")

    @app.get("/metrics")
    def metrics() -> Response:
        return _exposition(registry)

    @app.get("/healthz")
    @app.get("/readyz")
    def health() -> Response:
        now = status()
        if now.healthy:
            return _plain("ok", HTTPStatus.OK)
        return _plain(now.problem or "unhealthy, for a reason not given", HTTPStatus.SERVICE_UNAVAILABLE)

    return app


def _exposition(registry: CollectorRegistry) -> Response:
    """The registry in the format that the caller prefers: OpenMetrics or Prometheus text, gzipped or not."""
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    names = request.args.getlist("name[]")
    body = encode(registry.restricted_registry(names) if names else registry)
    response = Response(body, content_type=content_type)
    response.vary.update(("Accept", "Accept-Encoding"))
    if gzip_accepted(request.headers.get("Accept-Encoding", "")):
        response.set_data(gzip.compress(body, compresslevel=1))
        response.content_encoding = "gzip"
    return response


def _plain(text: str, code: int) -> Response:
    return Response(text + "\n", status=code, content_type="text/plain; charset=utf-8")


def _plain_error(error: HTTPException) -> Response:
    """Every error in plain words; Flask has logged what was unexpected."""
    if error.code == HTTPStatus.NOT_FOUND:
        response = _plain(f"Nothing stands at {request.path}. {_PLACES}", error.code)
    elif error.code == HTTPStatus.INTERNAL_SERVER_ERROR:
        response = _plain("This page could not be made; the log of the sidecar says why.", error.code)
    else:
        code = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
        response = _plain(f"{error.name}: {error.description}", code)
    for name, text in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            response.headers[name] = text
    return response


def _secure(response: Response) -> Response:
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response
