"""The whole demo as a user runs it, and the picture of its status page that the README shows."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import screenshot
from receivers import wait_for
from sidecars import free_port

PICTURE = Path(__file__).resolve().parents[1] / "golden" / "status_page.png"
WIDTH, HEIGHT = 1280, 1500


@contextmanager
def demo(report: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "monitor.cli", "demo", "--duration", "90s"]
    command += ["--report", str(report), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.part("chromium")
def test_the_incident_is_seen_named_and_shown(tmp_path: Path) -> None:
    report, port = tmp_path / "report.json", free_port()
    picture = PICTURE if os.environ.get("UPDATE_PICTURES") else tmp_path / "status_page.png"
    with demo(report, port) as process:
        wait_for(lambda: firing(port, "filter_exclusion"), within_s=80)
        assert screenshot(f"http://127.0.0.1:{port}/", picture, WIDTH, HEIGHT) == []
        assert process.wait(120) == 0
    assert size_of(picture) == (WIDTH, HEIGHT)
    found = json.loads(report.read_text())
    assert found["passed"]
    [filter_alert] = [alert for alert in found["alerts"] if alert["guardrail"] == "filter_exclusion"]
    assert "locale = en-US" in json.dumps(filter_alert)


def test_the_readme_shows_a_picture_of_the_page() -> None:
    assert "tests/golden/status_page.png" in (PICTURE.parents[2] / "README.md").read_text()
    assert size_of(PICTURE) == (WIDTH, HEIGHT)


def firing(port: int, guardrail: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status", timeout=5) as reply:
            status: dict[str, Any] = json.load(reply)
    except OSError:
        return False
    return any(row["guardrail"] == guardrail and row["state"] == "firing" for row in status["guardrails"])


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    header = picture.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", header[16:])
    return width, height
