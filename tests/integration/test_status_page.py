"""The status page in a real Chromium, served by the real server."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import web_scenes
from browser import rendered, screenshot
from prometheus_client import CollectorRegistry

from monitor.status import Status
from monitor.web import WebServer, WebSettings, create_app

pytestmark = [pytest.mark.part("chromium")]


class Served:
    """The page of one status, or of a first and a later one: what is shown once, then what has become of it."""

    def __init__(self) -> None:
        self.first = self.later = web_scenes.incident()
        self.calls = 0

    def show(self, first: Status, later: Status | None = None) -> None:
        self.first, self.later = first, later or first

    def status(self) -> Status:
        self.calls += 1
        return self.first if self.calls == 1 else self.later


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    with WebServer(WebSettings(port=0), create_app(served.status, CollectorRegistry())) as web:
        yield f"http://127.0.0.1:{web.port}/"


def png_size(path: Path) -> tuple[int, int]:
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", header[16:24])
    return width, height


@pytest.mark.parametrize(
    ("scene", "width", "dark"),
    [
        ("incident", 1280, False),
        ("incident", 1280, True),
        ("incident", 390, False),
        ("quiet", 1280, False),
        ("fresh", 390, True),
    ],
)
def test_the_page_draws_without_a_word_on_the_console(
    scene: str, width: int, dark: bool, url: str, served: Served, tmp_path: Path
) -> None:
    served.show(getattr(web_scenes, scene)())
    picture = tmp_path / "page.png"
    assert screenshot(url, picture, width, 1600, dark=dark) == []
    assert png_size(picture) == (width, 1600)
    assert picture.stat().st_size > 20_000, "a blank page is smaller"


def test_the_script_refreshes_the_page_in_place(url: str, served: Served) -> None:
    served.show(web_scenes.incident(), web_scenes.quiet())
    document, console = rendered(url, after_ms=5000)
    assert console == []
    assert 'data-refreshed="' in document
    assert "<title>All 6 guardrails hold – Groundwatch</title>" in document
    assert "is firing on all traffic" not in document


def test_a_page_whose_server_fails_says_that_it_is_old(url: str, served: Served) -> None:
    served.show(web_scenes.quiet())
    served.later = None  # type: ignore[assignment]
    document, _ = rendered(url, after_ms=5000)
    assert "Connection lost (the sidecar answered 500). What stands below is old; trying again." in document
    assert "All 6 guardrails hold" in document
