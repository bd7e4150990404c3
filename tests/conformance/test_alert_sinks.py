"""What every sink of alerts must keep to, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from receivers import Receiver

from alerts.alert import Alert
from alerts.http_post import DeliveryError, FailureReason
from alerts.settings import AlertingSettings, WebhookSettings, sinks_of
from alerts.sink import AlertSink

MakeSink = Callable[[str], AlertSink]


def alertmanager(url: str) -> AlertSink:
    return sinks_of(AlertingSettings(alertmanager_urls=(url,), timeout_s=0.5))[0]


def webhook(url: str) -> AlertSink:
    hook = WebhookSettings.model_validate({"url": url + "/hook?key=private", "bearer_token": "hidden-token"})
    return sinks_of(AlertingSettings(webhooks=(hook,), timeout_s=0.5))[0]


@pytest.fixture(params=[alertmanager, webhook], ids=["alertmanager", "webhook"])
def make_sink(request: pytest.FixtureRequest) -> MakeSink:
    return request.param


def alert(guardrail: str = "cost", ends_at: float | None = None) -> Alert:
    labels = {"alertname": "GroundwatchCost", "guardrail": guardrail}
    return Alert(
        name="GroundwatchCost",
        labels=labels,
        annotations={"summary": "dear"},
        starts_at=1.7e9,
        ends_at=ends_at,
    )


def failure(sink: AlertSink) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        sink.send([alert()], 1.7e9)
    return caught.value


def test_all_alerts_of_a_batch_arrive_in_one_request(make_sink: MakeSink) -> None:
    with Receiver() as receiver:
        make_sink(receiver.url).send([alert("cost"), alert("latency", ends_at=1.7e9 + 60)], 1.7e9 + 90)
        assert len(receiver.bodies) == 1
        body = receiver.bodies[0]
        assert receiver.headers[0]["content-type"] == "application/json"
    posted = body if isinstance(body, list) else body["alerts"]
    assert [item["labels"]["guardrail"] for item in posted] == ["cost", "latency"]
    assert posted[0]["annotations"] == {"summary": "dear"}
    assert posted[0]["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert posted[1]["endsAt"] == "2023-11-14T22:14:20.000Z"


def test_its_name_tells_where_and_no_secret(make_sink: MakeSink) -> None:
    name = make_sink("http://hooks.example:8443").name
    assert name.endswith(":hooks.example:8443")
    assert "private" not in name
    assert "hidden" not in name


@pytest.mark.parametrize(
    ("status", "reason", "retryable"),
    [
        (302, FailureReason.HTTP_3XX, True),
        (400, FailureReason.REFUSED, False),
        (401, FailureReason.HTTP_4XX, True),
        (404, FailureReason.HTTP_4XX, True),
        (413, FailureReason.REFUSED, False),
        (422, FailureReason.REFUSED, False),
        (429, FailureReason.HTTP_4XX, True),
        (500, FailureReason.HTTP_5XX, True),
        (503, FailureReason.HTTP_5XX, True),
    ],
)
def test_an_answer_but_2xx_is_a_typed_failure(
    make_sink: MakeSink, status: int, reason: FailureReason, retryable: bool
) -> None:
    with Receiver(statuses=[status]) as receiver:
        error = failure(make_sink(receiver.url))
    assert (error.reason, error.retryable) == (reason, retryable)


def test_nobody_there_is_unreachable(make_sink: MakeSink) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert failure(make_sink(url)).reason is FailureReason.UNREACHABLE
    assert failure(make_sink("http://no-such-host.invalid")).reason is FailureReason.UNREACHABLE


@contextlib.contextmanager
def listener(reply: bytes | None) -> Iterator[str]:
    """Accepts connections; answers these bytes, or nothing at all for None."""
    stop = threading.Event()

    def serve() -> None:
        connections = []
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                connections.append(server.accept()[0])
                if reply is not None:
                    connections[-1].recv(65536)
                    connections[-1].sendall(reply)
                    connections[-1].close()
        for connection in connections:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()


def test_silence_is_a_timeout_and_bounded(make_sink: MakeSink) -> None:
    with listener(None) as url:
        began = time.monotonic()
        assert failure(make_sink(url)).reason is FailureReason.TIMEOUT
        assert time.monotonic() - began < 3


def test_what_does_not_speak_http_is_a_bad_reply(make_sink: MakeSink) -> None:
    with listener(b"220 mail.example ESMTP\r\n") as url:
        assert failure(make_sink(url)).reason is FailureReason.BAD_REPLY
