"""The server's life: port, start, stop, deadline."""

from __future__ import annotations

import http.client
import socket
import threading
import time

import pytest
import web_scenes
from prometheus_client import CollectorRegistry

from monitor.web import WebServer, WebSettings, create_app


def server(**settings: object) -> WebServer:
    app = create_app(web_scenes.quiet, CollectorRegistry())
    return WebServer(WebSettings(**{"port": 0, **settings}), app)  # type: ignore[arg-type]


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_it_serves_on_a_free_port_until_it_is_stopped() -> None:
    with server() as web:
        port = web.port
        assert port > 0
        assert get(port, "/healthz") == (200, b"ok\n")
    with pytest.raises(ConnectionRefusedError):
        get(port, "/healthz")


def test_starting_twice_stopping_twice_and_stopping_before_start_are_harmless() -> None:
    web = server()
    web.stop()
    web.start()
    port = web.port
    web.start()
    assert web.port == port
    web.stop()
    web.stop()
    web.start()
    assert get(web.port, "/healthz")[0] == 200
    web.stop()


def test_a_taken_port_is_an_error_at_start_and_leaves_nothing_behind() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        web = server(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            web.start()
        web.stop()


def test_switched_off_it_opens_no_port() -> None:
    web = server(enabled=False)
    web.start()
    assert web.port == 0
    web.stop()


def test_no_thread_outlives_the_server() -> None:
    before = set(threading.enumerate())
    with server() as web:
        get(web.port, "/")
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(threading.enumerate()) - before


def test_a_stuck_request_does_not_hold_up_the_stop() -> None:
    release, stuck = threading.Event(), threading.Event()

    def slow() -> object:
        stuck.set()
        release.wait(30)
        return web_scenes.quiet()

    web = WebServer(WebSettings(port=0), create_app(slow, CollectorRegistry()))  # type: ignore[arg-type]
    web.start()
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    connection.request("GET", "/healthz")
    assert stuck.wait(10)
    began = time.monotonic()
    web.stop(deadline_s=1.0)
    took = time.monotonic() - began
    release.set()
    connection.close()
    assert took < 3.0


def test_many_readers_at_once_each_get_the_whole_page() -> None:
    sizes: list[int] = []
    with server() as web:
        readers = [
            threading.Thread(target=lambda: sizes.append(len(get(web.port, "/")[1]))) for _ in range(20)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert len(sizes) == 20
    assert len(set(sizes)) == 1


def test_settings_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="extra"):
        WebSettings(prot=1)  # type: ignore[call-arg]
