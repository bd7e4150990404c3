"""The status page, the metrics endpoint and the health checks over HTTP."""

from monitor.web.app import create_app
from monitor.web.server import WebServer, WebSettings

__all__ = ["WebServer", "WebSettings", "create_app"]
