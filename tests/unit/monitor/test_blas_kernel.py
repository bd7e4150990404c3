"""The kernel is named only where the processor's flags prove it, and it is one that the products are right on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from monitor import blas_kernel
from monitor.blas_kernel import choose, kernel_for

AVX2 = frozenset({"sse3", "avx", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("flags", "kernel"),
    [
        (AVX512, "SkylakeX"),
        (AVX512 - {"avx512vl"}, "Haswell"),
        (AVX2, "Haswell"),
        (AVX2 - {"fma"}, None),
        (frozenset(), None),
    ],
)
def test_a_kernel_needs_all_of_its_instructions(flags: frozenset[str], kernel: str | None) -> None:
    assert kernel_for(flags) == kernel


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before numpy is imported, with one that goes by a list of models."""
    monkeypatch.delitem(sys.modules, "numpy")
    monkeypatch.setattr(blas_kernel, "_lists_models", lambda: True)


@pytest.mark.usefixtures("early")
def test_all_processors_must_have_them(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags\t\t: {' '.join(AVX512)}\nbugs : x\nflags : {' '.join(AVX2)}\n")
    assert choose(environment, cpuinfo) == environment["OPENBLAS_CORETYPE"] == "Haswell"


@pytest.mark.usefixtures("early")
def test_what_the_user_chose_stays(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"flags : {' '.join(AVX2)}\n")
    environment = {"OPENBLAS_CORETYPE": "Zen"}
    assert choose(environment, cpuinfo) is None
    assert environment == {"OPENBLAS_CORETYPE": "Zen"}


@pytest.mark.usefixtures("early")
def test_an_unreadable_file_names_none(tmp_path: Path) -> None:
    assert choose({}, tmp_path / "absent") is None


def test_it_is_too_late_once_numpy_is_imported() -> None:
    environment: dict[str, str] = {}
    assert choose(environment) is None
    assert environment == {}


@pytest.mark.skipif(
    not np.__version__.startswith("1.") or sys.platform != "linux" or platform.machine() != "x86_64",
    reason="later ones choose by themselves",
)
def test_the_program_multiplies_with_the_kernel_it_named() -> None:
    code = (
        "import json, monitor, numpy as np; a = np.arange(4096.0).reshape(64, 64) % 7;"
        "print(json.dumps([monitor.BLAS_KERNEL, bool((a @ a == np.einsum('ij,jk->ik', a, a)).all())]))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [kernel_for(blas_kernel._flags(Path("/proc/cpuinfo"))), True]
