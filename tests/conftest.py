"""What every test may use: the handed fixture sets and the parts that are no Python packages, where they are at hand.

A test that lacks one skips and the run ends by naming what was missing; with REQUIRE_PARTS=1 it fails.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings
from parts import find

settings.register_profile("suite", deadline=None)  # what is slow on a busy machine is not wrong
settings.load_profile("suite")

SHARED = Path(__file__).resolve().parents[2] / "shared"
_SKIPPED = re.compile(r"part missing: (\w+)")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("part"):
        _require(*marker.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    missing = _SKIPPED.search(str(report.longrepr)) if report.skipped else None
    if missing and os.environ.get("REQUIRE_PARTS") == "1":
        report.outcome, report.longrepr = "failed", missing[0]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (str(report.longrepr) for report in terminalreporter.getreports("skipped"))
    missing = Counter(found[1] for text in reports if (found := _SKIPPED.search(text)))
    if missing:
        names = ", ".join(f"{name} ({tests} tests)" for name, tests in sorted(missing.items()))
        terminalreporter.section("parts missing")
        terminalreporter.line(f"not everything was tested; missing: {names}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The handed captures and data beside the checkout; tests that need them skip where they are absent."""
    return _require("shared")


@pytest.fixture(scope="session")
def part() -> Callable[[str], Path]:
    """The program of a part, by name; the test skips where it is missing."""
    return _require


def _require(name: str) -> Path:
    found = (SHARED if SHARED.is_dir() else None) if name == "shared" else find(name)
    if found is not None:
        return found
    pytest.skip(f"part missing: {name}")
