"""Guardrails to a real Alertmanager to a real receiver, time compressed."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from receivers import Receiver, wait_for

from alerts.alert import alerts_of
from alerts.delivery import Dispatcher
from alerts.guardrail import DEFAULT_GUARDRAILS, Guardrail
from alerts.http_post import FailureReason
from alerts.settings import AlertingSettings, sinks_of
from alerts.signals import ALL, Reading

pytestmark = pytest.mark.part("alertmanager")

SPEC = DEFAULT_GUARDRAILS[2].model_copy(update={"hold_s": 0, "clear_s": 0})
BAD = Reading(SPEC.signal, ALL, 0.041, 0.029, 0.058, 412, 412.0, reason="locale = en-US")
GOOD = Reading(SPEC.signal, ALL, 0.01, 0.004, 0.02, 500, 500.0)

CONFIG = """
route: {{receiver: people, group_by: [alertname, slice], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: people
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


class Counts:
    """Counts what the lanes report."""

    def __init__(self) -> None:
        self.taken = 0
        self.failures: list[FailureReason] = []

    def sent(self, sink: str, alerts: int) -> None:
        self.taken += alerts

    def failed(self, sink: str, reason: FailureReason, alerts: int) -> None:
        self.failures.append(reason)

    def dropped(self, sink: str, reason: FailureReason, alerts: int) -> None:
        raise AssertionError(f"{sink} dropped {alerts} alerts: {reason}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(program: Path, folder: Path, port: int, receiver: Receiver) -> Iterator[str]:
    """A real Alertmanager on this port that tells the receiver."""
    (folder / "alertmanager.yml").write_text(CONFIG.format(url=receiver.url))
    url = f"http://127.0.0.1:{port}"
    command = [
        str(program),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(lambda: ready(url) or process.poll() is not None, within_s=20)
            assert process.poll() is None, (folder / "log").read_text()
            yield url
        finally:
            process.terminate()
            process.wait(10)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def outbound(url: str, counts: Counts, resend_s: float = 1.0) -> Dispatcher:
    settings = AlertingSettings(alertmanager_urls=(url,), resend_s=resend_s)
    return Dispatcher(sinks_of(settings), counts, retry_first_s=0.1, retry_most_s=0.3)


def tell(dispatcher: Dispatcher, guardrail: Guardrail, reading: Reading) -> None:
    transition = guardrail.evaluate(reading, time.time())
    assert transition is not None
    for alert in alerts_of(transition, "help-centre"):
        assert dispatcher.submit(alert)


def told(receiver: Receiver, status: str) -> list[dict[str, Any]]:
    return [body for body in list(receiver.bodies) if body["status"] == status]


def test_a_breach_pages_once_with_its_reason_and_resolves(
    part: Callable[[str], Path], tmp_path: Path
) -> None:
    counts, guardrail = Counts(), Guardrail(SPEC)
    with (
        Receiver() as receiver,
        running(part("alertmanager"), tmp_path, free_port(), receiver) as url,
        outbound(url, counts) as dispatcher,
    ):
        tell(dispatcher, guardrail, BAD)
        wait_for(lambda: told(receiver, "firing"))
        wait_for(lambda: counts.taken >= 4)  # resent, as a living monitor does
        time.sleep(1.2)  # more than one group interval: a second page would be there
        (page,) = told(receiver, "firing")
        tell(dispatcher, guardrail, GOOD)
        wait_for(lambda: told(receiver, "resolved"))
    (alert,) = page["alerts"]
    assert alert["labels"] == {
        "alertname": "GroundwatchFilterExclusion",
        "guardrail": "filter_exclusion",
        "slice": "all",
        "severity": "critical",
        "service": "help-centre",
    }
    assert alert["annotations"]["summary"] == (
        "filter_exclusion: at least 2.9 % (4.1 % [2.9, 5.8], n = 412) of queries lost every known answer; "
        "locale = en-US"
    )
    assert alert["annotations"]["reason"] == "locale = en-US"
    (end,) = told(receiver, "resolved")
    assert end["alerts"][0]["fingerprint"] == alert["fingerprint"]
    assert end["alerts"][0]["startsAt"] == alert["startsAt"]
    assert "holds again" in end["alerts"][0]["annotations"]["summary"]
    assert counts.failures == []


def test_an_alertmanager_that_comes_late_is_told_all_the_same(
    part: Callable[[str], Path], tmp_path: Path
) -> None:
    counts, guardrail, port = Counts(), Guardrail(SPEC), free_port()
    with Receiver() as receiver, outbound(f"http://127.0.0.1:{port}", counts) as dispatcher:
        tell(dispatcher, guardrail, BAD)
        wait_for(lambda: FailureReason.UNREACHABLE in counts.failures)
        with running(part("alertmanager"), tmp_path, port, receiver):
            wait_for(lambda: told(receiver, "firing"))
            assert dispatcher.undelivered() == ()


def test_the_alerts_of_a_monitor_that_died_end_by_themselves(
    part: Callable[[str], Path], tmp_path: Path
) -> None:
    counts = Counts()
    with Receiver() as receiver, running(part("alertmanager"), tmp_path, free_port(), receiver) as url:
        with outbound(url, counts, resend_s=0.5) as dispatcher:
            tell(dispatcher, Guardrail(SPEC), BAD)
            wait_for(lambda: told(receiver, "firing"))
        assert not told(receiver, "resolved")
        wait_for(lambda: told(receiver, "resolved"), within_s=8)
