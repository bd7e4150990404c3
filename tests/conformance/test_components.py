"""Every component of a sidecar: starting twice, stopping twice and stopping before start are harmless."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.settings import AlertingSettings, WebhookSettings
from collectors.kafka import KafkaSettings
from collectors.otlp_grpc import OtlpGrpcSettings
from collectors.otlp_http import OtlpHttpSettings
from monitor.build import build_sidecar
from monitor.config import CollectorsSettings, Config
from monitor.service import Sidecar
from monitor.store import StoreSettings
from monitor.web import WebSettings

COMPONENTS = ("store", "web", "outbox", "watch", "judging", "intake", "otlp_grpc", "otlp_http", "kafka")
ORDERS = ("stop", "start start stop", "start stop stop", "stop start stop", "start start stop stop")


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    """All components, on free ports; Kafka waits for a broker that is not there."""
    built = build_sidecar(
        Config(
            collectors=CollectorsSettings(
                otlp_grpc=OtlpGrpcSettings(port=0),
                otlp_http=OtlpHttpSettings(port=0),
                kafka=KafkaSettings(bootstrap_servers=("127.0.0.1:9",), topics=("spans",)),
            ),
            alerting=AlertingSettings(webhooks=(WebhookSettings(url="http://127.0.0.1:9/"),)),
            store=StoreSettings(path=tmp_path / "state.sqlite"),
            web=WebSettings(port=0),
        )
    )
    yield built
    built.stop(5.0)
    built.component("store").stop()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_takes_any_order(sidecar: Sidecar, name: str, order: str) -> None:
    component = sidecar.component(name)
    for call in order.split():
        if call == "start":
            component.start()
        else:
            component.stop(5.0)


@pytest.mark.parametrize("order", ORDERS)
def test_the_sidecar_takes_any_order_and_leaves_no_thread(sidecar: Sidecar, order: str) -> None:
    before = set(threading.enumerate())
    for call in order.split():
        if call == "start":
            sidecar.start()
        else:
            sidecar.stop(10.0)
    left = [thread for thread in set(threading.enumerate()) - before if not thread.daemon]
    assert left == []


def test_every_component_of_the_sidecar_is_named_here(sidecar: Sidecar) -> None:
    assert sidecar.names == COMPONENTS


def test_a_stopped_sidecar_says_that_it_does_not_start_again(sidecar: Sidecar) -> None:
    sidecar.start()
    sidecar.stop(10.0)
    with pytest.raises(RuntimeError, match="build a new one"):
        sidecar.start()
