"""Which OpenBLAS kernel numpy's matrix products run on, where the library would not know this processor.

The OpenBLAS in numpy 1.26 picks its kernel by a list of processor models that ends in 2023, and gives a processor that
is not on it (Emerald Rapids, model 207, for one) the SSE3 kernel of 2004: a fifth of the speed. numpy 2 knows them.
So: with numpy 1, on Linux and x86-64, name the kernel by the instructions that the kernel of the
operating system says may be used. A choice that is made already (OPENBLAS_CORETYPE is set) stays.

OpenBLAS reads the variable once, when numpy is first imported: this file imports nothing but the standard library.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import MutableMapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "OPENBLAS_CORETYPE"

_KERNELS = (
    ("SkylakeX", frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"})),
    ("Haswell", frozenset({"avx2", "fma"})),
)


def choose(environment: MutableMapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Set OPENBLAS_CORETYPE where that helps and is safe; gives the kernel that was named, else None."""
    if VARIABLE in environment or "numpy" in sys.modules or not _lists_models():
        return None
    kernel = kernel_for(_flags(cpuinfo))
    if kernel is not None:
        environment[VARIABLE] = kernel
    return kernel


def kernel_for(flags: frozenset[str]) -> str | None:
    """The widest kernel all of whose instructions are among a processor's flags; None where none is sure.

    >>> kernel_for(frozenset({"sse3", "avx2", "fma"}))
    'Haswell'
    """
    return next((kernel for kernel, needed in _KERNELS if needed <= flags), None)


def _lists_models() -> bool:
    """Whether numpy's OpenBLAS is one of those that go by a list of models."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return version("numpy").startswith("1.")
    except PackageNotFoundError:
        return False


def _flags(cpuinfo: Path) -> frozenset[str]:
    """What every processor of the machine can do."""
    try:
        lines = cpuinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    processors = [frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")]
    return frozenset.intersection(*processors) if processors else frozenset()
