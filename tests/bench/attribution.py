"""How well a drift is explained: doubled intents of 150, found or falsely accused, in CLINC150's own queries.

Run: make bench-attribution, or PYTHONPATH=tests python tests/bench/attribution.py [trials].

Each trial draws reference and current units (sessions about one intent, of mean length 1.5) from disjoint halves of the
queries; in the current window ten intents of 150 have twice their share. Vectors are the built-in encoder's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from detectors.attribution import AttributionSettings, QueryUnit, explain
from detectors.embedding import HashedNgramEncoder
from detectors.explanation import MovedBy

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "clinc150_queries.jsonl"
REFERENCE, CURRENT, DOUBLED = 12_000, 12_000, 10
MEAN_LENGTH = 1.5
RATE = 0.1


class Pool:
    """Queries by intent; each half of a trial draws from its own."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line for line in lines if line["intent"] != "oos"]
        self._texts = [line["query"] for line in lines]
        self._vectors = HashedNgramEncoder().encode(self._texts)
        intents = np.array([line["intent"] for line in lines])
        self.intents = sorted(set(intents.tolist()))
        self._rows = [np.flatnonzero(intents == intent) for intent in self.intents]

    def units(
        self, rng: np.random.Generator, count: int, weights: npt.NDArray[np.float64], half: int
    ) -> list[QueryUnit]:
        found = []
        for intent in rng.choice(len(self.intents), count, p=weights / weights.sum()):
            rows = rng.choice(self._rows[intent][half::2], int(rng.geometric(1.0 / MEAN_LENGTH)))
            slices = ({"intent": self.intents[intent]},) * len(rows)
            found.append(QueryUnit(self._vectors[rows], tuple(self._texts[row] for row in rows), slices))
        return found


def named(pool: Pool, seed: int, doubled: int, settings: AttributionSettings) -> tuple[set[str], set[str]]:
    """The intents that a trial names, whichever way they are said to have gone, and those that grew."""
    rng = np.random.default_rng(seed)
    weights = np.ones(len(pool.intents))
    grown = rng.choice(len(weights), doubled, replace=False)
    reference = pool.units(rng, REFERENCE, weights, 0)
    weights[grown] = 2.0
    explanation = explain(reference, pool.units(rng, CURRENT, weights, 1), settings, seed=seed)
    moved = {
        one.value
        for one in explanation.findings
        if one.kind is MovedBy.MIX and one.now.rate > one.before.rate
    }
    if not doubled:
        moved = {one.value for one in explanation.findings}
    return moved, {pool.intents[i] for i in grown}


def main(trials: int) -> int:
    if not DATA.exists():
        print(f"no queries at {DATA}: nothing to measure", file=sys.stderr)
        return 0
    pool = Pool(DATA)
    settings = AttributionSettings(false_discovery_rate=RATE, topics=0, meaning_slices=0)
    moved = [named(pool, seed, DOUBLED, settings) for seed in range(trials)]
    null = [named(pool, 10_000 + seed, 0, settings)[0] for seed in range(trials)]
    false_share = float(np.mean([len(found - grown) / max(len(found), 1) for found, grown in moved]))
    found = float(np.mean([len(found & grown) / len(grown) for found, grown in moved]))
    any_named = sum(bool(one) for one in null)
    rows = [
        ("false_discovery_proportion", false_share, RATE, false_share <= RATE),
        ("true_positive_rate", found, 0.95, found >= 0.95),
        (
            "null_trials_with_any_finding",
            any_named / trials,
            RATE,
            any_named <= binom.ppf(0.975, trials, RATE),
        ),
    ]
    for figure, ours, goal, ok in rows:
        line = {
            "figure": f"attribution_{figure}",
            "ours": ours,
            "peer": None,
            "ratio": None,
            "goal": goal,
            "ok": bool(ok),
        }
        print(json.dumps(line))
    print(
        f"\n{trials} trials, {REFERENCE:,} and {CURRENT:,} units, {DOUBLED} of {len(pool.intents)} intents doubled"
    )
    for figure, ours, goal, ok in rows:
        print(f"{figure:30} {ours:7.3f}  goal {goal:.2f}  {'yes' if ok else 'NO'}")
    return 0 if all(ok for *_, ok in rows) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
