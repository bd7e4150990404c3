"""Lanes: newest wins, no sink holds up another, nothing final is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pytest
from pydantic import ValidationError
from receivers import Receiver, wait_for

from alerts.alert import Alert
from alerts.delivery import Dispatcher
from alerts.http_post import DeliveryError, FailureReason
from alerts.lane import Backoff
from alerts.settings import AlertingSettings, sinks_of
from alerts.webhook import WebhookSink


class Counts:
    """Counts what the lanes report."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def _add(self, key: str, alerts: int) -> None:
        with self._lock:
            self.seen[key] += alerts

    def sent(self, sink: str, alerts: int) -> None:
        self._add(f"sent {sink}", alerts)

    def failed(self, sink: str, reason: FailureReason, alerts: int) -> None:
        self._add(f"failed {sink} {reason}", alerts)

    def dropped(self, sink: str, reason: FailureReason, alerts: int) -> None:
        self._add(f"dropped {sink} {reason}", alerts)


class Box:
    """A sink in memory that can be shut and opened."""

    def __init__(self, name: str = "box", resend_s: float | None = None) -> None:
        self.name, self.resend_s = name, resend_s
        self.open = threading.Event()
        self.open.set()
        self.taken: list[Alert] = []
        self.sends: list[list[Alert]] = []
        self.fault: Exception = DeliveryError(FailureReason.UNREACHABLE, "shut")
        self.tries = 0

    def send(self, alerts: Sequence[Alert], now: float) -> None:
        self.tries += 1
        if not self.open.is_set():
            raise self.fault
        self.sends.append(list(alerts))
        self.taken.extend(alerts)


def alert(guardrail: str = "cost", *, ends_at: float | None = None, summary: str = "dear") -> Alert:
    labels = {"alertname": "Groundwatch", "guardrail": guardrail}
    return Alert(name="A", labels=labels, annotations={"summary": summary}, starts_at=10.0, ends_at=ends_at)


def dispatcher(*sinks: Box | WebhookSink, counts: Counts | None = None, capacity: int = 100) -> Dispatcher:
    return Dispatcher(sinks, counts or Counts(), capacity=capacity, retry_first_s=0.02, retry_most_s=0.05)


def test_an_alert_goes_to_every_sink_once_however_often_it_is_submitted() -> None:
    first, second, counts = Box("first"), Box("second"), Counts()
    with dispatcher(first, second, counts=counts) as outbound:
        for _ in range(5):
            assert outbound.submit(alert())
            wait_for(lambda: first.taken and second.taken)
        outbound.submit(alert(ends_at=20.0))
        wait_for(lambda: len(first.taken) == len(second.taken) == 2)
    assert [item.resolved for item in first.taken] == [False, True]
    assert counts.seen == {"sent first": 2, "sent second": 2}
    assert outbound.undelivered() == ()


def test_a_sink_that_is_down_gets_the_final_state_and_holds_up_no_other() -> None:
    down, up, counts = Box("down"), Box("up"), Counts()
    down.open.clear()
    with dispatcher(down, up, counts=counts) as outbound:
        outbound.submit(alert("cost", summary="first"))
        outbound.submit(alert("latency"))
        wait_for(lambda: counts.seen["sent up"] == 2)
        outbound.submit(alert("cost", ends_at=30.0))
        wait_for(lambda: counts.seen["sent up"] == 3)
        wait_for(lambda: counts.seen["failed down unreachable"] >= 4)
        assert [item.resolved for item in outbound.undelivered()] == [True, False]
        down.open.set()
        wait_for(lambda: len(down.taken) == 2)
    assert {item.labels["guardrail"]: item.resolved for item in down.taken} == {
        "cost": True,
        "latency": False,
    }


def test_a_firing_alert_is_resent_with_its_newest_words_until_it_ends() -> None:
    box = Box(resend_s=0.05)
    with dispatcher(box) as outbound:
        outbound.submit(alert(summary="10 %"))
        wait_for(lambda: box.taken)
        outbound.submit(alert(summary="12 %"))
        wait_for(lambda: box.taken[-1].annotations["summary"] == "12 %")
        wait_for(lambda: len(box.taken) >= 4)
        outbound.submit(alert(ends_at=20.0))
        wait_for(lambda: box.taken[-1].resolved)
        ended = len(box.taken)
        outbound.submit(alert("latency"))
        wait_for(lambda: len(box.taken) >= ended + 3)
    assert {item.labels["guardrail"] for item in box.taken[ended:]} == {"latency"}


def test_a_full_lane_says_no_to_new_alerts_and_still_takes_the_end_of_known_ones() -> None:
    box, counts = Box(), Counts()
    outbound = dispatcher(box, counts=counts, capacity=2)
    assert outbound.submit(alert("a"))
    assert outbound.submit(alert("b"))
    assert not outbound.submit(alert("c"))
    assert outbound.submit(alert("a", ends_at=5.0))
    assert counts.seen == {"dropped box queue_full": 1}
    with outbound:
        wait_for(lambda: len(box.taken) == 2)
        assert outbound.submit(alert("c"))


def test_one_refused_alert_costs_its_neighbours_nothing() -> None:
    def judge(body: dict[str, list[dict[str, dict[str, str]]]]) -> int:
        return 400 if any(item["labels"]["guardrail"] == "bad" for item in body["alerts"]) else 200

    counts = Counts()
    with Receiver(judge=judge) as receiver:
        sink = WebhookSink(receiver.url)
        outbound = dispatcher(sink, counts=counts)
        for name in ("good", "bad", "better"):
            outbound.submit(alert(name))
        with outbound:
            wait_for(lambda: counts.seen[f"sent {sink.name}"] == 2)
            wait_for(lambda: counts.seen[f"dropped {sink.name} refused"] == 1)
        taken = [item["labels"]["guardrail"] for body in receiver.bodies for item in body["alerts"]]
    assert taken == ["good", "better"]
    assert outbound.undelivered() == ()


def test_a_sink_that_breaks_its_contract_is_tried_again_like_one_that_is_down() -> None:
    box, counts = Box(), Counts()
    box.fault = ZeroDivisionError("a bug")
    box.open.clear()
    with dispatcher(box, counts=counts) as outbound:
        outbound.submit(alert())
        wait_for(lambda: counts.seen["failed box error"] >= 2)
        box.open.set()
        wait_for(lambda: box.taken)


def test_stopping_tries_once_more_within_its_deadline_and_gives_back_what_is_left() -> None:
    box = Box()
    box.open.clear()
    outbound = Dispatcher([box], Counts(), retry_first_s=60.0)
    outbound.start()
    outbound.submit(alert())
    wait_for(lambda: box.tries == 1)
    outbound.stop(5.0)
    assert box.tries == 2
    assert [item.labels["guardrail"] for item in outbound.undelivered()] == ["cost"]
    box.open.set()
    outbound.start()  # a new life takes up where the old one ended
    wait_for(lambda: box.taken)
    outbound.stop()
    assert outbound.undelivered() == ()


def test_a_sink_that_hangs_cannot_hold_up_the_stop() -> None:
    class Hangs(Box):
        def send(self, alerts: Sequence[Alert], now: float) -> None:
            self.tries += 1
            self.open.wait(30.0)

    box = Hangs()
    box.open.clear()
    outbound = dispatcher(box)
    outbound.start()
    outbound.submit(alert())
    wait_for(lambda: box.tries)
    stopper = threading.Thread(target=outbound.stop, args=(0.2,))
    stopper.start()
    stopper.join(5.0)
    assert not stopper.is_alive()
    assert outbound.undelivered()
    box.open.set()


def test_starting_twice_stopping_twice_and_stopping_before_the_start_are_harmless() -> None:
    box = Box()
    outbound = dispatcher(box)
    outbound.stop()
    outbound.start()
    outbound.start()
    outbound.submit(alert())
    wait_for(lambda: box.taken)
    outbound.stop()
    outbound.stop()
    assert len(box.sends) == 1


def test_waits_double_up_to_the_limit_and_start_anew_after_a_success() -> None:
    backoff = Backoff(1.0, 8.0, seed=1)
    waits = [backoff.failed() for _ in range(60)]
    for wait, most in zip(waits, [1, 2, 4, *([8] * 57)], strict=True):
        assert most / 2 <= wait <= most
    assert len(set(waits[3:])) > 50
    backoff.reset()
    assert backoff.failed() <= 1.0


def test_prometheus_mode_sends_nothing_from_here() -> None:
    urls = ("http://am-0:9093", "https://am-1:9093/prefix")
    assert [sink.name for sink in sinks_of(AlertingSettings(alertmanager_urls=urls))] == [
        "alertmanager:am-0:9093",
        "alertmanager:am-1:9093",
    ]
    assert sinks_of(AlertingSettings(mode="prometheus", alertmanager_urls=urls)) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alertmanager_urls": ["am:9093"]}, "is no http:// or https:// address"),
        ({"alertmanager_urls": ["http://user:pw@am:9093"]}, "must not hold credentials"),
        ({"alertmanager_urls": ["http://am:port"]}, "could not be cast|Port"),
        ({"webhooks": [{"url": "ftp://x"}]}, "is no http:// or https:// address"),
        ({"mode": "both"}, "'local' or 'prometheus'"),
        ({"external_labels": {"not a label": "x"}}, "should match pattern"),
        ({"resend": 3}, "Extra inputs"),
    ],
)
def test_wrong_settings_say_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        AlertingSettings.model_validate(changes)


def test_the_token_is_sent_and_never_shown() -> None:
    settings = AlertingSettings.model_validate(
        {"webhooks": [{"url": "http://h/x", "bearer_token": "s3cret"}]}
    )
    assert "s3cret" not in repr(settings) + settings.model_dump_json()
    with Receiver() as receiver:
        hook = settings.webhooks[0].model_copy(update={"url": receiver.url})
        (sink,) = sinks_of(settings.model_copy(update={"webhooks": (hook,)}))
        sink.send([alert()], 0.0)
        assert receiver.headers[0]["authorization"] == "Bearer s3cret"
