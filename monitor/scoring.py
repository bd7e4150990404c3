"""Which traces are judged by which check, and what the checks said."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.trace import RagTrace
from detectors.finding import Finding, Outcome, TraceCheck, unscored
from monitor.metrics import Metrics
from monitor.sampling import Decision, Sampler


@dataclass(slots=True, frozen=True)
class Judge:
    """A check and whether it is sampled; a census check sees every trace."""

    check: TraceCheck
    sampled: bool = True


@dataclass(slots=True, frozen=True)
class Judgement:
    """A trace with all that was found in it: scorer and finding, in the order of the judges."""

    trace: RagTrace
    findings: tuple[tuple[str, Finding], ...]


class Scorer:
    """Runs every judge over a micro-batch; a check that raises costs its own findings only."""

    def __init__(self, judges: Sequence[Judge], sampler: Sampler, metrics: Metrics) -> None:
        self._judges = tuple(judges)
        self._sampler = sampler
        self._metrics = metrics

    def judge(self, traces: Sequence[RagTrace]) -> list[Judgement]:
        """One judgement a trace, in order; a finding's weight is 1 / inclusion probability."""
        found: list[list[tuple[str, Finding]]] = [[] for _ in traces]
        for judge in self._judges:
            chosen = self._choose(judge, traces)
            findings = self._run(judge.check, [traces[index] for index in chosen])
            for (index, decision), finding in zip(chosen.items(), findings, strict=True):
                found[index].append((judge.check.scorer, finding.weighted(decision.weight)))
                self._metrics.findings.labels(
                    judge.check.name, judge.check.scorer, finding.outcome, finding.reason
                ).inc()
        return [Judgement(trace, tuple(rows)) for trace, rows in zip(traces, found, strict=True)]

    def _choose(self, judge: Judge, traces: Sequence[RagTrace]) -> dict[int, Decision]:
        """The traces to judge, by index, each with the decision that chose it."""
        name = judge.check.name
        decide = self._sampler.decide if judge.sampled else lambda trace, _: self._sampler.census(trace)
        chosen: dict[int, Decision] = {}
        for index, trace in enumerate(traces):
            decision = decide(trace, name)
            selected = str(decision.selected).lower()
            self._metrics.decisions.labels(name, decision.stratum, selected).inc()
            if decision.reason:
                self._metrics.sampler_faults.labels(decision.reason).inc()
            if decision.selected:
                chosen[index] = decision
        return chosen

    def _run(self, check: TraceCheck, traces: Sequence[RagTrace]) -> Sequence[Finding]:
        if not traces:
            return ()
        started = time.perf_counter()
        try:
            findings = check.check(traces)
        except Exception as error:
            findings = [
                unscored(check.name, trace, Outcome.ERROR, type(error).__name__, message=str(error)[:500])
                for trace in traces
            ]
        self._metrics.check_seconds.labels(check.name).observe(time.perf_counter() - started)
        return findings
