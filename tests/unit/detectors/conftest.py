"""A tiny HHEM checkpoint for the tests of its loader; they skip where the extra is not installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HELPER = Path(__file__).resolve().parents[2] / "hhem_checkpoint.py"


@pytest.fixture(scope="session")
def hhem_checkpoint() -> ModuleType:
    """The module that makes checkpoints in the published layout."""
    for library in ("torch", "transformers", "tokenizers", "safetensors"):
        if importlib.util.find_spec(library) is None:  # a broken installation must fail, not skip
            pytest.skip("needs the extra hhem")
    spec = importlib.util.spec_from_file_location("hhem_checkpoint", HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tiny(hhem_checkpoint: ModuleType, tmp_path: Path) -> Any:
    """A fresh tiny checkpoint that a test may spoil."""
    return hhem_checkpoint.make(tmp_path)
