"""What a replay found, as plain JSON: counts, every rate with its interval, drift verdicts, alerts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from monitor.build import Core, build_replay
from monitor.config import Config
from monitor.metrics import Metrics
from monitor.overview import RELEASE, Overview
from monitor.rates import RateBoard
from monitor.replaying import Replay, in_time_order

_WHOLE = 1e12
"""A window that no capture outlasts, seconds."""


def replay(config: Config, paths: Sequence[Path]) -> dict[str, Any]:
    """Replay the captures with a progress bar on stderr and report. Raises FileNotFoundError."""
    core, run = build_replay(config)
    skipped: list[str] = []
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("replaying", total=None)
        batches = in_time_order(
            paths,
            lambda done, total: bar.update(task, completed=done, total=total),
            lambda item: skipped.append(f"{item.path} line {item.line}: {item.reason}: {item.detail}"),
        )
        run.run(batches, settle_s=config.assembly.max_wait_s)
    overview = Overview(
        core.watch, core.observer, core.drift, core.store, core.metrics, core.scorers, lambda: run.now, str
    )
    return report(config, core, run, overview, paths, skipped)


def report(
    config: Config,
    core: Core,
    run: Replay,
    overview: Overview,
    paths: Sequence[Path],
    problems: Sequence[str],
) -> dict[str, Any]:
    """`rates` are over everything replayed; `last_window` is what the guardrails saw at the end; times are Unix
    seconds of the traces. A number without evidence is null."""
    status = overview.status()
    return {
        "groundwatch": RELEASE,
        "captures": [str(path) for path in paths],
        "problems": list(problems),
        "period": {"start": run.started_at, "end": run.ended_at},
        "counts": status.counts,
        "findings": [
            {"check": check, "outcome": str(outcome), "count": count}
            for (check, outcome), count in sorted(core.store.finding_counts().items())
        ],
        "rates": _rates(config, core, run.now),
        "last_window": [row.model_dump(exclude={"history"}) for row in status.guardrails],
        "verdicts": [verdict.model_dump(exclude={"history"}) for verdict in status.drift],
        "alerts": [alert.model_dump() for alert in reversed(status.alerts)],
        "markers": [marker.model_dump() for marker in status.markers],
    }


def _rates(config: Config, core: Core, now: float) -> list[dict[str, Any]]:
    """Every signal and slice over all that was replayed."""
    metrics = Metrics()
    whole = config.rates.model_copy(update={"window_s": _WHOLE})
    board = RateBoard(whole, config.control_band, core.scorers, metrics)
    for stored in core.store.findings(since=-math.inf):
        board.put(stored.finding, stored.scorer, stored.at)
    board.publish(now)
    return [
        {
            "signal": reading.signal,
            "slice": reading.slice,
            "estimate": reading.estimate,
            "lower": reading.lower,
            "upper": reading.upper,
            "evidence": reading.evidence,
            "effective_evidence": reading.effective_evidence,
            "not_scored": board.not_scored(reading.signal, reading.slice),
            "reason": board.reason(reading.signal, reading.slice),
        }
        for _, reading in sorted(metrics.readings().items())
    ]
