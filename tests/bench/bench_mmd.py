"""How long one permutation test takes, ours and alibi-detect's in turn in one process: prints the ratios.

Run: python tests/bench/bench_mmd.py [rounds]. Ours is timed with fresh relabellings; alibi-detect runs with as many
permutations as ours. Without alibi-detect (extra `alibi`) only our own times are printed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from detectors.mmd import MmdReference, permutation_labels, permutation_test
from detectors.query_drift import QueryDriftDetector, QueryDriftSettings

PERMUTATIONS = 1000
SHAPES = {"default": (500, 100, 256), "S1": (1000, 500, 384)}


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def peer_of(x: np.ndarray) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
            from alibi_detect.cd import MMDDrift
    except ImportError:
        return None
    torch.set_num_threads(1)
    return MMDDrift(x, backend="pytorch", n_permutations=PERMUTATIONS)


def compare(shape: str, rounds: int) -> None:
    n, m, d = SHAPES[shape]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = rng.normal(size=(m, d)).astype(np.float32)
    reference, peer = MmdReference(x), peer_of(x)
    times: dict[str, list[float]] = {"one_shot": [], "cached_reference": [], "alibi": []}
    for seed in range(rounds):
        times["one_shot"].append(
            seconds(lambda seed=seed: permutation_test(x, y, permutations=PERMUTATIONS, seed=seed))
        )
        times["cached_reference"].append(
            seconds(lambda: reference.test(y, permutation_labels(n, m, PERMUTATIONS, rng)))
        )
        if peer is not None:
            times["alibi"].append(seconds(lambda: peer.predict(y)))
    for figure in ("one_shot", "cached_reference"):
        ours = median(times[figure])
        theirs = median(times["alibi"]) if times["alibi"] else None
        ratio = theirs / ours if theirs else None
        print(json.dumps({"figure": f"{figure}_{shape}_s", "ours": ours, "peer": theirs, "ratio": ratio}))


def per_unit() -> None:
    """The whole detector with a look at each unit, as the sidecar uses it."""
    n, m, d = SHAPES["default"]
    rows = np.random.default_rng(0).normal(size=(n + 2 * m, d)).astype(np.float32)
    detector = QueryDriftDetector(QueryDriftSettings(reference_size=n, window_size=m))
    detector.fit(rows[:n])
    for row in rows[n : n + m]:
        detector.push(row[None])
    stepped = [seconds(lambda row=row: (detector.push(row[None]), detector.test())) for row in rows[n + m :]]
    print(
        json.dumps(
            {"figure": "push_and_test_default_s", "ours": median(stepped), "peer": None, "ratio": None}
        )
    )


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name in SHAPES:
        compare(name, rounds)
    per_unit()
