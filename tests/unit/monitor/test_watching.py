"""The watch reads the registry, announces changes once, survives restarts and takes a stalled judge for no evidence."""

from __future__ import annotations

from pathlib import Path

from alerts.alert import Alert
from alerts.delivery import Dispatcher
from alerts.guardrail import GuardrailState
from alerts.signals import ALL, UNFAITHFUL
from alerts.spec import GuardrailSpec
from monitor.announcing import Announcer, MeteredDelivery
from monitor.metrics import Metrics
from monitor.store import Store
from monitor.watching import Watch

SPEC = GuardrailSpec(
    name="faithfulness",
    signal=UNFAITHFUL.name,
    title="Unfaithful answers",
    objective=0.1,
    hold_s=0,
    clear_s=0,
    no_data_after_s=30,
    slices=True,
)


class Collected:
    """A sink that keeps what it is sent."""

    name = "collected"
    resend_s = None

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def send(self, alerts: list[Alert], now: float) -> None:
        self.alerts.extend(alerts)


class Rig:
    """A watch over a real registry, store and dispatcher."""

    def __init__(self, store: Store) -> None:
        self.metrics = Metrics()
        self.sink = Collected()
        self.dispatcher = Dispatcher([self.sink], MeteredDelivery(self.metrics))
        announcer = Announcer(self.dispatcher, store, "kb", {})
        self.watch = Watch(
            [SPEC],
            self.metrics,
            store,
            lambda signal, slice_name: "locale = en-US",
            announcer,
            stale_s=10,
            history_points=5,
        )

    def publish(self, estimate: float, now: float, slice_name: str = ALL, half: float = 0.02) -> None:
        numbers = {
            "estimate": estimate,
            "lower_bound": estimate - half,
            "upper_bound": estimate + half,
            "evidence": 400.0,
            "effective_evidence": 400.0,
        }
        self.metrics.publish(UNFAITHFUL, slice_name, "lexical-1", numbers)
        self.metrics.heartbeat.set(now)

    def look(self, now: float) -> list[tuple[str, GuardrailState]]:
        return [(change.slice, change.after) for change in self.watch.evaluate(now)]

    def sent(self) -> list[Alert]:
        self.dispatcher.start()
        self.dispatcher.stop(5)
        return self.sink.alerts


def test_a_breach_fires_once_and_its_repair_resolves() -> None:
    with Store.open(":memory:") as store:
        rig = Rig(store)
        rig.publish(0.05, now=0)
        assert rig.look(0) == [(ALL, GuardrailState.OK)]
        rig.publish(0.3, now=1)
        assert rig.look(1) == [(ALL, GuardrailState.FIRING)]
        assert rig.look(2) == []
        rig.publish(0.05, now=3)
        assert rig.look(3) == [(ALL, GuardrailState.OK)]
        [record] = store.alerts(10)
        assert (record.guardrail, record.fired_at, record.resolved_at) == ("faithfulness", 1, 3)
        state = rig.metrics.registry.get_sample_value(
            "groundwatch_guardrail_state", {"guardrail": "faithfulness", "slice": ALL, "state": "ok"}
        )
        assert state == 1
        final = rig.sent()[-1]
        assert final.resolved
        assert final.labels["service"] == "kb"


def test_the_reason_reaches_the_page() -> None:
    with Store.open(":memory:") as store:
        rig = Rig(store)
        rig.publish(0.3, now=1)
        rig.look(1)
        assert rig.sent()[0].annotations["reason"] == "locale = en-US"


def test_a_slice_is_watched_beside_the_whole() -> None:
    with Store.open(":memory:") as store:
        rig = Rig(store)
        rig.publish(0.05, now=0)
        rig.publish(0.4, now=0, slice_name="tenant=acme")
        assert rig.look(0) == [(ALL, GuardrailState.OK), ("tenant=acme", GuardrailState.FIRING)]


def test_gauges_of_a_stalled_judge_are_no_evidence() -> None:
    with Store.open(":memory:") as store:
        rig = Rig(store)
        rig.publish(0.05, now=0)
        rig.look(0)
        for now in range(1, 42):
            rig.look(now)
        assert [row[2].condition for row in rig.watch.snapshot()] == [GuardrailState.NO_DATA]


def test_a_restart_neither_pages_twice_nor_forgets_to_resolve(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with Store.open(path) as store:
        rig = Rig(store)
        rig.publish(0.3, now=1)
        assert rig.look(1) == [(ALL, GuardrailState.FIRING)]
    with Store.open(path) as store:
        again = Rig(store)
        again.publish(0.3, now=5)
        assert again.look(5) == []
        again.publish(0.02, now=6)
        assert again.look(6) == [(ALL, GuardrailState.OK)]
        [record] = store.alerts(10)
        assert (record.fired_at, record.resolved_at) == (1, 6)


def test_history_keeps_the_newest_points() -> None:
    with Store.open(":memory:") as store:
        rig = Rig(store)
        for now in range(9):
            rig.publish(0.05, now=now)
            rig.look(now)
        [(_, _, _, _, history)] = rig.watch.snapshot()
        assert [point.time for point in history] == [4, 5, 6, 7, 8]
