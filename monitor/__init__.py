"""Wiring and running: configuration, the pipeline, the store, the metrics, the status page, the command line."""

import os

from monitor import blas_kernel

# A sidecar is a guest on its machine. OpenBLAS would spin on every core for matrices that one core does in
# milliseconds, and it reads this once, when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BLAS_KERNEL = blas_kernel.choose(os.environ)
"""The OpenBLAS kernel that was named for numpy; None where it chooses by itself."""
