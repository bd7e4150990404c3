"""The MMD engine beside alibi-detect's MMDDrift, in turn in one process on one thread: `make bench-drift`.

Prints one JSON line a figure (figure, ours, peer, ratio, goal, ok), then a table. Times are medians of processor
seconds of the one thread, which other load on the machine hardly moves; on an idle core they are wall seconds. Both
sides have one bandwidth (the peer's own) and the same permutations, B = 1000; the rows named `three_bandwidths` are
ours as the product runs it. At S2 the peer runs with few permutations, from which its cost a permutation is scaled to
B = 1000. Not in our times: drawing the labels, once for all tests of a shape. Not in the peer's: fitting its reference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import monitor  # noqa: F401 (names the BLAS kernel, as the program does, before numpy is imported)

# isort: split
import numpy as np

from detectors.mmd import permutation_test
from detectors.mmd_rolling import RollingMmd

PERMUTATIONS = 1000
SHAPES = {"S1": (1000, 500, 384), "S2": (5000, 1000, 768)}
SCALED_FROM = {"S2": 20}
GOALS = {
    "one_shot_S1": 150.0,
    "one_shot_S2": 150.0,
    "rolling_10_S1": 4_000.0,
    "rolling_10_S2": 20_000.0,
    "rolling_1_S1": 20_000.0,
}


def seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def line(
    figure: str, ours: float, peer: float | None, goal: float | None, *, least: bool = True, **more: object
) -> dict[str, Any]:
    """One figure: ratio is peer / ours where the ratio must be at least the goal, ours / peer where at most."""
    ratio = None if peer is None else (peer / ours if least else ours / peer)
    ok = None if goal is None or ratio is None else bool(ratio >= goal if least else ratio <= goal)
    row = {"figure": figure, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "ok": ok, **more}
    print(json.dumps(row), flush=True)
    return row


def sample(shape: str) -> tuple[np.ndarray, np.ndarray]:
    n, m, d = SHAPES[shape]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(size=(n, d), dtype=np.float32)
    y = rng.standard_normal(size=(m, d), dtype=np.float32)
    return x, y


def peer_class() -> Any:
    """alibi-detect's MMDDrift on one thread, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
            from alibi_detect.cd import MMDDrift
    except ImportError:
        return None
    torch.set_num_threads(1)
    return MMDDrift


def permuted_by_peer(seed: int, n: int, m: int, permutations: int) -> np.ndarray:
    """The labels that torch.randperm gives MMDDrift from this seed."""
    import torch

    torch.manual_seed(seed)
    labels = np.zeros((permutations, n + m), dtype=np.bool_)
    for row in labels:
        row[torch.randperm(n + m).numpy()[-m:]] = True
    return labels


class Peer:
    """MMDDrift fitted to a reference: its answer and its time for B permutations."""

    def __init__(self, drift: Any, shape: str, x: np.ndarray) -> None:
        self.permutations = SCALED_FROM.get(shape, PERMUTATIONS)
        self._full = drift(x, backend="pytorch", n_permutations=self.permutations)
        self._bare = drift(x, backend="pytorch", n_permutations=1)
        self.gamma = float(1.0 / (2.0 * self._full._detector.kernel.sigma.item() ** 2))

    def run(self, y: np.ndarray, seed: int) -> tuple[float, float]:
        """Seconds for B = 1000 and the p-value of what really ran."""
        import torch

        torch.manual_seed(seed)
        answer: dict[str, Any] = {}
        spent = seconds(lambda: answer.update(self._full.predict(y)["data"]))
        if self.permutations < PERMUTATIONS:
            bare = seconds(lambda: self._bare.predict(y))
            spent = bare + (spent - bare) / (self.permutations - 1) * (PERMUTATIONS - 1)
        return spent, float(answer["p_val"])


def stepped(rolling: RollingMmd, batch: int, d: int, steps: int, seed: int) -> list[float]:
    rows = np.random.default_rng(seed).standard_normal(size=(steps, batch, d), dtype=np.float32)

    def step(new: np.ndarray) -> None:
        rolling.push(new)
        rolling.test()

    return [seconds(lambda new=new: step(new)) for new in rows]  # type: ignore[misc]


def compare(shape: str, rounds: int, drift: Any) -> list[dict[str, Any]]:
    n, m, d = SHAPES[shape]
    x, y = sample(shape)
    peer = None if drift is None else Peer(drift, shape, x)
    gamma = peer.gamma if peer else 1.0 / (2.0 * d)
    rolling = {
        k: RollingMmd(x, m, permutations=PERMUTATIONS, seed=0, gamma=gamma, bandwidths=k) for k in (1, 3)
    }
    for engine in rolling.values():
        engine.push(y)
    names = (
        "one_shot",
        "one_shot_three_bandwidths",
        "rolling_10",
        "rolling_10_three_bandwidths",
        "rolling_1",
    )
    times: dict[str, list[float]] = {name: [] for name in (*names, "peer")}
    apart = 0.0
    for turn in range(rounds):
        labels = np.random.default_rng(turn).permuted(
            np.tile(np.arange(n + m) >= n, (PERMUTATIONS, 1)), axis=1
        )
        if peer is not None:
            spent, p = peer.run(y, turn)
            times["peer"].append(spent)
            if peer.permutations == PERMUTATIONS:
                labels = permuted_by_peer(turn, n, m, PERMUTATIONS)
                ours = permutation_test(x, y, seed=0, gamma=gamma, bandwidths=1, labels=labels)
                apart = max(apart, abs(ours.p_value * (PERMUTATIONS + 1) - 1 - p * PERMUTATIONS))
        for count, name in ((1, "one_shot"), (3, "one_shot_three_bandwidths")):
            times[name].append(
                seconds(
                    lambda k=count, s=labels: permutation_test(
                        x, y, seed=0, gamma=gamma, bandwidths=k, labels=s
                    )
                )  # type: ignore[misc]
            )
        times["rolling_10"] += stepped(rolling[1], 10, d, 40, turn)
        times["rolling_10_three_bandwidths"] += stepped(rolling[3], 10, d, 20, turn)
        times["rolling_1"] += stepped(rolling[1], 1, d, 80, turn)
    theirs = median(times["peer"]) if times["peer"] else None
    scaled = {"peer_scaled_from_permutations": SCALED_FROM[shape]} if shape in SCALED_FROM else {}
    rows = [
        line(f"{name}_{shape}", median(times[name]), theirs, GOALS.get(f"{name}_{shape}"), **scaled)
        for name in names
    ]
    if peer is not None and peer.permutations == PERMUTATIONS:
        row = {
            "figure": f"p_apart_in_permutations_{shape}",
            "ours": round(apart, 3),
            "peer": None,
            "ratio": None,
        }
        rows.append({**row, "goal": 1.0, "ok": apart <= 1.01})
        print(json.dumps(rows[-1]), flush=True)
    return [*rows, limit(shape, 10, median(times["rolling_10"]))]


def gemm_rate() -> float:
    """Single-precision operations a second of numpy's matrix product."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size=(1500, 1500), dtype=np.float32) for _ in range(2))
    a @ b
    return 2.0 * 1500**3 / median(seconds(lambda: a @ b) for _ in range(5))


def read_rate() -> float:
    """Bytes a second that one thread reads from memory."""
    rows = np.ones(16_000_000, dtype=np.float32)
    rows.max()
    return rows.nbytes / median(seconds(rows.max) for _ in range(5))


def limit(shape: str, batch: int, ours: float) -> dict[str, Any]:
    """A rolling step against what its operations and its bytes cost at the measured rates, whichever is more."""
    n, m, d = SHAPES[shape]
    operations = 2.0 * batch * (n + m) * (d + PERMUTATIONS)
    read = 4.0 * (n + m) * (d + PERMUTATIONS)
    gemm, memory = gemm_rate(), read_rate()
    floor = max(operations / gemm, read / memory)
    rates = {"gemm_gflops": round(gemm / 1e9, 1), "read_gbytes": round(memory / 1e9, 1)}
    return line(
        f"rolling_{batch}_{shape}_to_limit", ours, floor, 3.0 if shape == "S2" else None, least=False, **rates
    )


def memory(who: str) -> None:
    """Peak resident megabytes above the imports for S2: data, fit and one test. Run in a process of its own."""
    # The first product maps the library's own buffers, which belong to the import.
    square = np.ones((512, 512), dtype=np.float32)
    square @ square
    if who == "alibi":
        import torch

        drift = peer_class()
        torch.from_numpy(square) @ torch.from_numpy(square)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    x, y = sample("S2")
    if who == "alibi":
        drift(x, backend="pytorch", n_permutations=2).predict(y)
    elif who == "one_shot":
        permutation_test(x, y, permutations=PERMUTATIONS, seed=0, bandwidths=1)
    else:
        rolling = RollingMmd(x, len(y), permutations=PERMUTATIONS, seed=0, bandwidths=int(who[-1]))
        del x  # both sides keep what they need of it
        rolling.push(y)
        for start in range(0, 100, 10):
            rolling.push(y[start : start + 10])
            rolling.test()
    print((_status("VmHWM") - before) / 1024)


def _status(key: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(row.split()[1] for row in text.splitlines() if row.startswith(f"{key}:")))


def compare_memory(drift: Any) -> list[dict[str, Any]]:
    def peak(who: str) -> float:
        command = [sys.executable, __file__, "--memory", who]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout.splitlines()[-1])

    theirs = None if drift is None else peak("alibi")
    goals = {"rolling_1": 10.0, "rolling_3": None, "one_shot": 10.0}
    names = {"rolling_1": "rolling", "rolling_3": "rolling_three_bandwidths", "one_shot": "one_shot"}
    return [line(f"memory_{names[who]}_S2_mb", peak(who), theirs, goal) for who, goal in goals.items()]


def blas_kernel() -> str:
    """Which kernel numpy's BLAS runs: it decides most of our times."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown (threadpoolctl is not installed)"
    found = [
        part
        for part in threadpool_info()
        if part["internal_api"] == "openblas" and "numpy" in part["filepath"]
    ]
    return ", ".join(f"OpenBLAS {part['version']} {part['architecture']}" for part in found) or "no OpenBLAS"


def table(rows: list[dict[str, Any]]) -> str:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    lines = [f"{'figure':36} {'ours':>10} {'peer':>10} {'ratio':>10} {'goal':>8}  ok"]
    for row in rows:
        numbers = [shown(row[key]) for key in ("ours", "peer", "ratio", "goal")]
        verdict = {None: "", True: "yes", False: "NO"}[row["ok"]]
        lines.append(
            f"{row['figure']:36} {numbers[0]:>10} {numbers[1]:>10} {numbers[2]:>10} {numbers[3]:>8}  {verdict}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--memory", choices=["alibi", "one_shot", "rolling_1", "rolling_3"], help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.memory)
        return 0
    drift = peer_class()
    rows = [row for shape in SHAPES for row in compare(shape, arguments.rounds, drift)]
    rows += compare_memory(drift)
    print(
        f"\n{table(rows)}\n\nnumpy {np.__version__}, {blas_kernel()}; peer: "
        + ("alibi-detect MMDDrift" if drift else "not installed")
    )
    return 0 if all(row["ok"] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
