"""Control charts of a regeneration rate of 8 %: false alarms in 40 days in which nothing moved, hours until +3 points.

Run: make bench-charts, or python tests/bench/control_charts.py [trials].

Hourly counts of about 400 answers with a daily cycle of volume and rate and beta-binomial scatter. Every chart learns
from the same 14 days. The text-book charts take their limits as printed; ours asks replay for one a month.
"""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import numpy.typing as npt

from detectors.control_chart import ChartState, ControlChart, ControlChartSettings, step

LEARNT, NULL, SHIFTED = 14 * 24, 40 * 24, 4 * 24
RATE, SHIFT, UNITS, RHO = 0.08, 0.03, 400, 0.0035
Floats = npt.NDArray[np.float64]
Alarms = npt.NDArray[np.bool_]


def traffic(rng: np.random.Generator, hours: int, shift: float) -> tuple[Floats, Floats]:
    """Bad and total by hour, both (hours,)."""
    turn = 2 * math.pi * (np.arange(hours) % 24) / 24
    total = rng.poisson(UNITS * (1 + 0.5 * np.sin(turn))).astype(float)
    p = RATE * (1 + 0.25 * np.sin(turn + 1.0)) + shift
    spread = 1 / RHO - 1
    return rng.binomial(total.astype(int), rng.beta(p * spread, (1 - p) * spread)).astype(float), total


def textbook(kind: str, learnt: tuple[Floats, Floats], lived: tuple[Floats, Floats]) -> Alarms:
    """Where a chart with a text-book limit is out of control, (hours,); EWMA and CUSUM start anew after an alarm."""
    bad, total = learnt
    p = bad.sum() / total.sum()
    if kind in ("p-chart", "Laney p'"):
        scatter = (bad / total - p) / np.sqrt(p * (1 - p) / total)
        sigma = 1.0 if kind == "p-chart" else float(np.abs(np.diff(scatter)).mean() / 1.128)
        out: Alarms = np.abs(lived[0] / lived[1] - p) > 3 * sigma * np.sqrt(p * (1 - p) / lived[1])
        return out
    phase = np.arange(len(bad)) % 24
    rates = np.bincount(phase, bad) / np.bincount(phase, total)
    z = (bad / total - rates[phase]) / np.sqrt(rates[phase] * (1 - rates[phase]) / total)
    now = np.arange(len(lived[0])) % 24
    z_now = (lived[0] / lived[1] - rates[now]) / np.sqrt(rates[now] * (1 - rates[now]) / lived[1]) / z.std()
    settings = ControlChartSettings(kind="ewma" if kind == "EWMA" else "cusum", sides="both", reference=0.5)
    limit = np.array([2.962 if kind == "EWMA" else 5.0])
    sums, alarms = np.zeros((1, 2)), []
    for value in z_now:
        sums = step(sums, np.array([value]), settings, limit)
        alarms.append(bool(sums.max() > limit[0]))
        sums = np.zeros((1, 2)) if alarms[-1] else sums
    return np.array(alarms)


def replayed(
    settings: ControlChartSettings, learnt: tuple[Floats, Floats], lived: tuple[Floats, Floats]
) -> Alarms:
    """Where our chart raises an alarm."""
    chart = ControlChart(settings, settings.alarms_per_month)
    for hour, (bad, total) in enumerate(zip(*learnt, strict=True)):
        chart.put(hour, bad, total)
    raised, before = [], False
    for hour, (bad, total) in enumerate(zip(*lived, strict=True), LEARNT):
        now = chart.put(hour, bad, total).state is ChartState.ALARM
        raised.append(now and not before)
        before = now
    return np.array(raised)


def measure(name: str, trials: int) -> tuple[float, float]:
    """Mean false alarms in 40 null days, and median hours until the shift is seen (from a quiet start)."""
    alarms, delays = [], []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        learnt = traffic(rng, LEARNT, 0.0)
        null, moved = traffic(rng, NULL, 0.0), traffic(rng, SHIFTED, SHIFT)
        start = tuple(np.concatenate([a[:24], b]) for a, b in zip(null, moved, strict=True))
        found = []
        for lived in (null, (start[0], start[1])):
            if name.startswith("ours"):
                settings = ControlChartSettings.model_validate(OURS[name] | {"seed": seed})
                found.append(replayed(settings, learnt, lived))
            else:
                found.append(textbook(name, learnt, lived))
        alarms.append(float(found[0].sum()))
        seen = np.flatnonzero(found[1][24:])
        delays.append(float(seen[0] + 1) if len(seen) else math.inf)
    return float(np.mean(alarms)), float(np.median(delays))


OURS: dict[str, dict[str, object]] = {
    "ours CUSUM k=0.75": {"kind": "cusum"},
    "ours CUSUM k=0.5": {"kind": "cusum", "reference": 0.5},
    "ours EWMA 0.2": {"kind": "ewma"},
    "ours EWMA 0.3": {"kind": "ewma", "weight": 0.3},
}


def main(trials: int) -> int:
    lines, missed = [], 0
    budget = NULL / (30 * 24)
    for name in ("p-chart", "Laney p'", "EWMA", "CUSUM", *OURS):  # text-book ones look at both sides
        alarms, delay = measure(name, trials)
        ok = not name.startswith("ours") or alarms <= budget
        missed += not ok
        figure = {"figure": f"{name}: false alarms in 40 days", "ours": round(alarms, 2), "peer": None}
        print(json.dumps(figure | {"ratio": None, "goal": round(budget, 2), "ok": ok, "delay_h": delay}))
        lines.append(f"{name:20} {alarms:10.2f} {delay:10.1f}")
    print(f"\n{'chart':20} {'alarms/40d':>10} {'delay h':>10}", *lines, sep="\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
