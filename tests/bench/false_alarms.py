"""False alarms of unshifted months and delays after shifts: query drift's two alarms under one budget.

Each stream is a month of sessions, one intent each, of queries that the reference does not hold (CLINC150), at a budget
of one false alarm a month over both detectors. The alarms are those of the service; the window that is only displayed
is left out, which is what takes the time there.

    python tests/bench/false_alarms.py QUERIES.jsonl [VECTORS.npz] [--streams 40] [--queries 50000]

QUERIES.jsonl has `query`, `intent` and `domain` a line, intent `oos` for out-of-scope ones; VECTORS.npz their `vectors`
in that order, else the built-in encoder makes them. One JSON line a figure, then a table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from detectors.alarm_replay import AlarmReplay
from detectors.drift_settings import QueryDriftSettings
from detectors.embedding import HashedNgramEncoder
from detectors.false_alarm_budget import FalseAlarmBudget
from detectors.vectors import Units

Rows = npt.NDArray[Any]
REFERENCE, SLOWDOWN = 1000, 10.0
MEAN_LENGTHS = (1.0, 2.0, 3.0, 8.0)
SHIFTS = (("domain surge", 0.3), ("out of scope", 0.2), ("out of scope", 0.1), ("out of scope", 0.05))
SURGE = "banking"


class Corpus:
    """Queries by intent, walked through in shuffled rounds: none comes twice in a span."""

    def __init__(self, queries: Path, vectors: Path | None, seed: int) -> None:
        lines = [json.loads(line) for line in queries.read_text(encoding="utf-8").splitlines()]
        self.vectors: Rows = (
            HashedNgramEncoder().encode([line["query"] for line in lines])
            if vectors is None
            else np.load(vectors)["vectors"]
        ).astype(np.float32)
        self._rng = rng = np.random.default_rng(seed)
        intents = np.array([line["intent"] for line in lines])
        domains = {line["intent"]: line["domain"] for line in lines}
        self.names = sorted(set(intents) - {"oos"})
        self.surging = [name for name in self.names if domains[name] == SURGE]
        of = {name: rng.permutation(np.flatnonzero(intents == name)) for name in [*self.names, "oos"]}
        cut = {name: len(rows) // 2 for name, rows in of.items()}
        self._parts = (
            {name: rows[: cut[name]] for name, rows in of.items()},
            {name: rows[cut[name] :] for name, rows in of.items()},
        )
        self._at = (dict.fromkeys(of, 0), dict.fromkeys(of, 0))

    def sessions(self, part: int, mean_length: float, kind: str = "", share: float = 0.0) -> Iterator[Rows]:
        """Sessions of the first part (references) or of the second (streams), for ever."""
        rng, rows, at = self._rng, self._parts[part], self._at[part]
        while True:
            moved = rng.random() < share
            name = (
                "oos"
                if moved and kind == "out of scope"
                else str(rng.choice(self.surging if moved else self.names))
            )
            picked = []
            for _ in range(min(int(rng.geometric(1.0 / mean_length)), 50)):
                if at[name] == len(rows[name]):
                    rows[name], at[name] = rng.permutation(rows[name]), 0
                picked.append(rows[name][at[name]])
                at[name] += 1
            yield self.vectors[picked]


SETTINGS = QueryDriftSettings(slowdown=SLOWDOWN)


class Alarms(AlarmReplay):
    """Both alarms on one reference, measured; how often they are wrong, and how soon right."""

    def false_alarms(self, sessions: Iterator[Rows], queries: int) -> tuple[int, int]:
        """How often the mix alarm and the novelty alarm go on while this many queries come."""
        self.anew()
        seen, count = 0, [0, 0]
        on = (False, False)
        while seen < queries:
            unit = next(sessions)
            seen += len(unit)
            now = self.push(unit)
            for which, (is_on, was) in enumerate(zip(now, on, strict=True)):
                count[which] += is_on and not was
            on = now
        return count[0], count[1]

    def delay(self, calm: Iterator[Rows], shifted: Iterator[Rows], most: int) -> float:
        """Queries from the shift to the first alarm; infinite where there is none among so many, NaN where an alarm
        was on before the shift, which has then no delay."""
        self.anew()
        on = False
        for _ in range(300):
            on = any(self.push(next(calm)))
        if on:
            return float("nan")
        seen = 0
        while seen < most:
            unit = next(shifted)
            seen += len(unit)
            if any(self.push(unit)):
                return float(seen)
        return float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--references", type=int, default=10)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--delays", type=int, default=4, help="streams of each shift and reference")
    wanted = parser.parse_args()
    vectors = wanted.files[1] if len(wanted.files) > 1 else None
    per_reference = -(-wanted.streams // wanted.references)
    alarms = np.zeros((wanted.references, per_reference))
    delays: dict[tuple[str, float], list[float]] = {shift: [] for shift in SHIFTS}
    for number in range(wanted.references):
        corpus = Corpus(wanted.files[0], vectors, number)
        length = MEAN_LENGTHS[number % len(MEAN_LENGTHS)]
        before = corpus.sessions(0, length)
        month = wanted.queries / length
        budget = FalseAlarmBudget().run_length(month / 30.0, alarms=2)
        reference = Units.of([next(before) for _ in range(REFERENCE)])
        both = Alarms(reference, SETTINGS.model_copy(update={"seed": number}), budget)
        calm = corpus.sessions(1, length)
        counted = [both.false_alarms(calm, wanted.queries) for _ in range(per_reference)]
        alarms[number] = [mix + novelty for mix, novelty in counted]
        if length == 1.0:
            for shift in SHIFTS:
                shifted = corpus.sessions(1, length, *shift)
                delays[shift] += [both.delay(calm, shifted, 10_000) for _ in range(wanted.delays)]
        print(
            json.dumps({"reference": number, "mean_length": length, "mix_and_novelty": counted}),
            flush=True,
        )
    tell(alarms, delays)


def tell(alarms: Rows, delays: dict[tuple[str, float], list[float]]) -> None:
    total, streams = int(alarms.sum()), alarms.size
    bound = float(chi2.ppf(0.95, 2 * total + 2)) / 2.0 / streams
    figures: list[dict[str, object]] = [
        {
            "figure": "false alarms a month",
            "ours": total / streams,
            "upper_95": round(bound, 3),
            "worst_reference": float(alarms.mean(axis=1).max()),
            "streams": streams,
            "goal": 1.0,
            "ok": total / streams <= 1.0,
        }
    ]
    for (kind, share), all_found in delays.items():
        found = [delay for delay in all_found if not np.isnan(delay)]
        if found:
            low, high = np.quantile(found, 0.5, method="higher"), np.quantile(found, 0.9, method="higher")
            name = f"delay after {share:.0%} {kind}, queries"
            counts = {"streams": len(found), "on_before": len(all_found) - len(found)}
            figures.append({"figure": name, "median": float(low), "p90": float(high), **counts})
    for figure in figures:
        print(json.dumps(figure))
    for figure in figures:
        print("  ".join(f"{key} {value}" for key, value in figure.items()))


if __name__ == "__main__":
    main()
