"""Where the captures are, and what their manifest says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def directory(shared: Path) -> Path:
    return shared / "fixtures" / "otlp"


@pytest.fixture(scope="module")
def manifest(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((directory / "MANIFEST.json").read_text())
    return loaded
