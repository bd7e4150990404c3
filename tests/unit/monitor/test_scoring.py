"""Every selected trace gets one finding a check with its weight; a check that raises costs only its own findings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collectors.trace import RagTrace
from detectors.finding import Finding, Outcome, scored
from monitor.metrics import Metrics
from monitor.sampling import Sampler, SamplingSettings
from monitor.scoring import Judge, Scorer


class LengthCheck:
    name = "length"
    scorer = "length-1"

    def check(self, traces: Sequence[RagTrace]) -> Sequence[Finding]:
        return [scored(self.name, trace, float(len(trace.query or ""))) for trace in traces]


class BrokenCheck:
    name = "broken"
    scorer = "broken-1"

    def check(self, traces: Sequence[RagTrace]) -> Sequence[Finding]:
        raise RuntimeError(f"cannot judge {len(traces)}")


def traces(count: int, **more: object) -> list[RagTrace]:
    return [
        RagTrace(id=f"{n:032x}:a", trace_id=f"{n:032x}", start_time_ns=0, query="q" * n, **more)
        for n in range(count)
    ]


def test_a_census_sees_all_and_weighs_what_upstream_left_out() -> None:
    metrics = Metrics()
    scorer = Scorer([Judge(LengthCheck(), sampled=False)], Sampler(SamplingSettings()), metrics)
    judged = scorer.judge(traces(5, sampling_probability=1.0))
    assert [finding.value for row in judged for _, finding in row.findings] == [0, 1, 2, 3, 4]
    assert {finding.weight for row in judged for _, finding in row.findings} == {1.0}
    half = scorer.judge(traces(400, sampling_probability=0.5))
    assert {finding.weight for row in half for _, finding in row.findings} == {2.0}


def test_a_sample_is_about_its_rate_and_weighs_its_inverse() -> None:
    scorer = Scorer(
        [Judge(LengthCheck())], Sampler(SamplingSettings(rate=0.25, checks={}, salt="s")), Metrics()
    )
    judged = scorer.judge(traces(2000))
    chosen = [finding for row in judged for _, finding in row.findings]
    assert len(chosen) == pytest.approx(500, abs=80)
    assert {finding.weight for finding in chosen} == {4.0}
    assert len(judged) == 2000


def test_a_check_that_raises_gives_error_findings_and_leaves_the_others_alone() -> None:
    metrics = Metrics()
    judges = [Judge(BrokenCheck(), sampled=False), Judge(LengthCheck(), sampled=False)]
    judged = Scorer(judges, Sampler(SamplingSettings()), metrics).judge(traces(3))
    outcomes = [[(f.check, f.outcome, f.reason) for _, f in row.findings] for row in judged]
    assert outcomes == [[("broken", Outcome.ERROR, "RuntimeError"), ("length", Outcome.SCORED, "")]] * 3
    assert metrics.count_of(metrics.findings, outcome="error") == 3
