"""The demo's settings as a configuration, and the real sidecar made of it."""

from __future__ import annotations

from pathlib import Path

from alerts.spec import DEFAULT_GUARDRAILS, GuardrailSpec
from collectors.otlp_grpc import OtlpGrpcReceiver
from monitor.build import build_sidecar
from monitor.config import Config
from monitor.demo.run import parse_duration, run_demo
from monitor.demo.scenario import SESSIONS_PER_SECOND, DemoSettings
from monitor.service import Sidecar
from monitor.status import Status


class DemoSidecar:
    """The real sidecar, with the port at which its OTLP/gRPC receiver listens."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self.start = sidecar.start

    @property
    def grpc_port(self) -> int:
        receiver = self._sidecar.component("otlp_grpc")
        return receiver.port if isinstance(receiver, OtlpGrpcReceiver) else 0

    def stop(self, deadline_s: float = 10.0) -> None:
        self._sidecar.stop(deadline_s)

    def status(self) -> Status:
        return self._sidecar.status()


def demo(duration: str, report: Path | None, *, seed: int, port: int) -> int:
    """Play the incident; gives the exit status. Raises ValueError for a duration that is none or too short."""

    def make(settings: DemoSettings, catalogue: Path, golden: Path) -> DemoSidecar:
        return DemoSidecar(build_sidecar(demo_config(settings, catalogue, golden, port)))

    return run_demo(parse_duration(duration), report, make, seed=seed, page_url=f"http://127.0.0.1:{port}/")


def demo_config(settings: DemoSettings, catalogue: Path, golden: Path, port: int) -> Config:
    """Embedded defaults: nothing but this process, a state that ends with it, any free port for OTLP."""
    every = settings["evaluation_interval_s"]
    return Config.model_validate(
        {
            "collectors": {"otlp_grpc": {"port": 0}, "otlp_http": {"enabled": False}},
            "assembly": {
                "answered_wait_s": settings["answered_wait_s"],
                "idle_wait_s": settings["idle_wait_s"],
                "max_wait_s": settings["maximum_wait_s"],
            },
            "normalise": {"entitlement_fields": settings["entitlement_fields"]},
            "sampling": {"rate": settings["sampling_rate"]},
            "faithfulness": {"scorer": settings["scorer"]},
            "knowledge": {"catalogue": catalogue, "golden": golden},
            "operations": {"latency_objective_s": settings["latency_objective_s"]},
            "rates": {"window_s": settings["rate_window_s"]},
            "control_band": {
                "baseline_units": settings["regeneration_baseline_units"],
                "settle_s": settings["regeneration_settle_s"],
            },
            "units": {"session_idle_s": settings["session_idle_s"]},
            "query_drift": {
                "reference_size": settings["drift_reference_size"],
                "window_size": settings["drift_window_size"],
                "smallest_shift": settings["drift_smallest_shift"],
                "slowdown": settings["drift_slowdown"],
                "budget": {
                    "period_days": settings["drift_period_s"] / 86_400.0,
                    "units_per_day": SESSIONS_PER_SECOND * 86_400.0,
                },
            },
            "guardrails": [_compressed(spec, settings) for spec in DEFAULT_GUARDRAILS],
            "watch": {"tick_s": every, "evaluation_s": every, "history_points": 600},
            "store": {"path": ":memory:"},
            "web": {"port": port},
        }
    )


def _compressed(spec: GuardrailSpec, settings: DemoSettings) -> dict[str, object]:
    """A default guardrail in the demo's time and with its objectives."""
    objectives = {
        "filter_exclusion": settings["filter_exclusion_ceiling"],
        "faithfulness": settings["unfaithful_ceiling"],
        "latency": settings["slow_request_ceiling"],
        "cost": settings["cost_ceiling_usd"],
    }
    changes: dict[str, object] = {
        "hold_s": 0.0 if spec.hold_s == 0 else settings["hold_s"],
        "clear_s": settings["clear_s"],
        "no_data_after_s": settings["no_data_after_s"],
        "minimum_evidence": settings["minimum_evidence"],
        "slices": False,
    }
    if spec.name in objectives:
        changes["objective"] = objectives[spec.name]
    return {**spec.model_dump(), **changes}
