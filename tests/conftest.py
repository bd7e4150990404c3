"""What every test may use: the handed fixture sets, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The handed captures and data beside the checkout; tests that need them skip where they are absent."""
    if not SHARED.is_dir():
        pytest.skip("part missing: shared (the handed captures stand beside the checkout)")
    return SHARED
