"""A real headless Chromium: what a page looks like, and what it becomes once its scripts have run."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from parts import find

_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
_DARK = "--blink-settings=preferredColorScheme=0"
_LIGHT = "--blink-settings=preferredColorScheme=1"
_CONSOLE = re.compile(r"^.*:CONSOLE.*$", re.MULTILINE)


def screenshot(url: str, path: Path, width: int, height: int, *, dark: bool = False) -> list[str]:
    """Write what a window of this size (CSS pixels) shows as PNG; gives what the page wrote to the console."""
    arguments = [f"--window-size={width},{height}", f"--screenshot={path}", _DARK if dark else _LIGHT]
    done = _run(url, arguments)
    if not path.is_file():
        raise RuntimeError(f"Chromium took no picture of {url}: {done.stderr[-2000:]}")
    return _CONSOLE.findall(done.stderr)


def rendered(url: str, after_ms: int) -> tuple[str, list[str]]:
    """The document as it stands after so many milliseconds of page time, and what it wrote to the console."""
    done = _run(url, [f"--virtual-time-budget={after_ms}", "--dump-dom"])
    return done.stdout, _CONSOLE.findall(done.stderr)


def _run(url: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    found = find("chromium")
    if found is None:
        raise RuntimeError("part missing: chromium")
    # Chromium may still write to its profile for a moment after it has ended.
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        command = [str(found), *_QUIET, f"--user-data-dir={profile}", *arguments, url]
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=90, check=True
        )
