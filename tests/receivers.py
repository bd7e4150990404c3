"""Real HTTP receivers on this machine, for the tests of what is sent out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Receiver:
    """A real HTTP server that keeps every JSON body that was POSTed to it.

    `statuses` are the answers to the first requests, in order; after them it answers 200. `judge` may refuse a body.
    """

    def __init__(
        self, *, port: int = 0, statuses: Sequence[int] = (), judge: Callable[[Any], int] = lambda body: 200
    ) -> None:
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self._statuses = list(statuses)
        self._judge = judge
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = outer._statuses.pop(0) if outer._statuses else outer._judge(body)
                if status == 200:
                    outer.headers.append({name.lower(): text for name, text in self.headers.items()})
                    outer.bodies.append(body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """The test reads the bodies; nobody reads a log."""

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def wait_for(look: Callable[[], T], *, within_s: float = 10.0) -> T:
    """The first truthy thing that `look` gives; fails the test when none comes in time."""
    end = time.monotonic() + within_s
    while not (seen := look()):
        if time.monotonic() > end:
            raise AssertionError(f"nothing came within {within_s:g} s; last seen: {seen!r}")
        time.sleep(0.02)
    return seen
